// Package pager shows a whole thread to read: it searches, jumps from message to message, and copies.
//
// It owns: the search, which message is marked, and the pager's own lines. It does not know how keys are called, or where a copy goes.
//
// Start with [Open].
package pager

import (
	"fmt"

	"github.com/gantry-agent/gantry/host/internal/client"
	"github.com/gantry-agent/gantry/host/internal/protocol"
	"github.com/gantry-agent/gantry/host/internal/tui/keys"
	"github.com/gantry-agent/gantry/host/internal/tui/markdown"
	"github.com/gantry-agent/gantry/host/internal/tui/term"
	"github.com/gantry-agent/gantry/host/internal/tui/theme"
	"github.com/gantry-agent/gantry/host/internal/tui/transcript"
)

// Pager is a thread that is read.
type Pager struct {
	view   *transcript.View
	items  []*client.Item
	at     int  // index of the marked message; negative: none
	typing bool // what to search for
	query  string
	block  int // index of the block of code that is copied next
	said   string
}

// Open opens a pager where a view is. The last message that is seen is marked.
func Open(view *transcript.View, items []*client.Item) *Pager {
	p := &Pager{view: view.Whole(), items: items, at: -1}
	from := len(items)
	if !view.Following() {
		from = view.First() + 1
	}
	p.mark(from, -1)
	return p
}

// Prepended tells of n items that were added before the first one.
func (p *Pager) Prepended(n int) {
	p.view.Prepended(n)
	if p.at >= 0 {
		p.at += n
	}
}

// AtTop reports whether the first line is seen.
func (p *Pager) AtTop() bool { return p.view.AtTop() }

// Searching reports whether what to search for is being typed: keys are then those of [keys.List].
func (p *Pager) Searching() bool { return p.typing }

// Type adds to what is searched for.
func (p *Pager) Type(text string) {
	if p.typing {
		p.query += term.Plain(text)
	}
}

// Do does an action of the context [keys.Pager], or of [keys.List] while what to search for is typed. copied is what is to be copied.
func (p *Pager) Do(a keys.Action) (copied string) {
	p.said = ""
	if p.typing {
		p.search(a)
		return ""
	}
	page := max(p.view.Height()-2, 1)
	switch a {
	case keys.Search:
		p.typing, p.query = true, ""
	case keys.FindNext:
		p.find(false)
	case keys.FindPrevious:
		p.find(true)
	case keys.NextMessage:
		p.jump(1)
	case keys.LastMessage:
		p.jump(-1)
	case keys.CopyMessage:
		if text, ok := p.message(p.at); ok {
			p.said = "the message was copied, if the terminal permits it"
			return text
		}
		p.said = "no message is marked"
	case keys.CopyCode:
		return p.code()
	case keys.LineUp:
		p.view.Scroll(-1)
	case keys.LineDown:
		p.view.Scroll(1)
	case keys.PageUp:
		p.view.Scroll(-page)
	case keys.PageDown:
		p.view.Scroll(page)
	case keys.Top:
		p.view.Top()
	case keys.Bottom:
		p.view.Bottom()
	}
	return ""
}

// Scroll scrolls by lines.
func (p *Pager) Scroll(by int) { p.view.Scroll(by) }

func (p *Pager) search(a keys.Action) {
	switch a {
	case keys.Delete:
		if r := []rune(p.query); len(r) > 0 {
			p.query = string(r[:len(r)-1])
		}
	case keys.Close:
		p.typing, p.query = false, ""
		p.view.Search("", false)
	case keys.Choose:
		p.typing = false
		p.find(false)
	}
}

func (p *Pager) find(back bool) {
	if p.query == "" {
		p.said = "nothing is searched for; / begins a search"
		return
	}
	switch found, wrapped := p.view.Search(p.query, back); {
	case !found:
		p.said = "not found"
	case wrapped && back:
		p.said = "found from the end on"
	case wrapped:
		p.said = "found from the beginning on"
	}
}

// message returns the text of a message; ok is false if the item is none.
func (p *Pager) message(i int) (text string, ok bool) {
	if i < 0 || i >= len(p.items) {
		return "", false
	}
	switch b := p.items[i].Body.(type) {
	case protocol.UserMessageItem:
		return transcript.Input(b.Content), true
	case protocol.AgentMessageItem, protocol.PlanItem:
		return p.items[i].Text(), true
	}
	return "", false
}

// mark marks the message nearest to an index in one direction, and reports whether there is one.
func (p *Pager) mark(from, by int) bool {
	for i := from + by; i >= 0 && i < len(p.items); i += by {
		if _, ok := p.message(i); ok {
			p.at, p.block = i, 0
			p.view.Mark(i)
			return true
		}
	}
	return false
}

func (p *Pager) jump(by int) {
	if !p.mark(p.at, by) {
		p.said = "there is no other message in this direction"
		return
	}
	p.view.Goto(p.at)
}

// code returns a block of code of the marked message, each time the next one.
func (p *Pager) code() string {
	text, _ := p.message(p.at)
	blocks := markdown.CodeBlocks(text)
	if len(blocks) == 0 {
		p.said = "the marked message has no code"
		return ""
	}
	at := p.block % len(blocks)
	p.block = at + 1
	p.said = fmt.Sprintf("block %d of %d was copied, if the terminal permits it", at+1, len(blocks))
	return blocks[at]
}

// View returns the lines of the screen, exactly as many as it is high, and the column of the cursor in the last one; negative: it is hidden.
func (p *Pager) View(items []*client.Item, width, height int) (lines []term.Line, cursor int) {
	p.items = items
	if height <= 0 {
		return nil, -1
	}
	p.view.Show(items, width, max(height-1, 1))
	if height > 1 {
		lines = p.view.Lines()
	}
	for len(lines) < height-1 {
		lines = append(lines, nil)
	}
	cursor = -1
	var foot term.Line
	switch {
	case p.typing:
		foot = term.Line{{Text: "/", Style: theme.Accent}, {Text: p.query, Style: theme.Text}}
		cursor = min(foot.Width(), width-1)
	case p.said != "":
		foot = term.Text(p.said, theme.Warn)
	default:
		foot = term.Text("q closes · / searches · [ ] jump · c copies the marked message, b its code", theme.Dim)
		if p.query != "" {
			foot = term.Text("n and N find "+p.query, theme.Dim)
		}
	}
	return append(lines, foot.Fit(width)), cursor
}
