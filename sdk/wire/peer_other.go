//go:build !linux && !darwin

package wire

import (
	"errors"
	"fmt"
	"net"
	"os"
)

const maxSocketPath = 107

// peerSupported says that the kernel names the peer of a unix socket.
const peerSupported = false

func ownUID() uint32 { return uint32(os.Getuid()) }

func peerOf(*net.UnixConn) (Peer, error) {
	return Peer{}, fmt.Errorf("peer credentials: %w on this platform; use the mtls transport", errors.ErrUnsupported)
}
