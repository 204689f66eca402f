//go:build !family

package main

import (
	"syscall"
	"unsafe"

	"github.com/gantry-agent/gantry/host/internal/launch/control"
)

// The newer system calls for mounts; the same numbers on every architecture.
const (
	sysOpenTree, sysMoveMount, sysMountSetattr = 428, 429, 442

	atFdcwd                                        = ^uintptr(99)
	attrReadOnly, attrNoSuid, attrNoDev            = 1, 2, 4
	atEmptyPath, atRecursive, treeClone            = 0x1000, 0x8000, 1
	moveFromEmptyPath, moveToLink, treeCloseOnExec = 4, 0x10, 0x80000
	mountFlags                                     = syscall.MS_NOSUID | syscall.MS_NODEV
	emptySize                                      = "size=64k,nr_inodes=4096"
)

// devices are those in a new /dev.
var devices = [...]string{"null", "zero", "full", "random", "urandom", "tty"}

// masked are the files in /proc that reveal something about the machine and its users.
var masked = [...]string{"keys", "key-users", "kcore", "kmsg", "timer_list", "sched_debug"}

// piece is a copy of a mount, to be mounted again at the same path.
type piece struct {
	path   string
	fd     int
	folder bool
	write  bool
}

// arrange creates a plugin's view of the file system: empty folders over what is hidden, and what is shown on top of that. If x.Isolated is
// set there are new folders for devices and temporary files, and everything else is read-only. The mounts are visible only to this process.
func arrange(x *control.Box) error {
	if err := syscall.Mount("none", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""); err != nil {
		return err
	}
	// Everything that is mounted again is opened first, while it is visible and has its original flags.
	shown, err := pieces(x.Show, x.Write)
	if err != nil {
		return err
	}
	dirs, err := openEmptyDirs(x)
	if err != nil {
		return err
	}
	var tmp []piece
	if x.Tmp != "" {
		if tmp, err = pieces([]string{x.Tmp}, []string{x.Tmp}); err != nil {
			return err
		}
	}
	if x.Isolated {
		if err := separate(x.ShmBytes); err != nil {
			return err
		}
	}
	if x.KernelReadOnly {
		if err := kernelReadOnly(); err != nil {
			return err
		}
	}
	for _, t := range tmp {
		if err := attach(t.fd, "/tmp"); err != nil {
			return err
		}
	}
	c := cover{emptyDirs: dirs, made: x.EmptyDirs != ""}
	within := func(p string) bool {
		for _, s := range shown {
			if p == s.path || len(p) > len(s.path) && p[:len(s.path)] == s.path && p[len(s.path)] == '/' {
				return true
			}
		}
		return false
	}
	for i, p := range x.Hide {
		if !within(p) {
			if err := c.lay(i, p); err != nil {
				return err
			}
		}
	}
	for _, s := range shown {
		if x.Isolated && !s.write {
			if err := setAttributes(uintptr(s.fd), "", atEmptyPath|atRecursive, attrReadOnly); err != nil {
				return err
			}
		}
		if err := makeMountPoint(s.path, s.folder); err != nil {
			return err
		}
		if err := attach(s.fd, s.path); err != nil {
			return err
		}
	}
	for i, p := range x.Hide { // inside of what is shown
		if within(p) {
			if err := c.lay(i, p); err != nil {
				return err
			}
		}
	}
	for _, p := range c.folders { // now that what is shown below them has been mounted
		if err := setAttributes(atFdcwd, p, 0, attrReadOnly|attrNoSuid|attrNoDev); err != nil {
			return err
		}
	}
	if x.Isolated && x.Handled != 0 {
		x.Rules = isolatedRules(x)
	}
	return nil
}

// isolatedRules returns the Landlock rules if /dev and /tmp are new: everything in them may be written.
func isolatedRules(x *control.Box) []control.Rule {
	list := []control.Rule{{Path: "/dev", Access: x.Handled}}
	if x.Tmp != "" {
		list = append(list, control.Rule{Path: "/tmp", Access: x.Handled})
	}
	for _, r := range x.Rules {
		if len(r.Path) < 5 || r.Path[:5] != "/dev/" {
			list = append(list, r)
		}
	}
	return list
}

