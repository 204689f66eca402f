package agent

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/gantry-agent/gantry/plugins/browser/internal/history"
)

// maxKnown is the number of steps that are kept for another run.
const maxKnown = 100

// known is a step of an earlier run for the same task. On a page that shows the same, the model would be asked the same: it is not asked again.
type known struct {
	Print    string             `json:"print"`  // of the page
	Output   *history.Output    `json:"output"` // nil: it was about a password, which is not kept
	Elements []*history.Element `json:"elements"`
}

// fromEarlier returns the next step of the earlier run if the page shows the same as it did then, and has the same elements; nil: it differs,
// and from now on the model is asked.
func (r *run) fromEarlier(ctx context.Context, p Page) *history.Output {
	if len(r.earlier) == 0 {
		return nil
	}
	next := r.earlier[0]
	r.earlier = r.earlier[1:]
	if next.Output == nil && next.Print == p.Print {
		return nil // only the model knows what was typed
	}
	out, err := r.again(ctx, p, next)
	if err != nil || out == nil {
		r.earlier = nil
	}
	return out
}

// again returns a known step with the numbers that its elements have now; nil: it can't be taken.
func (r *run) again(ctx context.Context, p Page, k known) (*history.Output, error) {
	if k.Print == "" || k.Print != p.Print || k.Output == nil {
		return nil, nil
	}
	var page []history.Candidate
	out := *k.Output
	out.Actions = slices.Clone(out.Actions)
	for i, a := range out.Actions {
		if a.Index() == 0 {
			continue
		}
		if i >= len(k.Elements) || k.Elements[i] == nil {
			return nil, nil
		}
		if page == nil {
			var err error
			if page, err = r.browser.Elements(ctx); err != nil {
				return nil, err
			}
		}
		c, level, err := history.Match(k.Elements[i], page)
		if err != nil || level != history.Exact && level != history.Stable {
			return nil, err
		}
		if out.Actions[i], err = a.WithIndex(c.Number); err != nil {
			return nil, err
		}
	}
	return &out, nil
}

// learn keeps a step that has worked for another run.
func (r *run) learn(p Page, item *history.Item) {
	n := len(item.Results)
	if n == 0 || item.Output == nil || item.Results[n-1].Done || p.Print == "" || len(r.learned) >= maxKnown {
		return
	}
	if item.Results[n-1].Error != "" {
		if n--; n == 0 {
			return
		}
	}
	out := *item.Output
	out.Actions = slices.Clone(out.Actions[:n])
	if slices.ContainsFunc(out.Actions, r.tells) {
		r.learned = append(r.learned, known{Print: p.Print})
		return
	}
	r.learned = append(r.learned, known{p.Print, &out, item.State.Interacted[:n]})
}

// plan returns what another run may take over from this one; nil: nothing.
func (r *run) plan() json.RawMessage {
	if len(r.learned) == 0 {
		return nil
	}
	b, err := json.Marshal(r.learned)
	if err == nil {
		b, err = r.passwords.json(b)
	}
	if err != nil {
		return nil
	}
	return b
}
