package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"

	"github.com/gantry-agent/gantry/sdk/configblock"
	"github.com/gantry-agent/gantry/sdk/llm"
	"github.com/gantry-agent/gantry/sdk/provider"
)

// What a server holds a model with counts once it has answered: what is longer would be cut off unseen.
func TestTheContextThatAModelIsHeldWith(t *testing.T) {
	for _, tt := range []struct {
		name   string
		loaded string // what the server says it holds
		window int64  // after the first answer; before it, 32768
		told   string
	}{
		{"as planned", `{"models":[{"name":"m:latest","context_length":32768}]}`, 32_768, ""},
		{"with less", `{"models":[{"name":"m:latest","context_length":4096}]}`, 4096, "Ollama has loaded m with a context of 4096 tokens instead of 32768"},
		{"with more", `{"models":[{"name":"m:latest","context_length":40960}]}`, 32_768, ""},
		{"not at all", `{"models":[]}`, 32_768, ""},
		{"an older server", `{"models":[{"name":"m:latest"}]}`, 32_768, ""},
		{"no answer", `nonsense`, 32_768, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			asked := 0
			h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				switch r.URL.Path {
				case "/api/show":
					fmt.Fprint(w, `{"capabilities":["completion","tools"],"model_info":{"general.architecture":"a","a.context_length":40960}}`)
				case "/api/ps":
					asked++
					fmt.Fprint(w, tt.loaded)
				default:
					w.Header().Set("Content-Type", "application/x-ndjson")
					fmt.Fprintln(w, `{"message":{"content":"hi"},"done":true,"done_reason":"stop"}`)
				}
			}))
			defer h.Close()
			cfg := &config{}
			if ds := configblock.Decode(fmt.Appendf(nil, `{"base_url": %q}`, h.URL), cfg); len(ds) > 0 {
				t.Fatal(ds)
			}
			p, err := plugin().New(t.Context(), provider.Env{Host: &provider.Host{}, Logger: hclog.NewNullLogger(), CacheDir: t.TempDir(), Config: cfg})
			if err != nil {
				t.Fatal(err)
			}
			defer p.(interface{ Close() error }).Close()
			window := func(want int64, told string) {
				t.Helper()
				row, _, err := p.(provider.Finder).Find(t.Context(), "m")
				if err != nil || row.ContextWindow != want || row.MaxContextWindow != want {
					t.Errorf("window %d of at most %d, %v; want %d", row.ContextWindow, row.MaxContextWindow, err, want)
				}
				if notes := strings.Join(row.Notes, "; "); !strings.HasPrefix(notes, told) || told == "" && notes != "" {
					t.Errorf("people are told %q, want %q", notes, told)
				}
			}
			window(32_768, "")
			for range 2 {
				r := &llm.Request{Model: "m", Messages: []llm.Message{{Role: llm.RoleUser, Parts: []llm.Part{&llm.Text{Text: "hi"}}}}}
				if err := p.Stream(t.Context(), &provider.StreamRequest{Request: r, MaxAttempts: 1}, func(llm.Event) error { return nil }); err != nil {
					t.Fatal(err)
				}
			}
			window(tt.window, tt.told)
			if asked != 1 {
				t.Errorf("the server is asked %d times how it holds the model", asked)
			}
		})
	}
}
