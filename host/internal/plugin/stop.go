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

// timing contains all the durations that tests shorten.
type timing struct {
	drainExit, drainSwap time.Duration // how long running calls may continue, on a stop and after a replacement
	lastResults          time.Duration // from then until Shutdown
	shutdown             time.Duration // from Shutdown until SIGTERM
	terminate            time.Duration // from SIGTERM until the tree is killed
	abort                time.Duration // from SIGABRT until the kill

	healthBusy, healthIdle, healthDeadline time.Duration
	healthMisses                           int
	resources                              time.Duration // between measurements of memory and process count, if they are limited
	storage                                time.Duration // between measurements of its folders, while calls are running
	disk, diskIdle                         time.Duration // between checks of the disk's usage, while calls are running and otherwise

	probation time.Duration // after a replacement; the old process takes over again if the new one crashes during it
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

// shutdownMethod is go-plugin's. Its request and response are empty messages of its own types, which look the same on the
// wire as [emptypb.Empty].
const shutdownMethod = "/plugin.GRPCController/Shutdown"

// stop ends the process and waits until it has been cleaned up. It drains the calls, which may continue for the duration
// drain, calls Shutdown, closes the lifeline and sends SIGTERM, and finally kills the whole process tree. Each step has a
// timeout, so that processes that hang, ignore signals or have been stopped by SIGSTOP are ended as well. When ctx ends, stop
// proceeds to the kill.
func (g *generation) stop(ctx context.Context, drain time.Duration) {
	g.ending.request()
	idle := g.calls.drain()
	g.drain(ctx, idle, drain)
	if until := time.Now().Add(g.times.shutdown); !g.exitedWithin(ctx, 0) {
		// Only a plugin that answers the call gets the time to exit by itself.
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

// drain waits until running calls have finished or the deadline has passed, then asks them to end.
func (g *generation) drain(ctx context.Context, idle <-chan struct{}, deadline time.Duration) {
	select {
	case <-idle:
		deadline = 0
	default:
	}
	drainCtx, cancel := context.WithTimeout(ctx, deadline+g.times.lastResults)
	answered := make(chan struct{})
	defer func() { cancel(); <-answered }()
	// Owned by drain, which waits for it. The call ends with drainCtx or with the process.
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
		case <-g.drainEnd:
		case <-ctx.Done():
		case <-g.Exited():
		}
	}
	g.stopCalls()
	last := time.NewTimer(g.times.lastResults)
	defer last.Stop()
	for response := (<-chan struct{})(answered); idle != nil || response != nil; {
		select {
		case <-idle:
			idle = nil
		case <-response:
			response = nil
		case <-last.C:
			return
		case <-ctx.Done():
			return
		case <-g.Exited():
			return
		}
	}
}

// shutdown asks the process to exit. It returns false if the process did not answer.
func (g *generation) shutdown(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, g.times.shutdown)
	defer cancel()
	err := g.conn.Invoke(ctx, shutdownMethod, &emptypb.Empty{}, &emptypb.Empty{})
	if status.Code(err) == codes.Unimplemented {
		_, err = gantryv1.NewPluginServiceClient(g.conn).Stop(ctx, &gantryv1.StopRequest{})
	}
	return err == nil
}

// exitedWithin reports whether the process ends within d, and before ctx does.
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

// killForStacks ends a process that hangs. It sends SIGABRT first, on which a Go program prints the stacks of its goroutines.
func (g *generation) killForStacks() {
	_ = g.runner.process.Signal(syscall.SIGABRT)
	if !g.exitedWithin(context.Background(), g.times.abort) {
		g.runner.kill()
	}
}
