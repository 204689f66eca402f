package main

import (
	"syscall"

	"github.com/gantry-agent/gantry/host/internal/launch/control"
)

func main() {
	stage, _ := syscall.Getenv(control.StageEnv)
	switch stage {
	case control.StageWatch:
		watch()
	case control.StageApply:
		apply()
	case control.StageCage:
		cage()
	}
	byHand()
}

// byHand answers a person who runs the program.
func byHand() {
	line := readAll("/proc/self/cmdline")
	for i, n := 0, len("--version"); i+n <= len(line); i++ {
		if string(line[i:i+n]) == "--version" {
			syscall.Write(1, []byte("gantry-launch "+version+"\n"))
			syscall.Exit(0)
		}
	}
	syscall.Write(2, []byte("gantry-launch is started by gantry, once for each process; it is of no use by hand.\n"+
		"Run \"gantry help\" to see what gantry can do.\n"))
	syscall.Exit(1)
}

// send writes a frame to fd. An error means that the peer is gone, which its reader notices too.
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

// fail reports on fd why the target does not run, and ends.
func fail(fd int, op control.Op, err error) {
	errno, ok := err.(syscall.Errno)
	if !ok {
		errno = syscall.EPROTO // not of the system; the host names the step
	}
	send(fd, control.Failed{Op: op, Errno: uint32(errno)}.Append(nil))
	syscall.Exit(1)
}
