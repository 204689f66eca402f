//go:build !linux && !darwin

package proctree

import (
	"errors"
	"net"
)

func alive(*net.UnixConn, int) (check func() bool, done func(), err error) {
	return nil, nil, errors.ErrUnsupported
}

func parent(int) (ppid int, started uint64, err error) { return 0, 0, errors.ErrUnsupported }
