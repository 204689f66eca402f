package box

import (
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gantry-agent/gantry/host/internal/launch/box/fspath"
)

// others are the settings of other version controls, below their folders, which may name programs as git's do, and folders of programs.
var others = map[string][]string{
	".hg": {"hgrc", "hgrc-not-shared", "sharedpath"}, ".jj": {jjRepo, jjRepo + "/config.toml", "workspace-config.toml"}, ".sl": {"config", "hgrc", "sharedpath"},
	"_darcs": {"prefs/defaults"}, ".repo": {"repo"}, ".bzr": {"branch/branch.conf"}, ".pijul": {"config"},
}

// jjRepo is a folder in Jujutsu's own, or a file that says where that lies.
const jjRepo = "repo"

// entered are the names of nestedNames that are looked through: there may be repositories in them, Jujutsu's among them.
func entered() []string {
	return append(slices.Sorted(maps.Keys(others)), ".git")
}

// others notes what of a version control's own folder names programs. A link on the way to it is as good as its target, and what lies at the
// target may be written: both are noted.
func (p *parts) others(root, dir string, names []string) {
	for _, name := range names {
		at := dir
		for rest := name; ; {
			id, mode, ok := fspath.Lstat(at)
			if !ok {
				break
			}
			if mode&fs.ModeSymlink != 0 {
				p.add(root, at, kindOther, id)
				p.other(filepath.Join(at, rest), at)
				break
			}
			if at == filepath.Join(dir, name) {
				p.otherAt(root, at, id, mode, origin{top: dir})
				break
			}
			var next string
			next, rest, _ = strings.Cut(rest, "/")
			at = filepath.Join(at, next)
		}
	}
}

// other notes what a path leads to by way of a link, if commands may write it.
func (p *parts) other(path, link string) {
	to, err := filepath.EvalSymlinks(path)
	if err != nil {
		return
	}
	for _, root := range p.roots {
		if id, mode, ok := fspath.Lstat(to); ok && fspath.Below(to, root) && !p.held(to) {
			p.otherAt(root, to, id, mode, origin{via: []string{link}})
			return
		}
	}
}

func (p *parts) otherAt(root, path string, id fspath.Identity, mode fs.FileMode, made origin) {
	if filepath.Base(path) == jjRepo && filepath.Base(filepath.Dir(path)) == ".jj" && (mode.IsDir() || leadsToJJ(path)) {
		return
	}
	if mode.IsDir() {
		id = fspath.Persistent(path, id) // its content is kept read-only
	}
	p.addMade(root, path, kindOther, id, made)
	if mode.IsRegular() || mode.IsDir() {
		p.hold = append(p.hold, path)
	}
}

// leadsToJJ reports whether a file of Jujutsu's leads to the folder of another workspace, which is looked at where it lies.
func leadsToJJ(path string) bool {
	to := ledTo(path, "")
	return filepath.Base(to) == jjRepo && filepath.Base(filepath.Dir(to)) == ".jj" && fspath.IsDir(to)
}
