package evict

import (
	"os"
	"path/filepath"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/gantry-agent/gantry/host/internal/launch/box/fspath"
)

// A process that keeps replacing a folder on the way can neither make opening fail, other than as if the file were gone, nor lead it
// elsewhere.
func TestOpenWhileAFolderIsReplaced(t *testing.T) {
	t.Parallel()
	root, outside := t.TempDir(), t.TempDir()
	dir, inside := filepath.Join(root, "dir"), filepath.Join(root, "inside")
	for _, d := range []string{dir, inside} {
		if err := os.Mkdir(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	is, err := os.Stat(dir)
	if err != nil {
		t.Fatal(err)
	}
	for name, to := range map[string]string{"outside": outside, "inside": "inside"} {
		t.Run(name, func(t *testing.T) {
			link := filepath.Join(root, "link to "+name)
			if err := os.Symlink(to, link); err != nil {
				t.Fatal(err)
			}
			done := make(chan struct{})
			var racer sync.WaitGroup
			racer.Go(func() { // ends with done
				for {
					select {
					case <-done:
						return
					default:
						if err := unix.Renameat2(unix.AT_FDCWD, dir, unix.AT_FDCWD, link, unix.RENAME_EXCHANGE); err != nil {
							t.Error(err)
							return
						}
					}
				}
			})
			opened := 0
			for range 20_000 {
				in, err := Open(root, "dir/file")
				if err != nil {
					if !fspath.IsNotExist(err) {
						t.Errorf("open: %v", err)
						break
					}
					continue
				}
				at, err := in.Folder.Stat(".")
				in.Close()
				if err != nil || !os.SameFile(at, is) {
					t.Errorf("opened another folder: %v", err)
					break
				}
				opened++
			}
			close(done)
			racer.Wait()
			if now, err := os.Lstat(dir); err == nil && !now.IsDir() { // for the next one
				err = unix.Renameat2(unix.AT_FDCWD, dir, unix.AT_FDCWD, link, unix.RENAME_EXCHANGE)
				if err != nil {
					t.Fatal(err)
				}
			}
			if opened == 0 {
				t.Error("it was never opened")
			}
		})
	}
}
