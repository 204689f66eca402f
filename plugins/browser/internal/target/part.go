package target

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	protocol "github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/cdp/jsonv2"
	"github.com/chromedp/cdproto/target"

	"github.com/gantry-agent/gantry/plugins/browser/internal/cdp"
)

// Part makes a part of the browser for another user: with a context of its own, whose pages share no cookies and no storage with those of
// others, or in the context with which the browser has started. Its tabs are those that it opens, those that they open, and those that are
// handed over to it; the other parts do not see them, nor their events. End it.
func (b *Browser) Part(ctx context.Context, own bool, o Options) (*Browser, error) {
	p := &Browser{shared: b.shared, o: o}
	if own {
		r, err := protocol.Call(ctx, b.conn.Root(), target.CreateBrowserContext, target.CreateBrowserContextParams{})
		if err != nil {
			return nil, err
		}
		p.contexts = []string{string(r.BrowserContextID)}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.mu.parts = append(slices.Clone(b.mu.parts), p)
	return p, nil
}

// Resume makes a part of the browser again that an earlier process has made, with its contexts, and with tabs that could not be known by them.
func (b *Browser) Resume(contexts, tabs []string, o Options) *Browser {
	p := &Browser{shared: b.shared, o: o, contexts: slices.Clone(contexts)}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.mu.parts = append(slices.Clone(b.mu.parts), p)
	for _, t := range b.mu.tabs {
		opener := b.tab(t.info.Opener)
		if slices.Contains(tabs, t.ID) || t.of == b && (slices.Contains(contexts, t.context) || opener != nil && opener.of == p) {
			t.of = p
		}
	}
	return p
}

// Context returns the ID of the part's context; empty: the one with which the browser has started.
func (b *Browser) Context() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.contexts) == 0 {
		return ""
	}
	return b.contexts[0]
}

// Contexts returns the IDs of the part's contexts.
func (b *Browser) Contexts() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.contexts)
}

// Own makes one more context the part's, which has just been created for it.
func (b *Browser) Own(context string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.contexts) == 0 { // which stays the first one
		b.contexts = []string{""}
	}
	b.contexts = append(b.contexts, context)
}

// Name is what others call the user of the part.
func (b *Browser) Name() string { return b.o.Name }

// Opening makes the tabs that are opened from now on the part's, until done is called, unless something else tells whose they are.
func (b *Browser) Opening(ctx context.Context) (done func(), err error) {
	if b.Context() != "" {
		return func() {}, nil
	}
	select {
	case b.opening <- struct{}{}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.mu.opens = b
	return func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.mu.opens = nil
		<-b.opening
	}, nil
}

// users returns the parts that use a context; there is at least one. The caller has locked a.mu.
func (a *shared) users(context protocol.BrowserContextID) []*Browser {
	if i := slices.IndexFunc(a.mu.parts, func(b *Browser) bool { return slices.Contains(b.contexts, string(context)) }); i >= 0 {
		return a.mu.parts[i : i+1]
	}
	out := slices.DeleteFunc(slices.Clone(a.mu.parts), func(b *Browser) bool { return len(b.contexts) > 0 && b.contexts[0] != "" })
	if len(out) == 0 {
		return a.mu.parts[:1]
	}
	return out
}

// owner returns the part that a new tab belongs to. The caller has locked a.mu.
func (a *shared) owner(info target.Info) *Browser {
	if t := a.tab(string(info.OpenerID)); t != nil && slices.Contains(a.mu.parts, t.of) {
		return t.of
	}
	users := a.users(info.BrowserContextID)
	if slices.Contains(users, a.mu.opens) {
		return a.mu.opens
	}
	return users[0]
}

// Owner returns the name of the user of another part to whom a tab with a name belongs, if there is one.
func (b *Browser) Owner(name string) (string, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, t := range b.mu.tabs {
		if t.Name() == strings.ToLower(name) && t.of != b {
			return t.of.o.Name, true
		}
	}
	return "", false
}

// OwnerOf returns the name of the user of another part to whom a tab with an ID belongs, if there is one.
func (b *Browser) OwnerOf(id string) (string, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if t := b.tab(id); t != nil && t.of != b {
		return t.of.o.Name, true
	}
	return "", false
}

// Uses reports whether the part uses a context.
func (b *Browser) Uses(context string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Contains(b.users(protocol.BrowserContextID(context)), b)
}

// Others returns the parts of other users.
func (b *Browser) Others() []*Browser {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(b.mu.parts), func(x *Browser) bool { return x == b })
}

