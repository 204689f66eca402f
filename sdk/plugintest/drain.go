package plugintest

import (
	"context"
	"errors"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gantry-agent/gantry/sdk/contract"
	gantryv1 "github.com/gantry-agent/gantry/sdk/proto/gantry/v1"
)

// drainTime is the deadline of a Drain that exceeds it.
const drainTime = 200 * time.Millisecond

// drainVerdicts are the results of several checks, for which one process is drained and stopped.
type drainVerdicts struct {
	counts, refuses, finishes, stop verdict
}

func (k *kit) drain(ctx context.Context) *drainVerdicts {
	if k.drained == nil {
		k.drained = k.runDrain(ctx)
	}
	return k.drained
}

func (k *kit) runDrain(ctx context.Context) *drainVerdicts {
	p, err := k.fresh(ctx)
	if err != nil {
		v := broken(err)
		return &drainVerdicts{v, v, v, v}
	}
	defer p.kill()
	s := &drainVerdicts{}
	running, err := k.wait(ctx, p, nil)
	if err != nil {
		running = nil // call.cancel reports that
	}
	s.counts = k.checkStillRunning(ctx, p, running)
	s.refuses = k.checkRefuses(ctx, p)
	s.finishes = k.checkFinishes(ctx, p, running)
	s.stop = k.stop(ctx, p)
	return s
}

func (k *kit) checkStillRunning(ctx context.Context, p *process, running *calling) verdict {
	const next = "in Drain, refuse new calls, wait up to deadline_ms for running ones, and return how many are still running"
	ctx, cancel := k.within(ctx, drainTime+exitTimeout)
	defer cancel()
	resp, err := p.plugin().Drain(ctx, &gantryv1.DrainRequest{DeadlineMs: drainTime.Milliseconds()})
	if err != nil {
		return failed(next, "with a deadline of %v: %v", drainTime, k.explain(ctx, p, err))
	}
	want := int32(0)
	if running != nil {
		want = 1
	}
	if resp.GetStillRunning() == 0 && running != nil {
		select { // a call that only waits for something outside the plugin may end on Drain
		case <-running.answered:
			return passed("it returned 0, and the call has ended")
		case <-time.After(drainTime):
		}
	}
	if resp.GetStillRunning() != want {
		return failed(next, "%d calls are running, but it returned %d", want, resp.GetStillRunning())
	}
	return passed("it returned %d with %d calls running", want, want)
}

func (k *kit) checkRefuses(ctx context.Context, p *process) verdict {
	const next = "return UNAVAILABLE after Drain"
	var code codes.Code
	if k.manifest.Kind == contract.KindProvider {
		req := k.request()
		if req == nil {
			return noModel()
		}
		limited, cancel := k.within(ctx, responseTimeout)
		defer cancel()
		stream, err := p.provider().Stream(limited, &gantryv1.StreamRequest{Request: req, MaxAttempts: 1})
		if err == nil {
			_, err = stream.Recv()
		}
		code = status.Code(err)
	} else {
		c, ok := k.cheapCall()
		if !ok {
			return skipped(needsExample(Answers, "succeeds"), "there is no call to make")
		}
		running, err := p.begin(ctx, name(c), k.startOf(c))
		if err != nil {
			return broken(k.explain(ctx, p, err))
		}
		t := running.finish(ctx, responseTimeout+k.cfg.Slack)
		if t.result != nil {
			return failed(next, "%s returned a result", t.what)
		}
		if t.forced != nil {
			return failed(next, "%v", t.failure())
		}
		code = status.Code(t.err)
	}
	switch code {
	case codes.Unavailable:
		if p.wait(0) {
			return failed(next, "the process ended: %s", p.end())
		}
		fallthrough
	case codes.FailedPrecondition, codes.ResourceExhausted, codes.Aborted:
		return passed("refused with status %s", codeName(code))
	}
	return failed(next, "status %s", codeName(code))
}

func (k *kit) checkFinishes(ctx context.Context, p *process, running *calling) verdict {
	const next = "let running calls continue during Drain, including their controls"
	if running == nil {
		return skipped(needsExample(Waits, "runs until it is cancelled"), "no example waits")
	}
	running.requestCancel("shutdown")
	t := running.finish(ctx, exitTimeout+k.cfg.Slack)
	if err := t.failure(); err != nil {
		return failed(next, "%v", err)
	}
	resp, err := call(ctx, k, p, p.plugin().Drain, &gantryv1.DrainRequest{DeadlineMs: exitTimeout.Milliseconds()})
	if err != nil {
		return failed(next, "the second Drain: %v", err)
	}
	if n := resp.GetStillRunning(); n != 0 {
		return failed("don't count calls whose result has been sent", "Drain returned %d after the call's result", n)
	}
	return passed("it returned %s", says(t.result))
}

func (k *kit) stop(ctx context.Context, p *process) verdict {
	limit := exitTimeout
	if ms := k.manifest.Limits.StopMS; ms > 0 {
		limit = time.Duration(ms) * time.Millisecond
	}
	const next = "respond to Stop, then exit as after GRPCController.Shutdown"
	if _, err := call(ctx, k, p, p.plugin().Stop, &gantryv1.StopRequest{}); err != nil {
		return failed(next, "%v", err)
	}
	began := time.Now()
	if !p.wait(limit + k.cfg.Slack) {
		return failed(next, "still running %v after the response", limit)
	}
	if code := p.exitCode(); code != 0 {
		p.finish()
		return failed(next, "%s", p.end())
	}
	return passed("%v after the response", time.Since(began).Round(time.Millisecond))
}

func checkDrainCounts(ctx context.Context, k *kit) verdict   { return k.drain(ctx).counts }
func checkDrainRefuses(ctx context.Context, k *kit) verdict  { return k.drain(ctx).refuses }
func checkDrainFinishes(ctx context.Context, k *kit) verdict { return k.drain(ctx).finishes }
func checkStop(ctx context.Context, k *kit) verdict          { return k.drain(ctx).stop }

func checkHangUp(ctx context.Context, k *kit) verdict {
	const next = "end the handler when the RPC is cancelled"
	if k.waiting() < 0 {
		return skipped(needsExample(Waits, "runs until it is cancelled"), "no example waits")
	}
	p, err := k.fresh(ctx)
	if err != nil {
		return broken(err)
	}
	defer p.kill()
	running, err := k.wait(ctx, p, nil)
	if err != nil {
		return broken(err)
	}
	running.end(errors.New("cancelled by the host"))
	limited, cancel := k.within(ctx, 2*exitTimeout)
	defer cancel()
	resp, err := p.plugin().Drain(limited, &gantryv1.DrainRequest{DeadlineMs: (exitTimeout + k.cfg.Slack).Milliseconds()})
	if err != nil {
		return broken(k.explain(limited, p, err))
	}
	if n := resp.GetStillRunning(); n != 0 {
		return failed(next, "%v after the RPC was cancelled, %d calls are still running", exitTimeout, n)
	}
	return passed("no calls are running")
}
