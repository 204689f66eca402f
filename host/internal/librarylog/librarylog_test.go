package librarylog

import (
	"log"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"
	"google.golang.org/grpc/grpclog"
)

// Redirect changes settings of the whole process, so a child process calls it.
func TestRedirect(t *testing.T) {
	if os.Getenv("REDIRECT") != "" {
		Redirect(hclog.New(&hclog.LoggerOptions{Level: hclog.Trace, Output: os.Stdout}))
		log.Printf("[ERR] plugin: from the standard log")
		l := grpclog.Component("test")
		l.Errorf("from grpc %d", 1)
		l.Warning("a ", "warning")
		l.Info("an info")
		return
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self, "-test.run=^TestRedirect$")
	cmd.Env = append(os.Environ(), "REDIRECT=1")
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	if stderr.Len() > 0 {
		t.Errorf("stderr: %s", stderr.String())
	}
	for _, want := range []string{"[ERROR] log: plugin: from the standard log", "[WARN]  grpc: [test] from grpc 1", "[DEBUG] grpc: [test] a  warning", "[TRACE] grpc: [test] an info"} {
		if !strings.Contains(string(out), want) {
			t.Errorf("%q is not in:\n%s", want, out)
		}
	}
}
