package codemode_test

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/gantry-agent/gantry/sdk/codemode"
	"github.com/gantry-agent/gantry/sdk/codemode/frame"
)

// waitUntilLocked waits until the process has given up what a script must not have.
func waitUntilLocked(t testing.TB, p *codemode.Process) {
	t.Helper()
	if runtime.GOOS != "linux" {
		return
	}
	for end := time.Now().Add(time.Minute); time.Now().Before(end); <-time.After(time.Millisecond) {
		status, err := os.ReadFile(filepath.Join("/proc", fmt.Sprint(p.PID()), "status"))
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(status), "\nSeccomp:\t2\n") {
			return
		}
	}
	t.Fatal("the process does not lock itself before it has a script")
}

// A process that waits for a script is locked, runs one, and ends with its owner.
func TestPrepare(t *testing.T) {
	t.Parallel()
	script := codemode.Script{Code: "await tools.echo(42)", Namespaces: tools}
	p := codemode.Prepare([]string{binary}, codemode.Limits{})
	waitUntilLocked(t, p)
	if !p.Ready() {
		t.Error("not ready")
	}
	if d := p.Run(t.Context(), script, &recorder{}).Wait(); string(d.Value) != "42" {
		t.Errorf("%+v", d)
	}
	if p.Ready() {
		t.Error("ready after its script")
	}
	p.End() // again

	p = codemode.Prepare([]string{binary}, codemode.Limits{})
	p.CloseInput()
	<-p.Gone()
	if p.Ready() {
		t.Error("ready without an owner")
	}
	if d := p.Run(t.Context(), script, &recorder{}).Wait(); d.Error == nil || d.Error.Cause != frame.Crashed {
		t.Errorf("in a process that is gone: %+v", d)
	}

	p = codemode.Prepare([]string{binary}, codemode.Limits{})
	p.End()
	if p.Ready() {
		t.Error("ready after its end")
	}
	p = codemode.Prepare([]string{filepath.Join(t.TempDir(), "none")}, codemode.Limits{})
	if p.Ready() {
		t.Error("a program that does not exist is ready")
	}
	p.End()
}

// The limits of a prepared process are those of its script.
func TestPreparedLimits(t *testing.T) {
	t.Parallel()
	p := codemode.Prepare([]string{binary}, codemode.Limits{CPU: 100 * time.Millisecond})
	d := p.Run(t.Context(), codemode.Script{Code: "while (true) {}", Limits: codemode.Limits{CPU: time.Hour}}, &recorder{}).Wait()
	if d.Error == nil || d.Error.Cause != frame.Timeout || !strings.Contains(d.Error.Message, "100ms") {
		t.Errorf("%+v", d.Error)
	}
}
