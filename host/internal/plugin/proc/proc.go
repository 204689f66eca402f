// Package proc starts a plugin's process so that it can't outlive the host, notices its end at once, and ends its whole
// tree.
//
// It owns: the thread that parent-death signals hang on, namespaces where the system has them, which processes belong to
// a plugin, exit statuses and what a tree uses. It must not know: go-plugin, gRPC, what a plugin prints or says, when one
// should be stopped.
//
// Start with [Starter.Start]; a [Process] is alive until [Process.Exited] is closed.
package proc

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"github.com/gantry-agent/gantry/host/internal/launch/control"
)

// ErrUnsupported is returned by [Starter.Start] on systems without a supervisor of ours.
var ErrUnsupported = errors.New("plugins can't be supervised on this system; use Linux or macOS, on Windows WSL 2")

// ErrOpen is returned by [Starter.Start] for a process that others of its user must be kept out of, and can't be.
var ErrOpen = errors.New("other processes of the user can't be kept out of it")

// Spec says what to start. The descriptors stay the caller's: Start neither closes nor keeps them.
type Spec struct {
	// Binary is the open file to execute. nil: Path is executed, as a script must be, since its interpreter opens the
	// path again.
	Binary *os.File
	// Path is argv[0], absolute.
	Path string
	Args []string
	// Env is the whole environment.
	Env []string
	Dir string
	// Stdout, Stderr and Lifeline become the descriptors 1, 2 and 3. Standard input is empty.
	Stdout, Stderr, Lifeline *os.File
	// Sandbox confines the process; nil: nothing does.
	Sandbox *Sandbox
	// Marker is an entry of Env that no other process has, so that descendants are recognised which have left the group,
	// the session and their parent.
	Marker string
}

// Sandbox is what confines a plugin's process from its start: rights, the system calls that it may make, what it sees of the
// files. Where there are no namespaces nothing is hidden, and [Starter] says so once.
type Sandbox struct {
	Launcher string       // gantry-launch, absolute: it puts the cage on and becomes the plugin
	Box      *control.Box // on Linux Helper and Args are not used, on macOS nothing else is
	// Dial connects the process to a socket of this machine, where [control.Box.Gate] is set. nil: it gets no such connection.
	Dial func(path string) (*os.File, error)
	// Network: there the process is connected to machines, too.
	Network bool
	// Late is called when the process has been started, with what lays covers in its cage over files that appear later; it returns what is
	// called when the process has ended. It is not called where nobody but root can get into the cage. nil: nothing is covered later.
	Late func(hide func([]control.Cover) error) (leave func())
	// Keep says with which files nobody but root can look into the process. It is asked only where a namespace of the user's would let
	// all processes of the user do that. nil: they can.
	Keep func() (*Keep, error)
}

// Keep is what keeps all others of the user out of a process, from its start: decision 39. The caller of [Sandbox.Keep] closes the files.
type Keep struct {
	Launcher Unreadable   // of [Sandbox.Launcher]
	Over     []Unreadable // they are seen in place of what they are copies of
	Stands   string       // a folder in one of the process's own, empty
}

// Unreadable is a copy of a program that can be executed, not read.
type Unreadable struct {
	*os.File
	Path, Name string // of the program, and of the copy
	// Unchanged tells whether it still is what it was when it was opened.
	Unchanged func() bool
}

func (k *Keep) close() {
	_ = k.Launcher.Close()
	for _, u := range k.Over {
		_ = u.Close()
	}
}

// unchanged tells whether nobody has touched what the process was made of.
func (k *Keep) unchanged() bool {
	for _, u := range k.Over {
		if !u.Unchanged() {
			return false
		}
	}
	return k.Launcher.Unchanged()
}

// Isolation says what keeps a process and all that it starts together.
type Isolation int

// The isolations.
const (
	// IsolationUnknown: nothing was started yet.
	IsolationUnknown Isolation = iota
	// IsolationNamespace: a PID namespace, inside a user namespace unless the system only allows the former. The kernel
	// ends everything in it together with the plugin.
	IsolationNamespace
	// IsolationScan: a session of its own; what left it is found by looking at every process.
	IsolationScan
)

// String returns "namespace", "scan" or "unknown".
func (i Isolation) String() string {
	switch i {
	case IsolationNamespace:
		return "namespace"
	case IsolationScan:
		return "scan"
	}
	return "unknown"
}

// Exit is how a process ended.
type Exit struct {
	Code   int            // 0 to 255; -1 when a signal ended it
	Signal syscall.Signal // 0: none
	// Killed: the signal was ours.
	Killed bool
	At     time.Time
	// User, System and MaxRSS are what the process and the children that it waited for used.
	User, System time.Duration
	MaxRSSBytes  int64
}

// String returns for example "exited with status 3" or "was ended by signal killed".
func (e Exit) String() string {
	if e.Signal != 0 {
		return fmt.Sprintf("was ended by signal %d (%s)", int(e.Signal), e.Signal)
	}
	return fmt.Sprintf("exited with status %d", e.Code)
}

// Usage is what the processes of a tree use together.
type Usage struct {
	Processes int
	RSSBytes  int64
	// PSSBytes counts a page that n processes share as 1/n; 0 when the system doesn't tell.
	PSSBytes int64
}
