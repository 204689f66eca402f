// Package proc starts a plugin's process so that it can't outlive the host, notices its end at once, and ends its whole
// tree.
//
// It owns: the thread that parent-death signals depend on, namespaces where the system has them, which processes belong to
// a plugin, exit statuses and the usage of a tree. It must not know: go-plugin, gRPC, what a plugin prints or says, when one
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

// ErrUnsupported is returned by [Starter.Start] on systems on which plugins can't be supervised.
var ErrUnsupported = errors.New("plugins can't be supervised on this system; use Linux or macOS, on Windows WSL 2")

// ErrOpen is returned by [Starter.Start] if a process has to be protected from other processes of its user, and can't be.
var ErrOpen = errors.New("other processes of the user can't be kept out of it")

// Spec is a process to start. The caller owns its files: Start neither closes nor keeps them.
type Spec struct {
	// Binary is the open file to execute. nil: Path is executed, which is necessary for a script, because its interpreter
	// opens the path again.
	Binary *os.File
	// Path is argv[0], absolute.
	Path string
	Args []string
	// Env is the whole environment.
	Env []string
	Dir string
	// Stdout, Stderr and Lifeline become the descriptors 1, 2 and 3. Standard input is empty.
	Stdout, Stderr, Lifeline *os.File
	// Sandbox confines the process; nil: it is not confined.
	Sandbox *Sandbox
	// Marker is a unique entry of Env, by which descendants are found that have left the group, the session and their parent.
	Marker string
}

// Sandbox confines a plugin's process from its start: its rights, the system calls that it may make, and the files that it sees. Without
// namespaces no files are hidden, which [Starter] logs once.
type Sandbox struct {
	Launcher string       // the absolute path of gantry-launch, which confines itself and then executes the plugin
	Box      *control.Box // Linux does not use Helper and Args, macOS uses nothing else
	// Dial connects the process to a socket on this machine, if [control.Box.Gate] is set. nil: such connections are refused.
	Dial func(path string) (*os.File, error)
	// Network: with [control.Box.Gate], the process may also connect to other machines.
	Network bool
	// Late is called after the start with a function that hides files in the sandbox that appear later. It returns a function that
	// is called when the process has ended. It is not called if only root can enter the sandbox. nil: nothing is hidden later.
	Late func(hide func([]control.Cover) error) (leave func())
	// Keep returns the files with which only root can inspect the process. It is called only if the process gets a user namespace
	// in which all processes of the user could inspect it. nil: they can.
	Keep func() (*Keep, error)
}

// Keep protects a process from inspection by other processes of its user, from its start on (decision 39): the kernel does not let them
// inspect a process that executes a file that they can't read. The caller of [Sandbox.Keep] closes the files.
type Keep struct {
	Launcher Unreadable   // a copy of [Sandbox.Launcher]
	Over     []Unreadable // mounted over the programs that they are copies of
	Stands   string       // an empty folder inside a folder of the process's own, see [control.Box.EmptyDirs]
}

// Unreadable is a copy of a program that can be executed but not read.
type Unreadable struct {
	*os.File
	Path, Name string // of the program, and of the copy
	// Unchanged reports whether the copy is unchanged since it was opened.
	Unchanged func() bool
}

func (k *Keep) close() {
	_ = k.Launcher.Close()
	for _, u := range k.Over {
		_ = u.Close()
	}
}

// unchanged reports whether all copies are unchanged.
func (k *Keep) unchanged() bool {
	for _, u := range k.Over {
		if !u.Unchanged() {
			return false
		}
	}
	return k.Launcher.Unchanged()
}

// Isolation says how the descendants of a process are found.
type Isolation int

// The isolations.
const (
	// IsolationUnknown: nothing was started yet.
	IsolationUnknown Isolation = iota
	// IsolationNamespace: a PID namespace, in a user namespace unless the system allows only the former. The kernel kills
	// everything in it together with the plugin.
	IsolationNamespace
	// IsolationScan: a session of its own; processes that have left it are found by scanning the process table.
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
	Code   int            // 0 to 255; -1 after a signal
	Signal syscall.Signal // 0: none
	// Killed: the host has sent the signal.
	Killed bool
	At     time.Time
	// User, System and MaxRSSBytes are of the process and the children that it waited for.
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

// Usage is the memory of a process tree.
type Usage struct {
	Processes int
	RSSBytes  int64
	// PSSBytes counts a page that n processes share as 1/n; 0: unknown.
	PSSBytes int64
}
