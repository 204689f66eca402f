package tree

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// The events that are requested for each folder, and for folders in which the content of files matters.
const (
	folderEvents  = unix.IN_CREATE | unix.IN_MOVED_FROM | unix.IN_MOVED_TO | unix.IN_DELETE | unix.IN_DELETE_SELF | unix.IN_MOVE_SELF | unix.IN_ATTRIB | unix.IN_ONLYDIR
	contentEvents = folderEvents | unix.IN_MODIFY | unix.IN_CLOSE_WRITE
)

const tooFewWatches = "there are too many folders to watch: raise sysctl fs.inotify.max_user_watches"

// notifier is the inotify instance of a tree.
type notifier struct {
	g       *graph
	file    *os.File
	fd      int
	buf     []byte
	ended   chan struct{} // closed when listen has returned
	changed func()
}

// newNotifier returns nil and the reason if the kernel gives no notifications. changed is called when something has changed.
func newNotifier(g *graph, changed func()) (*notifier, string) {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		if errors.Is(err, unix.EMFILE) {
			return nil, "too many inotify instances are in use: raise sysctl fs.inotify.max_user_instances"
		}
		return nil, fmt.Sprintf("inotify is not available: %v", err)
	}
	in := &notifier{g: g, changed: changed, fd: fd, file: os.NewFile(uintptr(fd), "inotify"), buf: make([]byte, 64<<10), ended: make(chan struct{})}
	raw, err := in.file.SyscallConn()
	if err != nil {
		in.file.Close()
		return nil, fmt.Sprintf("inotify is not available: %v", err)
	}
	go in.listen(raw) // owned by the notifier, ended by close
	return in, ""
}

// listen reads events as they come: the kernel's queue is short.
func (in *notifier) listen(raw syscall.RawConn) {
	defer close(in.ended)
	_ = raw.Read(func(uintptr) bool {
		in.g.mu.Lock()
		some := in.read()
		in.g.mu.Unlock()
		if some {
			in.changed()
		}
		return false
	})
}

func (in *notifier) close() {
	in.file.Close()
	<-in.ended
}

// read reads the queued events. The caller holds g.mu. It reports whether any of them matters.
func (in *notifier) read() (some bool) {
	if in.g.in != in {
		return false
	}
	for {
		n, err := unix.Read(in.fd, in.buf)
		if err == unix.EINTR {
			continue
		}
		if err != nil || n <= 0 {
			return some
		}
		for rest := in.buf[:n]; len(rest) >= unix.SizeofInotifyEvent; {
			watch, mask := int32(binary.NativeEndian.Uint32(rest)), binary.NativeEndian.Uint32(rest[4:])
			size := unix.SizeofInotifyEvent + int(binary.NativeEndian.Uint32(rest[12:]))
			if size > len(rest) {
				break
			}
			name := rest[unix.SizeofInotifyEvent:size]
			if i := bytes.IndexByte(name, 0); i >= 0 {
				name = name[:i]
			}
			some = in.g.event(watch, mask, string(name)) || some
			rest = rest[size:]
		}
	}
}

// event records an event and reports whether it matters.
func (g *graph) event(watch int32, mask uint32, name string) bool {
	if mask&unix.IN_Q_OVERFLOW != 0 {
		g.overflow = true
		return true
	}
	n, ok := g.watches[watch]
	if !ok {
		if g.scanning != nil || !g.watching {
			g.stray[watch] = true
		}
		return false
	}
	x := &g.nodes[n]
	switch {
	case mask&unix.IN_IGNORED != 0:
		delete(g.watches, watch)
		x.watch = 0
		fallthrough
	case mask&(unix.IN_UNMOUNT|unix.IN_DELETE_SELF|unix.IN_MOVE_SELF) != 0:
		g.pend(max(0, x.parent), "")
		g.pend(n, "")
	case name == "":
		g.pend(n, "")
	case mask&unix.IN_ISDIR != 0 && mask&unix.IN_ATTRIB != 0:
		// The folder has an event of its own, unless it could not be listed.
		for c, e := range g.noted {
			if e != nil && e.closed && g.nodes[c].parent == n && g.nodes[c].name == name {
				g.pend(c, "")
				return true
			}
		}
		return false
	case mask&unix.IN_ISDIR != 0 || g.rules.special(name):
		g.pend(n, "")
	case mask&(unix.IN_MODIFY|unix.IN_CLOSE_WRITE) != 0:
		return true
	default:
		e := g.noted[n]
		if e != nil && len(e.links) > 0 {
			g.pend(n, "") // the name may be one of a linked file
			return true
		}
		known := e != nil && slices.Contains(e.rights, name)
		if mask&(unix.IN_DELETE|unix.IN_MOVED_FROM) != 0 && !known {
			x.id.Changed = 0
			return x.watchContent
		}
		g.pend(n, name)
		return true
	}
	return true
}

// watch adds a watch for an open folder. It takes mu. 0 means that the folder is not watched, and Stats.Why says why.
func (g *graph) watch(fd int, n int32) (int32, error) {
	g.mu.Lock()
	in, given := g.in, g.why != ""
	mask := uint32(folderEvents)
	if x := &g.nodes[n]; x.watchContent || g.contentMatters(n) {
		x.watchContent = true
		mask = contentEvents
	}
	g.mu.Unlock()
	if in == nil || given {
		return 0, nil
	}
	w, err := unix.InotifyAddWatch(in.fd, "/proc/self/fd/"+strconv.Itoa(fd), mask)
	switch {
	case err == nil:
		return int32(w), nil
	case errors.Is(err, unix.ENOSPC):
		g.stopWatching(tooFewWatches)
	default:
		g.stopWatching(fmt.Sprintf("folders can't be watched: %v", err))
	}
	return 0, nil
}

