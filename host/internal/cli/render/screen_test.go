package render

import (
	"fmt"
	"strings"
	"testing"
)

func TestScreen(t *testing.T) {
	var out strings.Builder
	s := &Screen{Out: &out}
	fmt.Fprint(s, "a line\nthe beginning of one")
	s.Ask("? may I\n")
	fmt.Fprint(s, "kept 1\n")
	s.Say("  answer: ")
	fmt.Fprint(s, "kept 2\n")
	if got, want := out.String(), "a line\nthe beginning of one\n? may I\n  answer: "; got != want {
		t.Errorf("while the question is open:\n%s\nwant\n%s", got, want)
	}
	s.Done()
	fmt.Fprint(s, "after\n")
	if got, want := out.String(), "  answer: kept 1\nkept 2\nafter\n"; !strings.HasSuffix(got, want) {
		t.Errorf("after the answer:\n%s\nwant at its end\n%s", got, want)
	}
}

// What is kept back is bounded, and what is left out is counted.
func TestScreenKeepsSoMuch(t *testing.T) {
	var out strings.Builder
	s := &Screen{Out: &out}
	s.Ask("? may I\n")
	line := strings.Repeat("x", 99) + "\n"
	const lines = maxKept/100 + 1000
	for range lines {
		fmt.Fprint(s, line)
	}
	s.Done()
	if n := out.Len(); n > maxKept+200 {
		t.Errorf("%d bytes were kept", n)
	}
	if want := fmt.Sprintf("… and %d bytes more", lines*100-maxKept); !strings.Contains(out.String(), want) {
		t.Errorf("%q is not at the end: %q", want, out.String()[out.Len()-200:])
	}
}
