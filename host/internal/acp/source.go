package acp

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	acp "github.com/coder/acp-go-sdk"
	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/hub"
)

// maxPromptCommands is how many prompts of sources editors are offered.
const maxPromptCommands = 256

// offers notes the prompts of a source, such as an MCP server. It reports whether they have changed.
func (s *session) offers(b event.SourceChanged) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.IndexFunc(s.sources, func(o event.SourceChanged) bool { return o.Plugin == b.Plugin && o.Source == b.Source })
	switch {
	case i >= 0 && reflect.DeepEqual(s.sources[i].Prompts, b.Prompts):
		return false
	case i >= 0 && len(b.Prompts) == 0:
		s.sources = slices.Delete(s.sources, i, i+1)
	case i >= 0:
		s.sources[i] = b
	case len(b.Prompts) == 0:
		return false
	default:
		s.sources = append(s.sources, b)
		slices.SortFunc(s.sources, func(a, b event.SourceChanged) int {
			return strings.Compare(a.Source+"\x00"+a.Plugin, b.Source+"\x00"+b.Plugin)
		})
	}
	return true
}

// promptCommand is the slash command of a prompt: the source and the prompt, without spaces.
func promptCommand(source, prompt string) string {
	return strings.Join(strings.Fields(source+":"+prompt), "-")
}

// commands are the slash commands that the editor is offered: gantry's and the prompts of sources.
func (s *session) commands() []acp.AvailableCommand {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := commands()
	for _, b := range s.sources {
		for _, p := range b.Prompts {
			if len(out) == maxPromptCommands {
				return out
			}
			about := strings.Join(strings.Fields(p.Description), " ")
			if about == "" {
				about = p.Title
			}
			c := acp.AvailableCommand{Name: promptCommand(b.Source, p.Name), Description: fmt.Sprintf("Prompt of %s: %s", b.Source, about)}
			var args []string
			for _, a := range p.Arguments {
				if a.Required {
					args = append(args, "<"+a.Name+">")
				} else {
					args = append(args, "["+a.Name+"]")
				}
			}
			if len(args) > 0 {
				c.Input = &acp.AvailableCommandInput{Unstructured: &acp.UnstructuredCommandInput{Hint: strings.Join(args, " ")}}
			}
			out = append(out, c)
		}
	}
	return out
}

// filledIn replaces a slash command of a prompt by the prompt's messages, marked as the source's. Other input stays as it is.
func (s *session) filledIn(ctx context.Context, in hub.Input) (hub.Input, error) {
	text, ok := strings.CutPrefix(strings.TrimSpace(textOf(in)), "/")
	if !ok || len(in.Parts) != 1 {
		return in, nil
	}
	name, rest, _ := strings.Cut(text, " ")
	b, p, ok := s.promptOf(name)
	if !ok {
		return in, nil
	}
	input, err := json.Marshal(map[string]any{"server": b.Source, "name": p.Name, "arg": promptArguments(p, rest)})
	if err != nil {
		return in, err
	}
	raw, err := s.thread.RunCommand(ctx, hub.PluginCommand{Plugin: b.Plugin, Name: "prompt", Input: input})
	if err != nil {
		return in, fmt.Errorf("/%s: %w", name, err)
	}
	return promptInput(b.Source, p.Name, raw)
}

// promptOf finds a prompt by its slash command.
func (s *session) promptOf(command string) (event.SourceChanged, event.SourcePrompt, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, b := range s.sources {
		for _, p := range b.Prompts {
			if promptCommand(b.Source, p.Name) == command {
				return b, p, true
			}
		}
	}
	return event.SourceChanged{}, event.SourcePrompt{}, false
}

// promptArguments are the words after a slash command, one for each argument; the last argument gets the rest.
func promptArguments(p event.SourcePrompt, rest string) map[string]string {
	out := map[string]string{}
	for i, a := range p.Arguments {
		var value string
		if rest = strings.TrimSpace(rest); i == len(p.Arguments)-1 {
			value = rest
		} else {
			value, rest, _ = strings.Cut(rest, " ")
		}
		if value != "" {
			out[a.Name] = value
		}
	}
	return out
}

// promptInput converts the messages of a prompt, whose content has the form of a prompt's blocks. Messages in the model's name are shown as
// the source's text, since the model has not said so.
func promptInput(source, prompt string, raw json.RawMessage) (hub.Input, error) {
	var filled struct {
		Messages []struct {
			Role    string
			Content json.RawMessage
		}
	}
	if err := json.Unmarshal(raw, &filled); err != nil {
		return hub.Input{}, fmt.Errorf("the prompt %q of %q: %w", prompt, source, err)
	}
	text := func(s string) json.RawMessage {
		b, _ := json.Marshal(acp.TextBlock(s)) // a text can be encoded
		return b
	}
	blocks := []json.RawMessage{text(fmt.Sprintf("The prompt %q of %q:\n", prompt, source))}
	for _, m := range filled.Messages {
		if len(filled.Messages) > 1 {
			blocks = append(blocks, text(fmt.Sprintf("\n[%s]\n", m.Role)))
		}
		blocks = append(blocks, m.Content)
	}
	in, err := input(blocks)
	if err != nil {
		return hub.Input{}, fmt.Errorf("the prompt %q of %q: %w", prompt, source, err)
	}
	return in, nil
}
