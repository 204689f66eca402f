package target

import (
	"slices"
	"sync"

	"github.com/gantry-agent/gantry/plugins/browser/internal/cdp"
)

// Observer is called with each event of a browser, one at a time and in order, and with the tab that the event is about (nil: none). It must
// not wait for the browser, but may post commands.
type Observer func(e cdp.Event, tab *Tab)

// observers are who follows a browser. The zero value has none.
type observers struct {
	mu   sync.Mutex
	list []*Observer
}

// Observe calls f with each event from now on, until stop is called.
func (b *Browser) Observe(f Observer) (stop func()) {
	b.observers.mu.Lock()
	defer b.observers.mu.Unlock()
	p := &f
	b.observers.list = append(b.observers.list, p)
	return func() {
		b.observers.mu.Lock()
		defer b.observers.mu.Unlock()
		b.observers.list = slices.DeleteFunc(slices.Clone(b.observers.list), func(x *Observer) bool { return x == p })
	}
}

// observed tells all who follow the browser of an event.
func (b *Browser) observed(e cdp.Event) {
	b.observers.mu.Lock()
	list := b.observers.list
	b.observers.mu.Unlock()
	if len(list) == 0 {
		return
	}
	b.mu.Lock()
	t := b.mu.sessions[e.Session]
	b.mu.Unlock()
	for _, f := range list {
		(*f)(e, t)
	}
}

// Root returns the session of the browser itself.
func (b *Browser) Root() *cdp.Session { return b.conn.Root() }

// PageOf returns the address of the document in the tab that has a frame; "": it is not known. Of a tab, only frames with processes of their
// own are known; any other is assumed to be one of the only tab.
func (b *Browser) PageOf(frame string) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, t := range b.mu.tabs {
		if t.ID == frame || slices.ContainsFunc(t.frames, func(p Part) bool { return p.Frame == frame }) {
			return t.info.URL
		}
	}
	if len(b.mu.tabs) == 1 {
		return b.mu.tabs[0].info.URL
	}
	return ""
}

// SessionOf returns the session that an event is of.
func (b *Browser) SessionOf(e cdp.Event) *cdp.Session { return b.conn.Session(e.Session) }
