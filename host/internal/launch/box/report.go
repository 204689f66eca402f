package box

import (
	"path/filepath"

	"github.com/gantry-agent/gantry/host/internal/launch"
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
}

// lacksOfSeatbelt are what macOS has nothing for.
var lacksOfSeatbelt = []string{
	"a /tmp of the thread's own: TMPDIR leads to one, and /tmp itself is not to be used",
	"limits on the memory and the number of processes of a command: who sets them gets no command started",
	"the end of what a command has left running when gantry and its gantry-launch are killed at once",
}

// Report says what a grant's box would be. It starts nothing.
func (b *Box) Report(g launch.Grant) Report {
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
	r.Readable, r.Denied, r.Kept = v.read, len(v.denied), len(v.hold)+len(missing)
	if g.Mode == launch.FullAccess {
		return r
	}
	if isDir(b.home) {
		r.Unreadable = append(r.Unreadable, b.home)
	}
	for _, p := range b.keys() {
		if isThere(p) {
			r.Unreadable = append(r.Unreadable, p)
		}
	}
	return r
}
