package cassette

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/gantry-agent/gantry/sdk/llm"
)

// stage is a recorder on its way to a server.
type stage struct {
	t      *testing.T
	path   string // of the file
	url    string
	client *http.Client
	warned []string
}

func record(t *testing.T, path string, h http.HandlerFunc) *stage {
	t.Helper()
	s := httptest.NewServer(h)
	out := &stage{t: t, path: path, url: s.URL}
	r, err := NewRecorder(RecorderConfig{Path: path, Environ: environment, Warn: func(text string) { out.warned = append(out.warned, text) }})
	if err != nil {
		t.Fatal(err)
	}
	out.client = &http.Client{Transport: r.Around(&http.Transport{})}
	t.Cleanup(func() {
		out.client.CloseIdleConnections()
		s.CloseClientConnections()
		s.Close()
	})
	return out
}

// say sends a request and returns what was read of the answer.
func (s *stage) say(body string) (string, error) {
	s.t.Helper()
	return say(s.client, s.url, body)
}

func say(c *http.Client, base, body string) (string, error) {
	req, err := http.NewRequest(http.MethodPost, base+"/say", strings.NewReader(body))
	if err != nil {
		return "", err
	}
	req.Header.Set("Authorization", "Bearer the-key-itself")
	req.Header.Set("Content-Type", "application/json")
	res, err := c.Do(req)
	if err != nil {
		return "", err
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	return fmt.Sprintf("%d %s", res.StatusCode, b), err
}

func (s *stage) recorded() []Interaction {
	s.t.Helper()
	c, err := Load(s.path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		s.t.Fatal(err)
	}
	return c.Interactions
}

func echo(w http.ResponseWriter, r *http.Request) {
	b, _ := io.ReadAll(r.Body)
	w.Header().Set("X-Request-Id", "req_1")
	_, _ = fmt.Fprintf(w, "you said %s with %s", b, r.Header.Get("Authorization"))
}

func TestRecording(t *testing.T) {
	path := filepath.Join(t.TempDir(), "hello.json")
	s := record(t, path, echo)
	if got, err := s.say(`{"a": 1}`); err != nil || got != `200 you said {"a": 1} with Bearer the-key-itself` {
		t.Fatalf("the answer changed: %q, %v", got, err)
	}
	c, err := Load(path)
	if err != nil {
		t.Fatal(err)
	}
	if m := c.Metadata; m.Name != "hello" || m.RecordedAt.IsZero() {
		t.Errorf("metadata %+v", m)
	}
	in := c.Interactions[0]
	if in.Request.Method != "POST" || in.Request.URL != s.url+"/say" || string(in.Request.Body) != `{"a":1}` || in.Request.Headers["authorization"] != mark {
		t.Errorf("request %+v", in.Request)
	}
	if r := in.Response; r.Status != 200 || string(r.Body) != `you said {"a": 1} with <redacted>` || r.Headers["x-request-id"] != "req_1" || r.Cut {
		t.Errorf("response %+v", r)
	}
	text, err := os.ReadFile(path)
	if err != nil || strings.Contains(string(text), "the-key-itself") {
		t.Errorf("the key is in the file (%v):\n%s", err, text)
	}
	// Another recorder, of a process that was started anew, goes on.
	if _, err := record(t, path, echo).say(`{"a":2}`); err != nil {
		t.Fatal(err)
	}
	if n := len(s.recorded()); n != 2 {
		t.Errorf("%d interactions, want 2", n)
	}
	if s.warned != nil {
		t.Errorf("warned: %q", s.warned)
	}
}

func TestRecordingSideBySide(t *testing.T) {
	s := record(t, filepath.Join(t.TempDir(), "c.json"), echo)
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			if _, err := s.say(fmt.Sprint(i)); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	seen := map[string]bool{}
	for _, in := range s.recorded() {
		seen[string(in.Request.Body)] = true
	}
	if len(seen) != 8 {
		t.Errorf("recorded are %v", seen)
	}
}

// An answer that breaks off is recorded up to there, and breaks off there when it is played.
func TestACutAnswer(t *testing.T) {
	s := record(t, filepath.Join(t.TempDir(), "c.json"), func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte("half of it"))
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	})
	if got, err := s.say("x"); got != "200 half of it" || !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Fatalf("%q, %v", got, err)
	}
	in := s.recorded()
	if len(in) != 1 || !in[0].Response.Cut || string(in[0].Response.Body) != "half of it" {
		t.Fatalf("%+v", in)
	}
	p := NewPlayer(PlayerConfig{Name: "c", Cassette: &Cassette{Interactions: in}})
	if got, err := say(&http.Client{Transport: p}, s.url, "x"); got != "200 half of it" || !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("played: %q, %v", got, err)
	}
}

