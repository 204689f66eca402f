// Package overlay shows the questions of agents, plugins and servers, and reads the answers.
//
// It owns: what a question says and which answers it has, and which keys count. It does not know how an answer is sent.
//
// Start with [New]. What is asked about comes from others: it is shown without anything that hides, and can't draw.
package overlay

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/gantry-agent/gantry/host/internal/client"
	"github.com/gantry-agent/gantry/host/internal/tui/keys"
	"github.com/gantry-agent/gantry/host/internal/tui/term"
	"github.com/gantry-agent/gantry/host/internal/tui/theme"
)

// choice is an answer that one key gives.
type choice struct {
	key   string
	label string
	value any
}

// field is one of the values that a question wants.
type field struct {
	name     string
	title    string
	help     string
	choices  []choice // empty: text
	other    bool     // text is an answer too
	secret   bool
	optional bool
	parse    func(text string) (any, error) // nil: the text itself
}

// Overlay is a question on the screen.
type Overlay struct {
	Question client.Question
	// Armed is set once keys count: not before the question has been seen for a moment in which nothing was typed.
	Armed bool

	title   string
	body    []term.Line // to be wrapped
	diff    func(width int) []term.Line
	choices []choice
	cancel  any // the answer of the key that closes it

	fields []field
	at     int
	values map[string]any
	result func(values map[string]any) any
	typing bool // text, rather than a choice
	text   string
	wrong  string // why the text is refused

	scroll int
}

// Key is a key as it counts in a question: the character that it types, if any, or an action of the context [keys.Question].
type Key struct {
	Text   string
	Action keys.Action
}

// Press handles a key. done is set if it answers the question, with the answer.
func (o *Overlay) Press(k Key) (answer any, done bool) {
	switch k.Action {
	case keys.Close:
		return o.cancel, true
	case keys.PageUp:
		o.scroll = max(o.scroll-page, 0)
		return nil, false
	case keys.PageDown:
		o.scroll += page // bounded when it is drawn
		return nil, false
	}
	if len(o.fields) == 0 {
		for _, c := range o.choices {
			if c.key == k.Text {
				return c.value, true
			}
		}
		return nil, false
	}
	f := o.fields[o.at]
	if !o.typing {
		for _, c := range f.choices {
			if c.key == k.Text {
				return o.set(f, c.value)
			}
		}
		if k.Text == otherKey && f.other {
			o.typing = true
		}
		if k.Text == skipKey && f.optional {
			return o.set(f, nil)
		}
		return nil, false
	}
	switch {
	case k.Action == keys.Delete:
		if r := []rune(o.text); len(r) > 0 {
			o.text = string(r[:len(r)-1])
		}
	case k.Action == keys.Choose:
		return o.enter(f)
	case k.Text != "":
		o.text += strings.ReplaceAll(term.Clean(k.Text), "\n", " ")
	}
	return nil, false
}

const (
	otherKey = "o"
	skipKey  = "-"
	page     = 5
)

// enter takes what was typed.
func (o *Overlay) enter(f field) (answer any, done bool) {
	if o.text == "" {
		if !f.optional {
			o.wrong = "an answer is required"
			return nil, false
		}
		return o.set(f, nil)
	}
	if f.parse == nil {
		return o.set(f, o.text)
	}
	v, err := f.parse(o.text)
	if err != nil {
		o.wrong = err.Error()
		return nil, false
	}
	return o.set(f, v)
}

// set takes a value, and goes on to the next field.
func (o *Overlay) set(f field, v any) (answer any, done bool) {
	if v != nil {
		o.values[f.name] = v
	}
	o.text, o.wrong = "", ""
	if o.at++; o.at == len(o.fields) {
		return o.result(o.values), true
	}
	o.typing = len(o.fields[o.at].choices) == 0
	return nil, false
}

// Paste adds a paste to what is typed.
func (o *Overlay) Paste(text string) {
	if o.typing && len(o.fields) > 0 {
		o.Press(Key{Text: text})
	}
}

