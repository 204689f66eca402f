//go:build !family

package main

import (
	"runtime"
	"syscall"
	"unsafe"

	"github.com/gantry-agent/gantry/host/internal/launch/control"
)

// cage covers what a plugin must not see, gives up every right, encloses itself and becomes the plugin. It does not return.
// Its socket is closed by becoming the plugin: whoever reads its end without a word knows that the plugin runs.
func cage() {
	runtime.LockOSThread() // what follows binds one thread, the one that becomes the plugin
	syscall.CloseOnExec(control.CageFD)
	syscall.CloseOnExec(control.CagedFD)
	frame, err := receive(control.CageFD).Next()
	if err != nil {
		syscall.Exit(1)
	}
	order, err := frame.Order()
	if err != nil || order.Box == nil {
		fail(control.CageFD, control.OpPrepare, syscall.EPROTO)
	}
	path, err := syscall.BytePtrFromString(order.Path)
	if err != nil {
		fail(control.CageFD, control.OpExec, err)
	}
	argv, err := syscall.SlicePtrFromStrings(order.Argv)
	if err != nil {
		fail(control.CageFD, control.OpExec, err)
	}
	env, err := syscall.SlicePtrFromStrings(order.Env)
	if err != nil {
		fail(control.CageFD, control.OpExec, err)
	}
	if order.Box.Map {
		if err := mapSelf(order.Box.UID, order.Box.GID); err != nil {
			fail(control.CageFD, control.OpConfine, err)
		}
	}
	if len(order.Box.Hide) > 0 {
		if err := cover(order.Box.Hide, order.Box.Show); err != nil {
			fail(control.CageFD, control.OpConfine, err)
		}
	}
	if err := syscall.Chdir(order.Cwd); err != nil {
		fail(control.CageFD, control.OpChdir, err)
	}
	if err := giveUp(); err != nil {
		fail(control.CageFD, control.OpConfine, err)
	}
	if err := enclose(order.Box); err != nil {
		fail(control.CageFD, control.OpConfine, err)
	}
	syscall.Exec("", nil, nil) // as in apply: gives back the limit that the runtime has raised
	if f := order.Box.Filter; len(f) > 0 {
		if errno := filter(&program{count: uint16(len(f) / 8), first: &f[0]}); errno != 0 {
			fail(control.CageFD, control.OpConfine, errno)
		}
	}
	_, _, errno := syscall.RawSyscall(syscall.SYS_EXECVE, uintptr(unsafe.Pointer(path)),
		uintptr(unsafe.Pointer(&argv[0])), uintptr(unsafe.Pointer(&env[0])))
	runtime.KeepAlive(argv)
	runtime.KeepAlive(env)
	fail(control.CageFD, control.OpExec, errno)
}

// mapSelf maps the one user and group that an ordinary user may map, to themselves.
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

// cover mounts something empty over what is hidden, and what is shown on top of that. The mounts are this process's own.
func cover(hide, show []string) error {
	const oPath = 0x200000
	if err := syscall.Mount("none", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""); err != nil {
		return err
	}
	type kept struct {
		path   string
		fd     int
		folder bool
	}
	var list []kept
	for _, p := range show {
		fd, err := syscall.Open(p, oPath|syscall.O_CLOEXEC, 0)
		if err == syscall.ENOENT {
			continue
		}
		if err != nil {
			return err
		}
		var st syscall.Stat_t
		if err := syscall.Fstat(fd, &st); err != nil {
			return err
		}
		list = append(list, kept{p, fd, st.Mode&syscall.S_IFMT == syscall.S_IFDIR})
	}
	const flags = syscall.MS_NOSUID | syscall.MS_NODEV
	var folders []string
	lay := func(p string) error {
		var st syscall.Stat_t
		if err := syscall.Stat(p, &st); err == syscall.ENOENT || err == syscall.ENOTDIR {
			return nil
		} else if err != nil {
			return err
		}
		if st.Mode&syscall.S_IFMT != syscall.S_IFDIR {
			return syscall.Mount("/dev/null", p, "", syscall.MS_BIND, "")
		}
		folders = append(folders, p)
		return syscall.Mount("none", p, "tmpfs", flags, "mode=755,size=64k")
	}
	shown := func(p string) bool {
		for _, k := range list {
			if p == k.path || len(p) > len(k.path) && p[:len(k.path)] == k.path && p[len(k.path)] == '/' {
				return true
			}
		}
		return false
	}
	for _, p := range hide {
		if !shown(p) {
			if err := lay(p); err != nil {
				return err
			}
		}
	}
	for _, k := range list {
		if err := makeWay(k.path, k.folder); err != nil {
			return err
		}
		if err := syscall.Mount("/proc/self/fd/"+decimal(k.fd), k.path, "", syscall.MS_BIND|syscall.MS_REC, ""); err != nil {
			return err
		}
		syscall.Close(k.fd)
	}
	for _, p := range hide { // what is hidden of what was shown
		if shown(p) {
			if err := lay(p); err != nil {
				return err
			}
		}
	}
	for _, p := range folders {
		if err := syscall.Mount("none", p, "", syscall.MS_REMOUNT|syscall.MS_BIND|syscall.MS_RDONLY|flags, ""); err != nil {
			return err
		}
	}
	return nil
}

// makeWay makes what something can be mounted on, with the folders above it.
func makeWay(path string, folder bool) error {
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

// giveUp lets go of every right that the namespace or the user has given, also for programs that are executed later.
func giveUp() error {
	const (
		prCapbsetDrop, prSetSecurebits, prCapAmbient, ambientClearAll = 24, 28, 47, 4
		noRoot                                                        = 1<<0 | 1<<1 // root's programs get no rights, for good
		capabilityVersion3                                            = 0x20080522
	)
	// Both need a right that an ordinary user's process may lack, who then has no rights to give up either.
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
