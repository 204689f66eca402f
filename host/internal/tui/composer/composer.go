// Package composer edits the message that is about to be sent.
//
// It owns: the text with its cursor, long pastes as one character, what was cut, undo, earlier messages, and the layout. It does not know
// when a message is sent, or where to.
//
// Start with [Composer].
package composer

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gantry-agent/gantry/host/internal/tui/keys"
	"github.com/gantry-agent/gantry/host/internal/tui/term"
	"github.com/gantry-agent/gantry/host/internal/tui/theme"
)

// element is a character, or a long paste, which is moved over and deleted like one.
type element struct {
	text  string
	shown string // of a paste; else empty
}

func (e element) show() string {
	if e.shown != "" {
		return e.shown
	}
	return e.text
}

// Composer is a message being written. The zero Composer is empty.
type Composer struct {
	text   []element
	cursor int // index of the element after it
	cut    []element
	past   []snapshot
	typing bool // the last change was a typed character, which the next one joins for undo

	history []string
	at      int       // index in history; len(history): the draft
	draft   []element // while history is shown
}

type snapshot struct {
	text   []element
	cursor int
}

// Bounds.
const (
	maxUndo     = 200
	maxHistory  = 1000
	foldLines   = 6    // a paste with more lines is folded
	foldChars   = 1000 // and so is one with more characters
	maxElements = 1 << 20
)

// Text returns the message, with pastes in full.
func (c *Composer) Text() string { return joined(c.text) }

// Empty reports whether there is nothing.
func (c *Composer) Empty() bool { return len(c.text) == 0 }

// Set replaces the message, and puts the cursor at its end.
func (c *Composer) Set(text string) {
	c.remember(false)
	c.text = elements(text)
	c.cursor = len(c.text)
}

// Take returns the message and leaves an empty one. It is kept as the latest of the history.
func (c *Composer) Take() string {
	text := c.Text()
	c.Add(text)
	c.text, c.cursor, c.past, c.typing, c.draft = nil, 0, nil, false, nil
	return text
}

// Add adds an earlier message to the history.
func (c *Composer) Add(text string) {
	if strings.TrimSpace(text) != "" && (len(c.history) == 0 || c.history[len(c.history)-1] != text) {
		c.history = append(c.history, text)
		if n := len(c.history) - maxHistory; n > 0 {
			c.history = slices.Delete(c.history, 0, n)
		}
	}
	c.at = len(c.history)
}

// Before adds messages that were sent before those of the history.
func (c *Composer) Before(messages []string) {
	messages = messages[max(len(messages)+len(c.history)-maxHistory, 0):]
	c.history = slices.Concat(messages, c.history)
	c.at += len(messages)
}

// Earlier returns the earlier messages, the latest last.
func (c *Composer) Earlier() []string { return c.history }

// Type inserts what was typed.
func (c *Composer) Type(text string) {
	c.remember(strings.TrimSpace(text) != "")
	c.insert(elements(text))
}

// Paste inserts a paste: a long one as one character, which is sent in full.
func (c *Composer) Paste(text string) {
	c.remember(false)
	clean := term.Clean(strings.ReplaceAll(strings.ReplaceAll(text, "\r\n", "\n"), "\r", "\n"))
	lines := strings.Count(clean, "\n") + 1
	if lines <= foldLines && len(clean) <= foldChars {
		c.insert(elements(clean))
		return
	}
	shown := fmt.Sprintf("[%d characters pasted]", len([]rune(clean)))
	if lines > foldLines {
		shown = fmt.Sprintf("[%d lines pasted]", lines)
	}
	c.insert([]element{{text: clean, shown: shown}})
}

// ReplaceWord replaces the word before the cursor, including the characters in front of which it begins.
func (c *Composer) ReplaceWord(with string) {
	c.remember(false)
	start := c.wordStart()
	c.text = slices.Delete(c.text, start, c.cursor)
	c.cursor = start
	c.insert(elements(with))
}

// Word returns the word before the cursor, and whether it is the first of the message.
func (c *Composer) Word() (word string, first bool) {
	start := c.wordStart()
	return joined(c.text[start:c.cursor]), start == 0
}

func (c *Composer) wordStart() int {
	i := c.cursor
	for i > 0 && !blank(c.text[i-1]) {
		i--
	}
	return i
}

// Do does an action of the context [keys.Edit], or inserts a new line. It returns false if the action has no effect here.
func (c *Composer) Do(a keys.Action) bool {
	switch a {
	case keys.Left:
		c.move(c.cursor - 1)
	case keys.Right:
		c.move(c.cursor + 1)
	case keys.WordLeft:
		c.move(c.before())
	case keys.WordRight:
		c.move(c.after())
	case keys.LineStart:
		c.move(c.start())
	case keys.LineEnd:
		c.move(c.end())
	case keys.Up:
		return c.vertical(-1)
	case keys.Down:
		return c.vertical(1)
	case keys.Newline:
		c.remember(false)
		c.insert([]element{{text: "\n"}})
	case keys.Delete:
		c.erase(c.cursor-1, c.cursor, false)
	case keys.DeleteNext:
		c.erase(c.cursor, c.cursor+1, false)
	case keys.DeleteWord:
		c.erase(c.before(), c.cursor, true)
	case keys.KillWord:
		c.erase(c.cursor, c.after(), true)
	case keys.KillStart:
		c.erase(c.start(), c.cursor, true)
	case keys.KillEnd:
		end := c.end()
		if end == c.cursor {
			end++ // the end of the line itself
		}
		c.erase(c.cursor, end, true)
	case keys.Yank:
		c.remember(false)
		c.insert(c.cut)
	case keys.Undo:
		if n := len(c.past); n > 0 {
			c.text, c.cursor = c.past[n-1].text, c.past[n-1].cursor
			c.past, c.typing = c.past[:n-1], false
		}
	default:
		return false
	}
	return true
}

