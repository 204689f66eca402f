package ollamahost_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/gantry-agent/gantry/providers/ollamahost"
	"github.com/gantry-agent/gantry/providers/protocol/ollama"
	"github.com/gantry-agent/gantry/sdk/llm"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// server answers paths with these bodies; one that begins with a number answers with that status.
func server(t *testing.T, answers map[string]string) *ollamahost.Client {
	t.Helper()
	return clientOf(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer, ok := answers[r.Method+" "+r.URL.Path]
		if !ok {
			http.NotFound(w, r)
			return
		}
		var status int
		if n, _ := fmt.Sscanf(answer, "%d ", &status); n == 1 {
			w.WriteHeader(status)
			answer = answer[4:]
		}
		fmt.Fprint(w, answer)
	}), "")
}

func clientOf(t *testing.T, h http.Handler, path string) *ollamahost.Client {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	c, err := ollamahost.New(s.URL+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func wantError(t *testing.T, err error, code llm.ErrorCode, message, next string) {
	t.Helper()
	e, ok := errors.AsType[*llm.Error](err)
	if !ok {
		t.Fatalf("error %T %v, want an *llm.Error", err, err)
	}
	if e.Code != code || !strings.Contains(e.Message, message) || !strings.Contains(e.Next, next) {
		t.Errorf("error %v %q, next %q; want %v %q, next %q", e.Code, e.Message, e.Next, code, message, next)
	}
}

func TestAskingAServer(t *testing.T) {
	c := server(t, map[string]string{
		"GET /api/tags":  `{"models":[{"name":"qwen3:8b","size":5}]}`,
		"POST /api/show": `{"model_info":{"general.architecture":"qwen3","qwen3.context_length":262144},"capabilities":["thinking"]}`,
		"GET /api/ps":    `{"models":[{"name":"qwen3:8b","context_length":4096},{"name":"llama3:latest","context_length":8192}]}`,
	})
	ctx := t.Context()
	if models, err := c.Models(ctx); err != nil || len(models) != 1 || models[0].Name != "qwen3:8b" {
		t.Errorf("models = %+v, %v", models, err)
	}
	details, err := c.Show(ctx, "qwen3:8b")
	if err != nil || details.TrainedContext != 262144 {
		t.Errorf("details = %+v, %v", details, err)
	}
	loaded, ok, err := c.Loaded(ctx, "qwen3:8b")
	if err != nil || !ok || ollama.ContextWarning("qwen3:8b", 32768, loaded.Context) == "" {
		t.Errorf("loaded = %+v, %v, %v, want a context that is too small", loaded, ok, err)
	}
	if loaded, ok, err := c.Loaded(ctx, "llama3"); err != nil || !ok || loaded.Context != 8192 {
		t.Errorf("loaded = %+v, %v, %v, want the latest", loaded, ok, err)
	}
	if _, ok, err := c.Loaded(ctx, "other"); err != nil || ok {
		t.Errorf("a model that is not loaded: %v, %v", ok, err)
	}
}

// The server's own API is beside the OpenAI-compatible one.
func TestCompatibleAddress(t *testing.T) {
	var paths []string
	c := clientOf(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		paths = append(paths, r.URL.Path)
		fmt.Fprint(w, `{}`)
	}), "/v1/")
	if _, err := c.Models(t.Context()); err != nil {
		t.Error(err)
	}
	if want := []string{"/api/tags"}; !slices.Equal(paths, want) {
		t.Errorf("paths %v, want %v", paths, want)
	}
}

func TestTheModelIsNamed(t *testing.T) {
	var got map[string]any
	c := clientOf(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		json.NewDecoder(r.Body).Decode(&got)
		fmt.Fprint(w, `{}`)
	}), "")
	if _, err := c.Show(t.Context(), "qwen3:8b"); err != nil || got["model"] != "qwen3:8b" {
		t.Errorf("asked for %v, %v", got, err)
	}
}

