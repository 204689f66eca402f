package e2e_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/e2e/rig"
)

// Commands that nobody ends end with their host, whatever they do against it, and so does all that they have started.
func TestCommandsThatDoNotWantToEnd(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ name, cmd string }{
		{"ignores being asked", `trap "" TERM HUP INT; touch ready; while :; do sleep 600; done`},
		{"a daemon", `(setsid sh -c 'trap "" TERM HUP; touch ready; sleep 600; :' >/dev/null 2>&1 &); sleep 600`},
		{"a daemon whose parent has gone", `setsid sh -c 'sh -c "touch ready; sleep 600; :" & exit 0' >/dev/null 2>&1; sleep 600`},
		{"stopped", `sh -c 'touch ready; kill -STOP $$'; sleep 600`},
		{"many", `i=0; while [ $i -lt 200 ]; do sleep 600 & i=$((i+1)); done; touch ready; wait`},
		{"writes for ever", `touch ready; yes`},
	} {
		for _, tty := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, terminal %v", tc.name, tty), func(t *testing.T) {
				t.Parallel()
				r := rig.New(t, fmt.Sprintf(`
[[step]]
do = [{ call = "exec_command", id = "c1", args = { cmd = %q, login = false, yield_time_ms = 250, tty = %v } }]
[[step]]
do = [{ call = "exec_command", id = "w", args = { cmd = "while [ ! -e ready ]; do sleep 0.01; done", login = false, yield_time_ms = 30000 } }]
[[step]]
do = [{ text = "done" }]
`, tc.cmd, tty))
				r.OK("exec", "go")
				out := r.Last().Outputs()
				if !strings.Contains(out["c1"], "Process running with session ID") || !strings.Contains(out["w"], "Process exited with code 0") {
					t.Errorf("the command: %q; the wait: %q", out["c1"], out["w"])
				}
				r.NothingLeft()
			})
		}
	}
}

// The 65th session costs the one that was not used for longest, with all that it has started.
func TestTooManySessions(t *testing.T) {
	t.Parallel()
	const more = 6
	var calls []string
	for i := range 64 + more {
		calls = append(calls, fmt.Sprintf(`  { call = "exec_command", id = "c%d", args = { cmd = "sleep 600 & echo $! > pid-%[1]d; wait", login = false, yield_time_ms = 250 } },`, i))
	}
	r := rig.New(t, fmt.Sprintf(`
[[step]]
do = [
%s
]
[[step]]
do = [{ call = "exec_command", id = "one", args = { cmd = "true", login = false } }]
[[step]]
do = [{ call = "exec_command", id = "count", args = { cmd = "n=0; for f in pid-*; do kill -0 $(cat $f) 2>/dev/null && n=$((n+1)); done; echo alive $n", login = false } }]
[[step]]
do = [{ text = "done" }]
`, strings.Join(calls, "\n")))
	r.OK("exec", "go")
	out := r.Last().Outputs()
	running := regexp.MustCompile(`Process running with session ID \d+`)
	numbers := map[string]bool{}
	for i := range 64 + more {
		// One that went while it was still waited for is reported as ended: asked to first, then killed.
		if got := out[fmt.Sprint("c", i)]; running.MatchString(got) {
			numbers[running.FindString(got)] = true
		} else if !strings.Contains(got, "Process exited with code 143\n") && !strings.Contains(got, "Process exited with code 137\n") {
			t.Errorf("command %d: %q", i, got)
		}
	}
	// A command is a session, too, while it runs: the one before has cost one more.
	if !strings.Contains(out["count"], "\nalive 63\n") || len(numbers) < 64 {
		t.Errorf("%d numbers, %q", len(numbers), out["count"])
	}
	r.NothingLeft()
}