// Who has read enough closes the answer; that is no break.
func TestAnAnswerThatIsNotReadToItsEnd(t *testing.T) {
	s := record(t, filepath.Join(t.TempDir(), "c.json"), func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("hello world")) })
	res, err := s.client.Post(s.url, "text/plain", strings.NewReader("x"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(res.Body, make([]byte, 5)); err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	res.Body.Close()
	if in := s.recorded(); len(in) != 1 || string(in[0].Response.Body) != "hello" || in[0].Response.Cut {
		t.Errorf("%+v", in)
	}
}

func TestWithoutAnAnswerNothingIsRecorded(t *testing.T) {
	s := record(t, filepath.Join(t.TempDir(), "c.json"), func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	if _, err := s.say("x"); err == nil {
		t.Fatal("there was an answer")
	}
	if in := s.recorded(); in != nil {
		t.Errorf("%+v", in)
	}
}

func TestARequestWithASecretIsNotSent(t *testing.T) {
	sent := false
	s := record(t, filepath.Join(t.TempDir(), "c.json"), func(http.ResponseWriter, *http.Request) { sent = true })
	_, err := s.say(`{"text":"my key is AKIAABCDEFGHIJKLMNOP"}`)
	e, ok := errors.AsType[*llm.Error](err)
	if !ok || e.Message != "the request was not sent, because it can't be recorded: the request's body, at text contains what looks like an AWS access key" || e.Retryable || e.Next == "" {
		t.Errorf("%v", err)
	}
	if sent || s.recorded() != nil {
		t.Errorf("sent: %v, recorded: %v", sent, s.recorded())
	}
	// Nothing is lost by it: what can be recorded goes on.
	if _, err := s.say(`{}`); err != nil || !sent {
		t.Errorf("after it: %v", err)
	}
}

func TestAnAnswerWithASecretIsNotRecorded(t *testing.T) {
	secret := "correct-horse"
	answer := "fine"
	s := record(t, filepath.Join(t.TempDir(), "c.json"), func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(answer)) })
	if _, err := s.say("1"); err != nil {
		t.Fatal(err)
	}
	answer = "it is " + secret
	if got, err := s.say("2"); err != nil || got != "200 it is correct-horse" {
		t.Errorf("the answer was paid for and has not come: %q, %v", got, err)
	}
	if in := s.recorded(); len(in) != 1 {
		t.Errorf("%d interactions, want 1", len(in))
	}
	want := "line 1 of the answer's body contains what looks like the value of the variable MY_API"
	if len(s.warned) != 1 || !strings.HasSuffix(s.warned[0], want) || strings.Contains(s.warned[0], secret) {
		t.Errorf("warned: %q", s.warned)
	}
	// From here on the file would tell another story than what happened.
	if _, err := s.say("3"); err == nil || !strings.Contains(err.Error(), "is no longer complete") || !strings.Contains(err.Error(), want) {
		t.Errorf("the next request: %v", err)
	}
}

func TestAFileThatCantBeWritten(t *testing.T) {
	dir := t.TempDir()
	s := record(t, filepath.Join(dir, "gone", "c.json"), echo)
	if got, err := s.say("1"); err != nil || !strings.HasPrefix(got, "200") {
		t.Errorf("%q, %v", got, err)
	}
	if len(s.warned) != 1 || !strings.Contains(s.warned[0], "c.json") {
		t.Errorf("warned: %q", s.warned)
	}
	if _, err := s.say("2"); err == nil {
		t.Error("the next request went out")
	}
	// What is no cassette is never overwritten.
	path := filepath.Join(dir, "mine.json")
	if err := os.WriteFile(path, []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := NewRecorder(RecorderConfig{Path: path}); err == nil || !strings.Contains(err.Error(), "can't append to") {
		t.Errorf("%v", err)
	}
}
