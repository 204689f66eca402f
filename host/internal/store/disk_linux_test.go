package store_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/store"
	"github.com/gantry-agent/gantry/host/internal/store/database"
	"github.com/gantry-agent/gantry/host/internal/store/storetest"
)

// disk is a file system of its own.
type disk struct {
	t   *testing.T
	dir string
}

// newDisk mounts a disk of so many KiB. Only root may.
func newDisk(t *testing.T, kib int) disk {
	t.Helper()
	d := disk{t, t.TempDir()}
	err := syscall.Mount("none", d.dir, "tmpfs", 0, fmt.Sprintf("size=%dk", kib))
	if errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.EACCES) {
		t.Skip("this user may not mount a disk")
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(d.dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return d
}

// becomes changes the disk's size or how it is mounted.
func (d disk) becomes(flags uintptr, data string) {
	d.t.Helper()
	if err := syscall.Mount("none", d.dir, "tmpfs", syscall.MS_REMOUNT|flags, data); err != nil {
		d.t.Fatal(err)
	}
}

// fill leaves so many KiB free.
func (d disk) fill(free int) {
	d.t.Helper()
	var st syscall.Statfs_t
	if err := syscall.Statfs(d.dir, &st); err != nil {
		d.t.Fatal(err)
	}
	n := int64(st.Bavail)*st.Bsize - int64(free)<<10
	if err := os.WriteFile(filepath.Join(d.dir, "ballast"), make([]byte, max(n, 0)), 0o600); err != nil {
		d.t.Fatal(err)
	}
}

// empty takes away what fill put there.
func (d disk) empty() {
	d.t.Helper()
	if err := os.Remove(filepath.Join(d.dir, "ballast")); err != nil {
		d.t.Fatal(err)
	}
}

func (d disk) path() string { return filepath.Join(d.dir, "threads.db") }

// A disk that runs full in the middle of a batch, of a commit, or of the move of the log costs nothing that had a barrier.
// With room again the store writes what it has kept, and goes on.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	for free := range 12 { // KiB, so that it runs full at another byte each time
		t.Run(fmt.Sprintf("%d KiB", 40+7*free), func(t *testing.T) {
			t.Parallel()
			d := newDisk(t, 1024)
			h := make(health, 10)
			cfg := store.Config{Path: d.path()}
			watch(h)(&cfg)
			s := openAt(t, cfg)
			thread := event.NewThreadID()
			next := forever(thread)
			first := next()
			mustAppend(t, s, first)
			mustBarrier(t, s, []event.Event{first})
			d.fill(40 + 7*free)
			safe, last := first.Seq, first.Seq
			var err error
			for err == nil {
				e := next()
				mustAppend(t, s, e)
				if last = e.Seq; last > 10000 {
					t.Fatal("the disk does not run full")
				}
				if err = s.Barrier(t.Context(), thread, last); err == nil {
					safe = last
				}
			}
			if !database.IsFull(err) || !strings.Contains(err.Error(), "free some space") {
				t.Errorf("barrier = %v, want the full disk and what helps", err)
			}
			h.degraded(t)
			copied := snapshot(t, d.path())
			verify(t, store.Config{Path: copied}, thread, safe)
			d.empty()
			h.recovered(t)
			if err := s.Barrier(t.Context(), thread, last); err != nil {
				t.Fatalf("with room again: %v", err)
			}
			if err := s.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
			verify(t, store.Config{Path: d.path()}, thread, last)
		})
	}
}

// snapshot copies a database as a crash at this moment would leave it.
func snapshot(t *testing.T, path string) string {
	t.Helper()
	to := filepath.Join(t.TempDir(), "threads.db")
	for _, suffix := range []string{"", "-wal"} {
		if _, err := os.Stat(path + suffix); err == nil {
			copyFile(t, path+suffix, to+suffix)
		}
	}
	return to
}

