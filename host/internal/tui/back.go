package tui

import (
	"fmt"
	"slices"
	"strings"

	tea "charm.land/bubbletea/v2"
	"github.com/gantry-agent/gantry/host/internal/client"
	"github.com/gantry-agent/gantry/host/internal/protocol"
	"github.com/gantry-agent/gantry/host/internal/tui/keys"
	"github.com/gantry-agent/gantry/host/internal/tui/picker"
)

// sent is the first message of a turn.
type sent struct{ turn, text string }

// sentMessages returns the messages that began the turns which are known, the latest first.
func sentMessages(t *client.Thread) []sent {
	var out []sent
	seen := map[string]bool{}
	for _, it := range t.Items {
		if b, ok := it.Body.(protocol.UserMessageItem); ok && !seen[it.Turn] {
			seen[it.Turn] = true
			out = append(out, sent{it.Turn, typed(b.Content)})
		}
	}
	slices.Reverse(out)
	return out
}

// pickSent lets the user choose an earlier message, to edit it.
func pickSent(m *Model, _ string) tea.Cmd {
	p := &picker.Picker{Title: "Edit an earlier message", Empty: "there are none"}
	for _, s := range sentMessages(m.thread) {
		p.Rows = append(p.Rows, picker.Row{Label: s.text, Value: s})
	}
	if m.thread.Older != nil {
		p.Rows = append(p.Rows, picker.Row{Label: "…", Detail: "read earlier messages", Value: nil})
	}
	m.pick(p, func(m *Model, r picker.Row) tea.Cmd {
		s, ok := r.Value.(sent)
		if !ok {
			return readOlder(m, func(m *Model) tea.Cmd { return pickSent(m, "") })
		}
		return pickWay(m, s)
	})
	return nil
}

// pickWay lets the user choose what becomes of the thread whose message is edited.
func pickWay(m *Model, s sent) tea.Cmd {
	p := &picker.Picker{Title: "Edit it where?", Rows: []picker.Row{
		{Label: "in a fork", Detail: "this thread stays as it is", Value: forkBefore},
		{Label: "here", Detail: "drops this message and all after it; files stay as they are", Value: revertTo},
		{Label: "here, and restore files", Detail: "also undoes what was changed since", Value: rewind},
	}}
	m.pick(p, func(m *Model, r picker.Row) tea.Cmd {
		if m.running() != nil {
			m.hint = keyed(m, "the turn has to end first; %s interrupts it", keys.Interrupt)
			return nil
		}
		return r.Value.(func(*Model, sent) tea.Cmd)(m, s)
	})
	return nil
}

// forkBefore goes on in a copy of the thread that ends before a message.
func forkBefore(m *Model, s sent) tea.Cmd {
	params := protocol.ThreadForkParams{ThreadID: m.thread.ID, BeforeTurnID: &s.turn, ExcludeTurns: true}
	return call(m, protocol.MethodThreadFork.Name, params, func(m *Model, r protocol.ThreadForkResponse, err error) tea.Cmd {
		if err != nil {
			m.fail(err)
			return nil
		}
		m.composer.Set(s.text)
		return m.resume(r.Thread.ID)
	})
}

// revertTo drops a message and all after it.
func revertTo(m *Model, s sent) tea.Cmd {
	id := m.thread.ID
	return call(m, protocol.MethodThreadRevert.Name, protocol.ThreadRevertParams{ThreadID: id, BeforeTurnID: s.turn},
		func(m *Model, _ protocol.ThreadRevertResponse, err error) tea.Cmd {
			if err != nil {
				m.fail(err)
				return nil
			}
			m.composer.Set(s.text)
			return m.resume(id)
		})
}

// rewind shows what the turns since a message have changed, undoes it if that is confirmed, and then drops them.
func rewind(m *Model, s sent) tea.Cmd {
	at := slices.IndexFunc(m.thread.Turns, func(u *client.Turn) bool { return u.ID == s.turn })
	if at < 0 {
		return revertTo(m, s)
	}
	var diffs, turns []string
	for _, u := range m.thread.Turns[at:] {
		if d := turnDiff(m.thread, u); d != "" {
			diffs, turns = append(diffs, d), append(turns, u.ID)
		}
	}
	if len(turns) == 0 {
		return revertTo(m, s)
	}
	return confirm(m, "Undo these changes, and drop the messages?", strings.Join(diffs, "\n"), fmt.Sprintf("changes of %d turns", len(turns)),
		func(m *Model) tea.Cmd { return undoTurns(m, turns, s) })
}

// undoTurns undoes turns, the last one first, and then drops them. It stops if that would lose other changes.
func undoTurns(m *Model, turns []string, s sent) tea.Cmd {
	if len(turns) == 0 {
		return revertTo(m, s)
	}
	last := len(turns) - 1
	return call(m, protocol.MethodGantryTurnUndo.Name, protocol.GantryTurnUndoParams{ThreadID: m.thread.ID, TurnID: &turns[last]},
		func(m *Model, r protocol.GantryTurnUndoResponse, err error) tea.Cmd {
			switch {
			case err != nil:
				m.fail(err)
			case refused(m, r):
			default:
				return undoTurns(m, turns[:last], s)
			}
			return nil
		})
}

// confirm shows a diff, and does something if the user wants it.
func confirm(m *Model, what, diff, detail string, then func(m *Model) tea.Cmd) tea.Cmd {
	if diff != "" {
		m.note(client.Notice{Text: diff, Diff: true})
	}
	p := &picker.Picker{Title: what, Rows: []picker.Row{{Label: "yes", Detail: detail, Value: true}, {Label: "no", Value: false}}}
	m.pick(p, func(m *Model, r picker.Row) tea.Cmd {
		if !r.Value.(bool) {
			return nil
		}
		return then(m)
	})
	return nil
}

// turnDiff returns what a turn has changed, as far as it is known.
func turnDiff(t *client.Thread, u *client.Turn) string {
	if u.Diff != "" {
		return u.Diff
	}
	var out []string
	for _, it := range t.Items {
		b, ok := it.Body.(protocol.FileChangeItem)
		if !ok || it.Turn != u.ID || b.Status != protocol.ItemCompleted {
			continue
		}
		for _, c := range b.Changes {
			out = append(out, "--- "+c.Path+"\n"+strings.TrimRight(c.Diff, "\n"))
		}
	}
	return strings.Join(out, "\n")
}
