package protocol

import "github.com/gantry-agent/gantry/sdk/llm"

// Tool finds a tool that the request offers. Nil: it does not, as with a tool of an old call that is gone.
func (r *Request) Tool(namespace, name string) *llm.Tool {
	for i := range r.Tools {
		if t := &r.Tools[i]; t.Name == name && t.Namespace == namespace {
			return t
		}
	}
	return nil
}

// ChosenTool finds the tool that the request's choice names, by its own name or the one on the wire. Nil: it is not offered.
func (r *Request) ChosenTool() *llm.Tool {
	for i := range r.Tools {
		if t := &r.Tools[i]; t.Name == r.ToolChoice.Name || WireName(t.Namespace, t.Name) == r.ToolChoice.Name {
			return t
		}
	}
	return nil
}

// InvalidChoice is the error of a tool choice that names no tool of the request, or has a mode that there is not.
func (r *Request) InvalidChoice() *llm.Error {
	if c := r.ToolChoice; c.Mode != "tool" {
		return Invalid("use auto, none, required or tool", "unknown tool choice %q", c.Mode)
	}
	return Invalid("offer the tool or choose another", "the tool choice names %q, which the request does not offer", r.ToolChoice.Name)
}
