// Package transcript shows the items of a thread.
//
// It owns: the look of each item, folding, and which lines are seen. It does not know where a thread comes from.
//
// Start with [View]. Only what is seen is rendered, and an item is rendered again only after it has changed.
package transcript

import (
	"github.com/gantry-agent/gantry/host/internal/client"
	"github.com/gantry-agent/gantry/host/internal/tui/markdown"
	"github.com/gantry-agent/gantry/host/internal/tui/term"
)

// View is a window on the items of a thread. It is not safe for concurrent use.
type View struct {
	UnfoldKey string // the name of the key that shows what is folded

	items         []*client.Item
	width, height int
	unfolded      bool

	// The first line that is seen. At the end, following is set, and the last line is seen instead, whatever is added.
	following  bool
	item, line int

	marked int    // index of the item that is marked; negative: none
	query  string // what is searched for; empty: nothing
	found  *place // the last line that was found; nil: none

	renderer markdown.Renderer
	cache    map[*client.Item]*rendered
}

// rendered is an item as lines.
type rendered struct {
	lines   []term.Line
	version int
	done    bool
	stream  markdown.Stream
}

// maxCache bounds the items whose lines are kept, since most of a long thread is seen once.
const maxCache = 2000

// New returns a view at the end of a thread.
func New() *View {
	return &View{UnfoldKey: "Ctrl-O", following: true, marked: -1, cache: map[*client.Item]*rendered{}}
}

// Show sets what is shown, and the size of the window. Items are added at the end; [View.Prepended] tells of those at the beginning.
func (v *View) Show(items []*client.Item, width, height int) {
	width, height = max(width, 1), max(height, 1)
	if width != v.width {
		clear(v.cache)
		v.line, v.found = 0, nil
	}
	v.items, v.width, v.height = items, width, height
	v.item = max(min(v.item, len(items)-1), 0)
}

// Prepended keeps the place after n items were added before the first one.
func (v *View) Prepended(n int) {
	v.item += n
	if v.marked >= 0 {
		v.marked += n
	}
	if v.found != nil {
		v.found.item += n
	}
}

// Reset goes to the end of another thread.
func (v *View) Reset() {
	clear(v.cache)
	v.items, v.following, v.item, v.line = nil, true, 0, 0
	v.marked, v.query, v.found = -1, "", nil
}

// Fold shows outputs and changes in full, or again folded.
func (v *View) Fold() {
	v.unfolded = !v.unfolded
	clear(v.cache)
	v.line = 0
}

// Following reports whether the end is seen, and stays in sight.
func (v *View) Following() bool { return v.following }

// Top goes to the beginning, Bottom to the end.
func (v *View) Top() { v.following, v.item, v.line = false, 0, 0 }

// Bottom goes to the end and follows it.
func (v *View) Bottom() { v.following = true }

// AtTop reports whether the first line is seen.
func (v *View) AtTop() bool {
	if v.following {
		item, line, full := v.fromEnd()
		return !full || item == 0 && line == 0
	}
	return v.item == 0 && v.line == 0
}

// Scroll moves the window by lines, up if n is negative.
func (v *View) Scroll(n int) {
	if len(v.items) == 0 {
		v.following = true
		return
	}
	if v.following {
		if n >= 0 {
			return
		}
		item, line, full := v.fromEnd()
		if !full {
			return
		}
		v.following, v.item, v.line = false, item, line
	}
	for ; n < 0; n++ {
		if v.line > 0 {
			v.line--
		} else if v.item > 0 {
			v.item--
			v.line = max(len(v.lines(v.item))-1, 0)
		}
	}
	for ; n > 0; n-- {
		if v.line++; v.line >= len(v.lines(v.item)) {
			if v.item+1 >= len(v.items) {
				v.line--
				break
			}
			v.item, v.line = v.item+1, 0
		}
	}
	if item, line, _ := v.fromEnd(); v.item > item || v.item == item && v.line >= line {
		v.following = true
	}
}

// fromEnd returns the first line that is seen if the last one is; full is false if all lines fit.
func (v *View) fromEnd() (item, line int, full bool) {
	left := v.height
	for i := len(v.items) - 1; i >= 0; i-- {
		n := len(v.lines(i))
		if n > left {
			return i, n - left, true
		}
		left -= n
	}
	return 0, 0, false
}

// Lines returns the lines that are seen, at most as many as the window is high.
func (v *View) Lines() []term.Line {
	item, line := v.item, v.line
	if v.following {
		item, line, _ = v.fromEnd()
	}
	var out []term.Line
	for ; item < len(v.items) && len(out) < v.height; item++ {
		lines := v.lines(item)
		for ; line < len(lines) && len(out) < v.height; line++ {
			out = append(out, v.decorate(place{item, line}, lines[line]))
		}
		line = 0
	}
	return out[:min(len(out), v.height)]
}

// lines returns the lines of an item, with a blank one before all but the first.
func (v *View) lines(i int) []term.Line {
	it := v.items[i]
	r := v.cache[it]
	if r != nil && r.version == it.Version && r.done == it.Done {
		return r.lines
	}
	if r == nil {
		if len(v.cache) >= maxCache {
			clear(v.cache)
		}
		r = &rendered{stream: markdown.Stream{Renderer: &v.renderer}}
		v.cache[it] = r
	}
	r.version, r.done = it.Version, it.Done
	r.lines = v.render(it, r)
	if len(r.lines) > 0 {
		r.lines = append([]term.Line{nil}, r.lines...)
	}
	return r.lines
}

// Height returns the number of lines of the window.
func (v *View) Height() int { return v.height }
