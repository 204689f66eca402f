package codemode_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/gantry-agent/gantry/sdk/codemode"
)

// A plugin as a user builds it, outside the workspace: it declares the tool, and runs scripts when it starts itself again.
func TestPlugin(t *testing.T) {
	if testing.Short() {
		t.Skip("builds a binary")
	}
	t.Parallel()
	const dir = "testdata/counter"
	source, err := os.ReadFile(filepath.Join(dir, "main.go"))
	if err != nil {
		t.Fatal(err)
	}
	if n := bytes.Count(source[bytes.Index(source, []byte("func main")):], []byte("\n")); n >= 60 {
		t.Errorf("the plugin has %d lines after its imports", n)
	}
	plugin := filepath.Join(t.TempDir(), "counter")
	build := exec.CommandContext(t.Context(), "go", "build", "-race=false", "-trimpath", "-tags", "grpcnotrace", "-o", plugin, ".")
	build.Dir = dir
	build.Env = append(os.Environ(), "GOWORK=off", "CGO_ENABLED=0") // as make builds, which has compiled most of it before
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	manifest, err := exec.CommandContext(t.Context(), plugin, "--describe").Output()
	if err != nil || !bytes.Contains(manifest, []byte("counter")) {
		t.Errorf("%s, %v", manifest, err)
	}
	e := &codemode.Executor{Command: []string{plugin, "gantry-codemode-child"}}
	var log []string
	out := e.Execute(t.Context(), "await a.count()\nawait a.count()", []codemode.Provider{resource("a", &log, nil, nil)})
	if string(out.Result) != "2" || out.Error != "" {
		t.Errorf("%+v", out)
	}
}
