package tools

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/gantry-agent/gantry/plugins/browser/internal/script"
	"github.com/gantry-agent/gantry/plugins/browser/internal/session"
	"github.com/gantry-agent/gantry/plugins/browser/internal/target"
	"github.com/gantry-agent/gantry/sdk/tool"
)

// browsers are where a run gets its browser from: the thread's, or one of its own. A browser is started, and questions are asked, in the call
// that started the run or one that observes it; without one, the run waits. Such a call does not return before that is done.
type browsers struct {
	p    *browserPlugin
	t    *thread
	run  string
	mode session.Mode

	mu struct {
		sync.Mutex
		call     *tool.Call // nil: none
		ctx      context.Context
		attached chan struct{}      // closed and replaced when a call comes
		own      map[string]*thread // the browsers of the run alone
		sites    *sites             // of the browser that is used; nil: none
		promoted func()             // frees the thread's browser, which was the run's own; nil: none was
		end      func()             // of what sites.during has begun; nil: nothing
		starting chan struct{}      // closed when the browser that is being started in the call has started, or not; nil: none is
	}
}

var _ session.Browsers[*script.Conn] = (*browsers)(nil)

func newBrowsers(p *browserPlugin, t *thread, run string) *browsers {
	b := &browsers{p: p, t: t, run: run}
	b.mu.attached, b.mu.own = make(chan struct{}), map[string]*thread{}
	return b
}

// attach makes a call that of the run, until detach is called. That waits for a browser that is being started in the call and for
// questions, which would end with it: a call that yields soon would otherwise make the script fail.
func (b *browsers) attach(ctx context.Context, c *tool.Call) (detach func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.mu.call, b.mu.ctx = c, ctx
	close(b.mu.attached)
	b.mu.attached = make(chan struct{})
	b.authorize()
	return func() {
		b.mu.Lock()
		s := b.mu.sites
		b.mu.Unlock()
		if s != nil {
			s.decided(ctx)
		}
		b.mu.Lock()
		starting := b.mu.starting
		if b.mu.call == c {
			b.mu.call = nil
			b.authorize()
		}
		b.mu.Unlock()
		if starting != nil {
			select {
			case <-starting:
			case <-ctx.Done(): // the script ends as well
			}
		}
	}
}

// authorize lets the browser's sites be authorized in the run's call. The caller has locked b.mu.
func (b *browsers) authorize() {
	if b.mu.end != nil {
		b.mu.end()
		b.mu.end = nil
	}
	if b.mu.sites != nil && b.mu.call != nil {
		b.mu.end = b.mu.sites.during(b.mu.ctx, b.mu.call)
	}
}

