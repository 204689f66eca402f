package output

import (
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
)

// line is an Accept that takes lines with an "ok" and refuses others.
func line(s string) (string, error) {
	switch {
	case strings.Contains(s, "noise"):
		return "", ErrNotHandshake
	case strings.Contains(s, "ok"):
		return s, nil
	}
	return "", errors.New("refused")
}

func TestStdout(t *testing.T) {
	noise := func(n int) string { return strings.Repeat("n\n", n) }
	for name, c := range map[string]struct {
		in      string
		line    string // accepted
		err     string
		printed []string
		dropped int64
	}{
		"at once":               {"1|ok\n", "1|ok", "", []string{"1|ok"}, 0},
		"without an end":        {"1|ok", "1|ok", "", []string{"1|ok"}, 0},
		"after noise":           {"hello\nhello|x\n1|ok\n", "1|ok", "", []string{"hello", "hello|x", "1|ok"}, 0},
		"more follows":          {"1|ok\nmore\n", "1|ok", "", []string{"1|ok"}, 5},
		"only the first counts": {"1|ok\n1|ok again\n", "1|ok", "", []string{"1|ok"}, 11},
		"refused":               {"2|bad\n1|ok\n", "", "refused", []string{"2|bad"}, 5},
		"looks like one":        {"1|noise\n1|ok\n", "1|ok", "", []string{"1|noise", "1|ok"}, 0},
		"nothing":               {"", "", errEnd.Error(), nil, 0},
		"noise only":            {"a\n", "", errEnd.Error(), []string{"a"}, 0},
		"20 lines":              {noise(20) + "1|ok\n", "1|ok", "", append(slices.Repeat([]string{"n"}, 20), "1|ok"), 0},
		"21 lines":              {noise(21) + "1|ok\n", "", "printed too much before the handshake line", slices.Repeat([]string{"n"}, 21), 5},
		"many bytes":            {strings.Repeat("x", MaxOutputBytes) + "\n1|ok\n", "", "printed too much before the handshake line", []string{strings.Repeat("x", 256)}, 5},
		"a handshake that is too long": {"1|ok" + strings.Repeat("x", maxStdoutLine) + "\n", "", "printed too much before the handshake line",
			[]string{"1|ok" + strings.Repeat("x", 252)}, 5},
	} {
		s := NewStdout(line)
		s.Run(strings.NewReader(c.in))
		v := <-s.Verdict()
		got := ""
		if v.Err != nil {
			got = v.Err.Error()
		}
		if v.Line != c.line || got != c.err || !slices.Equal(s.Printed(), c.printed) || s.Dropped() != c.dropped {
			t.Errorf("%s: %q, %q, printed %q, dropped %d", name, v.Line, got, s.Printed(), s.Dropped())
		}
	}
}

func TestStdoutEndsWithAnErrorOfItsReader(t *testing.T) {
	s := NewStdout(line)
	s.Run(io.MultiReader(strings.NewReader("half"), errReader{}))
	if v := <-s.Verdict(); !Ended(v.Err) {
		t.Errorf("verdict = %v", v)
	}
}

type errReader struct{}

func (errReader) Read([]byte) (int, error) { return 0, errors.New("closed under us") }

func FuzzStdout(f *testing.F) {
	f.Add([]byte("1|1|unix|/x|grpc\n"))
	f.Add([]byte(strings.Repeat("x\n", 30)))
	f.Add([]byte("\x00\xff|\n1|ok"))
	f.Fuzz(func(t *testing.T, b []byte) {
		s := NewStdout(line)
		s.Run(strings.NewReader(string(b)))
		v := <-s.Verdict()
		if (v.Line == "") == (v.Err == nil) {
			t.Errorf("verdict = %+v", v)
		}
		if n := len(s.Printed()); n > MaxOutputLines+1 {
			t.Errorf("%d lines are kept", n)
		}
	})
}
