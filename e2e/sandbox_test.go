package e2e_test

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/e2e/rig"
	"github.com/gantry-agent/gantry/sdk/llm"
)

// boxed is a rig whose commands can be confined: its folder is not in the machine's /tmp, which boxes don't see.
func boxed(t testing.TB, script string) *rig.Rig {
	t.Helper()
	r := rig.New(t, script)
	dir, err := os.MkdirTemp("/var/tmp", "gantry-e2e-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	r.Dir = filepath.Join(dir, "ws")
	for _, d := range []string{r.Dir, filepath.Join(dir, "out")} {
		if err := os.Mkdir(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return r
}

// What is asked and what happens under each mode and policy, when every question is answered with yes. Matches what
// codex 0.169 does, but that a command is seen to be stopped however late it says so.
func TestSandboxModesAndPolicies(t *testing.T) {
	t.Parallel()
	const ok, readOnly, forbidden, rejected, dangerous = "ok", "Read-only file system", "Operation not permitted", "reject command", "rm -f style commands are not permitted"
	type row struct {
		asks int
		want string
	}
	for _, tc := range []struct {
		mode, policy                                string
		look, inside, outside, net, esc, redir, rmf row
	}{
		{"read-only", "untrusted", row{1, ok}, row{1, ok}, row{1, ok}, row{1, ok}, row{1, ok}, row{1, ok}, row{1, ok}},
		{"read-only", "on-request", row{0, ok}, row{0, readOnly}, row{0, readOnly}, row{0, forbidden}, row{1, ok}, row{0, readOnly}, row{1, ok}},
		{"read-only", "never", row{0, ok}, row{0, readOnly}, row{0, readOnly}, row{0, forbidden}, row{0, rejected}, row{0, readOnly}, row{0, dangerous}},
		{"read-only", "granular", row{0, ok}, row{1, ok}, row{1, ok}, row{1, ok}, row{1, ok}, row{1, ok}, row{1, ok}},
		{"read-only", "granular, sandbox off", row{0, ok}, row{0, readOnly}, row{0, readOnly}, row{0, forbidden}, row{0, rejected}, row{0, readOnly}, row{1, ok}},
		{"workspace-write", "untrusted", row{1, ok}, row{1, ok}, row{1, ok}, row{1, ok}, row{1, ok}, row{1, ok}, row{1, ok}},
		{"workspace-write", "on-request", row{0, ok}, row{0, ok}, row{0, readOnly}, row{0, forbidden}, row{1, ok}, row{0, ok}, row{1, ok}},
		{"workspace-write", "never", row{0, ok}, row{0, ok}, row{0, readOnly}, row{0, forbidden}, row{0, rejected}, row{0, ok}, row{0, dangerous}},
		{"workspace-write", "granular", row{0, ok}, row{0, ok}, row{1, ok}, row{1, ok}, row{1, ok}, row{0, ok}, row{1, ok}},
		{"full-access", "untrusted", row{1, ok}, row{1, ok}, row{1, ok}, row{1, ok}, row{1, ok}, row{1, ok}, row{1, ok}},
		{"full-access", "on-request", row{0, ok}, row{0, ok}, row{0, ok}, row{0, ok}, row{0, ok}, row{0, ok}, row{1, ok}},
		{"full-access", "never", row{0, ok}, row{0, ok}, row{0, ok}, row{0, ok}, row{0, rejected}, row{0, ok}, row{0, dangerous}},
		{"full-access", "on-failure", row{0, ok}, row{0, ok}, row{0, ok}, row{0, ok}, row{0, ok}, row{0, ok}, row{1, ok}},
	} {
		t.Run(tc.mode+" "+tc.policy, func(t *testing.T) {
			t.Parallel()
			ln, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer ln.Close()
			go func() { // owned by the listener, whose end ends it
				for {
					c, err := ln.Accept()
					if err != nil {
						return
					}
					c.Close()
				}
			}()
			port := ln.Addr().(*net.TCPAddr).Port
			name := fmt.Sprintf("gantry-redir-%d", port)
			defer os.Remove("/tmp/" + name)
			var script strings.Builder
			var asks int
			steps := []struct {
				id, cmd, more string
				row
			}{
				{"look", "ls -d .", "", tc.look}, {"inside", "touch t", "", tc.inside}, {"outside", "sleep 0.2; touch ../out/q", "", tc.outside},
				{"net", fmt.Sprintf("bash -c 'exec 3<>/dev/tcp/127.0.0.1/%d'", port), "", tc.net},
				{"esc", "touch ../out/e", `, sandbox_permissions = "require_escalated", justification = "it lies outside"`, tc.esc},
				{"redir", "ls > /tmp/" + name, "", tc.redir}, {"rmf", "rm -f t", "", tc.rmf},
			}
			for _, s := range steps {
				asks += s.asks
				fmt.Fprintf(&script, "[[step]]\ndo = [{ call = \"exec_command\", id = %q, args = { cmd = %q, login = false%s } }]\n", s.id, s.cmd+" && echo ok", s.more)
			}
			script.WriteString("[[step]]\ntimes = -1\ndo = [{ text = \"finished\" }]\n")
			r := boxed(t, script.String())
			policy, sandboxOff, _ := strings.Cut(tc.policy, ",")
			r.Write("modes.hcl", fmt.Sprintf("approval {\n  policy = %q\n  granular {\n    sandbox_approval = %v\n    rules = true\n    mcp_elicitations = true\n  }\n}\nsandbox {\n  mode = %q\n}\n",
				policy, sandboxOff == "", tc.mode))
			run := r.Terminal("exec", "--config", "modes.hcl", "go")
			for i := range asks {
				run.SeesTimes("answer: ", i+1)
				run.Type("y\n")
			}
			res := run.Wait()
			if res.Code != 0 {
				t.Fatalf("exit %d:\n%s", res.Code, res.Stdout)
			}
			if n := strings.Count(res.Stdout, "answer: "); n != asks {
				t.Errorf("asked %d times, want %d:\n%s", n, asks, res.Stdout)
			}
			outputs := r.Last().Outputs()
			for _, s := range steps {
				if out := outputs[s.id]; !strings.Contains(out, s.want) || s.want != ok && strings.Contains(out, "\nok\n") {
					t.Errorf("%s: %q, want %q", s.id, out, s.want)
				}
			}
			if _, err := os.Stat(filepath.Join(r.Dir, "..", "out", "q")); (err == nil) != (tc.outside.want == ok) {
				t.Errorf("the file outside: %v", err)
			}
			r.NothingLeft()
		})
	}
}

// Changes of files take the same way as commands: inside they are made, outside they are asked about or refused.
func TestPatchesInTheSandbox(t *testing.T) {
	t.Parallel()
	const patches = `
[[step]]
do = [{ call = "apply_patch", id = "inside", freeform = """*** Begin Patch
*** Add File: inside
+x
*** End Patch""" }]
[[step]]
do = [{ call = "apply_patch", id = "outside", freeform = """*** Begin Patch
*** Add File: ../out/outside
+x
*** End Patch""" }]
[[step]]
do = [{ call = "apply_patch", id = "protected", freeform = """*** Begin Patch
*** Add File: .git/hooks/x
+x
*** End Patch""" }]
[[step]]
times = -1
do = [{ text = "finished" }]
`
	for _, tc := range []struct {
		policy string
		asks   int
		made   bool // what is outside
	}{{"never", 0, false}, {"on-request", 2, true}, {"untrusted", 3, true}} {
		t.Run(tc.policy, func(t *testing.T) {
			t.Parallel()
			r := boxed(t, patches)
			if err := os.MkdirAll(filepath.Join(r.Dir, ".git", "hooks"), 0o755); err != nil {
				t.Fatal(err)
			}
			r.Write("modes.hcl", fmt.Sprintf("approval {\n  policy = %q\n}\nsandbox {\n  mode = \"workspace-write\"\n}\n", tc.policy))
			run := r.Terminal("exec", "--config", "modes.hcl", "go")
			for i := range tc.asks {
				run.SeesTimes("answer: ", i+1)
				run.Type("y\n")
			}
			if res := run.Wait(); res.Code != 0 || strings.Count(res.Stdout, "answer: ") != tc.asks {
				t.Fatalf("exit %d:\n%s", res.Code, res.Stdout)
			}
			for name, want := range map[string]bool{"inside": true, "../out/outside": tc.made, ".git/hooks/x": tc.made} {
				if _, err := os.Stat(filepath.Join(r.Dir, name)); (err == nil) != want {
					t.Errorf("%s: %v, want it there: %v: %q", name, err, want, r.Last().Outputs())
				}
			}
			outputs := r.Last().Outputs()
			for _, id := range []string{"outside", "protected"} {
				refused := strings.Contains(outputs[id], "patch rejected: writing outside of the project; rejected by user approval settings")
				if refused == tc.made {
					t.Errorf("%s: %q", id, outputs[id])
				}
			}
		})
	}
}

// What a thread's commands leave in /tmp is there for its next command, for no other thread, and gone with gantry.
func TestTemporaryFilesAreTheThreads(t *testing.T) {
	t.Parallel()
	r := boxed(t, `
[[step]]
do = [{ call = "exec_command", id = "put", args = { cmd = "echo kept > /tmp/gantry-kept && echo $TMPDIR", login = false } }]
[[step]]
do = [{ call = "exec_command", id = "get", args = { cmd = "cat /tmp/gantry-kept", login = false } }]
[[step]]
times = -1
do = [{ text = "finished" }]
`)
	r.Write("modes.hcl", "approval {\n  policy = \"never\"\n}\nsandbox {\n  mode = \"workspace-write\"\n}\n")
	r.OK("exec", "--config", "modes.hcl", "go")
	outputs := r.Last().Outputs()
	if !strings.Contains(outputs["put"], "/tmp\n") || !strings.Contains(outputs["get"], "kept") {
		t.Errorf("%q", outputs)
	}
	if _, err := os.Stat("/tmp/gantry-kept"); err == nil {
		t.Error("it is in the machine's /tmp")
	}
	if left, _ := filepath.Glob(filepath.Join(r.Home, "tmp", "*")); len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
}

// What a command makes below the first level to have it executed later is moved aside, and everybody is told.
func TestHooksThatAreMadeAreMovedAside(t *testing.T) {
	t.Parallel()
	r := boxed(t, `
[[step]]
do = [{ call = "exec_command", id = "make", args = { cmd = "mkdir -p sub/.git/hooks && echo evil > sub/.git/hooks/post-checkout && echo made", login = false } }]
[[step]]
do = [{ call = "exec_command", id = "look", args = { cmd = "ls sub/.git/hooks", login = false } }]
[[step]]
times = -1
do = [{ text = "finished" }]
`)
	r.Write("modes.hcl", "approval {\n  policy = \"never\"\n}\nsandbox {\n  mode = \"workspace-write\"\n}\n")
	res := r.OK("exec", "--config", "modes.hcl", "go")
	if all := res.Stdout + res.Stderr; !strings.Contains(all, "git would execute it") {
		t.Errorf("the user was not told:\n%s", all)
	}
	last := r.Last()
	if out := last.Outputs()["look"]; !strings.Contains(out, "\npost-checkout.quarantined\n") {
		t.Errorf("left behind: %q", out)
	}
	if text := strings.Join(last.Texts(llm.RoleUser), "\n"); !strings.Contains(text, "The sandbox moved aside") {
		t.Errorf("the model was not told:\n%s", text)
	}
}

// What holds when nobody has said anything: commands write their folder alone and reach nothing, what wants more is asked about,
// and in a project whose settings nobody has agreed to they only read.
func TestSandboxIsTheDefault(t *testing.T) {
	t.Parallel()
	r := boxed(t, `
[[step]]
times = -1
when = { since_user = 0 }
do = [
  { call = "exec_command", id = "inside", args = { cmd = "touch t && echo ok", login = false } },
  { call = "exec_command", id = "outside", args = { cmd = "touch ../out/q && echo ok", login = false } },
  { call = "exec_command", id = "net", args = { cmd = "bash -c 'exec 3<>/dev/tcp/127.0.0.1/1'", login = false } },
  { call = "exec_command", id = "asks", args = { cmd = "touch ../out/q && echo ok", login = false, sandbox_permissions = "require_escalated", justification = "it lies outside" } },
]
[[step]]
times = -1
do = [{ text = "finished" }]
`)
	model := filepath.Join(r.Home, "model.hcl") // without a policy and a mode
	r.Write(model, fmt.Sprintf("provider \"scripted\" {\n  source = \"builtin/scripted\"\n  script = %q\n  log = %q\n}\n", filepath.Join(r.Home, "script.toml"), r.Log))
	plain := []string{"exec", "--ignore-user-config", "--config", model}
	check := func(says, inside string) {
		t.Helper()
		res := r.OK(append(plain, "go")...)
		if !strings.Contains(res.Stderr, says) {
			t.Errorf("want %q in\n%s", says, res.Stderr)
		}
		out := r.Last().Outputs()
		for id, want := range map[string]string{
			"inside": inside, "outside": "Read-only file system", "net": "Operation not permitted", "asks": "there is nobody to ask",
		} {
			if !strings.Contains(out[id], want) {
				t.Errorf("%s, %s: %q, want %q", says, id, out[id], want)
			}
		}
	}
	check("approval on-request · sandbox workspace-write", "ok")
	r.Write(".gantry/gantry.hcl", "sandbox {\n  mode = \"full-access\"\n}\n")
	check("approval on-request · sandbox read-only", "Read-only file system")
	r.NothingLeft()
}

// Where the sandbox can't be made no model is asked and nothing runs; what to do is said.
func TestSandboxThatCantBeMade(t *testing.T) {
	t.Parallel()
	r := rig.New(t, say)
	model := filepath.Join(r.Home, "model.hcl")
	r.Write(model, fmt.Sprintf("provider \"scripted\" {\n  source = \"builtin/scripted\"\n  script = %q\n  log = %q\n}\n", filepath.Join(r.Home, "script.toml"), r.Log))
	const hidden, forbidden = "mount --bind /dev/null \"$(readlink -f \"$(command -v bwrap)\")\" && exec \"$@\"", "echo 0 > /proc/sys/user/max_user_namespaces && exec \"$@\""
	run := func(hidden string, more ...string) (string, error) {
		argv := append([]string{"--user", "--map-root-user", "--mount", "sh", "-c", hidden, "sh", filepath.Join(r.Bin, "gantry"), "exec", "--ignore-user-config", "--config", model}, more...)
		cmd := exec.CommandContext(t.Context(), "unshare", append(argv, "go")...)
		cmd.Dir, cmd.Env = r.Dir, r.Env
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	out, err := run(hidden)
	if err == nil || !strings.Contains(out, `sandbox mode "workspace-write" can't be enforced: bubblewrap is not installed`) || !strings.Contains(out, "install bubblewrap") {
		t.Errorf("%v\n%s", err, out)
	}
	out, err = run(forbidden)
	if err == nil || !strings.Contains(out, `sandbox mode "workspace-write" can't be enforced: the sandbox could not be created`) || !strings.Contains(out, "fix this, or set sandbox") {
		t.Errorf("%v\n%s", err, out)
	}
	if _, err := os.Stat(r.Log); err == nil {
		t.Error("the model was asked")
	}
	if out, err := run(forbidden, "--sandbox", "full-access"); err != nil {
		t.Errorf("with full access: %v\n%s", err, out)
	}
}

// What is denied stays unread in the sandbox and outside of it, whoever has approved; the model is told, and patches to what is
// not to be written are asked about.
func TestDeniedFilesStayDenied(t *testing.T) {
	t.Parallel()
	r := boxed(t, `
[[step]]
do = [{ call = "exec_command", id = "read", args = { cmd = "cat sub/x.env; cat plain", login = false } }]
[[step]]
do = [{ call = "exec_command", id = "escalated", args = { cmd = "cat sub/x.env; echo x > ../out/made && echo made", login = false, sandbox_permissions = "require_escalated", justification = "why not" } }]
[[step]]
do = [{ call = "apply_patch", id = "patch", freeform = """*** Begin Patch
*** Update File: go.lock
@@
-SECRET
+changed
*** Update File: vendor/lib.go
@@
-SECRET
+changed
*** Add File: vendor/deep/new.go
+new
*** Delete File: vendor/old.go
*** End Patch""" }]
[[step]]
times = -1
do = [{ text = "finished" }]
`)
	for _, name := range []string{"sub/x.env", "go.lock", "plain", "vendor/lib.go", "vendor/old.go", "vendor/other.go"} {
		r.Write(name, "SECRET\n")
	}
	r.Write("modes.hcl", "approval {\n  policy = \"on-request\"\n}\nsandbox {\n  mode = \"workspace-write\"\n  deny_read = [\"**/*.env\"]\n  deny_write = [\"*.lock\", \"vendor\"]\n}\n")
	run := r.Terminal("exec", "--config", "modes.hcl", "go")
	for i := range 2 {
		run.SeesTimes("answer: ", i+1)
		run.Type("y\n")
	}
	if res := run.Wait(); res.Code != 0 || strings.Count(res.Stdout, "answer: ") != 2 {
		t.Fatalf("exit %d:\n%s", res.Code, res.Stdout)
	}
	last := r.Last()
	outputs := last.Outputs()
	if out := outputs["read"]; !strings.Contains(out, "Permission denied") || strings.Count(out, "SECRET") != 1 {
		t.Errorf("in the sandbox: %q", out)
	}
	if out := outputs["escalated"]; !strings.Contains(out, "Permission denied") || strings.Contains(out, "SECRET") || !strings.Contains(out, "made") {
		t.Errorf("outside: %q", out)
	}
	if b, err := os.ReadFile(filepath.Join(r.Dir, "go.lock")); string(b) != "changed\n" {
		t.Errorf("the patch that was approved: %q, %v, %q", b, err, outputs["patch"])
	}
	if a, b, gone := r.Read("vendor/lib.go"), r.Read("vendor/deep/new.go"), !exists(r.Dir, "vendor/old.go"); a != "changed\n" || b != "new\n" || !gone {
		t.Errorf("in a folder that is kept: %q, %q, removed %v: %q", a, b, gone, outputs["patch"])
	}
	if text := strings.Join(last.Texts(llm.RoleUser), "\n"); !strings.Contains(text, "**/*.env") {
		t.Errorf("the model was not told:\n%s", text)
	}
}

// The first command of a turn finds a box that was made while the model still wrote what it is to do.
func TestTheFirstCommandOfATurnIsExpected(t *testing.T) {
	t.Parallel()
	r := boxed(t, `
[[step]]
do = [{ call = "exec_command", id = "first", args = { cmd = "echo done", login = false } }]
[[step]]
do = [{ text = "finished" }]
`)
	res := r.OK("exec", "--log", "debug", "--sandbox", "workspace-write", "go")
	found := false
	for line := range strings.Lines(res.Stderr) {
		found = found || strings.Contains(line, "process started") && strings.Contains(line, "ahead=true")
	}
	if out := r.Last().Outputs()["first"]; !found || !strings.Contains(out, "done") {
		t.Errorf("%q, in a box that waited for it: %v\n%s", out, found, res.Stderr)
	}
	if exists(r.Dir, ".agents") {
		t.Error("something still stands in for missing names")
	}
}
