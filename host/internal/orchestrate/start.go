package orchestrate

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/gantry-agent/gantry/host/internal/launch"
	"github.com/gantry-agent/gantry/host/internal/policy"
	"github.com/gantry-agent/gantry/sdk/contract"
	"github.com/gantry-agent/gantry/sdk/process/shellstate"
)

// Start is a plugin's request to start a process in a call's name.
type Start struct {
	Argv  []string
	Cwd   string            // absolute
	Set   map[string]string // variables to set in the environment that the host gives
	Unset []string
	// Bound says that the user has listed the programs that the plugin may start, so the plugin must not control them by their
	// environment.
	Bound bool
}

// inAState reports whether a process is the shell of a command that was decided on, with code before the command that restores the
// shell's state, with that code alone, or without it. The rules don't apply to that code, as they don't to a shell's profile.
func (l *Live) inAState(argv []string, cwd string) bool {
	command, ok := shellstate.Command(argv)
	if n := len(argv); !ok && n >= 3 && (slices.Equal(argv[1:n-1], []string{"-c"}) || slices.Equal(argv[1:n-1], []string{"-f", "-c"})) {
		command, ok = argv[n-1], argv[n-1] != ""
	}
	return ok && slices.ContainsFunc(l.commands, func(x contract.ExecEffect) bool {
		same := len(x.Argv) == 3 && x.Argv[0] == argv[0] && (x.Argv[1] == "-c" || x.Argv[1] == "-lc") && l.in(x, cwd)
		return same && (command == "" || command == x.Argv[2])
	})
}

// in reports whether a command was declared for a folder, which by default is the call's.
func (l *Live) in(x contract.ExecEffect, cwd string) bool {
	if x.Cwd == "" {
		return cwd == l.Call.Cwd
	}
	return x.Cwd == cwd
}

// declared reports whether the call's assessment has declared this command.
func (l *Live) declared(argv []string, cwd string) bool {
	return slices.ContainsFunc(l.commands, func(x contract.ExecEffect) bool { return slices.Equal(x.Argv, argv) && l.in(x, cwd) })
}

// Exec decides whether a plugin may start a process in the call's name. Declared commands were decided on with the call. Others are
// decided on now, and never run under a grant that was approved for another command. denial says why the process is refused; "": it may
// start.
func (l *Live) Exec(ctx context.Context, s Start) (denial string, err error) {
	declared := l.declared(s.Argv, s.Cwd)
	if s.Bound {
		if denial := l.foreignEnvironment(s); denial != "" {
			return denial, nil
		}
	}
	if l.bound {
		switch {
		case !declared && (len(l.commands) > 0 || !l.builtIn):
			return l.another(s), nil
		case len(l.commands) > 0:
			return l.foreignEnvironment(s), nil
		}
	}
	if declared || l.inAState(s.Argv, s.Cwd) {
		return "", nil
	}
	also := contract.ExecEffect{Argv: s.Argv, Cwd: s.Cwd}
	d := l.Pipeline.deps.Policy(policy.Request{Approval: l.asks(), Sandbox: l.Call.Sandbox, Effects: []contract.Effect{also}})
	switch d.Verdict {
	case policy.Run:
		return "", nil
	case policy.Ask:
		_, denial, err := l.Authorize(ctx, []contract.Effect{also}, "it starts a program that it has not declared", nil)
		return denial, err
	}
	return d.Reason, nil
}

// another is the message to a plugin whose process is not among those that were decided on.
func (l *Live) another(s Start) string {
	for _, x := range l.commands {
		if slices.Equal(x.Argv, s.Argv) {
			return fmt.Sprintf("the call was approved for the folder %s, not for %s", cmp.Or(x.Cwd, l.Call.Cwd), s.Cwd)
		}
	}
	if len(l.commands) == 0 {
		return "the call was approved for the effects that it has declared, and no program is among them: declare the program as an effect"
	}
	return "the call was approved for another command"
}

// asks returns the approval policy for processes that were not declared. Helpers of a built-in plugin, and processes that the sandbox
// keeps from writing, belong to the call that was decided on, so only rules can restrict them.
func (l *Live) asks() policy.Approval {
	if l.Call.Approval == policy.Untrusted && (l.builtIn || l.ReadOnly && l.Call.Sandbox != launch.FullAccess) {
		return policy.OnRequest
	}
	return l.Call.Approval
}

// foreignEnvironment is the message to a plugin that wants to change the environment of a process whose permissions were approved:
// variables can make programs run other programs. "": it does not.
func (l *Live) foreignEnvironment(s Start) string {
	var names []string
	for name, value := range s.Set {
		if !l.harmless(name, value) {
			names = append(names, name)
		}
	}
	names = slices.Compact(slices.Sorted(slices.Values(append(names, s.Unset...))))
	if len(names) == 0 {
		return ""
	}
	return "the command may run with the environment that gantry gives, and the plugin wants to change " + strings.Join(names, ", ") +
		"; a variable that the command needs has to be part of the command: env NAME=VALUE PROGRAM"
}

// harmless reports whether a plugin may set a variable for any process: it identifies the call, or makes output plain. Pagers are
// programs, so only cat is accepted.
func (l *Live) harmless(name, value string) bool {
	switch name {
	case "GANTRY_THREAD_ID":
		return value == string(l.Call.Thread)
	case "GANTRY_TOOL_CALL_ID":
		return value == string(l.Call.ID)
	case "PAGER", "GIT_PAGER", "GH_PAGER":
		return value == "cat"
	case "NO_COLOR", "COLORTERM", "TERM", "LANG", "LC_ALL", "LC_CTYPE", "GANTRY_CI", "GANTRY_VERSION":
		const word = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.+@"
		return len(value) <= 256 && strings.Trim(value, word) == ""
	}
	return false
}
