package box

import (
	"path/filepath"
	"slices"
	"strings"

	"github.com/gantry-agent/gantry/host/internal/launch"
	"github.com/gantry-agent/gantry/host/internal/launch/box/autorun"
	"github.com/gantry-agent/gantry/host/internal/launch/box/fspath"
)

// Report is what a box keeps, and by what.
type Report struct {
	Helper     string   // bubblewrap's program; empty: there is none, and Missing says why
	Missing    error    // why there are no boxes here; nil: there are
	Seatbelt   bool     // Helper is that of macOS
	Lacks      []string // what of a box is not there on this system
	Landlock   int      // the version that the kernel has; 0: this layer is missing
	Writable   []string // folders
	Protected  []string // what stays read-only in them
	Unreadable []string // what nobody in the box reads
	Readable   []string // nothing else is read but the system's folders; nil: everything is
	Denied     int      // how many files and folders are there that the grant's denials stand for
	Kept       int      // how many that are not written
	// Held is what of the folders is read-only because of git's settings, or PATH. Repositories is how many lie in them whose hooks and
	// settings are.
	Held         []Held
	Repositories int
	Walked       []Walked // the folders that are compared before and after each command, since they can't be watched
}

// Held is a path that is read-only, and why.
type Held struct {
	Path string `json:"path"`
	Why  string `json:"why"`
}

// Walked is a folder that is compared, and why.
type Walked struct {
	Root string `json:"root"`
	Why  string `json:"why"`
}

// lacksOfSeatbelt are what macOS has nothing for.
var lacksOfSeatbelt = []string{
	"a /tmp of the thread's own: TMPDIR leads to one, and /tmp itself is not to be used",
	"limits on the memory and the number of processes of a command: who sets them gets no command started",
	"the end of what a command has left running when gantry and its gantry-launch are killed at once",
}

// Report says what a grant's box would be. It starts nothing, and reads the folders that may be written: who asks closes the box.
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
		roots, _, _ = b.roots(g.WritableRoots) // looked at above
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

// reportParts says what lies in roots that others execute.
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
