package tui

import (
	"cmp"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/gantry-agent/gantry/host/internal/client"
	"github.com/gantry-agent/gantry/host/internal/protocol"
	"github.com/gantry-agent/gantry/host/internal/rpc"
	"github.com/gantry-agent/gantry/host/internal/tui/keys"
	"github.com/gantry-agent/gantry/host/internal/tui/picker"
	"github.com/gantry-agent/gantry/host/internal/tui/term"
	"github.com/gantry-agent/gantry/host/internal/tui/transcript"
)

// slash is a command that is typed after a slash.
type slash struct {
	name, args string
	optional   bool // it works without args
	running    bool // it may be used while a turn runs
	anytime    bool // also without a thread
	help       string
	run        func(m *Model, args string) tea.Cmd
}

func (c slash) arguments() string {
	switch {
	case c.args == "":
		return ""
	case c.optional:
		return " [" + c.args + "]"
	}
	return " " + c.args
}

// commands is the list of all commands, from which help and suggestions are made.
func commands() []slash {
	return []slash{
		{name: "new", running: true, anytime: true, help: "start another thread", run: func(m *Model, _ string) tea.Cmd { return m.start() }},
		{name: "resume", running: true, anytime: true, help: "open an earlier thread", run: pickThread},
		{name: "threads", running: true, anytime: true, help: "show what all threads do: those that need you, that work, that are done; type a task to start another", run: showRoster},
		{name: "model", args: "NAME", optional: true, running: true, help: "choose the model", run: pickModel},
		{name: "effort", args: "LEVEL", optional: true, running: true, help: "choose the reasoning effort", run: pickEffort},
		{name: "permissions", running: true, help: "choose when the agent asks, and its sandbox", run: pickPreset},
		{name: "compact", help: "compact the conversation", run: func(m *Model, _ string) tea.Cmd {
			return m.do(protocol.MethodThreadCompactStart.Name, protocol.ThreadCompactStartParams{ThreadID: m.thread.ID})
		}},
		{name: "review", args: "WHAT", optional: true, help: "review the changes that are not committed, or what you say", run: startReview},
		{name: "rewind", help: "edit an earlier message, in a fork or here, with or without the files", run: pickSent},
		{name: "undo", help: "restore the files that the last turn changed, after showing the changes", run: func(m *Model, _ string) tea.Cmd { return undoTurn(m, false) }},
		{name: "redo", help: "take back the last undo", run: func(m *Model, _ string) tea.Cmd { return undoTurn(m, true) }},
		{name: "diff", running: true, help: "show what the last turn has changed", run: showDiff},
		{name: "fork", help: "go on in a copy of the thread", run: forkThread},
		{name: "name", args: "NAME", running: true, help: "name the thread", run: func(m *Model, args string) tea.Cmd {
			if args == "" {
				m.hint = "/name needs a name"
				return nil
			}
			return m.do(protocol.MethodThreadNameSet.Name, protocol.ThreadSetNameParams{ThreadID: m.thread.ID, Name: args})
		}},
		{name: "queue", running: true, help: "choose a queued message to take back", run: pickQueued},
		{name: "copy", running: true, help: "copy the last message of the agent", run: copyLast},
		{name: "status", running: true, help: "show the thread and its settings", run: showStatus},
		{name: "help", running: true, anytime: true, help: "show the keys and commands", run: func(m *Model, _ string) tea.Cmd { showHelp(m); return nil }},
		{name: "detach", running: true, anytime: true, help: "leave; a running turn goes on", run: func(*Model, string) tea.Cmd { return tea.Quit }},
		{name: "quit", anytime: true, help: "leave", run: func(*Model, string) tea.Cmd { return tea.Quit }},
	}
}

func command(name string) (slash, bool) {
	all := commands()
	i := slices.IndexFunc(all, func(c slash) bool { return c.name == name })
	if i < 0 {
		return slash{}, false
	}
	return all[i], true
}

// parseCommand splits a message that is a command. A path, such as /etc/hosts, is none.
func parseCommand(text string) (name, args string, ok bool) {
	rest, ok := strings.CutPrefix(text, "/")
	if !ok || strings.Contains(text, "\n") {
		return "", "", false
	}
	name, args, _ = strings.Cut(rest, " ")
	if name == "" || strings.Contains(name, "/") {
		return "", "", false
	}
	return name, strings.TrimSpace(args), true
}

