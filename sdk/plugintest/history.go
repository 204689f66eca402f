package plugintest

import (
	"context"
	"strings"

	gantryv1 "github.com/gantry-agent/gantry/sdk/proto/gantry/v1"
)

// checkHistory makes the same call for readers that have an earlier result and for readers that don't.
func checkHistory(ctx context.Context, k *kit) verdict {
	const next = "refer to the result of an earlier call only if that call had the same history_revision, and it isn't empty"
	compared := 0
	for _, i := range k.withBehaviour(Answers) {
		c := k.cfg.Calls[i]
		p, err := k.ready(ctx)
		if err != nil {
			return broken(err)
		}
		comparable, wrong := k.refers(ctx, p, c)
		if comparable {
			compared++
		}
		if wrong == nil {
			continue
		}
		// A result that changes with time can look like a reference once, but hardly twice.
		if p, err = k.fresh(ctx); err != nil {
			return broken(err)
		}
		_, wrong = k.refers(ctx, p, c)
		p.kill()
		if wrong != nil {
			return failed(next, "%s: for a reader without the earlier result, it returned %s", name(c), says(wrong))
		}
	}
	if compared == 0 {
		return skipped(needsExample(Answers, "succeeds, with the same result each time"), "no example returns the same result twice")
	}
	return passed("%d examples return the whole result to a reader without the earlier one", compared)
}

// refers makes a call several times. comparable is false if the results differ without a reason. wrong is a result that refers to one that
// its reader doesn't have; nil: there is none.
func (k *kit) refers(ctx context.Context, p *process, c Call) (comparable bool, wrong *gantryv1.CallResult) {
	var results []*gantryv1.CallResult
	var texts []string
	for n, revision := range []string{"", "kit-1", "kit-1", "kit-2", ""} {
		t, err := k.perform(ctx, p, c, func(s *gantryv1.CallStart) { s.HistoryRevision = revision })
		if err != nil || t.failure() != nil || t.result.GetIsError() {
			return false, nil // other checks report it
		}
		results, texts = append(results, t.result), append(texts, lasting(t.result))
		switch {
		case n == 1 && texts[0] != texts[1]:
			return false, nil
		case n == 2 && texts[1] == texts[2]:
			return true, nil // it refers to nothing
		}
	}
	for n := 3; n < len(results); n++ {
		if texts[n] == texts[2] {
			return true, results[n]
		}
	}
	return true, nil
}

// lasting returns the text of a result without numbers, which are often times.
func lasting(r *gantryv1.CallResult) string {
	var b strings.Builder
	for _, p := range r.GetParts() {
		for _, c := range p.GetText().GetText() + string(p.GetJson()) {
			if c < '0' || c > '9' {
				b.WriteRune(c)
			}
		}
		b.WriteByte('\n')
	}
	return b.String()
}
