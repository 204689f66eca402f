package hub_test

import (
	"io"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/hub"
)

// patch is a model that adds a file.
const patch = `
[[step]]
when = { since_user = 0 }
do   = [{ call = "apply_patch", freeform = "*** Begin Patch\n*** Add File: new.txt\n+a line\n*** End Patch\n" }]
[[step]]
times = -1
do    = [{ text = "done" }]
`

// The content of changed files can be read while the thread runs, also if it is not stored.
func TestArtifact(t *testing.T) {
	for _, ephemeral := range []bool{false, true} {
		h := open(t, configuration(newHome(t, patch), binaries(t)))
		th := start(t, h, hub.StartParams{Workspace: hub.Workspace{Dir: t.TempDir(), Ephemeral: ephemeral}, Sandbox: "full-access"})
		evs := follow(t, th, 0)
		submit(t, th, "go")
		seen := until(t, evs, func(e event.Event) bool { c, ok := e.Body.(event.ItemCompleted); return ok && len(c.Item.Changes) > 0 })
		r, err := h.Artifact(t.Context(), th.ID(), seen[len(seen)-1].Body.(event.ItemCompleted).Item.Changes[0].After)
		if err != nil {
			t.Fatalf("ephemeral %v: %v", ephemeral, err)
		}
		if raw, err := io.ReadAll(r); err != nil || string(raw) != "a line\n" {
			t.Errorf("%q, %v", raw, err)
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
		if _, err := h.Artifact(t.Context(), th.ID(), strings.Repeat("0", 64)); code(err) != hub.NotFound {
			t.Errorf("error %v", err)
		}
	}
}