// How a command ended is told as it was: by itself, by a signal of its own or another's.
func TestHowCommandsEnd(t *testing.T) {
	t.Parallel()
	var calls strings.Builder
	ends := map[string]struct {
		cmd  string
		code int
	}{
		"exit": {"exit 3", 3}, "kill": {"kill -KILL $$", 137}, "term": {"kill -TERM $$", 143}, "segv": {"kill -SEGV $$", 139},
		"child": {"sh -c 'kill -ABRT $$'", 134}, "none": {"no-such-program-here", 127}, "big": {"exit 259", 3},
	}
	for id, e := range ends {
		for _, tty := range []bool{false, true} {
			fmt.Fprintf(&calls, "[[step]]\ndo = [{ call = \"exec_command\", id = \"%s-%v\", args = { cmd = %q, login = false, tty = %[2]v } }]\n", id, tty, e.cmd)
		}
	}
	r := rig.New(t, calls.String()+"[[step]]\ndo = [{ text = \"done\" }]\n")
	r.OK("exec", "go")
	out := r.Last().Outputs()
	for id, e := range ends {
		for _, tty := range []bool{false, true} {
			if got := out[fmt.Sprintf("%s-%v", id, tty)]; !strings.Contains(got, fmt.Sprintf("\nProcess exited with code %d\n", e.code)) {
				t.Errorf("%s, terminal %v: %q, want code %d", e.cmd, tty, got, e.code)
			}
		}
	}
}

// A flood is counted, not kept.
func TestFlood(t *testing.T) {
	t.Parallel()
	r := rig.New(t, `
[[step]]
do = [{ call = "exec_command", id = "c1", args = { cmd = "head -c 67108864 /dev/zero | tr '\\0' x; echo; echo the end", login = false, yield_time_ms = 30000 } }]
[[step]]
do = [{ text = "done" }]
`)
	r.OK("exec", "go")
	out := r.Last().Outputs()["c1"]
	const tokens = "(original token count: 16777219)\n... 66060297 bytes omitted ...\n"
	if !strings.Contains(out, tokens) || !strings.HasSuffix(out, "x\nthe end\n") || len(out) > 50_000 {
		t.Errorf("%d bytes: %.300q … %q", len(out), out, out[max(0, len(out)-50):])
	}
	r.NothingLeft()
}

// A profile is read once for commands in a sandbox, too, and what it sets does not undo what makes output plain.
func TestLoginInTheSandbox(t *testing.T) {
	t.Parallel()
	for _, shell := range []string{"/bin/bash", "/bin/zsh"} {
		t.Run(filepath.Base(shell), func(t *testing.T) {
			t.Parallel()
			loginInTheSandbox(t, shell)
		})
	}
}

