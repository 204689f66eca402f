//go:build !unix

package durable

import (
	"errors"
	"io"
)

func tryLock(string) (io.Closer, error) {
	return nil, errors.New("changing shared files is not supported on this platform; run gantry on Linux or macOS")
}
