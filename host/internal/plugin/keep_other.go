//go:build !linux

package plugin

import "github.com/gantry-agent/gantry/host/internal/plugin/proc"

// keeper returns nil. Without user namespaces, there is no owner of a namespace that could read the memory of all its processes.
func (*launcher) keeper(string, string, string, []string) func() (*proc.Keep, error) { return nil }
