package plugin

import (
	"context"
	"syscall"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"

	gantryv1 "github.com/gantry-agent/gantry/sdk/proto/gantry/v1"
)

// timing is every duration of a plugin's life that tests shorten.
type timing struct {
	drainExit, drainSwap time.Duration // how long running calls may go on
	lastResults          time.Duration // from the end of that until Shutdown
	shutdown             time.Duration // from Shutdown until SIGTERM
	terminate            time.Duration // from SIGTERM until the tree is killed
	abort                time.Duration // from SIGABRT until the kill

	healthBusy, healthIdle, healthDeadline time.Duration
	healthMisses                           int
	resources                              time.Duration // between looks at what the tree uses, where it is limited
	storage                                time.Duration // between looks at its folders, while it is called
	disk, diskIdle                         time.Duration // between looks at how full the disk is, while it is called and while it is not

	probation time.Duration // after a replacement, during which a crash brings the old process back
	backoff   []time.Duration
}

func defaultTiming() timing {
	return timing{
		drainExit: 2 * time.Second, drainSwap: 30 * time.Second,
		lastResults: 500 * time.Millisecond, shutdown: time.Second, terminate: time.Second, abort: 500 * time.Millisecond,
		healthBusy: 10 * time.Second, healthIdle: time.Minute, healthDeadline: 5 * time.Second, healthMisses: 2,
		resources: time.Second, storage: 5 * time.Second, disk: 100 * time.Millisecond, diskIdle: 500 * time.Millisecond,
		probation: 30 * time.Second,
		backoff:   restartDelays(),
	}
}

// shutdownMethod is go-plugin's. An empty message is the same on the wire whatever its name is.
const shutdownMethod = "/plugin.GRPCController/Shutdown"

// stop ends the process, politely as long as that leads somewhere, and returns when nothing of it is left. drain is how
// long running calls may go on. When ctx ends, politeness does.
//
// Every step has a bound, and the last one is a kill of the whole tree: a process that was stopped by SIGSTOP, that hangs
// or that ignores signals takes as long as the bounds, and no longer.
func (g *generation) stop(ctx context.Context, drain time.Duration) {
	g.ending.request()
	idle := g.calls.drain()
	g.drain(ctx, idle, drain)
	if until := time.Now().Add(g.times.shutdown); !g.exitedWithin(ctx, 0) {
		// A plugin that answers is on its way out. From one that doesn't, nothing is to be expected.
		if !g.shutdown(ctx) || !g.exitedWithin(ctx, time.Until(until)) {
			g.runner.closeLifeline()
			if ctx.Err() == nil {
				_ = g.runner.process.SignalGroup(syscall.SIGTERM)
			}
			if !g.exitedWithin(ctx, g.times.terminate) {
				g.runner.kill()
			}
		}
	}
	g.cleanUp()
}

// drain lets running calls finish, and then asks them to end.
func (g *generation) drain(ctx context.Context, idle <-chan struct{}, deadline time.Duration) {
	select {
	case <-idle:
		deadline = 0
	default:
	}
	drainCtx, cancel := context.WithTimeout(ctx, deadline+g.times.lastResults)
	answered := make(chan struct{})
	told := (<-chan struct{})(answered)
	defer func(told <-chan struct{}) { cancel(); <-told }(told)
	// Owned by drain, which waits for it: the call ends with drainCtx or with the process.
	go func() {
		defer close(answered)
		_, _ = gantryv1.NewPluginServiceClient(g.conn).Drain(drainCtx, &gantryv1.DrainRequest{DeadlineMs: deadline.Milliseconds()})
	}()
	if deadline > 0 {
		t := time.NewTimer(deadline)
		defer t.Stop()
		select {
		case <-idle:
		case <-t.C:
		case <-g.hurry:
		case <-ctx.Done():
		case <-g.Exited():
		}
	}
	g.stopCalls() // nothing runs, or it has had its time
	last := time.NewTimer(g.times.lastResults)
	defer last.Stop()
	for idle != nil || told != nil {
		select {
		case <-idle:
			idle = nil
		case <-told:
			told = nil
		case <-last.C:
			return
		case <-ctx.Done():
			return
		case <-g.Exited():
			return
		}
	}
}

// shutdown asks the process to end, and tells whether it understood.
func (g *generation) shutdown(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, g.times.shutdown)
	defer cancel()
	err := g.conn.Invoke(ctx, shutdownMethod, &emptypb.Empty{}, &emptypb.Empty{})
	if status.Code(err) == codes.Unimplemented {
		_, err = gantryv1.NewPluginServiceClient(g.conn).Stop(ctx, &gantryv1.StopRequest{})
	}
	return err == nil
}

// exitedWithin waits for the end of the process.
func (g *generation) exitedWithin(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-g.Exited():
		return true
	case <-t.C:
		select {
		case <-g.Exited():
			return true
		default:
			return false
		}
	case <-ctx.Done():
		return false
	}
}

// abort makes a process that hangs tell where, and ends it: a Go program prints its stacks on SIGABRT.
func (g *generation) abort() {
	_ = g.runner.process.Signal(syscall.SIGABRT)
	if !g.exitedWithin(context.Background(), g.times.abort) {
		g.runner.kill()
	}
}
