package tool

import (
	"context"
	"sync"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// gate decides whether work may begin, and knows what runs. Configure has it alone, so that handlers may read the config
// struct without a lock.
type gate struct {
	plugin   string
	maxCalls int // 0: any number

	mu struct {
		sync.Mutex
		configured  bool
		configuring bool
		draining    bool
		calls       int           // handlers of calls that have not returned
		others      int           // the same for assessments and commands
		changed     chan struct{} // closed and replaced whenever something above changes
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

// waitLocked returns with the lock held, as soon as ready is true; false when ctx ended before.
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

// enter waits for a configuration in progress. The returned function ends the work; it may be called more than once.
func (g *gate) enter(ctx context.Context, call bool) (leave func(), err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.waitLocked(ctx, func() bool { return !g.mu.configuring || g.mu.draining }) {
		return nil, status.FromContextError(ctx.Err()).Err()
	}
	switch {
	case g.mu.draining:
		return nil, status.Errorf(codes.Unavailable, "plugin %q is draining: it finishes what runs and takes nothing new", g.plugin)
	case !g.mu.configured:
		return nil, status.Errorf(codes.FailedPrecondition, "plugin %q is not configured: Configure must succeed first", g.plugin)
	case call && g.maxCalls > 0 && g.mu.calls >= g.maxCalls:
		return nil, status.Errorf(codes.ResourceExhausted, "plugin %q runs %d calls already, as many as it takes at once", g.plugin, g.mu.calls)
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

// configure keeps everything new out and waits until nothing runs. done ends it and says whether it went well.
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
			"plugin %q keeps its old configuration: %d calls and other requests still run on it", g.plugin, g.runningLocked())
	}
	return func(configured bool) {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.mu.configuring = false
		g.mu.configured = g.mu.configured || configured
		g.notifyLocked()
	}, nil
}

// drain refuses everything new from now on. It returns when nothing runs or ctx ends, with the number of calls that
// still run.
func (g *gate) drain(ctx context.Context) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.mu.draining = true
	g.notifyLocked()
	g.waitLocked(ctx, func() bool { return g.runningLocked() == 0 })
	return g.mu.calls
}
