package box

import (
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// Older versions put an empty folder that may not be written in the place of each missing name while a command ran. One that was killed
// left them behind.
const (
	standInMode = 0o555
	standInMark = fs.ModeDir | fs.ModeSticky
)

// sweep removes what older versions left in roots, once for each.
func (b *Box) sweep(roots []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, root := range roots {
		if b.swept[root] {
			continue
		}
		b.swept[root] = true
		for _, name := range Protected {
			p := filepath.Join(root, name)
			info, err := os.Lstat(p)
			if err == nil && info.Mode()&(fs.ModeType|fs.ModeSticky) == standInMark && info.Mode().Perm() == standInMode {
				_ = syscall.Rmdir(p) // which leaves what is not empty
			}
		}
	}
}
