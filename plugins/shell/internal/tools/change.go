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

// change is what a call wants of files, before it is known what that means for the disk.
type change struct {
	tool string
	// verify finds out, and writes nothing. A [patch.Refusal] is what the model reads.
	verify      func(context.Context, helper.Command) (*patch.Plan, error)
	errorPrefix string // what stands before the news that files have changed meanwhile
	summary     func(*patch.Plan, patch.Outcome, time.Duration) string
}

// plan is verify with an error whose text is for the model.
func (ch *change) plan(ctx context.Context, command helper.Command) (*patch.Plan, error) {
	plan, err := ch.verify(ctx, command)
	if err != nil {
		return nil, failed(ch.tool, err)
	}
	return plan, nil
}

// assessChange answers early when the change can't be made: then nobody needs to be asked.
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

// runChange does what was assessed, and nothing else. Once it has begun it is not interrupted: half a patch helps nobody,
// and it takes milliseconds. It reports whether the change was tried at all.
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
		if e, ok := errors.AsType[*process.StartError](err); ok { // nothing ran
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
		f.plans.put(c.ThreadID(), digest, plan) // for another try under a wider grant
	}
	r := tool.Text(ch.summary(plan, o, time.Since(begin)))
	r.IsError = o.Failure != ""
	r.SandboxDenied = o.Denied && sandboxed(c.Grant())
	r.Item = fileChanges(plan, o.Done)
	return r, true
}

// apply makes the changes of one plan at a time: between a helper's look at the files and its writing nobody else of ours
// writes them. Commands run beside each other, and each may be a patch.
func (f *shellPlugin) apply(ctx context.Context, c *tool.Call, plan *patch.Plan) (patch.Outcome, error) {
	select {
	case f.writing <- struct{}{}:
		defer func() { <-f.writing }()
	case <-ctx.Done():
		return patch.Outcome{}, context.Cause(ctx)
	}
	return f.helper.Apply(ctx, c.Command, plan)
}

// maxDiffBytes bounds the diffs of one item. It travels three times and is read by people; longer ones are left out, and
// the host stores the content before and after.
const maxDiffBytes = 1 << 20

// fileChanges is how the first done changes of a plan look to a user. It says what becomes of each file before that has happened:
// when the host dies meanwhile, that tells whether it has.
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

// maxPlans is how many assessed patches wait for their call. Most calls follow at once; a plan that has gone is made
// again, and compared.
const maxPlans = 8

// plans are patches that were assessed. The zero plans is ready.
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

// take returns a plan once; nil when it is not there.
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
