// Package control is the language that the host and gantry-launch speak over the socket between them.
//
// It owns: the frames, their encoding, and the bound on their size. It must not know: how a process is started, what a
// grant is, who asked. It imports next to nothing, because its start-up cost is paid by every process that is launched.
//
// Start with [Order], what the launcher is told, and [Reader].
package control

// Version is said first in every order. Host and launcher come from one build; a launcher that finds another number says
// so instead of guessing.
const Version = 10

// StageEnv names the variable that tells gantry-launch which of its stages it is.
const StageEnv = "GANTRY_LAUNCH_STAGE"

// MapEnv names the variable with the number of the user that the cage stage maps in its user namespace, as the only one, when nobody
// may look into it: it has to, before it knows its order.
const MapEnv = "GANTRY_LAUNCH_MAP"

// The stages.
const (
	StageWatch  = "watch" // starts the target, watches over its tree
	StagePlugin = "cage"  // encloses itself, then becomes a plugin
	StageApply  = "apply" // applies limits and the inner part of a box to itself, then becomes the target
	StageKeep   = "keep"  // the first process of a box that serves one target after another
	StageHide   = "hide"  // lays covers in a cage in which a plugin runs, by one Hide, and ends
)

// Descriptors of the launcher, and of the apply stage.
const (
	// FD is the control socket. The host gives it as 0 and 2, so that the last words of a crashing launcher arrive on
	// it too: they are no frame, which is how [Reader] tells.
	FD = 0
	// HeldFD is what the first stage keeps open until it ends, and does not use: a file of the host's, or the control socket again.
	HeldFD = 1
	// Targets is how many descriptors travel with the order's first byte: the target's stdin, stdout and stderr. To a box whose
	// [Box.Listen] is set comes a fourth, where the apply stage sends what listens there.
	Targets = 3
	// ApplyFD is the apply stage's socket to the first stage. In a box the order brings the target's descriptors: its own first
	// three are bubblewrap's, and what that says must not reach the target's output.
	ApplyFD = 3
	// TargetFD is the first of the target's three descriptors in an apply stage that gets no more with its order, which is macOS's.
	TargetFD = 4
	// BoxFD is where bubblewrap finds its arguments: in the argument list everybody could read them.
	BoxFD = 4
	// PluginSandboxFD is the cage stage's socket to the host, and PluginConfinedFD the plugin's program where that is no script. The descriptors
	// below are the plugin's own.
	PluginSandboxFD  = 4
	PluginConfinedFD = 5
	// MountsFD is the mount namespace of the cage in which the hide stage lays covers.
	MountsFD = 3
	// GateByte comes with the listener of a [Box.Gate], before the plugin runs. No frame begins with it.
	GateByte = 1
	// SelfFD is gantry-launch itself, which may not be visible in the box.
	SelfFD = 5
)

// ProxyPort is where a box's own loopback listens when the box has a proxy. Its network is its own, so nobody else does.
const ProxyPort = 3128

// Kind is the first byte of a frame. All are above ASCII.
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
	OpPrepare     // the launcher could not set itself up
	OpChdir       // the working directory
	OpExec        // finding or executing the program
	OpLimit       // a limit that the grant asks for
	OpCgroup      // the control group
	OpTerminal    // the controlling terminal
	OpConfine     // the box
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

// Order is what to start. The launcher receives one, and another one after it has said that it is free. Before an order may come one
// with a box and no Argv, whose box is made and waits.
type Order struct {
	Argv []string
	Env  []string
	Cwd  string
	// Path is the program, found already; only from the first stage to the second.
	Path string
	// Terminal: the target's stdin is a terminal that becomes its controlling one.
	Terminal bool
	// Rlimits are applied by the second stage, between fork and exec.
	Rlimits []Rlimit
	// Cgroup is the folder of a control group of the target's own, of version 2; empty: none. Groups are the folders of those of
	// version 1, one for each hierarchy that counts something.
	Cgroup string
	Groups []string
	// Box confines the target; nil: nothing does.
	Box *Box
	// LifelineGraceMS is how long the tree has between SIGTERM and SIGKILL after the host has gone.
	LifelineGraceMS uint32
	// Again: the launcher may stay when the tree has ended, for another order. Otherwise it ends as well. With a Box it and the box
	// stay, for orders with the same one; the box has been made by an order of its own that says Again as well. Not with groups.
	Again bool
}

