package policy

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/config/hosts"
	"github.com/gantry-agent/gantry/host/internal/policy/rules"
	"github.com/gantry-agent/gantry/sdk/contract"
)

// The table of codex 0.169 for tools that are not its own, by the tool's annotations.
func TestModes(t *testing.T) {
	t.Parallel()
	yes, no := new(true), new(false)
	for _, tc := range []struct {
		name string
		a    Annotations
		auto bool
	}{
		{"none", Annotations{}, true},
		{"readOnly", Annotations{ReadOnly: yes}, false},
		{"readOnly, open world", Annotations{ReadOnly: yes, OpenWorld: yes}, false},
		{"readOnly and destructive", Annotations{ReadOnly: yes, Destructive: yes}, true},
		{"not destructive, not open world", Annotations{Destructive: no, OpenWorld: no}, false},
		{"not destructive, open world", Annotations{Destructive: no, OpenWorld: yes}, true},
		{"not destructive", Annotations{Destructive: no}, true},
		{"not open world", Annotations{OpenWorld: no}, true},
		{"destructive", Annotations{Destructive: yes, OpenWorld: no}, true},
		{"not readOnly", Annotations{ReadOnly: no, Destructive: no, OpenWorld: no}, false},
	} {
		for mode, want := range map[Mode]bool{Auto: tc.auto, Prompt: true, Writes: tc.a.ReadOnly != yes, Approve: false} {
			if got := mode.Asks(tc.a); got != want {
				t.Errorf("%s, %s: asks %v, want %v", tc.name, mode, got, want)
			}
		}
	}
}

// The decision on a call: policy × sandbox × mode × effects.
func TestToolCalls(t *testing.T) {
	t.Parallel()
	other := []contract.Effect{contract.OtherEffect{Label: "deletes rows"}}
	network := []contract.Effect{contract.NetworkEffect{Host: "db.example.com", Port: 5432}}
	exec := []contract.Effect{contract.ExecEffect{Argv: []string{"make"}, Cwd: "/ws"}}
	write := []contract.Effect{contract.WriteEffect{Paths: []string{"/ws/a"}}}
	type call struct {
		name     string
		effects  []contract.Effect
		readOnly bool
		online   bool
		byHost   bool
		beyond   bool // what auto asks about
	}
	calls := []call{
		{name: "nothing said", beyond: true},
		{name: "nothing said, by the host alone", byHost: true},
		{name: "other", effects: other, beyond: true},
		{name: "network", effects: network, beyond: true},
		{name: "network that is granted", effects: network, online: true},
		{name: "browser", effects: []contract.Effect{contract.BrowserEffect{Origin: "https://a"}}, beyond: true},
		{name: "a command", effects: exec},
		{name: "a command and more", effects: append(exec, other...), beyond: true},
		{name: "a file of the workspace", effects: write},
		{name: "reading", readOnly: true},
		{name: "reading from the network", effects: network, readOnly: true},
	}
	for _, c := range calls {
		for _, approval := range []Approval{Never, OnRequest, Untrusted, Granular} {
			for _, sandbox := range []string{"read-only", "workspace-write", FullAccess} {
				for _, mode := range []Mode{Auto, Prompt, Approve, Deny} {
					d := Decide(Request{
						Approval: approval, Sandbox: sandbox, Effects: c.effects, ReadOnly: c.readOnly, Questions: Questions{Elicitation: true},
						Tool:     &Tool{Plugin: "db", Name: "query", Names: []string{"query"}, Mode: mode, Set: "gantry.hcl:3", Online: c.online, ByHost: c.byHost},
						Writable: func(string) bool { return true },
					})
					asked := c.beyond && mode == Auto || mode == Prompt
					want := Run
					switch {
					case mode == Deny:
						want = Forbid
					case asked && approval == Never && sandbox == FullAccess && mode == Auto:
					case asked && approval == Never:
						want = Forbid
					case asked:
						want = Ask
					case approval == Untrusted && len(c.effects)+len(exec) > 0 && !(c.readOnly && len(c.effects) == 0):
						// everything that has an effect, but for what is set to run, which commands are not
						if mode != Approve || c.name == "a command" || c.name == "a command and more" {
							want = Ask
						}
					}
					if d.Verdict != want {
						t.Errorf("%s, %s, %s, %s: %s (%s), want %s", c.name, approval, sandbox, mode, d.Verdict, d.Reason, want)
					}
					if d.Verdict == Run && strings.Contains(d.Reason, "the sandbox confines it") && c.name != "a command" && c.name != "a file of the workspace" {
						t.Errorf("%s, %s, %s, %s: %q", c.name, approval, sandbox, mode, d.Reason)
					}
					if d.Verdict == Forbid && mode == Auto && !strings.Contains(d.Reason, `-c plugin.db.tool.query.approval=approve`) {
						t.Errorf("%s, %s, %s: the refusal names no setting: %q", c.name, approval, sandbox, d.Reason)
					}
					if d.Once && mode != Prompt || d.Tool && mode != Auto {
						t.Errorf("%s, %s, %s, %s: %+v", c.name, approval, sandbox, mode, d)
					}
				}
			}
		}
	}
	granular := Request{Approval: Granular, Sandbox: "workspace-write", Effects: other, Tool: &Tool{Plugin: "db", Name: "query", Mode: Auto}}
	if d := Decide(granular); d.Verdict != Forbid || !strings.Contains(d.Reason, "mcp_elicitations is false") {
		t.Errorf("without questions of plugins: %+v", d)
	}
}

