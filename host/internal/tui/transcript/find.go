package transcript

import (
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/gantry-agent/gantry/host/internal/client"
	"github.com/gantry-agent/gantry/host/internal/protocol"
	"github.com/gantry-agent/gantry/host/internal/tui/term"
	"github.com/gantry-agent/gantry/host/internal/tui/theme"
)

// place is a line of an item.
type place struct{ item, line int }

// Whole returns a view of the same place in which nothing is folded.
func (v *View) Whole() *View {
	w := New()
	w.items, w.width, w.height, w.unfolded, w.following = v.items, max(v.width, 1), max(v.height, 1), true, v.following
	w.item = v.item
	return w
}

// First returns the index of the first item that is seen; -1: there is none.
func (v *View) First() int {
	if len(v.items) == 0 {
		return -1
	}
	item, line := v.item, v.line
	if v.following {
		item, line, _ = v.fromEnd()
	}
	if line >= len(v.lines(item)) && item+1 < len(v.items) {
		item++
	}
	return item
}

// Goto shows an item, as the first one if there is enough after it.
func (v *View) Goto(item int) { v.show(place{min(max(item, 0), max(len(v.items)-1, 0)), 0}) }

// show puts a line at the top, or as near to it as the end permits.
func (v *View) show(p place) {
	v.following, v.item, v.line = false, p.item, p.line
	if item, line, _ := v.fromEnd(); v.item > item || v.item == item && v.line >= line {
		v.following = true
	}
}

// Mark marks an item; a negative one: none.
func (v *View) Mark(item int) { v.marked = item }

// Search looks for the next line that contains a text, in either case, from the last one that was found or from the first line that is seen,
// and then from the other end. It shows that line, and all occurrences that are seen; an empty text ends that. wrapped is set if the search
// went over an end.
func (v *View) Search(text string, back bool) (found, wrapped bool) {
	if text != v.query {
		v.query, v.found = text, nil
	}
	if text == "" || len(v.items) == 0 {
		return false, false
	}
	var from place
	switch {
	case v.found != nil:
		from = *v.found
	case v.following:
		from.item, from.line, _ = v.fromEnd()
	default:
		from = place{v.item, v.line}
	}
	again := v.found != nil
	n, wanted := len(v.items), words(text)
	for i := range n + 1 { // the first item twice: its lines after from, and then those before
		at := (from.item + i) % n
		if back {
			at = (from.item - i + n) % n
		}
		if !v.mayContain(v.items[at], wanted) {
			continue
		}
		lines := v.lines(at)
		order := make([]int, len(lines))
		for l := range order {
			order[l] = l
		}
		if back {
			slices.Reverse(order)
		}
		for _, l := range order {
			if i == 0 && (!back && l < from.line || back && l > from.line || again && l == from.line) {
				continue
			}
			if start, _ := match(lines[l].Plain(), v.query); start < 0 {
				continue
			}
			p := place{at, l}
			wrapped := i == n || !back && at < from.item || back && at > from.item
			v.found = &p
			if !v.sees(p) {
				v.show(p)
				if !v.following {
					v.Scroll(-min(v.height/3, context))
				}
			}
			return true, wrapped
		}
	}
	return false, false
}

// mayContain reports whether the lines of an item can contain all of these words. It is there so that most of a long thread is searched
// without being rendered.
func (v *View) mayContain(it *client.Item, words []string) bool {
	var raw string
	switch b := it.Body.(type) {
	case protocol.AgentMessageItem:
		raw = strings.Map(func(c rune) rune {
			if strings.ContainsRune("*_~`\\", c) {
				return -1 // marks that may be within a word
			}
			return c
		}, it.Text())
	case protocol.CommandExecutionItem:
		if b.Status == protocol.ItemInProgress || it.Omitted() > 0 {
			return true
		}
		raw = CommandLine(b) + "\n" + it.Text()
		if b.ExitCode != nil && b.DurationMs != nil { // as they are shown
			raw += fmt.Sprintf("\nexit %d %s", *b.ExitCode, Duration(time.Duration(*b.DurationMs)*time.Millisecond))
		}
	default:
		return true
	}
	if !v.unfolded || strings.ContainsRune(raw, '\x1b') {
		return true // the view says how much is folded, and a sequence may be within a word
	}
	raw = strings.ToLower(raw)
	for _, w := range words {
		if !strings.Contains(raw, w) {
			return false
		}
	}
	return true
}

// words returns the runs of letters and digits of a text, in lower case.
func words(text string) []string {
	return strings.FieldsFunc(strings.ToLower(text), func(c rune) bool { return !unicode.IsLetter(c) && !unicode.IsDigit(c) })
}

// context is how many lines are shown above one that was found.
const context = 5

// sees reports whether a line is seen.
func (v *View) sees(p place) bool {
	item, line := v.item, v.line
	if v.following {
		item, line, _ = v.fromEnd()
	}
	row := -line
	for ; item < p.item && row < v.height; item++ {
		row += len(v.lines(item))
	}
	row += p.line
	return item == p.item && row >= 0 && row < v.height
}

// match returns where a text contains another, in either case; start is negative if it doesn't.
func match(text, query string) (start, end int) {
	lower := strings.ToLower(text)
	if len(lower) != len(text) { // positions would differ
		lower = text
	} else {
		query = strings.ToLower(query)
	}
	start = strings.Index(lower, query)
	return start, start + len(query)
}

// decorate marks what was found and the marked item in a line.
func (v *View) decorate(p place, l term.Line) term.Line {
	if v.marked == p.item && p.line == 1 {
		l = style(l, 0, len(l.Plain()), theme.Marked)
	}
	if v.query == "" {
		return l
	}
	look := theme.Match
	if v.found != nil && *v.found == p {
		look = theme.Selected
	}
	text := l.Plain()
	for at := 0; at < len(text); {
		start, end := match(text[at:], v.query)
		if start < 0 || end <= start {
			break
		}
		l = style(l, at+start, at+end, look)
		at += end
	}
	return l
}

// style adds a style to a part of a line, given in bytes.
func style(l term.Line, from, to int, add term.Style) term.Line {
	var out term.Line
	at := 0
	for _, s := range l {
		n := len(s.Text)
		a, b := min(max(from-at, 0), n), min(max(to-at, 0), n)
		for _, part := range []term.Span{{Text: s.Text[:a], Style: s.Style}, {Text: s.Text[a:b], Style: s.Style.With(add)}, {Text: s.Text[b:], Style: s.Style}} {
			if part.Text != "" {
				out = append(out, part)
			}
		}
		at += n
	}
	return out
}
