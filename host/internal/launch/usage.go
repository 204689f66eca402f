package launch

import (
	"net"
	"runtime"
	"strconv"
	"time"

	"github.com/gantry-agent/gantry/host/internal/launch/control"
)

// ProxyAddress returns the host and port of the proxy in a sandbox with a network of its own; "": it differs for each process.
func ProxyAddress() string {
	if runtime.GOOS != "linux" {
		return ""
	}
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(control.ProxyPort))
}

// Tree is what a process and its descendants use.
type Tree struct {
	CPU      time.Duration // processor time
	Resident int64         // memory in bytes; pages that processes share count for each of them
	PIDs     int           // processes
}

// ReadTree returns what a running process and its descendants use; zero: it has ended, or this system doesn't tell.
func ReadTree(p *Process) Tree {
	select {
	case <-p.exited:
		return Tree{}
	default:
	}
	t, _ := treeReader()(p.pid)
	return t
}

// Usage is what a process uses that may outlive its call.
type Usage struct {
	Owner Owner
	PID   int
	// CPUPercent is the processor time of the process and its descendants since the process has started, in percent of the time that has
	// passed, and Resident their memory in bytes. Known says whether this system tells them.
	CPUPercent float64
	Resident   int64
	Known      bool
}

// Sessions returns the running processes of a thread that may outlive their calls.
func (l *Launcher) Sessions(thread string) []Usage {
	var out []Usage
	read := treeReader()
	for _, p := range l.find(func(p *Process) bool { return p.spec.Session && p.running() && p.spec.Owner.Thread == thread }) {
		select {
		case <-p.exited:
			continue
		default:
		}
		u := Usage{Owner: p.spec.Owner, PID: p.pid}
		t, ok := read(p.pid)
		if elapsed := time.Since(p.started); ok && elapsed > 0 {
			u.CPUPercent, u.Resident, u.Known = 100*float64(t.CPU)/float64(elapsed), t.Resident, true
		}
		out = append(out, u)
	}
	return out
}
