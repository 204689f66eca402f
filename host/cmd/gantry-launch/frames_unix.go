//go:build linux || darwin

package main

import (
	"syscall"

	"github.com/gantry-agent/gantry/host/internal/launch/control"
)

// send writes a frame to fd. It ignores errors: they mean that the peer has ended, which reading from it reports.
func send(fd int, frame []byte) {
	for len(frame) > 0 {
		n, err := syscall.Write(fd, frame)
		if err == syscall.EINTR {
			continue
		}
		if err != nil {
			return
		}
		frame = frame[n:]
	}
}

// receive returns a reader of frames from fd.
func receive(fd int) *control.Reader {
	return &control.Reader{Read: func(b []byte) (int, error) {
		for {
			n, err := syscall.Read(fd, b)
			if err != syscall.EINTR {
				return n, err
			}
		}
	}}
}

// fail reports on fd why the target does not run, and exits.
func fail(fd int, op control.Op, err error) {
	errno, ok := err.(syscall.Errno)
	if !ok {
		errno = syscall.EPROTO // an error of ours; the host names the step
	}
	send(fd, control.Failed{Op: op, Errno: uint32(errno)}.Append(nil))
	syscall.Exit(1)
}

// applied waits until the second stage has executed the target. It does not return if the stage reports an error. It returns false if the
// stage has ended without a report.
func applied(in *control.Reader) bool {
	ready := false
	for {
		frame, err := in.Next()
		switch {
		case err == control.ErrClosed && ready:
			return true // the execution has closed the socket
		case err != nil:
			return false
		case frame.Kind == control.KindStarted:
			ready = true
		case frame.Kind == control.KindPrepared: // from a stage in a sandbox that was not prepared
		default:
			failed, err := frame.Failed()
			if err != nil {
				return false
			}
			fail(control.FD, failed.Op, syscall.Errno(failed.Errno))
		}
	}
}

func errnoOf(err error) syscall.Errno {
	errno, _ := err.(syscall.Errno)
	return errno
}

func decimal(n int) string {
	var b [20]byte
	i := len(b)
	for {
		i--
		b[i] = byte('0' + n%10)
		if n /= 10; n == 0 {
			return string(b[i:])
		}
	}
}

// lower returns the new value of a limit, which is never above the limit in force.
func lower(l control.Rlimit) (next syscall.Rlimit, err error) {
	if err := syscall.Getrlimit(int(l.Resource), &next); err != nil {
		return next, err
	}
	next.Max = min(l.Hard, next.Max)
	next.Cur = min(l.Soft, next.Max)
	return next, nil
}
