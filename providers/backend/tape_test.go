package backend

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/providers/cassette"
	"github.com/gantry-agent/gantry/sdk/configblock"
	"github.com/gantry-agent/gantry/sdk/llm"
	"github.com/gantry-agent/gantry/sdk/provider"
)

func answered(t *testing.T, s *service, text string) (string, error) {
	t.Helper()
	var got string
	err := s.Stream(t.Context(), &provider.StreamRequest{Request: &llm.Request{
		Model: "m", Messages: []llm.Message{{Role: llm.RoleUser, Parts: []llm.Part{&llm.Text{Text: text}}}},
	}, MaxAttempts: 1}, func(e llm.Event) error {
		if d, ok := e.(llm.BlockDelta); ok {
			got += d.Text
		}
		return nil
	})
	return got, err
}

// A recorded conversation comes again when the service is gone, without its key.
func TestRecordAndReplay(t *testing.T) {
	t.Setenv("CI", "")
	n := 0
	h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n++
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "application/x-ndjson")
		fmt.Fprintf(w, "{\"n\":%d}\n", n)
	}))
	path := filepath.Join(t.TempDir(), "c.json")
	block := fmt.Sprintf(`"base_url": %q`, h.URL)
	s, err := newTestService(t, Vendor{}, fmt.Sprintf(`{%s, "api_key": "sk-very-secret", "record": %q}`, block, path))
	if err != nil {
		t.Fatal(err)
	}
	for i, text := range []string{"one", "two"} {
		if got, err := answered(t, s, text); err != nil || got != fmt.Sprintf(`{"n":%d}`, i+1) {
			t.Fatalf("%q, %v", got, err)
		}
	}
	s.Close()
	h.CloseClientConnections()
	h.Close()
	if b, err := os.ReadFile(path); err != nil || strings.Contains(string(b), "sk-very-secret") {
		t.Fatalf("%v\n%s", err, b)
	}

	s, err = newTestService(t, Vendor{}, fmt.Sprintf(`{%s, "replay": %q, "ca_file": "/nowhere", "oauth": {"client_id": "c", "token_url": "https://h/t"}}`, block, path))
	if err != nil {
		t.Fatal(err)
	}
	for i, text := range []string{"two", "one"} {
		if got, err := answered(t, s, text); err != nil || got != fmt.Sprintf(`{"n":%d}`, 2-i) {
			t.Errorf("%s: %q, %v", text, got, err)
		}
	}
	_, err = answered(t, s, "one")
	if e, ok := errors.AsType[*llm.Error](err); !ok || e.Code != llm.ErrInvalidRequest || !strings.Contains(e.Message, "no unused match in "+path) {
		t.Errorf("once more: %v", err)
	}

	s, err = newTestService(t, Vendor{}, fmt.Sprintf(`{%s, "replay": %q, "replay_match": "order"}`, block, path))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := answered(t, s, "something else"); err != nil || got != `{"n":1}` {
		t.Errorf("in order: %q, %v", got, err)
	}
}

// What a vendor asks beside the conversation is part of it: an answer may depend on it. A login never is.
func TestWhatIsRecorded(t *testing.T) {
	t.Setenv("CI", "")
	h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "{}") }))
	defer h.Close()
	path := filepath.Join(t.TempDir(), "c.json")
	c := &Config{Record: path}
	asked, err := c.Client()
	if err != nil {
		t.Fatal(err)
	}
	login, err := c.transport().Client()
	if err != nil {
		t.Fatal(err)
	}
	for name, client := range map[string]*http.Client{"models": asked, "token": login} {
		defer client.CloseIdleConnections()
		res, err := client.Get(h.URL + "/" + name)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
	}
	recorded, err := cassette.Load(path)
	if err != nil || len(recorded.Interactions) != 1 || !strings.HasSuffix(recorded.Interactions[0].Request.URL, "/models") {
		t.Errorf("%+v, %v", recorded, err)
	}
}

func TestATapeThatCantBe(t *testing.T) {
	dir := t.TempDir()
	none, broken := filepath.Join(dir, "none.json"), filepath.Join(dir, "broken.json")
	if err := os.WriteFile(broken, []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ name, ci, block, attribute, want string }{
		{"both", "", `"record": "/a", "replay": "/b"`, "replay", "exclude each other"},
		{"relative", "", `"record": "c.json"`, "record", `"c.json" is relative`},
		{"relative replay", "", `"replay": "./c.json"`, "replay", "is relative"},
		{"nothing to replay", "", fmt.Sprintf(`"replay": %q`, none), "replay", "the recording " + none + " does not exist"},
		{"another file", "", fmt.Sprintf(`"replay": %q`, broken), "replay", "has no version"},
		{"another file in the way", "", fmt.Sprintf(`"record": %q`, broken), "record", "can't append to"},
		{"CI records nothing", "true", fmt.Sprintf(`"record": %q`, none), "record", "none is created if CI=true"},
		{"not how it is matched", "", `"replay_match": "luck"`, "", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Setenv("CI", tt.ci)
			cfg := &Config{}
			ds := configblock.Decode([]byte("{"+tt.block+"}"), cfg)
			if tt.want == "" {
				if len(ds) == 0 {
					t.Error("taken")
				}
				return
			}
			_, err := cfg.Client()
			ds = configblock.Diagnostics(err)
			if len(ds) != 1 || !strings.Contains(ds[0].Summary, tt.want) || len(ds[0].Path) != 1 || ds[0].Path[0].Name != tt.attribute {
				t.Errorf("%+v", ds)
			}
			if _, again := newTestService(t, Vendor{}, "{"+tt.block+"}"); again == nil {
				t.Error("the provider was made all the same")
			}
		})
	}
	if _, err := os.Stat(none); err == nil {
		t.Error("a file was made")
	}
}

// Where CI=true is set a recording is replayed.
func TestCIReplays(t *testing.T) {
	path := filepath.Join(t.TempDir(), "c.json")
	text := `{"version":1,"interactions":[{"transport":"http","request":{"method":"GET","url":"http://vendor.test/models"},"response":{"status":200,"body":"[]"}}]}`
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("CI", "true")
	client, err := (&Config{Record: path}).Client()
	if err != nil {
		t.Fatal(err)
	}
	res, err := client.Get("http://vendor.test/models")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if b, err := io.ReadAll(res.Body); err != nil || string(b) != "[]" {
		t.Errorf("%q, %v", b, err)
	}
}

// Without a key a request can be looked at, and is not sent.
func TestPrepareSaysThatTheKeyIsMissing(t *testing.T) {
	s, err := newTestService(t, Vendor{}, `{}`)
	if err != nil {
		t.Fatal(err)
	}
	p, err := s.Prepare(t.Context(), &llm.Request{Model: "m"})
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(p.Headers); !strings.Contains(got, "{Authorization <missing>}") {
		t.Errorf("headers %s", got)
	}
	_, err = answered(t, s, "hi")
	e, ok := errors.AsType[*llm.Error](err)
	if !ok || e.Code != llm.ErrAuthentication || !strings.Contains(e.Message, "the provider's block has no key for Acme") || !strings.Contains(e.Next, "ACME_API_KEY") {
		t.Errorf("%v", err)
	}
}
