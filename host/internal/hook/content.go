package hook

import (
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"io"
	"os"
	"syscall"
)

// Content returns a digest of the scripts that a command line runs; "" if it runs none. Programs of the system are not included.
// dir is the working folder. A file that can't be read has a digest of its own.
func Content(line, dir string) string {
	h := sha256.New()
	found := scripts(line, dir, nil, statFile)
	for _, s := range found {
		sum, err := contentOf(s.path)
		if err != nil {
			sum = make([]byte, sha256.Size)
		}
		name := sha256.Sum256([]byte(s.path))
		h.Write(name[:])
		h.Write(sum)
	}
	if len(found) == 0 {
		return ""
	}
	return base64.StdEncoding.EncodeToString(h.Sum(nil))
}

// maxScript limits the size of a script, in bytes. A larger file is not one.
const maxScript = 64 << 20

// statFile says what a path is.
func statFile(path string) (regular, executable bool) {
	st, err := os.Stat(path)
	if err != nil || !st.Mode().IsRegular() {
		return false, false
	}
	return true, st.Mode()&0o111 != 0
}

var errLarge = errors.New("it is larger than 64 MiB, too large for a script")

func contentOf(path string) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // the file may have been replaced by a pipe without a writer
	if err != nil {
		return nil, err
	}
	defer f.Close()
	h := sha256.New()
	n, err := io.Copy(h, io.LimitReader(f, maxScript+1))
	if err == nil && n > maxScript {
		err = errLarge
	}
	return h.Sum(nil), err
}
