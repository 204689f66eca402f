package proc

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/hashicorp/go-hclog"
	"golang.org/x/sys/unix"

	"github.com/gantry-agent/gantry/host/internal/launch/control"
)

// Starter starts processes from a thread of its own. The kernel sends a parent-death signal when the thread that has started a process
// ends, not when its process does, so that thread must live as long as the processes.
type Starter struct {
	logger hclog.Logger
	// level is an index of attempts: the best isolation that the system has not refused.
	level   atomic.Int32
	maximum int32

	mu struct {
		sync.Mutex
		requests chan request // nil: the thread is not running
		closed   bool
	}
	thread sync.WaitGroup
}

type request struct {
	path  string
	argv  []string
	attr  *os.ProcAttr
	reply chan reply
}

type reply struct {
	process *os.Process
	err     error
}

// attempts are the clone flags to try, best first.
var attempts = [...]uintptr{
	syscall.CLONE_NEWUSER | syscall.CLONE_NEWPID,
	syscall.CLONE_NEWPID, // for a privileged host where user namespaces are disabled
	0,
}

// NewStarter returns a starter. It starts nothing. Without namespaces, the descendants of a process are found by scanning.
func NewStarter(logger hclog.Logger, namespaces bool) *Starter {
	s := &Starter{logger: logger, maximum: int32(len(attempts) - 1)}
	if !namespaces {
		s.level.Store(s.maximum)
	}
	return s
}

// Close ends the thread. The kernel kills the processes that still run.
func (s *Starter) Close() {
	s.mu.Lock()
	if !s.mu.closed {
		s.mu.closed = true
		if s.mu.requests != nil {
			close(s.mu.requests)
		}
	}
	s.mu.Unlock()
	s.thread.Wait()
}

// run starts processes until requests is closed. It never unlocks the thread, so that the thread ends with the goroutine.
func run(requests <-chan request) {
	runtime.LockOSThread()
	if unix.Gettid() == unix.Getpid() {
		// The runtime never ends the main thread. While this goroutine occupies it, the other one gets another thread.
		done := make(chan struct{})
		go func() { defer close(done); run(requests) }() // owned by this call: awaited below
		<-done
		runtime.UnlockOSThread()
		return
	}
	for r := range requests {
		// The plugin would inherit descriptors that our own parent has left open without close-on-exec. Children of ours
		// get their descriptors explicitly.
		_ = unix.CloseRange(3, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC)
		p, err := os.StartProcess(r.path, r.argv, r.attr)
		r.reply <- reply{p, err}
	}
}

// fork asks the thread to start a process.
func (s *Starter) fork(path string, argv []string, attr *os.ProcAttr) (*os.Process, error) {
	r := request{path, argv, attr, make(chan reply, 1)}
	s.mu.Lock()
	if s.mu.closed {
		s.mu.Unlock()
		return nil, errors.New("the supervisor is closed")
	}
	if s.mu.requests == nil {
		// Each slot starts one process at a time, so the queue is bounded. The buffer only avoids waiting for the thread.
		requests := make(chan request, 8)
		s.mu.requests = requests
		s.thread.Go(func() { run(requests) })
	}
	// Send with the lock held, so that Close doesn't close the channel meanwhile. The thread always receives.
	s.mu.requests <- r
	s.mu.Unlock()
	got := <-r.reply
	return got.process, got.err
}

