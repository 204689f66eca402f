package e2e_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/e2e/rig"
	"github.com/gantry-agent/gantry/sdk/llm"
	gantryv1 "github.com/gantry-agent/gantry/sdk/proto/gantry/v1"
	"github.com/gantry-agent/gantry/sdk/tool"
)

// takes is a plugin that uses all of the host's services in one call, and says what came of it.
func takes(capabilities ...string) tool.Plugin {
	return tool.Plugin{
		Name: "takes", Version: "1.0.0", Description: "Takes.", Capabilities: capabilities,
		Tools: []tool.Tool{
			tool.New("take", "Takes what it can.", func(ctx context.Context, c *tool.Call, _ struct{}) (*tool.Result, error) {
				host := c.Env().Client()
				_, spawn := c.Command(ctx, "git", "--version").Output()
				_, ask := c.Ask(ctx, tool.Question{Options: []string{"a", "b"}})
				_, list := c.ListTools(ctx)
				_, call := c.CallTool(ctx, "", "exec_command", map[string]any{"cmd": "touch called", "login": false})
				_, sample := c.Sample(ctx, &llm.Request{Messages: []llm.Message{{Role: llm.RoleUser, Parts: []llm.Part{&llm.Text{Text: "a question"}}}}})
				_, secret := host.StoreSecret(ctx, &gantryv1.StoreSecretRequest{Name: "mine", Value: "0123456789"})
				_, put := host.PutState(ctx, &gantryv1.PutStateRequest{Key: "k", Value: []byte("v")})
				lease, err := c.Env().Lease(ctx, "l", 0)
				if err == nil {
					lease.Release()
				}
				var out strings.Builder
				for _, r := range []struct {
					name string
					err  error
				}{{"spawn", spawn}, {"ask", ask}, {"call-tools", list}, {"call-tools", call}, {"sample", sample}, {"secrets", secret}, {"state", put}, {"state", err}} {
					fmt.Fprintf(&out, "%s: %v\n", r.name, r.err)
				}
				return tool.Text(out.String()), nil
			}, tool.ReadOnly()),
		},
	}
}

// A plugin gets of the host's services what its manifest asks for, and of that what its block grants. What it lacks is refused by name,
// with what would change it.
func TestCapabilitiesAreEnforced(t *testing.T) {
	t.Parallel()
	const script = `
[[step]]
when = { no_tools = ["take"] }
times = -1
do = [{ text = "an answer" }]
[[step]]
do = [{ call = "take", id = "c1" }]
[[step]]
times = -1
do = [{ text = "done" }]
`
	all := []string{"spawn", "ask", "call-tools", "sample", "secrets", "state"}
	for name, tc := range map[string]struct {
		mode, grants, next string
		has                []string
	}{
		"asked for nothing":           {"takes", "", "its manifest does not declare it", nil},
		"granted what it never asked": {"takes", "capabilities = [\"spawn\", \"sample\"]", "its manifest does not declare it", nil},
		"all that it asked for":       {"asks for all", "", "", all},
		"some of it":                  {"asks for all", "capabilities = [\"state\", \"call-tools\"]", "permissions { capabilities }", []string{"state", "call-tools"}},
		"nothing of it":               {"asks for all", "capabilities = []", "permissions { capabilities }", nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := rig.New(t, script)
			self, err := os.Executable()
			if err != nil {
				t.Fatal(err)
			}
			program := r.Program("takes", fmt.Sprintf("#!/bin/sh\n%s=%q exec %q \"$@\"\n", oddMode, tc.mode, self))
			r.Config(fmt.Sprintf("plugin \"takes\" {\n  source = %q\n  permissions {\n    write = [%q]\n    read = [%q]\n    %s\n  }\n}\n", program, r.Dir, self, tc.grants))
			r.OK("plugin", "lock", "--yes", "takes")
			r.OK("exec", "go")
			out := r.Last().Outputs()["c1"]
			for _, c := range all {
				has := strings.Contains(" "+strings.Join(tc.has, " ")+" ", " "+c+" ")
				refused := fmt.Sprintf("the capability %q", c)
				if has == strings.Contains(out, refused) {
					t.Errorf("%s: has %v:\n%s", c, has, out)
				}
			}
			if !strings.Contains(out, tc.next) {
				t.Errorf("no word of %q:\n%s", tc.next, out)
			}
			called := false
			for _, c := range tc.has {
				called = called || c == "call-tools"
			}
			if exists(r.Dir, "called") != called {
				t.Errorf("called: %v, want %v\n%s", !called, called, out)
			}
		})
	}
}

// A block that names programs has no others started, and none by another name.
func TestProgramsAreEnforced(t *testing.T) {
	t.Parallel()
	r := boxed(t, hostileStart("fine", `spawn = ["echo", "hi"]`)+hostileStart("other", `spawn = ["sh", "-c", "echo hi"]`)+
		hostileStart("more", `spawn = ["echo", "hi", "ho"]`)+hostileStart("path", `spawn = ["/bin/echo", "hi"]`)+
		hostileStart("name", `spawn = ["echo", "hi"], env = ["PATH=."]`)+finished)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	program := r.Program("acts", fmt.Sprintf("#!/bin/sh\n%s=acts exec %q \"$@\"\n", oddMode, self))
	r.Config(fmt.Sprintf("plugin \"acts\" {\n  source = %q\n  permissions {\n    exec = [\"echo *\"]\n    read = [%q]\n  }\n}\n", program, self))
	if shown := r.OK("plugin", "lock", "--yes", "acts"); !strings.Contains(shown.Stdout+shown.Stderr, "exec: echo *") {
		t.Errorf("consent does not show it:\n%s%s", shown.Stdout, shown.Stderr)
	}
	policied(r, "never", "workspace-write")
	r.OK("exec", "--config", "policy.hcl", "go")
	out := r.Last().Outputs()
	for id, want := range map[string]string{
		"fine": "ran: hi", "other": `plugin "acts" may not start "sh -c echo hi"; next: add it to permissions { exec }`, "more": "may not start",
		"path": "may not start", "name": "change PATH",
	} {
		if !strings.Contains(out[id], want) {
			t.Errorf("%s: %q, want something with %q", id, out[id], want)
		}
	}
}
