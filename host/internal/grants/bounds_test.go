package grants

import (
	"path/filepath"
	"slices"
	"testing"

	"github.com/gantry-agent/gantry/config/schema"
	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/launch"
	"github.com/gantry-agent/gantry/host/internal/launch/box"
	"github.com/gantry-agent/gantry/host/internal/orchestrate"
	"github.com/gantry-agent/gantry/host/internal/policy"
	"github.com/gantry-agent/gantry/sdk/contract"
)

// What agents above an agent may do, and what its role allows, is looked up for each grant. An approval exceeds the first, and never the role.
func TestGrantsOfAgents(t *testing.T) {
	t.Parallel()
	dir, g := permitWorld(t)
	ws, out := filepath.Join(dir, "ws"), filepath.Join(dir, "out")
	l, err := launch.New(launch.Config{LauncherPath: "/bin/sh", Confiners: []launch.Confiner{launch.Unconfined{}, anyBox{}}})
	if err != nil {
		t.Fatal(err)
	}
	g.Launcher, g.Tmp = l, func() (string, error) { return filepath.Join(dir, "tmp"), nil }
	g.Config.Sandbox.Network, g.Config.Network.Mode = true, schema.NetworkFull
	var above string
	var b event.Bounds
	g.Bounds = func() (string, event.Bounds) { return above, b }
	unsandboxed := &contract.Escalation{Unsandboxed: true}
	request := orchestrate.GrantRequest{Sandbox: box.WorkspaceWrite, Cwd: ws, Permitted: policy.Permissions{Write: []string{out}}}
	grant := func(e *contract.Escalation) launch.Grant {
		t.Helper()
		r := request
		r.Escalation = e
		got, err := g.Grant(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	file := filepath.Join(ws, "x")
	if got := grant(nil); got.Mode != box.WorkspaceWrite || !slices.Contains(got.WritableRoots, out) || !got.Network || !g.Writable(request, file) {
		t.Errorf("without bounds: %+v", got)
	}
	above = box.ReadOnly
	// What the user has permitted stays permitted.
	if got := grant(nil); slices.Contains(got.WritableRoots, ws) || g.Writable(request, file) || grant(unsandboxed).Mode != launch.FullAccess {
		t.Errorf("below an agent that only reads: %+v", got)
	}
	above, b = "", event.Bounds{Sandbox: box.WorkspaceWrite, NoNetwork: true, DenyRead: []string{"*.pem"}, DenyWrite: []string{"*.lock"}}
	for _, e := range []*contract.Escalation{nil, unsandboxed} {
		got := grant(e)
		if got.Mode != box.WorkspaceWrite || got.Network || got.Proxied || slices.Contains(got.WritableRoots, out) ||
			!slices.Contains(got.DenyRead, ws+"/*.pem") || !slices.Contains(got.DenyWrite, ws+"/*.lock") {
			t.Errorf("with a role: %+v", got)
		}
	}
	b = event.Bounds{Sandbox: box.ReadOnly}
	if got := grant(unsandboxed); got.Mode != box.ReadOnly || g.Writable(request, file) {
		t.Errorf("with a role that only reads: %+v", got)
	}
}
