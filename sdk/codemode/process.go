package codemode

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"strings"

	"github.com/gantry-agent/gantry/sdk/codemode/frame"
)

// Process is a process that waits for one script, or runs it. It is locked as soon as it has started.
type Process struct {
	command []string
	limits  Limits
	err     error // it could not be started
	cmd     *exec.Cmd
	in      io.WriteCloser
	out     *os.File
	stderr  head
	gone    chan struct{} // closed when the process has ended and was waited for; nil: it was not started
}

// Prepare starts command, which must serve package child's protocol, for a script that comes later. The caller ends the process, or
// runs a script in it, which fails if the process could not be started.
func Prepare(command []string, limits Limits) *Process {
	p := &Process{command: command, limits: limits.withDefaults()}
	p.begin()
	return p
}

// begin starts the process unless it was.
func (p *Process) begin() {
	if p.gone == nil && p.err == nil {
		p.err = p.start(p.command)
	}
}

func (p *Process) start(command []string) error {
	limits, err := frame.Encode(frame.ToChild{Limits: &frame.Limits{
		Memory: p.limits.Memory, CPUMillis: p.limits.CPU.Milliseconds(), WallMillis: p.limits.Wall.Milliseconds(),
	}})
	if err != nil {
		return err
	}
	cmd := exec.Command(command[0], command[1:]...)
	// The runtime must not keep files of the control group open: the child has pipes alone.
	cmd.Env = []string{"GOTRACEBACK=none", "GODEBUG=containermaxprocs=0", "TZ=" + os.Getenv("TZ")}
	if os.Getenv("TZ") == "" {
		cmd.Env = cmd.Env[:2] // an empty value would mean UTC
	}
	cmd.WaitDelay = frame.Grace
	cmd.Stderr = &p.stderr
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
	p.cmd, p.in, p.out, p.gone = cmd, in, out, make(chan struct{})
	go func() { // ends with the process; [Process.End] waits for it
		defer close(p.gone)
		_ = cmd.Wait()
	}()
	_, _ = in.Write(limits) // a process that is gone is noticed when it gets its script
	return nil
}

// End ends the process and waits until it is gone. Idempotent.
func (p *Process) End() {
	if p.gone == nil {
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
