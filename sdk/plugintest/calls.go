package plugintest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gantry-agent/gantry/sdk/contract"
	gantryv1 "github.com/gantry-agent/gantry/sdk/proto/gantry/v1"
	"github.com/gantry-agent/gantry/sdk/wire/convert"
)

const (
	// parallelCalls is how many calls are made concurrently.
	parallelCalls = 100
	// shortDeadline is the deadline of a call that exceeds it.
	shortDeadline = 300 * time.Millisecond
	// maxGrowth is by how much memory may grow while output is not read.
	maxGrowth = 64 << 20
	// maxDigest is the maximum length of an assessment's digest.
	maxDigest = 128
)

// needsExample is the next step for a check that needs an example with behaviour b.
func needsExample(b Behaviour, what string) string {
	return fmt.Sprintf("give the kit an example that %s: a call with \"does\": %q", what, b)
}

// checkOrder checks the examples that answer or, if there are none, an invalid call.
func checkOrder(ctx context.Context, k *kit) verdict {
	const next = "send started (with or without an item), then other events, then exactly one result, and then end the RPC"
	if len(k.tools) == 0 {
		return skipped("", "it has no tools")
	}
	judged, broken := 0, error(nil)
	judge := func(t *transcript, err error) error {
		switch {
		case err != nil:
			broken = err
		case t.err != nil:
			broken = t.failure()
		default:
			judged++
			return t.checkOrder()
		}
		return nil
	}
	for _, i := range k.withBehaviour(Answers) {
		if err := judge(k.example(ctx, i)); err != nil {
			return failed(next, "%v", err)
		}
	}
	if judged == 0 {
		if c, ok := k.badCall(); ok {
			p, err := k.ready(ctx)
			if err == nil {
				err = judge(k.perform(ctx, p, c, nil))
			}
			if err != nil {
				return failed(next, "%v", err)
			}
		}
	}
	if judged == 0 {
		return skipped(needsExample(Answers, "succeeds"), "no call returned a result: %v", broken)
	}
	return passed("%d calls in order", judged)
}

func checkArguments(ctx context.Context, k *kit) verdict {
	bad := k.badCalls()
	if len(bad) == 0 {
		return skipped("", "it has no tool with arguments")
	}
	for _, c := range bad {
		p, err := k.ready(ctx)
		if err != nil {
			return broken(err)
		}
		if v := k.expectError(ctx, p, c, "return a result with is_error and a text that says what is wrong with the arguments"); v.status == Fail {
			return v
		}
	}
	return passed("%d calls returned an error result", len(bad))
}

// expectError makes a call that must return an error result.
func (k *kit) expectError(ctx context.Context, p *process, c Call, next string) verdict {
	running, err := p.begin(ctx, name(c), k.startOf(c))
	if err != nil {
		return failed(next, "%s: %v", name(c), k.explain(ctx, p, err))
	}
	t := running.finish(ctx, responseTimeout+k.cfg.Slack)
	if err := t.failure(); err != nil {
		if status.Code(t.err) == codes.Unavailable {
			err = k.explain(ctx, p, t.err)
		}
		return failed(next, "%v", err)
	}
	if !t.result.GetIsError() {
		return failed(next, "%s: it returned %s as a success", t.what, says(t.result))
	}
	if len(t.result.GetParts()) == 0 {
		return failed(next, "%s: the error result is empty", t.what)
	}
	return passed("%s", says(t.result))
}

