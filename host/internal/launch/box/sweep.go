package box

import (
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// Older versions created an empty read-only folder in the place of each missing protected name while a command was running, and
// left it behind if they were killed.
const (
	placeholderPerm = 0o555
	placeholderType = fs.ModeDir | fs.ModeSticky
)

// sweep removes what older versions have left in roots, once for each.
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
				_ = syscall.Rmdir(p) // fails if it is not empty
			}
		}
	}
}
