package pluginthread

import (
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/config/hint"
	"github.com/gantry-agent/gantry/host/internal/redact"
	"github.com/gantry-agent/gantry/sdk/contract"
)

// Two plugins may give their sessions the same ID: then the plugin has to be named.
func TestStopOfAnAmbiguousSession(t *testing.T) {
	s := New(Config{}, nil)
	s.mu.open = map[string][]openSession{"one": {{id: "1"}}, "two": {{id: "1"}, {id: "2"}}}
	for _, tc := range []struct{ plugin, session, message, next string }{
		{"", "1", `session "1" is ambiguous`, "name its plugin: one, two"},
		{"three", "2", `no session "2" is open`, "choose one of 1, 2"},
	} {
		if message, next := hint.Split(s.Stop(t.Context(), tc.plugin, tc.session)); message != tc.message || next != tc.next {
			t.Errorf("%q of %q: %q, next %q", tc.session, tc.plugin, message, next)
		}
	}
}

// Texts of plugins for the model contain no secrets, also not the beginning of one where the text is cut.
func TestContextsWithoutSecrets(t *testing.T) {
	r := &redact.Redactor{}
	r.Add("the-secret-value")
	s := New(Config{Redactor: r}, nil)
	s.event("p", contract.ContextText{Key: "k", Text: "it is the-secret-value"})
	s.event("p", contract.ContextText{Key: "long", Text: strings.Repeat("x", maxContext-5) + "the-secret-value"})
	texts := s.Contexts()["p"]
	if texts["k"] != "it is "+redact.Placeholder || strings.Contains(texts["long"], "the-s") || len(texts["long"]) != maxContext {
		t.Errorf("the model is told %q", texts)
	}
}
