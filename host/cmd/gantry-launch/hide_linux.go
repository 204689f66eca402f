//go:build !family

package main

import (
	"runtime"
	"syscall"
	"unsafe"

	"github.com/gantry-agent/gantry/host/internal/launch/control"
)

// To hide files in a sandbox that runs, a child enters its user and mount namespaces. The child is not in its PID namespace, so that no
// process in there can see or stop it, and it executes nothing. What it mounts is visible only in the sandbox: mounts propagate into that
// namespace, but not out of it.

// The system calls that create a file system and a mount; the same numbers on every architecture.
const sysFsopen, sysFsconfig, sysFsmount = 430, 431, 432

// hiding is what a child hides in a sandbox, as arguments of system calls.
type hiding struct {
	user, mounts int // namespaces; user -1: ours
	null, empty  *byte
	tmpfs        *byte
	options      [3][2]*byte
	list         []hidden
	st           syscall.Stat_t
}

// hidden is a file or folder to hide, as arguments of system calls.
type hidden struct {
	folder, name             *byte
	dev, ino, wasDev, wasIno uint64
	isFolder                 bool
}

// hide is a stage: it hides files in a plugin's sandbox and exits. A plugin has no first stage that could do it.
func hide() {
	frame, err := receive(control.FD).Next()
	if err != nil {
		syscall.Exit(1)
	}
	order, err := frame.Hide()
	if err != nil {
		syscall.Exit(1)
	}
	send(control.FD, control.Replied{Seq: order.Seq, Errno: uint32(hideIn(control.MountsFD, order.Covers))}.Append(nil))
	syscall.Exit(0)
}

// hideLocked hides files in the target's sandbox. The lock keeps reap from reaping the child.
func (w *watcher) hideLocked(list []control.Cover) syscall.Errno {
	switch {
	case w.box == nil:
		return syscall.EINVAL
	case w.mu.reaped:
		return syscall.ESRCH
	case w.box.mounts < 0:
		return syscall.EPERM
	}
	return hideIn(w.box.mounts, list)
}

// hideIn hides files in a mount namespace, and returns once they are hidden. An error with one does not prevent the others.
func hideIn(mounts int, list []control.Cover) syscall.Errno {
	const getUserns = 0xb701 // NS_GET_USERNS
	// The user namespace that owns the mounts. Bubblewrap may have created another below it for the target.
	user, _, errno := syscall.Syscall(syscall.SYS_IOCTL, uintptr(mounts), getUserns, 0)
	if errno != 0 {
		return errno
	}
	defer syscall.Close(int(user))
	h, err := planHiding(int(user), mounts, list)
	if err != nil {
		return errnoOf(err)
	}
	pid, errno := forkHider(h)
	runtime.KeepAlive(h)
	if errno != 0 {
		return errno
	}
	var status syscall.WaitStatus
	for {
		if _, err = syscall.Wait4(int(pid), &status, 0, nil); err != syscall.EINTR {
			break
		}
	}
	switch {
	case err != nil:
		return errnoOf(err)
	case status.Signaled():
		return syscall.EINTR
	}
	return syscall.Errno(status.ExitStatus())
}

func planHiding(user, mounts int, list []control.Cover) (h *hiding, err error) {
	text := func(s string) *byte {
		p, failed := syscall.BytePtrFromString(s)
		if failed != nil {
			err = failed
		}
		return p
	}
	h = &hiding{user: user, mounts: mounts, null: text("/dev/null"), empty: text(""), tmpfs: text("tmpfs")}
	for i, o := range [...][2]string{{"mode", "0000"}, {"size", "4k"}, {"nr_inodes", "2"}} {
		h.options[i] = [2]*byte{text(o[0]), text(o[1])}
	}
	for _, c := range list {
		end := len(c.Path) - 1
		for end > 0 && c.Path[end] != '/' {
			end--
		}
		if end < 0 {
			return nil, syscall.EINVAL
		}
		h.list = append(h.list, hidden{text(c.Path[:max(end, 1)]), text(c.Path[end+1:]), c.Dev, c.Ino, c.WasDev, c.WasInode, c.Folder})
	}
	var ours, theirs syscall.Stat_t
	if failed := syscall.Stat("/proc/self/ns/user", &ours); failed == nil && syscall.Fstat(user, &theirs) == nil && ours.Dev == theirs.Dev && ours.Ino == theirs.Ino {
		h.user = -1
	}
	return h, err
}

