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
	placeholderPerm = 0o555
	placeholderType = fs.ModeDir | fs.ModeSticky
)

// sweep removes what older versions left in roots, once for each.
func (b *Sandbox) sweep(roots []string) {
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
			if err == nil && info.Mode()&(fs.ModeType|fs.ModeSticky) == placeholderType && info.Mode().Perm() == placeholderPerm {
				_ = syscall.Rmdir(p) // which leaves what is not empty
			}
		}
	}
}
