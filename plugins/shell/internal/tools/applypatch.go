package tools

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/gantry-agent/gantry/plugins/shell/internal/helper"
	"github.com/gantry-agent/gantry/plugins/shell/internal/patch"
	"github.com/gantry-agent/gantry/sdk/contract"
	"github.com/gantry-agent/gantry/sdk/process"
	"github.com/gantry-agent/gantry/sdk/tool"
)

const patchDescription = "Edits files: creates, changes, moves and deletes them by one patch, in which every change is checked before the first is " +
	"made. This is a freeform tool: send the patch as it is, never inside JSON.\n\n" +
	"A patch begins with `*** Begin Patch` and ends with `*** End Patch`. Between them stand, for each file, one of: `*** Add File: PATH` and its " +
	"lines, each after a `+`; `*** Delete File: PATH`; `*** Update File: PATH`, perhaps `*** Move to: PATH`, and its changes. A change begins with " +
	"`@@`, or with `@@ ` and a line of the file somewhere above, and goes on with the lines around and in it: unchanged ones after a space, removed " +
	"ones after `-`, new ones after `+`. Changes stand in the order of the file. `*** End of File` behind a change says that it is at the very end."

// patchGrammar is what providers with grammars hold the model to. Reading is more lenient.
const patchGrammar = `start: begin_patch hunk+ end_patch
begin_patch: "*** Begin Patch" LF
end_patch: "*** End Patch" LF?

hunk: add_hunk | delete_hunk | update_hunk
add_hunk: "*** Add File: " filename LF add_line+
delete_hunk: "*** Delete File: " filename LF
update_hunk: "*** Update File: " filename LF change_move? change?

filename: /(.+)/
add_line: "+" /(.*)/ LF -> line

change_move: "*** Move to: " filename LF
change: (change_context | change_line)+ eof_line?
change_context: ("@@" | "@@ " /(.+)/) LF
change_line: ("+" | "-" | " ") /(.*)/ LF
eof_line: "*** End of File" LF

%import common.LF
`

func (f *family) patchTool() tool.Tool {
	return tool.NewFreeform("apply_patch", patchDescription,
		contract.Freeform{Syntax: "lark", Definition: patchGrammar, Property: "input"},
		func(_ context.Context, c *tool.Call, text string) (*tool.Result, error) {
			r, _ := f.runPatch(c, c.Cwd(), text)
			return r, nil
		},
		tool.Assess(func(ctx context.Context, c *tool.AssessCall, text string) (*contract.Assessment, error) {
			return f.assessPatch(ctx, c, c.Cwd(), text)
		}),
		tool.EffectsByHost(), tool.Hook("apply_patch", "Write", "Edit"), tool.HookField("command", "input"))
}

// assessPatch answers early when the patch does not apply: then nobody needs to be asked.
func (f *family) assessPatch(ctx context.Context, c *tool.AssessCall, cwd, text string) (*contract.Assessment, error) {
	plan, err := f.verify(ctx, c.Command, cwd, text)
	if err != nil {
		return early(err.Error()), nil
	}
	digest := plan.Digest()
	f.plans.put(c.ThreadID(), digest, plan)
	var names []string
	for i := range plan.Changes {
		names = append(names, plan.Changes[i].Spelled)
	}
	return &contract.Assessment{
		Effects: []contract.Effect{contract.WriteEffect{Paths: plan.Paths()}},
		Summary: oneLine("apply_patch " + strings.Join(names, ", ")),
		Item:    fileChanges(plan, len(plan.Changes)),
		Digest:  digest,
	}, nil
}

// verify finds out what the patch would do. The error's text is for the model.
func (f *family) verify(ctx context.Context, command helper.Command, cwd, text string) (*patch.Plan, error) {
	text = patch.Unwrap(text)
	// What is no patch needs no helper to find that out.
	if p, err := patch.Parse(text); err != nil {
		return nil, errors.New(patch.Explain(err))
	} else if len(p.Hunks) == 0 {
		return nil, patch.ErrEmpty
	}
	plan, err := f.helper.Verify(ctx, command, cwd, text)
	if _, ok := errors.AsType[helper.Refusal](err); ok {
		return nil, err
	}
	if err != nil {
		return nil, fmt.Errorf("apply_patch failed: %w", err)
	}
	return plan, nil
}

// runPatch does what was assessed, and nothing else. Once it has begun it is not interrupted: half a patch helps nobody,
// and it takes milliseconds. It reports whether the patch was tried at all.
func (f *family) runPatch(c *tool.Call, cwd, text string) (_ *tool.Result, applied bool) {
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
		if plan, err = f.verify(ctx, readOnly, cwd, text); err != nil {
			return tool.Errorf("%s", err), false
		}
		if digest != "" && plan.Digest() != digest {
			return stale("the files have changed since the patch was checked. Read them again and send a new patch"), false
		}
	}
	if c.Soft().Err() != nil {
		r := tool.Errorf("aborted by user after %.1fs", max(0.1, time.Since(begin).Seconds()))
		r.Aborted = true
		return r, false
	}
	if err := c.Started(fileChanges(plan, len(plan.Changes))); err != nil {
		return tool.Errorf("apply_patch failed: %v", err), false
	}
	o, err := f.helper.Apply(ctx, c.Command, plan)
	if err != nil {
		r := tool.Errorf("apply_patch failed: %v. Whether some of the changes were made is not known: look before you try again", err)
		if e, ok := errors.AsType[*process.StartError](err); ok { // nothing ran
			r = tool.Errorf("apply_patch failed: %v", err)
			r.SandboxDenied = e.Denied
		}
		return r, false
	}
	if o.Stale {
		return stale(o.Failure), false
	}
	f.changed(plan)
	if o.Failure != "" && o.Denied {
		f.plans.put(c.ThreadID(), digest, plan) // for another try under a wider grant
	}
	r := tool.Text(plan.Summary(o, time.Since(begin).Seconds()))
	r.IsError = o.Failure != ""
	r.SandboxDenied = o.Denied && sandboxed(c.Grant())
	r.Item = fileChanges(plan, o.Done)
	return r, true
}

func stale(text string) *tool.Result {
	return tool.Errorf("apply_patch verification failed: %s", text)
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
		fc := contract.FileChange{Path: ch.Target(), Kind: changeKind(ch.Kind)}
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

func changeKind(k patch.Kind) contract.ChangeKind {
	switch k {
	case patch.KindAdd:
		return contract.ChangeAdd
	case patch.KindUpdate:
		return contract.ChangeUpdate
	case patch.KindDelete:
		return contract.ChangeDelete
	}
	return contract.ChangeUnknown
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
		p.mu.waiting = p.mu.waiting[1:]
	}
	p.mu.waiting = append(p.mu.waiting, assessed{thread, digest, plan})
}

// take returns a plan once; nil when it is not there.
func (p *plans) take(thread, digest string) *patch.Plan {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, a := range p.mu.waiting {
		if a.thread == thread && a.digest == digest {
			p.mu.waiting = append(p.mu.waiting[:i:i], p.mu.waiting[i+1:]...)
			return a.plan
		}
	}
	return nil
}

func (p *plans) forget(thread string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var rest []assessed
	for _, a := range p.mu.waiting {
		if a.thread != thread {
			rest = append(rest, a)
		}
	}
	p.mu.waiting = rest
}
