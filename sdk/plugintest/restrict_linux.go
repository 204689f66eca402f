package plugintest

import (
	"errors"
	"fmt"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The Landlock versions that support the access rights.
const (
	landlockFiles    = 1
	landlockRefer    = 2
	landlockTruncate = 3
	landlockNetwork  = 4
)

// landlock returns the kernel's version of Landlock, or 0.
func landlock() int {
	v, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if errno != 0 {
		return 0
	}
	return int(v)
}

// restrictionSupported returns an error if this kernel can't enforce the restriction.
func restrictionSupported(r restriction) error {
	needed := landlockFiles
	if r.offline {
		needed = landlockNetwork
	}
	if landlock() < needed {
		return fmt.Errorf("restricting the plugin requires Landlock version %d, which the kernel doesn't support", needed)
	}
	return nil
}

// startRestricted starts a restricted process. Landlock restricts the calling thread and the processes that it starts.
func startRestricted(cmd *exec.Cmd, h *restriction) error {
	started := make(chan error, 1)
	// Owner: startRestricted, which waits. The thread stays locked and so ends with the goroutine.
	go func() {
		runtime.LockOSThread()
		if err := h.apply(); err != nil {
			started <- err
			return
		}
		started <- cmd.Start()
	}()
	return <-started
}

// apply restricts the calling thread.
func (h *restriction) apply() error {
	version := landlock()
	attr := unix.LandlockRulesetAttr{}
	if h.readOnly {
		attr.Handled_access_fs = unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_REMOVE_DIR | unix.LANDLOCK_ACCESS_FS_REMOVE_FILE |
			unix.LANDLOCK_ACCESS_FS_MAKE_CHAR | unix.LANDLOCK_ACCESS_FS_MAKE_DIR | unix.LANDLOCK_ACCESS_FS_MAKE_REG | unix.LANDLOCK_ACCESS_FS_MAKE_SOCK |
			unix.LANDLOCK_ACCESS_FS_MAKE_FIFO | unix.LANDLOCK_ACCESS_FS_MAKE_BLOCK | unix.LANDLOCK_ACCESS_FS_MAKE_SYM
		if version >= landlockRefer {
			attr.Handled_access_fs |= unix.LANDLOCK_ACCESS_FS_REFER
		}
		if version >= landlockTruncate {
			attr.Handled_access_fs |= unix.LANDLOCK_ACCESS_FS_TRUNCATE
		}
	}
	if h.offline {
		attr.Handled_access_net = unix.LANDLOCK_ACCESS_NET_BIND_TCP | unix.LANDLOCK_ACCESS_NET_CONNECT_TCP
	}
	fd, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr), 0)
	if errno != 0 {
		return fmt.Errorf("restrict the plugin: %w", errno)
	}
	defer unix.Close(int(fd))
	if h.readOnly {
		for _, dir := range append(slices.Clone(h.writes), "/dev", "/proc") {
			if err := allowBelow(int(fd), dir, attr.Handled_access_fs); err != nil {
				return err
			}
		}
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("restrict the plugin: %w", err)
	}
	if _, _, errno := unix.Syscall(unix.SYS_LANDLOCK_RESTRICT_SELF, fd, 0, 0); errno != 0 {
		return fmt.Errorf("restrict the plugin: %w", errno)
	}
	return nil
}

func allowBelow(ruleset int, dir string, access uint64) error {
	fd, err := unix.Open(dir, unix.O_PATH|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("restrict the plugin: %s: %w", dir, err)
	}
	defer unix.Close(fd)
	rule := unix.LandlockPathBeneathAttr{Allowed_access: access, Parent_fd: int32(fd)}
	if _, _, errno := unix.Syscall6(unix.SYS_LANDLOCK_ADD_RULE, uintptr(ruleset), unix.LANDLOCK_RULE_PATH_BENEATH, uintptr(unsafe.Pointer(&rule)), 0, 0, 0); errno != 0 {
		return fmt.Errorf("restrict the plugin: %s: %w", dir, errno)
	}
	return nil
}

// watchOpens watches files. The function that it returns ends the watch and returns the files that were opened.
func watchOpens(paths []string) (opened func() []string, err error) {
	fd, err := unix.InotifyInit1(unix.IN_NONBLOCK | unix.IN_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("can't watch files: %w", err)
	}
	byWatch := map[int32]string{}
	for _, path := range paths {
		w, err := unix.InotifyAddWatch(fd, path, unix.IN_OPEN)
		if err != nil {
			_ = unix.Close(fd)
			return nil, fmt.Errorf("can't watch files: %w", err)
		}
		byWatch[int32(w)] = path
	}
	return func() []string {
		defer unix.Close(fd)
		var out []string
		buf := make([]byte, 64<<10)
		for {
			n, err := unix.Read(fd, buf)
			if n <= 0 || err != nil {
				break
			}
			for at := 0; at+unix.SizeofInotifyEvent <= n; {
				e := (*unix.InotifyEvent)(unsafe.Pointer(&buf[at]))
				out = append(out, byWatch[e.Wd])
				at += unix.SizeofInotifyEvent + int(e.Len)
			}
		}
		slices.SortFunc(out, strings.Compare)
		return slices.Compact(out)
	}, nil
}