// nextStep returns what an error of the server suggests.
func nextStep(e *rpc.Error) string {
	raw, err := json.Marshal(e.Data)
	if err != nil {
		return ""
	}
	var d protocol.ErrorData
	if json.Unmarshal(raw, &d) != nil || d.Next == nil {
		return ""
	}
	return *d.Next
}

func showHelp(m *Model) {
	p := &picker.Picker{Title: "Commands and keys"}
	for _, c := range commands() {
		p.Rows = append(p.Rows, picker.Row{Label: fmt.Sprintf("%-22s", "/"+c.name+c.arguments()), Detail: c.help, Value: "/" + c.name})
	}
	for _, b := range m.table {
		var names []string
		for _, k := range b.Keys {
			names = append(names, keys.Name(k))
		}
		p.Rows = append(p.Rows, picker.Row{Label: fmt.Sprintf("%-22s", strings.Join(names, ", ")), Detail: b.Help + " (" + string(b.Context) + ")", Value: ""})
	}
	m.pick(p, func(m *Model, r picker.Row) tea.Cmd {
		if text := r.Value.(string); text != "" && m.composer.Empty() {
			m.composer.Set(text)
		}
		return nil
	})
}

func pickThread(m *Model, _ string) tea.Cmd {
	return listThreads(m, func(m *Model, threads []protocol.Thread) tea.Cmd {
		p := &picker.Picker{Title: "Threads", Empty: "there are none"}
		for _, t := range threads {
			if m.thread != nil && t.ID == m.thread.ID || t.Preview == "" && t.Name == nil {
				continue
			}
			detail := filepath.Base(t.Cwd) + ", " + age(m.now().Sub(time.Unix(t.UpdatedAt, 0)))
			switch s := t.Status.Body.(type) {
			case protocol.ActiveStatus:
				if detail += ", working"; len(s.ActiveFlags) > 0 {
					detail += ", needs you"
				}
			}
			p.Rows = append(p.Rows, picker.Row{Label: titleOf(t), Detail: detail, Value: t.ID})
		}
		m.pick(p, func(m *Model, r picker.Row) tea.Cmd { return m.resume(r.Value.(string)) })
		return nil
	})
}

