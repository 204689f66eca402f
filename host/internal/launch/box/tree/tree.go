// Package tree tracks the folders below a root and what is of note in them, while others change all of it.
//
// It owns: reading the folders once, keeping the result current by the kernel's notifications or by comparing folders with what the
// kernel says of them, and the file in which the result outlives the process. It must not know: what is executed later, what a
// sandbox is, what becomes of what it finds.
//
// Start with [Open]. [Tree.Settle] brings up to date what [Tree.Noted] returns.
package tree

import (
	"errors"
	"math"
	"slices"
	"strings"
)

// Identity tells whether a folder is unchanged. Only the kernel sets the change time.
type Identity struct {
	Dev, Ino uint64
	Changed  int64 // change time in nanoseconds; 0: read it again to know
}

// Rules say what is noted of a folder.
type Rules struct {
	// Names are names of files and folders whose places are noted, in every spelling that the file system treats as the same name.
	// A folder with such a name is not read unless the name is in Enter as well.
	Names, Enter []string
	// Marks are up to eight lower-case names. Folders with all the marks of one of the Shapes are noted.
	Marks  []string
	Shapes []uint8
}

// Folder is a folder of which something is noted.
type Folder struct {
	Path   string
	ID     Identity
	Named  []string // the Rules.Names in it
	Marks  uint8    // a bit for each of Rules.Marks in it
	Rights []string // setuid and setgid programs in it
	Closed bool     // it can't be listed; nothing below it is known
}

// Linked is a folder with files that have other names.
type Linked struct {
	Path  string
	Dev   uint64
	Links []Link
}

// Link is one name of a file that has several. There may be as many as there are files, where a package manager links everything
// that it installs from a store, so the name itself is not kept: a caller that needs it reads the folder.
type Link struct {
	Ino   uint64
	Count uint32 // number of names, at most MaxCount
	name  uint32 // a checksum, to notice that the file has another name
}

// MaxCount is the count of a file with that many names or more, and of one on another device than its folder.
const MaxCount = math.MaxUint32

// Options configure a tree.
type Options struct {
	Rules Rules
	// Cache is the path of the tree's file; empty: none.
	Cache string
	// Walk compares folders instead of watching them.
	Walk bool

	step int // replaces adoptStep in tests
}

// Result is the result of Settle.
type Result struct {
	Links uint64 // changes whenever what Linked returns may have changed
	// Moved says that folders were being moved, so that some could not be read where they were.
	Moved bool
}

// Stats describe a tree for people.
type Stats struct {
	Folders int
	Watched bool   // kept current by notifications
	Why     string // why it is not
	Loaded  bool   // it was loaded from its file
}

// ErrGone says that the root is no longer at its path.
var ErrGone = errors.New("the folder no longer exists")

// shaped reports whether marks contain one of the Shapes.
func (r *Rules) shaped(marks uint8) bool {
	return slices.ContainsFunc(r.Shapes, func(s uint8) bool { return marks&s == s })
}

// special reports whether the rules mention a name.
func (r *Rules) special(name string) bool {
	return slices.ContainsFunc(r.Names, func(n string) bool { return strings.EqualFold(n, name) }) || slices.Contains(r.Marks, strings.ToLower(name))
}
