package launch

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gantry-agent/gantry/host/internal/launch/control"
)

// FullAccess is the sandbox mode without confinement.
const FullAccess = "full-access"

// Grant is what a process may do.
type Grant struct {
	Mode          string   `json:"mode"`
	WritableRoots []string `json:"writableRoots,omitempty"` // absolute
	ReadableRoots []string `json:"readableRoots,omitempty"` // absolute; nothing else is read but the system's folders; empty: everything
	Shown         []string `json:"shown,omitempty"`         // files and folders that are read though a box usually hides them; absolute
	DenyRead      []string `json:"denyRead,omitempty"`      // patterns of what is neither read nor written, in every mode; see config/glob
	DenyWrite     []string `json:"denyWrite,omitempty"`     // patterns of what is not written in a writable root of a box
	Opened        []string `json:"opened,omitempty"`        // files that may be written though their name is protected; absolute
	Network       bool     `json:"network,omitempty"`       // all of it
	Proxied       bool     `json:"proxied,omitempty"`       // what the host's proxy lets through; not with Network
	Landlock      bool     `json:"landlock,omitempty"`      // is demanded where the mode is one of a box
	Tmp           string   `json:"tmp,omitempty"`           // the folder that is the process's /tmp; absolute, empty: the machine's
	Env           []string `json:"env,omitempty"`           // K=V; what the grant gives; Spec.Env is what the process gets
	Limits        Limits   `json:"limits,omitzero"`
}

// Digest identifies a grant by its content. The order of roots and variables does not count.
func (g Grant) Digest() string {
	g.WritableRoots = slices.Sorted(slices.Values(g.WritableRoots))
	g.Env = slices.Sorted(slices.Values(g.Env))
	g.Opened = slices.Sorted(slices.Values(g.Opened))
	g.Shown = slices.Sorted(slices.Values(g.Shown))
	g.ReadableRoots = slices.Sorted(slices.Values(g.ReadableRoots))
	g.DenyRead = slices.Sorted(slices.Values(g.DenyRead))
	g.DenyWrite = slices.Sorted(slices.Values(g.DenyWrite))
	b, err := json.Marshal(g)
	if err != nil {
		panic(err) // strings and numbers only
	}
	sum := sha256.Sum256(b)
	return "g1:" + base64.StdEncoding.EncodeToString(sum[:])
}

// Names of limits that end a process.
const (
	LimitMemory = "memory"
	LimitPids   = "pids"
	LimitTime   = "time"
	LimitFile   = "file_size"
)

// Limits bounds a process. A zero field is no limit; what is not asked for is inherited from the host. A tree that reaches a
// limit on memory, processes or processor time is ended. Where a control group can be made, of version 2 or else of version 1,
// the kernel counts memory and processes of the tree; elsewhere the launcher looks at them five times a second.
type Limits struct {
	// MemoryBytes bounds the tree's memory, without swap. Without a control group it also bounds each process's writable
	// private memory (RLIMIT_DATA: unlike RLIMIT_AS it leaves room for address space that is only reserved, of which some
	// runtimes take many gigabytes).
	MemoryBytes int64 `json:"memoryBytes,omitempty"`
	// AddressSpaceBytes bounds each process's address space (RLIMIT_AS).
	AddressSpaceBytes int64 `json:"addressSpaceBytes,omitempty"`
	// MaxPids bounds the tree's processes and threads. In a box of an ordinary user without a control group RLIMIT_NPROC
	// does, too; elsewhere that would count all of the user's processes, and it does not bind root.
	MaxPids int64 `json:"maxPids,omitempty"`
	// CPUSeconds bounds each process's processor time: SIGXCPU then, SIGKILL two seconds of it later; and that of the tree,
	// looked at once a second, which is ended two seconds of it later.
	CPUSeconds int64 `json:"cpuSeconds,omitempty"`
	// OpenFiles bounds each process's descriptors.
	OpenFiles int64 `json:"openFiles,omitempty"`
	// FileBytes bounds each file that is written (RLIMIT_FSIZE): SIGXFSZ, or an error where that is ignored.
	FileBytes int64 `json:"fileBytes,omitempty"`
	// OutputBytes bounds what Attach carries. What comes after is read and dropped, so that the process doesn't stall.
	OutputBytes int64 `json:"outputBytes,omitempty"`
	// NoCore: a crash leaves no core file.
	NoCore bool `json:"noCore,omitempty"`
}

