package tools

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gantry-agent/gantry/plugins/shell/internal/helper"
	"github.com/gantry-agent/gantry/plugins/shell/internal/patch"
	"github.com/gantry-agent/gantry/sdk/contract"
	"github.com/gantry-agent/gantry/sdk/process"
	"github.com/gantry-agent/gantry/sdk/tool"
)

// change is a requested change of files that has not been verified.
type change struct {
	tool string
	// verify returns the plan, without writing anything. A [patch.Refusal] is for the model.
	verify      func(context.Context, helper.Command) (*patch.Plan, error)
	errorPrefix string // of the message that files have changed in the meantime
	summary     func(*patch.Plan, patch.Outcome, time.Duration) string
}

// plan calls verify. The error's text is for the model.
func (ch *change) plan(ctx context.Context, command helper.Command) (*patch.Plan, error) {
	plan, err := ch.verify(ctx, command)
	if err != nil {
		return nil, failed(ch.tool, err)
	}
	return plan, nil
}

// assessChange assesses a change. A change that can't be made is answered early, so that the user is not asked about it.
func (f *shellPlugin) assessChange(ctx context.Context, c *tool.AssessCall, ch change) (*contract.Assessment, error) {
	plan, err := ch.plan(ctx, c.Command)
	if err != nil {
		return earlyError(err.Error()), nil
	}
	digest := plan.Digest()
	f.plans.put(c.ThreadID(), digest, plan)
	var names []string
	for i := range plan.Changes {
		names = append(names, plan.Changes[i].Spelled)
	}
	return &contract.Assessment{
		Effects: []contract.Effect{contract.WriteEffect{Paths: plan.Paths()}},
		Summary: oneLine(ch.tool + " " + strings.Join(names, ", ")),
		Item:    fileChanges(plan, len(plan.Changes)),
		Digest:  digest,
	}, nil
}

// runChange makes the assessed change, and nothing else. Once started, it is not interrupted: it takes milliseconds, and half a patch is
// useless. It reports whether the change was attempted.
func (f *shellPlugin) runChange(c *tool.Call, ch change) (_ *tool.Result, applied bool) {
	begin, ctx := time.Now(), c.Hard()
	digest := c.AssessDigest()
	plan := f.plans.take(c.ThreadID(), digest)
	if plan == nil {
		readOnly := func(ctx context.Context, argv ...string) *process.Cmd {
			cmd := c.Command(ctx, argv...)
			cmd.ReadOnly = true
			return cmd
		}
		var err error
		if plan, err = ch.plan(ctx, readOnly); err != nil {
			return tool.Errorf("%s", err), false
		}
		if digest != "" && plan.Digest() != digest {
			return tool.Errorf("%sthe files have changed since they were checked. Read them again before you change them", ch.errorPrefix), false
		}
	}
	if c.Soft().Err() != nil {
		r := tool.Errorf("aborted by user after %.1fs", max(0.1, time.Since(begin).Seconds()))
		r.Aborted = true
		return r, false
	}
	if err := c.Started(fileChanges(plan, len(plan.Changes))); err != nil {
		return tool.Errorf("%s failed: %v", ch.tool, err), false
	}
	o, err := f.apply(ctx, c, plan)
	if err != nil {
		r := tool.Errorf("%s failed: %v. Whether some of the changes were made is not known: look before you try again", ch.tool, err)
		if e, ok := errors.AsType[*process.StartError](err); ok { // the helper did not run
			r = tool.Errorf("%s failed: %v", ch.tool, err)
			r.SandboxDenied = e.Denied
		}
		return r, false
	}
	if o.Stale {
		return tool.Errorf("%s%s", ch.errorPrefix, o.Failure), false
	}
	f.changed(plan)
	if o.Failure != "" && o.Denied {
		f.plans.put(c.ThreadID(), digest, plan) // for a retry with a wider grant
	}
	r := tool.Text(ch.summary(plan, o, time.Since(begin)))
	r.IsError = o.Failure != ""
	r.SandboxDenied = o.Denied && sandboxed(c.Grant())
	r.Item = fileChanges(plan, o.Done)
	return r, true
}

// apply applies one plan at a time, so that no other plan changes the files between a helper's check and its write. Commands run
// concurrently, and each may be a patch.
func (f *shellPlugin) apply(ctx context.Context, c *tool.Call, plan *patch.Plan) (patch.Outcome, error) {
	select {
	case f.writing <- struct{}{}:
		defer func() { <-f.writing }()
	case <-ctx.Done():
		return patch.Outcome{}, context.Cause(ctx)
	}
	return f.helper.Apply(ctx, c.Command, plan)
}

// maxDiffBytes is the maximum size of the diffs of an item, which is sent three times. Longer ones are omitted; the host stores the
// content before and after the change.
const maxDiffBytes = 1 << 20

// fileChanges returns the item for the first done changes of a plan. It contains the digests of the new content, by which the host can
// determine after a crash whether a change was made.
func fileChanges(plan *patch.Plan, done int) *contract.FileChangeItem {
	item := &contract.FileChangeItem{}
	room := maxDiffBytes
	for i := range plan.Changes[:done] {
		ch := &plan.Changes[i]
		fc := contract.FileChange{Path: ch.Target(), Kind: ch.Kind}
		if diff := ch.Diff(); len(diff) <= room {
			fc.Diff = diff
			room -= len(diff)
		}
		if ch.MoveTo != "" {
			fc.MovedFrom = ch.Path
		}
		if ch.Kind != patch.KindDelete {
			fc.AfterSHA256 = ch.AfterSHA256()
		}
		item.Changes = append(item.Changes, fc)
	}
	return item
}

// maxPlans is the number of assessed plans that are kept for their calls. Most calls follow immediately; a plan that was dropped is
// made again and compared by its digest.
const maxPlans = 8

// plans contains plans that were assessed. The zero value is ready to use.
type plans struct {
	mu struct {
		sync.Mutex
		waiting []assessed // oldest first
	}
}

type assessed struct {
	thread, digest string
	plan           *patch.Plan
}

func (p *plans) put(thread, digest string, plan *patch.Plan) {
	if digest == "" {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.mu.waiting) >= maxPlans {
		p.mu.waiting = slices.Delete(p.mu.waiting, 0, 1)
	}
	p.mu.waiting = append(p.mu.waiting, assessed{thread, digest, plan})
}

// take removes and returns a plan; nil if there is none.
func (p *plans) take(thread, digest string) *patch.Plan {
	p.mu.Lock()
	defer p.mu.Unlock()
	i := slices.IndexFunc(p.mu.waiting, func(a assessed) bool { return a.thread == thread && a.digest == digest })
	if i < 0 {
		return nil
	}
	plan := p.mu.waiting[i].plan
	p.mu.waiting = slices.Delete(p.mu.waiting, i, i+1)
	return plan
}

func (p *plans) forget(thread string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.waiting = slices.DeleteFunc(p.mu.waiting, func(a assessed) bool { return a.thread == thread })
}
