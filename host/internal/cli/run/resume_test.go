package run

import (
	"fmt"
	"strings"
	"testing"
)

// What is shown of a thread before it continues has a bounded number of complete lines, whatever was in it.
func TestLastLines(t *testing.T) {
	line := func(n int) string { return fmt.Sprintf("line %d\n", n) }
	long := strings.Repeat("x", lastLinesBytes)
	many := func(from, to int) (s string) {
		for n := from; n < to; n++ {
			s += line(n)
		}
		return s
	}
	for name, c := range map[string]struct {
		written []string
		want    string
		all     bool
	}{
		"nothing":       {nil, "", true},
		"a few":         {[]string{"a\nb", "c\n"}, "a\nbc\n", true},
		"no line break": {[]string{"a\nb"}, "a\nb\n", true},
		"just enough":   {[]string{many(0, earlierLines)}, many(0, earlierLines), true},
		"too many":      {[]string{many(0, earlierLines), line(earlierLines)}, many(1, earlierLines+1), false},
		"too long":      {[]string{"a\n" + long[:10] + "\n", "b\n" + long[10:] + "\n"}, "b\n" + long[10:] + "\n", false},
		"one line":      {[]string{long, "y"}, long[1:] + "y\n", false},
	} {
		t.Run(name, func(t *testing.T) {
			var l lastLines
			for _, s := range c.written {
				if n, err := l.Write([]byte(s)); n != len(s) || err != nil {
					t.Fatal(n, err)
				}
			}
			if text, all := l.lines(); string(text) != c.want || all != c.all {
				t.Errorf("%d bytes %.40q, all: %v; want %d bytes %.40q", len(text), text, all, len(c.want), c.want)
			}
		})
	}
}
