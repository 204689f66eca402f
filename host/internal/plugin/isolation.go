package plugin

import "github.com/gantry-agent/gantry/host/internal/plugin/proc"

// Isolation is what keeps a plugin's processes together.
type Isolation = proc.Isolation

// Sandbox is what confines a plugin's process.
type Sandbox = proc.Sandbox

// The kinds of isolation.
const (
	IsolationNamespace = proc.IsolationNamespace // a user and process namespace: nothing survives its first process
	IsolationScan      = proc.IsolationScan      // none: descendants are looked for when the plugin ends
)
