//go:build !unix

package plugin

import (
	"errors"
	"net"
	"os"
)

func pair() (net.Conn, *os.File, error) { return nil, nil, errors.ErrUnsupported }
