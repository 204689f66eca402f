//go:build unix

package plugintest

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

const pythonExample = "../../docs/examples/python"

// python returns the interpreter for the example, with grpcio.
func python(t *testing.T) string {
	t.Helper()
	interpreter := os.Getenv("GANTRY_PYTHON")
	if interpreter == "" {
		t.Skip("GANTRY_PYTHON names no interpreter with grpcio; see docs/examples/python/README.md")
	}
	interpreter, err := filepath.Abs(interpreter)
	if err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(interpreter, "-c", "import grpc").CombinedOutput(); err != nil {
		t.Skipf("GANTRY_PYTHON=%s has no grpcio: %v: %s", interpreter, err, bytes.TrimSpace(out))
	}
	return interpreter
}

func TestPythonExample(t *testing.T) {
	interpreter := python(t)
	cfg, err := ReadConfig(filepath.Join(pythonExample, "plugintest.json"))
	if err != nil {
		t.Fatal(err)
	}
	cfg.Env = map[string]string{"CLOCK_PYTHON": interpreter}
	cfg.Slack, cfg.StartBudget, cfg.Restarts = 4*time.Second, 20*time.Second, 3
	r := Test(t, cfg)
	for _, c := range r.Checks {
		switch c.ID {
		case "call.cancel", "call.crash", "call.backpressure", "call.hangup", "drain.finishes", "start.mtls":
			if c.Status != Pass {
				t.Errorf("%s: %s: the examples should let it run: %s", c.ID, c.Status, c.Seen)
			}
		}
	}
}

func TestPythonGeneratedCodeIsCurrent(t *testing.T) {
	interpreter := python(t)
	if err := exec.Command(interpreter, "-c", "import grpc_tools").Run(); err != nil {
		t.Skip("no grpcio-tools beside grpcio; install docs/examples/python/requirements-dev.txt")
	}
	out := t.TempDir()
	cmd := exec.Command(filepath.Join(pythonExample, "generate"), out)
	cmd.Env = append(os.Environ(), "PYTHON="+interpreter)
	if b, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("generate: %v\n%s", err, b)
	}
	fresh, err := filepath.Glob(filepath.Join(out, "gantry", "v1", "*.py"))
	if err != nil || len(fresh) == 0 {
		t.Fatalf("generate wrote nothing: %v", err)
	}
	committed, err := filepath.Glob(filepath.Join(pythonExample, "gantry", "v1", "*.py"))
	if err != nil {
		t.Fatal(err)
	}
	if len(committed) != len(fresh) {
		t.Errorf("%d files are committed, %d are generated", len(committed), len(fresh))
	}
	for _, f := range fresh {
		name := filepath.Join("gantry", "v1", filepath.Base(f))
		want, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(filepath.Join(pythonExample, name))
		if err != nil {
			t.Error(err)
		} else if !bytes.Equal(got, want) {
			t.Errorf("%s is not what the .proto files give; run docs/examples/python/generate", name)
		}
	}
}
