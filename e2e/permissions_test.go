package e2e_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/sdk/llm"
)

// What a model asks for ahead of its calls is asked about once; then commands and patches do it in the sandbox, for as long as was
// said, and no more than that.
func TestPermissionsAheadOfCalls(t *testing.T) {
	t.Parallel()
	const readOnly = "Read-only file system"
	script := `
[[step]]
do = [{ call = "request_permissions", id = "p1", args = { reason = "to write the report", permissions = { file_system = { write = ["../out"] } } } }]
[[step]]
do = [{ call = "exec_command", id = "c1", args = { cmd = "echo a > ../out/a && echo $GANTRY_SANDBOX; echo x > ../other/x", login = false } }]
[[step]]
do = [{ call = "apply_patch", id = "c2", freeform = """
*** Begin Patch
*** Add File: ../out/b
+b
*** End Patch
""" }]
[[step]]
do = [{ text = "once" }]
[[step]]
do = [{ call = "exec_command", id = "c3", args = { cmd = "echo c > ../out/c", login = false } }]
[[step]]
times = -1
do = [{ text = "twice" }]
`
	for _, tc := range []struct{ answer, scope, again string }{
		{"turn", "turn", readOnly}, {"session", "session", ""}, {"no", "turn", readOnly},
	} {
		t.Run(tc.answer, func(t *testing.T) {
			t.Parallel()
			r := boxed(t, script)
			out := filepath.Join(filepath.Dir(r.Dir), "out")
			if err := os.Mkdir(filepath.Join(filepath.Dir(r.Dir), "other"), 0o755); err != nil {
				t.Fatal(err)
			}
			policied(r, "on-request", "workspace-write")
			run := r.Terminal("exec", "--config", "policy.hcl", "go")
			run.Sees("answer: ")
			if shown := run.Output(); !strings.Contains(shown, fmt.Sprintf("beyond the sandbox: write %q and all below", out)) || !strings.Contains(shown, "to write the report") {
				t.Errorf("the question shows:\n%s", shown)
			}
			run.Type(tc.answer + "\n")
			if tc.answer == "no" {
				run.SeesTimes("answer: ", 2) // about the patch
				run.Type("no\n")
			}
			if res := run.Wait(); res.Code != 0 {
				t.Fatalf("exit %d:\n%s", res.Code, res.Stdout)
			}
			outs := r.Last().Outputs()
			if tc.answer == "no" {
				if outs["p1"] != `{"permissions":{"network":null,"file_system":null},"scope":"turn"}` || !strings.Contains(outs["c1"], readOnly) {
					t.Errorf("the model reads %q, %q", outs["p1"], outs["c1"])
				}
				return
			}
			if want := fmt.Sprintf(`{"permissions":{"network":null,"file_system":{"read":[],"write":[%q]}},"scope":%q}`, out, tc.scope); outs["p1"] != want {
				t.Errorf("the model reads %q, want %q", outs["p1"], want)
			}
			if !strings.Contains(outs["c1"], "workspace-write\n") || !strings.Contains(outs["c1"], "other/x: "+readOnly) {
				t.Errorf("the command says %q", outs["c1"])
			}
			for _, name := range []string{"a", "b"} {
				if b, err := os.ReadFile(filepath.Join(out, name)); err != nil || string(b) != name+"\n" {
					t.Errorf("%s: %q, %v; %q", name, b, err, outs["c2"])
				}
			}
		})
	}
}

// A command may ask for what it needs, and stays in the sandbox: with the network, or with a folder more.
func TestPermissionsOfACommand(t *testing.T) {
	t.Parallel()
	r := boxed(t, `
[[step]]
do = [{ call = "exec_command", id = "c1", args = { cmd = "touch ../out/a && touch ../x", login = false, sandbox_permissions = "with_additional_permissions", justification = "May I write it?", additional_permissions = { file_system = { write = ["../out"] } } } }]
[[step]]
do = [{ call = "exec_command", id = "c2", args = { cmd = "touch ../out/b", login = false } }]
[[step]]
do = [{ call = "exec_command", id = "c3", args = { cmd = "echo $GANTRY_SANDBOX_NETWORK_DISABLED.", login = false, sandbox_permissions = "with_additional_permissions", justification = "May it reach the network?", additional_permissions = { network = { enabled = true } } } }]
[[step]]
times = -1
do = [{ text = "done" }]
`)
	policied(r, "on-request", "workspace-write")
	run := r.Terminal("exec", "--config", "policy.hcl", "go")
	run.Sees("answer: ")
	run.Type("approve\n")
	run.SeesTimes("answer: ", 2)
	run.Type("approve\n")
	if res := run.Wait(); res.Code != 0 || !strings.Contains(res.Stdout, "beyond the sandbox: access the whole network") || strings.Contains(res.Stdout, "approve always") {
		t.Fatalf("exit %d:\n%s", res.Code, res.Stdout)
	}
	outs := r.Last().Outputs()
	if _, err := os.Stat(filepath.Join(filepath.Dir(r.Dir), "out", "a")); err != nil || !strings.Contains(outs["c1"], "Read-only file system") {
		t.Errorf("%v, %q", err, outs["c1"])
	}
	if !strings.Contains(outs["c2"], "Read-only file system") {
		t.Errorf("the next command may do it, too: %q", outs["c2"])
	}
	if !strings.Contains(outs["c3"], "Output:\n.\n") {
		t.Errorf("there is no network: %q", outs["c3"])
	}
	// Nobody is asked under other policies.
	for policy, says := range map[string]string{"never": "cannot request additional permissions", "untrusted": "approval policy is untrusted; reject command"} {
		if r.Gantry("exec", "-c", "approval.policy="+policy, "-c", "sandbox.mode=workspace-write", "go"); !strings.Contains(r.Last().Outputs()["c1"], says) {
			t.Errorf("%s: %q", policy, r.Last().Outputs()["c1"])
		}
	}
}

// What the sandbox stopped is told by its path: to the model beside the output, and in the log, also of a command that a call has
// left running.
func TestDenialsNameThePath(t *testing.T) {
	t.Parallel()
	r := boxed(t, `
[[step]]
do = [{ call = "exec_command", id = "c1", args = { cmd = "touch ../out/now", login = false } }]
[[step]]
do = [{ call = "exec_command", id = "c2", args = { cmd = "until [ -e go ]; do sleep 0.05; done; touch ../out/later; echo > over; exit 1", login = false, yield_time_ms = 250 } }]
[[step]]
do = [{ call = "exec_command", id = "c3", args = { cmd = "touch go; until [ -e over ]; do sleep 0.05; done", login = false } }]
[[step]]
times = -1
do = [{ text = "done" }]
`)
	policied(r, "on-request", "workspace-write")
	r.OK("exec", "--config", "policy.hcl", "go")
	out := filepath.Join(filepath.Dir(r.Dir), "out")
	if told := strings.Join(r.Last().Texts(llm.RoleSystem), "\n"); strings.Count(told, fmt.Sprintf("The sandbox (workspace-write) does not let commands write %q.", out+"/now")) != 1 {
		t.Errorf("the model is told:\n%s", told)
	}
	log := r.OK("threads", "show", "--events", threads(t, r)[0].ID).Stdout
	for _, name := range []string{"now", "later"} {
		if !strings.Contains(strings.ReplaceAll(log, " ", ""), fmt.Sprintf(`"sandboxDenied":{"reason":"read_only_file_system","sandbox":"workspace-write","path":%q,"access":"write"}`, filepath.Join(out, name))) {
			t.Errorf("the log does not name %s:\n%s", name, log)
		}
	}
}
