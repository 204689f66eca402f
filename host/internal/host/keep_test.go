package host

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/config"
	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/launch/box"
	"github.com/gantry-agent/gantry/host/internal/thread"
)

// What is kept of outputs is bounded; the oldest go first.
func TestKeptOutputsAreBounded(t *testing.T) {
	t.Parallel()
	h := &Host{opts: Options{Home: t.TempDir(), Config: &config.Config{Sandbox: config.Sandbox{Mode: box.WorkspaceWrite}}}}
	r := &running{thread: thread.New(thread.Config{ID: event.NewThreadID(), Start: &event.ThreadStarted{Cwd: "/"}})}
	text := strings.Repeat("x", maxOutputs/4)
	var paths []string
	for i := range 6 {
		seen, err := h.keepOutput(r, fmt.Sprint(i)+text[1:])
		if err != nil || !strings.HasPrefix(seen, "/tmp/output-") {
			t.Fatal(seen, err)
		}
		paths = append(paths, filepath.Join(h.tmpDir(), string(r.thread.ID()), filepath.Base(seen)))
	}
	for i, p := range paths {
		b, err := os.ReadFile(p)
		if kept := err == nil && strings.HasPrefix(string(b), fmt.Sprint(i)); kept != (i >= 2) {
			t.Errorf("%d: kept %v, %v", i, kept, err)
		}
	}
	h.opts.Config.Sandbox.Mode = box.ReadOnly
	if _, err := h.keepOutput(r, "x"); err == nil {
		t.Error("kept where no command can read it")
	}
}
