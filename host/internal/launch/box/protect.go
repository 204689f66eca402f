package box

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/gantry-agent/gantry/host/internal/launch/box/fspath"
	"github.com/gantry-agent/gantry/host/internal/launch/box/gitconfig"
)

// protect makes the protected names directly below the roots read-only, unless they were opened. Nothing is created for missing
// ones: a command may create them, and they are checked when it ends, like those further down. whole are the protected paths with
// their identities; as long as these are unchanged, nothing in them is searched.
func (b *Sandbox) protect(v *view, opened []string) (whole map[string]fspath.Identity, err error) {
	whole = map[string]fspath.Identity{}
	for _, root := range v.roots {
		for _, name := range Protected {
			p := filepath.Join(root, name)
			info, err := os.Lstat(p)
			switch {
			case errors.Is(err, fs.ErrNotExist): // macOS denies the name
				continue
			case err != nil:
				return nil, fmt.Errorf("protect %s: %w", p, err)
			case fspath.ContainsOpened(p, opened) && !info.IsDir():
				continue
			case info.Mode()&fs.ModeSymlink != 0:
				return nil, fmt.Errorf("%s can't be kept read-only: it is a symbolic link in a writable folder; replace it by its target", p)
			}
			id, _, ok := fspath.Lstat(p)
			if !ok {
				continue // removed in between
			}
			whole[p] = fspath.Persistent(p, id)
			switch {
			case slices.Contains(v.roots, p): // asked for by name
				continue
			case fspath.ContainsOpened(p, opened) && !b.seatbelt:
				v.partial = append(v.partial, p)
				continue
			}
			v.readOnly = append(v.readOnly, p)
			if name == ".git" && info.Mode().IsRegular() {
				if dir := gitconfig.Dir(p); dir != "" && fspath.BelowAny(dir, v.roots) {
					v.readOnly = append(v.readOnly, dir)
				}
			}
		}
	}
	return whole, nil
}
