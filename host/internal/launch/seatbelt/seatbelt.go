// Package seatbelt writes profiles for macOS's sandbox-exec, which say what a process may do.
//
// It owns: the language of profiles, the system's operations, which of two rules applies. It must not know: what a grant is, which
// paths are protected and why, how a process is started.
//
// Start with [Policy.Profile]. The text of a profile contains no paths: they are passed as parameters, so that no file name can
// become a rule.
package seatbelt

import (
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
)

// Program applies a profile to itself and executes a command. It belongs to macOS.
const Program = "/usr/bin/sandbox-exec"

// Access is what a rule allows.
type Access int

// The kinds of access. The first three decide about reading and writing, whatever earlier rules say.
const (
	AccessUnknown Access = iota
	AccessNone           // neither readable nor writable; that it exists is visible
	AccessRead           // readable
	AccessWrite          // readable and writable
	AccessKept           // not writable; reading is as the earlier rules say
	// AccessFixed forbids removing and renaming a path. It changes nothing else, and later rules do not override it.
	AccessFixed
)

// String returns the name of the access.
func (a Access) String() string {
	names := [...]string{"unknown", "none", "read", "write", "kept", "fixed"}
	return names[max(0, min(int(a), len(names)-1))]
}

// Rule says what a process may do with some paths. Of several rules for a path the last applies.
type Rule struct {
	Access Access
	// Path is the path that the rule is for, including everything below it; absolute, resolved, in the file system's own spelling.
	Path string
	// Match is a regular expression in place of Path, see [Regexp]. It matches whole paths, and includes everything below them.
	Match string
	// Except are folders below what Match matches that the rule does not apply to.
	Except []string
}

// Native reports whether this system has macOS's sandbox.
const Native = runtime.GOOS == "darwin"

// Rules collects rules for paths.
type Rules []Rule

// Add appends a rule for each of the paths.
func (l *Rules) Add(a Access, paths ...string) {
	for _, p := range paths {
		*l = append(*l, Rule{Access: a, Path: p})
	}
}

// Sorted returns the rules ordered from shallow to deep paths, so that a rule for a folder's content overrides the one for the folder.
func (l Rules) Sorted() []Rule {
	depth := func(r Rule) int { return strings.Count(strings.TrimSuffix(r.Path, "/"), "/") }
	slices.SortStableFunc(l, func(a, b Rule) int { return depth(a) - depth(b) })
	return l
}

// Network is what a process can reach.
type Network int

// The kinds of network.
const (
	NetworkUnknown Network = iota
	NetworkNone            // nothing but its own children
	NetworkProxy           // port [Policy.Port] of this machine
	NetworkFull            // every machine; of this machine's Unix sockets only the name service's
)

// Policy is what a process and its children may do. Everything else is denied.
type Policy struct {
	// Open allows everything that no rule denies; Network and Sockets are ignored then.
	Open bool
	// Files are the rules for files. A few devices that every process needs are always allowed.
	Files   []Rule
	Network Network
	Port    int // for NetworkProxy
	// Sockets are folders in which Unix sockets may be created and connected to.
	Sockets []string
}

// Parameter is a value that the text of a profile refers to.
type Parameter struct{ Name, Value string }

// Profile is a policy in the language of sandbox-exec.
type Profile struct {
	Text       string
	Parameters []Parameter
}

// Args returns the arguments of [Program], without the command.
func (p Profile) Args() []string {
	args := make([]string, 0, 2+2*len(p.Parameters))
	args = append(args, "-p", p.Text)
	for _, x := range p.Parameters {
		args = append(args, "-D", x.Name+"="+x.Value)
	}
	return args
}

// maxValues bounds the size of all parameters: macOS accepts 1 MiB of arguments and environment.
const maxValues = 512 << 10

// Operations on files. A rule for an operation with a star has no effect where a rule for a part of it matches, in whatever order
// they are: so what is allowed is denied again under the same names.
const (
	reading = "file-read* file-map-executable"
	writing = "file-write* file-clone file-link"
	showing = "file-read-metadata" // part of reading, checked for each folder on the way to a file
	losing  = "file-write-unlink"  // part of writing: removing and renaming
)

