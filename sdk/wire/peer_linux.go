package wire

import "golang.org/x/sys/unix"

const maxSocketPath = 107

// peerSupported says whether the kernel reports the peer of a unix socket.
const peerSupported = true

func peerCredentialsOf(fd int) (Peer, error) {
	cred, err := unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED)
	if err != nil {
		return Peer{}, err
	}
	return Peer{PID: int(cred.Pid), UID: cred.Uid}, nil
}
