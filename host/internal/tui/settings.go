package tui

import (
	"encoding/json"
	"path/filepath"
	"strings"

	tea "charm.land/bubbletea/v2"
	"github.com/gantry-agent/gantry/host/internal/client"
	"github.com/gantry-agent/gantry/host/internal/protocol"
	"github.com/gantry-agent/gantry/host/internal/tui/keys"
	"github.com/gantry-agent/gantry/host/internal/tui/past"
	"github.com/gantry-agent/gantry/host/internal/tui/theme"
)

// settings are those of the block "tui" of the configuration.
type settings struct {
	History *bool             `json:"history"` // nil: true
	Theme   string            `json:"theme"`   // empty: that of the terminal
	Reader  bool              `json:"screen_reader"`
	Keys    map[string]string `json:"keys"` // by action
}

// readSettings reads the configuration, and applies it.
func readSettings(m *Model, home string) tea.Cmd {
	dir := m.cfg.Dir
	return call(m, protocol.MethodConfigRead.Name, protocol.ConfigReadParams{Cwd: &dir}, func(m *Model, r protocol.ConfigReadResponse, err error) tea.Cmd {
		var own struct {
			TUI settings `json:"tui"`
		}
		if raw := r.Config["gantry"]; err == nil && raw != nil {
			err = json.Unmarshal(raw, &own)
		}
		if err != nil {
			m.fail(err)
			return nil
		}
		return apply(m, own.TUI, home)
	})
}

// apply applies settings.
func apply(m *Model, s settings, home string) tea.Cmd {
	m.colors = theme.Palette(s.Theme)
	if m.speech.on = s.Reader; s.Reader && m.thread != nil {
		m.speech.opened(m)
	}
	if len(s.Keys) > 0 {
		var problems []string
		m.table, problems = keys.Bind(keys.Table(), s.Keys)
		m.view.UnfoldKey = keyed(m, "%s", keys.Fold)
		if len(problems) > 0 {
			m.note(client.Notice{Level: client.Warning, Text: strings.Join(problems, "\n"), Next: "? lists the keys"})
		}
	}
	if home == "" || s.History != nil && !*s.History {
		return nil
	}
	p := past.Open(filepath.Join(home, "tui"), m.cfg.Dir)
	return func() tea.Msg {
		messages, draft, err := p.Read()
		return applied(func(m *Model) tea.Cmd {
			if err != nil {
				noPast(m, err)
				return nil
			}
			m.past, m.kept = p, draft
			m.composer.Before(messages)
			if m.composer.Empty() && draft != "" {
				m.composer.Set(draft)
				m.hint = "this message was not sent; Ctrl-C clears it"
			}
			return keepDraft(m)
		})
	}
}

// take takes the message out of the composer, and keeps it for later sessions.
func take(m *Model) tea.Cmd {
	text := m.composer.Take()
	m.suggest.dismiss()
	if m.past == nil {
		return nil
	}
	p := m.past
	return func() tea.Msg {
		if err := p.Add(text); err != nil {
			return applied(func(m *Model) tea.Cmd { noPast(m, err); return nil })
		}
		return nil
	}
}

// keepDraft keeps what is being written, a moment after it has changed.
func keepDraft(m *Model) tea.Cmd {
	if m.past == nil || m.keeping || m.composer.Text() == m.kept {
		return nil
	}
	m.keeping = true
	return m.later(draftDelay, keep{})
}

// saveDraft is what happens after that moment.
func saveDraft(m *Model) tea.Cmd {
	p, text := m.past, m.composer.Text()
	if p == nil {
		return nil
	}
	return func() tea.Msg {
		err := p.Draft(text)
		return applied(func(m *Model) tea.Cmd {
			m.keeping = false
			if err != nil {
				noPast(m, err)
			}
			m.kept = text
			return keepDraft(m)
		})
	}
}

// leave keeps the draft at the end of the program.
func leave(m *Model) error {
	if m.past == nil {
		return nil
	}
	return m.past.Draft(m.composer.Text())
}

// noPast says that messages can't be kept.
func noPast(m *Model, err error) {
	m.past = nil
	m.note(client.Notice{Level: client.Warning, Text: "messages are not kept for later sessions: " + err.Error(), Next: "to turn this off, set tui.history = false"})
}
