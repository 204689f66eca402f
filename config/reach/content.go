package reach

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"syscall"
)

// maxFile limits a covered file: larger files are not scripts.
const maxFile = 64 << 20

// maxTotal limits the size of all covered files.
const maxTotal = 256 << 20

var errTotal = errors.New("the files exceed 256 MiB in total")

// ErrLarge is returned for a file that is too large to be covered.
var ErrLarge = errors.New("it is larger than 64 MiB")

// Write adds the content of all files to a hash.
func (s Set) Write(h hash.Hash) error {
	put := func(b []byte) {
		var length [8]byte
		binary.BigEndian.PutUint64(length[:], uint64(len(b)))
		h.Write(length[:])
		h.Write(b)
	}
	var total int64
	for _, f := range s.Files {
		sum := sha256.New()
		n, err := copyFile(sum, f.Path, maxFile)
		if total += n; err == nil && total > maxTotal {
			err = errTotal
		}
		if err != nil {
			return fmt.Errorf("%s: %w", f.Path, err)
		}
		put([]byte(f.Word))
		put(sum.Sum(nil))
	}
	return nil
}

// Digest returns a digest of all files, or "" if there are none.
func (s Set) Digest() (string, error) {
	if len(s.Files) == 0 {
		return "", nil
	}
	h := sha256.New()
	if err := s.Write(h); err != nil {
		return "", err
	}
	return "r1:" + base64.StdEncoding.EncodeToString(h.Sum(nil)), nil
}

// Read returns the beginning of a regular file, and nothing for pipes and devices, which could block forever.
func Read(path string, most int64) ([]byte, error) {
	var b buffer
	_, err := copyFile(&b, path, most)
	if errors.Is(err, ErrLarge) {
		err = nil
	}
	return b, err
}

type buffer []byte

func (b *buffer) Write(p []byte) (int, error) {
	*b = append(*b, p...)
	return len(p), nil
}

func copyFile(to io.Writer, path string, most int64) (int64, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	if !info.Mode().IsRegular() {
		return 0, errors.New("it is not a regular file")
	}
	n, err := io.Copy(to, io.LimitReader(f, most))
	if err == nil && n == most && info.Size() > most {
		err = ErrLarge
	}
	return n, err
}
