package tui

import (
	"cmp"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/gantry-agent/gantry/host/internal/client"
	"github.com/gantry-agent/gantry/host/internal/tui/keys"
	"github.com/gantry-agent/gantry/host/internal/tui/term"
	"github.com/gantry-agent/gantry/host/internal/tui/theme"
	"github.com/gantry-agent/gantry/host/internal/tui/transcript"
)

// View implements [tea.Model].
func (m *Model) View() tea.View {
	v := tea.View{AltScreen: true, ReportFocus: true, WindowTitle: m.title()}
	if m.mouse {
		v.MouseMode = tea.MouseModeCellMotion
	}
	if m.width <= 0 || m.height <= 0 {
		return v
	}
	if m.speech.on {
		v.AltScreen, v.MouseMode = false, tea.MouseModeNone
	}
	lines, x, y := m.screen()
	if y >= 0 {
		v.Cursor = tea.NewCursor(x, y)
	}
	var out strings.Builder
	for i, l := range lines {
		if i > 0 {
			out.WriteByte('\n')
		}
		out.WriteString(l.Paint(&m.colors))
	}
	v.Content = out.String()
	return v
}

func (m *Model) title() string {
	if m.thread == nil {
		return "gantry"
	}
	return "gantry: " + term.Plain(filepath.Base(m.thread.Title()))
}

const prompt = "› "

// screen returns the lines of the screen, exactly as many as it is high, and where the cursor is; y is negative if there is none.
func (m *Model) screen() (lines []term.Line, x, y int) {
	w, h := m.width, m.height
	if m.speech.on {
		return plainScreen(m)
	}
	if m.pager != nil && m.question == nil {
		lines, x = m.pager.View(m.thread.Items, w, h)
		if y = h - 1; x < 0 {
			x, y = 0, -1
		}
		return lines, x, y
	}
	left := h
	take := func(from []term.Line, most int) []term.Line { // the last ones matter most
		n := min(len(from), max(most, 0), left)
		left -= n
		return from[len(from)-n:]
	}
	status := take([]term.Line{m.statusLine()}, 1)
	indent := term.Width(prompt)
	if w < 10 {
		indent = 0
	}
	text, cx, cy := m.composer.Layout(w - indent)
	room := max(1, h/3)
	first := 0 // of the lines of the composer that are seen
	if len(text) > room {
		first = min(max(cy-room+1, 0), len(text)-room)
		text = text[first : first+room]
	}
	if indent > 0 {
		style := theme.Accent
		if m.question != nil || m.picker != nil {
			style = theme.Dim
		}
		text = term.Prefix(text, term.Text(prompt, style), term.Text("  ", theme.Text))
	}
	if m.composer.Empty() && m.question == nil && m.picker == nil && indent > 0 {
		text = []term.Line{append(text[0][:len(text[0]):len(text[0])], term.Span{Text: m.placeholder(), Style: theme.Dim}).Fit(w)}
	}
	for i := range text {
		text[i] = text[i].Fit(w)
	}
	below := take(text, room)
	cut := len(text) - len(below)
	rule := take([]term.Line{term.Text(strings.Repeat("─", w), theme.Dim)}, 1)
	var middle []term.Line
	switch {
	case m.question != nil:
		middle = take(m.question.View(w, left, len(m.thread.Questions)-1), left)
	case m.picker != nil:
		middle = take(m.picker.View(w, min(left, max(h/2, 5))), left)
	default:
		middle = take(m.suggest.view(w), left/2)
	}
	queue := take(m.queueLines(w), left/2)

	var items []*client.Item
	if m.thread != nil {
		items = m.thread.Items
	}
	m.view.Show(items, w, left)
	if left > 0 {
		lines = m.view.Lines()
		for len(lines) < left {
			lines = append(lines, nil)
		}
	}
	y = -1
	lines = append(append(append(append(lines, queue...), middle...), rule...), below...)
	if at := cy - first - cut; m.picker == nil && (m.question == nil || !m.question.Armed) && at >= 0 && len(below) > 0 {
		x, y = min(cx+indent, w-1), len(lines)-len(below)+at
	}
	return append(lines, status...), x, y
}

func (m *Model) placeholder() string {
	switch {
	case m.lost != "":
		return m.lost
	case m.running() != nil:
		return keyed(m, "%s steers the turn, %s queues, %s interrupts", keys.Send, keys.Queue, keys.Interrupt)
	case len(m.unsent) > 0:
		return "the message is sent as soon as the thread is ready"
	}
	return keyed(m, "What shall be done? / lists commands, @ finds files, %s shows keys", keys.Help)
}

// keyed is a text that names the keys of actions.
func keyed(m *Model, format string, actions ...keys.Action) string {
	var names []any
	for _, a := range actions {
		names = append(names, cmp.Or(keys.First(m.table, keys.Main, a), "(no key)"))
	}
	return fmt.Sprintf(format, names...)
}

func (m *Model) queueLines(w int) []term.Line {
	if m.thread == nil {
		return nil
	}
	var out []term.Line
	for _, q := range m.thread.Queue {
		out = append(out, term.Text("  queued: "+term.Plain(transcript.Input(q.Input)), theme.Dim).Fit(w))
	}
	return out
}

// statusLine is the last line: what happens on the left, settings on the right as far as there is space.
func (m *Model) statusLine() term.Line {
	var left term.Line
	switch {
	case m.hint != "":
		left = term.Text(term.Plain(m.hint), theme.Warn)
	case m.lost != "":
		left = term.Text(term.Plain(m.lost), theme.Bad)
	case m.question != nil:
		left = term.Text("needs your answer", theme.Warn)
	case m.running() != nil:
		left = term.Text("working "+transcript.Duration(m.now().Sub(m.began).Truncate(time.Second)), theme.Accent)
	case m.starting:
		left = term.Text("starting", theme.Dim)
	default:
		left = term.Text("ready", theme.Dim)
	}
	if !m.view.Following() {
		left = append(left, term.Span{Text: keyed(m, " · scrolled up, %s follows", keys.Bottom), Style: theme.Dim})
	}
	left = left.Fit(m.width)
	var right term.Line
	for _, part := range m.settings() {
		more := term.Span{Text: term.Plain(part), Style: theme.Dim}
		if len(right) > 0 {
			more.Text = " · " + more.Text
		}
		if next := append(right[:len(right):len(right)], more); left.Width()+2+next.Width() <= m.width {
			right = next
		}
	}
	return append(left.Pad(m.width-right.Width(), theme.Text), right...)
}

// settings are the parts of the status line, most important first.
func (m *Model) settings() []string {
	t := m.thread
	if t == nil {
		return nil
	}
	out := []string{t.Model}
	if t.Effort != "" {
		out[0] += " " + t.Effort
	}
	out = append(out, string(t.Approval.Kind)+"/"+t.SandboxName())
	if n, ok := t.Context(); ok {
		out = append(out, fmt.Sprintf("%d%% left", n))
	}
	if t.Usage != nil {
		out = append(out, tokens(t.Usage.Total.TotalTokens)+" tokens")
	}
	return append(out, filepath.Base(t.Cwd))
}

func tokens(n int64) string {
	switch {
	case n < 1000:
		return fmt.Sprint(n)
	case n < 1_000_000:
		return fmt.Sprintf("%.1fk", float64(n)/1000)
	}
	return fmt.Sprintf("%.1fM", float64(n)/1_000_000)
}