// A store can't be made on a full disk. The error says why, and nothing is left that would be in the way later.
func TestOpenOnAFullDisk(t *testing.T) {
	t.Parallel()
	for _, free := range []int{0, 4, 16, 40, 80} {
		t.Run(fmt.Sprintf("%d KiB", free), func(t *testing.T) {
			t.Parallel()
			d := newDisk(t, 512)
			d.fill(free)
			s, err := store.Open(t.Context(), store.Config{Path: d.path()})
			if err == nil {
				err = s.Close(t.Context())
			}
			if err == nil || !strings.Contains(err.Error(), "next: ") && !errors.Is(err, syscall.ENOSPC) {
				t.Errorf("Open = %v, want an error that says what to do", err)
			}
			d.empty()
			s = openAt(t, store.Config{Path: d.path()})
			story := storetest.Story("t", 1)
			mustAppend(t, s, story...)
			mustBarrier(t, s, story)
		})
	}
}

// An artifact that does not fit leaves nothing behind, and does not keep the store from working.
func TestArtifactOnAFullDisk(t *testing.T) {
	t.Parallel()
	d := newDisk(t, 1024)
	s := openAt(t, store.Config{Path: d.path()})
	d.fill(200)
	_, err := s.PutArtifact(t.Context(), "text/plain", "big", strings.NewReader(strings.Repeat("x", 300<<10)))
	if !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("put = %v, want %v", err, syscall.ENOSPC)
	}
	if left, err := os.ReadDir(filepath.Join(d.dir, "artifacts", "tmp")); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
	ref, err := s.PutArtifact(t.Context(), "text/plain", "small", strings.NewReader("y"))
	if err != nil {
		t.Fatal(err)
	}
	e := forever("t")()
	mustAppend(t, s, e)
	mustBarrier(t, s, []event.Event{e})
	if _, err := s.Artifact(t.Context(), ref.SHA256); err != nil {
		t.Error(err)
	}
}

// On a disk that became read-only nothing is lost that had a barrier, and everything is there once it can be written again. A
// store that is opened meanwhile says what is wrong.
func TestReadOnlyDisk(t *testing.T) {
	t.Parallel()
	d := newDisk(t, 4096)
	before := openAt(t, store.Config{Path: d.path()})
	story := storetest.Story("t", 2)
	mustAppend(t, before, story...)
	if err := before.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	d.becomes(syscall.MS_RDONLY, "")
	_, err := store.Open(t.Context(), store.Config{Path: d.path()})
	if err == nil || !strings.Contains(err.Error(), "make the file and its folder writable") {
		t.Errorf("Open = %v, want what helps", err)
	}
	d.becomes(0, "")
	s := openAt(t, store.Config{Path: d.path()})
	if got := stored(t, s, "t", 0); len(got) != len(story) {
		t.Errorf("%d events, want %d", len(got), len(story))
	}
}

// A process that takes the database for itself alone, as some tools do: who opens it then is told, and who has it open writes
// later what it has kept.
func TestDatabaseLockedByAnotherProcess(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "threads.db")
	s := openAt(t, store.Config{Path: path})
	story := storetest.Story("t", 1)
	mustAppend(t, s, story[:3]...)
	if err := s.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	conn, err := storetest.SQL(t, store.Config{Path: path}).Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	for _, statement := range []string{"PRAGMA locking_mode(EXCLUSIVE)", "BEGIN EXCLUSIVE"} {
		if _, err := conn.ExecContext(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := store.Open(t.Context(), store.Config{Path: path, BusyWait: 20 * time.Millisecond}); !database.IsBusy(err) || !strings.Contains(err.Error(), "another process") {
		t.Errorf("Open = %v, want that another process is in the way", err)
	}
	if _, err := conn.ExecContext(t.Context(), "ROLLBACK"); err != nil {
		t.Fatal(err)
	}
	if err := conn.Close(); err != nil {
		t.Fatal(err)
	}
}
