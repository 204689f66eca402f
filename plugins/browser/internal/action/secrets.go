package action

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/gantry-agent/gantry/plugins/browser/internal/capture"
	"github.com/gantry-agent/gantry/plugins/browser/internal/input"
	"github.com/gantry-agent/gantry/plugins/browser/internal/secret"
	"github.com/gantry-agent/gantry/plugins/browser/internal/target"
)

// Secrets returns the names of the secrets in the arguments of an action. typed is whether the action is one that types them; any other would tell
// them to the page, or to whoever reads the outcome.
func (n Named) Secrets() (names []string, typed bool) {
	switch a := n.Args.(type) {
	case *Input:
		return secret.Names(a.Text), true
	case *FillForm:
		for _, f := range a.Fields {
			names = append(names, secret.Names(f.Text)...)
		}
		return names, true
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if e.Encode(n.Args) != nil {
		return nil, false
	}
	return secret.Names(b.String()), false
}

// hasSecret reports whether a text has a placeholder, or something like one.
func hasSecret(text string) bool { return len(secret.Names(text)) > 0 || secret.CheckText(text) != nil }

// insertSecret types a text into an element, all at once and only if the document still is one of the origin. Keys would go to whatever has the
// focus when they arrive.
const insertSecret = `(el, origin, text, replace) => {
  if (!el) return {gone: true};
  if (self.origin !== origin) return {moved: true};
  el.focus();
  if (el.getRootNode().activeElement !== el) return {unfocused: true};
  const selection = getSelection();
  if ('value' in el) { if (replace) el.select(); else el.setSelectionRange?.(el.value.length, el.value.length); }
  else { selection.selectAllChildren(el); if (!replace) selection.collapseToEnd(); }
  document.execCommand('insertText', false, text);
  const now = 'value' in el ? el.value : el.textContent;
  return {same: replace ? now === text : now.endsWith(text)};
}`

// fillSecret types a text with secrets into a field, whose frame, and all around it, must be of their domains.
func (r *run) fillSecret(ctx context.Context, f *capture.Frame, id int, d field, a Input) (note string, err error) {
	switch {
	case r.s.Secret == nil:
		return "", errors.New("there are no secrets")
	case d.Assigned:
		return "", fmt.Errorf("element %d, %s, is no field for a secret", a.Index, d.What)
	}
	if err := secret.CheckText(a.Text); err != nil {
		return "", err
	}
	var origins []string
	for x := f; x != nil; x = x.Parent {
		var o string
		if err := x.Value(ctx, "() => self.origin", &o, 0); err != nil {
			return "", err
		}
		origins = append(origins, o)
	}
	text, enter := strings.CutSuffix(a.Text, "\n")
	if text, err = secret.Fill(text, func(name string) (string, error) { return r.s.Secret(ctx, name, origins) }); err != nil {
		return "", err
	}
	var typed struct{ Gone, Moved, Unfocused, Same bool }
	if err := f.Value(ctx, insertSecret, &typed, id, origins[0], text, a.Clear == nil || *a.Clear); err != nil {
		return "", err
	}
	switch {
	case typed.Gone:
		return "", errGone(a.Index, nil)
	case typed.Moved:
		return "", capture.ErrChanged
	case typed.Unfocused:
		return "", fmt.Errorf("element %d, %s, does not take the focus", a.Index, d.What)
	case !typed.Same:
		note = "; but the field has not taken it as it is"
	}
	if enter {
		return note, input.Press(ctx, r.tab.Session, []string{"Enter"})
	}
	return note, nil
}

// Shows reports whether has is true for the text of one of the tab's documents. If one can't be read, nobody knows.
func (s *Session) Shows(ctx context.Context, t *target.Tab, has func(string) bool) (bool, error) {
	if _, err := s.Take(ctx, t); err != nil {
		return false, err
	}
	for _, f := range s.View(t).page.Frames {
		var text string
		if err := f.Call(ctx, "shown", &text); err != nil {
			return false, err
		}
		if has(text) {
			return true, nil
		}
	}
	return false, nil
}
