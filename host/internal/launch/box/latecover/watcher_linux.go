package latecover

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/gantry-agent/gantry/host/internal/launch/box/fspath"
	"golang.org/x/sys/unix"
)

// watcher notices when a file appears at one of a set of paths or is replaced there. It watches every folder on the way to each path,
// through symbolic links as well. Unlike package tree it reads no folders: only single names matter here.
type watcher struct {
	notify func() // called when a path may have appeared

	mu     sync.Mutex
	paths  map[string]bool
	names  map[int32][]string // by watch descriptor
	file   *os.File           // the inotify instance; nil before the first add
	fd     int
	err    error // why some paths are not watched
	closed bool
	stop   chan struct{} // closed to end listen
	ended  chan struct{} // closed when listen has returned
}

// maxPause is the longest pause between two notifications.
const maxPause = 20 * time.Millisecond

// appearMask selects the events of a folder: a name appears in it, or the folder itself is no longer at its path.
const appearMask = unix.IN_CREATE | unix.IN_MOVED_TO | unix.IN_MOVE_SELF | unix.IN_DELETE_SELF | unix.IN_ONLYDIR

// add watches more paths. The error says why not all of them are watched.
func (w *watcher) add(paths []string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	fresh := slices.DeleteFunc(slices.Clone(paths), func(p string) bool { return w.paths[p] })
	if len(fresh) == 0 || w.closed {
		return w.err
	}
	if w.paths == nil {
		w.paths, w.names = map[string]bool{}, map[int32][]string{}
	}
	for _, p := range fresh {
		w.paths[p] = true
	}
	if w.file == nil && w.err == nil {
		w.err = w.open()
	}
	if w.file != nil {
		w.err = w.watch(fresh)
	}
	return w.err
}

func (w *watcher) open() error {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if errors.Is(err, unix.EMFILE) {
		return errors.New("too many inotify instances are in use: raise sysctl fs.inotify.max_user_instances")
	}
	if err != nil {
		return fmt.Errorf("inotify is not available: %w", err)
	}
	file := os.NewFile(uintptr(fd), "inotify")
	raw, err := file.SyscallConn()
	if err != nil {
		file.Close()
		return fmt.Errorf("inotify is not available: %w", err)
	}
	w.file, w.fd, w.stop, w.ended = file, fd, make(chan struct{}), make(chan struct{})
	go w.listen(raw) // owned by the watcher, ended by close
	return nil
}

// watch adds kernel watches for the folders on the way to paths. The caller holds w.mu.
func (w *watcher) watch(paths []string) (err error) {
	watches := map[string]int32{}
	for _, p := range paths {
		for _, s := range fspath.Lookups(p) {
			id, ok := watches[s.Folder]
			if !ok {
				n, failed := unix.InotifyAddWatch(w.fd, s.Folder, appearMask)
				switch {
				case failed == nil:
				case errors.Is(failed, unix.ENOSPC):
					err = errors.New("there are too many folders to watch: raise sysctl fs.inotify.max_user_watches")
				case !fspath.IsNotExist(failed) && !errors.Is(failed, fs.ErrPermission):
					err = fmt.Errorf("%s can't be watched: %w", s.Folder, failed)
				}
				if failed != nil {
					n = -1
				}
				id = int32(n)
				watches[s.Folder] = id
			}
			if id >= 0 && !slices.Contains(w.names[id], s.Name) {
				w.names[id] = append(w.names[id], s.Name)
			}
		}
	}
	return err
}

// listen reads events and calls notify until the watcher is closed.
func (w *watcher) listen(raw syscall.RawConn) {
	defer close(w.ended)
	buf := make([]byte, 16<<10)
	for {
		matters, closed := false, false
		err := raw.Read(func(uintptr) bool {
			n, err := unix.Read(w.fd, buf)
			switch {
			case err == unix.EAGAIN || err == unix.EINTR:
				return false
			case err != nil || n <= 0:
				closed = true
				return true
			}
			matters = w.read(buf[:n])
			return true
		})
		if err != nil || closed {
			return
		}
		if !matters {
			continue
		}
		began := time.Now()
		w.mu.Lock()
		w.rewatch()
		w.mu.Unlock()
		w.notify()
		// A key that is saved continuously costs half a processor at most.
		pause := time.NewTimer(min(time.Since(began), maxPause))
		select {
		case <-w.stop:
		case <-pause.C:
		}
		pause.Stop()
	}
}

// read reports whether events in b concern a watched name.
func (w *watcher) read(b []byte) (matters bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for len(b) >= unix.SizeofInotifyEvent {
		watch, mask := int32(binary.NativeEndian.Uint32(b)), binary.NativeEndian.Uint32(b[4:])
		size := unix.SizeofInotifyEvent + int(binary.NativeEndian.Uint32(b[12:]))
		if size > len(b) {
			break
		}
		name, _, _ := bytes.Cut(b[unix.SizeofInotifyEvent:size], []byte{0})
		b = b[size:]
		names, ours := w.names[watch]
		switch {
		case mask&unix.IN_Q_OVERFLOW != 0:
			matters = true
		case mask&unix.IN_IGNORED != 0:
			delete(w.names, watch)
		case ours && (len(name) == 0 || slices.Contains(names, string(name))):
			matters = true
		}
	}
	return matters
}

// rewatch replaces the watches by those for the folders that are on the way now. The caller holds w.mu.
func (w *watcher) rewatch() {
	before := w.names
	w.names = make(map[int32][]string, len(before))
	paths := make([]string, 0, len(w.paths))
	for p := range w.paths {
		paths = append(paths, p)
	}
	w.err = w.watch(paths)
	for id := range before {
		if w.names[id] == nil {
			_, _ = unix.InotifyRmWatch(w.fd, uint32(id)) // the kernel has removed it if its folder is gone
		}
	}
}

func (w *watcher) close() {
	w.mu.Lock()
	first, file := !w.closed, w.file
	w.closed = true
	w.mu.Unlock()
	if first && file != nil {
		close(w.stop)
		file.Close()
		<-w.ended
	}
}
