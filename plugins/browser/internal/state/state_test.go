package state

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"
)

func el(id int, tag string, kids ...*Node) *Node {
	return &Node{Tag: tag, ID: id, Flags: Interactive, Rect: [4]float64{0, 0, 10, 10}, Kids: kids}
}

func words(s string) *Node { return &Node{Text: s} }

func lines(s *State) string {
	t, _ := s.Text(0, 1<<20)
	return t
}

func TestLines(t *testing.T) {
	t.Parallel()
	with := func(n *Node, attrs ...[2]string) *Node { n.Attrs = attrs; return n }
	flags := func(n *Node, f int) *Node { n.Flags = f; return n }
	for name, row := range map[string]struct {
		node *Node
		want string
	}{
		"decoration":                      {el(1, "a", el(2, "div", words("x"))), "[1]<a />\n\tx\n"},
		"not a decoration":                {el(1, "a", flags(el(2, "div"), Interactive|Keep)), "[1]<a />\n\t[2]<div />\n"},
		"covered":                         {flags(el(1, "a", words("x")), Interactive|Covered), "x\n"},
		"repeated value":                  {with(el(1, "input"), [2]string{"id", "longer"}, [2]string{"name", "longer"}, [2]string{"title", "longer"}), "[1]<input id=longer title=longer />\n"},
		"repeated tag":                    {with(el(1, "button"), [2]string{"type", "button"}, [2]string{"role", "button"}), "[1]<button />\n"},
		"checked":                         {with(el(1, "div"), [2]string{"aria-checked", "true"}, [2]string{"checked", "true"}), "[1]<div checked=true />\n"},
		"scrolls, with a button":          {flags(el(1, "div", el(2, "button")), Scrollable), "|scroll element|<div /> (0.0 pages above, 0.0 pages below horizontal 0%)\n\t[1]<button />\n"},
		"scrolls, as a list":              {flags(el(1, "ul", el(2, "button")), Scrollable|Box), "|scroll element[1]<ul /> (0.0 pages above, 0.0 pages below horizontal 0%)\n\t[2]<button />\n"},
		"svg":                             {el(1, "svg"), "[1]<svg /> <!-- SVG content collapsed -->\n"},
		"text that looks like an element": {words("[1]<a />"), "[1]<a />\n"},
	} {
		if got := lines((&Book{}).Take(&Frame{Nodes: []*Node{row.node}})); got != row.want {
			t.Errorf("%s: %q, want %q", name, got, row.want)
		}
	}
}

func TestTextIsCutBetweenLines(t *testing.T) {
	t.Parallel()
	s := (&Book{}).Take(&Frame{Nodes: []*Node{words("one"), words("two"), words(strings.Repeat("x", 100)), words("four")}})
	var all string
	for from, n := 0, 0; ; n++ {
		text, next := s.Text(from, 9)
		all += text
		if next == 0 {
			break
		}
		if next <= from || n > 10 {
			t.Fatal("it does not advance")
		}
		from = next
	}
	if all != lines(s) {
		t.Errorf("%q", all)
	}
}

func TestNumbers(t *testing.T) {
	t.Parallel()
	b := &Book{}
	b.Take(&Frame{ID: "f", Document: "d", Nodes: []*Node{el(7, "a"), el(8, "a")}})
	s := b.Take(&Frame{ID: "f", Document: "d", Nodes: []*Node{el(9, "b"), el(8, "a")}})
	if got := lines(s); got != "*[3]<b />\n[2]<a />\n" {
		t.Errorf("%q", got)
	}
	if r, ok := b.Ref(3); !ok || r != (Ref{"f", "d", 9}) {
		t.Errorf("%+v", r)
	}
	if s = b.Take(&Frame{ID: "f", Document: "e", Nodes: []*Node{el(9, "b")}}); lines(s) != "[1]<b />\n" {
		t.Errorf("%q", lines(s))
	}
	if _, ok := b.Ref(3); ok {
		t.Error("the number of an earlier document is known")
	}
}

func TestDelta(t *testing.T) {
	t.Parallel()
	b := &Book{}
	page := func(doc string, nodes ...*Node) *State { return b.Take(&Frame{Document: doc, Nodes: nodes}) }
	long := words(strings.Repeat("unchanged ", 20))
	old := page("d", long, el(1, "a", words("same")), words("twice"), words("twice"))
	for name, row := range map[string]struct {
		now  *State
		want string
		ok   bool
	}{
		"nothing":        {page("d", long, el(1, "a", words("same")), words("twice"), words("twice")), "", true},
		"moved deeper":   {page("d", long, &Node{Tag: "div", Flags: Scrollable, ID: 5, Scroll: [3]float64{0, 1, -1}, Kids: []*Node{el(1, "a", words("same"))}}, words("twice"), words("twice")), "  " + strings.Repeat("unchanged ", 8) + "...\n+ |scroll element|<div /> (0.0 pages above, 1.0 pages below)\n", true},
		"one of two":     {page("d", long, el(1, "a", words("same")), words("twice")), "- twice\n", true},
		"other document": {page("e", long), "", false},
		"most":           {b.Take(&Frame{Document: "d", Nodes: []*Node{words(strings.Repeat("new ", 500))}}), "", false},
	} {
		got, ok := row.now.Delta(old)
		if ok != row.ok || ok && got != row.want {
			t.Errorf("%s: %v, %q; want %q", name, ok, got, row.want)
		}
	}
	if _, ok := old.Delta(nil); ok {
		t.Error("there are changes since nothing")
	}
}

