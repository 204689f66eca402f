package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// What `gantry plugin new` writes builds without a network and passes the conformance kit, which its own test runs.
func TestNewPluginPassesTheKit(t *testing.T) {
	if testing.Short() {
		t.Skip("it builds a module")
	}
	t.Parallel()
	sdk, err := filepath.Abs("../../../sdk")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	run := func(in, name string, args ...string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), name, args...)
		cmd.Dir = in
		// Compiled as make does, which has done most of it before.
		cmd.Env = append(os.Environ(), "GOWORK=off", "GOPROXY=off", "CGO_ENABLED=0", "GOFLAGS=-mod=readonly -trimpath -tags=grpcnotrace",
			"GANTRY_HOME="+filepath.Join(dir, "home"))
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
		}
	}
	run(dir, "gantry", "plugin", "new", "--sdk", sdk, "sky-watch")
	module := filepath.Join(dir, "sky-watch")
	run(module, "go", "vet", ".")
	run(module, "go", "test", "-count=1", ".")
	out, err := exec.CommandContext(t.Context(), "gofmt", "-l", module).CombinedOutput()
	if err != nil || len(out) > 0 {
		t.Errorf("gofmt: %v %s", err, out)
	}
}
