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

// Start is a process that a plugin asks for in a call's name.
type Start struct {
	Argv  []string
	Cwd   string            // absolute
	Set   map[string]string // changes to the environment that the host gives
	Unset []string
	// Bound says that the user has named the programs that the plugin may start: what they do must not be up to its environment.
	Bound bool
}

// inAState tells whether a process is the shell of a command that was decided on, which is brought into a state before, or only into
// one, or has nothing to be brought into. What the state does a profile could do: the rules do not reach that either.
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

// in reports whether a command was declared for a folder. Without one it is the call's.
func (l *Live) in(x contract.ExecEffect, cwd string) bool {
	if x.Cwd == "" {
		return cwd == l.Call.Cwd
	}
	return x.Cwd == cwd
}

// declared reports whether the call said that it would start this.
func (l *Live) declared(argv []string, cwd string) bool {
	return slices.ContainsFunc(l.commands, func(x contract.ExecEffect) bool { return slices.Equal(x.Argv, argv) && l.in(x, cwd) })
}

// Exec decides on a process that a plugin starts in the call's name. What the call said it would start was decided on; anything else
// is held against the rules, and never runs with what was approved for something else. denial says why not; "": it may start.
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
		return l.Authorize(ctx, []contract.Effect{also}, "it starts another program than it said", nil)
	}
	return d.Reason, nil
}

// another is what a plugin reads whose process is none of those that were decided on.
func (l *Live) another(s Start) string {
	for _, x := range l.commands {
		if slices.Equal(x.Argv, s.Argv) {
			return fmt.Sprintf("the call was approved for the folder %s, not for %s", cmp.Or(x.Cwd, l.Call.Cwd), s.Cwd)
		}
	}
	if len(l.commands) == 0 {
		return "the call was approved for what it said it would do, and it named no program: name what it starts as an effect"
	}
	return "the call was approved for another command"
}

// asks is the policy by which a process is judged that the call did not announce. The helpers of a built-in plugin, and processes that
// the sandbox keeps from writing, are part of the call that was decided on; only rules hold them back.
func (l *Live) asks() policy.Approval {
	if l.Call.Approval == policy.Untrusted && (l.builtIn || l.ReadOnly && l.Call.Sandbox != launch.FullAccess) {
		return policy.OnRequest
	}
	return l.Call.Approval
}

// foreignEnvironment is what a plugin reads whose process runs with more than its sandbox gives and would get an environment that
// was not approved: variables make programs run other programs. "": it asks for no such thing.
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

// harmless reports whether a plugin may set a variable for any process: it says for whom the process runs, or makes it write for
// reading. Pagers are programs, so only one value is taken.
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
