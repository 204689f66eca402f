package tools

import "testing"

// A state is not larger than what its reader reads.
func TestWithin(t *testing.T) {
	t.Parallel()
	for _, tc := range [][3]int{{0, 0, 0}, {0, 700, 700}, {2500, 0, 2500}, {2500, 700, 700}, {2500, 9000, 2500}} {
		r := &running{reader: reader{tokens: tc[0]}}
		if got := r.within(tc[1]); got != tc[2] {
			t.Errorf("of %d asked for, and %d that are read, %d are returned, want %d", tc[1], tc[0], got, tc[2])
		}
	}
}
