package worker

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// The tests of the program are written in its own language.
func TestProgram(t *testing.T) {
	t.Parallel()
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("there is no Python on this machine")
	}
	if out, err := exec.CommandContext(t.Context(), python, "-I", "worker_test.py").CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// They start it as the plugin does.
func TestTestsUseTheLoader(t *testing.T) {
	t.Parallel()
	b, err := os.ReadFile("worker_test.py")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(b), "LOADER = \""+loader+"\"\n") {
		t.Errorf("worker_test.py has another loader than\n%s", loader)
	}
}
