// Package storage measures the disk space that a plugin's own folders take, and tells cheaply whether measuring them again
// can be avoided.
//
// It owns: how files are counted, and how often. It must not know: what happens to a plugin that exceeds its limit.
//
// Start with [Monitor].
package storage

import (
	"errors"
	"io/fs"
	"os"
	"time"
)

// MaxEntries is how many files and folders the folders of a plugin may contain. Each takes disk space, however small it is.
const MaxEntries = 200_000

var errLimit = errors.New("limit exceeded")

// measure adds up the files in folders, and stops once they exceed maxBytes or [MaxEntries]. It follows no symbolic links.
// The error names a folder that can't be measured because reading it is not permitted.
func measure(folders []string, maxBytes int64) (bytes int64, entries int, err error) {
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
			if entries++; bytes > maxBytes || entries > MaxEntries {
				return errLimit
			}
			return nil
		})
		_ = root.Close()
		if errors.Is(err, errLimit) {
			break
		}
		if err != nil {
			return bytes, entries, err
		}
	}
	return bytes, entries, nil
}

// Monitor tells when folders may exceed their limit. It avoids measuring them each time by watching the usage of their disk:
// they can't have grown by more than that has grown.
type Monitor struct {
	Folders  []string
	MaxBytes int64

	baseline  usage     // of the disk when the folders were measured last
	headroom  usage     // what they could still take at that time
	known     bool      // baseline and headroom are set
	restUntil time.Time // no measuring before that, so that it takes at most a tenth of the time
}

// usage of file systems.
type usage struct{ bytes, entries int64 }

// minHeadroom is how much the disk's usage may grow before the folders are measured. Other programs write that much all
// the time.
const minHeadroom = 1 << 20

// MayExceed reports whether the folders have to be measured. It is cheap. The first call only notes the disk's usage.
func (m *Monitor) MayExceed() bool {
	now, ok := diskUsage(m.Folders)
	switch {
	case !ok:
		return false // the caller measures them from time to time anyway
	case !m.known:
		m.baseline, m.headroom, m.known = now, usage{minHeadroom, MaxEntries}, true
		return false
	}
	if time.Now().Before(m.restUntil) {
		return false
	}
	return now.bytes-m.baseline.bytes > max(m.headroom.bytes, minHeadroom) || now.entries-m.baseline.entries > max(m.headroom.entries, 1)
}

// Measure measures the folders, but stops once they exceed MaxBytes or [MaxEntries]. The error names a folder that can't be
// measured because reading it is not permitted.
func (m *Monitor) Measure() (bytes int64, entries int, err error) {
	began := time.Now()
	defer func() { m.restUntil = time.Now().Add(9 * time.Since(began)) }()
	now, ok := diskUsage(m.Folders) // before measuring: what is written meanwhile counts twice rather than not at all
	bytes, entries, err = measure(m.Folders, m.MaxBytes)
	m.baseline, m.headroom, m.known = now, usage{m.MaxBytes - bytes, int64(MaxEntries - entries)}, ok
	return bytes, entries, err
}
