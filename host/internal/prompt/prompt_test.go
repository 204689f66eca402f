package prompt

import (
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/sdk/llm"
)

func render(ms []llm.Message) string {
	var out []string
	for _, m := range ms {
		out = append(out, m.Role.String()+": "+m.Text())
	}
	return strings.Join(out, "\n")
}

func TestContextSaysOnlyWhatChanged(t *testing.T) {
	first := Facts{Cwd: "/w & x", Shell: "bash", Date: "2026-11-21", Timezone: "UTC", Approval: "never", Sandbox: "full-access"}
	got := render(Context(nil, first))
	for _, want := range []string{
		"system: <permissions instructions>", "user: <environment_context>\n  <cwd>/w &amp; x</cwd>\n  <shell>bash</shell>\n",
		"  <current_date>2026-11-21</current_date>\n  <timezone>UTC</timezone>\n</environment_context>",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("first context has no %q:\n%s", want, got)
		}
	}
	if got := Context(&first, first); len(got) != 0 {
		t.Errorf("nothing changed, but: %s", render(got))
	}
	next := first
	next.Date = "2026-11-22"
	if got := render(Context(&first, next)); got != "user: <environment_context>\n  <current_date>2026-11-22</current_date>\n</environment_context>" {
		t.Errorf("another day:\n%s", got)
	}
	next = first
	next.Approval = "untrusted"
	if got := render(Context(&first, next)); !strings.HasPrefix(got, "system: <permissions instructions>") || strings.Contains(got, "environment") {
		t.Errorf("another policy:\n%s", got)
	}
	next = first
	next.Contexts = "## browser: tabs\none"
	if got := render(Context(&first, next)); got != "system: <plugins_context>\n## browser: tabs\none\n</plugins_context>" {
		t.Errorf("a plugin's context:\n%s", got)
	}
}

func TestBaseNamesNoTool(t *testing.T) {
	for _, name := range []string{"exec_command", "apply_patch", "shell"} {
		if strings.Contains(Base(), name) {
			t.Errorf("the base instructions name %q; tools describe themselves", name)
		}
	}
}
