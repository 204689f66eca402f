package hosttool

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/gantry-agent/gantry/config/hint"
	"github.com/gantry-agent/gantry/host/internal/approval"
	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/orchestrate"
	"github.com/gantry-agent/gantry/host/internal/registry"
	"github.com/gantry-agent/gantry/sdk/contract"
)

// Client holds the tools that clients of a thread implement. Their calls become questions to these clients.
type Client struct {
	entries []*registry.Entry
	keep    Keep
}

// Keep stores the content of an image that a tool has returned.
type Keep func(ctx context.Context, mediaType string, data []byte) (contract.ArtifactRef, error)

// ClientToolError says which of a client's tools can't be used, and why.
type ClientToolError struct {
	Tool    string // with its namespace
	Problem error
}

// Error implements error.
func (e *ClientToolError) Error() string { return fmt.Sprintf("tool %q: %v", e.Tool, e.Problem) }

// Unwrap returns the problem.
func (e *ClientToolError) Unwrap() error { return e.Problem }

// NewClient returns the tools of a client. Each error is a [*ClientToolError]; the tools without errors can be used all the same.
func NewClient(specs []event.ClientTool, keep Keep) (*Client, error) {
	c := &Client{keep: keep}
	own := Default()
	seen := map[string]bool{}
	var problems []error
	for _, s := range specs {
		e, err := clientEntry(s)
		name := registry.FullName(s.Namespace, s.Name)
		if err == nil && seen[name] {
			err = errors.New("declared twice")
		}
		for i := range own {
			if d := own[i].Descriptor; err == nil && registry.FullName(d.Namespace, d.Name) == name {
				err = hint.New("gantry has a tool of this name", "rename it, or give it a namespace")
			}
		}
		if err != nil {
			problems = append(problems, &ClientToolError{name, err})
			continue
		}
		seen[name] = true
		c.entries = append(c.entries, e)
	}
	return c, errors.Join(problems...)
}

// clientEntry returns the entry of a tool. What it does is not known, so that it counts as an effect of its own kind.
func clientEntry(s event.ClientTool) (*registry.Entry, error) {
	e := &registry.Entry{Client: true, HostTool: LabelPrefix + "client:" + registry.FullName(s.Namespace, s.Name), Descriptor: contract.Descriptor{
		Namespace: s.Namespace, Name: s.Name, Description: s.Description, InputSchema: s.InputSchema, SearchText: s.About,
		Effects: []contract.Effect{contract.OtherEffect{Label: "what the client does with " + registry.FullName(s.Namespace, s.Name)}},
	}}
	if s.Deferred {
		e.Exposure = contract.ExposureDeferred
	}
	e.Schema = registry.Arguments(s.InputSchema, false)
	schema, err := e.Schema() // a client is told what is wrong before the thread starts
	if err != nil {
		return nil, err
	}
	if schema.Schema().Type != "object" {
		return nil, errors.New(`input schema: the type must be "object"`)
	}
	b, err := json.Marshal(s)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(b)
	e.Digest = hex.EncodeToString(sum[:])
	return e, nil
}

// Extend returns the catalogue with the client's tools. A tool with the name of another one is left out.
func (c *Client) Extend(others *registry.Snapshot) *registry.Snapshot {
	var entries []*registry.Entry
	for _, e := range c.entries {
		if _, ok := others.Lookup(e.Namespace, e.Name); !ok {
			entries = append(entries, e)
		}
	}
	return others.With(entries...)
}

// Hidden returns notices about the tools that [Client.Extend] leaves out.
func (c *Client) Hidden(others *registry.Snapshot) (out []event.Notice) {
	for _, e := range c.entries {
		if o, ok := others.Lookup(e.Namespace, e.Name); ok {
			out = append(out, event.Notice{
				Text: fmt.Sprintf("tool %q of the client is hidden by the one of plugin %q", e.FullName(), o.Plugin), Next: "give it a namespace in the client",
			})
		}
	}
	return out
}

// Tool finds the implementation of the tool with a label.
func (c *Client) Tool(label string) (orchestrate.HostTool, bool) {
	i := slices.IndexFunc(c.entries, func(e *registry.Entry) bool { return e.HostTool == label })
	if i < 0 {
		return orchestrate.HostTool{}, false
	}
	run := func(ctx context.Context, call *orchestrate.HostCall, in contract.Input) (*contract.Result, error) {
		return c.call(ctx, call, event.ToolCall{Namespace: c.entries[i].Namespace, Name: c.entries[i].Name, Arguments: in.Arguments})
	}
	return orchestrate.HostTool{Backend: Func(run).Backend}, true
}

// failedCall begins the result of a call that no client has run; codex-compatible.
const failedCall = "dynamic tool request failed"

// call has a client run a tool, and converts its answer.
func (c *Client) call(ctx context.Context, call *orchestrate.HostCall, tool event.ToolCall) (*contract.Result, error) {
	a, err := call.AskClients(ctx, tool)
	if errors.Is(err, approval.ErrNoApprover) {
		return contract.ErrorText(failedCall + ": no client that has the tool is connected"), nil
	}
	if err != nil {
		return nil, err
	}
	var answer event.ToolAnswer
	switch err := json.Unmarshal(a.Data, &answer); {
	case err != nil: // of a front end that refuses every question
		return contract.ErrorText(failedCall), nil
	case answer.Refused != "":
		return contract.ErrorText(failedCall + ": " + answer.Refused), nil
	}
	out := &contract.Result{IsError: !answer.Success}
	for _, part := range answer.Content {
		if part.MediaType == "" {
			out.Parts = append(out.Parts, &contract.TextPart{Text: part.Text})
			continue
		}
		ref, err := c.keep(ctx, part.MediaType, part.Data)
		if err != nil {
			return nil, fmt.Errorf("the image that the client returned can't be stored: %w", err)
		}
		call.Stored(ref)
		out.Parts = append(out.Parts, &contract.MediaPart{MediaType: part.MediaType, Artifact: ref.SHA256})
	}
	return out, nil
}
