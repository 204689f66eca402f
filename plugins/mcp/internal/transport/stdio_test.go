package transport

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// peer is the other end of a Stdio, which writes what it likes.
type peer struct {
	in   *bufio.Reader // what the client writes
	out  *os.File
	junk chan string
}

// hostile connects a client to a peer that is served by serve, in its own goroutine.
func hostile(t *testing.T, serve func(p *peer)) *Stdio {
	t.Helper()
	inR, inW, err1 := os.Pipe()
	outR, outW, err2 := os.Pipe()
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	p := &peer{bufio.NewReader(inR), outW, make(chan string, 100)}
	done := make(chan struct{})
	go func() { // owned by the test, whose cleanup waits for it
		defer close(done)
		defer func() { _ = outW.Close() }()
		serve(p)
	}()
	t.Cleanup(func() {
		_ = inW.Close()
		<-done
		_, _ = inR.Close(), outR.Close()
	})
	return &Stdio{In: inW, Out: outR, Junk: func(line string, size int64) { p.junk <- fmt.Sprintf("%d %s", size, line) }}
}

// request reads what the client sends next; nil: it has closed its end.
func (p *peer) request() *jsonrpc.Request {
	for {
		line, err := p.in.ReadBytes('\n')
		if err != nil {
			return nil
		}
		m, err := jsonrpc.DecodeMessage(line)
		if r, ok := m.(*jsonrpc.Request); err == nil && ok {
			return r
		}
	}
}

func (p *peer) print(format string, args ...any) { _, _ = fmt.Fprintf(p.out, format+"\n", args...) }

// serve answers initialize, and passes other calls on.
func (p *peer) serve(call func(r *jsonrpc.Request)) {
	for r := p.request(); r != nil; r = p.request() {
		switch {
		case r.Method == "initialize":
			p.print(`{"jsonrpc":"2.0","id":%v,"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"raw","version":"1"}}}`, r.ID.Raw())
		case r.IsCall():
			call(r)
		}
	}
}

func TestJunkIsDropped(t *testing.T) { // M14
	var p *peer
	tr := hostile(t, func(started *peer) {
		p = started
		p.print("npm WARN deprecated\n{\"level\":\"info\",\"msg\":\"starting\"}\n\n{\"jsonrpc\":\"2.0\",\"id\":1,\"resu\n[1]\n5\x00\xff")
		_, _ = p.out.Write(append(bytes.Repeat([]byte("x"), 3*pieceBytes), '\n'))
		p.serve(func(r *jsonrpc.Request) {
			p.print(`{"jsonrpc":"2.0","id":%v,"result":%s}`, r.ID.Raw(), result)
			p.print("junk %d", r.ID.Raw())
		})
	})
	s, err := connect(t, tr)
	if err != nil {
		t.Fatal(err)
	}
	for range 12 {
		if got, err := callRaw(t, s, "x"); err != nil || got != result {
			t.Fatalf("%s, %v", got, err)
		}
	}
	var first []string
	for range 6 {
		first = append(first, <-p.junk)
	}
	if first[0] != "19 npm WARN deprecated" || !strings.HasPrefix(first[5], fmt.Sprintf("%d xxx", 3*pieceBytes+1)) {
		t.Errorf("dropped %.80q", first)
	}
	if n := len(first) + len(p.junk); n > maxLoggedJunk {
		t.Errorf("%d lines are logged", n)
	}
}

