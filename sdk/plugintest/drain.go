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

// drainTime is the deadline of a Drain that is bound to reach it.
const drainTime = 200 * time.Millisecond

// drainStory is what one process said while it was drained and stopped. It is played once, and several checks read it.
type drainStory struct {
	counts, refuses, finishes, stop verdict
}

func (k *kit) drain(ctx context.Context) *drainStory {
	if k.drained == nil {
		k.drained = k.playDrain(ctx)
	}
	return k.drained
}

func (k *kit) playDrain(ctx context.Context) *drainStory {
	p, err := k.fresh(ctx)
	if err != nil {
		v := broken(err)
		return &drainStory{v, v, v, v}
	}
	defer p.kill()
	s := &drainStory{}
	running, err := k.wait(ctx, p, nil)
	if err != nil {
		running = nil // the check of cancelling says more about that
	}
	s.counts = k.drainOnce(ctx, p, running)
	s.refuses = k.afterDrain(ctx, p)
	s.finishes = k.finishDrained(ctx, p, running)
	s.stop = k.stop(ctx, p)
	return s
}

func (k *kit) drainOnce(ctx context.Context, p *process, running *calling) verdict {
	const next = "in Drain refuse everything new, wait for what runs until deadline_ms is over, answer how many calls still run"
	ctx, cancel := k.within(ctx, drainTime+endPatience)
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
		select { // a call that only waits for what goes on without the plugin may end when it drains
		case <-running.answered:
			return passed("it says 0, and the call that ran has ended")
		case <-time.After(drainTime):
		}
	}
	if resp.GetStillRunning() != want {
		return failed(next, "%d calls are running, it says %d", want, resp.GetStillRunning())
	}
	return passed("it says %d with %d running", want, want)
}

func (k *kit) afterDrain(ctx context.Context, p *process) verdict {
	const next = "answer UNAVAILABLE to what comes after Drain"
	var code codes.Code
	if k.manifest.Kind == contract.KindProvider {
		req := k.request()
		if req == nil {
			return skipped("give the kit a model", "it lists no models")
		}
		limited, cancel := k.within(ctx, answerPatience)
		defer cancel()
		stream, err := p.provider().Stream(limited, &gantryv1.StreamRequest{Request: req, MaxAttempts: 1})
		if err == nil {
			_, err = stream.Recv()
		}
		code = status.Code(err)
	} else {
		c, ok := k.cheapCall()
		if !ok {
			return skipped(wanted(Answers, "succeeds"), "no call to be refused")
		}
		running, err := p.begin(ctx, name(c), k.startOf(c))
		if err != nil {
			return broken(k.explain(ctx, p, err))
		}
		t := running.finish(ctx, answerPatience+k.cfg.Slack)
		if t.result != nil {
			return failed(next, "%s was answered", t.what)
		}
		if t.stuck != nil {
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

func (k *kit) finishDrained(ctx context.Context, p *process, running *calling) verdict {
	const next = "let running calls go on during Drain, controls included"
	if running == nil {
		return skipped(wanted(Waits, "runs until it is cancelled"), "no example waits")
	}
	running.askToCancel("shutdown")
	t := running.finish(ctx, endPatience+k.cfg.Slack)
	if err := t.failure(); err != nil {
		return failed(next, "%v", err)
	}
	resp, err := call(ctx, k, p, p.plugin().Drain, &gantryv1.DrainRequest{DeadlineMs: endPatience.Milliseconds()})
	if err != nil {
		return failed(next, "a second Drain: %v", err)
	}
	if n := resp.GetStillRunning(); n != 0 {
		return failed("count a call as over when its result is sent", "after its result the call is still counted: %d", n)
	}
	return passed("it answered %s", says(t.result))
}

func (k *kit) stop(ctx context.Context, p *process) verdict {
	limit := endPatience
	if ms := k.manifest.Limits.StopMS; ms > 0 {
		limit = time.Duration(ms) * time.Millisecond
	}
	const next = "answer Stop, then end as after GRPCController.Shutdown"
	if _, err := call(ctx, k, p, p.plugin().Stop, &gantryv1.StopRequest{}); err != nil {
		return failed(next, "%v", err)
	}
	began := time.Now()
	if !p.wait(limit + k.cfg.Slack) {
		return failed(next, "it runs on %v after the answer", limit)
	}
	if code := p.exitCode(); code != 0 {
		p.finish()
		return failed(next, "%s", p.end())
	}
	return passed("%v after the answer", time.Since(began).Round(time.Millisecond))
}

func checkDrainCounts(ctx context.Context, k *kit) verdict   { return k.drain(ctx).counts }
func checkDrainRefuses(ctx context.Context, k *kit) verdict  { return k.drain(ctx).refuses }
func checkDrainFinishes(ctx context.Context, k *kit) verdict { return k.drain(ctx).finishes }
func checkStop(ctx context.Context, k *kit) verdict          { return k.drain(ctx).stop }

func checkHangUp(ctx context.Context, k *kit) verdict {
	const next = "end the handler when the rpc is cancelled"
	if k.waiting() < 0 {
		return skipped(wanted(Waits, "runs until it is cancelled"), "no example waits")
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
	running.end(errors.New("the host hung up"))
	limited, cancel := k.within(ctx, 2*endPatience)
	defer cancel()
	resp, err := p.plugin().Drain(limited, &gantryv1.DrainRequest{DeadlineMs: (endPatience + k.cfg.Slack).Milliseconds()})
	if err != nil {
		return broken(k.explain(limited, p, err))
	}
	if n := resp.GetStillRunning(); n != 0 {
		return failed(next, "%v after the host hung up %d calls still run", endPatience, n)
	}
	return passed("nothing runs any more")
}
