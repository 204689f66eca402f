package e2e_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/e2e/rig"
)

// queries is a model that calls tools, one after the other: id → tool and arguments.
func queries(calls ...[3]string) string {
	var b strings.Builder
	for _, c := range calls {
		fmt.Fprintf(&b, "[[step]]\ndo = [{ call = %q, id = %q, args = { %s } }]\n", c[1], c[0], c[2])
	}
	return b.String() + finished
}

// What a plugin's call says that it does beyond the sandbox is asked about, and refused where nobody can be or is to be asked; the
// refusal says which setting lets it run. What the sandbox holds, and what only reads, runs.
func TestDeclaredEffectsCount(t *testing.T) {
	t.Parallel()
	calls := [][3]string{
		{"silent", "silent", ""}, {"fixed", "fixed", ""}, {"other", "query", `other = "deletes rows"`}, {"network", "query", `host = "db.example.com"`},
		{"late", "query", `late = "drops a table"`}, {"outside", "query", `write = "/srv/data/app.db"`},
		{"inside", "query", `write = "WS/app.db"`}, {"reads", "query", `read_only = true`}, {"reads there", "query", `read_only = true, host = "db.example.com"`},
	}
	const nobody, never = "there is nobody to ask", "AskForApproval is set to Never"
	for name, tc := range map[string]struct {
		policy, mode, block string
		want                map[string]string // of what does not run
	}{
		"on-request":                      {"on-request", "workspace-write", "", map[string]string{"silent": nobody, "fixed": nobody, "other": nobody, "network": nobody, "late": nobody, "outside": nobody}},
		"on-request, read-only":           {"on-request", "read-only", "", map[string]string{"silent": nobody, "fixed": nobody, "other": nobody, "network": nobody, "late": nobody, "outside": nobody, "inside": nobody}},
		"on-request, full access":         {"on-request", "full-access", "", map[string]string{"silent": nobody, "fixed": nobody, "other": nobody, "late": nobody}},
		"never":                           {"never", "workspace-write", "", map[string]string{"silent": never, "fixed": never, "other": never, "network": never, "late": never, "outside": "rejected by user approval settings"}},
		"never, full access":              {"never", "full-access", "", nil},
		"untrusted":                       {"untrusted", "workspace-write", "", map[string]string{"silent": nobody, "fixed": nobody, "other": nobody, "network": nobody, "late": nobody, "outside": nobody, "inside": nobody, "reads there": nobody}},
		"never, approved":                 {"never", "workspace-write", `approval = "approve"`, map[string]string{"outside": "rejected by user approval settings"}},
		"never, one tool approved":        {"never", "workspace-write", "tool \"qu*\" {\n    approval = \"approve\"\n  }", map[string]string{"silent": never, "fixed": never, "outside": "rejected by user approval settings"}},
		"on-request, the network granted": {"on-request", "workspace-write", `network = ["*"]`, map[string]string{"silent": nobody, "fixed": nobody, "other": nobody, "late": nobody, "outside": nobody}},
		"on-request, asked each time": {"on-request", "workspace-write", `approval = "prompt"`, map[string]string{"silent": nobody, "fixed": nobody, "other": nobody, "network": nobody,
			"late": nobody, "outside": nobody, "inside": nobody, "reads": nobody, "reads there": nobody}},
		"denied": {"on-request", "full-access", "approval = \"deny\"\n  tool \"silent\" {\n    approval = \"approve\"\n  }", map[string]string{"fixed": "settings refuse", "other": "settings refuse", "network": "settings refuse",
			"late": "settings refuse", "outside": "settings refuse", "inside": "settings refuse", "reads": "settings refuse", "reads there": "settings refuse"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := boxed(t, "")
			r.Write(filepath.Join(r.Home, "script.toml"), strings.ReplaceAll(queries(calls...), "WS", r.Dir))
			addActs(t, r, tc.block)
			policied(r, tc.policy, tc.mode)
			res := r.OK("exec", "--events", "--config", "policy.hcl", "go")
			out := r.Last().Outputs()
			for _, c := range calls {
				switch want, refused := tc.want[c[0]]; {
				case refused && (out[c[0]] == "acted" || !strings.Contains(out[c[0]], want)):
					t.Errorf("%s: %q, want something with %q", c[0], out[c[0]], want)
				case refused && (want == nobody || want == never) && c[0] != "outside" && c[0] != "inside" && c[0] != "reads there" && tc.block == "" &&
					!strings.Contains(out[c[0]], fmt.Sprintf("-c plugin.acts.tool.%s.approval=approve", c[1])):
					t.Errorf("%s: no setting is named: %q", c[0], out[c[0]])
				case !refused && out[c[0]] != "acted":
					t.Errorf("%s: %q, and nothing was to be asked", c[0], out[c[0]])
				}
			}
			if held := "the sandbox confines it"; strings.Contains(res.Stdout, held) {
				t.Errorf("the log says of a plugin's own acts: %s", held)
			}
		})
	}
}

