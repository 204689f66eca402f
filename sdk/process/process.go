// Package process starts processes through the host. It looks like os/exec and works like a broker: the host spawns the
// program under the grant of the call and hands its descriptors over.
//
// It owns: starting, copying, signalling and waiting as a plugin sees them. It must not know: grants, sandboxes, how the
// host spawns, which tool asks.
//
// Start with [Broker] and [Cmd].
package process

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
	"time"

	gantryv1 "github.com/gantry-agent/gantry/sdk/proto/gantry/v1"
)

// ErrWaitDelay is returned by Wait when the program ended well but its output stayed open, because another process holds
// it, and [Cmd.WaitDelay] was over.
var ErrWaitDelay = errors.New("process: output still open after the wait delay")

// Broker starts processes on behalf of one call, or of the plugin itself.
type Broker struct {
	client gantryv1.HostServiceClient
	token  string
	socket string
}

// New returns a broker that works for the call with the given token. An empty descriptorsSocket makes it use the Attach
// stream.
func New(client gantryv1.HostServiceClient, token, descriptorsSocket string) *Broker {
	return &Broker{client: client, token: token, socket: descriptorsSocket}
}

// Command returns a command that is not started yet.
func (b *Broker) Command(ctx context.Context, argv ...string) *Cmd {
	return &Cmd{Args: argv, ctx: ctx, broker: b}
}

// Size of a terminal. Zero fields mean 24 rows and 80 columns.
type Size struct{ Rows, Cols uint32 }

// Cmd is a command that is prepared or runs.
type Cmd struct {
	Args []string // the program and its arguments
	Dir  string   // absolute; empty: the call's
	Env  []string // changes to the environment of the grant, as KEY=VALUE; the last one of a key wins
	// Unset names variables that the program does not get.
	Unset []string

	Stdin          io.Reader
	Stdout, Stderr io.Writer

	Terminal    *Size // run on a terminal of this size; stdout is then the terminal's output, stderr is not used
	Session     bool  // the process may outlive the call; ctx bounds Start only
	MergeStderr bool  // stderr goes into stdout's pipe, in the order of writing
	ReadOnly    bool  // run under a grant without writes

	WaitDelay time.Duration

	ctx    context.Context
	broker *Broker
}

// Exit says how a process ended.
type Exit struct {
	Code        int // a signal n is 128+n
	Signal      syscall.Signal
	User        time.Duration
	System      time.Duration
	MaxRSSBytes int64
	Limit       string // a limit that ended it: "memory", "pids", "time"
}

// ExitError is a process that ended with another code than 0.
type ExitError struct {
	Exit
	Stderr []byte // from Output only; bounded
}

// Error implements error.
func (e *ExitError) Error() string { return fmt.Sprintf("exit status %d", e.Code) }

// StartError is a process that the host could not or would not start.
type StartError struct {
	Argv    []string
	Message string
	Errno   syscall.Errno
	Denied  bool // by policy or sandbox
}

// Error implements error.
func (e *StartError) Error() string { return e.Message }

var errSkeleton = errors.New("process: not there yet")

// Start starts the process.
func (c *Cmd) Start() error { return errSkeleton }

// Wait waits for the end of the process and of the copying.
func (c *Cmd) Wait() error { return errSkeleton }

// Run is Start and Wait.
func (c *Cmd) Run() error { return errSkeleton }

// Output runs the command and returns its stdout.
func (c *Cmd) Output() ([]byte, error) { return nil, errSkeleton }

// CombinedOutput runs the command and returns stdout and stderr in the order of writing.
func (c *Cmd) CombinedOutput() ([]byte, error) { return nil, errSkeleton }

// Signal sends a signal to the process group.
func (c *Cmd) Signal(sig os.Signal) error { return errSkeleton }

// Resize changes the size of the terminal.
func (c *Cmd) Resize(size Size) error { return errSkeleton }

// Kill ends the whole tree.
func (c *Cmd) Kill() error { return errSkeleton }

// PID is the process id as the host sees it.
func (c *Cmd) PID() int { return 0 }

// ID is the host's id of the process.
func (c *Cmd) ID() string { return "" }

// Done is closed when the process has ended; its output may still be read.
func (c *Cmd) Done() <-chan struct{} { return nil }

// Exit returns how the process ended; false while it runs.
func (c *Cmd) Exit() (Exit, bool) { return Exit{}, false }

// StdinPipe returns the writing end of stdin or of the terminal. Before Start only.
func (c *Cmd) StdinPipe() (io.WriteCloser, error) { return nil, errSkeleton }

// StdoutPipe returns the reading end of stdout or of the terminal. Before Start only.
func (c *Cmd) StdoutPipe() (io.ReadCloser, error) { return nil, errSkeleton }

// StderrPipe returns the reading end of stderr. Before Start only.
func (c *Cmd) StderrPipe() (io.ReadCloser, error) { return nil, errSkeleton }

// TerminalFile returns the terminal's descriptor after Start; nil when there is none or it can't travel.
func (c *Cmd) TerminalFile() *os.File { return nil }
