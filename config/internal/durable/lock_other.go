//go:build !unix

package durable

import (
	"errors"
	"io"
)

func tryLock(string) (io.Closer, error) {
	return nil, errors.New("shared files can't be changed on this platform yet; run gantry on Linux or macOS")
}
