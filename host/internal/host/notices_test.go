package host

import (
	"testing"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/modelset"
)

// A thread gets each notice of its models once.
func TestNoticesOfModelsAreNotRepeated(t *testing.T) {
	r := &running{}
	note := func(text string) event.Notice { return event.Notice{Text: text} }
	for i, tc := range []struct {
		has  []event.Notice
		want int
	}{{nil, 0}, {[]event.Notice{note("a"), note("b")}, 2}, {[]event.Notice{note("a"), note("b")}, 0}, {[]event.Notice{note("b"), note("c")}, 1}} {
		if got := r.use(&modelset.Model{Notices: tc.has}); len(got) != tc.want {
			t.Errorf("time %d: %d are told, want %d", i+1, len(got), tc.want)
		}
	}
}
