package autorun

import (
	"io/fs"
	"path/filepath"

	"github.com/gantry-agent/gantry/host/internal/launch/box/fspath"
)

// Appeared returns the denied or protected paths that were missing when a command began and exist now, or the symbolic links
// through which they do. They could not be covered before: a mount needs something to lie on, and a placeholder would be in the way
// of everyone else who works in the folder.
func Appeared(missing, roots []string) []File {
	var out []File
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
					out = append(out, File{Root: root, Path: rel, Kind: KindDenied, ID: id})
				}
				break
			}
		}
	}
	return out
}

// LinksToRoots returns the symbolic links in roots that the paths in asked lead through.
func LinksToRoots(asked, roots []string) (out []File) {
	for _, r := range asked {
		link := fspath.LinkIn(r, roots)
		for _, root := range fspath.Outermost(roots) {
			if rel, err := filepath.Rel(root, link); err == nil && fspath.Below(link, root) {
				id, _, _ := fspath.Lstat(link)
				out = append(out, File{Root: root, Path: rel, Kind: KindRootLink, ID: id})
			}
		}
	}
	return out
}
