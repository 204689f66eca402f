//go:build !linux && !darwin

package monitor

import (
	"errors"
	"net"
	"os"
)

// Without subreapers, parent-death signals and pidfds, no process that gantry-launch starts could be kept from outliving its call or
// its host, which would be worse than not to start it.
var errUnsupported = errors.ErrUnsupported

// Socketpair fails.
func Socketpair(string) (ours, theirs *os.File, err error) { return nil, nil, errUnsupported }

// Start fails.
func Start(string, *os.File) (*Monitor, error) { return nil, errUnsupported }

func (m *Monitor) send([]byte, []*os.File) ([]byte, error) { return nil, errUnsupported }

// Waiting reports false.
func (m *Monitor) Waiting() bool { return false }

// ReceiveListener fails.
func ReceiveListener(*os.File) (net.Listener, error) { return nil, errUnsupported }
