package transport

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"golang.org/x/oauth2"
)

// web serves h, and returns a transport to it.
func web(t *testing.T, h http.Handler) HTTP {
	t.Helper()
	s := httptest.NewServer(h)
	own := &http.Transport{}
	t.Cleanup(func() {
		own.CloseIdleConnections()
		s.CloseClientConnections()
		s.Close()
	})
	return HTTP{URL: s.URL + "/mcp", Transport: own}
}

func sdkServer() *mcp.Server {
	s := mcp.NewServer(&mcp.Implementation{Name: "s", Version: "1"}, nil)
	s.AddTool(&mcp.Tool{Name: "echo", InputSchema: map[string]any{"type": "object"}}, func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "hi"}}}, nil
	})
	return s
}

func TestServersOfTheSDKOverHTTP(t *testing.T) {
	server := sdkServer()
	get := func(*http.Request) *mcp.Server { return server }
	for name, tc := range map[string]struct {
		handler http.Handler
		sse     bool
	}{
		"events": {mcp.NewStreamableHTTPHandler(get, nil), false},
		"JSON":   {mcp.NewStreamableHTTPHandler(get, &mcp.StreamableHTTPOptions{JSONResponse: true}), false},
		"SSE":    {mcp.NewSSEHandler(get, nil), true},
	} {
		t.Run(name, func(t *testing.T) {
			seen := make(chan http.Header, 100)
			h := web(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				seen <- r.Header.Clone()
				tc.handler.ServeHTTP(w, r)
			}))
			h.SSE, h.UserAgent, h.Header = tc.sse, "gantry/1", http.Header{"X-Team": {"a"}, "authorization": {"Bearer x"}}
			tr, err := h.New()
			if err != nil {
				t.Fatal(err)
			}
			c := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil)
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			s, err := c.Connect(ctx, tr, &mcp.ClientSessionOptions{ProtocolVersion: "2025-06-18"})
			cancel() // it was only for the start
			if err != nil {
				t.Fatal(err)
			}
			for range 3 {
				if got, err := callRaw(t, s, "echo"); err != nil || !strings.Contains(got, `"text":"hi"`) {
					t.Fatalf("%s, %v", got, err)
				}
			}
			_ = s.Close()
			for range len(seen) {
				if h := <-seen; h.Get("User-Agent") != "gantry/1" || h.Get("X-Team") != "a" || h.Get("Authorization") != "Bearer x" {
					t.Errorf("a request has the header %v", h)
				}
			}
		})
	}
}

// answering serves initialize by itself, and passes other calls to answer.
func answering(t *testing.T, answer func(w http.ResponseWriter, r *http.Request, id any)) HTTP {
	return web(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		m, err := jsonrpc.DecodeMessage(body)
		req, ok := m.(*jsonrpc.Request)
		switch {
		case r.Method != http.MethodPost:
			w.WriteHeader(http.StatusMethodNotAllowed)
		case err != nil || !ok || !req.IsCall():
			w.WriteHeader(http.StatusAccepted)
		case req.Method == "initialize":
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("Mcp-Session-Id", "s1")
			_, _ = fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%v,"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"raw","version":"1"}}}`, req.ID.Raw())
		default:
			answer(w, r, req.ID.Raw())
		}
	}))
}

