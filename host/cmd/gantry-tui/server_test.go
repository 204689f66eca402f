package main

import (
	"strings"
	"testing"
)

// What a server said last is known while its log exists, and the log has no name that could be left behind.
func TestSaid(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	c := &child{}
	if got := c.said(); got != "" {
		t.Errorf("%q before there is a server", got)
	}
	for _, text := range []string{"Error: one\n", strings.Repeat("x", 2*maxSaid) + " two\n"} {
		f, err := c.openLog()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteString(text); err != nil {
			t.Fatal(err)
		}
		got := c.said()
		if len(got) > maxSaid || !strings.HasSuffix(strings.TrimSpace(text), got) || got == "" {
			t.Errorf("%d bytes, which end with %q", len(got), got[max(len(got)-10, 0):])
		}
	}
}
