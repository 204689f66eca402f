// Package control is the protocol between the host and gantry-launch.
//
// It owns: the frames, their encoding, and the limit on their size. It must not know: how a process is started, what a grant is, who
// asked for it. It imports next to nothing, because every gantry-launch pays for its initialization.
//
// Start with [Order], which starts a process, and [Reader].
package control

// Version comes first in every order. Host and gantry-launch are from one build; gantry-launch refuses an order with another version.
const Version = 10

// StageEnv names the variable that selects the stage of gantry-launch.
const StageEnv = "GANTRY_LAUNCH_STAGE"

// MapEnv names the variable with the id of the only user that the plugin stage maps in its user namespace, if the stage must not be
// inspected. It has to do that before it receives its order.
const MapEnv = "GANTRY_LAUNCH_MAP"

// The stages.
const (
	StageWatch  = "watch" // starts the target and remains the parent of its tree
	StagePlugin = "cage"  // confines itself and executes a plugin
	StageApply  = "apply" // applies limits and the inner part of a sandbox to itself and executes the target
	StageKeep   = "keep"  // the first process of a sandbox that is reused for several targets
	StageHide   = "hide"  // hides files in the sandbox of a plugin that runs, as one Hide says, and exits
)

// Descriptors of the stages.
const (
	// FD is the control socket. It is also descriptor 2, so that the host receives the stack of a gantry-launch that crashes.
	// [Reader] distinguishes text from frames.
	FD = 0
	// HeldFD is a file of the host that the first stage keeps open until it ends, or the control socket again.
	HeldFD = 1
	// Targets is how many descriptors come with the order's first byte: the target's stdin, stdout and stderr. With [Box.Listen]
	// there is a fourth, a socket over which the apply stage sends its listener.
	Targets = 3
	// ApplyFD is the apply stage's socket to the first stage. In a sandbox the target's descriptors come with the order: the first
	// three descriptors of the stage are bubblewrap's, whose messages must not get into the target's output.
	ApplyFD = 3
	// TargetFD is the first of the target's three descriptors in macOS's apply stage, which inherits them.
	TargetFD = 4
	// BoxFD is a pipe with bubblewrap's arguments, which all users could read on its command line.
	BoxFD = 4
	// PluginSandboxFD is the plugin stage's socket to the host, and PluginConfinedFD the plugin's program, unless that is a script.
	// Lower descriptors are the plugin's own.
	PluginSandboxFD  = 4
	PluginConfinedFD = 5
	// MountsFD is the mount namespace in which the hide stage hides files.
	MountsFD = 3
	// GateByte comes with the listener of a [Box.Gate], before the plugin runs. No frame begins with it.
	GateByte = 1
	// SelfFD is the program gantry-launch, which may not be visible in the sandbox.
	SelfFD = 5
)

// ProxyPort is the port of the proxy on the loopback interface of a sandbox. The sandbox has a network namespace of its own, so the port
// is free.
const ProxyPort = 3128

// Beside is a folder beside the root of a sandbox, which exists while bubblewrap creates the sandbox. Where one of its arguments begins with
// it, gantry-launch gives the folder a random name.
const Beside = "/../gantry-writable"

// Kind is the first byte of a frame. All kinds are above ASCII.
type Kind byte

// From the host.
const (
	KindUnknown Kind = 0
	KindOrder   Kind = 0x80 + iota
	KindSignal
	KindKill
	KindHide
)

// From the launcher.
const (
	KindStarted Kind = 0xC0 + iota
	KindFailed
	KindExited
	KindReplied
	KindLeft
	KindUsed
	KindPrepared
	KindFree
)

// Op says which step of a start failed.
type Op byte

// The steps.
const (
	OpUnknown  Op = iota
	OpVersion     // the order is of another version
	OpPrepare     // the initialization of a stage
	OpChdir       // the working directory
	OpExec        // finding or executing the program
	OpLimit       // a limit of the grant
	OpCgroup      // the control group
	OpTerminal    // the controlling terminal
	OpConfine     // the sandbox
)

var opNames = [...]string{"unknown", "version", "prepare", "chdir", "exec", "limit", "cgroup", "terminal", "confine"}

// String names the step.
func (o Op) String() string {
	if int(o) >= len(opNames) {
		return opNames[0]
	}
	return opNames[o]
}

// Rlimit is one resource limit. Resource is the kernel's number.
type Rlimit struct {
	Resource   uint32
	Soft, Hard uint64
}

// Order is a process to start. gantry-launch receives one, and another after it has sent Free. An order with a Box but without Argv may
// come before it: the sandbox is created and waits.
type Order struct {
	Argv []string
	Env  []string
	Cwd  string
	// Path is the program that was found; only from the first stage to the second.
	Path string
	// Terminal: the target's stdin is a terminal, which becomes its controlling terminal.
	Terminal bool
	// Rlimits are applied by the second stage, between fork and exec.
	Rlimits []Rlimit
	// Cgroup is the folder of the target's control group of version 2; empty: none. Groups are the folders of its groups of version
	// 1, one for each hierarchy with a limit.
	Cgroup string
	Groups []string
	// Box confines the target; nil: it is not confined.
	Box *Box
	// LifelineGraceMS is the time between SIGTERM and SIGKILL after the host has ended.
	LifelineGraceMS uint32
	// Reusable: gantry-launch may wait for another order after the tree has ended. Otherwise it ends. With a Box the sandbox waits as
	// well, for orders with the same Box; it was created by an order of its own, also with Reusable. It is not used with groups.
	Reusable bool
}

