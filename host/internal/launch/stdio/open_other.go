//go:build !linux && !darwin

package stdio

import (
	"errors"
	"net"
	"os"
)

var errUnsupported = errors.New("descriptors can't travel between processes on this system; use Attach")

// Open fails.
func (s *Streams) Open() (target, opened []*os.File, err error) {
	return nil, nil, errors.ErrUnsupported
}

// Resize fails.
func (s *Streams) Resize(Size) error { return ErrNoTerminal }

func duplicate(*os.File) (*os.File, error) { return nil, errUnsupported }

func sendFiles(*net.UnixConn, []*os.File) error { return errUnsupported }

func setNonblock(*os.File) {}
