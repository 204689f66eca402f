// Package proctree determines whether the peer of a socket belongs to the process tree of another process.
//
// It owns: how the ancestors of a process are found without being misled by a reused process ID. It does not know what a process may
// do because of its ancestors.
//
// Start with [Contains].
package proctree

import (
	"fmt"
	"net"
)

// Contains reports whether the process pid, the peer of conn, is a descendant of the process root. Orphans count as descendants of
// the process that has adopted them. It returns false for root itself, and for pid 0: the kernel reports that for a peer in an outer
// PID namespace. The error matches [errors.ErrUnsupported] on systems other than Linux and macOS.
func Contains(conn *net.UnixConn, root, pid int) (bool, error) {
	if pid == 0 || pid == root {
		return false, nil
	}
	check, done, err := alive(conn, pid)
	if err != nil {
		return false, err
	}
	defer done()
	for range 8 { // a process in between may end meanwhile, and its child gets another parent
		below, err := under(pid, root)
		if err == nil && check() {
			return below, nil
		}
	}
	return false, fmt.Errorf("can't determine which process started process %d", pid)
}

// under follows the parents of a process up to root or to the first process.
func under(pid, root int) (bool, error) {
	up, born, err := parent(pid)
	for err == nil && up != root && up > 1 {
		next, started, perr := parent(up)
		if perr != nil {
			return false, perr
		}
		if started > born {
			return false, fmt.Errorf("process %d is younger than its child: its PID was reused", up)
		}
		up, born = next, started
	}
	return up == root, err
}
