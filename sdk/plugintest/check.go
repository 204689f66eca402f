package plugintest

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/gantry-agent/gantry/sdk/contract"
)

// check is one rule. A check whose needs failed is skipped: a single mistake shall be reported once.
type check struct {
	id, why string
	needs   []string
	kind    contract.Kind // of the plugins it applies to; unknown: all
	run     func(context.Context, *kit) verdict
}

// verdict is what a check found.
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

// skipped is for what does not apply. next says how to make it apply; may be empty.
func skipped(next, format string, args ...any) verdict {
	return verdict{status: Skip, seen: fmt.Sprintf(format, args...), next: next}
}

// broken is the verdict when the plugin did not even get to the point of the check.
func broken(err error) verdict {
	return failed("look at what the plugin wrote to stderr; the checks before this one say what is expected up to here", "%v", err)
}

// judge runs one check and keeps book of it.
func (k *kit) judge(ctx context.Context, c check) Result {
	began := time.Now()
	v := k.verdictOf(ctx, c)
	// A plugin that dies under a check has failed it, whatever else was seen.
	if p := k.shared; v.status == Pass && p != nil && p.dead() {
		v = failed("catch what goes wrong inside one call; the process must live on", "the process ended during this check: %s", p.end())
	}
	if v.status == Fail {
		k.failed[c.id] = true
		k.drop() // whatever state it is in, the next check starts from a fresh one
	}
	return Result{ID: c.id, Why: c.why, Status: v.status, Seen: v.seen, Next: v.next, TookMS: time.Since(began).Milliseconds()}
}

func (k *kit) verdictOf(ctx context.Context, c check) verdict {
	if ctx.Err() != nil {
		return skipped("", "interrupted")
	}
	if c.kind != contract.KindUnknown && k.manifest != nil && k.manifest.Kind != c.kind {
		return skipped("", "for %s plugins", c.kind)
	}
	var because []string
	for _, id := range c.needs {
		if k.failed[id] {
			because = append(because, id)
		}
	}
	if len(because) > 0 {
		k.failed[c.id] = true // and so are those that hang on this one
		return skipped("", "hangs on %s", strings.Join(because, ", "))
	}
	return c.run(ctx, k)
}
