package agent

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/gantry-agent/gantry/plugins/browser/internal/history"
	"github.com/gantry-agent/gantry/plugins/browser/internal/secret"
)

// passwords are what the model types into fields for passwords, which is left out of all that is kept. The zero value has none.
type passwords struct {
	values []string
	masks  secret.Masks
}

// private are the values of autocomplete of fields for what others must not know.
var private = []string{"current-password", "new-password", "one-time-code", "cc-csc"}

// isPrivate reports whether an element is a field for a password.
func isPrivate(e *history.Element) bool {
	return e != nil && (strings.EqualFold(e.Attributes["type"], "password") || slices.ContainsFunc(strings.Fields(strings.ToLower(e.Attributes["autocomplete"])), func(s string) bool {
		return slices.Contains(private, s)
	}))
}

// add takes note of a value. Placeholders are no values.
func (p *passwords) add(value string) {
	value = strings.TrimSuffix(value, "\n") // which submits the form
	if value == "" || len(secret.Names(value)) > 0 || slices.Contains(p.values, value) {
		return
	}
	p.values = append(p.values, value)
	p.masks.Add(p.name(len(p.values)), value)
}

func (p *passwords) name(n int) string {
	if n == 1 {
		return "typed_password"
	}
	return fmt.Sprintf("typed_password_%d", n)
}

// text returns a text without passwords. One that is too short to be looked for is replaced where it is the whole text.
func (p *passwords) text(s string) string {
	if i := slices.Index(p.values, strings.TrimSuffix(s, "\n")); i >= 0 {
		return secret.Placeholder(p.name(i+1)) + s[len(p.values[i]):]
	}
	return p.masks.Text(s)
}

// json returns a JSON value without passwords.
func (p *passwords) json(b []byte) ([]byte, error) {
	if len(p.values) == 0 {
		return b, nil
	}
	return history.Rewrite(b, p.text)
}

// typed takes note of the passwords that an action types. e is the element that it is about; nil: there is none.
func (r *run) typed(ctx context.Context, a history.Action, e *history.Element) {
	var in struct {
		Text   string
		Fields []struct {
			Index int
			Text  string
		}
	}
	if json.Unmarshal(a.Args, &in) != nil {
		return
	}
	switch a.Name {
	case "input":
		if isPrivate(e) {
			r.passwords.add(in.Text)
		}
	case "fill_form":
		for _, f := range in.Fields {
			if found, err := r.browser.Elements(ctx, f.Index); err == nil && len(found) == 1 && isPrivate(found[0].Element()) {
				r.passwords.add(f.Text)
			}
		}
	}
}

// tells reports whether an action has a password.
func (r *run) tells(a history.Action) bool {
	tells := false
	_, err := history.Rewrite(a.Args, func(s string) string {
		tells = tells || r.passwords.text(s) != s
		return s
	})
	return tells || err != nil
}

// without returns an action without passwords.
func (r *run) without(a history.Action) history.Action {
	if b, err := r.passwords.json(a.Args); err == nil {
		a.Args = b
	}
	return a
}
