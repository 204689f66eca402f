//go:build unix

package main

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"syscall"

	"github.com/gantry-agent/gantry/host/internal/rpc"
)

// start starts an app server at the other end of a socket that nobody else can reach. It is in a session of its own: the end of this
// terminal is not its end.
func (c *child) start() (rpc.Stream, error) {
	syscall.ForkLock.RLock()
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err == nil {
		syscall.CloseOnExec(fds[0])
		syscall.CloseOnExec(fds[1])
	}
	syscall.ForkLock.RUnlock()
	if err != nil {
		return nil, fmt.Errorf("make a socket: %w", err)
	}
	ours, theirs := os.NewFile(uintptr(fds[0]), "server"), os.NewFile(uintptr(fds[1]), "client")
	defer func() { _, _ = ours.Close(), theirs.Close() }() // both have been duplicated
	log, err := c.openLog()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(c.program, append(c.args[:len(c.args):len(c.args)], "app-server", "--listen", "fd://3")...)
	cmd.Stderr = log
	cmd.ExtraFiles = []*os.File{theirs} // descriptor 3
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the server: %w", err)
	}
	go func() { _ = cmd.Wait() }() // ends with the server, or with this process
	conn, err := net.FileConn(ours)
	if err != nil {
		return nil, err
	}
	return rpc.Lines(conn, conn, conn), nil
}
