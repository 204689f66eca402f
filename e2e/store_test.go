package e2e_test

import (
	"encoding/json"
	"testing"

	"github.com/gantry-agent/gantry/e2e/rig"
)

// stored is a thread as `threads list --json` prints it.
type stored struct {
	ID     string
	Status string
	Turns  int
}

// threads lists the threads of the rig's project.
func threads(t *testing.T, r *rig.Rig) []stored {
	t.Helper()
	var out []stored
	if err := json.Unmarshal([]byte(r.OK("threads", "list", "--json").Stdout), &out); err != nil {
		t.Fatal(err)
	}
	return out
}