// addActs configures the plugin "acts" with more in its block, or in its permissions.
func addActs(t *testing.T, r *rig.Rig, block string) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	permissions := fmt.Sprintf("read = [%q]", self)
	if strings.HasPrefix(block, "network") {
		permissions, block = permissions+"\n    "+block, ""
	}
	program := r.Program("acts", fmt.Sprintf("#!/bin/sh\n%s=acts exec %q \"$@\"\n", oddMode, self))
	r.Config(fmt.Sprintf("plugin \"acts\" {\n  source = %q\n  permissions {\n    %s\n  }\n  %s\n}\n", program, permissions, block))
	r.OK("plugin", "lock", "--yes", "acts")
}

// The command line sets it for one run.
func TestToolApprovalOnTheCommandLine(t *testing.T) {
	t.Parallel()
	r := rig.New(t, queries([3]string{"c1", "query", `other = "x"`}, [3]string{"c2", "silent", ""}))
	addActs(t, r, "")
	policied(r, "never", "workspace-write")
	r.OK("exec", "--config", "policy.hcl", "-c", "plugin.acts.tool.query.approval=approve", "go")
	if out := r.Last().Outputs(); out["c1"] != "acted" || !strings.Contains(out["c2"], "AskForApproval is set to Never") {
		t.Errorf("%q", out)
	}
	r.OK("exec", "--config", "policy.hcl", "-c", `plugin.acts.tool."*".approval=approve`, "go")
	if out := r.Last().Outputs(); out["c1"] != "acted" || out["c2"] != "acted" {
		t.Errorf("by a pattern: %q", out)
	}
	if res := r.Gantry("exec", "--config", "policy.hcl", "-c", "plugin.acts.tool.query.approval=always", "go"); res.Code == 0 || !strings.Contains(res.Stderr, `"approve"`) {
		t.Errorf("exit %d: %s", res.Code, res.Stderr)
	}
}

// An answer for the session, or for good, is for the tool: whatever its calls do, as long as it says the same about itself.
func TestAnswersForATool(t *testing.T) {
	t.Parallel()
	script := queries([3]string{"c1", "query", `other = "x"`}, [3]string{"c2", "query", `other = "y"`}, [3]string{"c3", "silent", ""})
	t.Run("session", func(t *testing.T) {
		t.Parallel()
		r := rig.New(t, script)
		addActs(t, r, "")
		policied(r, "on-request", "workspace-write")
		run := r.Terminal("exec", "--config", "policy.hcl", "go")
		run.Sees("answer: ")
		run.Type("approve_session\n")
		run.SeesTimes("answer: ", 2) // about another tool
		run.Type("deny\n")
		if res := run.Wait(); res.Code != 0 {
			t.Fatalf("exit %d:\n%s", res.Code, res.Stdout)
		}
		if out := r.Last().Outputs(); out["c1"] != "acted" || out["c2"] != "acted" || !strings.Contains(out["c3"], "rejected by user") {
			t.Errorf("%q", out)
		}
	})
	t.Run("always", func(t *testing.T) {
		t.Parallel()
		r := rig.New(t, script)
		addActs(t, r, "")
		policied(r, "on-request", "workspace-write")
		run := r.Terminal("exec", "--config", "policy.hcl", "go")
		run.Sees("answer: ")
		if shown := run.Output(); !strings.Contains(shown, `tool_rule(plugin="acts", tool="query"`) {
			t.Errorf("the question does not show what it writes:\n%s", shown)
		}
		run.Type("always\n")
		run.SeesTimes("answer: ", 2)
		run.Type("deny\n")
		if res := run.Wait(); res.Code != 0 {
			t.Fatalf("exit %d:\n%s", res.Code, res.Stdout)
		}
		// It holds in the next thread, where nobody is there.
		r.OK("exec", "--config", "policy.hcl", "go")
		if out := r.Last().Outputs(); out["c1"] != "acted" || out["c2"] != "acted" || !strings.Contains(out["c3"], "nobody to ask") {
			t.Errorf("%q", out)
		}
		// A tool that says something else about itself is another one.
		path := filepath.Join(r.Home, "rules", "default.rules")
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		const key = `digest="`
		at := strings.Index(string(b), key) + len(key)
		b[at] = "0123456789abcdef0"[strings.IndexByte("0123456789abcdef", b[at])+1]
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		r.OK("exec", "--config", "policy.hcl", "go")
		if out := r.Last().Outputs(); !strings.Contains(out["c1"], "nobody to ask") {
			t.Errorf("another descriptor: %q", out)
		}
	})
	t.Run("each time", func(t *testing.T) {
		t.Parallel()
		r := rig.New(t, script)
		addActs(t, r, "tool \"query\" {\n    approval = \"prompt\"\n  }")
		policied(r, "on-request", "workspace-write")
		run := r.Terminal("exec", "--config", "policy.hcl", "go")
		for i := range 3 {
			run.SeesTimes("answer: ", i+1)
			if shown := run.Output(); i == 0 && (strings.Contains(shown, "session") || strings.Contains(shown, "always")) {
				t.Errorf("what is asked each time can't be answered for later:\n%s", shown)
			}
			run.Type("y\n")
		}
		if res := run.Wait(); res.Code != 0 || r.Last().Outputs()["c2"] != "acted" {
			t.Fatalf("exit %d:\n%s", res.Code, res.Stdout)
		}
	})
}

