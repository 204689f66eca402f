//go:build !linux

package proctree

import (
	"errors"
	"net"
)

// ContainsTCP reports whether the peer of a TCP connection is a descendant of the process root. The error matches
// [errors.ErrUnsupported]: this system does not tell whose a socket is.
func ContainsTCP(*net.TCPConn, int) (bool, error) { return false, errors.ErrUnsupported }
