package hardlink

import (
	"fmt"
	"path/filepath"
	"slices"
	"testing"
)

// kept returns what narrow keeps read-only for the sake of some names: folders, and names in other folders.
func kept(roots, names []string) ([]string, error) {
	counts := map[string]int{}
	for _, n := range names {
		counts[filepath.Dir(n)]++
	}
	keep, single, err := narrow(roots, counts)
	for _, n := range names {
		if slices.Contains(single, filepath.Dir(n)) {
			keep = append(keep, n)
		}
	}
	return keep, err
}

// However many names there are, what is kept read-only for them is little, covers all of them, and never a root or what is above one.
func TestNarrow(t *testing.T) {
	t.Parallel()
	list := func(format string, n int) (out []string) {
		for i := range n {
			out = append(out, fmt.Sprintf(format, i))
		}
		return out
	}
	for _, tc := range []struct {
		name  string
		names []string
		want  []string // nil: an error
	}{
		{"one", []string{"/ws/a"}, []string{"/ws/a"}},
		{"two roots", []string{"/ws/a", "/other/b/c"}, []string{"/ws/a", "/other/b/c"}},
		{"as many as may be", list("/ws/d/%03d", 32), list("/ws/d/%03d", 32)},
		{"a folder full", list("/ws/d/%03d", 33), []string{"/ws/d"}},
		{"a store", append(list("/ws/modules/.store/%03d/lib/index", 3000), "/ws/one"), []string{"/ws/one", "/ws/modules/.store"}},
		{"packages", append(list("/ws/env/lib/a/%03d", 300), "/ws/env/lib/b/x"), []string{"/ws/env/lib/a", "/ws/env/lib/b/x"}},
		{"above another root", list("/ws/deep/root/%03d", 300), nil},
		{"in the root itself", list("/ws/%03d", 300), nil},
	} {
		roots := []string{"/ws", "/other", "/ws/deep/root"}
		got, err := kept(roots, tc.names)
		slices.Sort(tc.want)
		slices.Sort(got)
		if (err != nil) != (tc.want == nil) || err == nil && !slices.Equal(got, tc.want) {
			t.Errorf("%s: %q, %v, want %q", tc.name, got, err, tc.want)
		}
	}
}