// What is set counts for the tools that come with gantry as well.
func TestToolApprovalOfTheShell(t *testing.T) {
	t.Parallel()
	r := rig.New(t, steps("touch ran"))
	r.Config("plugin \"shell\" {\n  tool \"exec_*\" {\n    approval = \"deny\"\n  }\n}\n")
	r.OK("exec", "go")
	if out := r.Last().Outputs()["c1"]; exists(r.Dir, "ran") || !strings.Contains(out, "the user's settings refuse the tool exec_command") || !strings.Contains(out, "gantry.hcl:") {
		t.Errorf("%q", out)
	}
}

// "Always" about an action of a service writes a rule for that action, which `gantry policy check --tool` explains. It applies to the
// plugin and the tool's declaration that were asked about, and a rule that refuses comes first.
func TestAnswersForAnAction(t *testing.T) {
	t.Parallel()
	r := rig.New(t, queries([3]string{"c1", "query", `action = "buy"`}, [3]string{"c2", "query", `action = "sell"`}))
	addActs(t, r, "")
	policied(r, "on-request", "workspace-write")
	run := r.Terminal("exec", "--config", "policy.hcl", "go")
	run.Sees("answer: ")
	if shown := run.Output(); !strings.Contains(shown, `tool_rule(plugin="acts", service="shop", tool="buy", digest="`) {
		t.Errorf("the question does not show what it writes:\n%s", shown)
	}
	run.Type("always\n")
	run.SeesTimes("answer: ", 2) // about the other action
	run.Type("deny\n")
	if res := run.Wait(); res.Code != 0 {
		t.Fatalf("exit %d:\n%s", res.Code, res.Stdout)
	}
	path := filepath.Join(r.Home, "rules", "default.rules")
	written, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	const key = `digest="`
	at := strings.Index(string(written), key) + len(key)
	digest := string(written[at : at+64])
	again := func(c1 string) {
		t.Helper()
		r.OK("exec", "--config", "policy.hcl", "go") // nobody is there
		if out := r.Last().Outputs(); !strings.Contains(out["c1"], c1) || !strings.Contains(out["c2"], "nobody to ask") {
			t.Errorf("%q, want %q", out, c1)
		}
	}
	check := func(code int, args []string, wants ...string) {
		t.Helper()
		res := r.Gantry(append([]string{"policy", "check", "--config", "policy.hcl", "--exit-code", "--tool"}, args...)...)
		for _, want := range wants {
			if res.Code != code || !strings.Contains(res.Stdout, want) {
				t.Errorf("check %q: exit %d, want %d and %q in\n%s%s", args, res.Code, code, want, res.Stdout, res.Stderr)
			}
		}
	}
	again("acted")
	check(0, []string{"--digest", digest, "acts", "shop", "buy"}, "answer    runs", "a rule allows that", "default.rules:1")
	check(10, []string{"acts", "shop", "buy"}, "answer    asked about", "default.rules:1 applies only under the digest "+digest)
	check(10, []string{"acts", "shop", "sell"}, "answer    asked about")
	check(10, []string{"acts", "query"}, "answer    asked about")

	changed := []byte(string(written))
	changed[at] = "0123456789abcdef0"[strings.IndexByte("0123456789abcdef", changed[at])+1]
	if err := os.WriteFile(path, changed, 0o600); err != nil {
		t.Fatal(err)
	}
	again("nobody to ask")
	if err := os.WriteFile(path, append(written, `tool_rule(service = "shop", tool = "b*", decision = "forbidden", justification = "no money")`+"\n"...), 0o600); err != nil {
		t.Fatal(err)
	}
	again("no money")
	check(11, []string{"--digest", digest, "acts", "shop", "buy"}, "answer    refused", "no money", "default.rules:2")
}
