//go:build !linux && !darwin

package wire

import (
	"errors"
	"fmt"
)

const maxSocketPath = 107

const peerSupported = false

func peerCredentialsOf(int) (Peer, error) {
	return Peer{}, fmt.Errorf("%w on this platform; use the mtls transport", errors.ErrUnsupported)
}
