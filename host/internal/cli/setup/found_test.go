package setup

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
)

// A key comes before a server on this machine, and a server has to list a model.
func TestWhatIsFound(t *testing.T) {
	serve := func(body string, status int) server {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/v1/models" {
				t.Errorf("asked for %s", r.URL.Path)
			}
			w.WriteHeader(status)
			fmt.Fprint(w, body)
		}))
		t.Cleanup(s.Close)
		return server{"Test", "test", s.URL, "block"}
	}
	gone := serve("", 200)
	gone.base = "http://127.0.0.1:1"
	const list = `{"data":[{"id":""},{"id":"one"},{"id":"two"}]}`
	for _, tc := range []struct {
		name    string
		key     string
		servers []server
		want    string
	}{
		{"nothing", "", nil, ""},
		{"a server", "", []server{gone, serve(list, 200)}, "test one"},
		{"no models", "", []server{serve(`{"data":[]}`, 200)}, ""},
		{"not a model server", "", []server{serve("<html>", 200), serve(list, 404)}, ""},
		{"a name that is none", "", []server{serve(`{"data":[{"id":"${file(1)}"}]}`, 200)}, ""},
		{"a key", "ANTHROPIC_API_KEY", []server{serve(list, 200)}, "anthropic claude-sonnet-5"},
		{"a key of a vendor with many models", "OPENROUTER_API_KEY", []server{serve(list, 200)}, "openrouter "},
	} {
		env := func(name string) (string, bool) { return "k", name == tc.key }
		f, ok := look(t.Context(), env, tc.servers)
		if got := f.label + " " + f.model; ok != (tc.want != "") || ok && got != tc.want {
			t.Errorf("%s: %q %v, want %q", tc.name, got, ok, tc.want)
		}
	}
}