func TestAnswersOverHTTP(t *testing.T) {
	long := strings.Repeat("x", MaxFrame)
	write := func(mediaType string, status int, format string) func(w http.ResponseWriter, r *http.Request, id any) {
		return func(w http.ResponseWriter, r *http.Request, id any) {
			if mediaType != "" {
				w.Header().Set("Content-Type", mediaType)
			}
			w.Header().Set("Retry-After", "7")
			w.Header().Set("WWW-Authenticate", "Bearer x=1")
			w.WriteHeader(status)
			if strings.Contains(format, "%v") {
				format = fmt.Sprintf(format, id)
			}
			_, _ = io.WriteString(w, format)
		}
	}
	for _, tc := range []struct {
		name   string
		answer func(w http.ResponseWriter, r *http.Request, id any)
		want   string
		err    string
		status int // of a StatusError
	}{
		{"JSON", write("application/json", 200, `{"jsonrpc":"2.0","id":%v,"result":`+result+`}`), result, "", 0},
		{"event", write("text/event-stream", 200, ": hello\n\nid: 1\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/x\"}\n\nevent: message\nid: 2\ndata: {\"jsonrpc\":\"2.0\",\ndata:\"id\":%v,\"result\":"+result+"}\n\n"), result, "", 0},
		{"event with other line ends", write("text/event-stream", 200, "event: message\r\ndata: {\"jsonrpc\":\"2.0\",\"id\":%v,\"result\":"+result+"}\r\n\r\n"), result, "", 0},
		{"too much JSON", write("application/json", 200, `{"jsonrpc":"2.0","id":%v,"result":{"content":"`+long+`"}}`), "", "the maximum is 16777216", 0},
		{"too large an event", write("text/event-stream", 200, "id: 1\nevent: message\ndata: {\"jsonrpc\":\"2.0\",\"id\":%v,\"result\":{\"content\":\""+long+"\"}}\n\n"), "", "the maximum is 16777216", 0},
		{"an event without end", func(w http.ResponseWriter, r *http.Request, id any) {
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = fmt.Fprintf(w, "data: {\"jsonrpc\":\"2.0\",\"id\":%v,\"result\":\ndata: %s", id, long)
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		}, "", "the maximum is 16777216", 0},
		{"error of the protocol", write("application/json", 400, `{"jsonrpc":"2.0","id":%v,"error":{"code":-32603,"message":"kaput","data":{"x":1}}}`), "", "kaput", 0},
		{"HTML", write("text/html; charset=utf-8", 200, "<html>%v</html>"), "", "it answered with text/html instead of JSON", 200},
		{"nothing", write("", 204, ""), "", "it answered with nothing instead of JSON", 204},
		{"401", write("text/plain", 401, "who are you"), "", "it answered with HTTP 401 Unauthorized", 401},
		{"404 of a session", write("application/json", 404, `{"jsonrpc":"2.0","id":%v,"error":{"code":-32001,"message":"Session not found"}}`), "", "it answered with HTTP 404", 404},
		{"429", write("text/plain", 429, "slow down"), "", "HTTP 429 Too Many Requests, to be tried again after 7", 429},
		{"503", write("text/html", 503, "<html>"), "", "HTTP 503 Service Unavailable", 503},
	} {
		t.Run(tc.name, func(t *testing.T) {
			fail := true
			h := answering(t, func(w http.ResponseWriter, r *http.Request, id any) {
				if fail {
					fail = false
					tc.answer(w, r, id)
					return
				}
				write("application/json", 200, `{"jsonrpc":"2.0","id":%v,"result":`+result+`}`)(w, r, id)
			})
			tr, err := h.New()
			if err != nil {
				t.Fatal(err)
			}
			s, err := connect(t, tr)
			if err != nil {
				t.Fatal(err)
			}
			got, err := callRaw(t, s, "x")
			if got != tc.want || tc.err == "" && err != nil || tc.err != "" && (err == nil || !strings.Contains(err.Error(), tc.err)) {
				t.Errorf("%.100s, %v", got, err)
			}
			status, _ := errors.AsType[*StatusError](err)
			if tc.status == 0 && status != nil || tc.status != 0 && (status == nil || status.Code != tc.status || !status.Session || status.Challenge != "Bearer x=1") {
				t.Errorf("status %+v", status)
			}
			if got, err := callRaw(t, s, "x"); err != nil || got != result {
				t.Errorf("the next call: %.100s, %v", got, err)
			}
		})
	}
}

