package target

import (
	"context"

	protocol "github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/target"

	"github.com/gantry-agent/gantry/plugins/browser/internal/cdp"
)

// Find returns the session of a tab, or of a frame with a process of its own, by the ID of its target; nil: there is none.
func (b *Browser) Find(id string) (*Tab, *cdp.Session) {
	for _, t := range b.Tabs() {
		if t.ID == id || t.Name() == id {
			return t, t.Session
		}
		for _, p := range t.Parts() {
			if p.Frame == id {
				return t, p.Session
			}
		}
	}
	return nil, nil
}

// Answered leaves the requests of the tab for which is returns true to an [Observer], which answers them: they are neither judged nor sent. The
// same addresses in other tabs, whose pages may have learned them, are judged.
func (t *Tab) Answered(is func(url string) bool) {
	t.all.mu.Lock()
	defer t.all.mu.Unlock()
	t.answered = is
}

// Answers reports whether an [Observer] answers the request of the tab for an address.
func (t *Tab) Answers(url string) bool {
	t.all.mu.Lock()
	defer t.all.mu.Unlock()
	return t.answered != nil && t.answered(url)
}

// Changed returns a channel that is closed with the next change of the browser or of a tab.
func (b *Browser) Changed() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.mu.changed
}

// Titles returns the titles of tabs by their IDs. [Info] has those of the moment at which a page was opened: no event tells of changes.
func (b *Browser) Titles(ctx context.Context) (map[string]string, error) {
	all, err := protocol.Call(ctx, b.conn.Root(), target.GetTargets, target.GetTargetsParams{})
	if err != nil {
		return nil, err
	}
	out := map[string]string{}
	for _, t := range all.TargetInfos {
		out[string(t.TargetID)] = t.Title
	}
	return out, nil
}
