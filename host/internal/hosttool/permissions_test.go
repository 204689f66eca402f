package hosttool

import (
	"slices"
	"testing"

	"github.com/gantry-agent/gantry/host/internal/policy"
	"github.com/gantry-agent/gantry/sdk/llm"
)

// A thread that has the tool is always offered it, whatever its settings.
func TestWhoMayRequestPermissions(t *testing.T) {
	usual := Conditions{AdditionalPermissions: true, Approval: policy.OnRequest, Sandbox: "workspace-write"}
	for _, tc := range []struct {
		name   string
		change func(*Conditions)
		want   Offer
	}{
		{"on request", func(*Conditions) {}, Offered},
		{"untrusted", func(c *Conditions) { c.Approval = policy.Untrusted }, Offered},
		{"granular with such questions", func(c *Conditions) { c.Approval, c.GranularPermissions = policy.Granular, true }, Offered},
		{"granular without", func(c *Conditions) { c.Approval = policy.Granular }, Offered},
		{"never", func(c *Conditions) { c.Approval = policy.Never }, Offered},
		{"without a sandbox", func(c *Conditions) { c.Sandbox = policy.FullAccess }, Offered},
		{"turned off", func(c *Conditions) { c.AdditionalPermissions = false }, Absent},
		{"without a person", func(c *Conditions) { c.Unattended = true }, Absent},
	} {
		c := usual
		tc.change(&c)
		s := Default().Extend(snapshot(t, greet), c)
		e, ok := s.Lookup("", permissionsName)
		declared := slices.ContainsFunc(s.ModelTools(llm.ModelRow{}), func(t llm.Tool) bool { return t.Name == permissionsName })
		if ok != (tc.want != Absent) || declared != (tc.want == Offered) {
			t.Errorf("%s: in the catalogue %v, offered %v", tc.name, ok, declared)
		}
		if !ok {
			continue
		}
		if _, err := e.Parse(&llm.ToolCall{Input: `{"permissions":{"file_system":{"read":null},"network":null},"reason":null}`}); err != nil {
			t.Error(err)
		}
	}
}