// watchAt adds a watch for a folder by its path, which takes a third of the time. The watch is right as long as no events come for
// the folders above it. fd is the folder's parent. It takes mu; 0 means that the folder is not watched.
func (g *graph) watchAt(fd int, rel, name string, hot bool) int32 {
	g.mu.Lock()
	in, given := g.in, g.why != ""
	g.mu.Unlock()
	if in == nil || given {
		return 0
	}
	mask := uint32(folderEvents | unix.IN_DONT_FOLLOW)
	if hot {
		mask = contentEvents | unix.IN_DONT_FOLLOW
	}
	path := g.root + "/" + name
	if rel != "" {
		path = g.root + "/" + rel + "/" + name
	}
	if len(path) > maxPath {
		path = "/proc/self/fd/" + strconv.Itoa(fd) + "/" + name
	}
	w, err := unix.InotifyAddWatch(in.fd, path, mask)
	switch {
	case err == nil:
		return int32(w)
	case errors.Is(err, unix.ENOSPC):
		g.stopWatching(tooFewWatches)
	}
	return 0
}

func (g *graph) unwatch(w int32) {
	if g.in != nil {
		_, _ = unix.InotifyRmWatch(g.in.fd, uint32(w)) // it may have gone with its folder
	}
}

// watched records that a node's folder is watched. If the watch belongs to another node the folder was moved: then it returns that
// node. It takes mu.
func (g *graph) watched(n, watch int32) (int32, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	other, known := g.watches[watch]
	if g.nodes[n].dead {
		return n, nil
	}
	if known && other != n {
		if g.connected(other) && g.still(other) {
			g.why, g.watching = "a folder lies in it at two places: "+g.path(n), false
			return n, nil
		}
		for p := g.nodes[n].parent; p != none; p = g.nodes[p].parent {
			if p == other {
				return n, errMoved // the folder above has to be found first
			}
			if g.nodes[p].adrift { // what was above it may have changed
				break
			}
		}
		if at := &g.nodes[other]; at.parent != none && !at.adrift {
			// Another folder may be at its old place, with the inode number that the parent lists for it: nothing else would
			// reveal that this one is missing there.
			g.pend(at.parent, "")
		}
		parent, name, entry := g.nodes[n].parent, g.nodes[n].name, g.nodes[n].entry
		g.drop(n)
		g.detach(other)
		g.attach(other, parent, name)
		g.nodes[other].entry = entry
		g.touchBelow(other)
		if len(g.parked) > 0 {
			g.below(other, func(n int32) {
				if g.parked[n] {
					delete(g.parked, n)
					g.pend(n, "")
				}
			})
		}
		n = other
	}
	if w := g.nodes[n].watch; w != 0 && w != watch && g.watches[w] == n { // another folder has taken its place
		delete(g.watches, w)
		g.unwatch(w)
	}
	g.watches[watch] = n
	g.nodes[n].watch, g.nodes[n].unreadable = watch, false
	if g.stray[watch] {
		delete(g.stray, watch)
		g.pend(n, "")
	}
	return n, nil
}

// still reports whether a folder is where it is known to be.
func (g *graph) still(n int32) bool {
	fd, err := g.open(g.rel(n), openPath)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	return retry(func() error { return unix.Fstat(fd, &st) }) == nil && uint64(st.Dev) == g.nodes[n].id.Dev && st.Ino == g.nodes[n].id.Ino
}

// The file systems on which the kernel reports every change, by magic number, and those on which there is nothing to look for.
var (
	watchableFS = []int64{
		unix.EXT4_SUPER_MAGIC, unix.XFS_SUPER_MAGIC, unix.BTRFS_SUPER_MAGIC, unix.TMPFS_MAGIC, unix.RAMFS_MAGIC, unix.OVERLAYFS_SUPER_MAGIC,
		unix.F2FS_SUPER_MAGIC, unix.MSDOS_SUPER_MAGIC, unix.EXFAT_SUPER_MAGIC, unix.SQUASHFS_MAGIC, unix.ISOFS_SUPER_MAGIC, unix.REISERFS_SUPER_MAGIC,
		zfs, bcachefs, ntfs3, jfs,
	}
	kernelFS = []int64{
		unix.PROC_SUPER_MAGIC, unix.SYSFS_MAGIC, unix.CGROUP_SUPER_MAGIC, unix.CGROUP2_SUPER_MAGIC, unix.DEVPTS_SUPER_MAGIC, unix.DEBUGFS_MAGIC,
		unix.TRACEFS_MAGIC, unix.SECURITYFS_MAGIC, unix.BPF_FS_MAGIC,
	}
)

const (
	zfs      = 0x2fc12fc1
	bcachefs = 0xca451a4e
	ntfs3    = 0x7366746e
	jfs      = 0x3153464a
)

// kindOf returns the kind of a folder's file system. skip: nothing on it is read. foreign names one on which others may change
// folders unnoticed.
func kindOf(fd int) (skip bool, foreign string) {
	var st unix.Statfs_t
	if err := retry(func() error { return unix.Fstatfs(fd, &st) }); err != nil {
		return false, err.Error()
	}
	kind := int64(st.Type) & 0xffffffff
	switch {
	case slices.Contains(kernelFS, kind):
		return true, ""
	case slices.Contains(watchableFS, kind):
		return false, ""
	}
	return false, fmt.Sprintf("%#x", kind)
}
