package plugin

import (
	"time"

	"github.com/gantry-agent/gantry/host/internal/plugin/proc"
	"github.com/gantry-agent/gantry/sdk/contract"
)

// Mode is the mode of a slot.
type Mode int

// The modes of a slot.
const (
	ModeUnknown  Mode = iota
	ModeStopped       // no process; the next call starts one
	ModeStarting      // a process is starting; calls wait for it
	ModeReady         // a process takes calls
	ModeDraining      // the process is being stopped; running calls may finish, new ones wait
	ModeCrashed       // the process crashed; the next call restarts it, after a delay
	ModeBroken        // it crashed too often; only a reload or a new configuration restarts it
)

var modes = [...]string{"unknown", "stopped", "starting", "ready", "draining", "crashed", "broken"}

// String returns the mode as one lower-case word.
func (m Mode) String() string { return modes[m] }

// Isolation is how a plugin's processes are kept together, so that all of them can be ended.
type Isolation = proc.Isolation

// The kinds of isolation.
const (
	IsolationNamespace = proc.IsolationNamespace // a user and PID namespace: no process outlives the first one
	IsolationScan      = proc.IsolationScan      // none: when the plugin ends, the host looks for its descendants
)

// State is the state of a slot.
type State struct {
	Plugin string // label
	Mode   Mode
	// Generation is that of the process that takes calls, or of the last process.
	Generation uint64
	// Message explains the mode to people. It may be empty.
	Message string
}

// Status is the state of a slot with details about its process.
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
	Calls     int // running calls
	// Starts and Crashes are counted since the slot was added.
	Starts, Crashes int
	LastError       error
	StderrTail      []string
	// StdoutDropped is how many bytes it wrote to standard output after the handshake.
	StdoutDropped int64
	Usage         proc.Usage
	// Health is how long the last health check took, or 0 if there was none yet.
	Health time.Duration
	// Draining is the generation of an older process that is finishing its calls, or 0.
	Draining uint64
}
