package wire

import "golang.org/x/sys/unix"

const maxSocketPath = 103

// peerSupported says whether the kernel reports the peer of a unix socket.
const peerSupported = true

func peerCredentialsOf(fd int) (Peer, error) {
	cred, err := unix.GetsockoptXucred(fd, unix.SOL_LOCAL, unix.LOCAL_PEERCRED)
	if err != nil {
		return Peer{}, err
	}
	pid, err := unix.GetsockoptInt(fd, unix.SOL_LOCAL, unix.LOCAL_PEERPID)
	return Peer{PID: pid, UID: cred.Uid}, err
}
