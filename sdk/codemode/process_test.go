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
	if d := p.Run(t.Context(), script, &recorder{}).Wait(); string(d.Value) != "42" {
		t.Errorf("%+v", d)
	}
	<-p.Gone()
	p.End() // again

	p = codemode.Prepare([]string{binary}, codemode.Limits{})
	p.CloseInput()
	<-p.Gone()
	if d := p.Run(t.Context(), script, &recorder{}).Wait(); string(d.Value) != "42" {
		t.Errorf("in place of a process that is gone: %+v", d)
	}

	p = codemode.Prepare([]string{binary}, codemode.Limits{})
	p.End()
	<-p.Gone()
	p = codemode.Prepare([]string{filepath.Join(t.TempDir(), "none")}, codemode.Limits{})
	if d := p.Run(t.Context(), script, &recorder{}).Wait(); d.Error == nil || d.Error.Cause != frame.Crashed || !strings.Contains(d.Error.Message, "can't be started") {
		t.Errorf("a program that does not exist: %+v", d)
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
