//go:build family

package main

import (
	"bytes"
	"os"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gantry-agent/gantry/host/internal/launch/control"
	"github.com/gantry-agent/gantry/host/internal/procfs"
)

// processes returns the process table.
func processes() []entry {
	pids, _ := procfs.PIDs()
	var out []entry
	for _, pid := range pids {
		if s, ok := procfs.Read(pid); ok {
			out = append(out, entry{
				pid: pid, parent: s.Parent, group: s.Group, session: s.Session, started: s.Started, dead: s.State == 'Z' || s.State == 'X',
			})
		}
	}
	return out
}

// carries reports whether a process was started with this variable, and whether its variables can be read.
func carries(pid int, variable string) (carries, sure bool) {
	b, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/environ")
	return bytes.Contains(append([]byte{0}, b...), []byte("\x00"+variable+"\x00")), len(b) > 0
}

func residentKiB(u *syscall.Rusage) uint64 { return uint64(u.Maxrss) }

func takeTerminal(fd int) error { return unix.IoctlSetInt(fd, unix.TIOCSCTTY, 0) }

func closeFrom(first int) { _ = unix.CloseRange(uint(first), ^uint(0)>>32, 0) }

// events wait for the host and for the tree's processes. There are no events for forks here, so wait returns for a scan every 20 ms.
type events struct{ pids map[int]int }

func newEvents() (*events, error) { return &events{map[int]int{}}, nil }

func (e *events) watch(pid int) bool {
	fd, err := unix.PidfdOpen(pid, 0)
	if err == nil {
		e.pids[fd] = pid
	}
	return err == nil
}

func (e *events) wait(host bool, most time.Duration) (readable, happened bool) {
	const again = 20 * time.Millisecond
	tick := most < 0 || most > again
	if tick {
		most = again
	}
	var fds []unix.PollFd
	if host {
		fds = append(fds, unix.PollFd{Fd: control.FD, Events: unix.POLLIN})
	}
	for fd := range e.pids {
		fds = append(fds, unix.PollFd{Fd: int32(fd), Events: unix.POLLIN})
	}
	n, err := unix.Poll(fds, int(most.Milliseconds())+1)
	if err != nil || n == 0 {
		return false, tick || err != nil
	}
	for _, p := range fds {
		switch {
		case p.Revents == 0:
		case p.Fd == control.FD:
			readable = true
		default:
			happened = true
			delete(e.pids, int(p.Fd))
			syscall.Close(int(p.Fd))
		}
	}
	return readable, happened
}
