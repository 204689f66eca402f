package route

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/gantry-agent/gantry/providers/protocol"
	"github.com/gantry-agent/gantry/sdk/llm"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// toy is a small protocol. A frame is {"text": "..."}, {"error": {...}} or the end mark.
type toy struct {
	framing protocol.Framing
	path    string
	body    string
}

func (toy) ID() string                      { return "toy" }
func (p toy) Framing() protocol.Framing     { return p.framing }
func (p toy) Path(*protocol.Request) string { return p.path }

func (p toy) Body(r *protocol.Request) ([]byte, error) {
	if r.Request.Model == "impossible" {
		return nil, &llm.Error{Code: llm.ErrInvalidRequest, Message: "the model takes no such thing"}
	}
	if p.body != "" {
		return []byte(p.body), nil
	}
	return fmt.Appendf(nil, `{"model":%q,"namespace":%q}`, r.Request.Model, r.Namespace), nil
}

func (toy) Decode(*protocol.Request) protocol.Decoder { return &toyDecoder{} }

type toyDecoder struct{ started, settled, done bool }

func (d *toyDecoder) Step(dst []llm.Event, f protocol.Frame) ([]llm.Event, error) {
	if !d.started {
		d.started = true
		dst = append(dst, llm.StepStart{}, llm.BlockStart{Kind: llm.BlockText, ID: "0"})
	}
	if f.Done {
		d.done = true
		return append(dst, llm.BlockEnd{Kind: llm.BlockText, ID: "0"}, llm.StepFinish{Reason: llm.FinishStop}, llm.Finish{Reason: llm.FinishStop}), nil
	}
	var v struct {
		Text  string          `json:"text"`
		Error json.RawMessage `json:"error"`
		End   bool            `json:"end"`
		Over  bool            `json:"over"` // the reason of the end, with more to come
	}
	if err := json.Unmarshal(f.Data, &v); err != nil {
		return dst, protocol.Garbled("a frame is no JSON")
	}
	if v.Text != "" {
		dst = append(dst, llm.BlockDelta{Kind: llm.BlockText, ID: "0", Text: v.Text})
	}
	if failure, ok := protocol.ParseFailure(f.Data); ok && len(v.Error) > 0 {
		return dst, protocol.Classify(failure)
	}
	d.settled = d.settled || v.Over
	if v.End {
		return d.Step(dst, protocol.Frame{Done: true})
	}
	return dst, nil
}

func (d *toyDecoder) End(dst []llm.Event) ([]llm.Event, error) {
	switch {
	case d.done:
		return dst, nil
	case d.settled:
		return d.Step(dst, protocol.Frame{Done: true})
	}
	return dst, protocol.Incomplete()
}

func (d *toyDecoder) Settled() bool { return d.settled }

func (d *toyDecoder) Done() bool { return d.done }

var sse = toy{framing: protocol.FramingSSE, path: "/answer"}

func request(model string) *protocol.Request {
	return &protocol.Request{Request: &llm.Request{Model: model}}
}

// fixed is a source that has what it was made with.
func fixed(secret string) Source { return func(context.Context) (string, error) { return secret, nil } }

func open(t testing.TB, cfg Config) *Route {
	t.Helper()
	if cfg.Protocol == nil {
		cfg.Protocol = sse
	}
	cfg.Namespace = "toy"
	r, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	r.jitter = func() float64 { return 0.5 }
	t.Cleanup(func() { _ = r.Close() })
	return r
}

// loopback is a route to a server on the loopback.
func loopback(t testing.TB, cfg Config, h http.HandlerFunc) *Route {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	if cfg.BaseURL == "" {
		cfg.BaseURL = s.URL
	}
	return open(t, cfg)
}

// bubbled is a route to a server on pipes in memory, for bubbles.
func bubbled(t testing.TB, cfg Config, h http.HandlerFunc) *Route {
	t.Helper()
	l := &pipes{conns: make(chan net.Conn), closed: make(chan struct{})}
	s := &http.Server{Handler: h, ErrorLog: log.New(io.Discard, "", 0)}
	var wg sync.WaitGroup
	wg.Go(func() { _ = s.Serve(l) })
	cfg.BaseURL = "http://vendor.test"
	r := open(t, cfg)
	r.transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) { return l.dial(ctx) }
	r.transport.Proxy = nil
	t.Cleanup(func() {
		_ = s.Close()
		wg.Wait()
		r.transport.CloseIdleConnections()
	})
	return r
}

// pipes is a network of one host in memory.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func (p *pipes) dial(ctx context.Context) (net.Conn, error) {
	here, there := net.Pipe()
	select {
	case p.conns <- there:
		return here, nil
	case <-p.closed:
		return nil, errors.New("the server is gone")
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	p.once.Do(func() { close(p.closed) })
	return nil
}