// forkHider returns only in the parent, after the child has ended. The child has one of several threads of the runtime, so it makes only
// system calls.
//
//go:norace
//go:nosplit
func forkHider(h *hiding) (uintptr, syscall.Errno) {
	const cloneVfork = 0x4000
	pid, _, errno := syscall.RawSyscall6(syscall.SYS_CLONE, cloneVfork|uintptr(syscall.SIGCHLD), 0, 0, 0, 0, 0)
	if errno != 0 || pid != 0 {
		return pid, errno
	}
	errno = enterAndHide(h)
	for {
		syscall.RawSyscall(syscall.SYS_EXIT_GROUP, uintptr(errno), 0, 0)
	}
}

// enterAndHide hides all files and returns the first error.
//
//go:norace
//go:nosplit
func enterAndHide(h *hiding) syscall.Errno {
	const prSetDumpable, sysSetns, sysSetnsArm = 4, 308, 268
	setns := uintptr(sysSetns)
	if runtime.GOARCH == "arm64" {
		setns = sysSetnsArm
	}
	if _, _, errno := syscall.RawSyscall6(syscall.SYS_PRCTL, prSetDumpable, 0, 0, 0, 0, 0); errno != 0 {
		return errno
	}
	if h.user >= 0 {
		if _, _, errno := syscall.RawSyscall(setns, uintptr(h.user), syscall.CLONE_NEWUSER, 0); errno != 0 {
			return errno
		}
	}
	if _, _, errno := syscall.RawSyscall(setns, uintptr(h.mounts), syscall.CLONE_NEWNS, 0); errno != 0 {
		return errno
	}
	var first syscall.Errno
	for i := range h.list {
		if errno := lay(h, &h.list[i]); errno != 0 && first == 0 {
			first = errno
		}
	}
	return first
}

// lay hides a file that is visible in the sandbox. If the path can't be followed the target can't follow it either. If it leads to another
// folder, that is the sandbox's own, or it was put there meanwhile, which the host will notice.
//
//go:norace
//go:nosplit
func lay(h *hiding, x *hidden) syscall.Errno {
	folder, _, errno := syscall.RawSyscall6(syscall.SYS_OPENAT, atFdcwd, uintptr(unsafe.Pointer(x.folder)), oPath|syscall.O_DIRECTORY|syscall.O_CLOEXEC, 0, 0, 0)
	if errno != 0 {
		return passed(errno)
	}
	if _, _, errno = syscall.RawSyscall(syscall.SYS_FSTAT, folder, uintptr(unsafe.Pointer(&h.st)), 0); errno != 0 || uint64(h.st.Dev) != x.dev || h.st.Ino != x.ino {
		syscall.RawSyscall(syscall.SYS_CLOSE, folder, 0, 0)
		return errno
	}
	it, _, errno := syscall.RawSyscall6(syscall.SYS_OPENAT, folder, uintptr(unsafe.Pointer(x.name)), oPath|syscall.O_NOFOLLOW|syscall.O_CLOEXEC, 0, 0, 0)
	syscall.RawSyscall(syscall.SYS_CLOSE, folder, 0, 0)
	if errno != 0 {
		return passed(errno)
	}
	if _, _, errno = syscall.RawSyscall(syscall.SYS_FSTAT, it, uintptr(unsafe.Pointer(&h.st)), 0); errno == 0 && uint64(h.st.Dev) == x.wasDev && h.st.Ino == x.wasIno {
		if (h.st.Mode&syscall.S_IFMT == syscall.S_IFDIR) != x.isFolder {
			errno = syscall.ESTALE
		} else {
			errno = coverWith(h, it, x.isFolder)
		}
	}
	syscall.RawSyscall(syscall.SYS_CLOSE, it, 0, 0)
	return errno
}

