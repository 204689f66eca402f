package procfs

import "testing"

func TestParse(t *testing.T) {
	t.Parallel()
	line := "42 (a) b (c) S 1 42 40 0 -1 4194304 1 2 3 4 5 6 7 8 20 0 9 0 12345 100 200"
	s, ok := parse(42, []byte(line))
	if !ok || s.PID != 42 || s.Parent != 1 || s.Group != 42 || s.Session != 40 || s.State != 'S' || s.Started != 12345 {
		t.Errorf("%+v, %v", s, ok)
	}
	for _, bad := range []string{"", "42", "42 (x", "42 (x) S 1 2", "42 (x) S a b c 0 -1 4194304 1 2 3 4 5 6 7 8 20 0 9 0 z 1"} {
		if _, ok := parse(42, []byte(bad)); ok {
			t.Errorf("%q was parsed", bad)
		}
	}
}
