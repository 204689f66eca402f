package usershell

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gantry-agent/gantry/host/internal/launch"
	"github.com/gantry-agent/gantry/host/internal/tool"
	"github.com/gantry-agent/gantry/sdk/contract"
)

// Assess implements [orchestrate.ToolBackend]. The item shows the command.
func (l line) Assess(_ context.Context, r contract.AssessRequest) (*contract.Assessment, error) {
	run := argv(l.shell.cfg.Environ(), l.text)
	return &contract.Assessment{
		Effects: []contract.Effect{contract.ExecEffect{Argv: run, Cwd: r.Cwd, ShellText: l.text}},
		Item:    &contract.CommandItem{Command: l.text, Cwd: r.Cwd},
	}, nil
}

var (
	errStopped = errors.New("the user stopped the command")
	errTimeout = errors.New("the command exceeded its time limit")
)

// Call implements [orchestrate.ToolBackend]. The pipeline ends processes that are left when it returns.
func (l line) Call(ctx context.Context, start contract.CallStart, ctl tool.Control, sink func(contract.CallEvent)) (*contract.Result, error) {
	env := l.shell.cfg.Environ()
	p, err := l.shell.cfg.Spawn(ctx, launch.Spec{
		Argv: argv(env, l.text), Cwd: start.Cwd, Env: env, MergeStderr: true, Grant: launch.Grant{Mode: launch.FullAccess, Network: true},
		Owner: launch.Owner{Plugin: owner, Thread: start.ThreadID, Call: start.CallID},
	})
	if err != nil {
		return contract.ErrorText(err.Error()), nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, l.timeout, errTimeout)
	defer cancel()
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	defer context.AfterFunc(ctl.Soft, func() { stop(errStopped) })()
	var out excerpt
	exit, err := p.Attach(ctx, nil, func(o launch.Output) error {
		out.add(o.Data)
		sink(contract.Output{Data: o.Data})
		return nil
	})
	switch {
	case errors.Is(err, errStopped):
		return &contract.Result{Aborted: true}, nil
	case errors.Is(err, errTimeout):
		return contract.ErrorText(fmt.Sprintf("the command ran longer than %v and was stopped", l.timeout)), nil
	case err != nil:
		return contract.ErrorText(err.Error()), nil
	}
	code := int32(exit.Code)
	return &contract.Result{
		Parts: []contract.Part{out.part()},
		Item:  &contract.CommandItem{Command: l.text, Cwd: start.Cwd, ExitCode: &code},
	}, nil
}

// shells are the shells that accept a command line after -lc.
var shells = []string{"bash", "zsh", "sh", "dash", "ksh", "fish"}

// argv returns the arguments that run a command line in the user's login shell, with the user's profile.
func argv(env []string, command string) []string { return []string{program(env), "-lc", command} }

// program returns the path of the user's login shell.
func program(env []string) string {
	shell := "/bin/sh"
	for _, kv := range env {
		if path, ok := strings.CutPrefix(kv, "SHELL="); ok && filepath.IsAbs(path) && slices.Contains(shells, filepath.Base(path)) {
			shell = path
		}
	}
	return shell
}

// Program returns the path of the shell that runs the user's commands.
func (s *Shell) Program() string { return program(s.cfg.Environ()) }
