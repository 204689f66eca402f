package durable

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestUpdateLosesNothing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "new", "counter")
	const writers, each = 8, 10
	var wg sync.WaitGroup
	for range writers {
		wg.Go(func() {
			for range each {
				err := Update(t.Context(), path, 0o600, func(old []byte) ([]byte, error) {
					n := 0
					if old != nil {
						var err error
						if n, err = strconv.Atoi(string(old)); err != nil {
							return nil, err
						}
					}
					return strconv.AppendInt(nil, int64(n+1), 10), nil
				})
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	got, err := os.ReadFile(path)
	if err != nil || string(got) != strconv.Itoa(writers*each) {
		t.Errorf("after %d updates the file holds %q, %v", writers*each, got, err)
	}
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(entries) != 1 {
		t.Errorf("left behind: %v, %v, want the file alone", entries, err)
	}
}

func TestUpdateWaitsUntilTheContextEnds(t *testing.T) {
	dir := t.TempDir()
	held, err := tryLock(dir)
	if err != nil {
		t.Skip(err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cause := errors.New("enough")
	cancel(cause)
	err = Update(ctx, filepath.Join(dir, "f"), 0o600, func([]byte) ([]byte, error) {
		t.Error("changed without the lock")
		return nil, nil
	})
	if !errors.Is(err, cause) || !errors.Is(err, errBusy) {
		t.Errorf("err = %v, want %v and %v", err, cause, errBusy)
	}
	if err := held.Close(); err != nil {
		t.Fatal(err)
	}
	if err := Update(t.Context(), filepath.Join(dir, "f"), 0o640, func([]byte) ([]byte, error) { return []byte("x"), nil }); err != nil {
		t.Error(err)
	}
	info, err := os.Stat(filepath.Join(dir, "f"))
	if err != nil || info.Mode().Perm() != 0o640 {
		t.Errorf("mode = %v, %v, want 0640", info.Mode(), err)
	}
}

func TestUpdateKeepsTheFileWhenChangeFails(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(path, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	broken := errors.New("broken")
	if err := Update(t.Context(), path, 0o600, func([]byte) ([]byte, error) { return []byte("new"), broken }); !errors.Is(err, broken) {
		t.Errorf("err = %v, want %v", err, broken)
	}
	if got, err := os.ReadFile(path); err != nil || string(got) != "old" {
		t.Errorf("file = %q, %v, want it unchanged", got, err)
	}
}

func TestReplaceRefusesALink(t *testing.T) {
	dir := t.TempDir()
	target, link := filepath.Join(dir, "target"), filepath.Join(dir, "link")
	if err := os.WriteFile(target, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(target, link); err != nil {
		t.Skip("no symbolic links here:", err)
	}
	if err := Replace(link, []byte("new"), 0o600); err == nil {
		t.Error("Replace wrote through a symbolic link")
	}
	if got, err := os.ReadFile(target); err != nil || string(got) != "old" {
		t.Errorf("target = %q, %v, want it unchanged", got, err)
	}
}
