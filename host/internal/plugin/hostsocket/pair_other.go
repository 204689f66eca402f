//go:build !unix

package hostsocket

import (
	"errors"
	"net"
	"os"
)

func socketPair() (net.Conn, *os.File, error) { return nil, nil, errors.ErrUnsupported }
