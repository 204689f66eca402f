// Package state makes of what was read from a page the text that a model reads, and keeps the numbers of its elements.
//
// It owns: which elements have numbers, the lines, what has changed between two states, and what fits into a budget. It is pure: it must not
// know how a page is read, or what an action does.
//
// Start with [Book.Take].
package state

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// Flags of a node.
const (
	Interactive = 1 << iota
	Covered     // by something opaque
	Scrollable
	Box  // scrollable, and numbered for its role
	Keep // not a decoration of what contains it
	Zero // has no area
)

// Node is an element that matters, or a text.
type Node struct {
	Tag    string      `json:"n"` // lower-case; "#shadow" is a shadow root, "" a text
	Text   string      `json:"x"` // of a shadow root: "closed", or empty
	ID     int         `json:"i"` // in its frame; 0: it can't be acted on
	Flags  int         `json:"f"`
	Attrs  [][2]string `json:"a"` // in the order of the source, then the live ones
	Rect   [4]float64  `json:"r"` // left, top, width, height, in its frame
	Scroll [3]float64  `json:"s"` // pages above and below; percentage scrolled to the right, -1: it does not scroll to the right
	Frame  int         `json:"o"` // index for [Frame.Child]; 0: it is no frame
	Turns  string      `json:"p"` // which part of a list a click leads to: "next", "prev", "first", "last" or a number; empty: none
	Link   string      `json:"h"` // address
	Kids   []*Node     `json:"k"`
}

// Frame is what was read from one frame.
type Frame struct {
	ID       string     `json:"-"`
	Document string     `json:"doc"` // differs between documents
	URL      string     `json:"url"`
	Title    string     `json:"title"`
	View     [2]float64 `json:"view"` // width and height
	Page     [2]float64 `json:"page"`
	Scroll   [2]float64 `json:"scroll"`
	Above    int        `json:"above"` // interactive elements that are too far away to be listed
	Below    int        `json:"below"`
	Elements int        `json:"elements"` // all
	Far      []Far      `json:"far"`      // the nearest of those below, in a frame within the page
	Nodes    []*Node    `json:"nodes"`
	Scope    *Frame     `json:"-"` // if not nil, only what was read from this one is shown
	// Child returns the frame with an index, for the element with an ID; nil: it was not read.
	Child func(index, element int) *Frame `json:"-"`
}

// Far is an element that is too far away to be listed.
type Far struct {
	Tag   string  `json:"n"`
	Text  string  `json:"x"`
	Pages float64 `json:"d"` // how far down it is
}

// Ref is an element.
type Ref struct {
	Frame, Document string
	ID              int
}

// Line is a line of the text.
type Line struct {
	Number int // of the element; 0: none
	Depth  int
	Text   string // without its number and its indentation
	Link   string // where it leads; empty: nowhere, or it was not asked for
}

// String returns the line as the model reads it.
func (l Line) String() string { return l.text(false) }

// key is what a line is compared by: what is around it changes nothing about it.
func (l Line) key() Line { return Line{Number: l.Number, Text: l.Text} }

func (l Line) text(isNew bool) string {
	text := l.Text
	if l.Link != "" {
		text = strings.Replace(text, " />", " href="+clip(l.Link, maxLink)+" />", 1)
	}
	if l.Number > 0 {
		text = strings.Replace(text, "<", fmt.Sprintf("[%d]<", l.Number), 1)
		if isNew {
			text = "*" + text
		}
	}
	return strings.Repeat("\t", l.Depth) + text
}

// State is a page at one moment.
type State struct {
	*Frame
	Lines   []Line
	Numbers int // elements with numbers
	New     map[int]bool
	turns   []turn
}

// turn is an element that leads to a part of a list.
type turn struct {
	to     string
	number int
}

const (
	// maxText is the size of a line of text; longer ones are divided, because states are cut between lines.
	maxText = 1000
	// maxLink is the length of an address.
	maxLink = 100
	// maxLines bounds a state. A page with more is not what the script has read.
	maxLines = 100_000
)

