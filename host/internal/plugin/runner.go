package plugin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"
	gorunner "github.com/hashicorp/go-plugin/runner"

	"github.com/gantry-agent/gantry/host/internal/plugin/binary"
	"github.com/gantry-agent/gantry/host/internal/plugin/hostsocket"
	"github.com/gantry-agent/gantry/host/internal/plugin/output"
	"github.com/gantry-agent/gantry/host/internal/plugin/proc"
	"github.com/gantry-agent/gantry/sdk/wire"
)

// pipePatience is how long the pipes of a dead process are still read. What it wrote is in them already; a descendant that
// holds the other end could keep them open for ever.
const pipePatience = 100 * time.Millisecond

// lifelineFD is the descriptor on which a plugin finds its lifeline.
const lifelineFD = 3

// runner starts one process for go-plugin and stands between the two: the library sees one clean handshake line and an
// empty standard error, whatever the process prints.
type runner struct {
	spec    Spec
	starter *proc.Starter
	file    *binary.File
	hello   wire.Hello
	cwd     string
	dir     string   // the process's own folder, for sockets; set before Start, like env
	env     []string // all of it
	cage    *proc.Sandbox

	stdout *output.Stdout
	stderr *output.Stderr

	// line carries the accepted handshake to go-plugin, and ends with the process.
	lineR *io.PipeReader
	lineW *io.PipeWriter

	process  *proc.Process // set by Start; nil when it failed
	lifeline *os.File
	// execution is how long the system took to start it.
	execution time.Duration
	began     bool // Start was called
	mu        struct {
		sync.Mutex
		process *proc.Process // the same, for kill, which may come at any time
		doomed  bool          // kill came before the process
	}
	refused  atomic.Pointer[refusal]
	accepted chan struct{} // closed when the handshake was accepted
	// done is closed when the process is reaped, its pipes are closed and its folder is removed.
	done chan struct{}
	life sync.Once // closes lifeline
}

// refusal is why the handshake was refused.
type refusal struct{ err error }

var _ gorunner.Runner = (*runner)(nil)

func newRunner(spec Spec, starter *proc.Starter, file *binary.File, hello wire.Hello, cwd string, logger hclog.Logger,
	redact func(string) string,
) *runner {
	r := &runner{
		spec: spec, starter: starter, file: file, hello: hello, cwd: cwd,
		accepted: make(chan struct{}), done: make(chan struct{}),
		stderr: output.NewStderr(logger, redact),
	}
	r.stdout = output.NewStdout(r.acceptHandshake)
	r.lineR, r.lineW = io.Pipe()
	return r
}

// Start starts the process. ctx ends when go-plugin's Start returns, so nothing hangs on it but the start.
func (r *runner) Start(ctx context.Context) error {
	r.began = true
	err := r.start(ctx)
	if err != nil {
		// go-plugin forgets a runner that didn't start, with the folder that it made for it.
		_ = os.RemoveAll(r.dir)
		_ = r.lineW.CloseWithError(io.EOF)
		close(r.done)
	}
	return err
}

func (r *runner) start(ctx context.Context) (err error) {
	var ends [6]*os.File
	defer func() {
		for i, f := range ends {
			// The child's ends are never ours to keep; our own only when it started.
			if f != nil && (err != nil || i%2 == 1) {
				_ = f.Close()
			}
		}
	}()
	for i := 0; i < len(ends); i += 2 {
		if ends[i], ends[i+1], err = os.Pipe(); err != nil {
			return fmt.Errorf("make pipe: %w", err)
		}
	}
	outR, outW, errR, errW := ends[0], ends[1], ends[2], ends[3]
	// The lifeline goes the other way: what the child reads is the first half of its pipe.
	lifeR, lifeW := ends[4], ends[5]
	ends[4], ends[5] = lifeW, lifeR
	if err := wire.WriteHello(lifeW, r.hello); err != nil {
		return err
	}
	spec := proc.Spec{
		Binary: r.file.File, Path: r.file.Path, Args: r.spec.Args, Env: r.env, Dir: r.cwd,
		Stdout: outW, Stderr: errW, Lifeline: lifeR, Sandbox: r.cage,
		Marker: wire.SocketDirEnv + "=" + r.dir,
	}
	if r.file.Script {
		spec.Binary = nil
	}
	began := time.Now()
	if r.process, err = r.starter.Start(ctx, spec); err != nil {
		return err
	}
	r.execution = time.Since(began)
	r.lifeline = lifeW
	r.mu.Lock()
	r.mu.process = r.process
	doomed := r.mu.doomed
	r.mu.Unlock()
	if doomed {
		r.process.Kill()
	}
	var pumps sync.WaitGroup
	pumps.Go(func() { r.stdout.Run(outR) })
	pumps.Go(func() { r.stderr.Run(errR) })
	delivered := make(chan struct{})
	// Owned by the process, like the goroutine below, which waits for it.
	go func() { defer close(delivered); r.deliver() }()
	// Owned by the process: it ends when the process has, at most pipePatience later.
	go func() {
		defer close(r.done)
		<-r.process.Exited()
		until := time.Now().Add(pipePatience)
		_ = outR.SetReadDeadline(until)
		_ = errR.SetReadDeadline(until)
		pumps.Wait()
		_ = r.lineW.CloseWithError(io.EOF)
		<-delivered
		r.closeLifeline()
		_, _ = outR.Close(), errR.Close()
		<-r.process.Gone()
		_ = os.RemoveAll(r.dir)
	}()
	return nil
}

