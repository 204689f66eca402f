package tui

import (
	"strings"

	tea "charm.land/bubbletea/v2"
	"github.com/gantry-agent/gantry/host/internal/tui/term"
	"github.com/gantry-agent/gantry/host/internal/tui/theme"
	"github.com/gantry-agent/gantry/host/internal/tui/transcript"
)

// speech is the mode for screen readers: items are written once, in order and below each other, when they are complete, and only what is
// being typed or asked for is drawn again.
type speech struct {
	on    bool
	done  int  // items that were written
	going bool // some are being written
}

// speak writes the items that have become complete.
func speak(m *Model) tea.Cmd {
	s := &m.speech
	if !s.on || s.going || m.thread == nil {
		return nil
	}
	var out []string
	for ; s.done < len(m.thread.Items) && m.thread.Items[s.done].Done; s.done++ {
		if text := transcript.Speak(m.thread.Items[s.done]); text != "" {
			out = append(out, text)
		}
	}
	if len(out) == 0 {
		return nil
	}
	s.going = true
	return tea.Sequence(tea.Println(strings.Join(out, "\n")), func() tea.Msg {
		return applied(func(m *Model) tea.Cmd {
			m.speech.going = false
			return nil // what has become complete meanwhile follows from every message
		})
	})
}

// opened begins with the last turn of a thread.
func (s *speech) opened(m *Model) {
	s.done = len(m.thread.Items)
	if n := s.done; n > 0 {
		for last := m.thread.Items[n-1].Turn; s.done > 0 && m.thread.Items[s.done-1].Turn == last; {
			s.done--
		}
	}
}

// plainScreen returns what is drawn in this mode, and where the cursor is.
func plainScreen(m *Model) (lines []term.Line, x, y int) {
	w := m.width
	switch {
	case m.question != nil:
		lines = m.question.View(w, max(m.height-2, 1), len(m.thread.Questions)-1)
	case m.picker != nil:
		lines = m.picker.View(w, max(m.height-2, 1))
	default:
		lines = m.suggest.view(w)
	}
	if text := plainStatus(m); text != "" {
		lines = append(lines, term.Text(term.Plain(text), theme.Text).Fit(w))
	}
	label := "Message: "
	if w < 2*len(label) {
		label = ""
	}
	text, cx, cy := m.composer.Layout(w - len(label))
	text = term.Prefix(text, term.Text(label, theme.Text), term.Text(strings.Repeat(" ", len(label)), theme.Text))
	lines = append(lines, text...)
	above := len(lines) - len(text)
	if hidden := max(len(lines)-m.height, 0); hidden > 0 {
		lines, above = lines[hidden:], above-hidden
	}
	return lines, min(cx+len(label), w-1), max(above+cy, 0)
}

// plainStatus is what has to be said about the state; it changes only with it, so that it is not read out again and again.
func plainStatus(m *Model) string {
	switch {
	case m.hint != "":
		return m.hint
	case m.lost != "":
		return m.lost
	case m.question != nil, m.picker != nil:
		return ""
	case m.running() != nil:
		return "Working"
	case m.starting:
		return "Starting"
	}
	return "Ready"
}