func (p *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipes", Net: "unix"} }

// told collects events.
type told struct{ events []llm.Event }

func (r *told) emit(e llm.Event) error {
	r.events = append(r.events, e)
	return nil
}

func (r *told) text() string {
	var s strings.Builder
	for _, e := range r.events {
		if d, ok := e.(llm.BlockDelta); ok {
			s.WriteString(d.Text)
		}
	}
	return s.String()
}

func (r *told) attempts() []llm.Attempt {
	var out []llm.Attempt
	for _, e := range r.events {
		if a, ok := e.(llm.Attempt); ok {
			out = append(out, a)
		}
	}
	return out
}

// inOrder checks the rules of the event order.
func (r *told) inOrder(t testing.TB, err error) {
	t.Helper()
	var c llm.Checker
	for i, e := range r.events {
		if err := c.Check(e); err != nil {
			t.Fatalf("event %d: %v", i, err)
		}
	}
	if end := c.Done(); err == nil && end != nil {
		t.Fatal(end)
	}
}

// fault demands that err is one.
func fault(t testing.TB, err error) *Fault {
	t.Helper()
	f, ok := errors.AsType[*Fault](err)
	if !ok {
		t.Fatalf("error = %T %v, want a fault", err, err)
	}
	if e, ok := errors.AsType[*llm.Error](err); !ok || e != f.Err {
		t.Fatalf("the fault does not unwrap to its error: %v", e)
	}
	return f
}

// answerWith streams texts and ends.
func answerWith(texts ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for _, s := range texts {
			fmt.Fprintf(w, "data: {\"text\":%q}\n\n", s)
		}
		fmt.Fprint(w, "data: [DONE]\n\n")
	}
}

// failWith answers with a status, a body and headers given in pairs.
func failWith(status int, body string, header ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		for pair := range slices.Chunk(header, 2) {
			w.Header().Add(pair[0], pair[1])
		}
		w.WriteHeader(status)
		fmt.Fprint(w, body)
	}
}

// inTurn answers the first request with the first handler and so on; the last one goes on for ever.
func inTurn(handlers ...http.HandlerFunc) (http.HandlerFunc, *asked) {
	seen := &asked{}
	return func(w http.ResponseWriter, r *http.Request) {
		var body bytes.Buffer
		_, _ = body.ReadFrom(r.Body)
		n := seen.add(asking{r.URL.String(), r.Header.Clone(), body.String()})
		handlers[min(n, len(handlers))-1](w, r)
	}, seen
}

// asked keeps the requests that a server got.
type asked struct {
	mu   sync.Mutex
	list []asking
}

type asking struct {
	url    string
	header http.Header
	body   string
}

func (a *asked) add(r asking) (n int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.list = append(a.list, r)
	return len(a.list)
}

func (a *asked) all() []asking {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.list)
}

func TestNewRefuses(t *testing.T) {
	ok := Config{Protocol: sse, Namespace: "toy", BaseURL: "http://h"}
	tests := []struct {
		name      string
		cfg       func(*Config)
		want      string
		attribute string
	}{
		{"no protocol", func(c *Config) { c.Protocol = nil }, "protocol", ""},
		{"no namespace", func(c *Config) { c.Namespace = "" }, "namespace", ""},
		{"unknown framing", func(c *Config) { c.Protocol = toy{} }, "framing", ""},
		{"no base", func(c *Config) { c.BaseURL = "" }, "base_url", "base_url"},
		{"no scheme", func(c *Config) { c.BaseURL = "api.example.com/v1" }, "https://", "base_url"},
		{"other scheme", func(c *Config) { c.BaseURL = "ftp://h" }, "base_url", "base_url"},
		{"broken base", func(c *Config) { c.BaseURL = "http://h/%zz" }, "base_url", "base_url"},
		{"fragment", func(c *Config) { c.BaseURL = "http://h/#x" }, "fragment", "base_url"},
		{"bad header", func(c *Config) { c.Headers = map[string]string{"a b": "c"} }, "a b", "headers"},
		{"line break", func(c *Config) { c.Overlay.Headers = map[string]string{"a": "b\nc"} }, "line break", "headers"},
		{"header twice", func(c *Config) { c.Headers = map[string]string{"a": "1", "A": "2"} }, "twice", "headers"},
		{"header of the connection", func(c *Config) { c.Headers = map[string]string{"content-length": "1"} }, "connection", "headers"},
		{"overlay is a list", func(c *Config) { c.Overlay.Body = []byte(`[1]`) }, "object", "body"},
		{"overlay is broken", func(c *Config) { c.Overlay.Body = []byte(`{"a":`) }, "overlay", "body"},
		{"proxy of no kind", func(c *Config) { c.Transport.Proxy = "ftp://u:pw-1234@h" }, "proxy", "proxy"},
		{"proxy without host", func(c *Config) { c.Transport.Proxy = "http://" }, "proxy", "proxy"},
		{"broken proxy", func(c *Config) { c.Transport.Proxy = "http://h:pw-1234" }, "proxy", "proxy"},
		{"no such file", func(c *Config) { c.Transport.CAFile = "/does/not/exist" }, "ca_file", "ca_file"},
		{"no certificate", func(c *Config) { c.Transport.CAFile = "route_test.go" }, "ca_file", "ca_file"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			cfg := ok
			tt.cfg(&cfg)
			_, err := New(cfg)
			bad, ok := errors.AsType[*ConfigError](err)
			if ok != (tt.attribute != "") || ok && bad.Attribute != tt.attribute {
				t.Errorf("%T %v, want an error of %q", err, err, tt.attribute)
			}
			if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "pw-1234") {
				t.Errorf("error = %v, want %q", err, tt.want)
			}
		})
	}
	if _, err := New(ok); err != nil {
		t.Error(err)
	}
}
