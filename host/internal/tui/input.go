package tui

import (
	"crypto/rand"
	"os"
	"slices"
	"strings"

	tea "charm.land/bubbletea/v2"
	"github.com/gantry-agent/gantry/host/internal/client"
	"github.com/gantry-agent/gantry/host/internal/protocol"
	"github.com/gantry-agent/gantry/host/internal/tui/keys"
	"github.com/gantry-agent/gantry/host/internal/tui/overlay"
	"github.com/gantry-agent/gantry/host/internal/tui/pager"
	"github.com/gantry-agent/gantry/host/internal/tui/picker"
)

// key handles a key.
func (m *Model) key(k tea.KeyPressMsg) tea.Cmd {
	m.quiet++
	name := k.Keystroke()
	if k.Text != "" && k.Text != " " && k.Mod&^tea.ModShift == 0 {
		name = k.Text
	}
	again := m.again
	m.hint, m.again = "", ""
	if m.question != nil {
		if m.question.Armed {
			return m.questionKey(k, name)
		}
		if m.pager != nil {
			return tea.Batch(m.settle(), pagerKey(m, k, name))
		}
		return tea.Batch(m.settle(), m.composerKey(k, name, again))
	}
	if m.pager != nil {
		return pagerKey(m, k, name)
	}
	if m.picker != nil {
		return m.pickerKey(k, name)
	}
	return m.composerKey(k, name, again)
}

func (m *Model) questionKey(k tea.KeyPressMsg, name string) tea.Cmd {
	answer, done := m.question.Press(overlay.Key{Text: k.Text, Action: keys.Find(m.table, keys.Question, name)})
	if !done {
		return nil
	}
	id := m.question.Question.ID
	m.thread.Settle(id)
	m.question = nil
	if err := m.cfg.Server.Answer(id, answer); err != nil {
		m.fail(err)
	}
	return m.ask()
}

func (m *Model) pickerKey(k tea.KeyPressMsg, name string) tea.Cmd {
	switch a := keys.Find(m.table, keys.List, name); {
	case a == keys.Close:
		m.picker = nil
	case a != "":
		if r := m.picker.Do(a); r != nil {
			chosen := m.chosen
			m.picker = nil
			return chosen(m, *r)
		}
	case k.Text != "":
		m.picker.Type(k.Text)
	default: // what is above the list can be read
		switch a := keys.Find(m.table, keys.Main, name); a {
		case keys.PageUp, keys.PageDown, keys.LineUp, keys.LineDown, keys.Fold:
			return m.action(a, false)
		}
	}
	return nil
}

// pagerKey handles a key in the pager.
func pagerKey(m *Model, k tea.KeyPressMsg, name string) tea.Cmd {
	if m.pager.Searching() {
		if a := keys.Find(m.table, keys.List, name); a != "" {
			m.pager.Do(a)
		} else {
			m.pager.Type(k.Text)
		}
		return nil
	}
	a := keys.Find(m.table, keys.Pager, name)
	if a == keys.Close {
		m.pager = nil
		return nil
	}
	if copied := m.pager.Do(a); copied != "" {
		return tea.SetClipboard(copied)
	}
	return m.older()
}

// pick lets the user choose.
func (m *Model) pick(p *picker.Picker, chosen func(m *Model, r picker.Row) tea.Cmd) {
	m.picker, m.chosen = p, chosen
}

func (m *Model) composerKey(k tea.KeyPressMsg, name string, again keys.Action) tea.Cmd {
	main, edit := keys.Find(m.table, keys.Main, name), keys.Find(m.table, keys.Edit, name)
	if main == keys.Help && k.Text != "" && !m.composer.Empty() {
		main = ""
	}
	if main == keys.Leave && !m.composer.Empty() {
		main, edit = "", keys.DeleteNext
	}
	if m.suggest.open() {
		switch {
		case main == keys.Queue, main == keys.Send && m.suggest.command():
			return m.complete(main == keys.Send)
		case main == keys.Interrupt:
			m.suggest.dismiss()
			return nil
		case edit == keys.Up || edit == keys.Down:
			m.suggest.move(edit)
			return nil
		}
	}
	if main != "" {
		return m.action(main, again == main)
	}
	switch {
	case edit != "":
		m.composer.Do(edit)
	case k.Text != "":
		m.composer.Type(k.Text)
	default:
		return nil
	}
	return m.suggestions()
}