// Book keeps the numbers of the elements of a tab: an element keeps its number as long as its document lives. A new document begins with 1.
type Book struct {
	document string
	numbers  map[Ref]int
	refs     map[int]Ref
}

// Ref returns the element with a number.
func (b *Book) Ref(number int) (Ref, bool) {
	r, ok := b.refs[number]
	return r, ok
}

// Rebind gives an element the number of one that the page has replaced by it.
func (b *Book) Rebind(number int, to Ref) {
	delete(b.numbers, b.refs[number])
	b.refs[number], b.numbers[to] = to, number
}

// Document is the document of the page whose elements have the numbers.
func (b *Book) Document() string { return b.document }

// Max is the largest number.
func (b *Book) Max() int { return len(b.refs) }

// Take makes the state of a page.
func (b *Book) Take(f *Frame) *State {
	if b.refs == nil || f.Document != b.document {
		b.document, b.numbers, b.refs = f.Document, map[Ref]int{}, map[int]Ref{}
	}
	known := len(b.refs)
	w := writer{book: b, state: &State{Frame: f, New: map[int]bool{}}, seen: map[*Frame]bool{}}
	shown := f
	if f.Scope != nil {
		shown = f.Scope
	}
	for _, n := range shown.Nodes {
		w.node(shown, n, 0, nil)
	}
	if known > 0 {
		for i := known + 1; i <= len(b.refs); i++ {
			w.state.New[i] = true
		}
	}
	return w.state
}

// number returns the number of an element.
func (b *Book) number(r Ref) int {
	n := b.numbers[r]
	if n == 0 {
		n = len(b.refs) + 1
		b.numbers[r], b.refs[n] = n, r
	}
	return n
}

type writer struct {
	book  *Book
	state *State
	seen  map[*Frame]bool
}

func (w *writer) add(l Line) { w.state.Lines = append(w.state.Lines, l) }

// words adds a text, which is divided between words if it is long.
func (w *writer) words(depth int, text string) {
	for len(text) > maxText {
		end := strings.LastIndexByte(text[:maxText], ' ')
		if end <= 0 {
			end = len(strings.ToValidUTF8(text[:maxText], ""))
		}
		if end == 0 {
			break // it is no text
		}
		w.add(Line{Depth: depth, Text: text[:end]})
		text = strings.TrimPrefix(text[end:], " ")
	}
	w.add(Line{Depth: depth, Text: text})
}

