package e2e_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/e2e/rig"
)

// Programs that are no plugins. Whatever they do, the user reads what happened, where it is configured and what to do; the
// model works with the other tools; nothing stays.
func TestHostilePrograms(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name    string
		program string
		mode    os.FileMode
		block   string
		words   []string
	}{
		{
			name: "garbage instead of the handshake", program: "#!/bin/sh\necho 'listening on :8080'\nexec sleep 600\n", block: "  start_timeout = \"500ms\"\n",
			words: []string{`"listening on :8080"`, "gantry plugin inspect odd"},
		},
		{
			name: "garbage, then the end", program: "#!/bin/sh\necho 'listening on :8080'\n",
			words: []string{`"listening on :8080"`, "tool.Main"},
		},
		{
			name: "hangs at its start", program: "#!/bin/sh\nexec sleep 600\n", block: "  start_timeout = \"200ms\"\n",
			words: []string{"200ms", "start_timeout"},
		},
		{
			name: "hangs and ignores signals", program: "#!/bin/sh\ntrap '' TERM INT HUP\nwhile :; do sleep 600; done\n", block: "  start_timeout = \"200ms\"\n",
			words: []string{"200ms"},
		},
		{
			name: "ends without a word on stdout", program: "#!/bin/sh\necho 'no licence' >&2\nexit 3\n",
			words: []string{"without a handshake", "status 3", "gantry plugin inspect odd"},
		},
		{name: "prints without end", program: "#!/bin/sh\nexec yes 'all work and no play'\n", words: []string{"all work and no play"}},
		{
			name: "speaks another version", program: "#!/bin/sh\necho '1|99|unix|/nowhere|grpc'\nexec sleep 600\n",
			words: []string{"99", "version"},
		},
		{
			name: "names a socket that is not its own", program: "#!/bin/sh\necho '1|1|unix|/var/run/docker.sock|grpc'\nexec sleep 600\n",
			words: []string{"/var/run/docker.sock"},
		},
		{
			name: "leaves others with its pipes", program: "#!/bin/sh\nsleep 600 &\nsetsid sleep 600 &\necho junk\n",
			words: []string{`"junk"`},
		},
		{name: "no program at all", program: "just a text\n", words: []string{"odd"}},
		{name: "may not be executed", program: "#!/bin/sh\n", mode: 0o644, words: []string{"execut"}},
		{name: "a program that needs another", program: "#!/nonexistent/interpreter\n", words: []string{"/nonexistent/interpreter"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			r := rig.New(t, `
[[step]]
do = [{ call = "exec_command", id = "c1", args = { cmd = "echo the others work", login = false } }]
[[step]]
do = [{ text = "done" }]
`)
			path := r.Program("odd", tc.program)
			if tc.mode != 0 {
				if err := os.Chmod(path, tc.mode); err != nil {
					t.Fatal(err)
				}
			}
			r.Pin(path)
			r.Config(fmt.Sprintf("plugin \"odd\" {\n  source = %q\n%s}\n", path, tc.block))
			res := r.OK("exec", "go")
			for _, w := range append(tc.words, "gantry.hcl:", `plugin "odd"`) {
				if !strings.Contains(res.Stderr, w) {
					t.Errorf("the user does not read %q:\n%s", w, res.Stderr)
				}
			}
			if n := strings.Count(res.Stderr, `plugin "odd"`); n > 2 {
				t.Errorf("the user reads of it %d times:\n%s", n, res.Stderr)
			}
			if out := r.Last().Outputs()["c1"]; !strings.Contains(out, "the others work") {
				t.Errorf("the other tools: %q", out)
			}
			r.NothingLeft()
		})
	}
}

// Calls that go wrong: each costs itself, in words that the model can act on, and nothing of the host.
func TestHostileCalls(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, call, args string
		words            []string
	}{
		{name: "crashes", call: "odd_crash", words: []string{`plugin "odd" crashed during the call`, "unknown"}},
		{name: "panics", call: "odd_panic", words: []string{`plugin "odd" crashed during the call`}},
		{name: "answers after its deadline", call: "odd_late", args: `args = { file = "never" }`, words: []string{"deadline"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			args := tc.args
			if args != "" {
				args = ", " + args
			}
			bad := func(id string) string {
				return fmt.Sprintf("[[step]]\ndo = [{ call = %q, id = %q%s }]\n", tc.call, id, args)
			}
			fine := func(id string) string { return fmt.Sprintf("[[step]]\ndo = [{ call = \"odd_fine\", id = %q }]\n", id) }
			wait := func(id string) string {
				return fmt.Sprintf("[[step]]\ndo = [{ call = \"wait_for\", id = %q, args = { file = \"go-%[1]s\" } }]\n", id)
			}
			// The first one warms everything up; what is open must be the same after two more.
			r := rig.New(t, fine("f0")+bad("b1")+fine("f1")+wait("w1")+bad("b2")+fine("f2")+wait("w2")+"[[step]]\ndo = [{ text = \"done\" }]\n")
			addOdd(t, r, "waits", "waits", "")
			addOdd(t, r, "odd", tc.name, "")
			run := r.Start("exec", "go")
			r.Until("the first half is over", func() bool { return exists(r.Dir, "go-w1.waiting") })
			before := count(rig.Descriptors(t, run.Cmd.Process.Pid))
			below := plugins(t, r)
			r.Write("go-w1", "")
			r.Until("the second half is over", func() bool { return exists(r.Dir, "go-w2.waiting") })
			after := count(rig.Descriptors(t, run.Cmd.Process.Pid))
			if n := plugins(t, r); n != below {
				t.Errorf("%d processes of gantry and its plugins, %d before", n, below)
			}
			for what, n := range after {
				if n > before[what] {
					t.Errorf("%d descriptors of %s, %d before", n, what, before[what])
				}
			}
			r.Write("go-w2", "")
			if res := run.Wait(); res.Code != 0 {
				t.Fatalf("exit %d:\n%s", res.Code, res.Stderr)
			}
			out := r.Last().Outputs()
			for _, id := range []string{"b1", "b2"} {
				for _, w := range tc.words {
					if !strings.Contains(out[id], w) {
						t.Errorf("the model reads of %s: %q, want something with %q", id, out[id], w)
					}
				}
			}
			for _, id := range []string{"f0", "f1", "f2"} {
				if want := "hello from " + tc.name; out[id] != want {
					t.Errorf("%s: %q, want %q", id, out[id], want)
				}
			}
			r.NothingLeft()
		})
	}
}