// View returns at most height lines. waiting is the number of questions behind this one.
func (o *Overlay) View(width, height, waiting int) []term.Line {
	var foot []term.Line
	if len(o.fields) > 0 {
		foot = o.field(width)
	} else {
		for _, c := range o.choices {
			foot = append(foot, o.choice(c, width)...)
		}
	}
	hint := "Esc refuses and interrupts"
	if waiting > 0 {
		hint += fmt.Sprintf(" · %d more questions", waiting)
	}
	if !o.Armed {
		hint = "keys count in a moment"
	}
	foot = append(foot, term.Text(hint, theme.Dim).Fit(width))

	head := []term.Line{term.Text("? "+o.title, theme.Warn.With(theme.Strong)).Fit(width)}
	var body []term.Line
	for _, l := range o.body {
		body = append(body, term.Wrap(l, width)...)
	}
	if o.diff != nil {
		body = append(body, o.diff(width)...)
	}
	room := max(height-len(head)-len(foot), 0)
	if room < min(len(body), 4) && len(o.fields) == 0 { // what is asked about must be seen
		foot = foot[:0]
		for _, c := range o.choices {
			foot = append(foot, o.choice(c, width)[0].Fit(width))
		}
		foot = append(foot, term.Text(hint, theme.Dim).Fit(width))
		room = max(height-len(head)-len(foot), 0)
	}
	if hidden := len(body) - room; hidden > 0 && room > 1 {
		o.scroll = min(o.scroll, hidden+1)
		rest := body[o.scroll:]
		if len(rest) > room-1 {
			rest = rest[:room-1]
		}
		more := fmt.Sprintf("… lines %d–%d of %d (PageUp, PageDown)", o.scroll+1, o.scroll+len(rest), len(body))
		body = append(rest[:len(rest):len(rest)], term.Text(more, theme.Dim).Fit(width))
	} else {
		o.scroll = 0
		body = body[:min(len(body), room)]
	}
	out := append(append(head, body...), foot...)
	if len(out) > height { // the answers matter most
		out = out[len(out)-max(height, 0):]
	}
	return out
}

func (o *Overlay) choice(c choice, width int) []term.Line {
	style := theme.Accent
	if !o.Armed {
		style = theme.Dim
	}
	key := term.Text("  "+c.key+"  ", style)
	if width < 2*key.Width() {
		return []term.Line{term.Text(c.key+" "+c.label, style).Fit(width)}
	}
	return term.Prefix(term.Wrap([]term.Span{{Text: c.label}}, width-key.Width()), key, term.Text(strings.Repeat(" ", key.Width()), theme.Text))
}

// field returns the lines of the value that is asked for now.
func (o *Overlay) field(width int) []term.Line {
	f := o.fields[o.at]
	var out []term.Line
	title := f.title
	if len(o.fields) > 1 {
		title = fmt.Sprintf("%d/%d %s", o.at+1, len(o.fields), title)
	}
	out = append(out, term.Wrap([]term.Span{{Text: title, Style: theme.Strong}}, width)...)
	if f.help != "" {
		out = append(out, term.Wrap([]term.Span{{Text: f.help, Style: theme.Dim}}, width)...)
	}
	if o.typing {
		text := o.text
		if f.secret {
			text = strings.Repeat("•", len([]rune(text)))
		}
		for term.Width(text) > max(width-4, 1) { // the end is what is being typed
			g, _ := term.First(text)
			text = text[len(g):]
		}
		out = append(out, term.Line{{Text: "> ", Style: theme.Accent}, {Text: text}, {Text: " ", Style: theme.Selected}}.Fit(width))
		if o.wrong != "" {
			out = append(out, term.Text(o.wrong, theme.Bad).Fit(width))
		}
		return out
	}
	for _, c := range f.choices {
		out = append(out, o.choice(c, width)...)
	}
	if f.other {
		out = append(out, o.choice(choice{key: otherKey, label: "another answer"}, width)...)
	}
	if f.optional {
		out = append(out, o.choice(choice{key: skipKey, label: "no answer"}, width)...)
	}
	return out
}

// numbered returns choices with the keys 1 to 9. More can't be chosen by a key.
func numbered(n int, of func(i int) (label string, value any)) []choice {
	var out []choice
	for i := range min(n, 9) {
		label, value := of(i)
		out = append(out, choice{strconv.Itoa(i + 1), label, value})
	}
	return out
}