// A long text is divided between words, and a text without spaces between characters; nothing is lost.
func TestLongTextsAreDivided(t *testing.T) {
	t.Parallel()
	for _, text := range []string{strings.Repeat("word ", 1000) + "end", strings.Repeat("ä", 3000)} {
		s := (&Book{}).Take(&Frame{Nodes: []*Node{words(text)}})
		joined := ""
		for _, l := range s.Lines {
			if len(l.Text) > maxText || !utf8.ValidString(l.Text) {
				t.Errorf("a line has %d bytes", len(l.Text))
			}
			joined += l.Text
		}
		if want := strings.ReplaceAll(text, " ", ""); strings.ReplaceAll(joined, " ", "") != want || len(s.Lines) < 5 {
			t.Errorf("%d lines, %d bytes", len(s.Lines), len(joined))
		}
	}
}

// What the script returns may come from a page that has taken over its process: however it is nested, a state of it is bounded.
func TestFramesWithinThemselves(t *testing.T) {
	t.Parallel()
	f := &Frame{ID: "f"}
	for i := range 100 {
		f.Nodes = append(f.Nodes, &Node{Tag: "iframe", ID: i + 1, Frame: 1, Kids: []*Node{nil}})
	}
	f.Child = func(int, int) *Frame { return f }
	if s := (&Book{}).Take(f); len(s.Lines) > 200 {
		t.Errorf("%d lines", len(s.Lines))
	}
}

func TestPagination(t *testing.T) {
	t.Parallel()
	page := func(turns ...string) string {
		f := &Frame{}
		for i, x := range turns {
			n := el(i+1, "a")
			n.Turns = x
			f.Nodes = append(f.Nodes, n)
		}
		_, line, _ := strings.Cut((&Book{}).Take(f).Header(), "\n")
		return line
	}
	for want, turns := range map[string][]string{
		"Pagination: prev [1], 1 [2], 2 [3], next [4]": {"prev", "1", "2", "next"},
		"": {"1", "2", "3"}, // days of a calendar, for example
	} {
		if got := page(turns...); got != want {
			t.Errorf("%v: %q", turns, got)
		}
	}
	if got := page("next"); got != "" {
		t.Errorf("a single button is a list: %q", got)
	}
	if got := page(append(strings.Split(strings.Repeat("1 ", 30), " "), "next", "prev")...); got != "" {
		t.Errorf("a calendar is a list: %q", got)
	}
}

// Whatever the script returns, a state is made of it: each line is in exactly one part of a paged text, each number is that of an element,
// and a state has no difference from itself.
func FuzzTake(f *testing.F) {
	f.Add(`{"doc":"d","nodes":[{"n":"button","i":1,"f":1,"r":[0,0,9,9],"k":[{"x":"Go"}]},{"n":"#shadow","x":"closed","k":[null]},{"n":"iframe","i":2,"o":1,"f":1}]}`, 40)
	f.Add(`{"nodes":[{"n":"div","i":1,"f":12,"s":[0.1,2,-1],"a":[["role","listbox"],["id","x"]],"p":"next","h":"/x"},{"n":"svg","i":3}],"far":[{"n":"a","x":"b","d":1.5}]}`, 7)
	f.Fuzz(func(t *testing.T, text string, size int) {
		var x Frame
		if json.Unmarshal([]byte(text), &x) != nil {
			t.Skip()
		}
		inner := x
		inner.ID = "inner"
		x.Child = func(i, _ int) *Frame {
			if i == 1 {
				return &inner
			}
			return nil
		}
		b := &Book{}
		s := b.Take(&x)
		_ = s.Header()
		whole, next := s.Text(0, 1<<30)
		if next != 0 {
			t.Fatal("a text without a limit is cut")
		}
		parts, from := "", 0
		for range len(s.Lines) + 1 {
			part, next := s.Text(from, max(1, size%1000))
			parts += part
			if from = next; next == 0 {
				break
			}
		}
		if parts != whole {
			t.Fatalf("%q in parts is %q", whole, parts)
		}
		for _, l := range s.Lines {
			if l.Number > 0 {
				if _, ok := b.Ref(l.Number); !ok {
					t.Fatalf("%d is the number of no element", l.Number)
				}
			}
		}
		if d, ok := b.Take(&x).Delta(s); len(s.Lines) > 0 && (d != "" || !ok) {
			t.Fatalf("%v %q", ok, d)
		}
	})
}
