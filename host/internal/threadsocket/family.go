package threadsocket

import (
	"fmt"
	"net"

	"github.com/gantry-agent/gantry/config/hint"
)

// errFamily refuses a client that this host has started, directly or through its processes: a command must not approve itself.
var errFamily = hint.New("this process was started by the gantry that runs the thread, so it can only read it", "use another terminal")

// ours reports whether the client of a connection is one of the processes below the host, including orphans, which gantry-launch
// adopts. A client for which the kernel returns no PID is in an outer PID namespace, so it is not one of them.
func ours(conn *net.UnixConn, pid, host int) (bool, error) {
	if pid == 0 || pid == host {
		return false, nil
	}
	check, done, err := alive(conn, pid)
	if err != nil {
		return false, err
	}
	defer done()
	for range 8 { // a process in between may end meanwhile, and its child gets another parent
		below, err := under(pid, host)
		if err == nil && check() {
			return below, nil
		}
	}
	return false, fmt.Errorf("can't determine which process started process %d", pid)
}

// under follows the parents of a process up to the host or to the first process.
func under(pid, host int) (bool, error) {
	up, born, err := parent(pid)
	for err == nil && up != host && up > 1 {
		next, started, perr := parent(up)
		if perr != nil {
			return false, perr
		}
		if started > born {
			return false, fmt.Errorf("process %d is younger than its child: its PID was reused", up)
		}
		up, born = next, started
	}
	return up == host, err
}
