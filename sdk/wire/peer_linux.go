package wire

import (
	"fmt"
	"net"
	"os"

	"golang.org/x/sys/unix"
)

const maxSocketPath = 107

// peerSupported says that the kernel names the peer of a unix socket.
const peerSupported = true

func ownUID() uint32 { return uint32(os.Getuid()) }

func peerOf(conn *net.UnixConn) (Peer, error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return Peer{}, fmt.Errorf("peer credentials: %w", err)
	}
	var cred *unix.Ucred
	var credErr error
	if err := raw.Control(func(fd uintptr) {
		cred, credErr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	}); err != nil {
		return Peer{}, fmt.Errorf("peer credentials: %w", err)
	}
	if credErr != nil {
		return Peer{}, fmt.Errorf("peer credentials: %w", credErr)
	}
	return Peer{PID: int(cred.Pid), UID: cred.Uid}, nil
}
