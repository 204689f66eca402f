//go:build family

package main

import (
	"bytes"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gantry-agent/gantry/host/internal/launch/control"
)

// processes is the process table.
func processes() []kin {
	entries, _ := os.ReadDir("/proc")
	var out []kin
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		b, err := os.ReadFile("/proc/" + e.Name() + "/stat")
		if err != nil {
			continue
		}
		f := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
		if len(f) < 20 {
			continue
		}
		k := kin{pid: pid, dead: f[0] == "Z" || f[0] == "X"}
		k.parent, _ = strconv.Atoi(f[1])
		k.group, _ = strconv.Atoi(f[2])
		k.session, _ = strconv.Atoi(f[3])
		k.started, _ = strconv.ParseUint(f[19], 10, 64)
		out = append(out, k)
	}
	return out
}

// carries reports whether a process was started with this variable, and whether its variables can be seen.
func carries(pid int, variable string) (carries, sure bool) {
	b, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/environ")
	return bytes.Contains(append([]byte{0}, b...), []byte("\x00"+variable+"\x00")), len(b) > 0
}

func residentKiB(u *syscall.Rusage) uint64 { return uint64(u.Maxrss) }

func takeTerminal(fd int) error { return unix.IoctlSetInt(fd, unix.TIOCSCTTY, 0) }

func closeFrom(first int) { _ = unix.CloseRange(uint(first), ^uint(0)>>32, 0) }

// events wait for the host and for the tree's processes. Nobody tells of forks here, so those are looked for again and again.
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
