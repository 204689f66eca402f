package tools

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/gantry-agent/gantry/plugins/shell/internal/session"
	"github.com/gantry-agent/gantry/sdk/contract"
	"github.com/gantry-agent/gantry/sdk/tool"
)

const inputDescription = "Types into a command that exec_command left running, and returns the output that came since the last call. With empty " +
	"`chars` it only waits for output. Typing needs a session that was started with `tty`; in any other, \\u0003 alone interrupts it."

// reactionTime is the time that a program gets to react to its input before the wait for output begins.
const reactionTime = 100 * time.Millisecond

// inputArgs are the arguments of write_stdin.
type inputArgs struct {
	SessionID       int32   `json:"session_id"`
	Chars           string  `json:"chars,omitempty"`
	YieldTimeMS     *uint64 `json:"yield_time_ms,omitempty"`
	MaxOutputTokens *uint64 `json:"max_output_tokens,omitempty"`
}

func inputSchema() json.RawMessage {
	return schema([]string{"session_id"},
		property{name: "session_id", kind: "number", doc: "The session ID that exec_command returned."},
		property{name: "chars", kind: "string", doc: "What to type, control characters included. Default empty: only wait."},
		property{name: "yield_time_ms", kind: "number", doc: "How many milliseconds to wait for output. After typing 250 to 30000, default 250; " +
			"when only waiting at least 5000."},
		property{name: "max_output_tokens", kind: "number", doc: "The most tokens of output to return, default 10000."})
}

func (f *shellPlugin) inputTool() tool.Tool {
	return tool.New("write_stdin", inputDescription, f.input,
		tool.Schema(inputSchema()),
		tool.Assess(f.assessInput),
		tool.ParallelSafe(), tool.Lenient(), tool.AbortReadsAsCommand())
}

func (f *shellPlugin) assessInput(_ context.Context, c *tool.AssessCall, in inputArgs) (*contract.Assessment, error) {
	s, err := f.session(c.ThreadID(), in)
	if err != nil {
		return earlyError(err.Error()), nil
	}
	a := &contract.Assessment{ReadOnly: in.Chars == "", Summary: oneLine(in.String()), Item: in.item(s)}
	if in.Chars != "" {
		a.Effects = []contract.Effect{contract.SessionInputEffect{SessionID: strconv.Itoa(s.ID), Text: in.Chars}}
	}
	if s.Escalated {
		a.Discriminators = []string{"sandbox_permissions=" + permissionsEscalated}
	}
	return a, nil
}

// String formats the call for the user.
func (in inputArgs) String() string {
	text := "write_stdin --session-id " + strconv.Itoa(int(in.SessionID))
	if in.Chars == "" {
		return text
	}
	quoted := strconv.Quote(in.Chars)
	return text + " '" + strings.ReplaceAll(quoted[1:len(quoted)-1], `\"`, `"`) + "'"
}

func (in inputArgs) item(s *session.Session) *contract.CommandItem {
	return &contract.CommandItem{Command: in.String(), Cwd: s.Cwd, SessionID: strconv.Itoa(s.ID)}
}

// session returns the session after checking that it accepts the input. The error's text is for the model.
func (f *shellPlugin) session(threadID string, in inputArgs) (*session.Session, error) {
	s, err := f.store.Get(threadID, int(in.SessionID))
	if err == nil && !s.TTY && in.Chars != "" && in.Chars != "\x03" {
		err = session.ErrClosedStdin
	}
	if err != nil {
		return nil, fmt.Errorf("write_stdin failed: %w", err)
	}
	return s, nil
}

func (f *shellPlugin) input(ctx context.Context, c *tool.Call, in inputArgs) (*tool.Result, error) {
	begin := time.Now()
	s, err := f.session(c.ThreadID(), in)
	if err != nil {
		return tool.Errorf("%s", err), nil
	}
	f.acknowledge(c.Thread(), s.ID)
	item := in.item(s)
	if err := c.Started(item); err != nil {
		return nil, err
	}
	release, err := s.Acquire(ctx)
	if err != nil {
		return aborted(begin, item, s), nil
	}
	defer release()
	// The session may have been finished by another call in the meantime.
	if _, err := f.session(c.ThreadID(), in); err != nil {
		return tool.Errorf("%s", err), nil
	}
	wait := session.PollYield(in.YieldTimeMS, f.config.MaxPoll)
	if in.Chars != "" {
		wait = session.InputYield(in.YieldTimeMS) + reactionTime
		if err := s.Input(ctx, in.Chars); err != nil && !s.Exited() {
			if ctx.Err() != nil {
				return aborted(begin, item, s), nil
			}
			return tool.Errorf("write_stdin failed: %v", inputFailed(err)), nil
		}
	}
	timer := c.Clock().NewTimer(wait)
	defer timer.Stop()
	out, ended, err := collect(ctx, c, s, timer.C)
	if err != nil {
		return aborted(begin, item, s), nil
	}
	item.SessionID = ""
	return f.result(c, s, out, report{begin: begin, ended: ended, maxTokens: in.MaxOutputTokens, item: item}), nil
}

func inputFailed(err error) error {
	if errors.Is(err, session.ErrClosedStdin) {
		return err
	}
	return fmt.Errorf("failed to write to stdin: %w", err)
}