// Profile returns the policy as a profile. It fails for paths that are not valid, and for more of them than macOS accepts.
func (p Policy) Profile() (Profile, error) {
	w := &writer{names: map[string]string{}}
	w.line("(version 1)")
	if p.Open {
		w.line("(allow default)")
	} else {
		w.line("(deny default)")
		w.needs()
		if err := p.network(w); err != nil {
			return Profile{}, err
		}
	}
	for _, r := range p.Files {
		if err := w.rule(r, p.Open); err != nil {
			return Profile{}, err
		}
	}
	if !p.Open {
		w.devices()
	}
	if w.size > maxValues {
		return Profile{}, fmt.Errorf("a sandbox profile takes %d bytes of paths, more than the maximum of %d; name folders instead of the files in them", w.size, maxValues)
	}
	return Profile{Text: w.text.String(), Parameters: w.params}, nil
}

// writer builds a profile.
type writer struct {
	text   strings.Builder
	params []Parameter
	names  map[string]string // parameter names by value
	size   int
	shown  map[string]bool // folders whose existence is visible
}

func (w *writer) line(parts ...string) {
	w.text.WriteString(strings.Join(parts, " "))
	w.text.WriteByte('\n')
}

// value returns a reference to a parameter with the value.
func (w *writer) value(v string) string {
	name, ok := w.names[v]
	if !ok {
		name = "P" + strconv.Itoa(len(w.params))
		w.names[v] = name
		w.params = append(w.params, Parameter{name, v})
		w.size += len(v) + len(name) + len("-D =")
	}
	return "(param \"" + name + "\")"
}

func (w *writer) subpath(p string) string { return "(subpath " + w.value(p) + ")" }

func (w *writer) literal(p string) string { return "(literal " + w.value(p) + ")" }

func (w *writer) regex(r string) string { return "(regex " + w.value(r) + ")" }

// rule adds a rule for files.
func (w *writer) rule(r Rule, open bool) error {
	if err := r.check(); err != nil {
		return err
	}
	all, alone := "", ""
	if r.Match != "" {
		all, alone = w.regex("^"+r.Match+"(/|$)"), w.regex("^"+r.Match+"$")
	} else {
		all, alone = w.subpath(r.Path), w.literal(r.Path)
	}
	if len(r.Except) > 0 {
		parts := []string{all}
		for _, e := range r.Except {
			parts = append(parts, "(require-not "+w.subpath(e)+")")
		}
		all = "(require-all " + strings.Join(parts, " ") + ")"
	}
	switch r.Access {
	case AccessNone:
		w.line("(deny", reading, writing, all+")")
		if open { // connecting to a socket is another operation
			w.line("(deny network-outbound (remote unix-socket", w.socket(r)+"))")
		}
		w.line("(allow", showing, alone+")")
	case AccessRead:
		w.line("(allow", reading, all+")")
		w.line("(deny", writing, all+")")
		w.show(r.Path, open)
	case AccessKept:
		w.line("(deny", writing, all+")")
	case AccessWrite:
		w.line("(allow", reading, writing, all+")")
		if open {
			w.line("(allow network-outbound (remote unix-socket", w.socket(r)+"))")
		}
		w.show(r.Path, open)
	case AccessFixed:
		w.line("(deny", losing, alone+")")
	default:
		return fmt.Errorf("the rule for %q has no access", r.Path+r.Match)
	}
	return nil
}

// socket returns the filter of a rule for addresses of Unix sockets.
func (w *writer) socket(r Rule) string {
	if r.Match != "" {
		return "(path-regex " + w.value("^"+r.Match+"(/|$)") + ")"
	}
	return w.subpath(r.Path)
}

// show makes the folders above a path visible, but not what is in them.
func (w *writer) show(path string, open bool) {
	if path == "" || open {
		return
	}
	if w.shown == nil {
		w.shown = map[string]bool{}
	}
	var filters []string
	for dir := path; dir != "/"; {
		if dir = filepath.Dir(dir); w.shown[dir] {
			break
		}
		w.shown[dir] = true
		filters = append(filters, w.literal(dir))
	}
	if len(filters) > 0 {
		slices.Reverse(filters)
		w.line("(allow", showing, strings.Join(filters, " ")+")")
	}
}

// check returns an error if the rule can't be expressed.
func (r Rule) check() error {
	if (r.Path == "") == (r.Match == "") {
		return fmt.Errorf("a rule needs either a path or an expression, not %q and %q", r.Path, r.Match)
	}
	for _, p := range append([]string{r.Path}, r.Except...) {
		if p != "" && (!filepath.IsAbs(p) || filepath.Clean(p) != p) {
			return fmt.Errorf("%q is not a clean absolute path", p)
		}
	}
	for _, s := range append([]string{r.Path, r.Match}, r.Except...) {
		if strings.ContainsRune(s, 0) {
			return fmt.Errorf("%q contains a NUL byte", s)
		}
	}
	return nil
}