// plugins counts the processes of gantry and its plugins.
func plugins(t *testing.T, r *rig.Rig) int {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return len(rig.Processes(t, r.Home, "gantry")) + len(rig.Processes(t, r.Home, self))
}

// count groups descriptors by what they are: numbers of sockets and pipes say nothing.
func count(descriptors []string) map[string]int {
	out := map[string]int{}
	for _, d := range descriptors {
		kind, _, numbered := strings.Cut(d, ":[")
		if !numbered {
			kind = d
		}
		out[kind]++
	}
	return out
}

// A plugin that crashes again and again is left alone, and says so.
func TestPluginThatCrashesTooOften(t *testing.T) {
	t.Parallel()
	var script strings.Builder
	for i := range 4 {
		fmt.Fprintf(&script, "[[step]]\ndo = [{ call = \"odd_crash\", id = \"c%d\" }]\n", i+1)
	}
	script.WriteString("[[step]]\ndo = [{ call = \"exec_command\", id = \"other\", args = { cmd = \"echo works\", login = false } }]\n[[step]]\ndo = [{ text = \"done\" }]\n")
	r := rig.New(t, script.String())
	addOdd(t, r, "odd", "crashes", "")
	r.OK("exec", "go")
	out := r.Last().Outputs()
	for _, id := range []string{"c1", "c2", "c3"} {
		if !strings.Contains(out[id], "crashed during the call") {
			t.Errorf("%s: %q", id, out[id])
		}
	}
	for _, want := range []string{"it failed 3 times", "is no longer restarted", "It had no effect", "gantry plugin reload odd"} {
		if !strings.Contains(out["c4"], want) {
			t.Errorf("the call after the third crash: %q, want something with %q", out["c4"], want)
		}
	}
	if !strings.Contains(out["other"], "works") {
		t.Errorf("the other tools: %q", out["other"])
	}
	r.NothingLeft()
}

// A plugin that changes what it says about itself without being locked anew.
func TestPluginWhoseManifestChanged(t *testing.T) {
	t.Parallel()
	r := rig.New(t, "[[step]]\ntimes = -1\ndo = [{ text = \"done\" }]\n")
	// A script whose content stays while what it runs does not.
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	path := r.Program("odd", fmt.Sprintf("#!/bin/sh\n%s=$(cat %q) exec %q \"$@\"\n", oddMode, filepath.Join(r.Home, "mode"), self))
	r.Write(filepath.Join(r.Home, "mode"), "fast")
	r.Config(fmt.Sprintf("plugin \"odd\" {\n  source = %q\n  permissions {\n    read = [%q]\n  }\n}\n", path, self))
	r.OK("plugin", "lock", "--yes", "odd")
	r.OK("exec", "go")
	if !slices.Contains(r.Last().Offered(), "odd_fine") {
		t.Fatalf("the model is offered %v", r.Last().Offered())
	}
	r.Write(filepath.Join(r.Home, "mode"), "waits") // is another plugin altogether
	if err := os.RemoveAll(filepath.Join(r.Home, "cache")); err != nil {
		t.Fatal(err)
	}
	res := r.OK("exec", "go")
	if !strings.Contains(res.Stderr, "gantry.hcl:") || !strings.Contains(res.Stderr, "gantry plugin lock odd") {
		t.Errorf("the user reads:\n%s", res.Stderr)
	}
	if slices.Contains(r.Last().Offered(), "odd_fine") {
		t.Errorf("the model is offered %v", r.Last().Offered())
	}
	r.NothingLeft()
}

// A plugin that does not hear that its call is to stop holds nobody up: the turn ends, and the model is told of the call in the
// next one.
func TestPluginThatDoesNotStop(t *testing.T) {
	t.Parallel()
	r := rig.New(t, `
[[step]]
do = [{ call = "wait_for", id = "c1", args = { file = "never" } }]
[[step]]
do = [{ text = "second turn" }]
`)
	addOdd(t, r, "waits", "waits", "")
	run := r.Start("exec", "--events", "go")
	r.Until("the call runs", func() bool { return exists(r.Dir, "never.waiting") })
	run.Signal(os.Interrupt)
	res := run.Wait()
	var end struct{ Status string }
	for _, e := range rig.Events(t, res.Stdout) {
		if e.Kind == "turn.ended" {
			e.Into(t, &end)
		}
	}
	if end.Status != "interrupted" || res.Code != 1 {
		t.Errorf("exit %d, the turn ended %q:\n%s", res.Code, end.Status, res.Stderr)
	}
	r.OK("resume", "--last", "again")
	if out := r.Last().Outputs()["c1"]; !strings.HasPrefix(out, "aborted by user after ") {
		t.Errorf("the model reads of the call: %q", out)
	}
	r.NothingLeft()
}