// Actions of services: annotations × mode × policy × sandbox. The table of codex 0.169, except that under never and full-access, what a
// setting asks about is refused. What a plugin reports of its own configuration may only ask more, unless it comes with gantry.
func TestServiceCalls(t *testing.T) {
	t.Parallel()
	yes, no := new(true), new(false)
	annotated := []struct {
		name string
		contract.ServiceEffect
		auto bool // whether auto asks
	}{
		{"none", contract.ServiceEffect{}, true},
		{"read-only", contract.ServiceEffect{ReadOnly: yes}, false},
		{"read-only and destructive", contract.ServiceEffect{ReadOnly: yes, Destructive: yes}, true},
		{"harmless within the service", contract.ServiceEffect{Destructive: no, OpenWorld: no}, false},
		{"harmless in the open world", contract.ServiceEffect{Destructive: no, OpenWorld: yes}, true},
		{"harmless", contract.ServiceEffect{Destructive: no}, true},
		{"destructive", contract.ServiceEffect{Destructive: yes}, true},
		{"destructive within the service", contract.ServiceEffect{Destructive: yes, OpenWorld: no}, true},
		{"within the service", contract.ServiceEffect{OpenWorld: no}, true},
		{"in the open world", contract.ServiceEffect{OpenWorld: yes}, true},
		{"read-only in the open world", contract.ServiceEffect{ReadOnly: yes, OpenWorld: yes}, false},
		{"read-only and harmless", contract.ServiceEffect{ReadOnly: yes, Destructive: no}, false},
		{"not read-only", contract.ServiceEffect{ReadOnly: no}, true},
		{"not read-only, but harmless within the service", contract.ServiceEffect{ReadOnly: no, Destructive: no, OpenWorld: no}, false},
		{"idempotent", contract.ServiceEffect{Idempotent: yes}, true}, // which does not matter
	}
	for _, a := range annotated {
		for _, approval := range []Approval{Never, OnRequest, OnFailure, Untrusted, Granular} {
			for _, sandbox := range []string{"read-only", "workspace-write", FullAccess} {
				for _, mode := range []Mode{Auto, Prompt, Writes, Approve, Deny} {
					for _, from := range []string{"the user", "the plugin", "a plugin of gantry"} {
						if mode == Deny && from != "the user" {
							continue
						}
						tool := &Tool{Plugin: "mcp", Name: "github.create", Names: []string{"github.create"}, Mode: mode, Set: "gantry.hcl:3", BuiltIn: from == "a plugin of gantry"}
						e := a.ServiceEffect
						e.Service, e.Action = "github", "create"
						applies := mode
						if from != "the user" {
							tool.Mode, tool.Set, e.Approval = Auto, "", string(mode)
							if mode == Approve && !tool.BuiltIn {
								applies = Auto
							}
						}
						asked := applies == Prompt || applies == Auto && a.auto || applies == Writes && a.ReadOnly != yes
						want := Run
						switch {
						case applies == Deny:
							want = Forbid
						case asked && approval == Never && (sandbox != FullAccess || applies != Auto):
							want = Forbid
						case asked && approval != Never:
							want = Ask
						}
						d := Decide(Request{Approval: approval, Sandbox: sandbox, Effects: []contract.Effect{e}, Questions: Questions{Elicitation: true}, Tool: tool})
						what := fmt.Sprintf("%s, %s, %s, %s of %s", a.name, approval, sandbox, mode, from)
						if d.Verdict != want {
							t.Errorf("%s: %s (%s), want %s", what, d.Verdict, d.Reason, want)
						}
						if d.Verdict == Ask && (d.Tool != (applies == Auto) || d.Once == d.Tool) {
							t.Errorf("%s: an approval is for %+v", what, d)
						}
						if d.Verdict != Forbid && strings.Contains(d.Reason, "the sandbox confines it") {
							t.Errorf("%s: %q", what, d.Reason)
						}
					}
				}
			}
		}
	}
	// One action that asks is enough, and a command or a file beside it is still decided on as such.
	both := []contract.Effect{contract.ServiceEffect{Service: "a", Action: "list", ReadOnly: yes}, contract.ServiceEffect{Service: "b", Action: "drop"}}
	r := Request{Approval: OnRequest, Sandbox: "workspace-write", Effects: both, Tool: &Tool{Plugin: "mcp", Name: "x", Mode: Auto}, Writable: func(string) bool { return true }}
	if d := Decide(r); d.Verdict != Ask {
		t.Errorf("a second action: %+v", d)
	}
	r.Effects = append(both[:1:1], contract.ExecEffect{Argv: []string{"rm", "-rf", "/"}, Cwd: "/ws"})
	if d := Decide(r); d.Verdict != Ask || d.Tool {
		t.Errorf("a command beside an action: %+v", d)
	}
	r.Effects, r.Approval = append(both[:1:1], contract.WriteEffect{Paths: []string{"/ws/a"}}), Untrusted
	if d := Decide(r); d.Verdict != Ask {
		t.Errorf("a file beside an action, untrusted: %+v", d)
	}
}

