package e2e_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/e2e/rig"
)

// limited are limits that ordinary commands don't notice.
const limited = `
limits {
  memory    = "256MiB"
  pids      = 200
  cpu_time  = "30s"
  file_size = "64MiB"
}
`

// tooFar are commands that want too much, and what the model reads of each. Empty: no limit ends it.
var tooFar = []struct{ name, cmd, limit string }{
	{"forks", `for i in $(seq 1000); do sleep 1000 & done; wait`, "its limit on processes, which is 200."},
	{"bomb", `b() { b | b & }; b; sleep 1000`, "its limit on processes, which is 200."},
	{"sessions", `for i in $(seq 1000); do setsid sleep 1000 & done; wait`, "its limit on processes, which is 200."},
	{"memory", `head -c 2G /dev/zero | tail -c 1G >/dev/null`, "its limit on memory, which is 256MiB."},
	{"file", `head -c 200M /dev/zero >big`, "its limit on the size of a file, which is 64MiB."},
	{"tmp", `f=$(mktemp); trap 'rm $f' EXIT; head -c 200M /dev/zero >$f`, "its limit on the size of a file, which is 64MiB."},
	{"flood", `head -c 1G /dev/zero`, ""},
	{"daemon", `(setsid sh -c 'trap "" TERM HUP; (sleep 1000 &); sleep 1000' >/dev/null 2>&1 &); echo started`, ""},
	{"deaf", `trap '' TERM INT HUP QUIT; echo deaf; while :; do sleep 1; done`, ""},
}

// Whatever a command does, it is stopped within its limits, the model and the user are told why, the next call works, and at the
// end nothing is left.
func TestCommandsThatGoTooFar(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"workspace-write", "full-access"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			var script strings.Builder
			for _, c := range tooFar {
				yield := 30_000
				if c.name == "deaf" {
					yield = 250
				}
				fmt.Fprintf(&script, "[[step]]\ndo = [{ call = \"exec_command\", id = %q, args = { cmd = %q, login = false, yield_time_ms = %d } }]\n", c.name, c.cmd, yield)
				fmt.Fprintf(&script, "[[step]]\ndo = [{ call = \"exec_command\", id = \"after-%s\", args = { cmd = \"echo goes on\", login = false } }]\n", c.name)
			}
			script.WriteString("[[step]]\ndo = [{ text = \"done\" }]\n")
			r := boxed(t, script.String())
			r.Write("limits.hcl", limited+fmt.Sprintf("sandbox {\n  mode = %q\n}\n", mode))
			run := r.Start("exec", "--config", "limits.hcl", "--events", "go")
			host := run.Cmd.Process.Pid
			res := run.Wait()
			if res.Code != 0 {
				t.Fatalf("exit %d:\n%s\n%s", res.Code, res.Stdout, res.Stderr)
			}
			var notices []string
			for _, e := range rig.Events(t, res.Stdout) {
				if e.Kind == "notice" {
					var n struct{ Level, Text, Next string }
					e.Into(t, &n)
					notices = append(notices, n.Level+": "+n.Text+"; "+n.Next)
				}
			}
			said := strings.Join(notices, "\n")
			outputs := r.Last().Outputs()
			ended := 0
			for _, c := range tooFar {
				if out := outputs["after-"+c.name]; !strings.Contains(out, "goes on") {
					t.Errorf("after %s: %q", c.name, out)
				}
				out := outputs[c.name]
				if got := strings.Contains(out, "was ended because it reached"); got != (c.limit != "") || !strings.Contains(out, c.limit) {
					t.Errorf("%s: %q, want %q in it", c.name, out, c.limit)
				}
				if c.limit != "" {
					ended++
					if !strings.Contains(said, "warning: "+fmt.Sprintf("%q", c.cmd)+" was ended: it reached "+strings.TrimSuffix(c.limit, ".")) {
						t.Errorf("%s: nobody was told of it:\n%s", c.name, said)
					}
				}
			}
			if n := strings.Count(said, "if it needs more, raise limits."); n != ended {
				t.Errorf("%d notices, want %d:\n%s", n, ended, said)
			}
			if out := outputs["flood"]; !strings.Contains(out, "Original token count: 268435456\n") || len(out) > 1<<20 {
				t.Errorf("flood: %.300q", out)
			}
			if out := outputs["deaf"]; !strings.Contains(out, "running with session ID") {
				t.Errorf("deaf: %q", out)
			}
			r.NothingLeft()
			nothingOf(t, r, host)
		})
	}
}