func age(d time.Duration) string {
	switch {
	case d < time.Minute:
		return "now"
	case d < time.Hour:
		return fmt.Sprintf("%d min ago", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h ago", int(d.Hours()))
	}
	return fmt.Sprintf("%d days ago", int(d.Hours()/24))
}

// withModels does something once the models are known.
func withModels(m *Model, then func(m *Model) tea.Cmd) tea.Cmd {
	if m.models != nil {
		return then(m)
	}
	return call(m, protocol.MethodModelList.Name, protocol.ModelListParams{}, func(m *Model, r protocol.ModelListResponse, err error) tea.Cmd {
		if err != nil {
			m.fail(err)
			return nil
		}
		m.models = r.Data
		return then(m)
	})
}

func change(m *Model, p protocol.ThreadSettingsUpdateParams) tea.Cmd {
	p.ThreadID = m.thread.ID
	return m.do(protocol.MethodThreadSettingsUpdate.Name, p)
}

func pickModel(m *Model, args string) tea.Cmd {
	if args != "" {
		return change(m, protocol.ThreadSettingsUpdateParams{Model: &args})
	}
	return withModels(m, func(m *Model) tea.Cmd {
		p := &picker.Picker{Title: "Model", Empty: "none is configured"}
		for _, o := range m.models {
			p.Rows = append(p.Rows, picker.Row{Label: o.Model, Detail: o.Description, Value: o.Model})
		}
		m.pick(p, func(m *Model, r picker.Row) tea.Cmd { return pickModel(m, r.Value.(string)) })
		return nil
	})
}

// efforts returns those of the thread's model, least first.
func efforts(m *Model) (all []string, current int) {
	for _, o := range m.models {
		if o.Model != m.thread.Model {
			continue
		}
		for _, e := range o.SupportedReasoningEfforts {
			all = append(all, e.ReasoningEffort)
		}
		return all, slices.Index(all, cmp.Or(m.thread.Effort, o.DefaultReasoningEffort))
	}
	return nil, -1
}

func setEffort(m *Model, level string) tea.Cmd {
	return change(m, protocol.ThreadSettingsUpdateParams{Effort: protocol.SetTo(level)})
}

func pickEffort(m *Model, args string) tea.Cmd {
	if args != "" {
		return setEffort(m, args)
	}
	return withModels(m, func(m *Model) tea.Cmd {
		all, _ := efforts(m)
		p := &picker.Picker{Title: "Reasoning effort", Empty: "this model has no choice of efforts"}
		for _, e := range all {
			p.Rows = append(p.Rows, picker.Row{Label: e, Value: e})
		}
		m.pick(p, func(m *Model, r picker.Row) tea.Cmd { return setEffort(m, r.Value.(string)) })
		return nil
	})
}

func stepEffort(m *Model, by int) tea.Cmd {
	if m.thread == nil {
		return nil
	}
	return withModels(m, func(m *Model) tea.Cmd {
		all, at := efforts(m)
		if to := at + by; to >= 0 && to < len(all) {
			m.hint = "reasoning effort: " + all[to]
			return setEffort(m, all[to])
		}
		m.hint = "there is no other reasoning effort in this direction"
		return nil
	})
}

// preset is a choice of approvals and sandbox.
type preset struct {
	name, help string
	approval   protocol.ApprovalPolicy
	sandbox    protocol.SandboxPolicyBody
	risky      bool // only by choice, not in passing
}

func presets() []preset {
	return []preset{
		{"workspace", "writes in the workspace, asks for more", protocol.ApprovalOnRequest, protocol.WorkspaceWritePolicy{WritableRoots: []string{}}, false},
		{"read-only", "reads, and asks for anything else", protocol.ApprovalOnRequest, protocol.ReadOnlyPolicy{}, false},
		{"ask", "asks about all commands that are not known to be harmless", protocol.ApprovalUntrusted, protocol.WorkspaceWritePolicy{WritableRoots: []string{}}, false},
		{"unattended", "writes in the workspace, never asks", protocol.ApprovalNever, protocol.WorkspaceWritePolicy{WritableRoots: []string{}}, false},
		{"full access", "no sandbox, never asks", protocol.ApprovalNever, protocol.FullAccessPolicy{}, true},
	}
}

func setPreset(m *Model, p preset) tea.Cmd {
	m.hint = p.name + ": " + p.help
	return change(m, protocol.ThreadSettingsUpdateParams{ApprovalPolicy: &protocol.AskForApproval{Kind: p.approval}, SandboxPolicy: &protocol.SandboxPolicy{Body: p.sandbox}})
}

func pickPreset(m *Model, _ string) tea.Cmd {
	p := &picker.Picker{Title: "Permissions"}
	for _, o := range presets() {
		p.Rows = append(p.Rows, picker.Row{Label: o.name, Detail: o.help, Value: o})
	}
	m.pick(p, func(m *Model, r picker.Row) tea.Cmd { return setPreset(m, r.Value.(preset)) })
	return nil
}

func nextPreset(m *Model) tea.Cmd {
	if m.thread == nil {
		return nil
	}
	all := slices.DeleteFunc(presets(), func(p preset) bool { return p.risky })
	at := slices.IndexFunc(all, func(p preset) bool {
		return p.approval == m.thread.Approval.Kind && fmt.Sprintf("%T", p.sandbox) == fmt.Sprintf("%T", m.thread.Sandbox.Body)
	})
	return setPreset(m, all[(at+1)%len(all)])
}

func startReview(m *Model, what string) tea.Cmd {
	target := protocol.ReviewTarget{Body: protocol.ReviewUncommitted{}}
	if what != "" {
		target.Body = protocol.ReviewCustom{Instructions: what}
	}
	return m.do(protocol.MethodReviewStart.Name, protocol.ReviewStartParams{ThreadID: m.thread.ID, Target: target})
}

// undoTurn shows what would be restored, and restores it when that is confirmed.
func undoTurn(m *Model, redo bool) tea.Cmd {
	params := protocol.GantryTurnUndoParams{ThreadID: m.thread.ID, Redo: redo, DryRun: true}
	return call(m, protocol.MethodGantryTurnUndo.Name, params, func(m *Model, r protocol.GantryTurnUndoResponse, err error) tea.Cmd {
		if err != nil {
			m.fail(err)
			return nil
		}
		if refused(m, r) {
			return nil
		}
		var diffs []string
		for _, u := range m.thread.Turns {
			if slices.Contains(r.TurnIDs, u.ID) {
				diffs = append(diffs, turnDiff(m.thread, u))
			}
		}
		what, files := "Undo these changes?", restored(m, r)
		if redo {
			what = "Take back the undo of these files?"
		}
		return confirm(m, what, strings.Join(diffs, "\n"), strings.Join(files, ", "), func(m *Model) tea.Cmd {
			params.DryRun = false
			return call(m, protocol.MethodGantryTurnUndo.Name, params, func(m *Model, r protocol.GantryTurnUndoResponse, err error) tea.Cmd {
				if err != nil {
					m.fail(err)
				} else if !refused(m, r) {
					m.info(fmt.Sprintf("restored %d files: %s", len(files), strings.Join(files, ", ")))
				}
				return nil
			})
		})
	})
}

// restored returns what an undo does with each file.
func restored(m *Model, r protocol.GantryTurnUndoResponse) []string {
	var out []string
	for _, f := range r.Files {
		out = append(out, f.Action+" "+relative(m, f.Path))
	}
	return out
}

// refused says why an undo is refused, if it is.
func refused(m *Model, r protocol.GantryTurnUndoResponse) bool {
	var obstacles []string
	for _, f := range r.Files {
		if f.Obstacle != nil {
			obstacles = append(obstacles, relative(m, f.Path)+" ("+*f.Obstacle+")")
		}
	}
	if !r.Refused && len(obstacles) == 0 {
		return false
	}
	m.note(client.Notice{
		Level: client.Warning, Text: "not undone, because this would be lost: " + strings.Join(obstacles, ", "),
		Next: "`gantry threads undo --force` restores the files nevertheless",
	})
	return true
}

// relative returns a path as seen from the thread's folder.
func relative(m *Model, path string) string {
	if rel, err := filepath.Rel(m.thread.Cwd, path); err == nil {
		return rel
	}
	return path
}

func showDiff(m *Model, _ string) tea.Cmd {
	for _, u := range slices.Backward(m.thread.Turns) {
		if d := turnDiff(m.thread, u); d != "" {
			m.note(client.Notice{Text: d, Diff: true})
			return nil
		}
	}
	m.hint = "no turn that is shown has changed files"
	return nil
}

func forkThread(m *Model, _ string) tea.Cmd {
	return call(m, protocol.MethodThreadFork.Name, protocol.ThreadForkParams{ThreadID: m.thread.ID, ExcludeTurns: true}, func(m *Model, r protocol.ThreadForkResponse, err error) tea.Cmd {
		if err != nil {
			m.fail(err)
			return nil
		}
		return m.resume(r.Thread.ID)
	})
}

// pickQueued takes a queued message back into the composer.
func pickQueued(m *Model, _ string) tea.Cmd {
	p := &picker.Picker{Title: "Queued messages", Empty: "there are none"}
	for _, q := range m.thread.Queue {
		p.Rows = append(p.Rows, picker.Row{Label: transcript.Input(q.Input), Value: q})
	}
	m.pick(p, func(m *Model, r picker.Row) tea.Cmd {
		q := r.Value.(protocol.QueuedSubmission)
		return call(m, protocol.MethodThreadQueueDelete.Name, protocol.ThreadQueueDeleteParams{ThreadID: m.thread.ID, QueuedSubmissionID: q.ID},
			func(m *Model, _ struct{}, err error) tea.Cmd {
				if err != nil {
					m.fail(err)
				} else if m.composer.Empty() {
					m.composer.Set(typed(q.Input))
				}
				return nil
			})
	})
	return nil
}

func copyLast(m *Model, _ string) tea.Cmd {
	for _, it := range slices.Backward(m.thread.Items) {
		if _, ok := it.Body.(protocol.AgentMessageItem); ok {
			m.hint = "the last message was copied, if the terminal permits it"
			return tea.SetClipboard(it.Text())
		}
	}
	m.hint = "there is no message yet"
	return nil
}

func showStatus(m *Model, _ string) tea.Cmd {
	t := m.thread
	lines := []string{
		"thread " + t.ID, "folder " + t.Cwd, "model " + t.Model + " of " + t.Provider, "asks: " + string(t.Approval.Kind), "sandbox: " + t.SandboxName(), "gantry " + m.cfg.Version,
	}
	if t.Usage != nil {
		u := t.Usage.Total
		lines = append(lines, fmt.Sprintf("tokens: %d in, of them %d cached, %d out", u.InputTokens, u.CachedInputTokens, u.OutputTokens))
	}
	m.info(term.Clean(strings.Join(lines, "\n")))
	return nil
}