// deliver hands the accepted line to go-plugin. A refused one ends the process: there is nothing to talk to.
func (r *runner) deliver() {
	v := <-r.stdout.Verdict()
	if v.Err != nil {
		r.refused.Store(&refusal{v.Err})
		if output.Ended(v.Err) {
			// Most likely the process ends: let it say how, before go-plugin has it killed.
			select {
			case <-r.process.Exited():
			case <-time.After(exitPatience):
			}
		}
		r.process.Kill()
		_ = r.lineW.CloseWithError(io.EOF)
		return
	}
	close(r.accepted)
	_, _ = io.WriteString(r.lineW, v.Line+"\n") // fails when go-plugin has given up
}

// acceptHandshake judges a line and returns what go-plugin may read of it. A certificate never gets through: without TLS
// the library would crash on one.
func (r *runner) acceptHandshake(line string) (string, error) {
	h, err := wire.ParseHandshake(line)
	if errors.Is(err, wire.ErrNotHandshake) {
		return "", output.ErrOutputLimit
	}
	if err != nil {
		return "", err
	}
	if err := h.Check(); err != nil {
		return "", err
	}
	if h.Cert != "" && r.spec.Transport != wire.TransportTLS {
		return "", errors.New("handshake line with a certificate, although TLS was not asked for")
	}
	if _, _, err := r.PluginToHost(h.Network, h.Address); err != nil {
		return "", err
	}
	if info, err := os.Lstat(h.Address); err != nil {
		return "", fmt.Errorf("nothing listens on the socket that the handshake names: %w", err)
	} else if info.Mode().Type() != os.ModeSocket {
		return "", fmt.Errorf("the handshake names %s, which is not a socket", h.Address)
	}
	return wire.Handshake{Core: h.Core, App: h.App, Network: h.Network, Address: h.Address, Protocol: h.Protocol}.String(), nil
}

// PluginToHost accepts a socket right in the process's own folder, and nothing else.
func (r *runner) PluginToHost(network, address string) (string, string, error) {
	name, inside := strings.CutPrefix(address, r.dir+"/")
	if network != "unix" || !inside || name == "" || name == ".." || strings.Contains(name, "/") ||
		hostsocket.Reserved(name) {
		return "", "", fmt.Errorf("the handshake names %s %q, which is no socket in the folder that %s names", network, address, wire.SocketDirEnv)
	}
	if len(address) > wire.MaxSocketPath {
		return "", "", fmt.Errorf("the socket path has %d bytes, at most %d are possible", len(address), wire.MaxSocketPath)
	}
	return network, address, nil
}

// HostToPlugin has nothing to translate: both see the same files.
func (r *runner) HostToPlugin(network, address string) (string, string, error) {
	return network, address, nil
}

// Stdout is one line, then silence until the process has ended.
func (r *runner) Stdout() io.ReadCloser { return r.lineR }

// Stderr is empty: go-plugin would parse it, and some lines crash it.
func (r *runner) Stderr() io.ReadCloser { return io.NopCloser(strings.NewReader("")) }

// Name is the plugin's label.
func (r *runner) Name() string { return r.spec.Label }

// ID is the number of the process.
func (r *runner) ID() string {
	if r.process == nil {
		return ""
	}
	return strconv.Itoa(r.process.PID())
}

// Wait returns when the process is reaped and cleaned up after. How it ended is not go-plugin's business.
func (r *runner) Wait(context.Context) error {
	<-r.done
	return nil
}

// Kill ends the whole tree. go-plugin calls it when a start failed.
func (r *runner) Kill(context.Context) error {
	r.kill()
	return nil
}

// kill ends the tree at any time, also before there is one.
func (r *runner) kill() {
	r.mu.Lock()
	r.mu.doomed = true
	p := r.mu.process
	r.mu.Unlock()
	if p != nil {
		p.Kill()
	}
}

// closeLifeline tells the plugin that its host wants it gone, or is gone.
func (r *runner) closeLifeline() {
	r.life.Do(func() {
		if r.lifeline != nil {
			_ = r.lifeline.Close()
		}
	})
}

// Diagnose is asked by go-plugin for its error text, which nobody sees: ours says more.
func (r *runner) Diagnose(context.Context) string { return "" }
