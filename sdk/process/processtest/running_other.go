//go:build !unix

package processtest

import (
	"errors"
	"os"
	"os/exec"
	"time"

	gantryv1 "github.com/gantry-agent/gantry/sdk/proto/gantry/v1"
)

// running is a process; there are none where processes have no groups.
type running struct {
	id       string
	session  bool
	keep     *gantryv1.Keep
	released bool
	started  time.Time
	cmd      *exec.Cmd
	names    []string
	files    []*os.File
	done     chan struct{}
	terminal *os.File
	exit     *gantryv1.WaitResponse
}

func start(*gantryv1.SpawnRequest) (*running, error) {
	return nil, errors.New("processtest starts processes on unix systems only")
}

func startError(err error) *gantryv1.SpawnError { return &gantryv1.SpawnError{Message: err.Error()} }

func (p *running) reap()                                {}
func (p *running) over() bool                           { return true }
func (p *running) signal(*gantryv1.SignalRequest) error { return nil }
func (p *running) close()                               {}
