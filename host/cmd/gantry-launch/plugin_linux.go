//go:build !family

package main

import (
	"runtime"
	"syscall"
	"unsafe"

	"github.com/gantry-agent/gantry/host/internal/launch/control"
)

const oPath = 0x200000

// becomePlugin is a stage: it hides what a plugin must not see, gives up all capabilities, confines itself and executes the plugin. It
// does not return. The execution closes its socket: if the host reads nothing before that, the plugin runs.
func becomePlugin() {
	runtime.LockOSThread() // the confinement applies to this thread, which executes the plugin
	syscall.CloseOnExec(control.PluginSandboxFD)
	syscall.CloseOnExec(control.PluginConfinedFD)
	if uid, ok := syscall.Getenv(control.MapEnv); ok {
		if err := mapProtected(uid); err != nil {
			fail(control.PluginSandboxFD, control.OpConfine, err)
		}
	}
	frame, err := receive(control.PluginSandboxFD).Next()
	if err != nil {
		syscall.Exit(1)
	}
	order, err := frame.Order()
	if err != nil || order.Box == nil {
		fail(control.PluginSandboxFD, control.OpPrepare, syscall.EPROTO)
	}
	argv, err := syscall.SlicePtrFromStrings(order.Argv)
	if err != nil {
		fail(control.PluginSandboxFD, control.OpExec, err)
	}
	env, err := syscall.SlicePtrFromStrings(order.Env)
	if err != nil {
		fail(control.PluginSandboxFD, control.OpExec, err)
	}
	if order.Box.Map {
		if err := mapSelf(order.Box.UID, order.Box.GID); err != nil {
			fail(control.PluginSandboxFD, control.OpConfine, err)
		}
	}
	over, err := openOverlays(order.Box.Overlays)
	if x := order.Box; err == nil && (len(x.Hide) > 0 || x.Isolated || x.KernelReadOnly) {
		err = arrange(x)
	}
	found := order.Path
	if err == nil {
		found, err = mountOverlays(order.Box.Overlays, over, found)
	}
	if err != nil {
		fail(control.PluginSandboxFD, control.OpConfine, err)
	}
	path, err := syscall.BytePtrFromString(found)
	if err != nil {
		fail(control.PluginSandboxFD, control.OpExec, err)
	}
	if err := syscall.Chdir(order.Cwd); err != nil {
		fail(control.PluginSandboxFD, control.OpChdir, err)
	}
	if err := giveUp(); err != nil {
		fail(control.PluginSandboxFD, control.OpConfine, err)
	}
	if err := confine(order.Box); err != nil {
		fail(control.PluginSandboxFD, control.OpConfine, err)
	}
	syscall.Exec("", nil, nil) // restores the limit that the runtime has raised, as in ready
	if f := order.Box.Filter; len(f) > 0 {
		rules := &program{count: uint16(len(f) / 8), first: &f[0]}
		var errno syscall.Errno
		if order.Box.Gate {
			errno = gatedFilter(rules)
		} else {
			errno = filter(rules)
		}
		if errno != 0 {
			fail(control.PluginSandboxFD, control.OpConfine, errno)
		}
	}
	_, _, errno := syscall.RawSyscall(syscall.SYS_EXECVE, uintptr(unsafe.Pointer(path)),
		uintptr(unsafe.Pointer(&argv[0])), uintptr(unsafe.Pointer(&env[0])))
	runtime.KeepAlive(argv)
	runtime.KeepAlive(env)
	fail(control.PluginSandboxFD, control.OpExec, errno)
}

// mapProtected maps the one user that an ordinary user may map, and no group, for a process that can't be inspected, whose files in /proc
// belong to root. A child does it, which can be inspected, and has closed everything else by then.
//
// The group is not mapped because the kernel lets the owner of a user namespace inspect a process in it, unless the process executes a
// file that its user can't read and the file's owner or group is not mapped.
func mapProtected(uid string) error {
	path, err := syscall.BytePtrFromString("/proc/self/uid_map")
	if err != nil {
		return err
	}
	text := []byte(uid + " " + uid + " 1")
	pid, errno := forkMapper(path, &text[0], len(text))
	if errno != 0 {
		return errno
	}
	var status syscall.WaitStatus
	for {
		if _, err = syscall.Wait4(int(pid), &status, 0, nil); err != syscall.EINTR {
			break
		}
	}
	if err == nil && status.ExitStatus() != 0 {
		err = syscall.EPERM
		if status.Exited() {
			err = syscall.Errno(status.ExitStatus())
		}
	}
	return err
}

// forkMapper returns only in the parent, after the child has ended. The child has one of several threads of the runtime, so it makes only
// system calls.
//
//go:norace
//go:nosplit
func forkMapper(path, text *byte, n int) (uintptr, syscall.Errno) {
	const cloneVfork, sysCloseRange, prSetDumpable, atFdcwd = 0x4000, 436, 4, ^uintptr(99)
	pid, _, errno := syscall.RawSyscall6(syscall.SYS_CLONE, cloneVfork|uintptr(syscall.SIGCHLD), 0, 0, 0, 0, 0)
	if errno != 0 || pid != 0 {
		return pid, errno
	}
	var fd uintptr
	syscall.RawSyscall(sysCloseRange, 0, ^uintptr(0)>>32, 0)
	if _, _, errno = syscall.RawSyscall(syscall.SYS_UNSHARE, syscall.CLONE_NEWNS, 0, 0); errno == 0 {
		if _, _, errno = syscall.RawSyscall(syscall.SYS_PRCTL, prSetDumpable, 1, 0); errno == 0 {
			fd, _, errno = syscall.RawSyscall6(syscall.SYS_OPENAT, atFdcwd, uintptr(unsafe.Pointer(path)), syscall.O_WRONLY, 0, 0, 0)
		}
	}
	if errno == 0 {
		_, _, errno = syscall.RawSyscall(syscall.SYS_WRITE, fd, uintptr(unsafe.Pointer(text)), uintptr(n))
	}
	for {
		syscall.RawSyscall(syscall.SYS_EXIT_GROUP, uintptr(errno), 0, 0)
	}
}

