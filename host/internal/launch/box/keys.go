package box

import (
	"io/fs"

	"github.com/gantry-agent/gantry/host/internal/launch/box/fspath"
)

// key is a place where keys lie, or would lie.
type key struct {
	path   string // without symbolic links; as written where nothing is there
	at     string // path, or where something could be made that would be there
	there  bool
	folder bool
	file   bool
}

// located resolves the places of keys, each folder on the way once: there are about a hundred of them, most are missing, and all are
// looked at before each command.
func (b *Box) located() []key {
	paths := b.keys()
	list := make([]key, 0, len(paths))
	w := fspath.NewStatCache()
	for _, p := range paths {
		k := key{path: p, at: p}
		var mode fs.FileMode
		var plain bool
		if mode, k.there, plain = w.Lstat(p); !plain {
			k.path = fspath.Resolve(p)
			if _, mode, k.there = fspath.Lstat(k.path); !k.there {
				k.at = fspath.ResolveParent(p)
			}
		}
		k.folder, k.file = k.there && mode.IsDir(), k.there && mode.IsRegular()
		list = append(list, k)
	}
	return list
}