func TestLineThatIsTooLong(t *testing.T) {
	long := strings.Repeat("x", MaxFrame)
	for _, tc := range []struct {
		name, line string // with the ID
		err        string // of the call
		over       bool   // the connection
	}{
		{"ID first", `{"jsonrpc":"2.0","id":%v,"result":{"content":"` + long + `"}}`, "the maximum is 16777216", false},
		{"ID last", `{"result":{"content":"` + long + `"},"jsonrpc":"2.0","id":%v}`, "the maximum is 16777216", false},
		{"ID before the version", `{"result":{"content":"` + long + `","id":7},"id":%v,"jsonrpc":"2.0"}`, "the maximum is 16777216", false},
		{"no ID", `{"result":{"content":"` + long + `"},"jsonrpc":"2.0"%.0s}`, "the maximum is 16777216", false}, // of the only call
		{"no answer", `{"content":"` + long + `","jsonrpc":"2.0"%.0s}`, "which is for no known call", true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var p *peer
			tr := hostile(t, func(started *peer) {
				p = started
				p.serve(func(r *jsonrpc.Request) {
					var params struct{ Name string }
					_ = json.Unmarshal(r.Params, &params)
					if params.Name == "long" {
						p.print(`{"jsonrpc":"2.0","method":"notifications/message","params":{"data":%q}}`, long) // for nobody
						p.print(tc.line, r.ID.Raw())
						return
					}
					p.print(`{"jsonrpc":"2.0","id":%v,"result":%s}`, r.ID.Raw(), result)
				})
			})
			s, err := connect(t, tr)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := callRaw(t, s, "long"); err == nil || !strings.Contains(err.Error(), tc.err) {
				t.Errorf("error %v, want one with %q", err, tc.err)
			}
			if got, err := callRaw(t, s, "short"); !tc.over && (err != nil || got != result) || tc.over && err == nil {
				t.Errorf("afterwards: %.80s, %v", got, err)
			}
			if junk := <-p.junk; !strings.Contains(junk, "notifications/message") {
				t.Errorf("dropped %.80q", junk)
			}
		})
	}
}

// An answer that is too large ends its call as soon as that is known, and a line that does not end the connection.
func TestLineWithoutEnd(t *testing.T) {
	piece := strings.Repeat("x", 1<<20)
	tr := hostile(t, func(p *peer) {
		p.serve(func(r *jsonrpc.Request) {
			if p.print(`{"jsonrpc":"2.0","id":%v,"method":"x","params":"%s"}`, r.ID.Raw(), strings.Repeat("x", MaxFrame)); r.ID.Raw() == int64(2) { // no answer
				_, _ = fmt.Fprintf(p.out, `{"jsonrpc":"2.0","id":%v,"result":{"content":"%s`, r.ID.Raw(), strings.Repeat("x", MaxFrame+2*pieceBytes))
				p.request() // the next call
				p.print(`"}}`)
				p.print(`{"jsonrpc":"2.0","id":3,"result":%s}`, result)
				return
			}
			for range maxLine>>20 + 1 {
				_, _ = io.WriteString(p.out, piece)
			}
		})
	})
	s, err := connect(t, tr)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := callRaw(t, s, "x"); err == nil || !strings.Contains(err.Error(), "the server's answer is too large: the maximum is 16777216 bytes") {
		t.Errorf("error %v", err)
	}
	if got, err := callRaw(t, s, "x"); err != nil || got != result {
		t.Errorf("the next call: %.80s, %v", got, err)
	}
	if _, err := callRaw(t, s, "x"); err == nil || !strings.Contains(err.Error(), "the server has sent a line of more than 268435456 bytes") {
		t.Errorf("error %v", err)
	}
}

// What looks like an answer and can't be read is one that is an error; other lines are none.
func TestMalformedAnswers(t *testing.T) {
	for answer, fails := range map[string]bool{
		`{"jsonrpc":"2.0","id":%v,"result":{"content":[}`:                                                      true,
		`{"jsonrpc":"2.0","id":%v,"error":"kaput"}`:                                                            true,
		`{"result":` + strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000) + `,"jsonrpc":"2.0","id":%v}`: true,
		`[1,{"jsonrpc":"2.0","id":%v,"result":` + result + `}]`:                                                false,
		`{"jsonrpc":"2.0","id":%v,"resu`:                                                                       false,
		`{"level":"info","id":%v}`:                                                                             false,
		`{"jsonrpc":"2.0","id":%v,"method":[}`:                                                                 false,
		`{"result":1,"msg":{"id":%v}`:                                                                          false,
	} {
		tr := hostile(t, func(p *peer) {
			p.serve(func(r *jsonrpc.Request) {
				p.print(answer, r.ID.Raw())
				p.print(`{"jsonrpc":"2.0","id":%v,"result":%s}`, r.ID.Raw(), result)
			})
		})
		s, err := connect(t, tr)
		if err != nil {
			t.Fatal(err)
		}
		got, err := callRaw(t, s, "x")
		if fails && (err == nil || !strings.Contains(err.Error(), "is not valid JSON, or no answer of the protocol")) || !fails && (err != nil || got != result) {
			t.Errorf("%.80s: %s, %v", answer, got, err)
		}
	}
}

