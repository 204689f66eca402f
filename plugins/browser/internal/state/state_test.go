package state

import (
	"strings"
	"testing"
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
