package e2e_test

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gantry-agent/gantry/e2e/rig"
	"github.com/gantry-agent/gantry/sdk/llm"
)

// fragile makes a rig with a model whose provider hangs in its start until a condition (of the shell) holds.
func fragile(t *testing.T, condition string) *rig.Rig {
	t.Helper()
	if runtime.GOOS == "linux" && os.Geteuid() != 0 {
		t.Skip("the test can't tell whose process it is: nobody but root looks into a provider's")
	}
	r := rig.New(t, say)
	path := r.Program("fragile", fmt.Sprintf("#!/bin/sh\ncd %q\n%s || exec sleep 600\nexec %q \"$@\"\n",
		filepath.Dir(r.Log), condition, filepath.Join(r.Bin, "gantry-provider-scripted")))
	r.Pin(path)
	r.Config(fmt.Sprintf("provider \"fragile\" {\n  source = %q\n  script = %q\n  log = %q\n}\nmodel \"fragile\" {\n  provider = \"fragile\"\n  name = \"scripted\"\n}\n",
		path, filepath.Join(r.Home, "script.toml"), r.Log))
	return r
}

// killStarts kills what hangs in its start until the run has ended.
func killStarts(t *testing.T, r *rig.Rig, run *rig.Run) rig.Result {
	t.Helper()
	done := make(chan rig.Result, 1)
	go func() { done <- run.Wait() }() // owned by the test: received below
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case res := <-done:
			return res
		case <-tick.C:
			if pids := rig.Processes(t, r.Home, "sleep\x00600"); len(pids) > 0 {
				for _, pid := range pids {
					_ = syscall.Kill(pid, syscall.SIGKILL) // it may be gone
				}
			}
		}
	}
}

// A provider that is killed while it starts is started once more, and nobody notices.
func TestProviderKilledWhileItStarts(t *testing.T) {
	t.Parallel()
	r := fragile(t, "! mkdir once 2>/dev/null")
	res := killStarts(t, r, r.Start("exec", "--model", "fragile", "the task"))
	if res.Code != 0 || strings.Contains(res.Stderr, "killed") {
		t.Errorf("exit %d:\n%s", res.Code, res.Stderr)
	}
	if !exists(filepath.Dir(r.Log), "once") {
		t.Error("it never hung")
	}
	r.NothingLeft()
}

// Where that does not help either, the user reads what happened, where it is configured and what to do, and the thread goes
// on as soon as the cause is gone.
func TestProviderThatIsAlwaysKilled(t *testing.T) {
	t.Parallel()
	r := fragile(t, "[ -e healthy ]")
	res := killStarts(t, r, r.Start("exec", "--model", "fragile", "the task"))
	if res.Code != 1 {
		t.Errorf("exit %d, want 1", res.Code)
	}
	for _, want := range []string{
		"Error: ", "gantry.hcl:", `plugin "fragile" did not start: it was killed while it was starting`, "and again", "Next: free up memory",
	} {
		if !strings.Contains(res.Stderr, want) {
			t.Errorf("the user does not read %q:\n%s", want, res.Stderr)
		}
	}
	for _, not := range []string{"handshake", "EOF", "rpc error", "internal"} {
		if strings.Contains(res.Stderr, not) {
			t.Errorf("the user reads %q:\n%s", not, res.Stderr)
		}
	}
	r.Write(filepath.Join(filepath.Dir(r.Log), "healthy"), "")
	r.OK("resume", "--last", "go on")
	if texts := strings.Join(r.Last().Texts(llm.RoleUser), "\n"); !strings.Contains(texts, "the task") {
		t.Errorf("the model reads %q", texts)
	}
	r.NothingLeft()
}
