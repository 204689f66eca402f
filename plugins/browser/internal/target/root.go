package target

import "github.com/gantry-agent/gantry/plugins/browser/internal/cdp"

// Root returns the session of the browser itself. What is sent there is not limited to a tab.
func (b *Browser) Root() *cdp.Session { return b.conn.Root() }

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
