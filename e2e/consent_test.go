package e2e_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/e2e/rig"
)

// exchanging is a session of a sandboxed command that keeps putting one file into the place of another, until there is a file "stop".
func exchanging(t *testing.T, one, other string) string {
	t.Helper()
	python, err := exec.LookPath("python3")
	if err != nil {
		return fmt.Sprintf("while ! [ -e stop ]; do mv -f %[1]s x; mv -f %[2]s %[1]s; mv -f %[1]s %[2]s; mv -f x %[1]s; done", one, other)
	}
	return fmt.Sprintf(`%s -c "
import ctypes, os
c = ctypes.CDLL(None)
while not os.path.exists('stop'):
    c.renameat2(-100, b'%s', -100, b'%s', 2)
"`, python, one, other)
}

// session is the step of a model that starts a session, and calls are steps that each run one command.
func session(cmd string, calls int, each string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "[[step]]\ndo = [{ call = \"exec_command\", id = \"s\", args = { cmd = '''%s''', login = false, yield_time_ms = 300 } }]\n", cmd)
	for i := range calls {
		fmt.Fprintf(&b, "[[step]]\ndo = [{ call = \"exec_command\", id = \"c%d\", args = { cmd = '''echo %d; %s''', login = false } }]\n", i, i, each)
	}
	b.WriteString("[[step]]\ndo = [{ call = \"exec_command\", id = \"end\", args = { cmd = \"touch stop\", login = false } }]\n[[step]]\ntimes = -1\ndo = [{ text = \"done\" }]\n")
	return b.String()
}

// The script of an agreed hook that a running command keeps exchanging never runs as anything but what was agreed to.
func TestExchangedHookScript(t *testing.T) {
	t.Parallel()
	r := rig.New(t, session(exchanging(t, "hooks/guard.sh", "evil.sh"), 48, "true"))
	out := t.TempDir()
	for name, text := range map[string]string{"hooks/guard.sh": "echo good", "evil.sh": "echo evil"} {
		r.Write(name, fmt.Sprintf("#!/bin/sh\ncat >/dev/null\n%s >> '%s/ran'\n", text, out))
		if err := os.Chmod(filepath.Join(r.Dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	hookFile(t, r, map[string][]hookGroup{"PreToolUse": on("Bash", "hooks/guard.sh")})
	r.OK("exec", "-c", "approval.policy=never", "-c", "sandbox.mode=workspace-write", "go")
	b, _ := os.ReadFile(filepath.Join(out, "ran"))
	good, evil := strings.Count(string(b), "good"), strings.Count(string(b), "evil")
	t.Logf("%d runs of the agreed script, %d of another", good, evil)
	if evil > 0 || good < 48 {
		t.Errorf("%d runs of the agreed script, %d of another", good, evil)
	}
}
