package appserver

import (
	"fmt"
	"net"

	"github.com/gantry-agent/gantry/config/hint"
)

// errFamily refuses a client that this host has started itself, or that one of its processes has: a command may not answer the
// question whether it runs.
var errFamily = hint.New("this process was started by the gantry that runs the thread, and may only look at it", "use a terminal of your own")

// ours reports whether the client on a connection is one of the processes below the host. Orphans are: gantry-launch adopts what its
// command leaves. A client that the kernel names with no number lives in a namespace around ours, so it is not.
func ours(conn *net.UnixConn, pid, host int) (bool, error) {
	if pid == 0 || pid == host {
		return false, nil
	}
	check, done, err := alive(conn, pid)
	if err != nil {
		return false, err
	}
	defer done()
	for range 8 { // a process on the way may end meanwhile, and its child gets another parent
		below, err := under(pid, host)
		if err == nil && check() {
			return below, nil
		}
	}
	return false, fmt.Errorf("it is not clear who has started process %d", pid)
}

// under follows the parents of a process up to the host, or to the first of all.
func under(pid, host int) (bool, error) {
	up, born, err := parent(pid)
	for err == nil && up != host && up > 1 {
		next, started, perr := parent(up)
		if perr != nil {
			return false, perr
		}
		if started > born {
			return false, fmt.Errorf("process %d is younger than its child: its number was given to another", up)
		}
		up, born = next, started
	}
	return up == host, err
}