func TestRequestsStayAtTheirOrigin(t *testing.T) {
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("another origin was asked") }))
	defer other.Close()
	for name, h := range map[string]HTTP{
		"redirect": web(t, http.RedirectHandler(other.URL+"/x", http.StatusTemporaryRedirect)),
		"address of an event": web(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = fmt.Fprintf(w, "event: endpoint\ndata: %s/x\n\n", other.URL)
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		})),
	} {
		t.Run(name, func(t *testing.T) {
			h.SSE = name != "redirect"
			tr, err := h.New()
			if err != nil {
				t.Fatal(err)
			}
			_, err = connect(t, tr)
			origin, ok := errors.AsType[*OriginError](err)
			if !ok || origin.Other != other.URL {
				t.Errorf("error %v", err)
			}
		})
	}
}

// renewable provides a token that the server refuses, and then another one.
type renewable struct {
	token string
	next  string // what Authorize obtains; empty: an error
	asked int
}

func (r *renewable) TokenSource(context.Context) (oauth2.TokenSource, error) {
	return oauth2.StaticTokenSource(&oauth2.Token{AccessToken: r.token}), nil
}

func (r *renewable) Authorize(_ context.Context, req *http.Request, _ *http.Response) error {
	r.asked++
	if r.next == "" || req.Header.Get("Authorization") != "Bearer "+r.token {
		return errors.New("log in first")
	}
	r.token = r.next
	return nil
}

// Requests of all transports carry the token; one that is refused is sent once more with another one.
func TestTokens(t *testing.T) {
	server := sdkServer()
	get := func(*http.Request) *mcp.Server { return server }
	for name, handler := range map[string]http.Handler{"http": mcp.NewStreamableHTTPHandler(get, nil), "sse": mcp.NewSSEHandler(get, nil)} {
		for _, tc := range []struct {
			name  string
			oauth *renewable
			err   string
			asked int
		}{
			{"renewed", &renewable{token: "old", next: "good"}, "", 1},
			{"not renewed", &renewable{token: "old"}, "log in first", 1},
			{"refused again", &renewable{token: "old", next: "other"}, "HTTP 401", 1},
			{"good", &renewable{token: "good"}, "", 0},
		} {
			t.Run(name+", "+tc.name, func(t *testing.T) {
				h := web(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if r.Header.Get("Authorization") != "Bearer good" {
						w.WriteHeader(http.StatusUnauthorized)
						return
					}
					handler.ServeHTTP(w, r)
				}))
				h.SSE, h.OAuth = name == "sse", tc.oauth
				tr, err := h.New()
				if err != nil {
					t.Fatal(err)
				}
				s, err := connect(t, tr)
				if err == nil {
					_, err = callRaw(t, s, "echo")
				}
				if tc.err == "" && err != nil || tc.err != "" && (err == nil || !strings.Contains(err.Error(), tc.err)) || tc.oauth.asked != tc.asked {
					t.Errorf("error %v, want %q; asked %d times, want %d", err, tc.err, tc.oauth.asked, tc.asked)
				}
			})
		}
	}
}

func TestAddresses(t *testing.T) {
	for _, u := range []string{"", "example.com", "file:///x", "http://", "https:x", "http://[::1"} {
		if _, err := (HTTP{URL: u}).New(); err == nil {
			t.Errorf("%q is accepted", u)
		}
	}
}

func FuzzEvents(f *testing.F) {
	f.Add([]byte(": x\n\ndata: {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":" + result + "}\n\ndata\ndata:\nid\n\n"))
	f.Add([]byte("\r\n\r\ndata: a\r\ndata: b\r\n\r\n\xff\x00"))
	f.Fuzz(func(t *testing.T, stream []byte) {
		const last = "\n\ndata: last\n\n"
		all := io.MultiReader(strings.NewReader(string(stream)), strings.NewReader(last))
		e := &events{body: io.NopCloser(all), r: bufio.NewReaderSize(all, 16)}
		got, err := io.ReadAll(e)
		if err != nil || !strings.HasSuffix(string(got), "data: last\n\n") {
			t.Fatalf("%q became %q, %v", stream, got, err)
		}
	})
}
