package tools

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gantry-agent/gantry/plugins/shell/internal/intercept"
	"github.com/gantry-agent/gantry/plugins/shell/internal/output"
	"github.com/gantry-agent/gantry/plugins/shell/internal/patch"
	"github.com/gantry-agent/gantry/plugins/shell/internal/session"
	"github.com/gantry-agent/gantry/sdk/contract"
	"github.com/gantry-agent/gantry/sdk/process"
	"github.com/gantry-agent/gantry/sdk/process/record"
	"github.com/gantry-agent/gantry/sdk/tool"
)

const execDescription = "Runs a command in the user's shell and returns its output. A command that is still running when the wait is over " +
	"keeps running: the result then has a session ID instead of an exit code, to be used with write_stdin. Without `tty` the command reads " +
	"no input. Do not use it to change files by hand where apply_patch can do it."

func (f *shellPlugin) execTool() tool.Tool {
	return tool.New("exec_command", execDescription, f.exec,
		tool.Schema(execSchema(f.config)),
		tool.Assess(f.assessExec),
		tool.ParallelSafe(), tool.Lenient(), tool.AbortReadsAsCommand(), tool.EffectsByHost(),
		tool.Hook("Bash"), tool.HookField("command", "cmd"))
}

func (f *shellPlugin) assessExec(ctx context.Context, c *tool.AssessCall, in execArgs) (*contract.Assessment, error) {
	cmd, err := f.command(in, c.Cwd())
	if err != nil {
		return earlyError(err.Error()), nil
	}
	call, found, err := intercept.Argv(cmd.argv)
	if err != nil {
		return earlyError(patch.Explain(err)), nil
	}
	if found {
		return f.assessChange(ctx, c, f.patch(absolute(cmd.cwd, call.Dir), call.Patch))
	}
	a := &contract.Assessment{
		Effects: []contract.Effect{contract.ExecEffect{Argv: cmd.argv, Cwd: cmd.cwd, ShellText: cmd.text, TTY: cmd.tty}},
		Summary: oneLine(cmd.text),
		Item:    &contract.CommandItem{Command: cmd.text, Cwd: cmd.cwd},
		Digest:  cmd.digest(),
	}
	if cmd.escalated {
		a.Escalation = &contract.Escalation{Unsandboxed: true, Justification: cmd.justification, PrefixRule: cmd.prefixRule}
		a.Discriminators = []string{"sandbox_permissions=" + permissionsEscalated}
	}
	if len(cmd.additional) > 0 {
		a.Escalation = &contract.Escalation{Justification: cmd.justification, Additional: cmd.additional}
	}
	return a, nil
}

// earlyError answers a call with an error without running it.
func earlyError(text string) *contract.Assessment {
	return &contract.Assessment{Early: contract.ErrorText(text)}
}

// digest identifies everything that determines what the command does.
func (c *command) digest() string {
	b, err := json.Marshal([]any{c.argv, c.cwd, c.tty, c.escalated, c.additional})
	if err != nil { // impossible for strings, bools and numbers
		panic("tools: marshal command: " + err.Error())
	}
	sum := sha256.Sum256(b)
	return "e1:" + hex.EncodeToString(sum[:])
}

// oneLine returns the first line of a text, shortened if necessary.
func oneLine(s string) string {
	const most = 120
	first, _, cut := strings.Cut(strings.TrimSpace(s), "\n")
	if r := []rune(first); len(r) > most {
		first, cut = string(r[:most]), true
	}
	if cut {
		first += " …"
	}
	return first
}

func (f *shellPlugin) exec(ctx context.Context, c *tool.Call, in execArgs) (*tool.Result, error) {
	begin := time.Now()
	cmd, err := f.command(in, c.Cwd())
	if err != nil {
		return tool.Errorf("%s", err), nil
	}
	call, found, err := intercept.Argv(cmd.argv)
	if err != nil {
		return tool.Errorf("%s", patch.Explain(err)), nil
	}
	if found {
		r, applied := f.runChange(c, f.patch(absolute(cmd.cwd, call.Dir), call.Patch))
		if applied {
			head := &contract.TextPart{Text: "Wall time: 0.0000 seconds\nOutput:\n", Fit: contract.FitVerbatim}
			r.Parts = append([]contract.Part{head}, r.Parts...)
		}
		return r, nil
	}
	if d := c.AssessDigest(); d != "" && d != cmd.digest() {
		return tool.Errorf("exec_command failed: the command is not the one that was assessed; call it again"), nil
	}
	item := &contract.CommandItem{Command: cmd.text, Cwd: cmd.cwd}
	if err := c.Started(item); err != nil {
		return nil, err
	}
	s, err := f.start(ctx, c, cmd)
	if err != nil {
		return startFailed(ctx, err, cmd, begin), nil
	}
	timer := c.Clock().NewTimer(session.StartYield(in.YieldTimeMS))
	defer timer.Stop()
	out, ended, err := collect(ctx, c, s, timer.C)
	if err != nil && f.ends(ctx, c, s) {
		return abortedText(begin), nil
	}
	if !ended {
		f.open(c, s)
	}
	if err != nil {
		return aborted(begin, item, s), nil
	}
	return f.result(c, s, out, report{begin: begin, ended: ended, maxTokens: in.MaxOutputTokens, item: item}), nil
}

// ends ends the command of a call that a person has interrupted or replaced: the model does not have it as a session yet. It does nothing
// if the call ends for another reason, such as the end of this process, which sessions survive.
func (f *shellPlugin) ends(ctx context.Context, c *tool.Call, s *session.Session) bool {
	if reason := cancelReason(ctx); reason != "interrupted" && reason != "replaced" || s.Stop(c.Hard()) != nil {
		return false
	}
	s.Mute()
	f.store.Finish(c.ThreadID(), s)
	return true
}

