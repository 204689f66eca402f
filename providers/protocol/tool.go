package protocol

import "github.com/gantry-agent/gantry/sdk/llm"

// Tool returns a tool of the request, or nil if it has none of this name, as for an old call of a tool that no longer exists.
func (r *Request) Tool(namespace, name string) *llm.Tool {
	for i := range r.Tools {
		if t := &r.Tools[i]; t.Name == name && t.Namespace == namespace {
			return t
		}
	}
	return nil
}

// ChosenTool returns the tool that the request's choice names, by its own name or its name on the wire, or nil if it is not
// offered.
func (r *Request) ChosenTool() *llm.Tool {
	for i := range r.Tools {
		if t := &r.Tools[i]; t.Name == r.ToolChoice.Name || WireName(t.Namespace, t.Name) == r.ToolChoice.Name {
			return t
		}
	}
	return nil
}

// InvalidChoice returns the error for a tool choice with an unknown tool or mode.
func (r *Request) InvalidChoice() *llm.Error {
	if c := r.ToolChoice; c.Mode != "tool" {
		return Invalid("use auto, none, required or tool", "unknown tool choice %q", c.Mode)
	}
	return Invalid("offer the tool or choose another", "the tool choice names %q, which the request does not offer", r.ToolChoice.Name)
}
