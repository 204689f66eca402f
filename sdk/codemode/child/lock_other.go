//go:build !linux

package child

import (
	"math"
	"time"

	"github.com/gantry-agent/gantry/sdk/codemode/frame"
)

// lock does nothing: this system has no filter for system calls that a process without privileges can install. The engine has no
// functions for files, sockets or processes.
//
// peak returns the most that can be said without asking the system.
func lock(*frame.Limits) (peak func() int64, err error) {
	return func() int64 { return math.MaxInt64 }, nil
}

// started is when the process started, nearly.
var started = time.Now()

// processorTime returns the time since the process started. It includes the time that the script waits.
func processorTime() time.Duration { return time.Since(started) }
