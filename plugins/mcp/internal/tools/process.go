package tools

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/gantry-agent/gantry/plugins/mcp/internal/catalog"
	"github.com/gantry-agent/gantry/plugins/mcp/internal/server"
	"github.com/gantry-agent/gantry/plugins/mcp/internal/transport"
	"github.com/gantry-agent/gantry/sdk/contract"
	"github.com/gantry-agent/gantry/sdk/process"
)

// Times for the end of a server's process, after its standard input has been closed.
const (
	exitTime = time.Second / 2 // until it is asked to terminate
	termTime = 2 * time.Second // until its process tree is killed
)

// saidTime is how long the rest of the standard error of a server that has ended is waited for.
const saidTime = 200 * time.Millisecond

// maxShown is how much of a server's standard error an error contains, in bytes.
const maxShown = 1000

// started returns a function that starts the process that a server's block declares. tail gets its standard error; nil: nobody reads it but
// the errors. With it, the host notes the hosts that the process tries to reach. declared is [tool.Env.Declared].
func started(declared func(context.Context, string) *process.Cmd, log hclog.Logger, name string, tail *transport.Tail) func(ctx context.Context) (server.Link, error) {
	return func(ctx context.Context) (server.Link, error) {
		life, kill := context.WithCancel(context.WithoutCancel(ctx)) // it ends step by step
		p := &serverProcess{cmd: declared(life, contract.ProcessName("server", name)), kill: kill}
		p.cmd.ReportDenials = tail != nil
		if p.tail = tail; tail == nil {
			p.tail = &transport.Tail{}
		}
		p.cmd.WaitDelay = time.Second
		in, err1 := p.cmd.StdinPipe()
		out, err2 := p.cmd.StdoutPipe()
		said, err3 := p.cmd.StderrPipe()
		err := errors.Join(err1, err2, err3)
		if err == nil {
			stop := context.AfterFunc(ctx, kill)
			err = p.cmd.Start()
			stop()
		}
		if err != nil {
			kill()
			return server.Link{}, err
		}
		p.in, p.said = in, make(chan struct{})
		go func() { // owned by the process: ends when its end has been waited for
			defer close(p.said)
			_, _ = io.Copy(p.tail, said) // what it has said until then counts
		}()
		return server.Link{
			Transport: &transport.Stdio{In: in, Out: watched{out, p}, Junk: func(line string, size int64) {
				log.Warn("a server has written a line that is no message to its standard output", "server", name, "bytes", size, "text", catalog.Line(line, 200))
			}},
			Close: p.end, Explain: p.explain,
		}, nil
	}
}

// serverProcess is the process of a server.
type serverProcess struct {
	cmd    *process.Cmd
	kill   context.CancelFunc
	in     io.Closer
	tail   *transport.Tail
	said   chan struct{} // closed when tail has all of its standard error
	once   sync.Once
	silent atomic.Bool // its standard output has ended
	byUs   atomic.Bool // it is ended although its output has not
}

// watched notes the end of a process's output.
type watched struct {
	r io.Reader
	p *serverProcess
}

// Read implements io.Reader.
func (w watched) Read(b []byte) (int, error) {
	n, err := w.r.Read(b)
	if err != nil {
		w.p.silent.Store(true)
	}
	return n, err
}

// end ends the process: it closes its input, then terminates it, then kills what is left.
func (p *serverProcess) end() {
	p.once.Do(func() {
		p.byUs.Store(!p.silent.Load())
		_ = p.in.Close()
		if !p.exited(exitTime) {
			if err := p.cmd.Signal(syscall.SIGTERM); err == nil || errors.Is(err, os.ErrProcessDone) {
				p.exited(termTime)
			}
		}
		_ = p.cmd.Kill() // also what the process has left, of which a context would not take care any more
		p.kill()
		_ = p.cmd.Wait()
	})
}

// exited waits for the end of the process, and reports whether it has ended.
func (p *serverProcess) exited(within time.Duration) bool {
	t := time.NewTimer(within)
	defer t.Stop()
	select {
	case <-p.cmd.Done():
		return true
	case <-t.C:
		select {
		case <-p.cmd.Done():
			return true
		default:
			return false
		}
	}
}

// explain says how the process has ended, and what it has written to its standard error.
func (p *serverProcess) explain() string {
	var parts []string
	if p.silent.Load() && !p.byUs.Load() && p.exited(exitTime) { // which may be a moment later
		if e, ok := p.cmd.Exit(); ok {
			parts = append(parts, exitText(e))
		}
		late := time.NewTimer(saidTime)
		defer late.Stop()
		select {
		case <-p.said:
		case <-late.C: // a process that it has left may hold it open
		}
	}
	text := strings.TrimSpace(p.tail.String())
	if n := len(text) - maxShown; n > 0 {
		_, text, _ = strings.Cut(text[n:], "\n")
	}
	if text = catalog.Text(text, maxShown); text != "" {
		parts = append(parts, "its standard error ends with:\n"+text)
	}
	return strings.Join(parts, "; ")
}

func exitText(e process.Exit) string {
	switch {
	case e.Limit != "":
		return fmt.Sprintf("its process has reached its limit of %s", e.Limit)
	case e.Signal != 0:
		return fmt.Sprintf("its process was ended by the signal %d (%v)", int(e.Signal), e.Signal)
	}
	return fmt.Sprintf("its process exited with code %d", e.Code)
}
