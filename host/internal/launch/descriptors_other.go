//go:build !unix

package launch

import (
	"errors"
	"net"
	"os"
)

var errNoDescriptors = errors.New("descriptors can't travel between processes on this system; use Attach")

func duplicate(*os.File) (*os.File, error) { return nil, errNoDescriptors }

func sendFiles(*net.UnixConn, []*os.File) error { return errNoDescriptors }

func setNonblock(*os.File) {}