// checkItems checks the items of all calls so far.
func checkItems(_ context.Context, k *kit) verdict {
	items, code := 0, 0
	check := func(what string, it *gantryv1.Item) error {
		if it == nil {
			return nil
		}
		items++
		c := it.GetCode()
		if c == nil {
			return nil
		}
		code++
		switch {
		case !contract.IsLanguage(c.GetLanguage()):
			return fmt.Errorf("%s: the language of its code is %s", what, quote(c.GetLanguage()))
		case c.GetSource() == "":
			return fmt.Errorf("%s: its code is missing", what)
		}
		return nil
	}
	var errs []error
	for _, a := range k.assessed {
		errs = append(errs, check(a.what, a.resp.GetItem()))
	}
	for _, t := range k.examples {
		if t == nil { // an example that was not run
			continue
		}
		for _, e := range t.events {
			errs = append(errs, check(t.what, e.GetStarted().GetItem()), check(t.what, e.GetItem()), check(t.what, e.GetResult().GetItem()))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return failed("set language (1 to 32 lower-case letters, digits and \"+#.-\") and source", "%s", joined(err))
	}
	return passed("%d items, %d of code", items, code)
}

// checkNested repeats an example with the other kind of caller.
func checkNested(ctx context.Context, k *kit) verdict {
	i := slices.IndexFunc(k.cfg.Calls, func(c Call) bool {
		d := k.descriptor(c)
		return c.Does == Answers && d != nil && d.ReadOnly && d.Nesting != contract.NestingNever && d.Nesting != contract.NestingOnly
	})
	if i < 0 {
		return skipped(needsExample(Answers, "succeeds"), "no example of a read-only tool that both the model and other calls may call")
	}
	p, err := k.ready(ctx)
	if err != nil {
		return broken(err)
	}
	t, err := k.perform(ctx, p, k.cfg.Calls[i], func(s *gantryv1.CallStart) { s.Parents = []string{parentID} })
	if err == nil {
		err = t.failure()
	}
	const next = "treat a call with parents like any other"
	switch {
	case err != nil:
		return failed(next, "%v", err)
	case t.result.GetIsError():
		return failed(next, "%s, called by another call: it failed with %s", t.what, says(t.result))
	}
	return passed("%s", says(t.result))
}

func checkUnknownTool(ctx context.Context, k *kit, p *process) verdict {
	return k.expectError(ctx, p, Call{Tool: "gantry_plugintest_unknown"}, "return a result with is_error and the text \"unsupported call: NAME\"")
}

func checkExamples(ctx context.Context, k *kit) verdict {
	answers := k.withBehaviour(Answers)
	if len(answers) == 0 {
		return skipped(needsExample(Answers, "succeeds"), "no example")
	}
	var said []string
	for _, i := range answers {
		t, err := k.example(ctx, i)
		if err == nil {
			err = t.failure()
		}
		if err == nil && t.result.GetIsError() {
			err = fmt.Errorf("%s: it returned the error %s", t.what, says(t.result))
		}
		if err != nil {
			return failed("correct the example or the tool", "%v", err)
		}
		said = append(said, t.what+": "+says(t.result))
	}
	return passed("%s", strings.Join(said, "\n"))
}

func checkOutput(ctx context.Context, k *kit) verdict {
	total, loudest := 0, -1
	for _, i := range k.withBehaviour(Answers) {
		t, err := k.example(ctx, i)
		if err != nil {
			return broken(err)
		}
		all, err := t.output()
		if err != nil {
			return failed("set the offset to the number of bytes in all previous deltas; split at 8192 bytes or before, between characters", "%v", err)
		}
		if total += len(all); len(all) > 1 {
			loudest = i
		}
	}
	if loudest < 0 {
		return skipped("give the kit an example that writes output", "no example writes output")
	}
	p, err := k.ready(ctx)
	if err != nil {
		return broken(err)
	}
	t, err := k.perform(ctx, p, k.cfg.Calls[loudest], func(s *gantryv1.CallStart) { s.Caps.MaxOutputBytes = 1 })
	if err == nil {
		err = t.failure()
	}
	if err != nil {
		return failed("drop output beyond the limit, and continue", "with a limit of 1 byte: %v", err)
	}
	if all, _ := t.output(); len(all) > 1 {
		return failed("drop output beyond caps.max_output_bytes", "with a limit of 1 byte, it sent %d", len(all))
	}
	return passed("%d bytes in order, and the limit is respected", total)
}

func checkAssess(ctx context.Context, k *kit) verdict {
	const next = "return effects, or an early result if the call is invalid; a status code means that Assess itself failed"
	assessed := 0
	for _, d := range k.tools {
		if !d.Assess {
			continue
		}
		assessed++
		p, err := k.ready(ctx)
		if err != nil {
			return broken(err)
		}
		c := Call{Tool: d.Name, Namespace: d.Namespace, Arguments: json.RawMessage(`["not","an","object"]`)}
		if d.Freeform == nil {
			_, _ = k.assess(ctx, p, c, k.startOf(c)) // checked below
		}
	}
	if assessed == 0 {
		return skipped("", "no tool declares assess")
	}
	for _, a := range k.assessed {
		switch {
		case a.err != nil:
			return failed(next, "%s: %v", a.what, a.err)
		case len(a.resp.GetDigest()) > maxDigest:
			return failed("use a hash as the digest", "%s: the digest has %d bytes; the maximum is %d", a.what, len(a.resp.GetDigest()), maxDigest)
		case a.resp.GetEarly() == nil && strings.Contains(a.resp.GetSummary(), "\n"):
			return failed("limit the summary to one line", "%s: the summary is %s", a.what, quote(a.resp.GetSummary()))
		}
		for _, e := range a.resp.GetEffects() {
			if e.GetKind() == nil {
				return failed(next, "%s: an effect without a kind", a.what)
			}
			if err := contract.CheckEffect(convert.EffectFromProto(e)); err != nil {
				return failed(next, "%s: %v", a.what, err)
			}
		}
	}
	return passed("%d tools, %d assessments", assessed, len(k.assessed))
}

func checkParallel(ctx context.Context, k *kit) verdict {
	c, ok := k.cheapCall()
	if !ok {
		return skipped(needsExample(Answers, "succeeds, with a tool that is read-only and parallel-safe"), "no call that can be made a hundred times")
	}
	p, err := k.ready(ctx)
	if err != nil {
		return broken(err)
	}
	declared := int(k.manifest.Limits.MaxParallelCalls)
	var running []*calling
	for range parallelCalls {
		r, err := p.begin(ctx, name(c), k.startOf(c))
		if err != nil {
			return failed("serve calls concurrently", "%v", k.explain(ctx, p, err))
		}
		running = append(running, r)
	}
	answered, refused, wrong := 0, 0, error(nil)
	for _, r := range running {
		t := r.finish(ctx, responseTimeout+k.cfg.Slack)
		err := t.failure()
		switch {
		case err == nil:
			answered++
			err = k.sameKind(c, t)
		case status.Code(t.err) == codes.ResourceExhausted && declared > 0:
			refused++
			continue
		}
		if err != nil && wrong == nil {
			wrong = err
		}
	}
	switch {
	case wrong != nil:
		return failed("serve calls concurrently, or declare limits.max_parallel_calls and refuse further calls with RESOURCE_EXHAUSTED", "%v", wrong)
	case refused > 0 && answered < min(declared, parallelCalls):
		return failed("serve limits.max_parallel_calls calls concurrently", "%d calls were answered, but the manifest declares %d", answered, declared)
	}
	return passed("%d answered, %d refused", answered, refused)
}

// wait begins the example that waits, on p, and returns when it has started. It returns nil without an error if there is none,
// or if the plugin failed call.order, so that it may not send started.
func (k *kit) wait(ctx context.Context, p *process, change func(*gantryv1.CallStart)) (*calling, error) {
	i := k.waiting()
	if i < 0 || k.failed["call.order"] {
		return nil, nil
	}
	c := k.cfg.Calls[i]
	start, _ := k.assessedStart(ctx, p, c)
	if change != nil {
		change(start)
	}
	running, err := p.begin(ctx, name(c), start)
	if err != nil {
		return nil, k.explain(ctx, p, err)
	}
	select {
	case <-running.started:
		return running, nil
	case <-running.done:
		return nil, fmt.Errorf("%w", orElse(running.failure(), "%s: it ended immediately", running.what))
	case <-time.After(responseTimeout + k.cfg.Slack):
		err = fmt.Errorf("%s: no started event within %v", running.what, responseTimeout)
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	running.end(err)
	return nil, err
}

func orElse(err error, format string, args ...any) error {
	if err != nil {
		return err
	}
	return fmt.Errorf(format, args...)
}

func checkCancel(ctx context.Context, k *kit, p *process) verdict {
	const next = "let the handler return when the call is cancelled, and send its result, or one with aborted"
	running, err := k.wait(ctx, p, nil)
	if err != nil {
		return failed(next, "%v", err)
	}
	if running == nil {
		return skipped(needsExample(Waits, "runs until it is cancelled"), "no example waits")
	}
	running.requestCancel("interrupted")
	began := time.Now()
	t := running.finish(ctx, exitTimeout+k.cfg.Slack)
	if err := t.failure(); err != nil {
		return failed(next, "after it was cancelled: %v", err)
	}
	return passed("returned %s after %v", says(t.result), time.Since(began).Round(time.Millisecond))
}

func checkDeadline(ctx context.Context, k *kit, p *process) verdict {
	const next = "cancel the handler after caps.deadline_ms, as if the host had cancelled it with the reason \"deadline\""
	running, err := k.wait(ctx, p, func(s *gantryv1.CallStart) { s.Caps.DeadlineMs = shortDeadline.Milliseconds() })
	if err != nil {
		return failed(next, "%v", err)
	}
	if running == nil {
		return skipped(needsExample(Waits, "runs until it is cancelled"), "no example waits")
	}
	t := running.finish(ctx, shortDeadline+exitTimeout+k.cfg.Slack)
	if err := t.failure(); err != nil {
		return failed(next, "with a deadline of %v: %v", shortDeadline, err)
	}
	return passed("returned %s", says(t.result))
}

func checkCrash(ctx context.Context, k *kit) verdict {
	const next = "catch panics and exceptions of the handler, and return an error result"
	crashing := k.withBehaviour(Crashes)
	if len(crashing) == 0 {
		return skipped(needsExample(Crashes, "makes the handler panic"), "no example crashes")
	}
	var said []string
	for _, i := range crashing {
		p, err := k.ready(ctx)
		if err != nil {
			return broken(err)
		}
		c := k.cfg.Calls[i]
		running, err := p.begin(ctx, name(c), k.startOf(c))
		if err != nil {
			return failed(next, "%v", k.explain(ctx, p, err))
		}
		t := running.finish(ctx, responseTimeout+k.cfg.Slack)
		switch {
		case status.Code(t.err) == codes.Unavailable:
			return failed(next, "%s: %v", t.what, k.explain(ctx, p, t.err))
		case t.failure() != nil:
			return failed(next, "%v", t.failure())
		case !t.result.GetIsError():
			return failed(next, "%s: it returned %s as a success", t.what, says(t.result))
		}
		if _, err := call(ctx, k, p, p.plugin().Describe, &gantryv1.DescribeRequest{}); err != nil {
			return failed(next, "after the crash: %v", err)
		}
		said = append(said, says(t.result))
	}
	return passed("returned %s and keeps running", strings.Join(said, ", "))
}

func checkBackpressure(ctx context.Context, k *kit) verdict {
	flooding := k.withBehaviour(Floods)
	if len(flooding) == 0 {
		return skipped(needsExample(Floods, "writes output without end"), "no example floods")
	}
	if !treeSupported {
		return skipped("", "memory can't be measured on this system")
	}
	p, err := k.ready(ctx)
	if err != nil {
		return broken(err)
	}
	c := k.cfg.Calls[flooding[0]]
	start := k.startOf(c)
	start.Caps.MaxOutputBytes = 1 << 40
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	before := resident(p.marked())
	stream, err := p.tools().Call(ctx)
	if err == nil {
		err = stream.Send(&gantryv1.CallRequest{Control: &gantryv1.CallRequest_Start{Start: start}})
	}
	if err == nil {
		_, err = stream.Recv() // and read nothing more
	}
	if err != nil {
		return failed("correct the example or the tool", "%v", k.explain(ctx, p, err))
	}
	most := int64(0)
	ticker := time.NewTicker(k.cfg.flood / 20)
	defer ticker.Stop()
	over := time.After(k.cfg.flood)
	for {
		most = max(most, resident(p.marked())-before)
		if most > maxGrowth {
			return failed("block the writer instead of buffering output", "memory grew by %d MiB while output was not read", most>>20)
		}
		select {
		case <-ticker.C:
			continue
		case <-over:
		case <-ctx.Done():
			return skipped("", "interrupted")
		}
		return passed("memory grew by %.1f MiB while output was not read for %v", float64(most)/(1<<20), k.cfg.flood)
	}
}
