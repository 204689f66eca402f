// Package vendors plays the services of model vendors on loopback, strictly: a request that the real service would refuse
// is refused here, by the vendor's published schema and by the rules that go beyond it.
//
// It owns: the wire formats as a server speaks them, their rules for requests, and what was asked. It must not know:
// gantry, or how anything of it is configured.
//
// Start with [Start].
package vendors

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/jsonschema-go/jsonschema"
)

// Answer is what the model does next, in no vendor's words.
type Answer struct {
	Reasoning string
	Text      string
	Calls     []Call
	// Fail is an answer with this status and the vendor's error object for it, in place of all else.
	Fail int
	// RetryAfter goes with Fail and Raw, in whole seconds.
	RetryAfter int
	// Raw is an answer that has not the vendor's form, in place of all else.
	Raw *Raw
	// Play writes the events of answer n itself, in place of all else; where it ends, the connection does. What is said above is
	// what the rules go by.
	Play func(w io.Writer, n int)
	// Cut ends the connection before the answer's end; what was said until then is whole.
	Cut bool
	// Break is what else goes wrong with the stream.
	Break Break
	// Stop is why the answer ends, where it is not the model that ends it.
	Stop Stop
	// Forever repeats the answer as often as it is asked for. It is the last one.
	Forever bool
	// Pause is waited before the stream and between its pieces.
	Pause time.Duration
}

// Stop is why an answer ends.
type Stop int

// The reasons.
const (
	Complete  Stop = iota
	Filtered       // a filter stepped in
	AtLimit        // it may not be longer
	Malformed      // the vendor can't read the call that its own model made; only Google says so
	Paused         // it is to be continued in the next request; only Anthropic says so
)

// Raw is an answer as it stands. The zero Status is 200.
type Raw struct {
	Status int
	Type   string // of the content; empty: the header is missing
	Header map[string]string
	Body   string
}

// Call is a tool call.
type Call struct {
	Name string
	Args map[string]any
}

// Request is one that came, in order.
type Request struct {
	Header http.Header
	Path   string
	Body   map[string]any
	Raw    []byte
}

// format is a vendor's wire format, as its server speaks it.
type format interface {
	// admit checks address and headers.
	admit(r *http.Request) error
	// check holds a body against the rules that its schema does not know. issued are the answers so far, without failures.
	check(body map[string]any, issued []Answer) error
	// write renders answer number n.
	write(s *stream, n int, a Answer)
	// muddle renders an answer with its blocks in an order that nobody promises, for [Interleaved].
	muddle(s *stream, n int, a Answer)
	// failure is the vendor's error object for a status.
	failure(status int, message string) any
	schema() string
	// about answers what is asked beside the conversation. nil: the vendor has no such address.
	about(r *http.Request) any
}

// Key is the key that all the vendors take.
const Key = "sk-loopback-0123456789abcdef"

// Server is a vendor's service.
type Server struct {
	URL string // without a path

	t      testing.TB
	format format
	schema *jsonschema.Resolved
	mu     struct {
		sync.Mutex
		answers  []Answer
		issued   []Answer
		requests []*Request
		refused  []string
	}
}

// Start starts the service of a vendor: "openai-responses", "openai-chat", "deepseek", "anthropic", "gemini",
// "ollama" or "bedrock". It gives the answers one after the other. A request that the vendor would refuse fails the test.
func Start(t testing.TB, vendor string, answers ...Answer) *Server {
	t.Helper()
	s := New(t, vendor, answers...)
	h := httptest.NewServer(s)
	s.URL = h.URL
	t.Cleanup(func() {
		h.CloseClientConnections()
		h.Close()
	})
	return s
}

// New is [Start] for a server of the caller's, which he closes before the test ends: one that speaks TLS, say.
func New(t testing.TB, vendor string, answers ...Answer) *Server {
	t.Helper()
	formats := map[string]format{
		"openai-responses": responses{}, "openai-chat": chat{}, "deepseek": chat{thinks: true}, "anthropic": anthropic{},
		"gemini": gemini{}, "ollama": ollama{}, "bedrock": bedrock{},
	}
	f, ok := formats[vendor]
	if !ok {
		t.Fatalf("no vendor %q", vendor)
	}
	schema, err := load(f.schema())
	if err != nil {
		t.Fatal(err)
	}
	s := &Server{t: t, format: f, schema: schema}
	s.mu.answers = answers
	t.Cleanup(func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, r := range s.mu.refused {
			t.Errorf("%s refused a request: %s", vendor, r)
		}
		if left := len(s.mu.answers); left > 0 && !s.mu.answers[0].Forever && !t.Failed() {
			t.Errorf("%s: %d answers were not asked for", vendor, left)
		}
	})
	return s
}

// Requests returns the requests so far, those that were answered with a failure among them.
func (s *Server) Requests() []*Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]*Request(nil), s.mu.requests...)
}

