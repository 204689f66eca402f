package tree

import (
	"bytes"
	"encoding/binary"
	"errors"
	"strings"

	"golang.org/x/sys/unix"
)

// openPath opens a folder without the right to read it.
const openPath = unix.O_PATH

func changed(st *unix.Stat_t) int64 { return st.Ctim.Nano() }

// maxPath is the longest path that is passed to the kernel in one call.
const maxPath = 4000

// openAt opens a folder relative to another one. No element may be a symbolic link.
func openAt(dir int, rel string, flags int) (int, error) {
	if rel == "" {
		rel = "."
	}
	flags |= unix.O_DIRECTORY | unix.O_CLOEXEC | unix.O_NOFOLLOW
	if len(rel) <= maxPath {
		how := unix.OpenHow{Flags: uint64(flags), Resolve: unix.RESOLVE_NO_SYMLINKS}
		for {
			fd, err := unix.Openat2(dir, rel, &how)
			switch {
			case err == unix.EINTR || err == unix.EAGAIN:
				continue
			case errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EPERM): // an old kernel, or a container that does not know the call
				return step(dir, rel, flags, 1)
			}
			return fd, err
		}
	}
	return step(dir, rel, flags, maxPath)
}

// step opens a folder through those above it, with as many elements per call as fit.
func step(dir int, rel string, flags, most int) (int, error) {
	at := dir
	for {
		cut := len(rel)
		if most == 1 {
			if i := strings.IndexByte(rel, '/'); i >= 0 {
				cut = i
			}
		} else if len(rel) > most {
			cut = strings.LastIndexByte(rel[:most], '/')
		}
		last := cut == len(rel)
		with := flags
		if !last {
			with = openPath | unix.O_DIRECTORY | unix.O_CLOEXEC | unix.O_NOFOLLOW
		}
		var fd int
		err := retry(func() (err error) {
			if most == 1 {
				fd, err = unix.Openat(at, rel[:cut], with, 0)
			} else {
				fd, err = unix.Openat2(at, rel[:cut], &unix.OpenHow{Flags: uint64(with), Resolve: unix.RESOLVE_NO_SYMLINKS})
			}
			return err
		})
		if at != dir {
			unix.Close(at)
		}
		if err != nil || last {
			return fd, err
		}
		at, rel = fd, rel[cut+1:]
	}
}

// list calls f for each name in a folder, with its inode number and its type, 0 if unknown.
func list(fd int, buf []byte, f func(name string, entry uint64, mode uint32)) error {
	for {
		var n int
		if err := retry(func() (err error) { n, err = unix.Getdents(fd, buf); return err }); err != nil {
			return err
		}
		if n <= 0 {
			return nil
		}
		for rest := buf[:n]; len(rest) > 19; {
			entry, size, kind := binary.NativeEndian.Uint64(rest), int(binary.NativeEndian.Uint16(rest[16:])), rest[18]
			if size < 20 || size > len(rest) {
				return unix.EIO
			}
			name := rest[19:size]
			if i := bytes.IndexByte(name, 0); i >= 0 {
				name = name[:i]
			}
			if rest = rest[size:]; len(name) > 0 && string(name) != "." && string(name) != ".." {
				f(string(name), entry, uint32(kind)<<12)
			}
		}
	}
}

// passable reports whether files in a folder can be reached by name.
func passable(fd int) bool {
	return unix.Faccessat(fd, ".", unix.X_OK, 0) == nil
}

// deprioritize lowers the priority of the current thread; idle: it only runs when the processor is idle.
func deprioritize(idle bool) {
	if !idle || unix.SchedSetAttr(0, &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_IDLE}, 0) != nil {
		_ = unix.Setpriority(unix.PRIO_PROCESS, unix.Gettid(), 10)
	}
}
