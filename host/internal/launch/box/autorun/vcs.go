package autorun

import (
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gantry-agent/gantry/host/internal/launch/box/fspath"
	"github.com/gantry-agent/gantry/host/internal/launch/box/gitconfig"
)

// VCSSettings are the settings of other version controls, below their folders, which may name programs as git's do, and folders of programs.
var VCSSettings = map[string][]string{
	".hg": {"hgrc", "hgrc-not-shared", "sharedpath"}, ".jj": {jjRepo, jjRepo + "/config.toml", "workspace-config.toml"}, ".sl": {"config", "hgrc", "sharedpath"},
	"_darcs": {"prefs/defaults"}, ".repo": {"repo"}, ".bzr": {"branch/branch.conf"}, ".pijul": {"config"},
}

// jjRepo is a folder in Jujutsu's own, or a file that says where that lies.
const jjRepo = "repo"

// entered are the names of nestedNames that are looked through: there may be repositories in them, Jujutsu's among them.
func entered() []string {
	return append(slices.Sorted(maps.Keys(VCSSettings)), ".git")
}

// addVCS notes what of a version control's own folder names programs. A link on the way to it is as good as its target, and what lies at the
// target may be written: both are noted.
func (p *Found) addVCS(root, dir string, names []string) {
	for _, name := range names {
		at := dir
		for rest := name; ; {
			id, mode, ok := fspath.Lstat(at)
			if !ok {
				break
			}
			if mode&fs.ModeSymlink != 0 {
				p.add(root, at, KindVCSSettings, id)
				p.addVCSLink(filepath.Join(at, rest), at)
				break
			}
			if at == filepath.Join(dir, name) {
				p.addVCSFile(root, at, id, mode, Origin{Top: dir})
				break
			}
			var next string
			next, rest, _ = strings.Cut(rest, "/")
			at = filepath.Join(at, next)
		}
	}
}

// addVCSLink notes what a path leads to by way of a link, if commands may write it.
func (p *Found) addVCSLink(path, link string) {
	to, err := filepath.EvalSymlinks(path)
	if err != nil {
		return
	}
	for _, root := range p.Roots {
		if id, mode, ok := fspath.Lstat(to); ok && fspath.Below(to, root) && !p.Covered(to) {
			p.addVCSFile(root, to, id, mode, Origin{Via: []string{link}})
			return
		}
	}
}

func (p *Found) addVCSFile(root, path string, id fspath.Identity, mode fs.FileMode, made Origin) {
	if filepath.Base(path) == jjRepo && filepath.Base(filepath.Dir(path)) == ".jj" && (mode.IsDir() || leadsToJJ(path)) {
		return
	}
	if mode.IsDir() {
		id = fspath.Persistent(path, id) // its content is kept read-only
	}
	p.addMade(root, path, KindVCSSettings, id, made)
	if mode.IsRegular() || mode.IsDir() {
		p.ReadOnly = append(p.ReadOnly, path)
	}
}

// leadsToJJ reports whether a file of Jujutsu's leads to the folder of another workspace, which is looked at where it lies.
func leadsToJJ(path string) bool {
	to := gitconfig.ReadPointer(path, "")
	return filepath.Base(to) == jjRepo && filepath.Base(filepath.Dir(to)) == ".jj" && fspath.IsDir(to)
}
