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

// Starter starts processes from one thread of its own. A parent-death signal is sent when the thread that started a
// process ends, not when its process does, so that thread must live as long as the processes.
type Starter struct {
	logger hclog.Logger
	// level indexes attempts: the first isolation that the system is not known to refuse.
	level   atomic.Int32
	maximum int32

	mu struct {
		sync.Mutex
		requests chan request // nil: the thread isn't running
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
	syscall.CLONE_NEWPID, // works for a privileged host where user namespaces are switched off
	0,
}

// NewStarter starts nothing. Without namespaces the tree is kept together by looking for its processes.
func NewStarter(logger hclog.Logger, namespaces bool) *Starter {
	s := &Starter{logger: logger, maximum: int32(len(attempts) - 1)}
	if !namespaces {
		s.level.Store(s.maximum)
	}
	return s
}

// Close ends the thread. Processes that still run are killed by the kernel.
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

// run starts processes until requests is closed. It never unlocks the thread: the goroutine's end is the thread's end.
func run(requests <-chan request) {
	runtime.LockOSThread()
	if unix.Gettid() == unix.Getpid() {
		// The runtime never ends the main thread. While this goroutine holds it, the other one gets another.
		done := make(chan struct{})
		go func() { defer close(done); run(requests) }() // owned by this call: awaited below
		<-done
		runtime.UnlockOSThread()
		return
	}
	for r := range requests {
		// What our own parent left open without close-on-exec would reach the plugin. Nothing of ours relies on
		// inheritance: the descriptors that a child shall have are named one by one.
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
		// Unbounded starts don't exist: each slot starts one process at a time. The buffer only spares a hand-over.
		requests := make(chan request, 8)
		s.mu.requests = requests
		s.thread.Go(func() { run(requests) })
	}
	// Sending under the lock keeps Close from closing the channel meanwhile; the thread always receives.
	s.mu.requests <- r
	s.mu.Unlock()
	got := <-r.reply
	return got.process, got.err
}

// Start starts a process under the best isolation that the system allows. ctx only bounds the start.
func (s *Starter) Start(ctx context.Context, spec Spec) (*Process, error) {
	null, err := os.Open(os.DevNull)
	if err != nil {
		return nil, fmt.Errorf("open empty input: %w", err)
	}
	defer null.Close()
	path := spec.Path
	if spec.Binary != nil {
		// The child executes what this descriptor refers to, whatever the path says by then. It is closed by that very
		// execution. Its number must lie above those that the child rearranges on its way.
		fd, err := above(spec.Binary, spec.Stdout, spec.Stderr, spec.Lifeline, null)
		if err != nil {
			return nil, err
		}
		defer syscall.Close(fd)
		path = "/proc/self/fd/" + strconv.Itoa(fd)
	}
	argv := append([]string{spec.Path}, spec.Args...)
	files := []*os.File{null, spec.Stdout, spec.Stderr, spec.Lifeline}
	start := func(ctx context.Context, path string, argv []string, spec Spec, files []*os.File, flags uintptr) (*os.Process, inCage, error) {
		p, err := s.attempt(ctx, path, argv, spec, files, flags)
		return p, inCage{}, err
	}
	if spec.Sandbox != nil {
		start = s.caged
	}

	first := s.level.Load()
	var firstErr error
	for level := first; ; level++ {
		p, in, err := start(ctx, path, argv, spec, files, attempts[level])
		if err == nil {
			if level > first && s.level.CompareAndSwap(first, level) {
				s.logger.Warn("namespaces are not available, a plugin's processes are kept together by scanning, and see all files of the user",
					"isolation", isolationOf(attempts[level]), "err", firstErr,
					"next", "allow unprivileged user namespaces for this program (kernel.unprivileged_userns_clone, or an AppArmor profile with userns)")
			}
			pr, err := newProcess(p, spec.Marker, isolationOf(attempts[level]))
			if in.listener != nil {
				pr.guard(newGate(in.listener, spec.Sandbox, s.logger))
			}
			if in.mounts != nil {
				pr.cover(spec.Sandbox, in.mounts)
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

// inCage is what the host holds of a cage.
type inCage struct {
	listener *os.File // asks about its connections; nil: nothing does
	mounts   *os.File // its mount namespace; nil: nothing is covered later
}

func (in inCage) close() {
	for _, f := range []*os.File{in.listener, in.mounts} {
		if f != nil {
			_ = f.Close()
		}
	}
}

// caged starts a process by way of gantry-launch, which puts its cage on, and waits until it has become the plugin.
func (s *Starter) caged(ctx context.Context, _ string, argv []string, spec Spec, files []*os.File, flags uintptr) (_ *os.Process, in inCage, err error) {
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err == nil {
		err = syscall.SetNonblock(fds[0], true) // not theirs: gantry-launch waits for what it reads
	}
	if err != nil {
		return nil, inCage{}, fmt.Errorf("make a socket: %w", err)
	}
	ours, theirs := os.NewFile(uintptr(fds[0]), "cage"), os.NewFile(uintptr(fds[1]), "cage")
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
		box.Apart, box.Kernel, box.Tmp = false, false, ""
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
			return nil, inCage{}, fmt.Errorf("%w: %v", ErrOpen, err) // not %w: no other isolation may be tried because of this
		}
	}
	if keep != nil {
		defer keep.close()
		fd, err := above(keep.Launcher.File, append(files, ours)...)
		if err != nil {
			return nil, inCage{}, err
		}
		defer syscall.Close(fd)
		path = "/proc/self/fd/" + strconv.Itoa(fd)
		stage.Env = append(stage.Env, control.MapEnv+"="+strconv.Itoa(int(box.UID)))
		if err := keep.arrange(&box, &order); err != nil {
			return nil, inCage{}, err
		}
	}
	p, err := s.attempt(ctx, path, []string{"gantry-launch"}, stage, files, flags)
	if err != nil {
		return nil, inCage{}, err
	}
	theirs.Close()
	if flags != 0 && spec.Sandbox.Late != nil { // while it is gantry-launch, and keeps nobody out that may be in
		in.mounts, _ = os.Open(fmt.Sprintf("/proc/%d/ns/mnt", p.Pid))
	}
	defer context.AfterFunc(ctx, func() { p.Kill() })() // which ends the read, too
	var said []byte
	// Who has got into the process by now could stay in it, so it learns its order only when nobody can have.
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
		return nil, inCage{}, rerr
	}
	if ctx.Err() != nil {
		return nil, inCage{}, context.Cause(ctx)
	}
	words := control.Reader{Read: bytes.NewReader(said).Read}
	frame, ferr := words.Next()
	if rerr = errors.Join(rerr, ferr); rerr != nil {
		return nil, inCage{}, fmt.Errorf("gantry-launch crashed: %w", rerr)
	}
	failed, ferr := frame.Failed()
	if ferr != nil {
		return nil, inCage{}, fmt.Errorf("gantry-launch said something that can't be understood: %w", ferr)
	}
	if failed.Op == control.OpExec {
		return nil, inCage{}, &os.PathError{Op: "execute", Path: spec.Path, Err: syscall.Errno(failed.Errno)}
	}
	return nil, inCage{}, &sandboxError{op: failed.Op, errno: syscall.Errno(failed.Errno)}
}

// errTouched: somebody has made readable what must not be, or has got into a process by then.
var errTouched = fmt.Errorf("%w: one has tried to look into it while it started", ErrOpen)

// arrange puts what keeps others out into the order.
func (k *Keep) arrange(box *control.Box, order *control.Order) error {
	box.Map = false // it happens before there is an order
	box.Stands = k.Stands
	for _, u := range k.Over {
		var st unix.Stat_t
		if err := unix.Fstat(int(u.Fd()), &st); err != nil {
			return fmt.Errorf("look at %s: %w", u.Name, err)
		}
		box.Over = append(box.Over, control.Over{Path: u.Path, File: u.Name, Dev: st.Dev, Ino: st.Ino})
		if real, err := filepath.EvalSymlinks(order.Argv[0]); err == nil && real == u.Path {
			order.Path = u.Path
		}
	}
	return nil
}

// check returns an error when somebody else has got into the process, or can because the files were made readable. Where others can
// get in although nobody has touched the files the kernel has no such rule, and the process counts as open. Who debugs us follows us.
func (k *Keep) check(pid int) error {
	if k != nil && (traced(pid) && !traced(os.Getpid()) || open(pid) && !k.unchanged()) {
		return errTouched
	}
	return nil
}

// open tells whether a process of this user can look into a process: whether we can.
func open(pid int) bool {
	_, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/user", pid))
	return err == nil
}

// traced tells whether somebody does.
func traced(pid int) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	return err == nil && !strings.Contains(string(b), "\nTracerPid:\t0\n")
}

// sandboxError says that a cage could not be made.
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

// refusesNamespaces tells whether err may be about the namespaces. It may as well be about the file: only a later success
// without them settles that.
func refusesNamespaces(err error) bool {
	for _, e := range []error{unix.EPERM, unix.EACCES, unix.EINVAL, unix.ENOSYS, unix.ENOSPC, unix.EUSERS} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// textBusyRetries and textBusyDelay: a writer's descriptor that leaked into a process which is being forked elsewhere in
// the host makes a fresh binary "busy" for less than a millisecond.
const (
	textBusyRetries = 3
	textBusyDelay   = time.Millisecond
)

func (s *Starter) attempt(ctx context.Context, path string, argv []string, spec Spec, files []*os.File, flags uintptr) (*os.Process, error) {
	for try := 0; ; try++ {
		sys := &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL, Cloneflags: flags}
		if flags&syscall.CLONE_NEWUSER != 0 {
			if spec.Sandbox == nil || os.Geteuid() == 0 { // else the cage stage does it: see control.Box
				if err := mapIdentity(sys); err != nil {
					return nil, err
				}
			} else {
				const setpcap, sysAdmin = 8, 21 // in its own namespace, to make the cage with
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

// withoutDescriptor puts the path that people know into an error.
func withoutDescriptor(err error, used, known string) error {
	if pe, ok := errors.AsType[*os.PathError](err); ok && pe.Path == used {
		return &os.PathError{Op: "execute", Path: known, Err: pe.Err}
	}
	return err
}

// above duplicates f to a number well above those of the other files. On its way to the new program the child of a fork
// uses a few numbers right above the highest that it was given.
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

// mapIdentity maps users and groups into the new namespace as they are: an ordinary host can map itself only, a
// privileged one everybody, so that files of other users keep their owners.
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

// identityOf reads which ids exist in our own namespace and maps each to itself.
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
