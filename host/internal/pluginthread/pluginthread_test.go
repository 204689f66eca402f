package pluginthread

import (
	"testing"

	"github.com/gantry-agent/gantry/config/hint"
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
