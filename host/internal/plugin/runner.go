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

// pipeTimeout is how long the pipes of a process are read after it has ended. They contain all that it wrote, but a descendant
// may keep the other end open.
const pipeTimeout = 100 * time.Millisecond

// lifelineFD is the descriptor of a plugin's lifeline, a pipe that is closed when the host ends.
const lifelineFD = 3

// runner runs one process for go-plugin and controls what the library reads from it: one valid handshake line and an empty
// standard error, whatever the process prints.
type runner struct {
	spec    Spec
	starter *proc.Starter
	file    *binary.File
	hello   wire.Hello
	cwd     string
	dir     string   // the folder of the process's sockets; set before Start, like env and sandbox
	env     []string // the whole environment
	sandbox *proc.Sandbox

	stdout *output.Stdout
	stderr *output.Stderr

	// lineR passes the accepted handshake line to go-plugin, and ends with the process.
	lineR *io.PipeReader
	lineW *io.PipeWriter

	process  *proc.Process // set by Start; nil if it failed
	lifeline *os.File
	// execution is how long the system took to start the process.
	execution time.Duration
	began     bool // Start was called
	mu        struct {
		sync.Mutex
		process *proc.Process // the same, for kill, which may be called at any time
		killed  bool          // kill has been called
	}
	refused  atomic.Pointer[refusal]
	accepted chan struct{} // closed when the handshake was accepted
	// done is closed when the process has been reaped, its pipes are closed and its folder has been removed.
	done chan struct{}
	life sync.Once // closes lifeline
}

// refusal is an error in an [atomic.Pointer].
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

// Start starts the process. ctx must not be used after that, since it ends when go-plugin's Start returns.
func (r *runner) Start(ctx context.Context) error {
	r.began = true
	err := r.start(ctx)
	if err != nil {
		// go-plugin doesn't remove the folder of a runner that didn't start.
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
			// The child's ends are closed in any case, ours only if the start failed.
			if f != nil && (err != nil || i%2 == 1) {
				_ = f.Close()
			}
		}
	}()
	for i := 0; i < len(ends); i += 2 {
		if ends[i], ends[i+1], err = os.Pipe(); err != nil {
			return fmt.Errorf("create pipe: %w", err)
		}
	}
	outR, outW, errR, errW := ends[0], ends[1], ends[2], ends[3]
	// The child reads from the lifeline, so its ends are swapped.
	lifeR, lifeW := ends[4], ends[5]
	ends[4], ends[5] = lifeW, lifeR
	if err := wire.WriteHello(lifeW, r.hello); err != nil {
		return err
	}
	spec := proc.Spec{
		Binary: r.file.File, Path: r.file.Path, Args: r.spec.Args, Env: r.env, Dir: r.cwd,
		Stdout: outW, Stderr: errW, Lifeline: lifeR, Sandbox: r.sandbox,
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
	killed := r.mu.killed
	r.mu.Unlock()
	if killed {
		r.process.Kill()
	}
	var pumps sync.WaitGroup
	pumps.Go(func() { r.stdout.Run(outR) })
	pumps.Go(func() { r.stderr.Run(errR) })
	delivered := make(chan struct{})
	// Owned by the goroutine below, which waits for it.
	go func() { defer close(delivered); r.deliver() }()
	// Owned by the process. It ends at most pipeTimeout after it.
	go func() {
		defer close(r.done)
		<-r.process.Exited()
		until := time.Now().Add(pipeTimeout)
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

// deliver passes the accepted handshake line to go-plugin. If the line was refused, it kills the process.
func (r *runner) deliver() {
	v := <-r.stdout.Verdict()
	if v.Err != nil {
		r.refused.Store(&refusal{v.Err})
		if output.Ended(v.Err) {
			// The process is probably about to exit. Wait for its exit status, which a kill would replace.
			select {
			case <-r.process.Exited():
			case <-time.After(exitTimeout):
			}
		}
		r.process.Kill()
		_ = r.lineW.CloseWithError(io.EOF)
		return
	}
	close(r.accepted)
	_, _ = io.WriteString(r.lineW, v.Line+"\n") // fails if go-plugin has given up
}

// acceptHandshake checks a line and returns what go-plugin may read of it. It removes the certificate, on which the library
// would crash without TLS.
func (r *runner) acceptHandshake(line string) (string, error) {
	h, err := wire.ParseHandshake(line)
	if errors.Is(err, wire.ErrNotHandshake) {
		return "", output.ErrNotHandshake
	}
	if err != nil {
		return "", err
	}
	if err := h.Check(); err != nil {
		return "", err
	}
	if h.Cert != "" && r.spec.Transport != wire.TransportTLS {
		return "", errors.New("the handshake line contains a certificate, although TLS was not requested")
	}
	if _, _, err := r.PluginToHost(h.Network, h.Address); err != nil {
		return "", err
	}
	if info, err := os.Lstat(h.Address); err != nil {
		return "", fmt.Errorf("no socket at the address in the handshake line: %w", err)
	} else if info.Mode().Type() != os.ModeSocket {
		return "", fmt.Errorf("the address %s in the handshake line is not a socket", h.Address)
	}
	return wire.Handshake{Core: h.Core, App: h.App, Network: h.Network, Address: h.Address, Protocol: h.Protocol}.String(), nil
}

// PluginToHost implements go-plugin's interface. It accepts only a socket directly in the process's own folder.
func (r *runner) PluginToHost(network, address string) (string, string, error) {
	name, inside := strings.CutPrefix(address, r.dir+"/")
	if network != "unix" || !inside || name == "" || name == ".." || strings.Contains(name, "/") ||
		hostsocket.Reserved(name) {
		return "", "", fmt.Errorf("the handshake line names %s %q, which is not a socket in the folder %s", network, address, wire.SocketDirEnv)
	}
	if len(address) > wire.MaxSocketPath {
		return "", "", fmt.Errorf("the socket path has %d bytes; the maximum is %d", len(address), wire.MaxSocketPath)
	}
	return network, address, nil
}

// HostToPlugin translates nothing, because both see the same files.
func (r *runner) HostToPlugin(network, address string) (string, string, error) {
	return network, address, nil
}

// Stdout contains the handshake line, and ends with the process.
func (r *runner) Stdout() io.ReadCloser { return r.lineR }

// Stderr is empty, because go-plugin would parse it and crashes on some lines.
func (r *runner) Stderr() io.ReadCloser { return io.NopCloser(strings.NewReader("")) }

// Name returns the plugin's label.
func (r *runner) Name() string { return r.spec.Label }

// ID returns the PID.
func (r *runner) ID() string {
	if r.process == nil {
		return ""
	}
	return strconv.Itoa(r.process.PID())
}

// Wait returns when the process has been reaped and cleaned up. It doesn't report to go-plugin how the process ended.
func (r *runner) Wait(context.Context) error {
	<-r.done
	return nil
}

// Kill kills the whole process tree. go-plugin calls it when a start failed.
func (r *runner) Kill(context.Context) error {
	r.kill()
	return nil
}

// kill kills the process tree. If it is called before the start, the process is killed as soon as it exists.
func (r *runner) kill() {
	r.mu.Lock()
	r.mu.killed = true
	p := r.mu.process
	r.mu.Unlock()
	if p != nil {
		p.Kill()
	}
}

// closeLifeline tells the plugin to end.
func (r *runner) closeLifeline() {
	r.life.Do(func() {
		if r.lifeline != nil {
			_ = r.lifeline.Close()
		}
	})
}

// Diagnose is empty, because the error text to which go-plugin adds it is not used.
func (r *runner) Diagnose(context.Context) string { return "" }
