// Package seatbelt words what a process may do as a profile for macOS's sandbox-exec.
//
// It owns: the language of profiles, which of the system's operations a policy stands for, and which rule of two counts. It must
// not know: what a grant is, which paths are protected and why, how a process is started.
//
// Start with [Policy.Profile]. A profile's text holds no path: those travel beside it, as parameters, so that no name of a file
// can become a rule.
package seatbelt

import (
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
)

// Program is what puts a profile on itself and becomes a command. It belongs to the system.
const Program = "/usr/bin/sandbox-exec"

// Access is what a rule lets processes do.
type Access int

// The kinds of access. The first three decide about reading and writing, whatever an earlier rule says.
const (
	AccessUnknown Access = iota
	AccessNone           // neither read nor written; that it is there can be seen
	AccessRead           // and not written
	AccessWrite          // and read
	AccessKept           // not written; whether it is read stays as it was
	// AccessFixed keeps the path its name: it is neither removed nor renamed. Nothing else about it changes, and a later rule
	// does not take it back.
	AccessFixed
)

// String names the access for people.
func (a Access) String() string {
	names := [...]string{"unknown", "none", "read", "write", "kept", "fixed"}
	return names[max(0, min(int(a), len(names)-1))]
}

// Rule says what a process may do with some paths. Of several rules for one path the last counts.
type Rule struct {
	Access Access
	// Path is what the rule is about, and all that lies below it; absolute, without links, in the file system's own spelling.
	Path string
	// Match is a regular expression in the place of Path: see [Regexp]. It stands for whole paths, and for all that lies below.
	Match string
	// Except are folders below what Match stands for, which the rule is not about.
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

// Network is what a process reaches.
type Network int

// The kinds.
const (
	NetworkUnknown Network = iota
	NetworkNone            // nothing but its own children
	NetworkProxy           // the port of this machine that [Policy.Port] names
	NetworkFull            // every machine; of this one's sockets with a path the name service's alone
)

// Policy is what a process and all that it starts may do. What it does not mention is denied.
type Policy struct {
	// Open lets everything be done that no rule denies; Network and Sockets have no meaning then.
	Open bool
	// Files are decided by these rules, but for the few devices that every process needs.
	Files   []Rule
	Network Network
	Port    int // of NetworkProxy
	// Sockets are folders in which sockets are made and reached by their paths.
	Sockets []string
}

// Parameter is a value that a profile's text names.
type Parameter struct{ Name, Value string }

// Profile is a policy in the system's language.
type Profile struct {
	Text       string
	Parameters []Parameter
}

// Args are the arguments of [Program], without the command.
func (p Profile) Args() []string {
	args := make([]string, 0, 2+2*len(p.Parameters))
	args = append(args, "-p", p.Text)
	for _, x := range p.Parameters {
		args = append(args, "-D", x.Name+"="+x.Value)
	}
	return args
}

// maxValues bounds what parameters hold together: the system takes 1 MiB of arguments and environment.
const maxValues = 512 << 10

// Operations on files. A rule for an operation with a star says nothing where one for a part of it fits, in whatever order they
// stand: so what is let is denied again under the same names.
const (
	reading = "file-read* file-map-executable"
	writing = "file-write* file-clone file-link"
	showing = "file-read-metadata" // a part of reading: the system asks for it on the way along a path
	losing  = "file-write-unlink"  // a part of writing: removing and renaming
)

// Profile words the policy. An error is about a path that can't be one, or about more of them than the system takes.
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
		return Profile{}, fmt.Errorf("a sandbox profile takes %d bytes of paths, which are more than %d; name folders instead of the files in them", w.size, maxValues)
	}
	return Profile{Text: w.text.String(), Parameters: w.params}, nil
}

// writer collects a profile.
type writer struct {
	text   strings.Builder
	params []Parameter
	names  map[string]string // of parameters, by value
	size   int
	shown  map[string]bool // folders whose presence was let be seen
}

func (w *writer) line(parts ...string) {
	w.text.WriteString(strings.Join(parts, " "))
	w.text.WriteByte('\n')
}

// value names a parameter that holds a value.
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
		if open { // sockets are reached by another operation
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

// socket is what a rule is about among the addresses of sockets.
func (w *writer) socket(r Rule) string {
	if r.Match != "" {
		return "(path-regex " + w.value("^"+r.Match+"(/|$)") + ")"
	}
	return w.subpath(r.Path)
}

// show lets the folders above a path be seen, though not what is in them.
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

// check says what a rule can't be worded for.
func (r Rule) check() error {
	if (r.Path == "") == (r.Match == "") {
		return fmt.Errorf("a rule is about a path or about what an expression matches, not %q and %q", r.Path, r.Match)
	}
	for _, p := range append([]string{r.Path}, r.Except...) {
		if p != "" && (!filepath.IsAbs(p) || filepath.Clean(p) != p) {
			return fmt.Errorf("%q is no clean absolute path", p)
		}
	}
	for _, s := range append([]string{r.Path, r.Match}, r.Except...) {
		if strings.ContainsRune(s, 0) {
			return fmt.Errorf("%q has bytes that no path can have", s)
		}
	}
	return nil
}
