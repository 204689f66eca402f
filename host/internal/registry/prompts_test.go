package registry

import (
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/sdk/contract"
)

// The prompts of a source are bounded in number and size, and their texts are safe to show.
func TestPromptsOfSources(t *testing.T) {
	long := strings.Repeat("x", 1<<20)
	args := make([]contract.SourcePromptArgument, 2*maxSourceArguments)
	for i := range args {
		args[i] = contract.SourcePromptArgument{Name: long, Title: long, Description: "a\u202e" + long, Required: true}
	}
	prompts := make([]contract.SourcePrompt, 2*maxSourcePrompts)
	for i := range prompts {
		prompts[i] = contract.SourcePrompt{Name: long, Title: "t\x1b", Description: long, Arguments: args}
	}
	r := New("p")
	r.Set("p", contract.ToolSet{Sources: []contract.Source{{Name: "s", Resources: true, Prompts: prompts}}})
	got := r.Sources()[0]
	if len(got.Prompts) != maxSourcePrompts || !got.Resources {
		t.Fatalf("%d prompts, resources %v", len(got.Prompts), got.Resources)
	}
	p := got.Prompts[maxSourcePrompts-1]
	if len(p.Name) > maxSourceTitle+3 || p.Title != "t\uFFFD" || len(p.Description) > maxPromptDescription+3 || len(p.Arguments) != maxSourceArguments {
		t.Errorf("%d bytes of name, title %q, %d of description, %d arguments", len(p.Name), p.Title, len(p.Description), len(p.Arguments))
	}
	a := p.Arguments[maxSourceArguments-1]
	if len(a.Name) > maxSourceTitle+3 || len(a.Title) > maxSourceTitle+3 || len(a.Description) > maxPromptDescription+6 || !strings.HasPrefix(a.Description, "a\uFFFD") || !a.Required {
		t.Errorf("%d, %d and %d bytes, %v", len(a.Name), len(a.Title), len(a.Description), a.Required)
	}
	if args[0].Name != long || prompts[0].Title != "t\x1b" {
		t.Error("the plugin's own lists have changed")
	}
}