func TestRefusals(t *testing.T) {
	c := server(t, map[string]string{
		"POST /api/show": `404 {"error":"model 'x' not found"}`,
		"GET /api/tags":  `200 <html>`,
		"GET /api/ps":    `500 oops`,
	})
	_, err := c.Show(t.Context(), "x")
	wantError(t, err, llm.ErrInvalidRequest, "model 'x' not found", "ollama pull x")
	_, err = c.Models(t.Context())
	wantError(t, err, llm.ErrInvalidOutput, "/api/tags", "base_url")
	_, _, err = c.Loaded(t.Context(), "x")
	wantError(t, err, llm.ErrProviderInternal, "answered /api/ps with status 500", "")
	_, err = server(t, map[string]string{"GET /api/tags": `401 {"error":"unauthorized"}`}).Models(t.Context())
	wantError(t, err, llm.ErrAuthentication, "unauthorized", "key")
}

func TestNobodyThere(t *testing.T) {
	s := httptest.NewServer(http.NotFoundHandler())
	address := s.URL
	s.Close()
	c, err := ollamahost.New(address, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_, err = c.Models(t.Context())
	wantError(t, err, llm.ErrTransport, "no Ollama server answers at "+address, "ollama serve")

	ctx, cancel := context.WithCancelCause(t.Context())
	gone := errors.New("nobody waits")
	cancel(gone)
	if _, err := c.Models(ctx); !errors.Is(err, gone) {
		t.Errorf("a question that nobody waits for: %v", err)
	}
}

// A client of the caller's brings its own way of travelling.
func TestOwnClient(t *testing.T) {
	asked := ""
	client := &http.Client{Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
		asked = r.URL.String()
		w := httptest.NewRecorder()
		fmt.Fprint(w, `{"models":[]}`)
		return w.Result(), nil
	})}
	c, err := ollamahost.New("https://ollama.com", client)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Models(t.Context()); err != nil || asked != "https://ollama.com/api/tags" {
		t.Errorf("asked %s, %v", asked, err)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestAddress(t *testing.T) {
	tests := []struct {
		name string
		env  map[string]string
		want string
	}{
		{"nothing is said", nil, "http://localhost:11434"},
		{"a host", map[string]string{"OLLAMA_HOST": "box"}, "http://box:11434"},
		{"host and port", map[string]string{"OLLAMA_HOST": " box:8080 "}, "http://box:8080"},
		{"a port", map[string]string{"OLLAMA_HOST": ":8080"}, "http://localhost:8080"},
		{"all interfaces", map[string]string{"OLLAMA_HOST": "0.0.0.0:8080"}, "http://localhost:8080"},
		{"all interfaces, of the newer kind", map[string]string{"OLLAMA_HOST": "[::]"}, "http://localhost:11434"},
		{"an address of the newer kind", map[string]string{"OLLAMA_HOST": "http://[::1]:8080/"}, "http://[::1]:8080"},
		{"a URL", map[string]string{"OLLAMA_HOST": "https://ollama.com"}, "https://ollama.com"},
		{"a URL of the newer kind", map[string]string{"OLLAMA_HOST": "https://[::1]"}, "https://[::1]"},
		{"a URL with path and port", map[string]string{"OLLAMA_HOST": "http://box:9/llm/"}, "http://box:9/llm"},
		{"codex's port", map[string]string{"CODEX_OSS_PORT": "1234", "OLLAMA_HOST": "box"}, "http://localhost:1234"},
		{"codex's URL", map[string]string{"CODEX_OSS_BASE_URL": "http://box:1/v1", "CODEX_OSS_PORT": "1234"}, "http://box:1/v1"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := ollamahost.Address(func(k string) string { return tt.env[k] })
			if err != nil || got != tt.want {
				t.Errorf("address = %s, %v, want %s", got, err, tt.want)
			}
		})
	}
}

func TestBadAddresses(t *testing.T) {
	for address, why := range map[string]string{
		"": "no valid host", "http://": "no valid host", "/x": "no valid host", "ftp://box": "scheme", "http://box?x=1": "query", "http://box:port": "no valid host",
		"http://u:s3cret@box": "password", "http://u:s3cret@box:port": "password",
	} {
		_, err := ollamahost.New(address, nil)
		wantError(t, err, llm.ErrInvalidRequest, why, ollamahost.DefaultAddress)
		if strings.Contains(err.Error(), "s3cret") {
			t.Errorf("the password is told: %v", err)
		}
	}
}
