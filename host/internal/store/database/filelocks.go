package database

import (
	"context"
	"errors"
	"path/filepath"

	"github.com/gantry-agent/gantry/host/internal/store/flock"
)

// Locks returns the database's own locks if several machines may use it. Otherwise a lock is a locked file in the folder
// dir, which excludes the other processes of this machine.
func (d *DB) Locks(dir string) Locks {
	if l := d.conn.Locks(); l != nil {
		return l
	}
	return fileLocks{dir}
}

// fileLocks implements [Locks] with locked files in a folder.
type fileLocks struct{ dir string }

func (f fileLocks) path(name string) string { return filepath.Join(f.dir, name+".lock") }

func (f fileLocks) Take(_ context.Context, name, purpose string) (Lock, error) {
	lock, err := flock.Take(f.path(name), purpose)
	if held, ok := errors.AsType[*flock.HeldError](err); ok {
		return nil, &HeldError{Name: held.Path, Owner: Owner{PID: held.Owner.PID, Since: held.Owner.Since}}
	}
	if err != nil {
		return nil, err
	}
	return lock, nil
}

func (f fileLocks) Holder(_ context.Context, name string) (Owner, bool, error) {
	owner, held, err := flock.Held(f.path(name))
	return Owner{PID: owner.PID, Since: owner.Since}, held, err
}

// Fence returns no condition: the kernel takes no lock away from a live process.
func (f fileLocks) Fence(string) (string, []any) { return "", nil }
