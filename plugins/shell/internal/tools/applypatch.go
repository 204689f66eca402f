package tools

import (
	"context"
	"time"

	"github.com/gantry-agent/gantry/plugins/shell/internal/helper"
	"github.com/gantry-agent/gantry/plugins/shell/internal/patch"
	"github.com/gantry-agent/gantry/sdk/contract"
	"github.com/gantry-agent/gantry/sdk/tool"
)

const patchDescription = "Edits files: creates, changes, moves and deletes them by one patch, in which every change is checked before the first is " +
	"made. This is a freeform tool: send the patch as it is, never inside JSON.\n\n" +
	"A patch begins with `*** Begin Patch` and ends with `*** End Patch`. Between them stand, for each file, one of: `*** Add File: PATH` and its " +
	"lines, each after a `+`; `*** Delete File: PATH`; `*** Update File: PATH`, perhaps `*** Move to: PATH`, and its changes. A change begins with " +
	"`@@`, or with `@@ ` and a line of the file somewhere above, and goes on with the lines around and in it: unchanged ones after a space, removed " +
	"ones after `-`, new ones after `+`. Changes stand in the order of the file. `*** End of File` behind a change says that it is at the very end."

// patchGrammar is enforced by providers with grammars. The parser is more lenient.
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

func (f *shellPlugin) patchTool() tool.Tool {
	return tool.NewFreeform("apply_patch", patchDescription,
		contract.Freeform{Syntax: "lark", Definition: patchGrammar, Property: "input"},
		func(_ context.Context, c *tool.Call, text string) (*tool.Result, error) {
			r, _ := f.runChange(c, f.patch(c.Cwd(), text))
			return r, nil
		},
		tool.Assess(func(ctx context.Context, c *tool.AssessCall, text string) (*contract.Assessment, error) {
			return f.assessChange(ctx, c, f.patch(c.Cwd(), text))
		}),
		tool.EffectsByHost(), tool.ModelTraits(patchTrait), tool.Hook("apply_patch", "Write", "Edit"), tool.HookField("command", "input"))
}

// patch returns the change that a patch requests. Relative paths are resolved against cwd.
func (f *shellPlugin) patch(cwd, text string) change {
	return change{
		tool: "apply_patch",
		verify: func(ctx context.Context, command helper.Command) (*patch.Plan, error) {
			return f.verifyPatch(ctx, command, cwd, text)
		},
		errorPrefix: "apply_patch verification failed: ",
		summary:     func(p *patch.Plan, o patch.Outcome, took time.Duration) string { return p.Summary(o, took.Seconds()) },
	}
}

// verifyPatch returns the plan of a patch. The error's text is for the model.
func (f *shellPlugin) verifyPatch(ctx context.Context, command helper.Command, cwd, text string) (*patch.Plan, error) {
	text = patch.Unwrap(text)
	// Find syntax errors without starting a helper.
	if p, err := patch.Parse(text); err != nil {
		return nil, patch.Refusal(patch.Explain(err))
	} else if len(p.Hunks) == 0 {
		return nil, patch.Refusal(patch.ErrEmpty.Error())
	}
	return f.helper.Verify(ctx, command, cwd, text)
}
