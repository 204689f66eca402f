package plugin

import (
	"time"

	"github.com/gantry-agent/gantry/host/internal/plugin/proc"
	"github.com/gantry-agent/gantry/sdk/contract"
)

// Mode is what a slot is doing.
type Mode int

// The modes of a slot.
const (
	ModeUnknown  Mode = iota
	ModeStopped       // no process; the next call starts one
	ModeStarting      // one is being started; calls wait for it
	ModeReady         // calls are made
	ModeDraining      // running calls may finish, new ones wait
	ModeCrashed       // it ended without being asked to; the next call starts it, after a delay
	ModeBroken        // it crashed too often; nothing starts it but a reload, a reset or another configuration
)

// String returns the mode as one lower-case word.
func (m Mode) String() string {
	switch m {
	case ModeStopped:
		return "stopped"
	case ModeStarting:
		return "starting"
	case ModeReady:
		return "ready"
	case ModeDraining:
		return "draining"
	case ModeCrashed:
		return "crashed"
	case ModeBroken:
		return "broken"
	}
	return "unknown"
}

// Isolation is how a plugin's processes are kept together, so that all of them can be ended.
type Isolation = proc.Isolation

// The kinds of isolation.
const (
	IsolationNamespace = proc.IsolationNamespace // a user and PID namespace: no process outlives the first one
	IsolationScan      = proc.IsolationScan      // none: when the plugin ends, the host looks for its descendants
)

// State is where a slot stands.
type State struct {
	Plugin string // label
	Mode   Mode
	// Generation is that of the process which takes calls, or of the last one.
	Generation uint64
	// Message says why, for people; often empty.
	Message string
}

// Status is everything there is to know about a slot.
type Status struct {
	State
	Kind    contract.Kind
	Source  string
	Path    string
	SHA256  string
	Name    string // from the manifest, like Version
	Version string

	PID       int
	Started   time.Time
	Start     StartTimes
	Isolation Isolation
	Calls     int // that run
	// Starts and Crashes count since the slot was made.
	Starts, Crashes int
	LastError       error
	StderrTail      []string
	// StderrLines is how many lines it wrote, StderrDropped how many of them were not logged, StdoutDropped how many bytes
	// it wrote to standard output after the handshake.
	StderrLines, StderrDropped, StdoutDropped int64
	Usage                                     proc.Usage
	// Health is how long the last health check took; 0: there was none yet.
	Health time.Duration
	// Draining is the generation of an older process that still finishes its calls; 0: none.
	Draining uint64
}