func loginInTheSandbox(t *testing.T, shell string) {
	if _, err := os.Stat(shell); err != nil {
		t.Skipf("no %s here", shell)
	}
	script := "[[step]]\ntimes = 3\ndo = [{ call = \"exec_command\", args = { cmd = \"greet; echo $PAGER $EDITOR\" } }]\n[[step]]\ntimes = -1\ndo = [{ text = \"done\" }]\n"
	r := boxed(t, script)
	home := filepath.Join(filepath.Dir(r.Dir), "home")
	if err := os.Mkdir(home, 0o755); err != nil {
		t.Fatal(err)
	}
	profile := "export PAGER=less EDITOR=vi\ngreet() { echo hello from the profile; }\n"
	for _, name := range []string{".bash_profile", ".zshrc"} {
		if err := os.WriteFile(filepath.Join(home, name), []byte(profile), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	r.Env = append(r.Env, "HOME="+home)
	r.Write("modes.hcl", "approval {\n  policy = \"never\"\n}\nsandbox {\n  mode = \"workspace-write\"\n}\n")
	r.OK("exec", "--config", "modes.hcl", "-c", `plugin.shell.config.shell="`+shell+`"`, "go")
	for id, out := range r.Last().Outputs() {
		if !strings.HasSuffix(out, "Output:\nhello from the profile\ncat vi\n") {
			t.Errorf("%s: %q", id, out)
		}
	}
	r.NothingLeft()
}

// The user's profile is read once for all commands of a thread.
func TestProfileIsReadOnce(t *testing.T) {
	t.Parallel()
	const shell = "/bin/bash"
	if _, err := os.Stat(shell); err != nil {
		t.Skipf("no %s here", shell)
	}
	r := rig.New(t, "[[step]]\ntimes = 3\ndo = [{ call = \"exec_command\", args = { cmd = \"echo $EDITOR\" } }]\n[[step]]\ndo = [{ text = \"done\" }]\n")
	home := t.TempDir()
	if err := os.WriteFile(filepath.Join(home, ".bash_profile"), []byte("export EDITOR=vi\necho >> ~/reads\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	r.Env = append(r.Env, "HOME="+home)
	r.OK("exec", "-c", `plugin.shell.config.shell="`+shell+`"`, "go")
	outputs := r.Last().Outputs()
	for id, out := range outputs {
		if !strings.HasSuffix(out, "Output:\nvi\n") {
			t.Errorf("%s: %q", id, out)
		}
	}
	reads, err := os.ReadFile(filepath.Join(home, "reads"))
	if err != nil || string(reads) != "\n" || len(outputs) != 3 {
		t.Errorf("%d commands, the profile was read %d times, %v", len(outputs), len(reads), err)
	}
}

// What a login shell takes stands before the command, and is no other one: nobody is asked about it, where rules forbid something
// neither. What was approved to leave the sandbox runs as it was approved.
func TestLoginShellsAndRules(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"workspace-write", "full-access"} {
		for _, shell := range []string{"/bin/bash", "/bin/zsh", "/bin/sh"} {
			t.Run(mode+shell, func(t *testing.T) {
				t.Parallel()
				if _, err := os.Stat(shell); err != nil {
					t.Skipf("no %s here", shell)
				}
				var script strings.Builder
				for _, args := range []string{`cmd = "echo $FROM"`, `cmd = "echo $FROM"`, `cmd = "echo $FROM", sandbox_permissions = "require_escalated", justification = "it must"`} {
					fmt.Fprintf(&script, "[[step]]\ndo = [{ call = \"exec_command\", args = { %s } }]\n", args)
				}
				r := boxed(t, script.String()+"[[step]]\ntimes = -1\ndo = [{ text = \"done\" }]\n")
				home := filepath.Join(filepath.Dir(r.Dir), "home")
				if err := os.Mkdir(home, 0o755); err != nil {
					t.Fatal(err)
				}
				for _, name := range []string{".profile", ".zprofile"} {
					if err := os.WriteFile(filepath.Join(home, name), []byte("export FROM=the-profile\n"), 0o600); err != nil {
						t.Fatal(err)
					}
				}
				r.Env = append(r.Env, "HOME="+home)
				r.Write(filepath.Join(r.Home, "rules", "default.rules"), `prefix_rule(pattern=["factor"], decision="forbidden", justification="no")`+"\n")
				hookFile(t, r, map[string][]hookGroup{"PermissionRequest": on("", `cat >>asked; echo '{"hookSpecificOutput":{"decision":{"behavior":"allow"}}}'`)})
				r.Write("modes.hcl", "approval {\n  policy = \"on-request\"\n}\nsandbox {\n  mode = \""+mode+"\"\n}\n")
				r.OK("exec", "--config", "modes.hcl", "-c", `plugin.shell.config.shell="`+shell+`"`, "go")
				outputs := r.Last().Outputs()
				for id, out := range outputs {
					if !strings.HasSuffix(out, "Output:\nthe-profile\n") {
						t.Errorf("%s: %q", id, out)
					}
				}
				if n := strings.Count(r.Read("asked"), `"hook_event_name"`); n > 1 || len(outputs) != 3 {
					t.Errorf("%d outputs, asked %d times:\n%s", len(outputs), n, r.Read("asked"))
				}
			})
		}
	}
}