// An approval of a tool covers neither leaving the sandbox nor commands and files outside of it.
func TestApprovedToolsStayInTheSandbox(t *testing.T) {
	t.Parallel()
	tool := &Tool{Plugin: "db", Name: "query", Names: []string{"query"}, Mode: Approve}
	for name, r := range map[string]Request{
		"an escalation":         {Escalation: &contract.Escalation{Unsandboxed: true}, Effects: []contract.Effect{contract.OtherEffect{}}},
		"a destructive command": {Effects: []contract.Effect{contract.ExecEffect{Argv: []string{"rm", "-rf", "/"}, Cwd: "/ws"}}},
		"a file outside":        {Effects: []contract.Effect{contract.WriteEffect{Paths: []string{"/out"}}, contract.OtherEffect{}}},
	} {
		r.Approval, r.Sandbox, r.Tool, r.Writable = OnRequest, "workspace-write", tool, func(p string) bool { return p != "/out" }
		if d := Decide(r); d.Verdict != Ask || d.Tool {
			t.Errorf("%s: %+v", name, d)
		}
	}
}

// The strictest rule for a tool applies; a rule with a descriptor applies only to that descriptor.
func TestToolRules(t *testing.T) {
	t.Parallel()
	set, err := rules.Load([]rules.Source{{Path: "my.rules", Text: rules.ToolLine("db", "query", "d1") + "\n" +
		`tool_rule(plugin="db", tool="del_*", decision="prompt")` + "\n" + `tool_rule(plugin="db", tool="del_all", decision="forbidden")` + "\n" +
		`tool_rule(plugin="db", tool="del_one")` + "\n"}})
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		plugin, tool, descriptor string
		mode                     Mode
		builtIn                  bool
		want                     Verdict
	}{
		{"db", "query", "d1", Auto, false, Run}, {"db", "query", "d2", Auto, false, Ask}, {"other", "query", "d1", Auto, false, Ask},
		{"db", "query", "d1", Prompt, false, Ask}, {"db", "query", "d1", Deny, false, Forbid},
		{"db", "del_x", "d1", Auto, false, Ask}, {"db", "del_x", "d1", Approve, false, Ask}, {"db", "del_all", "d1", Approve, false, Forbid},
		{"db", "del_one", "d1", Auto, false, Ask}, {"db", "del_x", "d1", Auto, true, Ask}, {"db", "query", "d2", Auto, true, Run},
	} {
		d := Decide(Request{Approval: OnRequest, Sandbox: "workspace-write", Effects: []contract.Effect{contract.OtherEffect{Label: "x"}}, Rules: set,
			Tool: &Tool{Plugin: tc.plugin, Name: tc.tool, Names: []string{tc.tool}, Descriptor: tc.descriptor, Mode: tc.mode, BuiltIn: tc.builtIn}})
		if d.Verdict != tc.want {
			t.Errorf("%+v: %s (%s)", tc, d.Verdict, d.Reason)
		}
	}
	for _, bad := range []string{`tool_rule(plugin="", tool="x")`, `tool_rule(plugin="p", tool="")`, `tool_rule(plugin="p", tool="[")`, `tool_rule(plugin="p", tool="x", decision="deny")`, `tool_rule(tool="x")`} {
		if _, err := rules.Load([]rules.Source{{Path: "bad.rules", Text: bad}}); err == nil {
			t.Errorf("%s is taken", bad)
		}
	}
}