func (m *Model) paste(text string) tea.Cmd {
	m.quiet++
	switch {
	case m.question != nil && m.question.Armed:
		m.question.Paste(text)
		return nil
	case m.question == nil && m.pager != nil:
		m.pager.Type(text)
		return nil
	case m.question == nil && m.picker != nil:
		m.picker.Type(text)
		return nil
	}
	if path, ok := dropped(text); ok && m.question == nil {
		return pasteImage(text, path)
	}
	m.composer.Paste(text)
	if m.question != nil {
		return m.settle()
	}
	return nil
}

// action does what a key of the context [keys.Main] does. again is set if it was pressed just before as well.
func (m *Model) action(a keys.Action, again bool) tea.Cmd {
	page := max(m.view.Height()-2, 1)
	switch a {
	case keys.Send:
		if text, ok := strings.CutSuffix(m.composer.Text(), `\`); ok {
			m.composer.Set(text + "\n")
			return nil
		}
		return m.submit()
	case keys.Newline:
		m.composer.Do(keys.Newline)
	case keys.Queue:
		return m.queue()
	case keys.Interrupt:
		switch {
		case m.running() != nil || m.thread == nil || !m.composer.Empty():
			return m.interrupt()
		case again:
			return pickSent(m, "")
		}
		m.hint, m.again = keyed(m, "%s again edits an earlier message", a), a
	case keys.Cancel:
		switch {
		case !m.composer.Empty():
			m.composer.Add(m.composer.Text())
			m.composer.Set("")
			m.suggest.dismiss()
		case m.running() != nil:
			return m.interrupt()
		case again:
			return tea.Quit
		default:
			m.hint, m.again = keyed(m, "%s again leaves", a), a
		}
	case keys.Leave:
		if m.running() == nil || again {
			return tea.Quit
		}
		m.hint, m.again = keyed(m, "a turn is running: %s again leaves, and the turn goes on; %s interrupts it", a, keys.Interrupt), a
	case keys.Editor:
		return m.edit()
	case keys.History:
		m.history()
	case keys.Fold:
		m.view.Fold()
	case keys.OpenPager:
		if m.thread != nil && !m.speech.on {
			m.pager = pager.Open(m.view, m.thread.Items)
			return m.older()
		}
	case keys.PageUp:
		return m.scroll(-page)
	case keys.PageDown:
		return m.scroll(page)
	case keys.LineUp:
		return m.scroll(-1)
	case keys.LineDown:
		return m.scroll(1)
	case keys.Top:
		m.view.Top()
		return m.older()
	case keys.Bottom:
		m.view.Bottom()
	case keys.Permissions:
		return nextPreset(m)
	case keys.LessEffort:
		return stepEffort(m, -1)
	case keys.MoreEffort:
		return stepEffort(m, 1)
	case keys.Help:
		showHelp(m)
	case keys.Suspend:
		return tea.Suspend
	case keys.Redraw:
		return tea.ClearScreen
	case keys.Mouse:
		m.mouse = !m.mouse
	}
	return nil
}

func (m *Model) scroll(by int) tea.Cmd {
	if m.pager != nil && m.question == nil {
		m.pager.Scroll(by)
	} else {
		m.view.Scroll(by)
	}
	return m.older()
}

// submit does what Enter does with the message.
func (m *Model) submit() tea.Cmd {
	text := m.composer.Text()
	if strings.TrimSpace(text) == "" {
		return nil
	}
	if name, args, ok := parseCommand(text); ok {
		c, known := command(name)
		switch {
		case !known:
			m.hint = "/" + name + " is not a command; ? lists them"
			return nil
		case !c.running && m.running() != nil:
			m.hint = "/" + name + " has to wait until the turn has ended"
			return nil
		case m.thread == nil && !c.anytime:
			m.hint = "the thread is not ready yet"
			return nil
		}
		kept := take(m)
		return tea.Batch(kept, c.run(m, args))
	}
	kept := take(m)
	m.view.Bottom()
	if m.thread == nil {
		m.unsent = append(m.unsent, text)
		return kept
	}
	return tea.Batch(kept, m.send(text))
}

// send starts a turn, or steers the one that runs.
func (m *Model) send(text string) tea.Cmd {
	if cmd, ok := strings.CutPrefix(text, "!"); ok && strings.TrimSpace(cmd) != "" {
		return m.do(protocol.MethodThreadShellCommand.Name, protocol.ThreadShellCommandParams{ThreadID: m.thread.ID, Command: strings.TrimSpace(cmd)})
	}
	id := rand.Text()
	return call(m, protocol.MethodTurnStart.Name, protocol.TurnStartParams{ThreadID: m.thread.ID, Input: input(m.thread.Cwd, text), ClientUserMessageID: &id},
		func(m *Model, _ protocol.TurnStartResponse, err error) tea.Cmd {
			m.giveBack(text, err)
			return nil
		})
}

// giveBack shows why a message was not accepted, and puts it back.
func (m *Model) giveBack(text string, err error) {
	if err == nil {
		return
	}
	m.fail(err)
	if m.composer.Empty() {
		m.composer.Set(text)
	}
}

// queue keeps the message for the next turn.
func (m *Model) queue() tea.Cmd {
	text := m.composer.Text()
	if strings.TrimSpace(text) == "" {
		return nil
	}
	if m.thread == nil || m.running() == nil {
		return m.submit()
	}
	kept := take(m)
	return tea.Batch(kept, call(m, protocol.MethodThreadQueueAdd.Name, protocol.ThreadQueueAddParams{ThreadID: m.thread.ID, Input: input(m.thread.Cwd, text), ClientUserMessageID: rand.Text()},
		func(m *Model, _ protocol.ThreadQueueAddResponse, err error) tea.Cmd {
			m.giveBack(text, err)
			return nil
		}))
}

func (m *Model) interrupt() tea.Cmd {
	u := m.running()
	if u == nil {
		return nil
	}
	m.hint = "interrupting …"
	return call(m, protocol.MethodTurnInterrupt.Name, protocol.TurnInterruptParams{ThreadID: m.thread.ID, TurnID: u.ID},
		func(m *Model, _ protocol.TurnInterruptResponse, err error) tea.Cmd {
			m.hint = ""
			m.fail(err)
			return nil
		})
}

// edit opens the message in the user's editor.
func (m *Model) edit() tea.Cmd {
	if m.cfg.Editor == nil {
		m.hint = "set $VISUAL or $EDITOR to edit the message there"
		return nil
	}
	f, err := os.CreateTemp("", "gantry-*.md") // readable for the user alone
	if err == nil {
		_, err = f.WriteString(m.composer.Text())
		if closed := f.Close(); err == nil {
			err = closed
		}
	}
	if err != nil {
		m.fail(err)
		return nil
	}
	path := f.Name()
	return tea.Exec(m.cfg.Editor(path), func(err error) tea.Msg {
		defer func() { _ = os.Remove(path) }()
		var text []byte
		if err == nil {
			text, err = os.ReadFile(path)
		}
		return applied(func(m *Model) tea.Cmd {
			if err != nil {
				m.note(client.Notice{Level: client.Error, Text: "the editor failed: " + err.Error()})
				return nil
			}
			m.composer.Set(strings.TrimRight(string(text), "\n"))
			return nil
		})
	})
}

func (m *Model) history() {
	earlier := m.composer.Earlier()
	p := &picker.Picker{Title: "Earlier messages", Empty: "there are none"}
	seen := map[string]bool{}
	for _, text := range slices.Backward(earlier) {
		if !seen[text] {
			p.Rows = append(p.Rows, picker.Row{Label: text, Value: text})
		}
		seen[text] = true
	}
	m.pick(p, func(m *Model, r picker.Row) tea.Cmd {
		m.composer.Set(r.Value.(string))
		return nil
	})
}
