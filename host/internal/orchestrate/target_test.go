package orchestrate_test

import (
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/hosttool"
	"github.com/gantry-agent/gantry/host/internal/policy"
	"github.com/gantry-agent/gantry/host/internal/registry"
	"github.com/gantry-agent/gantry/sdk/contract"
)

// A call that stands for one of another tool passes the pipeline as that one. The model gets the result of the call that it wrote.
func TestCallsThatStandForOthers(t *testing.T) {
	deferred := assessed
	deferred.Exposure = contract.ExposureDeferred
	hidden := contract.Descriptor{Name: "secret", Exposure: contract.ExposureHidden, InputSchema: deferred.InputSchema}
	byCode := contract.Descriptor{Name: "coded", Nesting: contract.NestingOnly, InputSchema: deferred.InputSchema}
	for _, tc := range []struct{ name, input, ran, says string }{
		{"a tool", `{"name":"act","arguments":{"cmd":"ls"}}`, "act", ""},
		{"in the default namespace", `{"namespace":"functions","name":"act","arguments":{"cmd":"ls"}}`, "act", ""},
		{"a tool that is not there", `{"namespace":"cal","name":"create","arguments":{}}`, "", `there is no tool "create" in the namespace "cal"`},
		{"a hidden tool", `{"name":"secret","arguments":{}}`, "", `there is no tool "secret"`},
		{"a tool for code", `{"name":"coded","arguments":{}}`, "", "can only be called by code"},
		{"a host tool", `{"name":"request_permissions","arguments":{"permissions":{"network":{"enabled":true}}}}`, "", "there is no tool"},
		{"itself", `{"name":"tool_call","arguments":{"name":"act","arguments":{}}}`, "", "there is no tool"},
		{"wrong arguments", `{"name":"act","arguments":{"cmd":1}}`, "", "failed to parse function arguments: `cmd`"},
		{"no tool", `{"arguments":{"cmd":"ls"}}`, "", "failed to parse function arguments"},
		{"not JSON", `{"name`, "", "failed to parse function arguments"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := &bench{}
			w := newRequester(t, b, func(policy.Request) policy.Decision { return policy.Decision{Verdict: policy.Run} })
			reg := registry.New()
			if problems := reg.Set("p", contract.ToolSet{Tools: []contract.Descriptor{deferred, hidden, byCode}}); len(problems) > 0 {
				t.Fatal(problems)
			}
			w.tools = hosttool.Default().Extend(reg.Snapshot(), hosttool.Conditions{AdditionalPermissions: true, Approval: policy.OnRequest})
			a := w.do(t, "t1", "tool_call", tc.input)
			if a.Result.Name != "tool_call" || a.Result.ID != "c1" || !strings.Contains(text(a), tc.says) || (a.Outcome == event.OutcomeOK) != (tc.ran != "") {
				t.Errorf("%s, %+v, %q", a.Outcome, a.Result, text(a))
			}
			if ran := len(w.saw) == 1 && !w.saw[0].ReadOnly; ran != (tc.ran != "") {
				t.Errorf("the policy was asked about %+v", w.saw)
			}
		})
	}
}
