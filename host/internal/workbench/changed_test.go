package workbench

import (
	"maps"
	"slices"
	"strconv"
	"testing"
)

// Of too many changes the client learns that there were some.
func TestChangesAreBounded(t *testing.T) {
	t.Parallel()
	w := &watch{path: "/w", changed: map[string]bool{}}
	for i := range 3 * maxChanged {
		w.add("/w/" + strconv.Itoa(i))
		if len(w.changed) > maxChanged {
			t.Fatalf("%d paths", len(w.changed))
		}
	}
	if got := slices.Collect(maps.Keys(w.changed)); !slices.Equal(got, []string{"/w"}) {
		t.Errorf("%q", got)
	}
}