func (c *Composer) move(to int) {
	c.cursor = min(max(to, 0), len(c.text))
	c.typing = false
}

// remember keeps the message for undo. Characters of a word are undone together.
func (c *Composer) remember(typing bool) {
	if typing && c.typing {
		return
	}
	c.typing = typing
	c.past = append(c.past, snapshot{slices.Clone(c.text), c.cursor})
	if len(c.past) > maxUndo {
		c.past = slices.Delete(c.past, 0, 1)
	}
}

func (c *Composer) insert(e []element) {
	if len(c.text)+len(e) > maxElements {
		return
	}
	c.text = slices.Insert(c.text, c.cursor, e...)
	c.cursor += len(e)
}

func (c *Composer) erase(from, to int, keep bool) {
	from, to = max(from, 0), min(to, len(c.text))
	if from >= to {
		return
	}
	c.remember(false)
	if keep {
		c.cut = slices.Clone(c.text[from:to])
	}
	c.text = slices.Delete(c.text, from, to)
	c.cursor = from
}

// start and end are those of the line of the cursor, before and after those of words.
func (c *Composer) start() int {
	i := c.cursor
	for i > 0 && c.text[i-1].text != "\n" {
		i--
	}
	return i
}

func (c *Composer) end() int {
	i := c.cursor
	for i < len(c.text) && c.text[i].text != "\n" {
		i++
	}
	return i
}

func (c *Composer) before() int {
	i := c.cursor
	for i > 0 && blank(c.text[i-1]) {
		i--
	}
	for i > 0 && !blank(c.text[i-1]) {
		i--
	}
	return i
}

func (c *Composer) after() int {
	i := c.cursor
	for i < len(c.text) && blank(c.text[i]) {
		i++
	}
	for i < len(c.text) && !blank(c.text[i]) {
		i++
	}
	return i
}

// vertical moves the cursor by a line, or from the first and the last line through the history.
func (c *Composer) vertical(by int) bool {
	c.typing = false
	start := c.start()
	column := c.cursor - start
	if by < 0 && start > 0 {
		c.cursor = start - 1
		c.cursor = min(c.start()+column, start-1)
		return true
	}
	if end := c.end(); by > 0 && end < len(c.text) {
		c.cursor = end + 1
		c.cursor = min(end+1+column, c.end())
		return true
	}
	to := c.at + by
	if to < 0 || to > len(c.history) {
		return false
	}
	if c.at == len(c.history) {
		c.draft = c.text
	}
	c.remember(false)
	if c.at = to; to == len(c.history) {
		c.text = c.draft
	} else {
		c.text = elements(c.history[to])
	}
	c.cursor = len(c.text)
	return true
}

// Layout returns the lines of the message at most width columns wide, and where the cursor is among them.
func (c *Composer) Layout(width int) (lines []term.Line, x, y int) {
	width = max(width, 2)
	var line term.Line
	var run strings.Builder
	var style term.Style
	used := 0
	flush := func() {
		if run.Len() > 0 {
			line = append(line, term.Span{Text: run.String(), Style: style})
			run.Reset()
		}
	}
	brk := func() {
		flush()
		lines = append(lines, line)
		line, used = nil, 0
	}
	for i, e := range c.text {
		if e.text == "\n" {
			if i == c.cursor {
				x, y = used, len(lines)
			}
			brk()
			continue
		}
		next := theme.Text
		if e.shown != "" {
			next = theme.Accent
		}
		for n, text := 0, e.show(); text != ""; n++ {
			g, w := term.First(text)
			text = text[len(g):]
			if w > width {
				g, w = "?", 1
			}
			if used+w > width {
				brk()
			}
			if i == c.cursor && n == 0 {
				x, y = used, len(lines)
			}
			if next != style {
				flush()
				style = next
			}
			run.WriteString(g)
			used += w
		}
	}
	if c.cursor == len(c.text) {
		if used >= width {
			brk()
		}
		x, y = used, len(lines)
	}
	flush()
	return append(lines, line), x, y
}

func blank(e element) bool { return e.text == " " || e.text == "\n" }

func joined(e []element) string {
	var out strings.Builder
	for _, x := range e {
		out.WriteString(x.text)
	}
	return out.String()
}

func elements(text string) []element {
	text = term.Clean(text)
	var out []element
	for text != "" {
		g, _ := term.First(text)
		out = append(out, element{text: g})
		text = text[len(g):]
	}
	return out
}
