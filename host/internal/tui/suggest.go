package tui

import (
	"strings"

	tea "charm.land/bubbletea/v2"
	"github.com/gantry-agent/gantry/host/internal/protocol"
	"github.com/gantry-agent/gantry/host/internal/tui/keys"
	"github.com/gantry-agent/gantry/host/internal/tui/picker"
	"github.com/gantry-agent/gantry/host/internal/tui/term"
	"github.com/gantry-agent/gantry/host/internal/tui/theme"
)

// suggestions complete the word before the cursor.
type suggestions struct {
	word string
	rows []picker.Row // Value is what replaces the word
	at   int
}

const maxSuggestions = 6

func (s *suggestions) open() bool    { return len(s.rows) > 0 }
func (s *suggestions) command() bool { return strings.HasPrefix(s.word, "/") }
func (s *suggestions) dismiss()      { *s = suggestions{} }

func (s *suggestions) move(a keys.Action) {
	if a == keys.Up {
		s.at = max(s.at-1, 0)
	} else {
		s.at = min(s.at+1, len(s.rows)-1)
	}
}

func (s *suggestions) view(width int) []term.Line {
	var out []term.Line
	for i, r := range s.rows {
		l := term.Line{{Text: "  " + term.Plain(r.Label), Style: theme.Text}, {Text: "  " + term.Plain(r.Detail), Style: theme.Dim}}.Fit(width)
		if i == s.at {
			l = term.Text(l.Pad(width, theme.Text).Plain(), theme.Selected)
		}
		out = append(out, l)
	}
	return out
}

// suggestions looks for what completes the word before the cursor.
func (m *Model) suggestions() tea.Cmd {
	word, first := m.composer.Word()
	if word == m.suggest.word {
		return nil
	}
	switch {
	case first && strings.HasPrefix(word, "/") && strings.Count(word, "/") == 1:
		m.suggest = suggestions{word: word}
		for _, c := range commands() {
			if strings.HasPrefix(c.name, word[1:]) && len(m.suggest.rows) < maxSuggestions {
				m.suggest.rows = append(m.suggest.rows, picker.Row{Label: "/" + c.name + c.arguments(), Detail: c.help, Value: "/" + c.name + " "})
			}
		}
		return nil
	case strings.HasPrefix(word, "@") && len(word) > 1 && m.thread != nil:
		rows := m.suggest.rows
		if !strings.HasPrefix(m.suggest.word, "@") {
			rows = nil
		}
		m.suggest = suggestions{word: word, rows: rows} // the old ones stay until there are new ones
		token := "@"
		return call(m, protocol.MethodFuzzyFileSearch.Name,
			protocol.FuzzyFileSearchParams{Query: word[1:], Roots: []string{m.thread.Cwd}, CancellationToken: &token},
			func(m *Model, r protocol.FuzzyFileSearchResponse, err error) tea.Cmd {
				if m.suggest.word != word || err != nil {
					return nil // another word by now
				}
				m.suggest = suggestions{word: word}
				for _, f := range r.Files[:min(len(r.Files), maxSuggestions)] {
					path := f.Path
					if f.MatchType == protocol.FuzzyDirectory {
						path += "/"
					}
					m.suggest.rows = append(m.suggest.rows, picker.Row{Label: path, Value: "@" + path + " "})
				}
				return nil
			})
	}
	m.suggest.dismiss()
	return nil
}

// complete takes the selected suggestion. run also runs it, if it is a command without arguments.
func (m *Model) complete(run bool) tea.Cmd {
	value := m.suggest.rows[m.suggest.at].Value.(string)
	m.composer.ReplaceWord(value)
	m.suggest.dismiss()
	if c, ok := command(strings.Trim(value, "/ ")); run && ok && (c.args == "" || c.optional) {
		return m.submit()
	}
	return nil
}
