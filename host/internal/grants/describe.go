package grants

import (
	"fmt"
	"strings"

	"github.com/gantry-agent/gantry/config"
	"github.com/gantry-agent/gantry/host/internal/launch"
	"github.com/gantry-agent/gantry/host/internal/launch/box"
)

// Describe tells the model about restrictions that no approval lifts, so that it does not try to get around them.
func Describe(c *config.Config, mode string) string {
	var b strings.Builder
	if s := c.Sandbox; len(s.DenyRead) > 0 {
		fmt.Fprintf(&b, "Files and folders that are or match %s can be neither read nor written by commands; no approval changes that. ", strings.Join(s.DenyRead, ", "))
	}
	if s := c.Sandbox; len(s.DenyWrite) > 0 && mode == box.WorkspaceWrite {
		fmt.Fprintf(&b, "What is or matches %s can't be written in the sandbox. ", strings.Join(s.DenyWrite, ", "))
	}
	if s := c.Sandbox; len(s.ReadableRoots) > 0 && mode != launch.FullAccess {
		fmt.Fprintf(&b, "Beside the working folder and what may be written, commands in the sandbox read only %s and the system's programs. ", strings.Join(s.ReadableRoots, ", "))
	}
	return strings.TrimSpace(b.String())
}
