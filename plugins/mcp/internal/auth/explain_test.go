package auth

import (
	"context"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/gantry-agent/gantry/plugins/mcp/internal/transport"
)

// via is a function as an http.RoundTripper.
type via func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (v via) RoundTrip(req *http.Request) (*http.Response, error) { return v(req) }

// Each way to fail has its own text, which says what to do; nothing of the SDK's or of Go's shows.
func TestErrors(t *testing.T) {
	answering := func(code int, mediaType, after string) func(w *world, c *Config) {
		return func(w *world, _ *Config) {
			w.Intrude = func(rw http.ResponseWriter, r *http.Request) bool {
				rw.Header().Set("Content-Type", mediaType)
				if after != "" {
					rw.Header().Set("Retry-After", after)
				}
				rw.WriteHeader(code)
				return true
			}
		}
	}
	dialing := func(err error) func(w *world, c *Config) {
		return func(w *world, c *Config) {
			c.Client = &http.Client{Transport: &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) { return nil, err }}}
		}
	}
	secure := httptest.NewTLSServer(http.NotFoundHandler())
	quiet := log.New(io.Discard, "", 0) // failed handshakes are not worth a line
	secure.Config.ErrorLog = quiet
	defer secure.Close()
	own := &http.Transport{}
	defer own.CloseIdleConnections()
	seen := map[string]string{}
	for name, tc := range map[string]struct {
		change func(w *world, c *Config)
		want   string
	}{
		"wrong URL":     {func(_ *world, c *Config) { c.URL += "/nothing" }, "there is nothing at http://127.0.0.1:"},
		"no such host":  {dialing(&net.DNSError{Err: "no such host", Name: "mcp.linear.ap", IsNotFound: true}), `there is no host "mcp.linear.ap"; check its url`},
		"no resolver":   {dialing(&net.DNSError{Err: "server misbehaving", Name: "mcp.linear.app", IsTemporary: true}), "can't be resolved at the moment"},
		"nobody there":  {dialing(&net.OpError{Op: "dial", Net: "tcp", Err: errors.New("connection refused")}), "no connection to"},
		"too slow":      {dialing(context.DeadlineExceeded), "did not answer in time"},
		"certificate":   {func(_ *world, c *Config) { c.URL, c.Client = secure.URL+"/mcp", &http.Client{Transport: own} }, "signed by an unknown authority"},
		"no TLS":        {func(w *world, c *Config) { c.URL = "https://" + w.API.Listener.Addr().String() + "/mcp" }, "does not use TLS"},
		"429":           {answering(429, "text/plain", "30"), "too many requests (HTTP 429); try again after 30 s"},
		"429, no time":  {answering(429, "text/plain", ""), "try again in a few minutes"},
		"500":           {answering(500, "text/html", ""), "problem of its own (HTTP 500 Internal Server Error); try again later"},
		"HTML":          {answering(200, "text/html; charset=utf-8", ""), "HTML instead of JSON; check its url"},
		"no login here": {answering(404, "application/json", ""), "create a client with the redirect address"},
		"open": {func(w *world, _ *Config) {
			w.Intrude = func(rw http.ResponseWriter, r *http.Request) bool {
				if r.URL.Path != "/mcp" {
					http.NotFound(rw, r)
				}
				return true
			}
		}, "does not ask for a login"},
		"metadata is HTML": {func(w *world, _ *Config) {
			w.Intrude = func(rw http.ResponseWriter, r *http.Request) bool {
				if strings.HasPrefix(r.URL.Path, "/.well-known") {
					rw.Header().Set("Content-Type", "text/html")
				}
				return strings.HasPrefix(r.URL.Path, "/.well-known")
			}
		}, "/.well-known/oauth-protected-resource/mcp is a web page"},
		"metadata is broken": {func(w *world, _ *Config) {
			w.Intrude = func(rw http.ResponseWriter, r *http.Request) bool {
				if r.URL.Path != w.Place {
					return false
				}
				rw.Header().Set("Content-Type", "application/json")
				_, _ = rw.Write([]byte(`{"resource":[`))
				return true
			}
		}, "is not valid JSON"},
		"token endpoint is broken": {func(w *world, _ *Config) {
			w.Intrude = func(rw http.ResponseWriter, r *http.Request) bool {
				if r.URL.Path != "/token" {
					return false
				}
				rw.Header().Set("Content-Type", "text/html")
				rw.WriteHeader(502)
				_, _ = rw.Write([]byte("secret page"))
				return true
			}
		}, "/token has a problem of its own (HTTP 502 Bad Gateway)"},
		"no such authorization server": {func(w *world, c *Config) {
			w.Meta["token_endpoint"] = "https://auth.example/token"
			next := c.Client.Transport
			c.Client = &http.Client{Transport: via(func(req *http.Request) (*http.Response, error) {
				if req.URL.Host == "auth.example" {
					return nil, &net.OpError{Op: "dial", Err: &net.DNSError{Err: "no such host", Name: "auth.example", IsNotFound: true}}
				}
				return next.RoundTrip(req)
			})}
		}, `there is no host "auth.example"; the server names this address for its login`},
		"the host refuses": {func(_ *world, c *Config) {
			c.Client = &http.Client{Transport: via(func(*http.Request) (*http.Response, error) { return nil, errors.New("not a host of this block") })}
		}, "/mcp: not a host of this block"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.API.Config.ErrorLog = quiet
			_, err := w.handler(func(c *Config) { tc.change(w, c) }).Login(within30(t), w.reserve, nil)
			if err == nil || !strings.Contains(err.Error(), tc.want) || !strings.HasPrefix(err.Error(), `the server "linear"`) {
				t.Fatalf("%v", err)
			}
			for _, leak := range []string{"oauth2:", "oauthex", "bad status", "secret page", "dial tcp", "Post \"", "Get \""} {
				if strings.Contains(err.Error(), leak) {
					t.Errorf("the text shows %q: %v", leak, err)
				}
			}
			if other, ok := seen[err.Error()]; ok {
				t.Errorf("%s has the same text: %v", other, err)
			}
			seen[err.Error()] = name
		})
	}
	for _, tc := range []struct {
		status transport.StatusError
		want   string
	}{
		{transport.StatusError{Code: 401}, "run `gantry mcp login linear`, or check bearer_token and headers"},
		{transport.StatusError{Code: 403}, "refuses the request (HTTP 403); your account may lack the permission"},
		{transport.StatusError{Code: 405}, "check url and transport"},
		{transport.StatusError{Code: 418}, "HTTP 418 I'm a teapot"},
		{transport.StatusError{Code: 429, After: time.Unix(0, 0).UTC().Format(http.TimeFormat)}, "after Thu, 01 Jan 1970 00:00:00 GMT"},
		{transport.StatusError{Code: 200, MediaType: "image/png"}, `answered with "image/png" instead of JSON`},
	} {
		err := Explain("linear", "https://mcp.linear.app/mcp", &tc.status)
		if !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%v, not %q", err, tc.want)
		}
		if _, ok := errors.AsType[*transport.StatusError](err); !ok || Explain("x", "y", err) != err {
			t.Errorf("%v: the cause is lost, or it is explained twice", err)
		}
	}
	if Explain("linear", "", nil) != nil {
		t.Error("no error is explained")
	}
}