// Box is what confines a target: namespaces and mounts made by bubblewrap, and inside of them Landlock and a filter of
// system calls, which the apply stage puts on itself.
type Box struct {
	Helper string   // bubblewrap's program, absolute
	Args   []string // its arguments, without the command
	// Filter is a seccomp program: the bytes of its instructions, 8 each.
	Filter []byte
	// Handled are the rights to files that Landlock takes away where no rule gives them back; 0: no Landlock.
	Handled uint64
	// Scoped are the kinds of reaching out that Landlock keeps inside; 0: none.
	Scoped uint64
	Rules  []Rule
	// Covers are what has to be covered in the box once it is made; otherwise the target does not run.
	Covers []Cover
	// Hide are folders and files that a cage covers, Show those below them that stay, from shallow to deep. Both are of a cage
	// only, which makes its mounts itself.
	Hide, Show []string
	// Stands is a folder in which a cage makes what it covers folders with; empty: it covers them with file systems of its own, in
	// which it can make nothing while its namespace lacks its user or group.
	Stands string
	// Over are files that a cage mounts over others.
	Over []Over
	// Map: the cage stage maps UID and GID to themselves in its user namespace. Only it can: a host that nobody may look into may
	// not write what is its own in /proc, unless it is root's.
	Map      bool
	UID, GID uint32
	// Apart: a cage makes /dev, /proc, /tmp and /dev/shm anew, and everything else read-only but Write. Kernel: it makes /proc and /sys
	// read-only, and leaves the rest as it is. In a box it stands for devices that are the machine's: nothing there changes their modes.
	Apart, Kernel bool
	// Write are those of Show that can be written. Tmp is the folder that an Apart cage sees as /tmp, ShmBytes what its /dev/shm takes.
	Write    []string
	Tmp      string
	ShmBytes uint64
	// Gate: connections of a cage's process are made by the host, which receives the filter's listener before the process runs.
	Gate bool
	// Listen: the apply stage listens on ProxyPort of the box's loopback and hands that to the host, which accepts there.
	Listen bool
}

// Rule gives rights back, in a folder and below it. One whose path is missing is left out. With Dev and Ino the path has to be
// that very folder, also where Landlock is missing; otherwise the target does not run.
type Rule struct {
	Path     string
	Access   uint64
	Dev, Ino uint64
}

// Cover is a path at which something else must lie than the file that was there, or without WasDev and WasInode something that is
// read-only, in the very folder that it was found in: who moves folders about while a box is made must not have the cover laid elsewhere.
type Cover struct {
	Path             string
	Dev, Ino         uint64 // of the folder that it lies in
	WasDev, WasInode uint64
	Folder           bool // what was there; of [Hide] alone
}

// Over is a file that is mounted over the one at Path. It is the one with this identity, or the target does not run.
type Over struct {
	Path, File string
	Dev, Ino   uint64
}

// Signal asks for a signal to the target, or to its process group. The launcher answers with Replied.
type Signal struct {
	Seq    uint32
	Number uint32
	Group  bool
}

// Kill asks for the end of the whole tree: SIGTERM, then after the grace SIGKILL. A second one can only shorten.
type Kill struct {
	GraceMS uint32
}

// Hide asks for covers in the box of a target that runs: over the files and folders that have appeared since it was made, or were replaced.
// What is covered already, or is not seen in the box, is left as it is. The launcher answers with Replied.
type Hide struct {
	Seq    uint32
	Covers []Cover
}

// Started says that the target runs.
type Started struct {
	PID uint32
}

// Failed says that the target does not run. The launcher ends after it.
type Failed struct {
	Op    Op
	Errno uint32
	Text  string // what bubblewrap said; for OpConfine
}

// Exited says that the target has ended; others of its tree may still run.
type Exited struct {
	Code         uint32 // of exit; 0 with a signal
	Signal       uint32
	UserMicros   uint64
	SystemMicros uint64
	MaxRSSKiB    uint64
}

// Used says what the whole tree has used, once nothing of it is left. MaxRSSKiB is the largest of its processes.
type Used struct {
	UserMicros   uint64
	SystemMicros uint64
	MaxRSSKiB    uint64
}

// Replied answers a Signal or a Hide.
type Replied struct {
	Seq   uint32
	Errno uint32
}

// Left says how many processes of the tree could not be killed. The launcher ends after it.
type Left struct {
	Count uint32
}

// Prepared says that a box was made and waits for its order. PID is the apply stage's in it.
type Prepared struct {
	PID uint32
}

// Free says that nothing is left of the tree, and that the launcher waits for another order; the apply stage's counterpart in a box says
// it as well. It is the last word on the tree: what the host has said of it and the launcher has not read yet is passed over.
type Free struct{}
