package launch_test

import (
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/host/internal/launch"
)

func TestDigest(t *testing.T) {
	t.Parallel()
	base := launch.Grant{Mode: "workspace-write", WritableRoots: []string{"/a", "/b"}, Env: []string{"A=1", "B=2"}}
	same := launch.Grant{Mode: "workspace-write", WritableRoots: []string{"/b", "/a"}, Env: []string{"B=2", "A=1"}}
	if base.Digest() != same.Digest() {
		t.Error("the order counts")
	}
	if base.WritableRoots[0] != "/a" || same.WritableRoots[0] != "/b" {
		t.Error("Digest sorted its receiver")
	}
	if want := "g1:"; !strings.HasPrefix(base.Digest(), want) || len(base.Digest()) != len(want)+44 {
		t.Errorf("digest %q", base.Digest())
	}
	seen := map[string]string{base.Digest(): "base"}
	for name, change := range map[string]func(*launch.Grant){
		"mode":    func(g *launch.Grant) { g.Mode = "read-only" },
		"roots":   func(g *launch.Grant) { g.WritableRoots = []string{"/a"} },
		"reads":   func(g *launch.Grant) { g.ReadableRoots = []string{"/a"} },
		"denied":  func(g *launch.Grant) { g.DenyRead = []string{"/a"} },
		"kept":    func(g *launch.Grant) { g.DenyWrite = []string{"/a"} },
		"network": func(g *launch.Grant) { g.Network = true },
		"env":     func(g *launch.Grant) { g.Env = nil },
		"memory":  func(g *launch.Grant) { g.Limits.MemoryBytes = 1 },
		"space":   func(g *launch.Grant) { g.Limits.AddressSpaceBytes = 1 },
		"pids":    func(g *launch.Grant) { g.Limits.MaxPids = 1 },
		"cpu":     func(g *launch.Grant) { g.Limits.CPUSeconds = 1 },
		"files":   func(g *launch.Grant) { g.Limits.OpenFiles = 1 },
		"size":    func(g *launch.Grant) { g.Limits.FileBytes = 1 },
		"output":  func(g *launch.Grant) { g.Limits.OutputBytes = 1 },
		"core":    func(g *launch.Grant) { g.Limits.NoCore = true },
	} {
		g := base
		change(&g)
		if other, ok := seen[g.Digest()]; ok {
			t.Errorf("%s and %s have the same digest", name, other)
		}
		seen[g.Digest()] = name
	}
}
