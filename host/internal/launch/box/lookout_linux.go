package box

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/gantry-agent/gantry/host/internal/launch/box/fspath"
	"golang.org/x/sys/unix"
)

// lookout notices when something appears at one of a few paths, or is replaced there. It watches the folders on the way, also those that links
// lead to. The trees of roots are read as wholes; these are single names in folders of which nothing else matters.
type lookout struct {
	stirred func()

	mu     sync.Mutex
	paths  map[string]bool
	names  map[int32][]string // by watch
	file   *os.File           // nil: nothing is watched yet
	fd     int
	err    error // why nothing is
	closed bool
	done   chan struct{} // closed when nobody is to listen any more
	over   chan struct{} // closed when nobody does
}

// maxPause is the longest pause between two looks.
const maxPause = 20 * time.Millisecond

// heardAppear is what is heard of a folder: what appears in it, and that it is not the one at its path any more.
const heardAppear = unix.IN_CREATE | unix.IN_MOVED_TO | unix.IN_MOVE_SELF | unix.IN_DELETE_SELF | unix.IN_ONLYDIR

// add watches further paths. The error says why not all are watched.
func (l *lookout) add(paths []string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	fresh := slices.DeleteFunc(slices.Clone(paths), func(p string) bool { return l.paths[p] })
	if len(fresh) == 0 || l.closed {
		return l.err
	}
	if l.paths == nil {
		l.paths, l.names = map[string]bool{}, map[int32][]string{}
	}
	for _, p := range fresh {
		l.paths[p] = true
	}
	if l.file == nil && l.err == nil {
		l.err = l.open()
	}
	if l.file != nil {
		l.err = l.watch(fresh)
	}
	return l.err
}

func (l *lookout) open() error {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if errors.Is(err, unix.EMFILE) {
		return errors.New("there are too many watchers of files: raise sysctl fs.inotify.max_user_instances")
	}
	if err != nil {
		return fmt.Errorf("the kernel gives no notifications: %w", err)
	}
	file := os.NewFile(uintptr(fd), "inotify")
	raw, err := file.SyscallConn()
	if err != nil {
		file.Close()
		return fmt.Errorf("the kernel gives no notifications: %w", err)
	}
	l.file, l.fd, l.done, l.over = file, fd, make(chan struct{}), make(chan struct{})
	go l.listen(raw) // owned by the lookout, ended by close
	return nil
}

// watch has the kernel tell of the folders on the way to paths; the caller holds l.mu.
func (l *lookout) watch(paths []string) (err error) {
	watches := map[string]int32{}
	for _, p := range paths {
		for _, s := range trail(p) {
			w, ok := watches[s.folder]
			if !ok {
				n, failed := unix.InotifyAddWatch(l.fd, s.folder, heardAppear)
				switch {
				case failed == nil:
				case errors.Is(failed, unix.ENOSPC):
					err = errors.New("there are more folders than may be watched: raise sysctl fs.inotify.max_user_watches")
				case !fspath.IsNotExist(failed) && !errors.Is(failed, fs.ErrPermission):
					err = fmt.Errorf("%s can't be watched: %w", s.folder, failed)
				}
				if failed != nil {
					n = -1
				}
				w = int32(n)
				watches[s.folder] = w
			}
			if w >= 0 && !slices.Contains(l.names[w], s.name) {
				l.names[w] = append(l.names[w], s.name)
			}
		}
	}
	return err
}

// step is a name in a folder, on the way to a path.
type step struct{ folder, name string }

// trail is the way to a path as far as it is there, with what its links lead to. The last step may be missing.
func trail(path string) (out []step) {
	const most = 40 // links, as the kernel has it
	left := strings.Split(strings.Trim(filepath.Clean(path), "/"), "/")
	at := "/"
	for links := 0; len(left) > 0; {
		name := left[0]
		left = left[1:]
		switch name {
		case "", ".":
			continue
		case "..":
			at = filepath.Dir(at)
			continue
		}
		out = append(out, step{at, name})
		next := filepath.Join(at, name)
		info, err := os.Lstat(next)
		if err != nil {
			return out
		}
		if info.Mode()&fs.ModeSymlink == 0 {
			at = next
			continue
		}
		to, err := os.Readlink(next)
		if links++; err != nil || links > most {
			return out
		}
		if filepath.IsAbs(to) {
			at = "/"
		}
		left = append(strings.Split(to, "/"), left...)
	}
	return out
}

// listen takes notifications as they come.
func (l *lookout) listen(raw syscall.RawConn) {
	defer close(l.over)
	buf := make([]byte, 16<<10)
	for {
		matters, closed := false, false
		err := raw.Read(func(uintptr) bool {
			n, err := unix.Read(l.fd, buf)
			switch {
			case err == unix.EAGAIN || err == unix.EINTR:
				return false
			case err != nil || n <= 0:
				closed = true
				return true
			}
			matters = l.read(buf[:n])
			return true
		})
		if err != nil || closed {
			return
		}
		if !matters {
			continue
		}
		began := time.Now()
		l.mu.Lock()
		l.again()
		l.mu.Unlock()
		l.stirred()
		// A key that is saved all the time takes no more than half a processor.
		pause := time.NewTimer(min(time.Since(began), maxPause))
		select {
		case <-l.done:
		case <-pause.C:
		}
		pause.Stop()
	}
}

// read tells whether notifications are about one of the names.
func (l *lookout) read(b []byte) (matters bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(b) >= unix.SizeofInotifyEvent {
		watch, mask := int32(binary.NativeEndian.Uint32(b)), binary.NativeEndian.Uint32(b[4:])
		size := unix.SizeofInotifyEvent + int(binary.NativeEndian.Uint32(b[12:]))
		if size > len(b) {
			break
		}
		name, _, _ := bytes.Cut(b[unix.SizeofInotifyEvent:size], []byte{0})
		b = b[size:]
		names, ours := l.names[watch]
		switch {
		case mask&unix.IN_Q_OVERFLOW != 0:
			matters = true
		case mask&unix.IN_IGNORED != 0:
			delete(l.names, watch)
		case ours && (len(name) == 0 || slices.Contains(names, string(name))):
			matters = true
		}
	}
	return matters
}

// again watches what is on the way now; the caller holds l.mu.
func (l *lookout) again() {
	before := l.names
	l.names = make(map[int32][]string, len(before))
	paths := make([]string, 0, len(l.paths))
	for p := range l.paths {
		paths = append(paths, p)
	}
	l.err = l.watch(paths)
	for w := range before {
		if l.names[w] == nil {
			_, _ = unix.InotifyRmWatch(l.fd, uint32(w)) // it may be gone with its folder
		}
	}
}

func (l *lookout) close() {
	l.mu.Lock()
	first, file := !l.closed, l.file
	l.closed = true
	l.mu.Unlock()
	if first && file != nil {
		close(l.done)
		file.Close()
		<-l.over
	}
}
