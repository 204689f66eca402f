package tool

import (
	"context"
	"sync"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// gate admits calls, assessments and commands, and counts those that are running. Configure runs only while there are none, so
// that handlers can read the config struct without a lock.
type gate struct {
	plugin   string
	maxCalls int // concurrent calls; 0: unlimited

	mu struct {
		sync.Mutex
		configured  bool
		configuring bool
		draining    bool
		calls       int           // number of calls whose handler has not returned
		others      int           // number of running assessments and commands
		changed     chan struct{} // closed and replaced when a field above changes
	}
}

func newGate(plugin string, maxCalls int) *gate {
	g := &gate{plugin: plugin, maxCalls: maxCalls}
	g.mu.changed = make(chan struct{})
	return g
}

func (g *gate) notifyLocked() {
	close(g.mu.changed)
	g.mu.changed = make(chan struct{})
}

// waitLocked waits until ready returns true, and reports whether it did before ctx ended. It releases the lock while it waits.
func (g *gate) waitLocked(ctx context.Context, ready func() bool) bool {
	for !ready() {
		changed := g.mu.changed
		g.mu.Unlock()
		select {
		case <-changed:
			g.mu.Lock()
		case <-ctx.Done():
			g.mu.Lock()
			return ready()
		}
	}
	return true
}

// enter admits a call, or with call = false an assessment or command, after waiting for a configuration in progress. leave must be
// called at its end, and may be called more than once.
func (g *gate) enter(ctx context.Context, call bool) (leave func(), err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.waitLocked(ctx, func() bool { return !g.mu.configuring || g.mu.draining }) {
		return nil, status.FromContextError(ctx.Err()).Err()
	}
	switch {
	case g.mu.draining:
		return nil, status.Errorf(codes.Unavailable, "plugin %q is draining and accepts no new requests", g.plugin)
	case !g.mu.configured:
		return nil, status.Errorf(codes.FailedPrecondition, "plugin %q is not configured: Configure must succeed first", g.plugin)
	case call && g.maxCalls > 0 && g.mu.calls >= g.maxCalls:
		return nil, status.Errorf(codes.ResourceExhausted, "plugin %q is running %d calls, its maximum", g.plugin, g.mu.calls)
	}
	running := &g.mu.others
	if call {
		running = &g.mu.calls
	}
	*running++
	return sync.OnceFunc(func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		*running--
		g.notifyLocked()
	}), nil
}

func (g *gate) runningLocked() int { return g.mu.calls + g.mu.others }

// configure blocks new requests and waits until no request is running. done unblocks them; its argument says whether the
// configuration succeeded.
func (g *gate) configure(ctx context.Context) (done func(configured bool), err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	ok := g.waitLocked(ctx, func() bool { return !g.mu.configuring })
	if ok {
		g.mu.configuring = true
		if ok = g.waitLocked(ctx, func() bool { return g.runningLocked() == 0 }); !ok {
			g.mu.configuring = false
			g.notifyLocked()
		}
	}
	if !ok {
		return nil, status.Errorf(codes.Aborted,
			"plugin %q keeps its previous configuration, because %d requests are still using it", g.plugin, g.runningLocked())
	}
	return func(configured bool) {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.mu.configuring = false
		g.mu.configured = g.mu.configured || configured
		g.notifyLocked()
	}, nil
}

// drain rejects all new requests from now on. It returns when no request is running or when ctx ends, with the number of calls
// that are still running.
func (g *gate) drain(ctx context.Context) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.mu.draining = true
	g.notifyLocked()
	g.waitLocked(ctx, func() bool { return g.runningLocked() == 0 })
	return g.mu.calls
}
