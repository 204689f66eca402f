// Package workbench implements what the app server offers beside threads: commands, processes, files, watches and file search.
//
// It owns the methods command/exec, process/*, fs/* and fuzzyFileSearch, the processes and watches of a connection, and which files a
// client may read and write. It does not know connections, how messages are sent, or threads.
//
// Start with [New]. A client is bound to what its workspace lets the user's commands do: commands run in the configured sandbox, and
// files are read and written only where a command in that sandbox could. The exception is process/*, which needs full access.
//
// Errors that a client should see are [rpc.Error] values; those with a next step implement [hint.Stepper].
package workbench

import (
	"context"
	"errors"
	"path/filepath"
	"sync"

	"github.com/gantry-agent/gantry/config/hint"
	"github.com/gantry-agent/gantry/host/internal/launch"
	"github.com/gantry-agent/gantry/host/internal/rpc"
	"github.com/hashicorp/go-hclog"
)

// owner is used instead of the label of a plugin for the processes of clients. No plugin can have this label.
const owner = "(client)"

// maxProcesses limits the processes of a connection, of command/exec and process/spawn together. Beyond it requests fail. The launcher has
// a limit for all connections.
const maxProcesses = 64

// errClosed is the cause of what ends with its connection.
var errClosed = errors.New("the connection was closed")

// Process is a running command; [launch.Process] implements it.
type Process interface {
	Attach(ctx context.Context, stdin <-chan launch.Input, emit func(launch.Output) error) (launch.Exit, error)
	Resize(rows, cols uint16) error
	KillTree(ctx context.Context) error
}

// Runner starts processes under a grant, and ends what they leave behind. See [Launch].
type Runner interface {
	Spawn(ctx context.Context, spec launch.Spec) (Process, error)
	EndCall(ctx context.Context, o launch.Owner) error
}

// Launch returns the Runner of a launcher.
func Launch(l *launch.Launcher) Runner { return launcher{l} }

type launcher struct{ *launch.Launcher }

// Spawn implements [Runner].
func (l launcher) Spawn(ctx context.Context, spec launch.Spec) (Process, error) {
	p, err := l.Launcher.Spawn(ctx, spec)
	if err != nil {
		return nil, err // not a nil *launch.Process in an interface
	}
	return p, nil
}

// Config configures a Bench. All fields are required except Logger.
type Config struct {
	// Notify sends a notification to the client. It may block while the client is slow, which stops the process whose output it is;
	// it must return once the connection has ended.
	Notify func(method string, params any)
	// Workspaces returns the workspaces in which the client works: that of the server's folder first. For a path, that with the
	// deepest folder above it applies, otherwise the first. There is at least one.
	Workspaces func() []*Workspace
	Logger     hclog.Logger // default: none
}

// Bench is the workbench of one connection: its processes, watches and searches. Its methods may be called concurrently; requests with
// the same process, watch or session should be in order.
type Bench struct {
	cfg  Config
	life context.Context // ends with the connection
	end  context.CancelCauseFunc
	work sync.WaitGroup

	mu struct {
		sync.Mutex
		running int // processes
	}
	commands  table
	processes table
	watches   watches
	searches
}

// New returns a workbench. It starts nothing. Close it when the connection has ended.
func New(cfg Config) *Bench {
	if cfg.Logger == nil {
		cfg.Logger = hclog.NewNullLogger()
	}
	b := &Bench{cfg: cfg}
	b.searches.bench = b
	b.life, b.end = context.WithCancelCause(context.Background())
	return b
}

// Close ends processes, watches and searches, and waits for them. It is idempotent. Requests that are running fail.
func (b *Bench) Close() {
	b.mu.Lock() // no process may be about to start
	b.end(errClosed)
	b.mu.Unlock()
	b.work.Wait()
}

// enter counts a process that is to be started. It ends with leave.
func (b *Bench) enter() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.life.Err() != nil:
		return errClosed
	case b.mu.running >= maxProcesses:
		return hint.With(rpc.Errorf(rpc.InvalidRequest, "%d processes of this connection are running, which is the limit", maxProcesses), "end some first")
	}
	b.mu.running++
	b.work.Add(1)
	return nil
}

// Running returns the number of the client's processes.
func (b *Bench) Running() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.mu.running
}

func (b *Bench) leave() {
	b.mu.Lock()
	b.mu.running--
	b.mu.Unlock()
	b.work.Done()
}

// absolute checks a path of a request.
func absolute(field, path string) error {
	switch {
	case path == "":
		return rpc.Errorf(rpc.InvalidRequest, "%s must not be empty", field)
	case !filepath.IsAbs(path):
		return rpc.Errorf(rpc.InvalidRequest, "%s %q is not absolute", field, path)
	case hasNUL(path):
		return rpc.Errorf(rpc.InvalidRequest, "%s %q contains a NUL byte", field, path)
	}
	return nil
}