// caller waits until the run has a call.
func (b *browsers) caller(ctx context.Context) (*tool.Call, error) {
	for {
		b.mu.Lock()
		c, attached := b.mu.call, b.mu.attached
		b.mu.Unlock()
		if c != nil {
			return c, nil
		}
		select {
		case <-attached:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// hold returns the run's call, which does not return before free is called; nil: the run has none.
func (b *browsers) hold() (c *tool.Call, free func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.mu.call == nil {
		return nil, nil
	}
	starting := make(chan struct{})
	b.mu.starting = starting
	return b.mu.call, func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.mu.starting = nil
		close(starting)
	}
}

// Create implements session.Browsers.
func (b *browsers) Create(ctx context.Context, m session.Mode) (string, error) {
	t := b.t
	switch {
	case m == session.OneShot && b.mode == session.Dynamic: // a part of the browser that the thread has, or is going to have
		t = &thread{id: b.run, using: make(chan struct{}, 1), of: b.t}
		t.join(b.t.kin())
	case m == session.OneShot:
		t = &thread{id: b.run, using: make(chan struct{}, 1), alone: true}
		t.join(newFamily(b.run))
	}
	for {
		r, err := b.begin(ctx, t)
		if err != nil {
			return "", err
		}
		if r == nil { // the call has returned meanwhile
			continue
		}
		if t != b.t {
			b.mu.Lock()
			b.mu.own[r.id] = t
			b.mu.Unlock()
		}
		return r.id, nil
	}
}

// begin returns the browser of t, which it starts in the next call unless it is running; nil: that call has returned before.
func (b *browsers) begin(ctx context.Context, t *thread) (*running, error) {
	if _, err := b.caller(ctx); err != nil {
		return nil, err
	}
	done, err := t.take(ctx, "")
	if err != nil {
		return nil, err
	}
	defer done()
	if r := t.running(); r != nil {
		return r, nil
	}
	c, free := b.hold()
	if c == nil {
		return nil, nil
	}
	defer free()
	r, err := b.p.start(ctx, c, t)
	if err != nil {
		return nil, fmt.Errorf("start the browser: %w", err)
	}
	// Without what is kept, the sites would begin anew, and that would be kept in its place.
	for _, line := range r.keeper.load(ctx) {
		_ = c.Note(line) // the script goes on in any case
	}
	return r, nil
}

// existing returns the ID of the thread's browser; empty: there is none. browser_act may have started it.
func (b *browsers) existing() string {
	if r := b.t.running(); r != nil {
		return r.id
	}
	return ""
}

// find returns a browser; nil: it is gone.
func (b *browsers) find(id string) (*thread, *running) {
	b.mu.Lock()
	t := b.mu.own[id]
	b.mu.Unlock()
	if t == nil {
		t = b.t
	}
	if r := t.running(); r != nil && r.id == id {
		return t, r
	}
	return nil, nil
}

// Targets implements session.Browsers.
func (b *browsers) Targets(_ context.Context, id string) ([]session.Target, error) {
	_, r := b.find(id)
	if r == nil {
		return nil, session.ErrGone
	}
	out := []session.Target{}
	for _, t := range r.Browser.Tabs() {
		i := t.Info()
		out = append(out, session.Target{ID: t.ID, Type: "page", URL: i.URL, Title: i.Title})
	}
	return out, nil
}

// Connect implements session.Browsers. Until the connection is closed, no other call uses the browser.
func (b *browsers) Connect(ctx context.Context, id string) (*script.Conn, error) {
	t, r := b.find(id)
	if r == nil {
		return nil, session.ErrGone
	}
	done, err := t.take(ctx, b.run)
	if err != nil {
		return nil, err
	}
	if t.running() != r {
		done()
		return nil, session.ErrGone
	}
	t.takeLost() // a script sees for itself which tabs there are
	b.mu.Lock()
	b.mu.sites = r.sites
	b.authorize()
	b.mu.Unlock()
	return &script.Conn{
		Session: &r.Session, Await: r.control.await, Explain: r.gone,
		Withheld: func(ctx context.Context, tab *target.Tab) string { return b.p.withheld(ctx, &r.Session, tab) },
		Attended: func(ctx context.Context) error { _, err := b.caller(ctx); return err },
		Release: func() {
			b.mu.Lock()
			b.mu.sites = nil
			b.authorize()
			b.mu.Unlock()
			r.idle.Reset(b.p.config.Idle)
			done()
			b.mu.Lock()
			promoted := b.mu.promoted
			b.mu.promoted = nil
			b.mu.Unlock()
			if promoted != nil {
				promoted()
			}
		},
	}, nil
}

// promote makes the browser of the run that of its thread.
func (b *browsers) promote(ctx context.Context, id string) error {
	b.mu.Lock()
	t := b.mu.own[id]
	b.mu.Unlock()
	if t == nil || t.alone {
		return nil
	}
	done, err := b.t.take(ctx, b.run)
	if err != nil {
		return err
	}
	r := t.running()
	switch {
	case r == nil:
		err = session.ErrGone
	case b.t.running() != nil:
		err = errors.New("the thread has got another browser meanwhile; end the script to use that one")
	default:
		err = r.pass(ctx, t, b.t)
	}
	if err != nil {
		done()
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.mu.own, id)
	b.mu.promoted = done
	return nil
}

// Delete implements session.Browsers.
func (b *browsers) Delete(ctx context.Context, id string) error {
	t, r := b.find(id)
	if r == nil {
		return session.ErrGone
	}
	return t.stop(ctx, id, "a script has closed it")
}

// ended is called when the run has ended.
func (b *browsers) ended() { b.p.scripts.Delete(b.run) }

// take waits until no call uses the browser. run is the script that is going to use it; empty: none.
func (t *thread) take(ctx context.Context, run string) (done func(), err error) {
	select {
	case t.using <- struct{}{}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	t.setScript(run)
	return func() { t.setScript(""); <-t.using }, nil
}

func (t *thread) setScript(run string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.mu.script = run
}

// free returns an error while a script uses the browser.
func (t *thread) free() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.mu.script != "" {
		return fmt.Errorf("busy: script %s uses the browser; wait for its end with browser_observe, or end it with browser_cancel", t.mu.script)
	}
	return nil
}

// control is who controls a browser: the agent, or a person who looks at it.
type control struct {
	mu    sync.Mutex
	taken int           // by this many persons
	back  chan struct{} // closed when the last one gives it back; nil: nobody has it
}

// take gives a person control, until back is called.
func (c *control) take() (back func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.taken++; c.taken == 1 {
		c.back = make(chan struct{})
	}
	return sync.OnceFunc(func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.taken--; c.taken == 0 {
			close(c.back)
			c.back = nil
		}
	})
}

// await waits until the agent has control.
func (c *control) await(ctx context.Context) error {
	for {
		c.mu.Lock()
		back := c.back
		c.mu.Unlock()
		if back == nil {
			return ctx.Err()
		}
		select {
		case <-back:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// entries stores the entries of browsers in the thread's state.
type entries struct{ tool.State }

// PutIf implements session.Store.
func (s entries) PutIf(ctx context.Context, key string, value []byte, version uint64) (uint64, error) {
	v, err := s.State.PutIf(ctx, key, value, version)
	if errors.Is(err, tool.ErrConflict) {
		return v, session.ErrConflict
	}
	return v, err
}

// leases acquires leases of the host for a thread's browsers.
func leases(env *tool.Env, threadID string) func(ctx context.Context, name string, wait time.Duration) (*session.Held, error) {
	return func(ctx context.Context, name string, wait time.Duration) (*session.Held, error) {
		l, err := env.Lease(ctx, threadID+":"+name, wait)
		if err != nil {
			return nil, err
		}
		return &session.Held{Token: l.Token, Lost: l.Lost(), Release: l.Release}, nil
	}
}
