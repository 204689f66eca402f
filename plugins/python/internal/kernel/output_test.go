package kernel

import (
	"slices"
	"strings"
	"testing"
)

// The pieces of the output are the output, whatever was left out and however often its stream changes.
func TestOutputInStreams(t *testing.T) {
	t.Parallel()
	var b buffer
	long := strings.Repeat("x", halfOutput)
	for _, s := range []struct {
		text   string
		stderr bool
	}{{"a", false}, {"b", true}, {"", false}, {"b", true}, {long, false}, {long, true}, {long, false}, {"end", true}} {
		b.write([]byte(s.text), s.stderr)
	}
	o := b.take()
	var all strings.Builder
	var kinds []bool
	for _, s := range o.Streams() {
		all.WriteString(s.Text)
		kinds = append(kinds, s.Stderr)
	}
	if all.String() != o.String() || o.Omitted == 0 {
		t.Errorf("%d bytes in pieces, %d together, %d left out", all.Len(), len(o.String()), o.Omitted)
	}
	if want := []bool{false, true, false, true, false, true}; !slices.Equal(kinds, want) && !slices.Equal(kinds, []bool{false, true, false, false, true}) {
		t.Errorf("the pieces are of stderr: %v", kinds)
	}
	for i := range 2 * maxTurns {
		b.write([]byte("y"), i%2 == 0)
	}
	o = b.take()
	if s := o.Streams(); len(s) != maxTurns || o.String() != strings.Repeat("y", 2*maxTurns) {
		t.Errorf("%d pieces", len(s))
	}
}