func TestToolReaches(t *testing.T) {
	t.Parallel()
	pattern := func(text string) hosts.Pattern {
		p, err := hosts.ParsePattern(text)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	some := &Tool{Hosts: []hosts.Pattern{pattern("a.test"), pattern("b.test:443")}}
	for e, want := range map[contract.NetworkEffect]bool{
		{Host: "A.test"}: true, {Host: "a.test", Port: 80}: true, {Host: "b.test", Port: 443}: true, {Host: "b.test", Port: 80}: false,
		{Host: "b.test"}: false, {Host: "c.test"}: false, {Host: "b.test", Port: 443 + 1<<16}: false, {Host: EveryHost}: false,
	} {
		if got := some.Reaches(e); got != want {
			t.Errorf("%+v: %v", e, got)
		}
		if !(&Tool{Online: true}).Reaches(e) {
			t.Errorf("%+v: not reached with the whole network", e)
		}
		r := Request{Approval: OnRequest, Sandbox: "workspace-write", Effects: []contract.Effect{e}, Tool: some}
		some.Mode = Auto
		if got := Decide(r).Verdict; (got == Run) != want {
			t.Errorf("%+v: %v", e, got)
		}
	}
}

// The strictest rule for an action of a service applies. What one plugin is allowed is not allowed to another that gives its service the
// same name, and what was allowed under a digest is asked about under another one. Restrictions apply to every plugin.
func TestActionRules(t *testing.T) {
	t.Parallel()
	of := func(action string) rules.Action {
		return rules.Action{Plugin: "mcp", Descriptor: "d1", Service: "github", Name: action}
	}
	set, err := rules.Load([]rules.Source{{Path: "my.rules", Text: rules.ActionLine(of("create_issue")) + "\n" + rules.ActionLine(of(`a*b\\?[c] "d"`)) + "\n" +
		`tool_rule(service="github", tool="get_*")` + "\n" + `tool_rule(service="github", tool="del*", decision="prompt", justification="it is for good")` + "\n" +
		`tool_rule(service="github", tool="delete/all", decision="forbidden", justification="not here")` + "\n" + `tool_rule(plugin="mcp", service="jira", tool="*")` + "\n" +
		`tool_rule(plugin="mcp", tool="closed", decision="forbidden")`}})
	if err != nil {
		t.Fatal(err)
	}
	yes := true
	for _, tc := range []struct {
		plugin, digest, service, action string
		mode                            Mode
		said                            string // by the plugin's configuration
		builtIn                         bool
		want                            Verdict
	}{
		{"mcp", "d1", "github", "create_issue", Auto, "", false, Run}, {"mcp", "d2", "github", "create_issue", Auto, "", false, Ask},
		{"other", "d1", "github", "create_issue", Auto, "", false, Ask}, {"mcp", "d1", "gitlab", "create_issue", Auto, "", false, Ask},
		{"mcp", "d1", "github", "create_issues", Auto, "", false, Ask}, {"mcp", "d1", "github", "create_issue", Prompt, "", false, Ask}, {"mcp", "d1", "github", "create_issue", Auto, "prompt", true, Ask},
		{"mcp", "d1", "github", "create_issue", Deny, "", false, Forbid},
		{"mcp", "d1", "github", `a*b\\?[c] "d"`, Auto, "", false, Run}, {"mcp", "d1", "github", `axb\\?[c] "d"`, Auto, "", false, Ask},
		{"mcp", "d9", "github", "get_me", Auto, "", true, Run}, {"mcp", "d9", "github", "get_me", Auto, "", false, Ask},
		{"any", "d9", "github", "delete/one", Approve, "approve", true, Ask}, {"any", "d9", "github", "delete/all", Approve, "approve", true, Forbid},
		{"mcp", "d9", "jira", "make/it", Auto, "", false, Run}, {"other", "d9", "jira", "make/it", Auto, "", true, Ask},
	} {
		effect := contract.ServiceEffect{Service: tc.service, Action: tc.action, Destructive: &yes, Approval: tc.said}
		r := Request{Approval: OnRequest, Sandbox: "workspace-write", Effects: []contract.Effect{effect}, Rules: set,
			Tool: &Tool{Plugin: tc.plugin, Name: "call", Names: []string{"call"}, Descriptor: tc.digest, Mode: tc.mode, BuiltIn: tc.builtIn}}
		d := Decide(r)
		if d.Verdict != tc.want {
			t.Errorf("%+v: %s (%s)", tc, d.Verdict, d.Reason)
		}
		if r.RulesErr = errors.New("a file is broken"); tc.want == Run && Decide(r).Verdict != Ask {
			t.Errorf("%+v: it runs although the rules can't be read", tc)
		}
	}
	// Each of several actions needs its rule, and an effect of another kind is not covered.
	allowed := contract.ServiceEffect{Service: "github", Action: "create_issue"}
	r := Request{Approval: OnRequest, Sandbox: "workspace-write", Rules: set, Tool: &Tool{Plugin: "mcp", Name: "call", Names: []string{"call"}, Descriptor: "d1", Mode: Auto}}
	for what, second := range map[string]contract.Effect{"another action": contract.ServiceEffect{Service: "github", Action: "merge"}, "another effect": contract.OtherEffect{Label: "x"}} {
		if r.Effects = []contract.Effect{allowed, second}; Decide(r).Verdict != Ask {
			t.Errorf("%s: %+v", what, Decide(r))
		}
	}
	if r.Effects = []contract.Effect{allowed}; !strings.Contains(Decide(r).Reason, "a rule allows that (my.rules:1)") {
		t.Errorf("why it runs: %s", Decide(r).Reason)
	}
	if r.Effects = []contract.Effect{contract.ServiceEffect{Service: "github", Action: "delete/all"}}; !strings.Contains(Decide(r).Reason, "my.rules:5): not here") {
		t.Errorf("why it is refused: %s", Decide(r).Reason)
	}
	if r.Tool.Names = []string{"closed"}; Decide(Request{Effects: []contract.Effect{allowed}, Tool: r.Tool, Rules: set, Approval: OnRequest}).Verdict != Forbid {
		t.Error("a rule for the tool does not refuse its actions")
	}
}
