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

// observed tells all who follow the part of the browser that an event is about. What is about none, all are told.
func (a *shared) observed(e cdp.Event) {
	a.mu.Lock()
	t := a.mu.sessions[e.Session]
	parts := a.mu.parts
	if t != nil {
		parts = []*Browser{t.of}
	} else if e.Session != "" {
		parts = a.users(a.mu.others[e.Session].BrowserContextID)
	}
	a.mu.Unlock()
	for _, b := range parts {
		b.observers.mu.Lock()
		list := b.observers.list
		b.observers.mu.Unlock()
		for _, f := range list {
			(*f)(e, t)
		}
	}
}

// Root returns the session of the browser itself.
func (b *Browser) Root() *cdp.Session { return b.conn.Root() }

// PageOf returns the address of the document in the tab that has a frame (empty: it is not known), and reports whether the frame is one of
// this part of the browser. A frame that is not known, such as one from before an adoption, is assumed to be one of the only tab, and
// otherwise to be of the first part.
func (b *Browser) PageOf(frame string) (url string, mine bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, t := range b.mu.tabs {
		if t.ID == frame || t.inner[frame] || slices.ContainsFunc(t.frames, func(p Part) bool { return p.Frame == frame }) {
			return t.info.URL, t.of == b
		}
	}
	if len(b.mu.tabs) == 1 {
		return b.mu.tabs[0].info.URL, b.mu.tabs[0].of == b
	}
	return "", b == b.mu.parts[0]
}

// frame notes a frame of the tab, or that it is gone. The caller has locked the mutex of the browser.
func (t *Tab) frame(id string, there bool) {
	const most = 10_000
	if !there {
		delete(t.inner, id)
		return
	}
	if t.inner == nil {
		t.inner = map[string]bool{}
	}
	if len(t.inner) < most {
		t.inner[id] = true
	}
}

// SessionOf returns the session that an event is of.
func (b *Browser) SessionOf(e cdp.Event) *cdp.Session { return b.conn.Session(e.Session) }
