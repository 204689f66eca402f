package codex

import (
	"reflect"
	"strings"
	"testing"
)

func TestTranslate(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		given string // separated by spaces
		want  Overrides
	}{
		{"", Overrides{}},
		{`approval.policy=never model.default.reasoning="high"`, Overrides{Sets: []string{"approval.policy=never", `model.default.reasoning="high"`}}},
		{`approval_policy="never"`, Overrides{Sets: []string{"approval.policy=never"}}},
		{"approval_policy=on-failure", Overrides{Sets: []string{"approval.policy=on-request"}}},
		{"sandbox_mode='danger-full-access'", Overrides{Sets: []string{"sandbox.mode=full-access"}}},
		{"sandbox_mode=read-only", Overrides{Sets: []string{"sandbox.mode=read-only"}}},
		{"sandbox_workspace_write.network_access=true", Overrides{Sets: []string{"sandbox.network=true"}}},
		{`sandbox_workspace_write.writable_roots=["/a","/b"]`, Overrides{Sets: []string{`sandbox.writable_roots=["/a","/b"]`}}},
		{`shell_environment_policy.inherit=core shell_environment_policy.ignore_default_excludes=true shell_environment_policy.set.A="b"`,
			Overrides{Sets: []string{"environment.inherit=core", "environment.default_excludes=false", `environment.set.A="b"`}}},
		{`shell_environment_policy.exclude=["AWS_*"] shell_environment_policy.include_only=["P*"]`,
			Overrides{Sets: []string{`environment.exclude=["AWS_*"]`, `environment.include_only=["P*"]`}}},
		{`openai_base_url="http://127.0.0.1:1/v1"`, Overrides{Sets: []string{`provider.openai.base_url="http://127.0.0.1:1/v1"`}}},
		{`compact_prompt='say_${what}_and_"more"'`, Overrides{Sets: []string{`history.compact_prompt="say_$${what}_and_\"more\""`}}},
		{`model="gpt-x"`, Overrides{Model: "gpt-x"}},
		{`model=gpt-x model_provider=ours`, Overrides{Model: "ours/gpt-x"}},
		{`profile=ci model_reasoning_effort="high" model_context_window=1000`, Overrides{Profile: "ci", Reasoning: "high", Window: 1000}},
		{`web_search="live"`, Overrides{Search: new(true)}},
		{`web_search="disabled"`, Overrides{Search: new(false)}},
		{"features.web_search_request=true", Overrides{Search: new(true)}},
		{"hide_agent_reasoning=true tui.theme=dark history.persistence=none", Overrides{}},
		{"mcp_servers.x.command=y experimental_thing=1 features.shiny=true", Overrides{Left: []string{"mcp_servers.x.command", "experimental_thing", "features.shiny"}}},
		{"features.shell_tool=false features.shiny=false", Overrides{Sets: []string{"plugin.shell.enabled=false"}}},
		{"no-value nothing.of.ours=1", Overrides{Sets: []string{"no-value", "nothing.of.ours=1"}}},
		// Later ones count, as gantry's own do.
		{"model=a model=b approval_policy=never approval.policy=untrusted", Overrides{Model: "b", Sets: []string{"approval.policy=never", "approval.policy=untrusted"}}},
	} {
		got, err := Translate(strings.Fields(c.given))
		if err != nil || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s:\n got %+v, %v\nwant %+v", c.given, got, err, c.want)
		}
	}
	for _, wrong := range []string{
		"approval_policy=always", "sandbox_mode=open", "web_search=perhaps", "tools.web_search=2", "model_context_window=-1", "model_provider=ours",
	} {
		if _, err := Translate([]string{wrong}); err == nil || !strings.Contains(err.Error(), "; next: ") {
			t.Errorf("%s: %v, want an error with a next step", wrong, err)
		}
	}
}

// The SDKs say --config where gantry's own flag names a file.
func TestAssigns(t *testing.T) {
	t.Parallel()
	for arg, want := range map[string]bool{
		`approval_policy="never"`: true, "sandbox_workspace_write.network_access=true": true, `a."b.c".d=1`: true, "model=a/b=c": true,
		"gantry.hcl": false, "./a=b.hcl": false, "/etc/x=y": false, "=x": false, "": false, "dir/a=b": false, "a=b.hcl": true,
	} {
		if got := Assigns(arg); got != want {
			t.Errorf("Assigns(%q) = %v", arg, got)
		}
	}
}