// node writes a node and what it contains. around is the nearest element of which what is inside may be a decoration.
func (w *writer) node(f *Frame, n *Node, depth int, around *Node) {
	switch {
	case n == nil || len(w.state.Lines) >= maxLines:
		return
	case n.Tag == "":
		w.words(depth, n.Text)
		return
	case n.Tag == "#shadow":
		kind := "Open"
		if n.Text == "closed" {
			kind = "Closed"
		}
		w.add(Line{Depth: depth, Text: kind + " Shadow"})
		w.kids(f, n, depth+1, around)
		w.add(Line{Depth: depth, Text: "Shadow End"})
		return
	}
	var child *Frame
	if n.Frame > 0 && f.Child != nil {
		if child = f.Child(n.Frame, n.ID); w.seen[child] || n.Flags&Covered != 0 {
			child = nil // a frame has one element, and what is in it is covered with it
		}
		w.seen[child] = child != nil
	}
	numbered := n.Flags&Covered == 0 && (n.Flags&Interactive != 0 && !n.decorates(around) || n.Flags&Box != 0 || n.Flags&Scrollable != 0 && !n.acts())
	picture := n.Tag == "svg" && n.Flags&Covered == 0 && !n.decorates(around)
	if !numbered && n.Flags&Scrollable == 0 && child == nil && !picture {
		w.kids(f, n, depth, around)
		return
	}
	l := Line{Depth: depth, Text: "<" + n.Tag + attributes(n) + " />", Link: n.Link}
	switch {
	case n.Flags&Scrollable != 0 && numbered:
		l.Text = "|scroll element" + l.Text
	case n.Flags&Scrollable != 0:
		l.Text = "|scroll element|" + l.Text
	case child != nil && !numbered:
		l.Text = "|IFRAME|" + l.Text
	}
	if numbered {
		l.Number = w.book.number(Ref{f.ID, f.Document, n.ID})
		w.state.Numbers++
		if n.Turns != "" {
			w.state.turns = append(w.state.turns, turn{n.Turns, l.Number})
		}
	}
	if n.Flags&Scrollable != 0 {
		l.Text += fmt.Sprintf(" (%.1f pages above, %.1f pages below", n.Scroll[0], n.Scroll[1])
		if n.Scroll[2] >= 0 {
			l.Text += fmt.Sprintf(" horizontal %.0f%%", n.Scroll[2])
		}
		l.Text += ")"
	}
	if child != nil && child.Page[1] > child.View[1] {
		l.Text += " (scroll)"
	}
	if n.Tag == "svg" {
		l.Text += " <!-- SVG content collapsed -->"
	}
	w.add(l)
	if n.propagates() {
		around = n
	}
	w.kids(f, n, depth+1, around)
	if child == nil {
		return
	}
	if child.Above > 0 {
		w.add(Line{Depth: depth + 1, Text: fmt.Sprintf("... (%d more elements above - scroll to reveal)", child.Above)})
	}
	for _, c := range child.Nodes {
		w.node(child, c, depth+1, nil)
	}
	if child.Below > 0 {
		w.add(Line{Depth: depth + 1, Text: fmt.Sprintf("... (%d more elements below - scroll to reveal):", child.Below)})
	}
	for _, x := range child.Far {
		w.add(Line{Depth: depth + 1, Text: fmt.Sprintf("    <%s> %q ~%.1f pages down", x.Tag, x.Text, x.Pages)})
	}
}

func (w *writer) kids(f *Frame, n *Node, depth int, around *Node) {
	for _, c := range n.Kids {
		w.node(f, c, depth, around)
	}
}

// attr returns an attribute.
func (n *Node) attr(name string) string {
	for _, a := range n.Attrs {
		if a[0] == name {
			return a[1]
		}
	}
	return ""
}

// acts reports whether a descendant is interactive.
func (n *Node) acts() bool {
	return slices.ContainsFunc(n.Kids, func(c *Node) bool { return c != nil && (c.Flags&(Interactive|Covered) == Interactive || c.acts()) })
}

// propagates reports whether what is inside an element is probably a part of it.
func (n *Node) propagates() bool {
	role := n.attr("role")
	switch n.Tag {
	case "a", "button":
		return true
	case "div", "span":
		return role == "button" || role == "combobox"
	case "input":
		return role == "combobox"
	}
	return false
}

// kept are the roles of elements that are never decorations.
var kept = []string{"button", "link", "checkbox", "radio", "tab", "menuitem", "option"}

// decorates reports whether an element is only a part of the one around it.
func (n *Node) decorates(around *Node) bool {
	const share = 0.99
	if around == nil || n.Flags&(Keep|Zero) != 0 || n.propagates() || n.attr("aria-label") != "" || slices.Contains(kept, n.attr("role")) ||
		slices.Contains([]string{"input", "select", "textarea", "label"}, n.Tag) {
		return false
	}
	area := n.Rect[2] * n.Rect[3]
	w := min(n.Rect[0]+n.Rect[2], around.Rect[0]+around.Rect[2]) - max(n.Rect[0], around.Rect[0])
	h := min(n.Rect[1]+n.Rect[3], around.Rect[1]+around.Rect[3]) - max(n.Rect[1], around.Rect[1])
	return area > 0 && w > 0 && h > 0 && w*h/area >= share
}

// always are the attributes that are shown even if another one has the same value.
var always = []string{"format", "expected_format", "placeholder", "value", "aria-label", "title", "selected", "options"}

