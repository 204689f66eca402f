package tools

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/gantry-agent/gantry/plugins/browser/internal/state"
	"github.com/gantry-agent/gantry/plugins/browser/internal/target"
	"github.com/gantry-agent/gantry/plugins/browser/internal/view"
	"github.com/gantry-agent/gantry/sdk/contract"
	"github.com/gantry-agent/gantry/sdk/tool"
)

// view shows a browser to a person. Calls and scripts wait while the person has control.
func (p *browserPlugin) view(ctx context.Context, v *tool.View) (reason string, err error) {
	r := p.owner(v.Open().ThreadID, v.Open().SessionID).running()
	switch {
	case r == nil || r.id != v.Open().SessionID:
		return "", tool.ErrNoSession
	case !v.Accepts(contract.ViewScreen):
		return "", tool.ErrNoViewKind
	}
	return view.Show(ctx, view.Options{Browser: r.Browser, Allowed: r.sites.open, Take: r.control.take}, v)
}

// The answers of a person who was asked to do something in a tab.
const (
	isDone  = "done"
	refused = "not possible"
)

// askUser asks a person to do something in a tab, such as a login for which there is no secret. The person can do it in a view of the browser,
// and nothing else happens in it meanwhile.
func (x *transfer) askUser(ctx context.Context, t *target.Tab, reason string) error {
	a, err := x.c.Ask(ctx, tool.Question{
		Title: "The browser needs you: " + short(x.p.secrets.masks.Text(reason), 300),
		Message: fmt.Sprintf("The page is %s. Take control in a view of the browser, or use the browser itself if it is your own, and answer when you are done.",
			short(x.p.secrets.masks.Text(t.Info().URL), 300)),
		Options: []string{isDone, refused},
	})
	var choice string
	switch {
	case err != nil:
		return err
	case a.Declined && a.Note != "":
		return errors.New("nobody can be asked: " + a.Note)
	case a.Cancelled:
		return errors.New("the call has ended")
	case json.Unmarshal(a.JSON, &choice) != nil || choice != isDone:
		return errors.New("the user does not do it; go on without it, or say what is missing")
	}
	return nil
}

// wall tells the model, once for each document or with each full state, that a page asks for a login for which it has no secret.
func (p *browserPlugin) wall(r *running, i target.Info, s *state.State, v viewing) string {
	asks := slices.ContainsFunc(s.Lines, func(l state.Line) bool {
		return strings.Contains(l.Text, "<input ") && strings.Contains(l.Text, " type=password") && !strings.Contains(l.Text, "value-state=filled")
	})
	if !asks || !v.full && r.walled == i.Document || len(p.secrets.usable(origin(i.URL))) > 0 {
		return ""
	}
	r.walled = i.Document
	return "\nThe page has a field for a password, and you have no secret for it. If it must be filled in, the action ask_user has the user do that: never ask for passwords."
}

// owner returns who has a browser: one of the thread's scripts, or the thread.
func (p *browserPlugin) owner(threadID, id string) *thread {
	own := p.thread(threadID)
	t := own
	p.scripts.Range(func(_, v any) bool {
		if b := v.(*browsers); b.t == own {
			if found, _ := b.find(id); found != nil {
				t = found
			}
		}
		return t == own
	})
	return t
}
