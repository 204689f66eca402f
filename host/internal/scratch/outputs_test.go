package scratch

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/hashicorp/go-hclog"
)

// The kept outputs are limited; the oldest ones are removed first.
func TestKeptOutputsAreBounded(t *testing.T) {
	t.Parallel()
	d, id := New(t.TempDir(), hclog.NewNullLogger()), event.NewThreadID()
	var outputs Outputs
	text := strings.Repeat("x", maxOutputs/4)
	var paths []string
	for i := range 6 {
		seen, err := outputs.Keep(d, id, workspaceWrite, fmt.Sprint(i)+text[1:])
		if err != nil || !strings.HasPrefix(seen, "/tmp/output-") {
			t.Fatal(seen, err)
		}
		paths = append(paths, filepath.Join(d.own, string(id), filepath.Base(seen)))
	}
	for i, p := range paths {
		b, err := os.ReadFile(p)
		if kept := err == nil && strings.HasPrefix(string(b), fmt.Sprint(i)); kept != (i >= 2) {
			t.Errorf("%d: kept %v, %v", i, kept, err)
		}
	}
	if _, err := outputs.Keep(d, id, "read-only", "x"); err == nil {
		t.Error("kept although no command can read it")
	}
}
