//go:build linux || darwin

package monitor

import (
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"

	"github.com/gantry-agent/gantry/host/internal/launch/control"
	"github.com/gantry-agent/gantry/host/internal/launch/failure"
)

// Socketpair returns two connected sockets that are closed on exec. The runtime's poller watches ours; theirs blocks.
func Socketpair(name string) (ours, theirs *os.File, err error) {
	pair, err := socketpair()
	if err != nil {
		return nil, nil, failure.Of("socketpair", err)
	}
	syscall.SetNonblock(pair[0], true)
	return os.NewFile(uintptr(pair[0]), name), os.NewFile(uintptr(pair[1]), name), nil
}

// Start starts the gantry-launch at path, which then waits for an order. It keeps held open until nothing of its tree is left; nil:
// there is no such file.
func Start(path string, held *os.File) (*Monitor, error) {
	conn, peer, err := Socketpair("control")
	if err != nil {
		return nil, err
	}
	defer peer.Close()
	if held == nil {
		held = peer
	}
	process, err := os.StartProcess(path, []string{"gantry-launch"}, &os.ProcAttr{
		// Nothing of the host's environment: it may contain keys.
		Env:   []string{control.StageEnv + "=" + control.StageWatch, "GOGC=off"},
		Files: []*os.File{control.FD: peer, control.HeldFD: held, 2: peer},
		// In a session of its own, where the terminal's Ctrl-C doesn't reach it.
		Sys: &syscall.SysProcAttr{Setsid: true},
	})
	if err != nil {
		conn.Close()
		return nil, fmt.Errorf("start the launcher: %w", err)
	}
	return &Monitor{process: process, conn: conn}, nil
}

// firstPiece is how much of an order is sent together with the descriptors: any socket accepts that much at once.
const firstPiece = 16 << 10

// send sends the beginning of a frame together with descriptors. It returns the rest of the frame.
func (m *Monitor) send(frame []byte, files []*os.File) (rest []byte, err error) {
	var rights []byte
	if len(files) > 0 {
		fds := make([]int, len(files))
		for i, f := range files {
			fds[i] = int(f.Fd())
		}
		rights = syscall.UnixRights(fds...)
	}
	raw, err := m.conn.SyscallConn()
	if err != nil {
		return nil, err
	}
	n := 0
	werr := raw.Write(func(fd uintptr) bool {
		for {
			n, err = syscall.SendmsgN(int(fd), frame[:min(len(frame), firstPiece)], rights, nil, flagNoSignal)
			if err != syscall.EINTR {
				return true
			}
		}
	})
	if werr != nil {
		return nil, werr
	}
	return frame[n:], err
}

// Waiting reports whether the process waits for an order. One that has written something, or closed its socket, has ended.
func (m *Monitor) Waiting() bool {
	raw, err := m.conn.SyscallConn()
	if err != nil {
		return false
	}
	silent := false
	err = raw.Read(func(fd uintptr) bool {
		var b [1]byte
		_, _, err := syscall.Recvfrom(int(fd), b[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		silent = err == syscall.EAGAIN
		return true
	})
	return err == nil && silent
}

// ReceiveListener receives the listener that gantry-launch sends over a socket of its own.
func ReceiveListener(socket *os.File) (net.Listener, error) {
	raw, err := socket.SyscallConn()
	if err != nil {
		return nil, err
	}
	oob := make([]byte, syscall.CmsgSpace(4))
	var n, oobn int
	if rerr := raw.Read(func(fd uintptr) bool {
		for {
			n, oobn, _, _, err = syscall.Recvmsg(int(fd), make([]byte, 1), oob, flagCloexec)
			if err != syscall.EINTR {
				return err != syscall.EAGAIN
			}
		}
	}); rerr != nil {
		return nil, rerr
	}
	if err != nil {
		return nil, err
	}
	messages, err := syscall.ParseSocketControlMessage(oob[:oobn])
	if err != nil || n == 0 || len(messages) != 1 {
		return nil, errors.New("gantry-launch sent none")
	}
	fds, err := syscall.ParseUnixRights(&messages[0])
	if err != nil || len(fds) != 1 {
		return nil, errors.New("gantry-launch sent none")
	}
	f := os.NewFile(uintptr(fds[0]), "listener")
	defer f.Close() // FileListener duplicates it
	return net.FileListener(f)
}
