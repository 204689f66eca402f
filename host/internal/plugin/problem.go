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

// tailLines of standard error go into an error.
const tailLines = 20

// problem makes an error of this process.
func (g *generation) problem(phase Phase, err error) *Error {
	return &Error{Plugin: g.id.Label, Where: g.spec.Where, Phase: phase, Generation: g.id.Generation, Err: err}
}

// describeEnd adds what the process printed and how it ended.
func (g *generation) describeEnd(e *Error) {
	e.Printed = g.runner.stdout.Printed()
	e.StderrTail = g.runner.stderr.Tail(tailLines)
	e.Report = g.runner.stderr.Crash()
	select {
	case <-g.Exited():
		x := g.runner.process.Exit()
		if !x.Killed || g.ready.After(g.began) {
			// That the host killed what didn't start is no news to anybody.
			e.Exit = &x
		}
	default:
	}
}

// noteCrash tells a start that an accident ended from one that the plugin itself gave up: the former may work the next
// time.
func (g *generation) noteCrash(e *Error) {
	x := e.Exit
	if x == nil {
		return // it did not end by itself
	}
	switch {
	case x.Signal == syscall.SIGKILL || x.Code == bySignal+int(syscall.SIGKILL):
		e.Err = errors.New("it was killed while it was starting, perhaps because the system ran out of memory")
		e.Next = "make room in memory, or find out what kills it, and try again"
	case x.Signal != 0 || x.Code > bySignal || len(e.Report) > 0:
		e.Err = errors.New("it crashed while it was starting")
		e.Next = "`gantry plugin inspect " + g.id.Label + "` shows what it wrote"
	default:
		return
	}
	e.Crash = true
}

// bySignal is what a shell that stands before the plugin adds to the number of the signal that ended it.
const bySignal = 128

// failure is the error for a process that ended, or was ended, without being asked to.
func (g *generation) failure() *Error {
	select {
	case <-g.runner.done: // its last words are read
	case <-time.After(2 * pipePatience):
	}
	asked, reason := g.ending.reason()
	x := g.runner.process.Exit()
	var err error
	next := fmt.Sprintf("the next call starts it again; `gantry plugin inspect %s` shows what it wrote", g.id.Label)
	switch {
	case reason != "":
		err = errors.New(reason)
	case asked:
		err = errors.New("it was stopped")
		next = ""
	case x.Signal == syscall.SIGKILL && !x.Killed:
		err = errors.New("it was killed from outside, perhaps because the system ran out of memory")
	case x.Signal == 0 && x.Code == 0:
		err = errors.New("it ended by itself")
	default:
		err = errors.New("it crashed")
	}
	e := g.problem(PhaseRun, err)
	e.Crash, e.Next = !asked, next
	g.describeEnd(e)
	return e
}

// startProblem explains why go-plugin's client didn't come up. The library's own words are the last resort.
func (g *generation) startProblem(ctx context.Context, err error) *Error {
	if g.runner.process == nil {
		return g.executionProblem(err)
	}
	timedOut := ctx.Err() != nil
	if timedOut {
		e := g.problem(PhaseHandshake, context.Cause(ctx))
		if printed := g.runner.stdout.Printed(); len(printed) > 0 {
			e.Err = fmt.Errorf("%w, but it printed %q", e.Err, printed[0])
		}
		e.Next = "run `gantry plugin inspect " + g.id.Label + "` to see all it printed; raise start_timeout if it needs longer"
		return e
	}
	// The process decided: wait for its words and its end, which the library's answer may have overtaken.
	if !g.exitedWithin(context.Background(), exitPatience) {
		g.runner.kill()
	}
	<-g.runner.done
	refused := g.runner.refused.Load()
	printed := g.runner.stdout.Printed()
	e := g.problem(PhaseHandshake, err)
	const protocol = "call tool.Main or provider.Main before anything writes to stdout"
	switch {
	case refused == nil:
	case output.Ended(refused.err) && len(printed) == 0:
		e.Err = errors.New("it ended without a handshake")
		e.Next = "the last lines of its stderr say why; `gantry plugin inspect " + g.id.Label + "` shows all of it"
	case output.Ended(refused.err):
		e.Err = fmt.Errorf("it printed %q where the handshake line was expected", printed[0])
		e.Next = protocol
	default:
		e.Err = refused.err
		if _, noise := errors.AsType[*output.OutputLimitError](refused.err); noise {
			e.Err = fmt.Errorf("it %w; its first line was %q", refused.err, printed[0])
		}
		e.Next = protocol
		if strings.Contains(refused.err.Error(), "incompatible") {
			e.Next = "use a version of the plugin that is built for this host"
		}
	}
	return e
}

// executionProblem explains why the system didn't execute the file.
func (g *generation) executionProblem(err error) *Error {
	e := g.problem(PhaseStart, err)
	e.Next = "run the file by hand to see what the system says"
	if errors.Is(err, proc.ErrUnsupported) {
		e.Next = ""
		return e
	}
	if errors.Is(err, proc.ErrOpen) {
		e.Next = "make room in gantry's home, and see that its folder cache is yours to write; if another program has interfered, end it and try again"
		return e
	}
	why := binary.Diagnose(g.spec.Path)
	if why == "" && errors.Is(err, fs.ErrPermission) {
		why = "the system forbids to execute it: is its file system mounted noexec?"
	}
	if why != "" {
		e.Err = fmt.Errorf("%w: %s", err, why)
		e.Next = "use a file that this machine can run"
	}
	return e
}

// verify opens the executable and compares its digest with the lock's.
func (cfg Config) verify(spec Spec) (*binary.File, error) {
	file, err := binary.Open(spec.Path, cfg.records())
	if err != nil {
		e := &Error{Plugin: spec.Label, Where: spec.Where, Phase: PhaseFind, Err: err}
		e.Next = "check `source`; relative paths start at the folder of the configuration file"
		if strings.HasPrefix(spec.Source, "builtin/") {
			e.Next = "the binary belongs beside the host's own; install gantry again"
		}
		return nil, e
	}
	if spec.SHA256 != "" && !strings.EqualFold(spec.SHA256, file.SHA256) {
		_ = file.Close()
		return nil, &Error{
			Plugin: spec.Label, Where: spec.Where, Phase: PhaseVerify,
			Err:  fmt.Errorf("%s has the SHA-256 %s, %s %s", spec.Path, file.SHA256, pinnedBy(spec), strings.ToLower(spec.SHA256)),
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

func withGeneration(err error, id Identity) error {
	if e, ok := errors.AsType[*Error](err); ok {
		e.Generation = id.Generation
	}
	return err
}

// pinnedBy says who demands a checksum.
func pinnedBy(s Spec) string {
	if strings.HasPrefix(s.Source, "builtin/") {
		return "this gantry was built with"
	}
	return "the lock file says"
}

func pinnedNext(s Spec) string {
	if strings.HasPrefix(s.Source, "builtin/") {
		return "install gantry again, all of it from one build"
	}
	return fmt.Sprintf("if the binary was changed on purpose run `gantry plugin lock %s`, else get the right one back", s.Label)
}
