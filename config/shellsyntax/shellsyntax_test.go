package shellsyntax

import (
	"errors"
	"runtime/debug"
	"strings"
	"testing"

	"mvdan.cc/sh/v3/syntax"
)

// units nest when they are repeated.
var units = []string{
	"(", "{ ", "$(", "`", "\"$(", "if ", "while ", "! ", "a && ", "a | ", "a;", "${a:-", "$((", "<(", "case x in x) ", "f() ", "time ", "[[ ( ", "a=(", "eval ",
	"((", "$[", "${a:", "a[", "((a?", "((a?b:", "((-", "((a=", "((a**", "?", "let a=", "[[ ! ", "$((a?b:", "@(", "{a,", "\\(", "<<", "\"${a:-", "coproc ", "select i in a; do ",
	"!", "~", "-", "- ", "a=", "a,", "a**",
}

// A stack overflow ends the program. Whatever the script, the parser gets by with an eighth of the stack that it may use.
func TestNesting(t *testing.T) {
	defer debug.SetMaxStack(debug.SetMaxStack(128 << 20))
	for i, unit := range units {
		if testing.Short() && i%4 != 0 {
			continue
		}
		for _, prefix := range []string{"", "((", "[[ ", "echo \"${a"} {
			for _, n := range []int{MaxOpenings / 2, MaxBytes / len(unit), 2_000_000} {
				script := prefix + strings.Repeat(unit, n)
				script = script[:min(len(script), 4<<20)]
				for _, variant := range []syntax.LangVariant{syntax.LangBash, syntax.LangZsh} {
					_, err := Parse(script, variant)
					if len(script) > MaxBytes && !errors.Is(err, ErrLarge) {
						t.Errorf("%d times %q: %v", n, unit, err)
					}
				}
				for range Statements(script, syntax.LangBash) { //nolint:revive // what counts is that it ends
				}
				for range Words(script, syntax.LangBash) { //nolint:revive // as above
				}
				Incomplete(script)
			}
		}
	}
}

func TestBounds(t *testing.T) {
	for _, tc := range []struct {
		script string
		want   error
	}{
		{"a\x00b", ErrNul}, {strings.Repeat(" ", MaxBytes+1), ErrLarge}, {strings.Repeat("$((", 300_000), ErrLarge}, {strings.Repeat("()", MaxOpenings+1), ErrLarge},
		{strings.Repeat("( a )\n", MaxOpenings), nil}, {"", nil},
	} {
		_, err := Parse(tc.script, syntax.LangBash)
		if !errors.Is(err, tc.want) {
			t.Errorf("%.20q: %v, want %v", tc.script, err, tc.want)
		}
		var last error
		for _, err := range Statements(tc.script, syntax.LangBash) {
			last = err
		}
		if !errors.Is(last, tc.want) {
			t.Errorf("statements of %.20q: %v, want %v", tc.script, last, tc.want)
		}
	}
}

// The loops may be left at any time, and report an error once.
func TestLoops(t *testing.T) {
	n := 0
	for range Statements("a; b; c", syntax.LangBash) {
		n++
		break
	}
	failed := 0
	for _, err := range Statements("a\nb\n) (", syntax.LangBash) {
		n++
		if err != nil {
			failed++
		}
	}
	for range Words("a b c", syntax.LangBash) {
		n++
		break
	}
	if n != 5 || failed != 1 {
		t.Errorf("%d statements and words, %d errors", n, failed)
	}
	if !Incomplete("if a") || !Incomplete("a \\\n") || Incomplete("a") || Incomplete(strings.Repeat("(", 300_000)) {
		t.Error("what is incomplete")
	}
}

// Whatever the text: it is parsed or refused, by all functions alike.
func FuzzParse(f *testing.F) {
	for _, u := range units {
		f.Add(strings.Repeat(u, 50))
	}
	f.Add("a\x00")
	f.Fuzz(func(t *testing.T, script string) {
		_, err := Parse(script, syntax.LangBash)
		var last error
		for _, err := range Statements(script, syntax.LangBash) {
			last = err
		}
		if (err == nil) != (last == nil) {
			t.Errorf("as a file: %v; as statements: %v", err, last)
		}
		if (errors.Is(err, ErrLarge) || errors.Is(err, ErrNul)) != (Check(script) != nil) {
			t.Errorf("%v, but %v", err, Check(script))
		}
	})
}
