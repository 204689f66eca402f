package fspath

import "time"

// Identity tells whether a file is what it was: nobody but the kernel sets the time of its last change.
type Identity struct {
	Dev, Ino uint64
	Changed  int64 // nanoseconds
	Size     int64
}

// Inode returns the device and the number of the file alone.
func (id Identity) Inode() Inode { return Inode{Dev: id.Dev, Ino: id.Ino} }

// Persistent is an identity that stays when what lies in a folder changes. It has the time at which the folder was made, where the file
// system knows it: the number alone may be given to another once the folder is removed.
func Persistent(path string, id Identity) Identity {
	return Identity{Dev: id.Dev, Ino: id.Ino, Changed: BirthTime(path)}
}

// Unchanged are the paths at which the same lies as before.
func Unchanged(whole map[string]Identity) []string {
	var out []string
	for p, was := range whole {
		if id, _, ok := Lstat(p); ok && Persistent(p, id) == was {
			out = append(out, p)
		}
	}
	return out
}

// Inode tells files apart.
type Inode struct{ Dev, Ino uint64 }

// ClockSlack is how long ago a folder must have changed for its content to be believed the next time: the kernel's clock for
// files is coarser than what can happen between two looks at it.
const ClockSlack = 50 * time.Millisecond
