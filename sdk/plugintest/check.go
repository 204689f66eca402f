package plugintest

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/gantry-agent/gantry/sdk/contract"
	gantryv1 "github.com/gantry-agent/gantry/sdk/proto/gantry/v1"
)

// check checks one rule. It is skipped if a check that it needs has failed, so that each mistake is reported once.
type check struct {
	id, why string
	needs   []string
	kind    contract.Kind // of the plugins it applies to; unknown: all
	run     func(context.Context, *kit) verdict
}

// verdict is the outcome of a check.
type verdict struct {
	status     Status
	seen, next string
}

func passed(format string, args ...any) verdict {
	return verdict{status: Pass, seen: fmt.Sprintf(format, args...)}
}

func failed(next, format string, args ...any) verdict {
	return verdict{status: Fail, seen: fmt.Sprintf(format, args...), next: next}
}

// skipped is the verdict if the rule does not apply. next says how to make it apply; it may be empty.
func skipped(next, format string, args ...any) verdict {
	return verdict{status: Skip, seen: fmt.Sprintf(format, args...), next: next}
}

// broken is the verdict if the plugin failed before the check could begin.
func broken(err error) verdict {
	return failed("look at the plugin's stderr and at the checks before this one", "%v", err)
}

// judge runs one check and records its result.
func (k *kit) runCheck(ctx context.Context, c check) Result {
	began := time.Now()
	v := k.verdict(ctx, c)
	// A check during which the process ends has failed.
	if p := k.shared; v.status == Pass && p != nil && p.dead() {
		v = failed("catch errors inside a call, so that the process keeps running", "the process ended during this check: %s", p.end())
	}
	if v.status == Fail {
		k.failed[c.id] = true
		k.drop() // its state is unknown; the next check gets a new process
	}
	return Result{ID: c.id, Why: c.why, Status: v.status, Seen: v.seen, Next: v.next, TookMS: time.Since(began).Milliseconds()}
}

func (k *kit) verdict(ctx context.Context, c check) verdict {
	if ctx.Err() != nil {
		return skipped("", "interrupted")
	}
	if c.kind != contract.KindUnknown && k.manifest != nil && k.manifest.Kind != c.kind {
		return skipped("", "for %s plugins", c.kind)
	}
	var missing []string
	for _, id := range c.needs {
		if k.failed[id] {
			missing = append(missing, id)
		}
	}
	if len(missing) > 0 {
		k.failed[c.id] = true // so that the checks that need this one are skipped as well
		return skipped("", "needs %s", strings.Join(missing, ", "))
	}
	return c.run(ctx, k)
}

// onRunning runs a check on the shared process.
func onRunning(check func(context.Context, *kit, *process) verdict) func(context.Context, *kit) verdict {
	return func(ctx context.Context, k *kit) verdict {
		p, err := k.running(ctx)
		if err != nil {
			return broken(err)
		}
		return check(ctx, k, p)
	}
}

// onReady runs a check on the shared process once that is configured.
func onReady(check func(context.Context, *kit, *process) verdict) func(context.Context, *kit) verdict {
	return func(ctx context.Context, k *kit) verdict {
		p, err := k.ready(ctx)
		if err != nil {
			return broken(err)
		}
		return check(ctx, k, p)
	}
}

// onModel is onReady for checks of a provider that send a request to a model.
func onModel(check func(context.Context, *kit, *process, *gantryv1.LlmRequest) verdict) func(context.Context, *kit) verdict {
	return onReady(func(ctx context.Context, k *kit, p *process) verdict {
		req := k.request()
		if req == nil {
			return noModel()
		}
		return check(ctx, k, p, req)
	})
}

func noModel() verdict { return skipped("give the kit a model", "it lists no models") }
