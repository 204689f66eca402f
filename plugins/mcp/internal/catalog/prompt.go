package catalog

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/gantry-agent/gantry/sdk/contract"
)

// Limits of a server's prompts.
const (
	MaxPrompts       = 256
	maxArguments     = 32
	maxPromptText    = 1 << 10   // of a description, in bytes
	maxPromptBytes   = 256 << 10 // of all texts of a server's prompts
	maxArgumentValue = 200       // of a proposed value, in bytes
	maxValues        = 100       // proposed at a time, as the protocol has it
)

// ListPrompts gets the prompts of a server, each once. Their texts are cleaned and bounded, except for names, which servers have to
// recognize. The problems are about prompts that are left out.
func ListPrompts(ctx context.Context, fetch Fetch) (prompts []contract.SourcePrompt, problems []error, err error) {
	seen := map[string]bool{}
	total, left := 0, 0
	err = Pages(ctx, "prompts", fetch, func(raw json.RawMessage) error {
		p, err := parsePrompt(raw)
		switch {
		case err != nil:
			problems = appendProblem(problems, err)
			return nil
		case seen[p.Name]:
			problems = appendProblem(problems, fmt.Errorf("the prompt %q is listed twice", Line(p.Name, maxName)))
			return nil
		}
		seen[p.Name] = true
		total += len(p.Name) + len(p.Title) + len(p.Description)
		for _, a := range p.Arguments {
			total += len(a.Name) + len(a.Title) + len(a.Description)
		}
		if len(prompts) == MaxPrompts || total > maxPromptBytes {
			if left++; left > MaxItems {
				return fmt.Errorf("the server has more than %d prompts", MaxPrompts+MaxItems)
			}
			return nil
		}
		prompts = append(prompts, p)
		return nil
	})
	if err != nil {
		return nil, nil, err
	}
	if left > 0 {
		problems = append(problems, fmt.Errorf("%d prompts are left out; %d prompts with texts of %d bytes are used at most", left, MaxPrompts, maxPromptBytes))
	}
	return prompts, problems, nil
}

// parsePrompt reads one element of the result of prompts/list. Members of a wrong type are ignored, except for names.
func parsePrompt(raw json.RawMessage) (contract.SourcePrompt, error) {
	type shown struct {
		Name        json.RawMessage `json:"name"`
		Title       json.RawMessage `json:"title"`
		Description json.RawMessage `json:"description"`
	}
	var wire struct {
		shown
		Arguments json.RawMessage `json:"arguments"`
	}
	if json.Unmarshal(raw, &wire) != nil {
		return contract.SourcePrompt{}, fmt.Errorf("a prompt is not a JSON object")
	}
	p := contract.SourcePrompt{Name: text(wire.Name), Title: Line(text(wire.Title), maxTitle), Description: Text(text(wire.Description), maxPromptText)}
	if err := plainName(p.Name); err != nil {
		return p, fmt.Errorf("the name of a prompt %w", err)
	}
	var arguments []struct {
		shown
		Required json.RawMessage `json:"required"`
	}
	if len(wire.Arguments) > 0 && json.Unmarshal(wire.Arguments, &arguments) != nil {
		return p, fmt.Errorf("the arguments of the prompt %q are not a list of objects", p.Name)
	}
	if len(arguments) > maxArguments {
		return p, fmt.Errorf("the prompt %q has %d arguments; the maximum is %d", p.Name, len(arguments), maxArguments)
	}
	for _, a := range arguments {
		name := text(a.Name)
		if err := plainName(name); err != nil {
			return p, fmt.Errorf("the name of an argument of the prompt %q %w", p.Name, err)
		}
		p.Arguments = append(p.Arguments, contract.SourcePromptArgument{
			Name: name, Title: Line(text(a.Title), maxTitle), Description: Text(text(a.Description), maxPromptText), Required: string(a.Required) == "true",
		})
	}
	return p, nil
}

// plainName returns an error if a name, which is passed on as it is, can't be shown as it is.
func plainName(name string) error {
	switch {
	case name == "" || len(name) > maxName:
		return fmt.Errorf("has %d bytes; 1 to %d are allowed", len(name), maxName)
	case Line(name, maxName) != name:
		return fmt.Errorf("has characters that can't be shown: %q", Line(name, maxName))
	}
	return nil
}

// Values cleans proposed values of an argument. Those that would not stay the same are left out.
func Values(values []string) []string {
	out := []string{}
	for _, v := range values {
		if len(out) < maxValues && Text(v, maxArgumentValue) == v && !strings.Contains(v, "\n") {
			out = append(out, v)
		}
	}
	return out
}