// attributes returns the attributes of an element as they are shown.
func attributes(n *Node) string {
	var b strings.Builder
	seen := map[string]bool{}
	shown := func(name string) bool { return n.attr(name) != "" }
	for _, a := range n.Attrs {
		k, v := a[0], strings.TrimSpace(a[1])
		switch {
		case v == "", k == "type" && v == n.Tag, k == "role" && v == n.Tag, k == "aria-checked" && shown("checked") && v != "mixed":
			continue
		case len(v) > 5 && seen[v] && !slices.Contains(always, k):
			continue
		}
		seen[v] = true
		fmt.Fprintf(&b, " %s=%s", k, v)
	}
	return b.String()
}

// Text returns lines from index from, at most maxBytes of them, cut between lines. next is the index of the first line that is left out; 0: none is.
func (s *State) Text(from, maxBytes int) (text string, next int) {
	var b strings.Builder
	for i := max(0, from); i < len(s.Lines); i++ {
		l := s.Lines[i].text(s.New[s.Lines[i].Number])
		if b.Len()+len(l) > maxBytes && b.Len() > 0 {
			return b.String(), i
		}
		b.WriteString(l)
		b.WriteByte('\n')
	}
	return b.String(), 0
}

// Delta returns what has changed since an earlier state of the same document: lines that are new ("+"), gone ("-") and changed ("~"). ok is
// false if it would not be shorter than 60 % of the state.
func (s *State) Delta(old *State) (text string, ok bool) {
	const most = 0.6
	if old == nil || old.Document != s.Document {
		return "", false
	}
	count := map[Line]int{}
	numbers := map[int]Line{}
	for _, l := range old.Lines {
		count[l.key()]++
		if l.Number > 0 {
			numbers[l.Number] = l.key()
		}
	}
	var b strings.Builder
	var context *Line
	same, all := 0, 0
	for i, l := range s.Lines {
		all += len(l.Text)
		key := l.key()
		if count[key] > 0 {
			count[key]--
			same += len(l.Text)
			context = &s.Lines[i]
			continue
		}
		sign := "+"
		if was, known := numbers[l.Number]; known && l.Number > 0 {
			sign = "~"
			count[was] = 0
		} else if context != nil { // where it is
			fmt.Fprintf(&b, "  %s\n", strings.TrimRight(clip(context.String(), 80), "\n"))
		}
		context = nil
		fmt.Fprintf(&b, "%s %s\n", sign, l)
	}
	for _, l := range old.Lines {
		key := l.key()
		if count[key] > 0 {
			count[key]--
			l.Depth = 0
			fmt.Fprintf(&b, "- %s\n", clip(l.String(), 80))
		}
	}
	return b.String(), all == 0 || float64(all-same) <= most*float64(all)
}

func clip(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "..."
}

// Header describes the page around the lines.
func (s *State) Header() string {
	pages := func(px float64) float64 { return math.Max(0, px) / math.Max(1, s.View[1]) }
	above, below := pages(s.Scroll[1]), pages(s.Page[1]-s.View[1]-s.Scroll[1])
	out := fmt.Sprintf("%.1f pages above, %.1f pages below; %d elements, %d numbered", above, below, s.Elements, s.Numbers)
	if s.Above+s.Below > 0 {
		out += fmt.Sprintf("; not listed: %d above, %d below", s.Above, s.Below)
	}
	return out + s.pagination()
}

// pagination is a line with the elements that lead to the other parts of a list, if there is one.
func (s *State) pagination() string {
	const most = 12
	var out []string
	sure := false
	order := []string{"first", "prev", "", "next", "last"}
	place := func(t turn) int { // numbers stand in the middle, in the order of the page
		to, _, _ := strings.Cut(t.to, " ")
		if i := slices.Index(order, to); i >= 0 {
			sure = sure || to == "prev" || to == "next"
			return i
		}
		return slices.Index(order, "")
	}
	turns := slices.Clone(s.turns)
	slices.SortStableFunc(turns, func(a, b turn) int { return place(a) - place(b) })
	for _, t := range turns {
		out = append(out, fmt.Sprintf("%s [%d]", t.to, t.number))
	}
	if len(out) < 2 || len(out) > most || !sure {
		return ""
	}
	return "\nPagination: " + strings.Join(out, ", ")
}
