// Package tree knows which folders lie below a folder, and what of note is in them, while others change all of it.
//
// It owns: reading the folders once, keeping what it knows current by the kernel's notifications or by comparing what the kernel
// says of each folder, and the file in which that outlives a process. It must not know: what is executed later, what a sandbox is,
// what becomes of what it finds.
//
// Start with [Open]; [Tree.Settle] makes sure that what [Tree.Noted] says is true now.
package tree

import (
	"errors"
	"math"
	"slices"
	"strings"
)

// Identity tells whether a folder is what it was: only the kernel sets the time of its last change.
type Identity struct {
	Dev, Ino uint64
	Changed  int64 // nanoseconds; 0: it has to be read again to know
}

// Rules say what of a folder is noted.
type Rules struct {
	// Names are of files and folders whose places are noted, in every spelling that the file system takes for the same. Such a
	// folder is not read, unless it is in Enter as well.
	Names, Enter []string
	// Marks are up to eight names in lower case. Folders that hold all of the marks of one of the Shapes are noted.
	Marks  []string
	Shapes []uint8
}

// Folder is one of which something is noted.
type Folder struct {
	Path   string
	ID     Identity
	Named  []string // of Rules.Names, that lie in it
	Marks  uint8    // which of Rules.Marks do
	Rights []string // programs that give the rights of their owner or group
	Closed bool     // it can't be listed; nothing below it is known
}

// Linked is a folder with files that have other names as well.
type Linked struct {
	Path  string
	Dev   uint64
	Links []Link
}

// Link is one of several names of a file. There may be as many as there are files, where a package manager links all that it installs from
// a store, so that the name itself is not kept: who needs it reads the folder.
type Link struct {
	Ino   uint64
	Count uint32 // of names; at most MaxCount
	name  uint32 // a sum, by which another name is noticed
}

// MaxCount is the count of a file with more names, and of one that lies on another device than its folder.
const MaxCount = math.MaxUint32

// Options are what a tree is opened with.
type Options struct {
	Rules Rules
	// Cache is the file in which the tree outlives the process; empty: none.
	Cache string
	// Walk has no notifications used.
	Walk bool

	step int // for tests: another adoptStep
}

// Result is what Settle has found.
type Result struct {
	Links uint64 // changes whenever what Linked returns may have changed
	// Moved says that folders were being moved, so that some could not be looked at where they were.
	Moved bool
}

// Stats are about a tree, for people.
type Stats struct {
	Folders int
	Watched bool   // kept current by notifications
	Why     string // why it is not
	Loaded  bool   // it came from its file
}

// ErrGone says that the folder itself is not there any more.
var ErrGone = errors.New("the folder is not there any more")

// noted reports whether something of a folder is.
func (r *Rules) shaped(marks uint8) bool {
	return slices.ContainsFunc(r.Shapes, func(s uint8) bool { return marks&s == s })
}

// special reports whether a name has to do with the rules.
func (r *Rules) special(name string) bool {
	return slices.ContainsFunc(r.Names, func(n string) bool { return strings.EqualFold(n, name) }) || slices.Contains(r.Marks, strings.ToLower(name))
}