// ofTree reports whether the tree is counted as a whole.
func (l Limits) ofTree() bool { return l.MemoryBytes > 0 || l.MaxPids > 0 || l.CPUSeconds > 0 }

func (l Limits) check() error {
	for _, f := range []struct {
		name  string
		value int64
	}{
		{"memory", l.MemoryBytes}, {"address space", l.AddressSpaceBytes}, {"pids", l.MaxPids}, {"cpu", l.CPUSeconds},
		{"open files", l.OpenFiles}, {"file size", l.FileBytes}, {"output", l.OutputBytes},
	} {
		if f.value < 0 {
			return fmt.Errorf("the grant's limit on %s is %d; it must not be negative", f.name, f.value)
		}
	}
	return nil
}

// Confiner is a way to enforce grants: namespaces, Landlock, a helper program. A launcher has a list of them.
type Confiner interface {
	// Name is for messages.
	Name() string
	// Modes are the sandbox modes that it is for.
	Modes() []string
	// Enforces reports whether a grant is one for it; the first that it is one for is taken.
	Enforces(g Grant) bool
	// Check says whether a grant of one of its modes can be enforced here: nil, or an [UnsupportedError].
	Check(g Grant) error
	// Confine changes the confinement of one process so that the grant holds, or says why it can't. readOnly asks for
	// less than the grant: no writes. release, if not nil, is called once when the tree has ended, or when the start
	// has failed.
	Confine(ctx context.Context, g Grant, readOnly bool, c *Confinement) (release func(), err error)
}

// Keeper is a [Confiner] that answers for what its processes leave to others.
type Keeper interface {
	// Settle is called before a process starts that is not confined. An error means that it must not.
	Settle(Owner) error
	// Watch says that processes of a grant are to come, and for whom.
	Watch(Owner, Grant) error
	// Held is a file that launchers keep open until nothing of their tree is left: others see by it whether processes are left of a host
	// that was killed. The caller closes it. nil: there is none.
	Held() *os.File
	// Outlived says that a call has ended, of which processes may still run.
	Outlived(Owner)
	// Close is called when no process is left.
	Close() error
}

// Confinement is what a confiner may change about a process. Limits are not its concern, they apply to all.
type Confinement struct {
	Owner   Owner    // who it runs for
	Argv    []string // a helper program goes in front
	Env     []string
	Cwd     string
	Rlimits []control.Rlimit // applied between fork and exec
	Box     *control.Box     // made around the process; nil: none
	// Waits: the box may be made before its process is there, and serve another after it.
	Waits bool
	// Launcher is gantry-launch, which has to be executed in the box as well.
	Launcher string
	// End ends the process and all that it has started; it may be called until release.
	End func()
	// Hide lays covers in the process's box as soon as it runs, over what has appeared or was replaced meanwhile. It does nothing once the
	// process has ended.
	Hide func([]control.Cover) error
	// Listener is where the process's way out begins, where that is made outside of the box and not by [control.Box.Listen]. It is
	// closed with the process.
	Listener net.Listener
}

// Unconfined enforces full access: nothing. There are no namespaces under it, so that sudo and the like keep working.
type Unconfined struct{}

// Name returns "none".
func (Unconfined) Name() string { return "none" }

// Modes returns full access alone.
func (Unconfined) Modes() []string { return []string{FullAccess} }

// Enforces takes full access where nothing is denied.
func (Unconfined) Enforces(g Grant) bool { return g.Mode == FullAccess && len(g.DenyRead) == 0 }

// Check has nothing to say.
func (Unconfined) Check(Grant) error { return nil }