// endless is a reader of a line of the given size.
type endless struct{ first, left int }

func (e *endless) Read(p []byte) (int, error) {
	if e.left == 0 {
		return 0, io.EOF
	}
	n := min(len(p), e.left)
	for i := range p[:n] {
		p[i] = 'x'
	}
	if e.first > 0 {
		p[0], e.first = '{', 0
	}
	if e.left -= n; e.left == 0 {
		p[n-1] = '\n'
	}
	return n, nil
}

func TestLongLineTakesLittleMemory(t *testing.T) {
	for _, first := range []int{0, 1} { // junk, and what could be a message
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, long, err := (&lines{r: bufio.NewReaderSize(&endless{first, maxLine}, pieceBytes)}).next()
		runtime.ReadMemStats(&after)
		if err != nil || long == nil || long.size != maxLine || len(long.head) != glimpseBytes || len(long.tail) != glimpseBytes {
			t.Fatalf("%+v, %v", long, err)
		}
		if n := after.TotalAlloc - before.TotalAlloc; n > MaxFrame+1<<20 {
			t.Errorf("a line of 256 MiB has allocated %d bytes", n)
		}
	}
}

// An answer that is too large and whose ID comes last is an error before its end if only one call waits for an answer. With two, its end
// says which one it is for; one that was cancelled counts, since the server may still answer it.
func TestLargeAnswerWithItsIDAtTheEnd(t *testing.T) {
	for _, calls := range []int64{1, 2} {
		t.Run(fmt.Sprint(calls), func(t *testing.T) {
			begin, rest, sent := make(chan struct{}), make(chan struct{}), make(chan struct{})
			goOn := sync.OnceFunc(func() { close(rest) })
			tr := hostile(t, func(p *peer) {
				large := strings.Repeat("x", MaxFrame+2*pieceBytes) // what is read comes in pieces
				<-begin
				_, _ = io.WriteString(p.out, `{"jsonrpc":"2.0","result":{"content":[{"type":"text","text":"`+large)
				close(sent)
				<-rest
				_, _ = io.WriteString(p.out, large+`"}]},"id":1}`+"\n"+`{"jsonrpc":"2.0","result":{},"id":9}`+"\n")
				_, _ = io.Copy(io.Discard, p.in)
			})
			c, err := tr.Connect(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = c.Close() }()
			defer goOn()
			for id := range calls {
				id, err := jsonrpc.MakeID(float64(id + 1))
				if err == nil {
					c.(*stdio).flow.asked(&jsonrpc.Request{ID: id, Method: "tools/call"}) // as Write does; the server does not read
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			close(begin)
			if calls > 1 {
				<-sent
				goOn()
			}
			m, err := c.Read(within(t))
			r, ok := m.(*jsonrpc.Response)
			if err != nil || !ok || r.ID.Raw() != int64(1) || !strings.Contains(fmt.Sprint(r.Error), "too large") {
				t.Fatalf("%+v, %v", m, err)
			}
			goOn()
			m, err = c.Read(within(t))
			if r, ok := m.(*jsonrpc.Response); err != nil || !ok || r.ID.Raw() != int64(9) {
				t.Errorf("the next answer: %+v, %v", m, err)
			}
		})
	}
}

func TestServerThatDoesNotRead(t *testing.T) {
	release := make(chan struct{})
	tr := hostile(t, func(p *peer) {
		<-release
		_, _ = io.Copy(io.Discard, p.in)
	})
	c, err := tr.Connect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	large := &jsonrpc.Request{Method: "x", Params: json.RawMessage(`"` + strings.Repeat("x", 1<<20) + `"`)}
	ctx, cancel := context.WithCancel(t.Context())
	written := make(chan error)
	for range 2 { // one is being written, the other waits
		go func() { written <- c.Write(ctx, large) }() // owned by the test, which waits for its result
	}
	cancel()
	for range 2 {
		if err := <-written; !errors.Is(err, context.Canceled) {
			t.Errorf("error %v", err)
		}
	}
	close(release)
	if err := c.Write(within(t), large); err != nil {
		t.Errorf("after the server has read: %v", err)
	}
	_ = c.Close()
	if err := c.Write(within(t), large); err == nil {
		t.Error("a closed connection takes messages")
	}
}

func TestServerThatFloodsRequests(t *testing.T) {
	tr := hostile(t, func(p *peer) {
		for i := range 10_000 {
			if _, err := fmt.Fprintf(p.out, `{"jsonrpc":"2.0","id":%d,"method":"ping"}`+"\n", i); err != nil {
				return
			}
		}
		_, _ = io.Copy(io.Discard, p.in)
	})
	c, err := tr.Connect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	n := 0
	for ; err == nil; n++ {
		_, err = c.Read(within(t))
	}
	if n != maxUnanswered+1 || !strings.Contains(err.Error(), "more than 64 requests") {
		t.Errorf("%d requests, %v", n, err)
	}
}

// Requests that are answered make room for more.
func TestServerThatWaitsForAnswers(t *testing.T) {
	answers := 0
	tr := hostile(t, func(p *peer) {
		p.serve(func(r *jsonrpc.Request) {
			for i := range 3 * maxUnanswered {
				p.print(`{"jsonrpc":"2.0","id":%d,"method":"ping"}`, i)
				if line, err := p.in.ReadString('\n'); err == nil && strings.Contains(line, `"result"`) {
					answers++
				}
			}
			p.print(`{"jsonrpc":"2.0","id":%v,"result":%s}`, r.ID.Raw(), result)
		})
	})
	s, err := connect(t, tr)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := callRaw(t, s, "x"); err != nil || got != result || answers != 3*maxUnanswered {
		t.Errorf("%s, %v after %d answers", got, err, answers)
	}
}

// inMemory connects a client whose handler of log messages waits for release to a server that serves calls; print writes a message.
func inMemory(t *testing.T, overHTTP bool, release chan struct{}, serve func(print func(message string), id any)) (call func() error) {
	t.Helper()
	const hello = `{"protocolVersion":"2025-06-18","capabilities":{"tools":{},"logging":{}},"serverInfo":{"name":"raw","version":"1"}}`
	answer := func(r *jsonrpc.Request, print func(string)) {
		if r.Method == "initialize" {
			print(fmt.Sprintf(`{"jsonrpc":"2.0","id":%v,"result":%s}`, r.ID.Raw(), hello))
		} else {
			serve(print, r.ID.Raw())
		}
	}
	var tr mcp.Transport
	if overHTTP {
		var err error
		tr, err = HTTP{URL: "http://server.test/mcp", Transport: roundTrip(func(req *http.Request) (*http.Response, error) {
			resp := &http.Response{StatusCode: http.StatusAccepted, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: http.Header{}, Body: http.NoBody, Request: req}
			m, _ := sentMessage(req)
			switch r, isRequest := m.(*jsonrpc.Request); {
			case req.Method != http.MethodPost:
				resp.StatusCode = http.StatusMethodNotAllowed
			case !isRequest && m != nil: // an answer
				<-release
			case isRequest && r.IsCall():
				body, w := io.Pipe()
				resp.StatusCode, resp.Body = http.StatusOK, body
				resp.Header.Set("Content-Type", "text/event-stream")
				go func() { // ends when the body is closed
					answer(r, func(message string) { _, _ = fmt.Fprintf(w, "data: %s\n\n", message) })
					_ = w.Close()
				}()
			}
			return resp, nil
		})}.New()
		if err != nil {
			t.Fatal(err)
		}
	} else {
		inR, inW := io.Pipe()
		outR, outW := io.Pipe()
		p := &peer{in: bufio.NewReader(inR)}
		go func() { // ends with its input
			defer outW.Close()
			for r := p.request(); r != nil; r = p.request() {
				if r.IsCall() {
					answer(r, func(message string) { _, _ = fmt.Fprintln(outW, message) })
				}
			}
		}()
		tr = &Stdio{In: inW, Out: outR}
	}
	c := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, &mcp.ClientOptions{
		//lint:ignore SA1019 newer servers log elsewhere, but most are not newer
		LoggingMessageHandler: func(context.Context, *mcp.LoggingMessageRequest) { <-release },
	})
	s, err := c.Connect(t.Context(), tr, &mcp.ClientSessionOptions{ProtocolVersion: "2025-06-18"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return func() error {
		_, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: "x"})
		return err
	}
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// A server can't send more notifications than the session has handled, but for a few, and its answer comes after them.
func TestServerThatFloodsNotifications(t *testing.T) {
	for _, overHTTP := range []bool{false, true} {
		t.Run(fmt.Sprintf("over HTTP: %v", overHTTP), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var printed atomic.Int32
				release := make(chan struct{})
				call := inMemory(t, overHTTP, release, func(print func(string), id any) {
					for range 1000 {
						print(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"x"}}`)
						printed.Add(1)
					}
					print(fmt.Sprintf(`{"jsonrpc":"2.0","id":%v,"result":%s}`, id, result))
				})
				ended := make(chan error, 1)
				go func() { ended <- call() }() // owned by the test, which waits for its result
				synctest.Wait()
				if n := printed.Load(); n < maxNotices || n > 2*maxNotices {
					t.Errorf("the server has written %d messages", n)
				}
				close(release)
				if err := <-ended; err != nil || printed.Load() != 1000 {
					t.Errorf("after %d messages: %v", printed.Load(), err)
				}
			})
		})
	}
}

// A message that the SDK does not expect ends nothing.
func TestMessagesWithoutParams(t *testing.T) {
	for _, overHTTP := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			release := make(chan struct{})
			close(release)
			call := inMemory(t, overHTTP, release, func(print func(string), id any) {
				for _, method := range []string{"elicitation/complete", "message", "progress", "cancelled", "tools/list_changed", "resources/updated"} {
					print(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/%s"}`, method))
					print(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/%s","params":null}`, method))
				}
				print(fmt.Sprintf(`{"jsonrpc":"2.0","id":%v,"result":%s}`, id, result))
			})
			for range 2 {
				if err := call(); err != nil {
					t.Errorf("over HTTP: %v: %v", overHTTP, err)
				}
				synctest.Wait()
			}
		})
	}
}

func TestRequestsOverHTTPAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		defer close(release)
		call := inMemory(t, true, release, func(print func(string), id any) {
			for i := range 1000 {
				print(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"ping"}`, i))
			}
			print(fmt.Sprintf(`{"jsonrpc":"2.0","id":%v,"result":%s}`, id, result))
		})
		if err := call(); err == nil || !strings.Contains(err.Error(), "request terminated without response") {
			t.Errorf("error %v", err)
		}
	})
}

func TestBatch(t *testing.T) {
	tr := hostile(t, func(p *peer) {
		p.print(`[{"jsonrpc":"2.0","method":"a"},{"jsonrpc":"2.0","id":1,"result":{}}]`)
		p.print(`[]`)
		p.print(`{"jsonrpc":"2.0","method":"b"}`)
		_, _ = io.Copy(io.Discard, p.in)
	})
	c, err := tr.Connect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	var got []string
	for range 3 {
		m, err := c.Read(within(t))
		if err != nil {
			t.Fatal(err)
		}
		if r, ok := m.(*jsonrpc.Request); ok {
			got = append(got, r.Method)
		} else {
			got = append(got, "response")
		}
	}
	if strings.Join(got, " ") != "a response b" {
		t.Error(got)
	}
}

func TestServerOfTheSDK(t *testing.T) {
	server := mcp.NewServer(&mcp.Implementation{Name: "s", Version: "1"}, nil)
	mcp.AddTool(server, &mcp.Tool{Name: "echo"}, func(context.Context, *mcp.CallToolRequest, map[string]any) (*mcp.CallToolResult, any, error) {
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "hi"}}}, nil, nil
	})
	tr := hostile(t, func(p *peer) {
		_ = server.Run(context.Background(), &mcp.IOTransport{Reader: io.NopCloser(p.in), Writer: p.out})
	})
	s, err := connect(t, tr)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := callRaw(t, s, "echo"); err != nil || !strings.Contains(got, `"text":"hi"`) {
		t.Errorf("%s, %v", got, err)
	}
	list, err := s.ListTools(within(t), nil)
	if err != nil {
		t.Fatal(err)
	}
	if raw, ok := Raw(list.Meta); !ok || !strings.Contains(string(raw), `"name":"echo"`) {
		t.Errorf("%s", raw)
	}
}

func TestTail(t *testing.T) {
	var tail Tail
	for i := range 5000 {
		_, _ = fmt.Fprintf(&tail, "line %d\n", i)
	}
	if s := tail.String(); len(s) != tailBytes || !strings.HasSuffix(s, "line 4998\nline 4999\n") {
		t.Errorf("%d bytes, %q", len(s), s[len(s)-20:])
	}
	said := strings.Repeat("x", tailBytes) + strings.Repeat("z", tailBytes-1) + "\n"
	if n, err := io.Copy(&tail, strings.NewReader(said)); err != nil || n != 2*tailBytes || tail.String() != said[tailBytes:] {
		t.Errorf("copied %d bytes, %v, and kept %d", n, err, len(tail.String()))
	}
	_, _ = tail.Write(bytes.Repeat([]byte("y"), 2*tailBytes))
	if s := tail.String(); s != strings.Repeat("y", tailBytes) {
		t.Errorf("%d bytes", len(s))
	}
}

func FuzzStdio(f *testing.F) {
	f.Add([]byte("junk\n{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":" + result + "}\n"))
	f.Add([]byte("[{\"jsonrpc\":\"2.0\",\"method\":\"x\"},5]\n{\"jsonrpc\":\"2.0\",\"id\":{},\"result\":1}\r\n\xff\x00{"))
	f.Add([]byte(`{"result":{},"id":5}` + strings.Repeat("\n{\"jsonrpc\":\"2.0\",\"id\":\"x\",\"method\":\"m\"}", 3)))
	f.Fuzz(func(t *testing.T, output []byte) {
		const last = "\n{\"jsonrpc\":\"2.0\",\"method\":\"last\"}\n"
		s := &Stdio{In: nopWriter{}, Out: io.MultiReader(bytes.NewReader(output), strings.NewReader(last))}
		c, err := s.Connect(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = c.Close() }()
		for {
			m, err := c.Read(t.Context())
			if err != nil {
				if !strings.Contains(err.Error(), "requests without waiting") {
					t.Fatalf("the last message did not arrive: %v", err)
				}
				return
			}
			if r, ok := m.(*jsonrpc.Request); ok && r.Method == "last" {
				return
			}
		}
	})
}

type nopWriter struct{}

func (nopWriter) Write(p []byte) (int, error) { return len(p), nil }
func (nopWriter) Close() error                { return nil }

func FuzzLongLine(f *testing.F) {
	f.Add([]byte(`{"jsonrpc":"2.0","id":5,"result":{`), []byte(`}}`))
	f.Add([]byte(`{"result":{`), []byte(`"id":3},"jsonrpc":"2.0","id":"a\"b"}`))
	f.Add([]byte(`{"id":1,"method":"x","params":{`), []byte(`}}`))
	f.Fuzz(func(t *testing.T, head, tail []byte) {
		l := &longLine{head: head, tail: tail}
		if id, request, _, ok := l.id(); ok && (request || !id.IsValid()) {
			t.Fatalf("%q … %q is an answer to %v", head, tail, id.Raw())
		}
	})
}

// A batch costs as much as its messages, however much junk it has.
func TestBatchIsBounded(t *testing.T) {
	message := `{"jsonrpc":"2.0","method":"a"}`
	for name, tc := range map[string]struct {
		line string
		want int
	}{
		"junk":      {"[" + strings.Repeat("0,", 1<<20) + "0]", 0},
		"then junk": {"[" + message + ",0," + message + "]", 1},
		"many":      {"[" + strings.Repeat(message+",", 2*maxBatch) + message + "]", maxBatch},
		"cut":       {"[" + message + "," + message[:10], 1},
	} {
		if got := batch([]byte(tc.line)); len(got) != tc.want {
			t.Errorf("%s: %d parts, want %d", name, len(got), tc.want)
		}
	}
}
