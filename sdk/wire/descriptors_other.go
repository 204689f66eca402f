//go:build !unix

package wire

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
)

// SendDescriptors is not available on this platform; the Attach stream carries the bytes instead.
func SendDescriptors(*net.UnixConn, []*os.File) error {
	return fmt.Errorf("send descriptors: %w on this platform", errors.ErrUnsupported)
}

// ReceiveDescriptors is not available on this platform; the Attach stream carries the bytes instead.
func ReceiveDescriptors(context.Context, string, string, int) ([]*os.File, error) {
	return nil, fmt.Errorf("receive descriptors: %w on this platform", errors.ErrUnsupported)
}