// Start starts a process with the best isolation that the system allows. ctx limits only the start.
func (s *Starter) Start(ctx context.Context, spec Spec) (*Process, error) {
	null, err := os.Open(os.DevNull)
	if err != nil {
		return nil, fmt.Errorf("open empty input: %w", err)
	}
	defer null.Close()
	path := spec.Path
	if spec.Binary != nil {
		// The child executes the file that this descriptor refers to, even if the path leads to another by then. The
		// descriptor is closed on exec. Its number must be above those that the child of the fork rearranges.
		fd, err := above(spec.Binary, spec.Stdout, spec.Stderr, spec.Lifeline, null)
		if err != nil {
			return nil, err
		}
		defer syscall.Close(fd)
		path = "/proc/self/fd/" + strconv.Itoa(fd)
	}
	argv := append([]string{spec.Path}, spec.Args...)
	files := []*os.File{null, spec.Stdout, spec.Stderr, spec.Lifeline}
	start := func(ctx context.Context, path string, argv []string, spec Spec, files []*os.File, flags uintptr) (*os.Process, handles, error) {
		p, err := s.attempt(ctx, path, argv, spec, files, flags)
		return p, handles{}, err
	}
	if spec.Sandbox != nil {
		start = s.confined
	}

	first := s.level.Load()
	var firstErr error
	for level := first; ; level++ {
		p, in, err := start(ctx, path, argv, spec, files, attempts[level])
		if err == nil {
			if level > first && s.level.CompareAndSwap(first, level) {
				s.logger.Warn("namespaces are not available: a plugin's processes are found by scanning, and can see all files of the user",
					"isolation", isolationOf(attempts[level]), "err", firstErr,
					"next", "allow unprivileged user namespaces for this program (kernel.unprivileged_userns_clone, or an AppArmor profile with userns)")
			}
			pr, err := newProcess(p, spec.Marker, isolationOf(attempts[level]))
			if in.listener != nil {
				pr.guard(newGate(in.listener, spec.Sandbox, s.logger))
			}
			if in.mounts != nil {
				pr.hideLater(spec.Sandbox, in.mounts)
			}
			return pr, err
		}
		if firstErr == nil {
			firstErr = err
		}
		if level == s.maximum || !refusesNamespaces(err) {
			return nil, err
		}
	}
}

// handles are the host's handles of a plugin's sandbox.
type handles struct {
	listener *os.File // notifies the gate of connections; nil: there is no gate
	mounts   *os.File // its mount namespace; nil: nothing is hidden later
}

func (in handles) close() {
	for _, f := range []*os.File{in.listener, in.mounts} {
		if f != nil {
			_ = f.Close()
		}
	}
}

// confined starts gantry-launch, which confines itself and then executes the plugin, and waits until it has.
func (s *Starter) confined(ctx context.Context, _ string, argv []string, spec Spec, files []*os.File, flags uintptr) (_ *os.Process, in handles, err error) {
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err == nil {
		err = syscall.SetNonblock(fds[0], true) // not theirs: gantry-launch reads with blocking calls
	}
	if err != nil {
		return nil, handles{}, fmt.Errorf("create a socket: %w", err)
	}
	ours, theirs := os.NewFile(uintptr(fds[0]), "sandbox"), os.NewFile(uintptr(fds[1]), "sandbox")
	defer ours.Close()
	defer theirs.Close()
	box := *spec.Sandbox.Box
	order := control.Order{Argv: argv, Env: spec.Env, Cwd: spec.Dir, Path: spec.Path, Box: &box}
	files = append(files, theirs)
	if spec.Binary != nil {
		order.Path = "/proc/self/fd/" + strconv.Itoa(control.PluginConfinedFD)
		files = append(files, spec.Binary)
	}
	if uid := os.Geteuid(); flags&syscall.CLONE_NEWUSER != 0 && uid != 0 {
		box.Map, box.UID, box.GID = true, uint32(uid), uint32(os.Getegid())
	}
	if flags == 0 {
		box.Hide, box.Show, box.Write = nil, nil, nil
		box.Isolated, box.KernelReadOnly, box.Tmp = false, false, ""
	} else {
		flags |= syscall.CLONE_NEWNS | syscall.CLONE_NEWIPC
	}
	stage := spec
	stage.Path, stage.Dir = spec.Sandbox.Launcher, "/"
	stage.Env = []string{control.StageEnv + "=" + control.StagePlugin, "GOGC=off", spec.Marker}
	path := stage.Path
	var keep *Keep
	if box.Map && spec.Sandbox.Keep != nil {
		if keep, err = spec.Sandbox.Keep(); err != nil {
			return nil, handles{}, fmt.Errorf("%w: %v", ErrOpen, err) // not %w, which could make Start try another isolation
		}
	}
	if keep != nil {
		defer keep.close()
		fd, err := above(keep.Launcher.File, append(files, ours)...)
		if err != nil {
			return nil, handles{}, err
		}
		defer syscall.Close(fd)
		path = "/proc/self/fd/" + strconv.Itoa(fd)
		stage.Env = append(stage.Env, control.MapEnv+"="+strconv.Itoa(int(box.UID)))
		if err := keep.arrange(&box, &order); err != nil {
			return nil, handles{}, err
		}
	}
	p, err := s.attempt(ctx, path, []string{"gantry-launch"}, stage, files, flags)
	if err != nil {
		return nil, handles{}, err
	}
	theirs.Close()
	if flags != 0 && spec.Sandbox.Late != nil { // while it is gantry-launch, whose namespaces we may open
		in.mounts, _ = os.Open(fmt.Sprintf("/proc/%d/ns/mnt", p.Pid))
	}
	defer context.AfterFunc(ctx, func() { p.Kill() })() // which also ends the read
	var said []byte
	// A process that has attached to this one by now could remain attached, so the order is sent only if none has.
	rerr := keep.check(p.Pid)
	if rerr == nil {
		_, rerr = ours.Write(order.Append(nil))
	}
	if rerr == nil {
		said, in.listener, rerr = listen(ours)
	}
	defer func() {
		if err != nil {
			in.close()
		}
	}()
	if rerr == nil && len(said) == 0 && ctx.Err() == nil && (in.listener != nil) == box.Gate {
		if rerr = keep.check(p.Pid); rerr == nil {
			return p, in, nil
		}
	}
	p.Kill()
	_, _ = p.Wait()
	if errors.Is(rerr, errTouched) {
		return nil, handles{}, rerr
	}
	if ctx.Err() != nil {
		return nil, handles{}, context.Cause(ctx)
	}
	words := control.Reader{Read: bytes.NewReader(said).Read}
	frame, ferr := words.Next()
	if rerr = errors.Join(rerr, ferr); rerr != nil {
		return nil, handles{}, fmt.Errorf("gantry-launch crashed: %w", rerr)
	}
	failed, ferr := frame.Failed()
	if ferr != nil {
		return nil, handles{}, fmt.Errorf("gantry-launch sent an invalid message: %w", ferr)
	}
	if failed.Op == control.OpExec {
		return nil, handles{}, &os.PathError{Op: "execute", Path: spec.Path, Err: syscall.Errno(failed.Errno)}
	}
	return nil, handles{}, &sandboxError{op: failed.Op, errno: syscall.Errno(failed.Errno)}
}