// mapSelf maps the one user and group that an ordinary user may map to themselves.
func mapSelf(uid, gid uint32) error {
	for _, w := range [...]struct{ path, text string }{
		{"/proc/self/setgroups", "deny"},
		{"/proc/self/gid_map", decimal(int(gid)) + " " + decimal(int(gid)) + " 1"},
		{"/proc/self/uid_map", decimal(int(uid)) + " " + decimal(int(uid)) + " 1"},
	} {
		fd, err := syscall.Open(w.path, syscall.O_WRONLY|syscall.O_CLOEXEC, 0)
		if err != nil {
			return err
		}
		_, err = syscall.Write(fd, []byte(w.text))
		syscall.Close(fd)
		if err != nil {
			return err
		}
	}
	return nil
}

// openOverlays opens the files that are mounted over others, before they are hidden.
func openOverlays(list []control.Overlay) ([]int, error) {
	fds := make([]int, len(list))
	for i, o := range list {
		fd, err := syscall.Open(o.File, oPath|syscall.O_CLOEXEC|syscall.O_NOFOLLOW, 0)
		if err != nil {
			return nil, err
		}
		if !isFile(fd, o) {
			return nil, syscall.ESTALE
		}
		fds[i] = fd
	}
	return fds, nil
}

func isFile(fd int, o control.Overlay) bool {
	var st syscall.Stat_t
	return syscall.Fstat(fd, &st) == nil && uint64(st.Dev) == o.Dev && st.Ino == o.Ino
}

// mountOverlays mounts the files over those at their paths, and returns the path to execute. If program is one of them and visible, the path
// leads to the mount at its place, so that it finds the files next to it.
func mountOverlays(list []control.Overlay, fds []int, program string) (string, error) {
	for i, o := range list {
		file := "/proc/self/fd/" + decimal(fds[i])
		err := syscall.Mount(file, o.Path, "", syscall.MS_BIND, "")
		if o.Path != program {
			if err != nil {
				return "", err
			}
			continue
		}
		program = file
		if fd, err := syscall.Open(o.Path, oPath|syscall.O_CLOEXEC, 0); err == nil && isFile(fd, o) {
			program = "/proc/self/fd/" + decimal(fd)
		}
	}
	return program, nil
}

// gatedFilter installs a filter that notifies the host of some system calls, and sends the host the listener for the notifications. The
// plugin does not have the listener, and the kernel allows no second one, so that the plugin can't respond to its own notifications.
func gatedFilter(p *program) syscall.Errno {
	const setModeFilter, newListener, waitKillable = 1, 1 << 3, 1 << 5
	seccomp := uintptr(317)
	if runtime.GOARCH == "arm64" {
		seccomp = 277
	}
	fd, _, errno := syscall.RawSyscall(seccomp, setModeFilter, newListener|waitKillable, uintptr(unsafe.Pointer(p)))
	if errno == syscall.EINVAL { // before Linux 5.19, a signal cancels the notification, and the call is restarted
		fd, _, errno = syscall.RawSyscall(seccomp, setModeFilter, newListener, uintptr(unsafe.Pointer(p)))
	}
	if errno != 0 {
		return errno
	}
	return errnoOf(syscall.Sendmsg(control.PluginSandboxFD, []byte{control.GateByte}, syscall.UnixRights(int(fd)), nil, 0))
}

// giveUp gives up all capabilities, also for programs that are executed later.
func giveUp() error {
	const (
		prCapbsetDrop, prSetSecurebits, prCapAmbient, ambientClearAll = 24, 28, 47, 4
		noRoot                                                        = 1<<0 | 1<<1 // programs of root get no capabilities, permanently
		capabilityVersion3                                            = 0x20080522
	)
	// Both need a capability that an ordinary user's process may lack; then it has none to give up.
	for c := uintptr(0); c < 64; c++ {
		if _, _, errno := syscall.RawSyscall(syscall.SYS_PRCTL, prCapbsetDrop, c, 0); errno != 0 {
			break
		}
	}
	_, _, errno := syscall.RawSyscall(syscall.SYS_PRCTL, prSetSecurebits, noRoot, 0)
	if errno != 0 && syscall.Geteuid() == 0 {
		return errno
	}
	if _, _, errno := syscall.RawSyscall6(syscall.SYS_PRCTL, prCapAmbient, ambientClearAll, 0, 0, 0, 0); errno != 0 {
		return errno
	}
	header := struct {
		version uint32
		pid     int32
	}{capabilityVersion3, 0}
	var none [6]uint32
	if _, _, errno := syscall.RawSyscall(syscall.SYS_CAPSET, uintptr(unsafe.Pointer(&header)), uintptr(unsafe.Pointer(&none)), 0); errno != 0 {
		return errno
	}
	return nil
}
