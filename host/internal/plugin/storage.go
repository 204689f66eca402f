package plugin

import (
	"errors"
	"io/fs"
	"os"
	"time"
)

// maxEntries is how many files and folders those of a plugin may hold: each costs the disk something, however small.
const maxEntries = 200_000

var errEnough = errors.New("more than there may be")

// held measures folders, and stops where they hold more than they may. What lies elsewhere is not followed. The error names a folder
// that can't be read, and so not measured.
func held(folders []string, most int64) (bytes int64, entries int, err error) {
	for _, dir := range folders {
		root, err := os.OpenRoot(dir)
		if errors.Is(err, fs.ErrPermission) {
			return bytes, entries, err
		}
		if err != nil {
			continue
		}
		err = fs.WalkDir(root.FS(), ".", func(_ string, d fs.DirEntry, err error) error {
			if errors.Is(err, fs.ErrPermission) {
				return err
			}
			if err != nil {
				return nil
			}
			if info, err := d.Info(); err == nil {
				bytes += allocated(info)
			}
			if entries++; bytes > most || entries > maxEntries {
				return errEnough
			}
			return nil
		})
		_ = root.Close()
		if errors.Is(err, errEnough) {
			break
		}
		if err != nil {
			return bytes, entries, err
		}
	}
	return bytes, entries, nil
}

// removeAll removes a folder with all that is in it, also where a plugin has taken away its own user's right to look into one.
func removeAll(path string) error {
	err := os.RemoveAll(path)
	if !errors.Is(err, fs.ErrPermission) {
		return err
	}
	root, rerr := os.OpenRoot(path)
	if rerr != nil {
		return err
	}
	_ = fs.WalkDir(root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() { // called before the folder is read
			_ = root.Chmod(name, 0o700)
		}
		return nil
	})
	_ = root.Close()
	return os.RemoveAll(path)
}

// storageWatch tells when folders may hold more than they may, without measuring them each time: only what their disk has lost since can be
// in them.
type storageWatch struct {
	folders []string
	most    int64
	at      disk      // what was in use when they were measured
	room    disk      // what they could hold beyond that
	known   bool      // room and at are
	rest    time.Time // until then they are not measured: measuring takes a tenth of the time at most
}

// disk is what is in use of file systems.
type disk struct{ bytes, entries int64 }

// minRoom is what others write anyway.
const minRoom = 1 << 20

// mayExceed reports whether the folders have to be measured. It is cheap.
func (s *storageWatch) mayExceed() bool {
	now, ok := inUse(s.folders)
	switch {
	case !ok:
		return false // they are measured from time to time
	case !s.known: // what was there before is found by a look while it is called
		s.at, s.room, s.known = now, disk{minRoom, maxEntries}, true
		return false
	}
	if time.Now().Before(s.rest) {
		return false
	}
	return now.bytes-s.at.bytes > max(s.room.bytes, minRoom) || now.entries-s.at.entries > max(s.room.entries, 1)
}

// measure measures the folders.
func (s *storageWatch) measure() (bytes int64, entries int, err error) {
	began := time.Now()
	defer func() { s.rest = time.Now().Add(9 * time.Since(began)) }()
	now, ok := inUse(s.folders) // before: what is written meanwhile counts twice rather than not at all
	bytes, entries, err = held(s.folders, s.most)
	s.at, s.room, s.known = now, disk{s.most - bytes, int64(maxEntries - entries)}, ok
	return bytes, entries, err
}
