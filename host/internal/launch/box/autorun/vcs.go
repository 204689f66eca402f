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

// VCSSettings are the files and folders of other version control systems, relative to the system's own folder, that name programs
// as git's settings do.
var VCSSettings = map[string][]string{
	".hg": {"hgrc", "hgrc-not-shared", "sharedpath"}, ".jj": {jjRepo, jjRepo + "/config.toml", "workspace-config.toml"}, ".sl": {"config", "hgrc", "sharedpath"},
	"_darcs": {"prefs/defaults"}, ".repo": {"repo"}, ".bzr": {"branch/branch.conf"}, ".pijul": {"config"},
}

// jjRepo is the folder of a Jujutsu repository, or a file that says where it is.
const jjRepo = "repo"

// entered returns the NestedNames that are searched: there may be repositories in them.
func entered() []string {
	return append(slices.Sorted(maps.Keys(VCSSettings)), ".git")
}

// addVCS adds what in a version control system's own folder names programs. For a symbolic link both the link and its target are
// added, since the target may be writable.
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

// addVCSLink adds the target of a symbolic link if it is in a writable root.
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

// leadsToJJ reports whether a Jujutsu file leads to the folder of another workspace, which is found where it is.
func leadsToJJ(path string) bool {
	to := gitconfig.ReadPointer(path, "")
	return filepath.Base(to) == jjRepo && filepath.Base(filepath.Dir(to)) == ".jj" && fspath.IsDir(to)
}