// Give makes a tab that of another part. Its page stays as it is, with the cookies of its context.
func (b *Browser) Give(t *Tab, to *Browser) error {
	b.mu.Lock()
	switch {
	case t.info.Closed:
		b.mu.Unlock()
		return ErrClosed
	case t.of != b || !slices.Contains(b.mu.parts, to):
		b.mu.Unlock()
		return errors.New("the tab, or who it is given to, is gone")
	}
	t.of = to
	t.note("This tab was handed over by the agent " + b.o.Name + ".")
	method, params := to.pausing()
	for id, x := range b.mu.sessions {
		if _, worker := b.mu.others[id]; x == t && !worker {
			_ = b.conn.Session(id).Post(method, params) // the other part may have mocks
		}
	}
	b.notify()
	b.mu.Unlock()
	return nil
}

// End ends a part that [Browser.Part] has made: its tabs, and its contexts as soon as no tab in them belongs to anybody else.
func (b *Browser) End(ctx context.Context) error {
	b.mu.Lock()
	b.mu.parts = slices.DeleteFunc(slices.Clone(b.mu.parts), func(x *Browser) bool { return x == b })
	var close []*Tab
	var dispose []string
	for _, c := range b.contexts {
		if c == "" {
			continue
		}
		if slices.ContainsFunc(b.mu.tabs, func(t *Tab) bool { return t.context == c && t.of != b }) {
			b.mu.left = append(b.mu.left, c)
		} else {
			dispose = append(dispose, c)
		}
	}
	for _, t := range b.mu.tabs {
		if t.of == b && !slices.Contains(dispose, t.context) {
			close = append(close, t)
		}
	}
	b.mu.Unlock()
	var errs []error
	for _, t := range close {
		if err := t.Close(ctx); err != nil {
			errs = append(errs, fmt.Errorf("close tab %s: %w", t.Name(), err))
		}
	}
	for _, c := range dispose {
		_, err := protocol.Call(ctx, b.conn.Root(), target.DisposeBrowserContext, target.DisposeBrowserContextParams{BrowserContextID: protocol.BrowserContextID(c)})
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// leave disposes of a context whose part has ended once its last tab is closed. The caller has locked a.mu.
func (a *shared) leave(context string) {
	if !slices.Contains(a.mu.left, context) || slices.ContainsFunc(a.mu.tabs, func(t *Tab) bool { return t.context == context }) {
		return
	}
	a.mu.left = slices.DeleteFunc(a.mu.left, func(c string) bool { return c == context })
	_ = a.conn.Root().Post(target.CommandDisposeBrowserContext, target.DisposeBrowserContextParams{BrowserContextID: protocol.BrowserContextID(context)})
}

// Configuration is what was set for all tabs of a part, also for those to come.
type Configuration struct {
	Settings []Setting `json:"settings,omitempty"`
	Mocks    []Mock    `json:"mocks,omitempty"`
	Dialogs  string    `json:"dialogs,omitempty"`
}

// Configuration returns what was set so far.
func (b *Browser) Configuration() Configuration {
	b.mu.Lock()
	defer b.mu.Unlock()
	c := Configuration{Mocks: slices.Clone(b.mocks), Dialogs: b.dialogs}
	for _, s := range b.settings {
		if p, err := jsonv2.Marshal(s.Params); err == nil { // as it was when it was sent
			c.Settings = append(c.Settings, Setting{s.Method, json.RawMessage(p), s.Top})
		}
	}
	return c
}

// Configure sets it again, in an adopted browser. sessions are those of the earlier process, as far as they are known: their end resets what
// they have set, so it must not come later.
func (b *Browser) Configure(ctx context.Context, c Configuration, sessions []string) error {
	for _, s := range sessions {
		_, err := protocol.Call(ctx, b.conn.Root(), target.DetachFromTarget, target.DetachFromTargetParams{SessionID: target.SessionID(s)})
		if _, refused := errors.AsType[*cdp.Error](err); err != nil && !refused { // it has gone meanwhile
			return err
		}
	}
	b.AnswerDialogs(c.Dialogs)
	return errors.Join(b.Mock(ctx, c.Mocks), b.Apply(ctx, c.Settings))
}

// Sessions returns the IDs of the sessions of the part's tabs.
func (b *Browser) Sessions() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	var out []string
	for _, t := range b.mu.tabs {
		if t.of == b {
			out = append(out, t.Session.ID())
		}
	}
	return out
}

// Strays returns the IDs of tabs of which nothing but this tells that they are the part's.
func (b *Browser) Strays() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	var out []string
	for _, t := range b.mu.tabs {
		if t.of == b && b.users(protocol.BrowserContextID(t.context))[0] != b {
			out = append(out, t.ID)
		}
	}
	return out
}
