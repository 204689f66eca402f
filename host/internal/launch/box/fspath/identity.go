package fspath

import "time"

// Identity tells whether a file is unchanged since it was looked at. Only the kernel sets the change time, so it can't be forged.
type Identity struct {
	Dev, Ino uint64
	Changed  int64 // change time in nanoseconds
	Size     int64
}

// Inode returns the device and the inode number.
func (id Identity) Inode() Inode { return Inode{Dev: id.Dev, Ino: id.Ino} }

// Persistent returns an identity that does not change with the content of a folder. It has the birth time in place of the change
// time, where the file system records one, because an inode number may be reused once the folder is removed.
func Persistent(path string, id Identity) Identity {
	return Identity{Dev: id.Dev, Ino: id.Ino, Changed: BirthTime(path)}
}

// Unchanged returns the paths at which the file with the recorded persistent identity still is.
func Unchanged(whole map[string]Identity) []string {
	var out []string
	for p, was := range whole {
		if id, _, ok := Lstat(p); ok && Persistent(p, id) == was {
			out = append(out, p)
		}
	}
	return out
}

// Inode identifies a file independently of its names.
type Inode struct{ Dev, Ino uint64 }

// ClockSlack is the age that a folder's last change must have before what was read of it is cached. The kernel's clock for files
// ticks so coarsely that two changes within a tick have the same time.
const ClockSlack = 50 * time.Millisecond
