package host

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/gantry-agent/gantry/config"
	"github.com/gantry-agent/gantry/config/glob"
	"github.com/gantry-agent/gantry/host/internal/launch"
	"github.com/gantry-agent/gantry/host/internal/launch/box"
)

// deniedText tells the model what no approval opens, so that it does not try.
func deniedText(c *config.Config, mode string) string {
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

// anchored makes patterns absolute: one that begins with no folder holds below each of the roots.
func anchored(patterns, roots []string) []string {
	var out []string
	for _, p := range patterns {
		if filepath.IsAbs(p) {
			out = append(out, p)
			continue
		}
		for _, r := range roots {
			out = append(out, glob.Below(r, p))
		}
	}
	return out
}