// pieces opens the paths of a list that exist.
func pieces(list, write []string) ([]piece, error) {
	var out []piece
	for _, p := range list {
		fd, err := openTree(p)
		if err == syscall.ENOENT {
			continue
		}
		if err != nil {
			return nil, err
		}
		var st syscall.Stat_t
		if err := syscall.Fstat(fd, &st); err != nil {
			return nil, err
		}
		s := piece{path: p, fd: fd, folder: st.Mode&syscall.S_IFMT == syscall.S_IFDIR}
		for _, w := range write {
			s.write = s.write || w == p
		}
		out = append(out, s)
	}
	return out, nil
}

// separate makes the file system read-only, and creates new devices, shared memory and a new /proc.
func separate(shm uint64) error {
	var nodes [len(devices)]int
	for i, name := range devices {
		fd, err := openTree("/dev/" + name)
		if err == syscall.ENOENT {
			fd, err = -1, nil
		}
		if err == nil && fd >= 0 { // root could change the mode of the machine's device
			err = setAttributes(uintptr(fd), "", atEmptyPath, attrReadOnly|attrNoSuid)
		}
		if err != nil {
			return err
		}
		nodes[i] = fd
	}
	if err := setAttributes(atFdcwd, "/", atRecursive, attrReadOnly|attrNoSuid|attrNoDev); err != nil {
		return err
	}
	if err := ownProcesses(); err != nil { // uses the machine's /dev/null, which can't be opened as a device any more
		return err
	}
	// One file system is used for both: its root is read-only, the folder for shared memory is not.
	if err := syscall.Mount("none", "/dev", "tmpfs", syscall.MS_NOSUID|syscall.MS_NOEXEC, "mode=755,nr_inodes=4096,size="+decimal(int(shm))); err != nil {
		return err
	}
	if err := syscall.Mkdir("/dev/shm", 0o777); err != nil {
		return err
	}
	if err := syscall.Chmod("/dev/shm", 0o1777); err != nil {
		return err
	}
	memory, err := openTree("/dev/shm")
	if err != nil {
		return err
	}
	for i, name := range devices {
		if nodes[i] < 0 {
			continue
		}
		fd, err := syscall.Open("/dev/"+name, syscall.O_CREAT|syscall.O_CLOEXEC|syscall.O_WRONLY, 0o600)
		if err != nil {
			return err
		}
		syscall.Close(fd)
		if err := attach(nodes[i], "/dev/"+name); err != nil {
			return err
		}
	}
	for _, l := range [...][2]string{{"fd", "/proc/self/fd"}, {"stdin", "/proc/self/fd/0"}, {"stdout", "/proc/self/fd/1"}, {"stderr", "/proc/self/fd/2"}} {
		if err := syscall.Symlink(l[1], "/dev/"+l[0]); err != nil {
			return err
		}
	}
	if err := setAttributes(atFdcwd, "/dev", 0, attrReadOnly|attrNoSuid); err != nil {
		return err
	}
	if err := attach(memory, "/dev/shm"); err != nil {
		return err
	}
	return nil
}

// ownProcesses mounts a read-only /proc of this PID namespace. If the system does not allow that the old one remains, which is read-only
// already.
func ownProcesses() error {
	err := syscall.Mount("proc", "/proc", "proc", mountFlags|syscall.MS_NOEXEC|syscall.MS_RDONLY, "")
	if err != nil && err != syscall.EPERM && err != syscall.EACCES {
		return err
	}
	for _, name := range masked {
		p := "/proc/" + name
		if err := syscall.Access(p, 0); err != nil {
			continue
		}
		if err := syscall.Mount("/dev/null", p, "", syscall.MS_BIND, ""); err != nil {
			return err
		}
	}
	return nil
}

