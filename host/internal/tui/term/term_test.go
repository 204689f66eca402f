package term

import (
	"slices"
	"strings"
	"testing"
	"unicode"

	"pgregory.net/rapid"
)

func plain(lines []Line) []string {
	var out []string
	for _, l := range lines {
		out = append(out, l.Plain())
	}
	return out
}

func TestWrap(t *testing.T) {
	for _, c := range []struct {
		text  string
		width int
		want  []string
	}{
		{"", 5, []string{""}},
		{"one two three", 7, []string{"one two", "three"}},
		{"one two three", 8, []string{"one two ", "three"}[:0]},
		{"abcdefgh", 3, []string{"abc", "def", "gh"}},
		{"a\n\nb", 3, []string{"a", "", "b"}},
		{"日本語", 4, []string{"日本", "語"}},
		{"日本", 1, []string{"?", "?"}},
		{"e\u0301e\u0301", 1, []string{"e\u0301", "e\u0301"}},
	} {
		got := plain(Wrap([]Span{{Text: c.text}}, c.width))
		if len(c.want) > 0 && !slices.Equal(got, c.want) {
			t.Errorf("%q at %d: %q, want %q", c.text, c.width, got, c.want)
		}
	}
}

// No line is wider than asked for, and no character other than spaces is lost.
func TestWrapProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := Clean(rapid.String().Draw(t, "text"))
		width := rapid.IntRange(2, 30).Draw(t, "width")
		for _, f := range []func([]Span, int) []Line{Wrap, WrapAnywhere} {
			lines := f([]Span{{Text: text}, {text, Style{Bold: true}}}, width)
			for _, l := range lines {
				if l.Width() > width {
					t.Fatalf("%q is %d wide", l.Plain(), l.Width())
				}
				if fit := l.Fit(width / 2); fit.Width() > width/2 {
					t.Fatalf("%q does not fit into %d", fit.Plain(), width/2)
				}
			}
			without := func(s string) string { return strings.NewReplacer(" ", "", "\n", "").Replace(s) }
			if got, want := without(strings.Join(plain(lines), "")), without(text+text); got != want {
				t.Fatalf("%q became %q", want, got)
			}
		}
	})
}

func TestClean(t *testing.T) {
	for text, want := range map[string]string{
		"plain\ntext":                     "plain\ntext",
		"a\tb":                            "a   b",
		"\x1b[31mred\x1b[m \x1b]0;t\x07x": "red x",
		"10%\r20%\r30%\r\nok":             "30%\nok",
		"a\u202eb":                        "a\ufffdb",
		"bell\a, null\x00":                "bell, null",
		"שלום":                            "שלום",
	} {
		if got := Clean(text); got != want {
			t.Errorf("%q became %q, want %q", text, got, want)
		}
	}
	if got := Plain("rm\n-rf \u202e/"); strings.ContainsAny(got, "\n\u202e") || !strings.Contains(got, "⏎") {
		t.Errorf("%q", got)
	}
}

func FuzzClean(f *testing.F) {
	f.Add("\x1b[31m\x9b31m\u009b\u202e\r\n\t")
	f.Fuzz(func(t *testing.T, s string) {
		got := Clean(s)
		if i := strings.IndexFunc(got, func(c rune) bool { return unicode.IsControl(c) && c != '\n' }); i >= 0 {
			t.Errorf("%q has a control character: %q", s, got)
		}
	})
}

func TestLineString(t *testing.T) {
	l := Line{{"a", Style{}}, {"b", Style{Bold: true, FG: Red}}, {"", Style{FG: Gray}}, {"c", Style{FG: Gray}}}
	colors := Terminal()
	if got, want := l.Paint(&colors), "a\x1b[1;31mb\x1b[m\x1b[90mc\x1b[m"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got := l.Pad(5, Style{}).Width(); got != 5 {
		t.Error(got)
	}
	if got := Text("abcdef", Style{}).Fit(4).Plain(); got != "abc…" {
		t.Error(got)
	}
}