// ServeHTTP answers one request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if about := s.format.about(r); about != nil {
		w.Header().Set("Content-Type", "application/json")
		if err := json.NewEncoder(w).Encode(about); err != nil {
			s.t.Log(err)
		}
		return
	}
	if r.Method == http.MethodGet {
		http.NotFound(w, r)
		return
	}
	a, n, err := s.next(r)
	if err != nil {
		s.fail(w, http.StatusBadRequest, err.Error())
		return
	}
	if a.RetryAfter > 0 {
		w.Header().Set("Retry-After", fmt.Sprint(a.RetryAfter))
	}
	if a.Fail != 0 {
		s.fail(w, a.Fail, "the service says no")
		return
	}
	if a.Raw != nil {
		s.raw(w, a.Raw)
		return
	}
	if a.Play != nil {
		w.Header().Set("Content-Type", "text/event-stream")
		a.Play(flushing{w}, n)
		return
	}
	out := &stream{}
	if a.Break == Interleaved {
		s.format.muddle(out, n, a)
	} else {
		s.format.write(out, n, a)
	}
	if a.Break == Failing {
		out.fails(s.format.failure(http.StatusInternalServerError, "the service says no"))
	}
	out.send(w, r, a)
}

// flushing sends at once what is written.
type flushing struct{ http.ResponseWriter }

// Write implements io.Writer.
func (f flushing) Write(p []byte) (int, error) {
	n, err := f.ResponseWriter.Write(p)
	if flusher, ok := f.ResponseWriter.(http.Flusher); ok {
		flusher.Flush()
	}
	return n, err
}

func (s *Server) raw(w http.ResponseWriter, raw *Raw) {
	w.Header()["Content-Type"] = nil // so that net/http does not guess
	if raw.Type != "" {
		w.Header().Set("Content-Type", raw.Type)
	}
	for name, v := range raw.Header {
		w.Header().Set(name, v)
	}
	w.WriteHeader(cmp.Or(raw.Status, http.StatusOK))
	if _, err := io.WriteString(w, raw.Body); err != nil {
		s.t.Log(err)
	}
}

// next takes a request and says how it is answered.
func (s *Server) next(r *http.Request) (a Answer, n int, err error) {
	raw, err := io.ReadAll(r.Body)
	if err != nil {
		return a, 0, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	defer func() {
		if err != nil {
			s.mu.refused = append(s.mu.refused, err.Error())
		}
	}()
	req := &Request{Header: r.Header.Clone(), Path: r.URL.RequestURI(), Raw: raw}
	s.mu.requests = append(s.mu.requests, req)
	if r.Method != http.MethodPost {
		return a, 0, fmt.Errorf("method %s", r.Method)
	}
	r.Body = io.NopCloser(bytes.NewReader(raw)) // a signature is over it
	if err := s.format.admit(r); err != nil {
		return a, 0, err
	}
	if got := r.Header.Values("Content-Type"); len(got) != 1 || got[0] != "application/json" {
		return a, 0, fmt.Errorf("content-type %q", got)
	}
	if !strings.HasPrefix(r.UserAgent(), "gantry/") {
		return a, 0, fmt.Errorf("user-agent %q", r.UserAgent())
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	if err := d.Decode(&req.Body); err != nil {
		return a, 0, fmt.Errorf("body: %w", err)
	}
	if err := validate(s.schema, req.Body); err != nil {
		return a, 0, fmt.Errorf("%w\n%s", err, raw)
	}
	if err := s.format.check(req.Body, s.mu.issued); err != nil {
		return a, 0, fmt.Errorf("%w\n%s", err, raw)
	}
	if len(s.mu.answers) == 0 {
		return a, 0, errors.New("asked again after the last answer")
	}
	if a = s.mu.answers[0]; a.Forever {
		return a, 1, nil
	}
	s.mu.answers = s.mu.answers[1:]
	if a.Fail == 0 && a.Raw == nil {
		s.mu.issued = append(s.mu.issued, a)
	}
	return a, len(s.mu.issued), nil
}

func (s *Server) fail(w http.ResponseWriter, status int, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Request-Id", "req_loopback")
	w.WriteHeader(status)
	if err := json.NewEncoder(w).Encode(s.format.failure(status, message)); err != nil {
		s.t.Log(err)
	}
}

// nothing is what a vendor says that is asked for nothing but answers.
type nothing struct{}

func (nothing) about(*http.Request) any { return nil }

// object and list read what JSON gave; what is something else is empty.
func object(v any) map[string]any {
	m, _ := v.(map[string]any)
	return m
}

func list(v any) []any {
	l, _ := v.([]any)
	return l
}

func text(v any) string {
	s, _ := v.(string)
	return s
}

// halves cuts a text in two, for deltas.
func halves(s string) []string {
	r := []rune(s)
	if len(r) < 2 {
		return []string{s}
	}
	return []string{string(r[:len(r)/2]), string(r[len(r)/2:])}
}
