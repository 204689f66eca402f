package tools

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/gantry-agent/gantry/plugins/shell/internal/helper"
	"github.com/gantry-agent/gantry/plugins/shell/internal/patch"
	"github.com/gantry-agent/gantry/sdk/contract"
	"github.com/gantry-agent/gantry/sdk/tool"
)

const editDescription = "Changes one file: puts new_text where old_text stands. old_text must be there exactly, white space included, and in one " +
	"place only, unless replace_all is set; take as many lines around the change as that needs. With an empty old_text a new file is made."

// editArgs are the arguments of edit_file.
type editArgs struct {
	Path       string `json:"path"`
	OldText    string `json:"old_text"`
	NewText    string `json:"new_text"`
	ReplaceAll bool   `json:"replace_all,omitempty"`
}

func editSchema() json.RawMessage {
	return schema([]string{"path", "old_text", "new_text"},
		property{name: "path", kind: "string", doc: "Path of the file; relative ones start at the working directory."},
		property{name: "old_text", kind: "string", doc: "The text to replace, exactly as it is in the file. Empty: the file is new."},
		property{name: "new_text", kind: "string", doc: "What stands there afterwards."},
		property{name: "replace_all", kind: "boolean", doc: "Replace old_text wherever it stands. Default false."})
}

// editTool is offered instead of apply_patch to models that were not trained on patches.
func (f *shellPlugin) editTool() tool.Tool {
	return tool.New("edit_file", editDescription,
		func(_ context.Context, c *tool.Call, in editArgs) (*tool.Result, error) {
			r, _ := f.runChange(c, f.edit(c.Cwd(), in))
			return r, nil
		},
		tool.Schema(editSchema()),
		tool.Assess(func(ctx context.Context, c *tool.AssessCall, in editArgs) (*contract.Assessment, error) {
			return f.assessChange(ctx, c, f.edit(c.Cwd(), in))
		}),
		tool.Lenient(), tool.EffectsByHost(), tool.ModelTraits(editTrait), tool.Hook("Edit", "Write"),
		tool.HookField("file_path", "path"), tool.HookField("old_string", "old_text"), tool.HookField("new_string", "new_text"))
}

// edit returns the change that an edit requests. Relative paths are resolved against cwd.
func (f *shellPlugin) edit(cwd string, in editArgs) change {
	return change{
		tool: "edit_file",
		verify: func(ctx context.Context, command helper.Command) (*patch.Plan, error) {
			return f.helper.VerifyEdit(ctx, command, cwd, patch.Edit{Path: in.Path, Old: in.OldText, New: in.NewText, All: in.ReplaceAll})
		},
		errorPrefix: "edit_file failed: ",
		summary:     editSummary,
	}
}

func editSummary(p *patch.Plan, o patch.Outcome, _ time.Duration) string {
	switch c := &p.Changes[0]; {
	case o.Failure != "":
		return "edit_file failed: " + o.Failure
	case c.Kind == patch.KindAdd:
		return fmt.Sprintf("Created %s.", c.Spelled)
	default:
		return fmt.Sprintf("Updated %s.", c.Spelled)
	}
}