// Box is a sandbox. A command's has namespaces and mounts that bubblewrap creates, and in them Landlock and a filter of system calls,
// which the apply stage applies to itself. A plugin's is created by the plugin stage alone.
type Box struct {
	Helper string   // the absolute path of bubblewrap; of sandbox-exec on macOS
	Args   []string // its arguments, without the command; see [Beside]
	// Filter is a seccomp program: its instructions, 8 bytes each.
	Filter []byte
	// Handled are the rights to files that Landlock removes, except where a rule grants them; 0: no Landlock.
	Handled uint64
	// Scoped are the kinds of communication that Landlock limits to the sandbox; 0: none.
	Scoped uint64
	Rules  []Rule
	// Covers are the files that must be hidden once the sandbox is created; otherwise the target does not run.
	Covers []Cover
	// Hide are folders and files that a plugin's sandbox hides, and Show those inside of them that remain visible, parents before
	// their children.
	Hide, Show []string
	// EmptyDirs is a folder in which a plugin's sandbox creates empty folders to hide others with. If it is empty each folder is hidden
	// with a file system of its own, which is not possible while the user or group is not mapped in the user namespace.
	EmptyDirs string
	// Overlays are files that a plugin's sandbox mounts over others.
	Overlays []Overlay
	// Map: the plugin stage maps UID and GID to themselves in its user namespace. The host can't do it if it is protected from
	// inspection: then its files in /proc belong to root.
	Map      bool
	UID, GID uint32
	// Isolated: a plugin's sandbox has new /dev, /proc, /tmp and /dev/shm, and everything else except Write is read-only. KernelReadOnly: in a
	// plugin's sandbox /proc and /sys are read-only; in a command's, the modes of devices, which are the machine's, can't be changed.
	Isolated, KernelReadOnly bool
	// Write are those of Show that can be written. With Isolated, Tmp is the folder that is mounted at /tmp, and ShmBytes the size of
	// /dev/shm.
	Write    []string
	Tmp      string
	ShmBytes uint64
	// Gate: the host makes the connections of a plugin. It receives the listener of the filter's notifications before the plugin runs.
	Gate bool
	// Listen: the apply stage listens on ProxyPort of the sandbox's loopback interface and sends the listener to the host.
	Listen bool
}

// Rule grants rights to a folder and everything below it. A rule whose path does not exist is ignored. With Dev and Ino the path must lead
// to the folder with that identity, even without Landlock; otherwise the target does not run.
type Rule struct {
	Path     string
	Access   uint64
	Dev, Ino uint64
}

// Cover is a file or folder to hide. Once it is hidden, its path leads to another file than before, or without WasDev and WasInode to a
// read-only one, in the same folder as before: moving folders while a sandbox is created must not move the cover elsewhere.
type Cover struct {
	Path             string
	Dev, Ino         uint64 // of the folder that contains it
	WasDev, WasInode uint64 // of the file to hide
	Folder           bool   // it is a folder; only in [Hide]
}

// Overlay is a file that is mounted over the one at Path. The target does not run if the file has another identity.
type Overlay struct {
	Path, File string
	Dev, Ino   uint64
}

// Signal sends a signal to the target, or to its process group. gantry-launch responds with Replied.
type Signal struct {
	Seq    uint32
	Number uint32
	Group  bool
}

// Kill ends the whole tree: SIGTERM, then after the grace SIGKILL. A second one can only shorten the grace.
type Kill struct {
	GraceMS uint32
}

// Hide hides files and folders in the sandbox of a target that runs, which have appeared or were replaced since it was created. It ignores
// what is hidden already or not visible in the sandbox. gantry-launch responds with Replied.
type Hide struct {
	Seq    uint32
	Covers []Cover
}

// Started reports that the target runs.
type Started struct {
	PID uint32
}

// Failed reports that the target does not run. gantry-launch ends after it.
type Failed struct {
	Op    Op
	Errno uint32
	Text  string // bubblewrap's message; for OpConfine
}

// Exited reports that the target has ended; the rest of its tree may still run.
type Exited struct {
	Code         uint32 // of exit; 0 with a signal
	Signal       uint32
	UserMicros   uint64
	SystemMicros uint64
	MaxRSSKiB    uint64
}

// Used reports the resources that the whole tree has used, after it has ended. MaxRSSKiB is the maximum of its processes.
type Used struct {
	UserMicros   uint64
	SystemMicros uint64
	MaxRSSKiB    uint64
}

// Replied is the response to a Signal or a Hide.
type Replied struct {
	Seq   uint32
	Errno uint32
}

// Left reports how many processes of the tree could not be killed. gantry-launch ends after it.
type Left struct {
	Count uint32
}

// Prepared reports that a sandbox was created and waits for its order. PID is the id of the stage in it.
type Prepared struct {
	PID uint32
}

// Free reports that nothing is left of the tree, and that gantry-launch waits for another order; the keep stage reports it to the first
// stage as well. It is the last frame about the tree: gantry-launch skips frames about it that the host has sent before it received Free.
type Free struct{}
