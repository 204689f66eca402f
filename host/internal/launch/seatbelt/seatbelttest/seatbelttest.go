// Package seatbelttest evaluates profiles as macOS does, so that tests on any system can ask what a profile allows.
//
// It owns: parsing a profile, and which of its rules applies. It must not know: why a profile is as it is.
//
// Start with [New].
package seatbelttest

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/host/internal/launch/seatbelt"
)

// Evaluation follows the system's: of the rules that name the operation the last that matches applies; if there is none, those of
// the operation that it is a part of; then the default.

// Expr is a word, a quoted text, or a list.
type Expr struct {
	Word   string
	Quoted bool
	List   []Expr
}

func (e Expr) head() string {
	if len(e.List) == 0 {
		return ""
	}
	return e.List[0].Word
}

// Parse parses a sequence of lists.
func Parse(text string) ([]Expr, error) {
	stack := [][]Expr{nil}
	for i := 0; i < len(text); {
		switch c := text[i]; {
		case c == '(':
			stack = append(stack, nil)
			i++
		case c == ')':
			if len(stack) == 1 {
				return nil, errors.New("unexpected closing parenthesis")
			}
			done := Expr{List: stack[len(stack)-1]}
			if done.List == nil {
				return nil, errors.New("an empty list")
			}
			stack = stack[:len(stack)-1]
			stack[len(stack)-1] = append(stack[len(stack)-1], done)
			i++
		case c == '"':
			end := strings.IndexByte(text[i+1:], '"')
			if end < 0 {
				return nil, errors.New("unterminated text")
			}
			s := text[i+1 : i+1+end]
			if strings.ContainsAny(s, "\\\n") {
				return nil, fmt.Errorf("the text %q contains a special character", s)
			}
			stack[len(stack)-1] = append(stack[len(stack)-1], Expr{Word: s, Quoted: true})
			i += end + 2
		case c == ' ' || c == '\n':
			i++
		default:
			end := strings.IndexAny(text[i:], " \n()\"")
			if end < 0 {
				end = len(text) - i
			}
			stack[len(stack)-1] = append(stack[len(stack)-1], Expr{Word: text[i : i+end]})
			i += end
		}
	}
	if len(stack) != 1 {
		return nil, errors.New("missing closing parenthesis")
	}
	return stack[0], nil
}

// Judge evaluates a profile.
type Judge struct {
	t      testing.TB
	rules  []Expr
	params map[string]string
	exprs  map[string]*regexp.Regexp
}

// New parses a profile.
func New(t testing.TB, p seatbelt.Profile) *Judge {
	t.Helper()
	rules, err := Parse(p.Text)
	if err != nil {
		t.Fatalf("the profile can't be read: %v\n%s", err, p.Text)
	}
	j := &Judge{t: t, rules: rules, params: map[string]string{}, exprs: map[string]*regexp.Regexp{}}
	for _, x := range p.Parameters {
		j.params[x.Name] = x.Value
	}
	return j
}

// parents returns an operation and the operations that it is a part of.
func parents(op string) []string {
	out := []string{op}
	for _, p := range []string{"file-read*", "file-write*", "process-info*", "ipc-posix-shm*", "network*", "file*"} {
		if prefix := strings.TrimSuffix(p, "*"); op != p && strings.HasPrefix(op, prefix) {
			out = append(out, p)
		}
	}
	return append(out, "default")
}

// Subject is what an operation is applied to.
type Subject struct {
	Path   string
	Folder bool
	Remote string // "ip HOST:PORT" or "unix PATH"
	Name   string // of a sysctl, a service, ...
	Target string
}

// Allows reports whether the profile allows an operation.
func (j *Judge) Allows(op string, s Subject) bool {
	for _, at := range parents(op) {
		verdict := ""
		for _, r := range j.rules {
			head := r.head()
			if head != "allow" && head != "deny" {
				continue
			}
			var ops []string
			var filters []Expr
			for _, x := range r.List[1:] {
				if x.List == nil {
					ops = append(ops, x.Word)
				} else {
					filters = append(filters, x)
				}
			}
			if slices.Contains(ops, at) && (len(filters) == 0 || slices.ContainsFunc(filters, func(f Expr) bool { return j.fits(f, s) })) {
				verdict = head
			}
		}
		if verdict != "" {
			return verdict == "allow"
		}
	}
	j.t.Fatal("the profile has no default")
	return false
}

// text returns a quoted text or the value of a parameter.
func (j *Judge) text(e Expr) string {
	if e.Quoted {
		return e.Word
	}
	if e.head() == "param" {
		v, ok := j.params[e.List[1].Word]
		if !ok {
			j.t.Fatalf("there is no parameter %q", e.List[1].Word)
		}
		return v
	}
	j.t.Fatalf("%+v is no text", e)
	return ""
}

func (j *Judge) fits(f Expr, s Subject) bool {
	switch kind := f.head(); kind {
	case "subpath":
		root := j.text(f.List[1])
		return s.Path != "" && (s.Path == root || strings.HasPrefix(s.Path, strings.TrimSuffix(root, "/")+"/"))
	case "literal", "path-literal":
		return s.Path != "" && s.Path == j.text(f.List[1])
	case "regex", "path-regex":
		text := j.text(f.List[1])
		re := j.exprs[text]
		if re == nil {
			var err error
			if re, err = regexp.Compile(text); err != nil {
				j.t.Fatalf("%q can't be read: %v", text, err)
			}
			j.exprs[text] = re
		}
		return s.Path != "" && re.MatchString(s.Path)
	case "require-all":
		return !slices.ContainsFunc(f.List[1:], func(x Expr) bool { return !j.fits(x, s) })
	case "require-not":
		return !j.fits(f.List[1], s)
	case "vnode-type":
		return f.List[1].Word == "DIRECTORY" && s.Folder
	case "extension":
		return false
	case "target":
		return s.Target == f.List[1].Word
	case "sysctl-name", "global-name", "ipc-posix-name":
		return s.Name == j.text(f.List[1])
	case "sysctl-name-prefix":
		return strings.HasPrefix(s.Name, j.text(f.List[1]))
	case "socket-domain":
		return s.Name == f.List[1].Word
	case "remote", "local":
		what, of, _ := strings.Cut(s.Remote, " ")
		if what == "" {
			return false
		}
		if f.List[1].Word == "unix-socket" {
			return what == "unix" && j.fits(f.List[2], Subject{Path: of})
		}
		if what != "ip" {
			return false
		}
		host, port, _ := strings.Cut(j.text(f.List[2]), ":")
		isHost, isPort, _ := strings.Cut(of, ":")
		return (host == "*" || host == isHost) && (port == "*" || port == isPort)
	default:
		j.t.Fatalf("the filter %q is not known", kind)
		return false
	}
}

// Reads reports whether the content of a file can be read.
func (j *Judge) Reads(path string) bool { return j.Allows("file-read-data", Subject{Path: path}) }

// Writes reports whether a file can be changed in any way; removing it counts, since another could be put in its place.
func (j *Judge) Writes(path string) bool {
	for _, op := range []string{"file-write-data", "file-write-create", "file-write-mode", "file-link", "file-clone"} {
		if j.Allows(op, Subject{Path: path}) {
			return true
		}
	}
	return false
}

// Removes reports whether a path can be removed or renamed.
func (j *Judge) Removes(path string, folder bool) bool {
	return j.Allows("file-write-unlink", Subject{Path: path, Folder: folder})
}