// Confine changes nothing.
func (Unconfined) Confine(context.Context, Grant, bool, *Confinement) (func(), error) {
	return nil, nil
}

// UnsupportedError says that a grant can't be enforced here. Nothing was started.
type UnsupportedError struct {
	Mode  string // the sandbox mode, where that is the reason
	Limit string // the limit, where that is
	What  string // what can't be done and why
	Next  string // what to do
}

// Error says what can't be enforced, and the next step.
func (e *UnsupportedError) Error() string { return e.What + "; " + e.Next }

// notHere says that a system is one on which nothing is started.
func notHere(system string, g Grant) error {
	e := &UnsupportedError{
		Mode: g.Mode, What: fmt.Sprintf("starting processes is not supported on %s", system),
		Next: "run gantry on Linux or macOS",
	}
	if system == "windows" {
		e.What = "starting processes is not supported on Windows"
		e.Next = "run gantry in WSL 2 (`wsl --install`), where all of it works"
	}
	return e
}

// notByRlimit says which limits a system can't enforce that has limits of single processes alone.
func notByRlimit(system string, lim Limits) error {
	for _, l := range []struct {
		asked      bool
		name, what string
	}{
		{lim.MemoryBytes > 0, "memory", "the limit on memory"},
		{lim.AddressSpaceBytes > 0, "address space", "the limit on address space"},
		{lim.MaxPids > 0, "pids", "the limit on processes"},
	} {
		if l.asked {
			return &UnsupportedError{
				Limit: l.name, What: l.what + " can't be enforced on " + system + ", which has none for a command and all that it starts",
				Next: "remove the limit; those on processor time, open files and the size of files are enforced",
			}
		}
	}
	return nil
}

// Check says whether a grant can be enforced here: nil, or an [UnsupportedError]. Nothing is started.
func (l *Launcher) Check(g Grant) error {
	c, err := l.confiner(g)
	if err != nil {
		return err
	}
	if err := c.Check(g); err != nil {
		return err
	}
	return l.enforceable(g)
}

// Setting is a limit as a person set it: what it bounds, how much that is, and the name by which the configuration knows it.
func (l Limits) Setting(limit string) (what, value, name string) {
	switch limit {
	case LimitMemory:
		return "memory", Bytes(l.MemoryBytes), "memory"
	case LimitPids:
		return "processes", strconv.FormatInt(l.MaxPids, 10), "pids"
	case LimitTime:
		return "processor time", (time.Duration(l.CPUSeconds) * time.Second).String(), "cpu_time"
	case LimitFile:
		return "the size of a file", Bytes(l.FileBytes), "file_size"
	}
	return limit, "", limit
}

// Bytes writes a size as the configuration does.
func Bytes(n int64) string {
	for _, u := range [...]struct {
		unit  string
		bytes int64
	}{{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}} {
		if n >= u.bytes && n%u.bytes == 0 {
			return strconv.FormatInt(n/u.bytes, 10) + u.unit
		}
	}
	return strconv.FormatInt(n, 10) + "B"
}

// confiner returns the first that enforces the grant's mode.
func (l *Launcher) confiner(g Grant) (Confiner, error) {
	if err := g.Limits.check(); err != nil {
		return nil, err
	}
	var modes []string
	for _, c := range l.cfg.Confiners {
		if c.Enforces(g) {
			return c, nil
		}
		modes = append(modes, c.Modes()...)
	}
	e := &UnsupportedError{
		Mode: g.Mode,
		What: fmt.Sprintf("sandbox mode %q can't be enforced by this build, which knows %s", g.Mode, strings.Join(modes, ", ")),
		Next: fmt.Sprintf("set sandbox { mode = %q } to run without confinement", FullAccess),
	}
	switch {
	case g.Mode == "":
		e.What = "the grant names no sandbox mode"
	case g.Mode == FullAccess:
		e.What, e.Next = "what sandbox { deny_read } names can't be kept from commands by this build", "remove it to run them all the same"
	}
	return nil, e
}
