// Package features lists the features that keep state with a thread.
//
// It owns: the list. It must not know: what a feature does with its state, how a thread stores it.
//
// Start with [All].
package features

import (
	"github.com/gantry-agent/gantry/host/internal/agent"
	"github.com/gantry-agent/gantry/host/internal/codemode"
	"github.com/gantry-agent/gantry/host/internal/goal"
	"github.com/gantry-agent/gantry/host/internal/queue"
	"github.com/gantry-agent/gantry/host/internal/thread"
)

// All returns the features of every thread. Each process that reads a thread's log applies all of them.
func All() []thread.Feature {
	return []thread.Feature{queue.Feature{}, codemode.Feature{}, agent.Feature{}, goal.Feature{}}
}