// errTouched: another process has attached to the plugin's, or has made a copy of its programs readable.
var errTouched = fmt.Errorf("%w: one has tried to inspect it while it was being started", ErrOpen)

// arrange adds the protection to an order.
func (k *Keep) arrange(box *control.Box, order *control.Order) error {
	box.Map = false // gantry-launch maps the user before it receives the order
	box.EmptyDirs = k.Stands
	for _, u := range k.Over {
		var st unix.Stat_t
		if err := unix.Fstat(int(u.Fd()), &st); err != nil {
			return fmt.Errorf("examine %s: %w", u.Name, err)
		}
		box.Overlays = append(box.Overlays, control.Overlay{Path: u.Path, File: u.Name, Dev: st.Dev, Ino: st.Ino})
		if real, err := filepath.EvalSymlinks(order.Argv[0]); err == nil && real == u.Path {
			order.Path = u.Path
		}
	}
	return nil
}

// check returns an error if another process has attached to the process, or can because a file was made readable. If others can attach
// although the files are unchanged the kernel does not have this rule, and the process counts as open. A debugger of the host may also
// follow its children.
func (k *Keep) check(pid int) error {
	if k != nil && (traced(pid) && !traced(os.Getpid()) || open(pid) && !k.unchanged()) {
		return errTouched
	}
	return nil
}

// open reports whether processes of this user can inspect a process, that is whether we can.
func open(pid int) bool {
	_, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/user", pid))
	return err == nil
}

// traced reports whether a debugger is attached to a process.
func traced(pid int) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	return err == nil && !strings.Contains(string(b), "\nTracerPid:\t0\n")
}

// sandboxError says that a plugin could not be confined.
type sandboxError struct {
	op    control.Op
	errno syscall.Errno
}

func (e *sandboxError) Error() string {
	return fmt.Sprintf("the plugin could not be confined (%s): %v", e.op, e.errno)
}

func (e *sandboxError) Unwrap() error { return e.errno }

func isolationOf(flags uintptr) Isolation {
	if flags == 0 {
		return IsolationScan
	}
	return IsolationNamespace
}

