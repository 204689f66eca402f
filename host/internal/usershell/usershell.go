// Package usershell runs the commands that a user types, with the user's own authority, and adds their results to the
// conversation.
//
// It owns: which shell runs them, their limits, and the form in which the model reads them. It must not know: the front end in
// which the user typed, and how a turn runs.
//
// Start with [Shell.Task]. A command goes through the same pipeline as a call of a tool: item, journal, output, end of its
// processes. But it needs no approval, since the user typed it, and it runs without a sandbox.
package usershell

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/history"
	"github.com/gantry-agent/gantry/host/internal/hook"
	"github.com/gantry-agent/gantry/host/internal/launch"
	"github.com/gantry-agent/gantry/host/internal/orchestrate"
	"github.com/gantry-agent/gantry/host/internal/policy"
	"github.com/gantry-agent/gantry/host/internal/redact"
	"github.com/gantry-agent/gantry/host/internal/registry"
	"github.com/gantry-agent/gantry/host/internal/thread"
	"github.com/gantry-agent/gantry/host/internal/turn"
	"github.com/gantry-agent/gantry/sdk/contract"
	"github.com/gantry-agent/gantry/sdk/llm"
	"github.com/google/uuid"
	"github.com/hashicorp/go-hclog"
)

// owner is used instead of the label of a plugin. No plugin can have this label.
const owner = event.PluginUser

// name is the name of commands in the journal.
const name = "user_shell"

// DefaultTimeout is the time limit of a command without one. Compatible with codex.
const DefaultTimeout = time.Hour

// Process is a running command; [launch.Process] implements it.
type Process interface {
	Attach(ctx context.Context, stdin <-chan launch.Input, emit func(launch.Output) error) (launch.Exit, error)
}

// Config configures a shell. All fields are required except Redact.
type Config struct {
	Spawn     func(context.Context, launch.Spec) (Process, error)
	Processes orchestrate.Processes // ends the processes that a command leaves
	Tokens    *orchestrate.Tokens
	Environ   func() []string                     // the environment of commands
	Output    func(event.ThreadID) history.Policy // how outputs are truncated for the thread's model
	Redact    *redact.Redactor                    // removes secrets from the output of commands; nil: nothing is removed
	Logger    hclog.Logger
}

// Shell runs commands. Its methods may be called concurrently.
type Shell struct {
	cfg   Config
	tools *registry.Snapshot
}

// New returns a shell.
func New(cfg Config) (*Shell, error) {
	reg := registry.New()
	problems := reg.Set(owner, contract.ToolSet{Revision: "1", Tools: []contract.Descriptor{{
		Name: name, Description: "a command of the user's", InputSchema: json.RawMessage(`{"type":"object"}`), Assess: true,
		ParallelSafe: true, AbortReadsAsCommand: true,
	}}})
	if len(problems) > 0 {
		return nil, errors.Join(problems...)
	}
	return &Shell{cfg: cfg, tools: reg.Snapshot()}, nil
}

// Task returns a command as a task of a thread, which runs concurrently with the running turn or in a turn of its own. call
// identifies its item. If timeout is 0, it is [DefaultTimeout].
func (s *Shell) Task(command string, timeout time.Duration) (t *thread.Task, call event.CallID, err error) {
	switch {
	case strings.TrimSpace(command) == "":
		return nil, "", errors.New("the command is empty")
	case strings.ContainsRune(command, 0):
		return nil, "", errors.New("the command contains a NUL byte")
	case timeout < 0:
		return nil, "", fmt.Errorf("the command's timeout is %v; it must be positive", timeout)
	case timeout == 0:
		timeout = DefaultTimeout
	}
	call = event.CallID(name + "_" + uuid.Must(uuid.NewV7()).String())
	c := line{shell: s, text: command, timeout: timeout, call: call}
	return &thread.Task{Name: name, Concurrent: true, Work: c.work}, call, nil
}

