package turn

import (
	"context"
	"fmt"
	"strings"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/hook"
	"github.com/gantry-agent/gantry/sdk/llm"
)

// maxStopBlocks limits how often in a row hooks may keep a turn from ending. A hook that always blocks would keep it running forever.
const maxStopBlocks = 8

// stops counts how often hooks have kept the turn from ending since the last input of the user.
type stops struct{ held int }

// continuedByHooks asks the participants whether the turn may end when nothing is left to do. The first one that blocks keeps it
// running, and the model reads the reason.
func (r *runner) continuedByHooks(ctx context.Context, last string) (bool, error) {
	for _, s := range each[hook.Stops](r.Participants) {
		if held, err := r.continuedBy(ctx, s, last); held || err != nil {
			return held, err
		}
	}
	return false, nil
}

// continuedBy asks one participant. A failed hook is reported to people and does not keep the turn running.
func (r *runner) continuedBy(ctx context.Context, s hook.Stops, last string) (bool, error) {
	v, err := s.Stop(ctx, hook.Ending{
		Thread: string(r.Settings.Thread), Turn: string(r.ID), LastMessage: last, Active: r.stops.held > 0, Held: r.stops.held, Most: maxStopBlocks,
	})
	switch {
	case ctx.Err() != nil:
		return false, context.Cause(ctx)
	case err != nil:
		r.notice(ctx, event.Notice{Level: "warning", Text: "a Stop hook failed: " + err.Error(), Next: "The turn ends; check the hook."})
		return false, nil
	case !v.Block:
		return false, nil
	case strings.TrimSpace(v.Reason) == "":
		r.notice(ctx, event.Notice{Level: "warning", Text: "a Stop hook blocked the end of the turn without a reason; the turn ends", Next: "Make the hook return a reason."})
		return false, nil
	case r.stops.held >= maxStopBlocks:
		r.notice(ctx, event.Notice{
			Level: "warning", Text: fmt.Sprintf("a Stop hook has kept the turn from ending %d times in a row; it ends now", r.stops.held),
			Next: "Make the hook limit how often it blocks, or say how to continue.",
		})
		return false, nil
	}
	r.stops.held++
	return true, r.record(ctx, hookPrompt(v))
}

// hookPrompt returns a hook's reason as a message to the model; codex-compatible.
func hookPrompt(v hook.StopVerdict) llm.Message {
	text := fmt.Sprintf("<hook_prompt hook_run_id=\"%s\">%s</hook_prompt>", attribute.Replace(v.Run), v.Reason)
	return llm.Message{Role: llm.RoleUser, Parts: []llm.Part{&llm.Text{Text: text}}}
}

var attribute = strings.NewReplacer("&", "&amp;", `"`, "&quot;", "<", "&lt;", ">", "&gt;")
