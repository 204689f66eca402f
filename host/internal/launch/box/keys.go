package box

import (
	"io/fs"
	"path/filepath"
	"strings"
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
	w := way{modes: map[string]fs.FileMode{}}
	for _, p := range paths {
		k := key{path: p, at: p}
		var mode fs.FileMode
		var plain bool
		if mode, k.there, plain = w.look(p); !plain {
			k.path = real(p)
			if _, mode, k.there = identify(k.path); !k.there {
				k.at = realParent(p)
			}
		}
		k.folder, k.file = k.there && mode.IsDir(), k.there && mode.IsRegular()
		list = append(list, k)
	}
	return list
}

// way remembers which folders are there and which names are missing.
type way struct{ modes map[string]fs.FileMode }

const absentMode = fs.ModeIrregular | fs.ModeTemporary

// look looks at a path step by step. plain is false where a symbolic link or another spelling may be on the way, which a look at the
// names alone does not tell.
func (w *way) look(path string) (mode fs.FileMode, there, plain bool) {
	if bySeatbelt || path != filepath.Clean(path) || !filepath.IsAbs(path) {
		return 0, false, false
	}
	for end := 1; end < len(path); end++ {
		if i := strings.IndexByte(path[end:], '/'); i < 0 {
			end = len(path)
		} else {
			end += i
		}
		step, known := w.modes[path[:end]]
		if !known {
			var ok bool
			if _, step, ok = identify(path[:end]); !ok {
				step = absentMode
			}
			w.modes[path[:end]] = step
		}
		switch {
		case step == absentMode:
			return 0, false, true
		case step&fs.ModeSymlink != 0:
			return 0, false, false
		case end < len(path) && !step.IsDir():
			return 0, false, true
		}
		mode = step
	}
	return mode, true, true
}