// Errors of a session are explained as well: the SDK keeps what has happened.
func TestErrorsOfSessions(t *testing.T) {
	w, h := loggedIn(t)
	s, err := w.connect(h)
	if err != nil {
		t.Fatal(err)
	}
	for code, want := range map[int]string{
		403: "refuses the request (HTTP 403)", 404: "there is nothing at http://127.0.0.1:", 429: "gets too many requests", 503: "problem of its own (HTTP 503",
	} {
		w.Set(func() {
			w.Intrude = func(rw http.ResponseWriter, r *http.Request) bool {
				if r.Method == http.MethodPost {
					rw.WriteHeader(code)
				}
				return r.Method == http.MethodPost
			}
		})
		if err := h.Explain(call(t, s, "read")); !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), `the server "linear": `) {
			t.Errorf("%v", err)
		}
	}
	w.Client.Transport = via(func(*http.Request) (*http.Response, error) {
		return nil, &net.OpError{Op: "dial", Err: &net.DNSError{Err: "no such host", Name: "mcp.linear.ap", IsNotFound: true}}
	})
	_, err = w.connect(h)
	if err = h.Explain(err); !strings.Contains(err.Error(), `there is no host "mcp.linear.ap"; check its url`) {
		t.Errorf("%v", err)
	}
}
