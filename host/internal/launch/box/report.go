package box

import (
	"path/filepath"
	"slices"
	"strings"

	"github.com/gantry-agent/gantry/host/internal/launch"
	"github.com/gantry-agent/gantry/host/internal/launch/box/autorun"
	"github.com/gantry-agent/gantry/host/internal/launch/box/fspath"
)

// Report describes a sandbox.
type Report struct {
	Helper     string   // bubblewrap's path; empty: there is none, and Missing says why
	Missing    error    // why commands can't be sandboxed here; nil: they can
	Seatbelt   bool     // Helper belongs to macOS
	Lacks      []string // what this system can't enforce
	Landlock   int      // the kernel's version of it; 0: none
	Writable   []string // folders
	Protected  []string // what stays read-only in Writable
	Unreadable []string // hidden paths
	Readable   []string // only this and the system's folders; nil: everything
	Denied     int      // number of files and folders that match deny_read
	Kept       int      // number of those that match deny_write
	// Held are the paths in Writable that are read-only because of git's settings or PATH. Repositories is the number of
	// repositories in Writable whose hooks and settings are read-only.
	Held         []Held
	Repositories int
	Walked       []Walked // folders that are compared before and after each command because they can't be watched
}

// Held is a read-only path, and why.
type Held struct {
	Path string `json:"path"`
	Why  string `json:"why"`
}

// Walked is a folder that is compared, and why.
type Walked struct {
	Root string `json:"root"`
	Why  string `json:"why"`
}

// lacksOfSeatbelt are what macOS can't enforce.
var lacksOfSeatbelt = []string{
	"a private /tmp: TMPDIR names a private folder, and /tmp itself can't be used",
	"limits on the memory and the number of processes of a command: with such a limit no command starts",
	"ending what a command has left running if gantry and its gantry-launch are killed at once",
}

// Report describes the sandbox of a grant. It starts no process. It reads the writable folders, so the caller closes the sandbox.
func (b *Sandbox) Report(g launch.Grant) Report {
	r := Report{Landlock: b.landlock(), Seatbelt: b.seatbelt}
	if b.seatbelt {
		r.Lacks = lacksOfSeatbelt
	}
	if r.Missing = b.Check(g); r.Missing == nil {
		r.Helper, r.Missing = b.helper()
	}
	if g.Mode == WorkspaceWrite {
		roots, _, err := b.roots(g.WritableRoots)
		if err != nil {
			r.Missing = err
		}
		r.Writable = append(roots, ownTmp()...)
		for _, root := range roots {
			for _, name := range Protected {
				r.Protected = append(r.Protected, filepath.Join(root, name))
			}
		}
	}
	var roots []string
	if g.Mode == WorkspaceWrite && r.Missing == nil {
		roots, _, _ = b.roots(g.WritableRoots) // checked above
	}
	v, missing, err := b.view(g, roots, nil)
	if err != nil && r.Missing == nil {
		r.Missing = err
	}
	if len(roots) > 0 && r.Missing == nil {
		r.Missing = b.reportParts(&r, roots)
	}
	r.Readable, r.Denied, r.Kept = v.read, len(v.denied), len(v.readOnly)+len(missing)
	if g.Mode == launch.FullAccess {
		return r
	}
	if fspath.IsDir(b.home) {
		r.Unreadable = append(r.Unreadable, b.home)
	}
	for _, p := range b.locator.Paths() {
		if fspath.Exists(p) {
			r.Unreadable = append(r.Unreadable, p)
		}
	}
	return r
}

// reportParts adds what other programs execute in roots.
func (b *Sandbox) reportParts(r *Report, roots []string) error {
	found, err := b.guard.Look(roots, nil)
	if err != nil {
		return err
	}
	held := map[string]bool{}
	for _, p := range found.ReadOnly {
		if why := found.Reasons[p]; why != "" && !held[p] {
			r.Held = append(r.Held, Held{p, why})
		}
		held[p] = true
	}
	slices.SortFunc(r.Held, func(a, b Held) int { return strings.Compare(a.Path, b.Path) })
	repositories := map[string]bool{}
	for _, p := range found.Files {
		if p.Kind == autorun.KindRepository {
			repositories[p.AbsPath()] = true
		}
	}
	r.Repositories = len(repositories)
	for _, root := range fspath.Outermost(roots) {
		if why := b.guard.Index.WhyCompared(root); why != "" {
			r.Walked = append(r.Walked, Walked{root, why})
		}
	}
	return found.Err
}