// passed returns 0 for errors that mean that the file is not visible.
//
//go:norace
//go:nosplit
func passed(errno syscall.Errno) syscall.Errno {
	if errno == syscall.ENOENT || errno == syscall.ENOTDIR || errno == syscall.EACCES || errno == syscall.ELOOP {
		return 0
	}
	return errno
}

// coverWith mounts an empty folder without permissions, or the sandbox's /dev/null, over an open file.
//
//go:norace
//go:nosplit
func coverWith(h *hiding, it uintptr, folder bool) syscall.Errno {
	const moveToEmptyPath = 0x40
	var with uintptr
	var errno syscall.Errno
	if folder {
		with, errno = emptyFolder(h)
	} else {
		with, errno = nullDevice(h)
	}
	if errno != 0 {
		return errno
	}
	_, _, errno = syscall.RawSyscall6(sysMoveMount, with, uintptr(unsafe.Pointer(h.empty)), it, uintptr(unsafe.Pointer(h.empty)), moveFromEmptyPath|moveToEmptyPath, 0)
	syscall.RawSyscall(syscall.SYS_CLOSE, with, 0, 0)
	if errno == syscall.ENOENT { // it was removed meanwhile
		errno = 0
	}
	return errno
}

//go:norace
//go:nosplit
func emptyFolder(h *hiding) (uintptr, syscall.Errno) {
	const closeOnExec, setString, create = 1, 1, 6
	fs, _, errno := syscall.RawSyscall(sysFsopen, uintptr(unsafe.Pointer(h.tmpfs)), closeOnExec, 0)
	if errno != 0 {
		return 0, errno
	}
	for i := range h.options {
		if _, _, errno = syscall.RawSyscall6(sysFsconfig, fs, setString, uintptr(unsafe.Pointer(h.options[i][0])), uintptr(unsafe.Pointer(h.options[i][1])), 0, 0); errno != 0 {
			break
		}
	}
	if errno == 0 {
		_, _, errno = syscall.RawSyscall6(sysFsconfig, fs, create, 0, 0, 0, 0)
	}
	var made uintptr
	if errno == 0 {
		made, _, errno = syscall.RawSyscall(sysFsmount, fs, closeOnExec, attrReadOnly|attrNoSuid|attrNoDev)
	}
	syscall.RawSyscall(syscall.SYS_CLOSE, fs, 0, 0)
	return made, errno
}

//go:norace
//go:nosplit
func nullDevice(h *hiding) (uintptr, syscall.Errno) {
	const device = 1<<8 | 3
	fd, _, errno := syscall.RawSyscall6(syscall.SYS_OPENAT, atFdcwd, uintptr(unsafe.Pointer(h.null)), oPath|syscall.O_NOFOLLOW|syscall.O_CLOEXEC, 0, 0, 0)
	if errno != 0 {
		return 0, errno
	}
	if _, _, errno = syscall.RawSyscall(syscall.SYS_FSTAT, fd, uintptr(unsafe.Pointer(&h.st)), 0); errno == 0 && (h.st.Mode&syscall.S_IFMT != syscall.S_IFCHR || h.st.Rdev != device) {
		errno = syscall.ENODEV
	}
	var tree uintptr
	if errno == 0 {
		tree, _, errno = syscall.RawSyscall(sysOpenTree, fd, uintptr(unsafe.Pointer(h.empty)), treeClone|treeCloseOnExec|atEmptyPath)
	}
	syscall.RawSyscall(syscall.SYS_CLOSE, fd, 0, 0)
	return tree, errno
}