// line is one command.
type line struct {
	shell   *Shell
	text    string
	timeout time.Duration
	call    event.CallID
}

func (l line) work(ctx context.Context, w thread.Worker) turn.Result {
	s := l.shell
	cwd := w.Thread.Settings().Cwd
	pipeline := orchestrate.New(orchestrate.Deps{
		Hooks: hook.None{}, Policy: allow, Approver: w.Thread.Approvals(), Granter: unconfined{}, Journal: w.Thread, Retry: orchestrate.NoRetry,
		Backends:  func(string) (orchestrate.ToolBackend, bool) { return l, true },
		Processes: s.cfg.Processes, Redact: s.cfg.Redact,
	}, s.cfg.Tokens, s.cfg.Logger)
	cut := s.cfg.Output(w.Thread.ID())
	answer := pipeline.Dispatch(ctx, &orchestrate.Gate{}, orchestrate.Call{
		Settings: orchestrate.Settings{
			Thread: w.Thread.ID(), Turn: w.Turn, Cwd: cwd, Sandbox: launch.FullAccess, Tools: s.tools,
			Output: cut,
		},
		Model: &llm.ToolCall{ID: string(l.call), Name: name, Input: "{}"}, ID: l.call,
	}).Wait()
	if err := w.Record(context.WithoutCancel(ctx), l.told(answer, cut)); err != nil {
		return turn.Result{Status: event.TurnFailed, Problem: turn.ProblemOf(err)}
	}
	if cause := context.Cause(ctx); cause != nil {
		return turn.Result{Status: event.TurnInterrupted, Cause: cause}
	}
	return turn.Result{Status: event.TurnCompleted}
}

// allow permits every command, because the user typed it.
func allow(policy.Request) policy.Decision { return policy.Decision{Verdict: policy.Run} }

// unconfined grants everything that the user may do.
type unconfined struct{}

// Grant implements [orchestrate.Granter].
func (unconfined) Grant(context.Context, orchestrate.GrantRequest) (launch.Grant, error) {
	return launch.Grant{Mode: launch.FullAccess, Network: true}, nil
}

// Writable implements [orchestrate.Granter].
func (unconfined) Writable(orchestrate.GrantRequest, string) bool { return true }

// Resolve implements [orchestrate.Granter].
func (unconfined) Resolve(_ string, p policy.Permissions) (policy.Permissions, error) { return p, nil }

// told returns what the model reads about a command. Compatible with codex.
func (l line) told(a orchestrate.Answer, p history.Policy) llm.Message {
	var output string
	code, took := int32(-1), time.Duration(0)
	switch item, out := final(a); {
	case a.Outcome == event.OutcomeAborted:
		output = "command aborted by user"
	case item == nil || item.ExitCode == nil:
		output = "execution error: " + llm.Message{Parts: a.Result.Content}.Text()
	default:
		code, took = *item.ExitCode, a.Duration
		// This is not a tool result, so the header needs no share of the limit.
		output = history.Fit(out.Text, p, p.Scale(2), history.Loss{Total: out.TotalBytes, Omitted: out.OmittedBytes, Announce: true})
	}
	text := fmt.Sprintf("<user_shell_command>\n<command>\n%s\n</command>\n<result>\nExit code: %d\nDuration: %.4f seconds\nOutput:\n%s\n</result>\n</user_shell_command>",
		l.text, code, took.Seconds(), output)
	return llm.Message{Role: llm.RoleUser, Parts: []llm.Part{&llm.Text{Text: text}}}
}

// final returns the result of a command; nil if it was not completed.
func final(a orchestrate.Answer) (*contract.CommandItem, *contract.TextPart) {
	if a.Raw == nil || len(a.Raw.Parts) == 0 {
		return nil, nil
	}
	item, _ := a.Raw.Item.(*contract.CommandItem)
	out, _ := a.Raw.Parts[0].(*contract.TextPart)
	return item, out
}