// collect waits for output. An error means that the call was interrupted. The host's deadline only ends the wait, because it applies
// to the call and not to the command.
func collect(ctx context.Context, c *tool.Call, s *session.Session, until <-chan time.Time) (output.Output, bool, error) {
	out, ended, err := s.Collect(ctx, c.ID(), until)
	if err == nil || cancelReason(ctx) != "deadline" {
		return out, ended, err
	}
	now := make(chan time.Time)
	close(now)
	return s.Collect(c.Hard(), c.ID(), now)
}

// start starts the command. It is a session from the beginning, and becomes one for the model when the call returns before its end.
func (f *shellPlugin) start(ctx context.Context, c *tool.Call, cmd *command) (*session.Session, error) {
	id, err := f.store.Reserve(c.ThreadID())
	if err != nil {
		return nil, err
	}
	argv, env := f.login(ctx, c, cmd)
	program, err := f.spawn(ctx, c, cmd, id, argv, env)
	if e, ok := errors.AsType[*process.StartError](err); ok && e.Errno == 0 && !e.Denied && !slices.Equal(argv, cmd.argv) {
		// The policy lets this command run outside the sandbox, but only with the command line that it has decided on.
		program, err = f.spawn(ctx, c, cmd, id, cmd.argv, environment(c))
	}
	if err != nil {
		f.store.Cancel(c.ThreadID(), id)
		return nil, err
	}
	return f.store.Add(ctx, c.ThreadID(), id, program)
}

// spawn starts the process of the session id.
func (f *shellPlugin) spawn(ctx context.Context, c *tool.Call, cmd *command, id int, argv, env []string) (program session.Program, err error) {
	p := c.Command(ctx, argv...)
	p.Dir, p.Session = cmd.cwd, true
	p.Env = env
	p.WaitDelay = unlimited
	info := session.Info{
		Command: cmd.text, Cwd: cmd.cwd, TTY: cmd.tty, Escalated: cmd.escalated,
		Sandboxed: sandboxed(c.Grant()),
	}
	program = session.Program{Info: info, Process: p, Live: func(b []byte) { _ = c.Output(b) }}
	if program.Out, err = p.StdoutPipe(); err != nil {
		return program, err
	}
	p.Keep = keep(id, info)
	if p.MergeStderr = !cmd.tty; cmd.tty {
		p.Terminal = &process.Size{Rows: 24, Cols: 80}
		if program.In, err = p.StdinPipe(); err != nil {
			return program, err
		}
	}
	if err := p.Start(); err != nil {
		return program, err
	}
	if m := p.Memory(); m != nil {
		if program.Record, err = record.New(m, session.RecordBytes); err != nil {
			return program, errors.Join(err, p.Kill())
		}
	}
	return program, nil
}

func sandboxed(g contract.GrantFacts) bool {
	return g.SandboxMode != "" && g.SandboxMode != "full-access"
}

// open reports the session to the host.
func (f *shellPlugin) open(c *tool.Call, s *session.Session) {
	s.Open(c.Thread().OpenSession(strconv.Itoa(s.ID), c.ID(), oneLine(s.Command)))
}

func startFailed(ctx context.Context, err error, cmd *command, begin time.Time) *tool.Result {
	if ctx.Err() != nil {
		return abortedText(begin)
	}
	e, ok := errors.AsType[*process.StartError](err)
	if !ok {
		return tool.Errorf("exec_command failed: %v", err)
	}
	text := e.Message
	if e.Errno != 0 {
		text = patch.OSText(e.Errno)
	}
	r := tool.Errorf("exec_command failed: could not start the command in %s: %s", cmd.cwd, text)
	r.SandboxDenied = e.Denied
	return r
}

func cancelReason(ctx context.Context) string {
	if c, ok := errors.AsType[*tool.Cancelled](context.Cause(ctx)); ok {
		return c.Reason
	}
	return ""
}

// abortedText returns the result of an interrupted call. Its text matches codex.
func abortedText(begin time.Time) *tool.Result {
	r := tool.Errorf("Wall time: %.1f seconds\naborted by user", time.Since(begin).Seconds())
	r.Aborted = true
	return r
}

// aborted returns the result of a call that was interrupted while its command keeps running.
func aborted(begin time.Time, item *contract.CommandItem, s *session.Session) *tool.Result {
	r := abortedText(begin)
	r.SessionID = strconv.Itoa(s.ID)
	r.Item = &contract.CommandItem{Command: item.Command, Cwd: item.Cwd, SessionID: r.SessionID}
	return r
}

// report describes the result of a session, except its output.
type report struct {
	begin     time.Time
	ended     bool
	maxTokens *uint64
	item      *contract.CommandItem
}

// result returns the result for collected output. A session that has ended is removed from the store.
func (f *shellPlugin) result(c *tool.Call, s *session.Session, out output.Output, r report) *tool.Result {
	h := header{wall: time.Since(r.begin), tokens: out.Tokens()}
	item := *r.item
	res := &tool.Result{Item: &item}
	if r.ended {
		code, known := s.Code()
		if !known {
			code = -1
		}
		h.exited, h.code = true, code
		item.ExitCode = new(int32(code))
		res.SandboxDenied = s.Denied()
		s.Mute()
		f.acknowledge(c.Thread(), s.ID)
		f.store.Finish(c.ThreadID(), s)
	} else {
		h.session = s.ID
		item.SessionID = strconv.Itoa(s.ID)
		res.SessionID = item.SessionID
	}
	res.Parts, res.Structured = h.render(c, out, r.maxTokens)
	return res
}
