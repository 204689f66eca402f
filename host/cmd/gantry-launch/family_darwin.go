package main

import (
	"bytes"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gantry-agent/gantry/host/internal/launch/control"
)

// processes returns the process table.
func processes() []entry {
	list, err := unix.SysctlKinfoProcSlice("kern.proc.uid", syscall.Geteuid())
	if err != nil {
		return nil
	}
	out := make([]entry, 0, len(list))
	for i := range list {
		p := &list[i]
		const zombie = 5 // SZOMB
		k := entry{pid: int(p.Proc.P_pid), parent: int(p.Eproc.Ppid), group: int(p.Eproc.Pgid), dead: p.Proc.P_stat == zombie}
		k.started = uint64(p.Proc.P_starttime.Sec)*1_000_000 + uint64(p.Proc.P_starttime.Usec)
		if k.session, err = unix.Getsid(k.pid); err != nil {
			k.session = 0
		}
		out = append(out, k)
	}
	return out
}

// carries reports whether a process was started with this variable, and whether its variables can be read. Those of the system's own
// programs can't.
func carries(pid int, variable string) (carries, sure bool) {
	b, err := unix.SysctlRaw("kern.procargs2", pid)
	return bytes.Contains(b, []byte("\x00"+variable+"\x00")), err == nil && len(b) > 0
}

// residentKiB returns the maximum resident size, which macOS reports in bytes.
func residentKiB(u *syscall.Rusage) uint64 { return uint64(u.Maxrss) / 1024 }

// takeTerminal makes a terminal the controlling terminal.
func takeTerminal(fd int) error { return unix.IoctlSetInt(fd, unix.TIOCSCTTY, 0) }

// closeFrom closes all descriptors from first on, which the host may have inherited from its own parent.
func closeFrom(first int) {
	var files syscall.Rlimit
	const most = 10240 // the system's default limit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files); err != nil || files.Cur > most {
		files.Cur = most
	}
	for fd := first; fd < int(files.Cur); fd++ {
		syscall.Close(fd)
	}
}

// events wait for the host and for the tree's processes.
type events struct{ queue int }

func newEvents() (*events, error) {
	queue, err := unix.Kqueue()
	if err != nil {
		return nil, err
	}
	syscall.CloseOnExec(queue)
	e := &events{queue}
	return e, e.change(control.FD, unix.EVFILT_READ, unix.EV_ADD, 0)
}

func (e *events) change(ident, filter, flags int, notes uint32) error {
	var k unix.Kevent_t
	unix.SetKevent(&k, ident, filter, flags)
	k.Fflags = notes
	_, err := unix.Kevent(e.queue, []unix.Kevent_t{k}, nil, nil)
	return err
}

// watch subscribes to the forks and the end of a process. It returns false if the process has ended already.
func (e *events) watch(pid int) bool {
	return e.change(pid, unix.EVFILT_PROC, unix.EV_ADD|unix.EV_CLEAR, unix.NOTE_EXIT|unix.NOTE_FORK) == nil
}

// wait waits until the host has sent something, unless host is false, or something has happened to the tree, but no longer than most;
// negative: no limit.
func (e *events) wait(host bool, most time.Duration) (readable, happened bool) {
	if !host { // a closed socket would always be readable
		_ = e.change(control.FD, unix.EVFILT_READ, unix.EV_DELETE, 0)
	}
	var limit *unix.Timespec
	if most >= 0 {
		t := unix.NsecToTimespec(int64(most))
		limit = &t
	}
	var got [16]unix.Kevent_t
	n, err := unix.Kevent(e.queue, nil, got[:], limit)
	if err != nil { // interrupted: scan
		return false, true
	}
	for _, k := range got[:n] {
		if k.Filter == unix.EVFILT_READ {
			readable = true
		} else {
			happened = true
		}
	}
	return readable && host, happened
}
