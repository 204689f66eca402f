package plugin

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"syscall"
	"time"

	"github.com/gantry-agent/gantry/host/internal/plugin/binary"
	"github.com/gantry-agent/gantry/host/internal/plugin/output"
	"github.com/gantry-agent/gantry/host/internal/plugin/proc"
)

// tailLines is how many lines of standard error an error includes.
const tailLines = 20

// problem returns an error of this process.
func (g *generation) problem(phase Phase, err error) *Error {
	return &Error{Plugin: g.id.Label, Where: g.spec.Where, Phase: phase, Generation: g.id.Generation, Err: err}
}

// describeEnd adds to e what the process printed and how it ended.
func (g *generation) describeEnd(e *Error) {
	e.Printed = g.runner.stdout.Printed()
	e.StderrTail = g.runner.stderr.Tail(tailLines)
	e.Report = g.runner.stderr.Crash()
	select {
	case <-g.Exited():
		x := g.runner.process.Exit()
		if !x.Killed || g.ready.After(g.began) {
			// If it didn't start, that the host killed it is of no interest.
			e.Exit = &x
		}
	default:
	}
}

// noteCrash marks e as a crash if the plugin was killed or crashed while it was starting, rather than exited by itself. Such a
// start may succeed the next time.
func (g *generation) noteCrash(e *Error) {
	x := e.Exit
	if x == nil {
		return // it was killed by the host, or is running
	}
	switch {
	case x.Signal == syscall.SIGKILL || x.Code == shellSignalBase+int(syscall.SIGKILL):
		e.Err = errors.New("it was killed while it was starting, perhaps because the system ran out of memory")
		e.Next = "free up memory, or find out what kills it, and try again"
	case x.Signal != 0 || x.Code > shellSignalBase || len(e.Report) > 0:
		e.Err = errors.New("it crashed while it was starting")
		e.Next = "`gantry plugin inspect " + g.id.Label + "` shows its output"
	default:
		return
	}
	e.Crash = true
}

// shellSignalBase is what a shell adds to the number of the signal that ended a program to get its own exit status.
const shellSignalBase = 128

// failure explains the end of a process.
func (g *generation) failure() *Error {
	select {
	case <-g.runner.done: // its output has been read
	case <-time.After(2 * pipeTimeout):
	}
	requested, cause := g.ending.reason()
	x := g.runner.process.Exit()
	var err error
	next := fmt.Sprintf("the next call restarts it; `gantry plugin inspect %s` shows its output", g.id.Label)
	switch {
	case cause != "":
		err = errors.New(cause)
	case requested:
		err = errors.New("it was stopped")
		next = ""
	case x.Signal == syscall.SIGKILL && !x.Killed:
		err = errors.New("it was killed from outside, perhaps because the system ran out of memory")
	case x.Signal == 0 && x.Code == 0:
		err = errors.New("unexpected exit")
	default:
		err = errors.New("it crashed")
	}
	e := g.problem(PhaseRun, err)
	e.Crash, e.Next = !requested, next
	g.describeEnd(e)
	return e
}

// startProblem explains why go-plugin's client failed to start. err, the library's error, is the last resort.
func (g *generation) startProblem(ctx context.Context, err error) *Error {
	if g.runner.process == nil {
		return g.executionProblem(err)
	}
	if ctx.Err() != nil {
		e := g.problem(PhaseHandshake, context.Cause(ctx))
		if printed := g.runner.stdout.Printed(); len(printed) > 0 {
			e.Err = fmt.Errorf("%w, but it printed %q", e.Err, printed[0])
		}
		e.Next = "run `gantry plugin inspect " + g.id.Label + "` to see all it printed; if it needs more time, raise start_timeout"
		return e
	}
	// The process caused the failure. Wait for its output and its exit status, which may come later than the library's error.
	if !g.exitedWithin(context.Background(), exitTimeout) {
		g.runner.kill()
	}
	<-g.runner.done
	refused := g.runner.refused.Load()
	printed := g.runner.stdout.Printed()
	e := g.problem(PhaseHandshake, err)
	const hint = "call tool.Main or provider.Main before anything writes to stdout"
	switch {
	case refused == nil:
	case output.Ended(refused.err) && len(printed) == 0:
		e.Err = errors.New("it ended without a handshake")
		e.Next = "look at the last lines of its stderr; `gantry plugin inspect " + g.id.Label + "` shows all of it"
	case output.Ended(refused.err):
		e.Err = fmt.Errorf("it printed %q where the handshake line was expected", printed[0])
		e.Next = hint
	default:
		e.Err = refused.err
		if _, noise := errors.AsType[*output.OutputLimitError](refused.err); noise {
			e.Err = fmt.Errorf("it %w; its first line was %q", refused.err, printed[0])
		}
		e.Next = hint
		if strings.Contains(refused.err.Error(), "incompatible") {
			e.Next = "use a version of the plugin that was built for this version of gantry"
		}
	}
	return e
}

// executionProblem explains why the system didn't execute the file.
func (g *generation) executionProblem(err error) *Error {
	e := g.problem(PhaseStart, err)
	e.Next = "run the file in a shell to see the system's error"
	if errors.Is(err, proc.ErrUnsupported) {
		e.Next = ""
		return e
	}
	if errors.Is(err, proc.ErrOpen) {
		e.Next = "check that there is free disk space and that the folder cache in gantry's home is writable; if another program interfered, end it and try again"
		return e
	}
	why := binary.Diagnose(g.spec.Path)
	if why == "" && errors.Is(err, fs.ErrPermission) {
		why = "the system forbids to execute it; its file system may be mounted noexec"
	}
	if why != "" {
		e.Err = fmt.Errorf("%w: %s", err, why)
		e.Next = "use a file that this machine can execute"
	}
	return e
}

// verify opens the executable and compares its digest with the locked one. The error is an [*Error].
func (cfg Config) verify(spec Spec) (*binary.File, error) {
	file, err := binary.Open(spec.Path, cfg.records())
	if err != nil {
		e := &Error{Plugin: spec.Label, Where: spec.Where, Phase: PhaseFind, Err: err}
		e.Next = "check `source`; relative paths are relative to the folder of the configuration file"
		if strings.HasPrefix(spec.Source, "builtin/") {
			e.Next = "reinstall gantry; the binary should be in the same folder as gantry's own"
		}
		return nil, e
	}
	if spec.SHA256 != "" && !strings.EqualFold(spec.SHA256, file.SHA256) {
		_ = file.Close()
		return nil, &Error{
			Plugin: spec.Label, Where: spec.Where, Phase: PhaseVerify,
			Err:  fmt.Errorf("%s has the SHA-256 %s, but %s %s", spec.Path, file.SHA256, pinnedBy(spec), strings.ToLower(spec.SHA256)),
			Next: pinnedNext(spec),
		}
	}
	return file, nil
}

// verifiedProgram verifies the executable and identifies the code that it runs.
func (cfg Config) verifiedProgram(spec Spec) (string, error) {
	file, err := cfg.verify(spec)
	if err != nil {
		return "", err
	}
	defer file.Close()
	return cfg.program(file.SHA256, spec), nil
}

// pinnedBy names what determines the expected digest.
func pinnedBy(s Spec) string {
	if strings.HasPrefix(s.Source, "builtin/") {
		return "gantry was built with"
	}
	return "the lock file has"
}

func pinnedNext(s Spec) string {
	if strings.HasPrefix(s.Source, "builtin/") {
		return "reinstall gantry with all its binaries from the same build"
	}
	return fmt.Sprintf("if you changed the binary on purpose, run `gantry plugin lock %s`; otherwise restore the original one", s.Label)
}
