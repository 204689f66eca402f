package box

import (
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/gantry-agent/gantry/host/internal/launch/box/fspath"
)

// What is protected or denied and missing can't be covered: a mount needs something to lie on, and whatever gantry made there would be in
// the way of everybody else who works in the folder. So it is judged once it is there.

// appeared are the denied paths that were missing when a command began and are there now, or the link by which they are.
func appeared(missing, roots []string) []part {
	var out []part
	for _, path := range missing {
		root := ""
		for _, r := range roots {
			if fspath.Below(path, r) && (root == "" || len(r) < len(root)) {
				root = r
			}
		}
		if root == "" {
			continue
		}
		for _, at := range fspath.Between(root, path) {
			id, mode, ok := fspath.Lstat(at)
			if !ok {
				break
			}
			if at == path || mode&fs.ModeSymlink != 0 {
				rel, err := filepath.Rel(root, at)
				if err == nil {
					out = append(out, part{root: root, path: rel, kind: kindDenied, id: id})
				}
				break
			}
		}
	}
	return out
}

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
