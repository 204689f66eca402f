//go:build !linux && !darwin

package wire

import (
	"errors"
	"fmt"
)

const maxSocketPath = 107

// peerSupported says whether the kernel reports the peer of a unix socket.
const peerSupported = false

func peerCredentialsOf(int) (Peer, error) {
	return Peer{}, fmt.Errorf("%w on this platform; use the mtls transport", errors.ErrUnsupported)
}
