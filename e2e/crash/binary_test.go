package crash_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gantry-agent/gantry/e2e/rig"
)

// atVariable and traceVariable are what a gantry with crash points listens to.
const (
	atVariable    = "GANTRY_CRASH_AT"
	traceVariable = "GANTRY_CRASH_TRACE"
)

// mortalDir is a folder with a gantry that has crash points, and everything else as it is shipped. TestMain makes and
// removes it, the first test that needs it fills it.
var mortalDir string

var fillMortal = sync.OnceValue(buildMortal)

// buildBound is far more than the linker takes with a cache that has the packages already.
const buildBound = 10 * time.Minute

func buildMortal() error {
	shipped, root, err := folders()
	if err != nil {
		return err
	}
	entries, err := os.ReadDir(shipped)
	if err != nil {
		return err
	}
	var pins []string
	for _, e := range entries {
		if e.Name() == "gantry" || !strings.HasPrefix(e.Name(), "gantry-") {
			continue
		}
		content, err := os.ReadFile(filepath.Join(shipped, e.Name()))
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(mortalDir, e.Name()), content, 0o755); err != nil {
			return err
		}
		if e.Name() != "gantry-launch" {
			sum := sha256.Sum256(content)
			pins = append(pins, e.Name()+"="+hex.EncodeToString(sum[:]))
		}
	}
	// As the Makefile builds it, with the tag.
	ctx, cancel := context.WithTimeout(context.Background(), buildBound)
	defer cancel()
	build := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false", "-tags", "grpcnotrace crashpoints",
		"-ldflags", "-s -w -X main.version=0.0.0-crash -X main.builtins="+strings.Join(pins, ","), "-o", filepath.Join(mortalDir, "gantry"), "./host/cmd/gantry")
	build.Dir, build.Env = root, append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("build a gantry with crash points: %w\n%s", err, out)
	}
	return nil
}

// folders are where the shipped binaries are, and the repository.
func folders() (bin, root string, err error) {
	wd, err := os.Getwd()
	if err != nil {
		return "", "", err
	}
	for root = wd; ; root = filepath.Dir(root) {
		if _, err := os.Stat(filepath.Join(root, "go.work")); err == nil {
			break
		}
		if root == filepath.Dir(root) {
			return "", "", fmt.Errorf("no go.work above %s", wd)
		}
	}
	if bin = os.Getenv("GANTRY_BIN"); bin == "" {
		bin = filepath.Join(root, "bin")
	}
	return bin, root, nil
}

// mortal makes a rig run the gantry with crash points.
func mortal(t testing.TB, r *rig.Rig) *rig.Rig {
	t.Helper()
	if err := fillMortal(); err != nil {
		t.Fatal(err)
	}
	r.Bin = mortalDir
	return r
}

// startAt starts gantry, to die at a point; "" for none.
func startAt(r *rig.Rig, point string, start func(args ...string) *rig.Run, args ...string) *rig.Run {
	env := r.Env
	defer func() { r.Env = env }()
	if point != "" {
		r.Env = append(env[:len(env):len(env)], atVariable+"="+point)
	}
	return start(args...)
}

// What is shipped can't be told to die: there is nothing in it that listens.
func TestShippedBinaryHasNoKillSwitch(t *testing.T) {
	t.Parallel()
	r := rig.New(t, "[[step]]\ntimes = -1\ndo = [{ text = \"done\" }]\n")
	const point = "append.before turn.ended"
	trace := filepath.Join(r.Home, "trace")
	ask := func(r *rig.Rig) rig.Result {
		env := r.Env
		defer func() { r.Env = env }()
		r.Env = append(env[:len(env):len(env)], traceVariable+"="+trace)
		return startAt(r, point, r.Start, "exec", "the task").Wait()
	}
	if res := ask(r); res.Code != 0 {
		t.Errorf("the shipped gantry ends with %d:\n%s", res.Code, res.Stderr)
	}
	if _, err := os.Stat(trace); err == nil {
		t.Error("the shipped gantry tells of its points")
	}
	content := func() []byte {
		b, err := os.ReadFile(filepath.Join(r.Bin, "gantry"))
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	if bytes.Contains(content(), []byte("GANTRY_CRASH")) {
		t.Error("the shipped gantry knows the variables of the crash suite")
	}
	// The same looks find something where there is something.
	mortal(t, r)
	if res := ask(r); res.Code != -1 {
		t.Errorf("the gantry with crash points ends with %d instead of dying", res.Code)
	}
	if _, err := os.Stat(trace); err != nil || !bytes.Contains(content(), []byte("GANTRY_CRASH")) {
		t.Errorf("the gantry with crash points has none: %v", err)
	}
	gone(t, r)
}

// gone waits until nothing of the rig runs: what a host had started ends a moment after it.
func gone(t testing.TB, r *rig.Rig) {
	t.Helper()
	r.Until("all that the host had started has ended", func() bool {
		return len(rig.Processes(t, r.Home, "")) == 0 && len(rig.Processes(t, r.Dir, "")) == 0
	})
}