// Of a call's output no more is shown than the limit says; what the model reads has both ends all the same.
func TestOutputThatIsShownIsLimited(t *testing.T) {
	t.Parallel()
	r := rig.New(t, `
[[step]]
do = [{ call = "exec_command", id = "c1", args = { cmd = "echo begins; head -c 2M /dev/zero | tr '\\0' x; echo; echo ends", login = false, yield_time_ms = 30000 } }]
[[step]]
do = [{ text = "done" }]
`)
	r.Write("limits.hcl", "limits {\n  output = \"100KiB\"\n}\n")
	shown := 0
	for _, e := range rig.Events(t, r.OK("exec", "--config", "limits.hcl", "--events", "go").Stdout) {
		if e.Kind == "item.delta" {
			var d struct{ Delta, Text string }
			if e.Into(t, &d); d.Delta == "output" {
				shown += len(d.Text)
			}
		}
	}
	if shown == 0 || shown > 100<<10 {
		t.Errorf("%d bytes are shown", shown)
	}
	if out := r.Last().Outputs()["c1"]; !strings.Contains(out, "begins") || !strings.Contains(out, "ends") {
		t.Errorf("the model reads %.200q", out)
	}
}

// groupsOf are the control groups that a host has made.
func groupsOf(host int) (all []string) {
	for _, depth := range []string{"*", "*/*", "*/*/*", "*/*/*/*"} {
		found, _ := filepath.Glob(filepath.Join("/sys/fs/cgroup", depth, fmt.Sprintf("gantry-%d-*", host)))
		all = append(all, found...)
	}
	return all
}

// nothingOf checks that a host which has ended left no control group, no mount and no temporary file.
func nothingOf(t *testing.T, r *rig.Rig, host int) {
	t.Helper()
	if left := groupsOf(host); len(left) > 0 {
		t.Errorf("control groups are left: %v", left)
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{r.Home, filepath.Dir(r.Dir)} {
		if strings.Contains(string(mounts), dir) {
			t.Errorf("something is mounted in %s", dir)
		}
	}
	if entries, _ := os.ReadDir(filepath.Join(r.Home, "tmp")); len(entries) > 0 {
		t.Errorf("temporary files are left: %v", entries)
	}
}

// A host that is killed takes its commands with it, and their control groups.
func TestAKilledHostLeavesNoGroups(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"workspace-write", "full-access"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			r := boxed(t, `
[[step]]
do = [{ call = "exec_command", id = "c1", args = { cmd = "trap '' TERM HUP; for i in 1 2 3; do setsid sleep 1000 & done; echo up >there; wait", login = false, yield_time_ms = 30000 } }]
[[step]]
do = [{ text = "done" }]
`)
			r.Write("limits.hcl", limited+fmt.Sprintf("sandbox {\n  mode = %q\n}\n", mode))
			run := r.Start("exec", "--config", "limits.hcl", "go")
			host := run.Cmd.Process.Pid
			r.Until("the command runs", func() bool {
				_, err := os.Stat(filepath.Join(r.Dir, "there"))
				return err == nil
			})
			tree := rig.Descendants(t, host)
			rig.Kill(t, host)
			run.Wait()
			r.Until("its tree has ended", func() bool { return len(rig.Alive(tree)) == 0 })
			r.Until("its groups are gone", func() bool { return len(groupsOf(host)) == 0 })
		})
	}
}