// refusesNamespaces reports whether err may be about namespaces. It may also be about the file: that is known once a start without
// namespaces succeeds.
func refusesNamespaces(err error) bool {
	for _, e := range []error{unix.EPERM, unix.EACCES, unix.EINVAL, unix.ENOSYS, unix.ENOSPC, unix.EUSERS} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// textBusyRetries and textBusyDelay are for ETXTBSY: if another part of the host forks while a new binary is being written, the child has
// the writer's descriptor until it executes, less than a millisecond later.
const (
	textBusyRetries = 3
	textBusyDelay   = time.Millisecond
)

func (s *Starter) attempt(ctx context.Context, path string, argv []string, spec Spec, files []*os.File, flags uintptr) (*os.Process, error) {
	for try := 0; ; try++ {
		sys := &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL, Cloneflags: flags}
		if flags&syscall.CLONE_NEWUSER != 0 {
			if spec.Sandbox == nil || os.Geteuid() == 0 { // else gantry-launch does it, see control.Box.Map
				if err := mapIdentity(sys); err != nil {
					return nil, err
				}
			} else {
				const setpcap, sysAdmin = 8, 21 // in its own user namespace, to create the sandbox
				sys.AmbientCaps = []uintptr{setpcap, sysAdmin}
			}
		}
		p, err := s.fork(path, argv, &os.ProcAttr{Dir: spec.Dir, Env: spec.Env, Files: files, Sys: sys})
		if err == nil || !errors.Is(err, unix.ETXTBSY) || try == textBusyRetries {
			return p, withoutDescriptor(err, path, spec.Path)
		}
		wait := time.NewTimer(textBusyDelay)
		select {
		case <-wait.C:
		case <-ctx.Done():
			wait.Stop()
			return nil, context.Cause(ctx)
		}
	}
}

// withoutDescriptor replaces the path of a descriptor in an error with the path that users know.
func withoutDescriptor(err error, used, known string) error {
	if pe, ok := errors.AsType[*os.PathError](err); ok && pe.Path == used {
		return &os.PathError{Op: "execute", Path: known, Err: pe.Err}
	}
	return err
}

// above duplicates f to a number well above those of the other files. Before it executes the new program, the child of a fork uses a few
// numbers right above the highest that it was given.
func above(f *os.File, others ...*os.File) (int, error) {
	const gap = 16
	high := 0
	for _, o := range others {
		if c, err := o.SyscallConn(); err == nil {
			_ = c.Control(func(fd uintptr) { high = max(high, int(fd)) })
		}
	}
	dup, dupErr := -1, error(nil)
	c, err := f.SyscallConn()
	if err == nil {
		err = c.Control(func(fd uintptr) { dup, dupErr = unix.FcntlInt(fd, unix.F_DUPFD_CLOEXEC, high+gap) })
	}
	if err := errors.Join(err, dupErr); err != nil {
		return -1, fmt.Errorf("duplicate the descriptor of the binary: %w", err)
	}
	return dup, nil
}

// mapIdentity maps users and groups to themselves in the new namespace: an ordinary host can map only itself; a privileged one maps all,
// so that files of other users keep their owners.
func mapIdentity(sys *syscall.SysProcAttr) error {
	uid, gid := os.Geteuid(), os.Getegid()
	if uid != 0 {
		sys.UidMappings = []syscall.SysProcIDMap{{ContainerID: uid, HostID: uid, Size: 1}}
		sys.GidMappings = []syscall.SysProcIDMap{{ContainerID: gid, HostID: gid, Size: 1}}
		return nil
	}
	var err error
	if sys.UidMappings, err = identityOf("/proc/self/uid_map"); err != nil {
		return err
	}
	if sys.GidMappings, err = identityOf("/proc/self/gid_map"); err != nil {
		return err
	}
	sys.GidMappingsEnableSetgroups = true
	return nil
}

// identityOf maps each id that exists in our own namespace to itself.
func identityOf(path string) ([]syscall.SysProcIDMap, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read our own id map: %w", err)
	}
	var maps []syscall.SysProcIDMap
	for line := range strings.Lines(string(b)) {
		f := strings.Fields(line)
		if len(f) != 3 {
			continue
		}
		inside, err1 := strconv.Atoi(f[0])
		size, err2 := strconv.Atoi(f[2])
		if err := errors.Join(err1, err2); err != nil {
			return nil, fmt.Errorf("read our own id map: %w", err)
		}
		maps = append(maps, syscall.SysProcIDMap{ContainerID: inside, HostID: inside, Size: size})
	}
	return maps, nil
}
