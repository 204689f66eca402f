package e2e_test

import (
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/e2e/rig"
	"github.com/gantry-agent/gantry/e2e/vendors"
)

// worked is a turn with a call in it, which is worth an account.
func worked() []vendors.Answer {
	return []vendors.Answer{
		{Calls: []vendors.Call{{Name: "exec_command", Args: map[string]any{"cmd": "echo one", "login": false}}}},
		{Text: "One." + strings.Repeat(" Lorem ipsum dolor.", 500)},
	}
}

// The account of a thread is asked for without tools, whatever the history speaks of. Each vendor has its own rule for that.
func TestVendorsAreAskedForAnAccount(t *testing.T) {
	t.Parallel()
	for vendor := range vendorBlocks {
		t.Run(vendor, func(t *testing.T) {
			t.Parallel()
			s := vendors.Start(t, vendor, append(worked(), vendors.Answer{Text: "So far so good."}, vendors.Answer{Text: "On we go."})...)
			r := rig.New(t, "")
			useVendor(r, vendor, s.URL)
			r.OK("exec", "work")
			r.OK("compact", "--last")
			r.OK("resume", "--last", "and now?")
			requests := s.Requests()
			if last := string(requests[len(requests)-1].Raw); !strings.Contains(last, "So far so good.") || strings.Contains(last, "Lorem ipsum") {
				t.Errorf("after the account the model saw\n%s", last)
			}
		})
	}
}

// Some services demand the list of tools wherever a history speaks of calls, others refuse one of nothing. One that nobody
// knows is asked with it, and, where it refuses that, without.
func TestAServiceThatRefusesAnEmptyListOfTools(t *testing.T) {
	t.Parallel()
	s := vendors.Start(t, "openai-chat", append(worked(),
		vendors.Answer{Raw: &vendors.Raw{Status: 400, Type: "application/json", Body: `{"error":{"message":"` + "`tools` must not be an empty array" + `","type":"BadRequestError","code":400}}`}},
		vendors.Answer{Text: "So far so good."})...)
	r := rig.New(t, "")
	useVendor(r, "openai-chat", s.URL)
	r.OK("exec", "work")
	r.OK("resume", "--last", "-c", "plugin.shell.enabled=false", "-c", "approval.additional_permissions=false", "-c", "interaction.plan=false", "-c", "agents.tools=none", "-c", "goals.enabled=false", "and without tools?")
	requests := s.Requests()
	if len(requests) != 4 {
		t.Fatalf("%d requests, want 4", len(requests))
	}
	if tools, ok := requests[2].Body["tools"].([]any); !ok || len(tools) != 0 {
		t.Errorf("first it is asked with the tools %v", requests[2].Body["tools"])
	}
	if tools, there := requests[3].Body["tools"]; there {
		t.Errorf("then it is asked with the tools %v", tools)
	}
}