// kernelReadOnly prevents root from changing settings of the kernel.
func kernelReadOnly() error {
	for _, p := range [...]string{
		"/proc/sys", "/proc/sysrq-trigger", "/proc/irq", "/proc/bus", "/proc/fs", "/proc/acpi", "/proc/scsi", "/sys",
	} {
		fd, err := openTree(p)
		if err == syscall.ENOENT {
			continue
		}
		if err == nil {
			err = setAttributes(uintptr(fd), "", atEmptyPath|atRecursive, attrReadOnly)
		}
		if err == nil {
			err = attach(fd, p)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// cover mounts empty files and folders over what is hidden.
type cover struct {
	emptyDirs []int // empty folders, one for each path that is hidden
	made      bool  // there are emptyDirs; otherwise each folder is hidden with a file system
	folders   []string
}

// openEmptyDirs creates and opens empty folders, before anything is hidden.
func openEmptyDirs(x *control.Box) ([]int, error) {
	if x.EmptyDirs == "" {
		return nil, nil
	}
	list := make([]int, len(x.Hide))
	for i := range list {
		dir := x.EmptyDirs + "/" + decimal(i)
		if err := syscall.Mkdir(dir, 0o755); err != nil {
			return nil, err
		}
		fd, err := syscall.Open(dir, oPath|syscall.O_CLOEXEC, 0)
		if err != nil {
			return nil, err
		}
		list[i] = fd
	}
	return list, nil
}

func (c *cover) lay(i int, p string) error {
	var st syscall.Stat_t
	if err := syscall.Stat(p, &st); err == syscall.ENOENT || err == syscall.ENOTDIR {
		return nil
	} else if err != nil {
		return err
	}
	if st.Mode&syscall.S_IFMT != syscall.S_IFDIR {
		return syscall.Mount("/dev/null", p, "", syscall.MS_BIND, "")
	}
	c.folders = append(c.folders, p)
	if c.made {
		return syscall.Mount("/proc/self/fd/"+decimal(c.emptyDirs[i]), p, "", syscall.MS_BIND, "")
	}
	return syscall.Mount("none", p, "tmpfs", mountFlags, "mode=755,"+emptySize)
}

// openTree copies the mounts at a path, for attach.
func openTree(path string) (int, error) {
	p, err := syscall.BytePtrFromString(path)
	if err != nil {
		return -1, err
	}
	fd, _, errno := syscall.RawSyscall(sysOpenTree, atFdcwd, uintptr(unsafe.Pointer(p)), treeClone|treeCloseOnExec|atRecursive)
	if errno != 0 {
		return -1, errno
	}
	return int(fd), nil
}

// attach mounts a copy of openTree and closes it.
func attach(fd int, path string) error {
	p, err := syscall.BytePtrFromString(path)
	if err != nil {
		return err
	}
	empty := [1]byte{}
	_, _, errno := syscall.RawSyscall6(sysMoveMount, uintptr(fd), uintptr(unsafe.Pointer(&empty)), atFdcwd, uintptr(unsafe.Pointer(p)), moveFromEmptyPath|moveToLink, 0)
	if errno != 0 {
		return errno
	}
	return syscall.Close(fd)
}

// setAttributes adds attributes to a mount and keeps the others. A remount would have to state all of them, and would fail if it cleared
// one that only the mount's owner may clear.
func setAttributes(dir uintptr, path string, flags uintptr, attributes uint64) error {
	p, err := syscall.BytePtrFromString(path)
	if err != nil {
		return err
	}
	attr := [4]uint64{attributes} // set, clear, propagation, namespace
	_, _, errno := syscall.RawSyscall6(sysMountSetattr, dir, uintptr(unsafe.Pointer(p)), flags, uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr), 0)
	if errno != 0 && errno != syscall.ENOSYS { // before Linux 5.12, only Landlock enforces this
		return errno
	}
	return nil
}

// makeMountPoint creates a mount point, with its parent folders.
func makeMountPoint(path string, folder bool) error {
	var st syscall.Stat_t
	if syscall.Stat(path, &st) == nil {
		return nil
	}
	for i := 1; i < len(path); i++ {
		if path[i] == '/' {
			if err := syscall.Mkdir(path[:i], 0o755); err != nil && err != syscall.EEXIST && err != syscall.EROFS && err != syscall.EACCES {
				return err
			}
		}
	}
	if folder {
		if err := syscall.Mkdir(path, 0o755); err != syscall.EEXIST {
			return err
		}
		return nil
	}
	fd, err := syscall.Open(path, syscall.O_CREAT|syscall.O_CLOEXEC|syscall.O_WRONLY, 0o600)
	if err == nil {
		syscall.Close(fd)
	}
	return err
}
