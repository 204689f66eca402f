package e2e_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/e2e/rig"
	"github.com/gantry-agent/gantry/sdk/llm"
)

// A terminal session costs nothing when its plugin is killed or replaced: what is typed reaches it, what it writes meanwhile
// is returned, each line once, and how one ended is known that ended while nobody looked.
func TestSessionsOutliveTheirPlugin(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"full-access", "workspace-write"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			input := func(id, session, chars string, yield int) string {
				return fmt.Sprintf(`{ call = "write_stdin", id = %q, raw = '{"session_id": ${%s}, "chars": "%s", "yield_time_ms": %d}' },`, id, session, chars, yield)
			}
			r := rig.New(t, `
[[step]]
do = [
  { call = "exec_command", id = "t1", args = { cmd = "stty -echo; touch asked; while read l; do echo got $l; touch got-$l; done; echo bye", tty = true, yield_time_ms = 250 } },
  { call = "exec_command", id = "p1", args = { cmd = "echo up; while [ ! -e killed ]; do sleep 0.01; done; echo meanwhile; touch wrote; while [ ! -e end ]; do sleep 0.01; done; echo end; exit 7", yield_time_ms = 250 } },
]
[[step]]
capture = [{ call = "t1", pattern = 'session ID (?P<t>\d+)' }, { call = "p1", pattern = 'session ID (?P<p>\d+)' }]
do = [{ call = "wait_for", id = "w1", args = { file = "one" } }]
[[step]]
do = [`+input("t2", "t", `hello\n`, 250)+`{ call = "exec_command", id = "w2", args = { cmd = "while [ ! -e got-hello ]; do sleep 0.01; done" } }]
[[step]]
do = [{ call = "wait_for", id = "w3", args = { file = "two" } }]
[[step]]
do = [`+input("t3", "t", `again\n`, 250)+input("p3", "p", ``, 30000)+`]
[[step]]
do = [`+input("t4", "t", `\u0004`, 30000)+input("p4", "p", ``, 250)+`]
[[step]]
do = [{ call = "wait_for", id = "w5", args = { file = "three" } }]
[[step]]
do = [{ text = "done" }]
`)
			addOdd(t, r, "waits", "waits", "")
			run := r.Start("exec", "-c", fmt.Sprintf("sandbox.mode=%q", mode), "--events", "go")
			shell := func() []int { return rig.Processes(t, r.Home, "gantry-tool-shell") }
			r.Until("the first barrier", func() bool { return exists(r.Dir, "one.waiting") && exists(r.Dir, "asked") })
			old := shell()
			rig.Kill(t, old...)
			r.Write("killed", "")
			r.Until("the command wrote without a reader", func() bool { return exists(r.Dir, "wrote") })
			// A call that meets a process of which nobody knows yet that it is dead would fail, as told to the model.
			r.Until("the plugin is back", func() bool { now := shell(); return len(now) == 1 && len(old) == 1 && now[0] != old[0] })
			r.Write("one", "")
			r.Until("the second barrier", func() bool { return exists(r.Dir, "two.waiting") })
			if now := shell(); len(now) != 1 || len(old) != 1 || now[0] == old[0] {
				t.Errorf("the plugin runs as %v, before as %v", now, old)
			}
			if res := r.OK("plugin", "reload", "shell"); !strings.Contains(res.Stdout, "reloaded shell") {
				t.Errorf("reload says:\n%s%s", res.Stdout, res.Stderr)
			}
			r.Write("end", "")
			r.Write("two", "")
			run.SeesTimes(`"session.exited"`, 2)
			r.Write("three", "")
			res := run.Wait()
			if res.Code != 0 {
				t.Fatalf("exit %d:\n%s", res.Code, res.Stderr)
			}
			out := r.Last().Outputs()
			if all := out["t1"] + out["t2"] + out["t3"] + out["t4"]; strings.Count(all, "got hello\r\n") != 1 ||
				strings.Count(all, "got again\r\n") != 1 || strings.Count(all, "bye\r\n") != 1 || !strings.Contains(out["t4"], "exited with code 0") {
				t.Errorf("the terminal:\n%s", all)
			}
			if all := out["p1"] + out["p3"]; strings.Count(all, "up\n") != 1 || strings.Count(all, "meanwhile\n") != 1 ||
				strings.Count(all, "end\n") != 1 || !strings.Contains(out["p3"], "exited with code 7") {
				t.Errorf("the command without a terminal:\n%s", all)
			}
			if want := "Unknown process id"; !strings.Contains(out["p4"], want) {
				t.Errorf("after its end: %q, want %q", out["p4"], want)
			}
			// Whoever watches sees one life of each, and all of its output.
			opened, ended := map[string]int{}, map[string]int{}
			shown := map[string]string{}
			for _, e := range rig.Events(t, res.Stdout) {
				var b struct{ Session, Call, How, Text string }
				if strings.HasPrefix(e.Kind, "session.") {
					e.Into(t, &b)
				}
				switch e.Kind {
				case "session.opened":
					opened[b.Call]++
				case "session.exited":
					ended[b.How]++
				case "session.output":
					shown[b.Session] += b.Text
				}
			}
			if opened["t1"] != 1 || opened["p1"] != 1 || len(opened) != 2 || ended["exited"] != 2 || len(ended) != 1 {
				t.Errorf("opened %v, ended %v", opened, ended)
			}
			all := fmt.Sprint(shown)
			for _, want := range []string{"got hello", "got again", "bye", "meanwhile", "end\n"} {
				if strings.Count(all, want) != 1 {
					t.Errorf("%q is shown %d times:\n%s", want, strings.Count(all, want), all)
				}
			}
			r.NothingLeft()
		})
	}
}

// A command whose call got no answer because its plugin was killed is told to the model, which goes on with it.
func TestCommandOfAKilledCallIsFound(t *testing.T) {
	t.Parallel()
	r := rig.New(t, `
[[step]]
do = [{ call = "exec_command", id = "c1", args = { cmd = "echo up; touch started; while [ ! -e go ]; do sleep 0.01; done; echo found; exit 3", yield_time_ms = 30000 } }]
[[step]]
do = [{ call = "exec_command", id = "c2", args = { cmd = "touch go" } }]
[[step]]
do = [{ text = "done" }]
`)
	run := r.Start("exec", "--events", "go")
	r.Until("the command runs", func() bool { return exists(r.Dir, "started") })
	rig.Kill(t, rig.Processes(t, r.Home, "gantry-tool-shell")...)
	res := run.Wait()
	if res.Code != 0 {
		t.Fatalf("exit %d:\n%s", res.Code, res.Stderr)
	}
	out := r.Last().Outputs()
	if !strings.Contains(out["c1"], "crashed during the call") {
		t.Errorf("the killed call: %q", out["c1"])
	}
	if texts := strings.Join(r.Last().Texts(llm.RoleUser), "\n"); !regexp.MustCompile(`(?m)^Session ID \d+: echo up; touch started;`).MatchString(texts) {
		t.Errorf("the model is not told of the command:\n%s", texts)
	}
	r.NothingLeft()
}
