package markdown

import (
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/host/internal/tui/term"
	"pgregory.net/rapid"
)

func plain(lines []term.Line) string {
	var out []string
	for _, l := range lines {
		out = append(out, strings.TrimRight(l.Plain(), " "))
	}
	return strings.Join(out, "\n")
}

func styled(lines []term.Line) string {
	var out []string
	for _, l := range lines {
		out = append(out, l.String())
	}
	return strings.Join(out, "\n")
}

const sample = "# Title\n\nSome *soft* and **loud** `code`, ~~gone~~ and [a link](https://example.com/x).\nhttps://example.org\n\n" +
	"- one\n- two\n  1. deep\n  2. deeper\n\n- [x] done\n\n> quoted\n> more\n\n```go\nfunc main() { // entry\n\tprintln(\"hi\", 1)\n}\n\nvar x = 1\n```\n\n" +
	"| name | what it is |\n| --- | --- |\n| a | the first letter of all |\n| b | the second |\n\n---\n\n<b>raw</b> end\n"

func TestRender(t *testing.T) {
	want := `Title

Some soft and loud code, gone and a link
(https://example.com/x). https://example.org

• one

• two

  1. deep
  2. deeper

• ☑ done

│ quoted more

  func main() { // entry
      println("hi", 1)
  }

  var x = 1

name  what it is
────  ───────────────────────
a     the first letter of all
b     the second

────────────────────────────────────────

<b>raw</b> end`
	if got := plain((&Renderer{}).Render(sample, 44)); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// A table that does not fit is a list of its cells.
func TestNarrowTable(t *testing.T) {
	got := plain((&Renderer{}).Render("| one | two | three |\n|-|-|-|\n| 1 | 2 | 3 |\n", 8))
	if got != "one: 1\ntwo: 2\nthree: 3" {
		t.Errorf("%s", got)
	}
}

// pieces are what texts of the properties consist of.
var pieces = []string{
	"word ", "\n", "\n\n", "# ", "- ", "1. ", "  ", "> ", "```", "```go\n", "~~~\n", "`x`", "**b**", "*", "_", "[l](u)", "| a | b |\n", "|-|-|\n", "---\n", "<div>\n", "<!--", "-->",
	"\t", "日本", "e\u0301", "\x1b[31m", "https://e.org ", "![i](u)", "\\", "=\n", "    code\n",
}

func drawText(t *rapid.T) string {
	return strings.Join(rapid.SliceOfN(rapid.SampledFrom(pieces), 0, 40).Draw(t, "pieces"), "")
}

// No line is wider than the screen, whatever the text.
func TestWidth(t *testing.T) {
	r := &Renderer{}
	rapid.Check(t, func(t *rapid.T) {
		width := rapid.IntRange(1, 60).Draw(t, "width")
		for _, l := range r.Render(drawText(t), width) {
			if l.Width() > width {
				t.Fatalf("%q is %d wide, the screen %d", l.Plain(), l.Width(), width)
			}
		}
	})
}

// A text that streams in pieces looks like the whole text at the end.
func TestStream(t *testing.T) {
	r := &Renderer{}
	for _, width := range []int{20, 80} {
		s := Stream{Renderer: r}
		for end := range len(sample) + 1 {
			s.Render(sample[:end], width)
		}
		if got, want := styled(s.Render(sample, width)), styled(r.Render(sample, width)); got != want {
			t.Errorf("streamed:\n%s\nwhole:\n%s", got, want)
		}
		if s.whole == "" {
			t.Error("all blocks are rendered anew each time")
		}
	}
}

// The boundary never divides a list, indented code or fenced code.
func TestBoundary(t *testing.T) {
	for src, want := range map[string]int{
		"one\n\ntwo":                    5,
		"one\n\ntwo\n\nthree":           10,
		"- a\n\n- b":                    0,
		"- a\n\n  b":                    0,
		"```\na\n\nb\n":                 0,
		"```\na\n\nb\n```\n\nc":         14,
		"one\n\n1. two":                 0,
		"one\ntwo":                      0,
		"````\n```\n\nx\n````\n\nafter": 18,
	} {
		if got := boundary(src); got != want {
			t.Errorf("%q: %d, want %d", src, got, want)
		}
	}
}

// Colours change no character of the code.
func FuzzHighlight(f *testing.F) {
	f.Add("/* a", "go")
	f.Add("\"\\", "py")
	f.Add("+a\n\n-b", "diff")
	f.Fuzz(func(t *testing.T, code, name string) {
		for _, l := range append(languages(), language{names: []string{name}}) {
			if got := term.Line(Highlight(code, l.names[0])).Plain(); got != code {
				t.Fatalf("%s: %q became %q", l.names[0], code, got)
			}
		}
	})
}

// Whatever a model writes is rendered.
func FuzzRender(f *testing.F) {
	f.Add(sample, 40)
	f.Fuzz(func(t *testing.T, src string, width int) {
		width = 1 + width&63
		for _, l := range (&Renderer{}).Render(src, width) {
			if l.Width() > width {
				t.Fatalf("%q is %d wide, the screen %d", l.Plain(), l.Width(), width)
			}
		}
	})
}

// 100 KB of text that streams in small pieces cost what their last block costs.
func BenchmarkStream(b *testing.B) {
	long := strings.Repeat("Some *text* of a paragraph that is not short, with `code`.\n\n", 1700)
	r := &Renderer{}
	s := Stream{Renderer: r}
	s.Render(long, 80)
	for i := 0; b.Loop(); i++ {
		s.Render(long+strings.Repeat("word ", i%100), 80)
	}
}
