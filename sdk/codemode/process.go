package codemode

import (
	"bytes"
	"context"
	"io"
	"os"
	"os/exec"
	"strings"

	"github.com/gantry-agent/gantry/sdk/codemode/frame"
)

// Process is a process that waits for one script, or runs it. It is locked as soon as it has started.
type Process struct {
	limits Limits
	err    error // it could not be started
	cmd    *exec.Cmd
	in     io.WriteCloser
	out    *os.File
	stderr *head
	gone   chan struct{} // closed when the process has ended and was waited for
}

// Prepare starts command, which must serve package child's protocol, for a script that comes later. The caller ends the process, or
// runs a script in it. A process that can't be started is not [Process.Ready].
func Prepare(command []string, limits Limits) *Process {
	p := &Process{limits: limits.withDefaults(), stderr: &head{}, gone: make(chan struct{})}
	if p.err = p.start(command); p.err != nil {
		close(p.gone)
	}
	return p
}

func (p *Process) start(command []string) error {
	limits, err := frame.Encode(frame.ToChild{Limits: &frame.Limits{
		Memory: p.limits.Memory, CPUMillis: p.limits.CPU.Milliseconds(), WallMillis: p.limits.Wall.Milliseconds(),
	}})
	if err != nil {
		return err
	}
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Env = []string{"GOTRACEBACK=none", "TZ=" + os.Getenv("TZ")}
	if os.Getenv("TZ") == "" {
		cmd.Env = cmd.Env[:1] // an empty value would mean UTC
	}
	cmd.WaitDelay = frame.Grace
	cmd.Stderr = p.stderr
	out, theirs, err := os.Pipe() // cmd's own pipe is closed by Wait, with what is still in it
	if err != nil {
		return err
	}
	defer theirs.Close()
	cmd.Stdout = theirs
	in, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		out.Close()
		return err
	}
	p.cmd, p.in, p.out = cmd, in, out
	go func() { // ends with the process; [Process.End] waits for it
		defer close(p.gone)
		_ = cmd.Wait()
	}()
	_, _ = in.Write(limits) // a process that is gone is noticed where its messages are read
	return nil
}

// Ready reports whether the process can still run a script.
func (p *Process) Ready() bool {
	select {
	case <-p.gone:
		return false
	default:
		return true
	}
}

// Run runs a script in the process, which must not have run one before, within the limits of [Prepare]. See [Start].
func (p *Process) Run(ctx context.Context, script Script, owner Owner) *Session {
	return start(ctx, func() *Process { return p }, script, owner)
}

// End ends the process and waits until it is gone. Idempotent.
func (p *Process) End() {
	if p.err != nil {
		return
	}
	p.kill()
	<-p.gone
	p.out.Close()
}

func (p *Process) kill() { _ = p.cmd.Process.Kill() }

// head keeps the beginning of what is written.
type head struct{ b bytes.Buffer }

// Write implements [io.Writer].
func (h *head) Write(b []byte) (int, error) {
	h.b.Write(b[:min(len(b), 4096-min(4096, h.b.Len()))])
	return len(b), nil
}

// line returns the first line that is not empty.
func (h *head) line() string {
	line, _, _ := strings.Cut(strings.TrimSpace(h.b.String()), "\n")
	return line
}
