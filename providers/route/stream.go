package route

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/gantry-agent/gantry/providers/protocol"
	"github.com/gantry-agent/gantry/providers/redact"
	"github.com/gantry-agent/gantry/sdk/llm"
	"github.com/gantry-agent/gantry/sdk/provider"
)

// Stream sends a request and passes the events of the response to emit, one at a time and in order. It makes up to maxAttempts
// attempts until the first byte of the response (0: the host's default; at most 100), and announces further attempts as
// [llm.Attempt]. After the first byte, retrying is up to the caller, who knows what happened to the events. A 401 gets one more
// attempt if the Auth could replace the credential.
//
// The error is an *[llm.Error] in a *[Fault], or the error of emit, or the cause of ctx's end. Nothing is emitted after it, and
// emitted events are not revoked.
func (r *Route) Stream(ctx context.Context, req *protocol.Request, maxAttempts int, emit func(llm.Event) error) error {
	if maxAttempts <= 0 {
		maxAttempts = provider.DefaultMaxAttempts
	}
	maxAttempts = min(maxAttempts, maxTries)
	a := r.answering(req)
	a.emit = emit
	body, err := a.lower()
	if err != nil {
		return err
	}
	recovered := false
	for n := 1; ; n++ {
		err := a.try(ctx, body)
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		f, ok := errors.AsType[*Fault](err)
		if !ok {
			return err
		}
		var delay time.Duration
		switch {
		case f.refused && !recovered:
			recovered = true
			if !a.recovered(ctx, f) {
				return f
			}
			maxAttempts++ // an additional attempt, because the failure was not a matter of chance
		case !f.again || n >= maxAttempts:
			return f
		default:
			if delay = f.wait(backoff(n, a.jitter(), a.settings.MaxDelay)); delay > a.settings.MaxDelay {
				return f.tooLong(time.Now(), delay, a.settings.MaxDelay)
			}
		}
		if err := emit(llm.Attempt{N: n + 1, DelayMS: delay.Milliseconds(), Reason: f.reason()}); err != nil {
			return err
		}
		if err := pause(ctx, delay); err != nil {
			return err
		}
	}
}

// recovered lets the Auth replace the credential once after a 401.
func (a *answer) recovered(ctx context.Context, f *Fault) bool {
	r, ok := a.auth.(Recoverer)
	if !ok {
		return false
	}
	done, err := r.Recover(ctx, a.sent)
	if err != nil {
		f.Err.Message += "; renewing the key failed: " + a.shown(err.Error())
		if e, ok := errors.AsType[*llm.Error](err); ok && e.Next != "" {
			f.Err.Next = e.Next
		}
	}
	return done && err == nil
}

func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// try sends the request once. Everything that it starts ends with it.
func (a *answer) try(ctx context.Context, body []byte) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil) // also closes the connection of a response that was not read to its end
	out, err := a.outgoing(ctx, body, a.auth)
	if err != nil {
		return err
	}
	req, err := out.request(ctx)
	if err != nil {
		return a.broken(ctx, out, err)
	}
	late := time.AfterFunc(a.settings.HeaderTimeout, func() { cancel(errNoHead) })
	res, err := a.transport.RoundTrip(req)
	late.Stop()
	if err != nil {
		return a.broken(ctx, out, err)
	}
	defer res.Body.Close()
	idle := newIdle(a.settings.IdleTimeout, cancel)
	if res.StatusCode < 200 || res.StatusCode > 299 {
		return a.refused(ctx, out, res, idle)
	}
	all := time.AfterFunc(a.settings.AnswerTimeout, func() { cancel(errEndless) })
	defer all.Stop()
	return a.read(ctx, out, res, idle)
}

// The causes for which an attempt ends itself.
var (
	errNoHead  = errors.New("no response began in time")
	errIdle    = errors.New("silence during a response")
	errEndless = errors.New("the response took too long")
	errOver    = errors.New("the answer is complete")
)

// idle ends an attempt when nothing is received for a while. The timer only runs while waiting for bytes: the receiver of the
// events may be arbitrarily slow.
type idle struct {
	*time.Timer
	limit time.Duration
}

func newIdle(limit time.Duration, cancel context.CancelCauseFunc) *idle {
	t := time.AfterFunc(limit, func() { cancel(errIdle) })
	t.Stop()
	return &idle{t, limit}
}

// shown prepares a text for a message.
func (a *answer) shown(s string) string {
	s, cut := redact.Clip(a.secrets.Text(s), redact.MaxInMessage)
	if cut {
		s += "…"
	}
	return strings.TrimSpace(s)
}
