package transport

import (
	"fmt"
	"os"
	"syscall"
)

// phase is the state of a server. It only grows.
type phase int

const (
	serving  phase = iota // accepts clients
	draining              // accepts none; waits until no turn is running
	stopping              // ends its clients, and waits for them
	forced                // ends its clients, whatever they do
)

// String returns the name of a phase, for the log.
func (p phase) String() string {
	switch p {
	case serving:
		return "serving"
	case draining:
		return "draining"
	case stopping:
		return "stopping"
	case forced:
		return "forced"
	}
	return fmt.Sprintf("phase %d", int(p))
}

// signaled returns the phase after a signal. many: the server has more than one client, so the end of a terminal, SIGHUP, is no reason
// to interrupt the others.
func (p phase) signaled(sig os.Signal, many bool) phase {
	switch {
	case p == serving:
		return draining
	case sig == syscall.SIGHUP && many:
		return p
	}
	return forced
}
