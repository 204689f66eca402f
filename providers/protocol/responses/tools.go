package responses

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/gantry-agent/gantry/providers/protocol"
	"github.com/gantry-agent/gantry/sdk/llm"
)

type functionTool struct {
	Type        string          `json:"type"`
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Parameters  json.RawMessage `json:"parameters"`
	Strict      *bool           `json:"strict,omitempty"`
	// DeferLoading is set for a tool that a search found.
	DeferLoading bool `json:"defer_loading,omitempty"`
}

type customTool struct {
	Type        string     `json:"type"`
	Name        string     `json:"name"`
	Description string     `json:"description,omitempty"`
	Format      toolFormat `json:"format"`
}

type toolFormat struct {
	Type       string `json:"type"` // "grammar", "text"
	Syntax     string `json:"syntax,omitempty"`
	Definition string `json:"definition,omitempty"`
}

type namespaceTool struct {
	Type        string `json:"type"`
	Name        string `json:"name"`
	Description string `json:"description"`
	Tools       []any  `json:"tools"`
}

type namedChoice struct {
	Type string `json:"type"`
	Name string `json:"name,omitempty"`
}

// nativeFreeform reports whether the model supports grammar tools natively.
func nativeFreeform(r *protocol.Request) bool { return r.Model.Freeform }

// wireName returns the names for a function: with its namespace if the vendor groups tools and both names are valid, otherwise a
// flat name. Grammar tools always have flat names, because vendors only group functions.
func wireName(r *protocol.Request, namespace, name string, freeform bool) (wireNamespace, flat string) {
	if namespace != "" && !freeform && (r.Model.Compat.NativeNamespaces || offersSearch(r)) &&
		protocol.WireName("", namespace) == namespace && protocol.WireName("", name) == name {
		return namespace, name
	}
	return "", protocol.WireName(namespace, name)
}

func toolsOf(r *protocol.Request, opts *Options) ([]any, error) {
	var out []any
	groups := map[string]*namespaceTool{}
	for _, t := range r.Tools {
		if t.Search && searches(r) {
			out = append(out, searchToolOf(t))
			continue
		}
		native := t.Freeform != nil && nativeFreeform(r)
		namespace, name := wireName(r, t.Namespace, t.Name, native)
		var tool any
		if native {
			tool = customTool{Type: "custom", Name: name, Description: t.Description, Format: formatOf(t.Freeform)}
		} else {
			tool = functionOf(r, t, name)
		}
		if namespace == "" {
			out = append(out, tool)
			continue
		}
		g := groups[namespace]
		if g == nil {
			g = &namespaceTool{Type: "namespace", Name: namespace, Description: describes(r, namespace)}
			groups[namespace] = g
			out = append(out, g)
		}
		g.Tools = append(g.Tools, tool)
	}
	for _, kind := range r.HostedTools {
		tool, err := hostedTool(kind, opts.HostedTools[kind])
		if err != nil {
			return nil, err
		}
		out = append(out, tool)
	}
	return out, nil
}

// describes returns the description of a namespace, which the format requires.
func describes(r *protocol.Request, namespace string) string {
	return cmp.Or(r.Namespaces[namespace], "The tools of "+namespace+".")
}

func formatOf(f *llm.Freeform) toolFormat {
	if f.Syntax == "" {
		return toolFormat{Type: "text"}
	}
	return toolFormat{Type: "grammar", Syntax: f.Syntax, Definition: f.Definition}
}

func functionOf(r *protocol.Request, t llm.Tool, name string) functionTool {
	out := functionTool{Type: "function", Name: name, Description: t.Description}
	if t.Freeform != nil {
		out.Parameters = protocol.FreeformSchema(&t)
	} else {
		out.Parameters = protocol.Sanitised(t.InputSchema, r.Model.Compat.Sanitizer)
	}
	if !r.Model.Compat.NoStrict {
		// Always sent: the vendor's default is true.
		out.Strict = &t.Strict
	}
	return out
}

// hostedSettings are required settings of hosted tools with their defaults, if any.
var hostedSettings = map[string]struct{ key, standard string }{
	"code_interpreter": {"container", `{"type":"auto"}`},
	"file_search":      {"vector_store_ids", ""},
	"mcp":              {"server_label", ""},
}

// hostedTool returns a tool that the vendor runs, with its settings.
func hostedTool(kind string, settings json.RawMessage) (json.RawMessage, error) {
	what := fmt.Sprintf("hosted_tools: %s", kind)
	if len(settings) == 0 {
		settings = json.RawMessage("{}")
	}
	if kind == "web_search" {
		var w WebSearch
		if err := protocol.DecodeStrictly(settings, &w, what); err != nil {
			return nil, err
		}
		if w.UserLocation != nil && w.UserLocation.Type == "" {
			w.UserLocation.Type = "approximate"
		}
		b, err := protocol.Encode(w)
		if err != nil {
			return nil, protocol.Invalid("", "%s: %v", what, err)
		}
		settings = b
	}
	var keys map[string]json.RawMessage
	if err := json.Unmarshal(settings, &keys); err != nil || keys == nil {
		return nil, protocol.Invalid("", "%s: a JSON object is needed", what)
	}
	if need := hostedSettings[kind]; need.key != "" && keys[need.key] == nil {
		if need.standard == "" {
			return nil, protocol.Invalid("set it under hosted_tools in the provider options, or don't offer the tool",
				"the hosted tool %s can't run without the setting %q", kind, need.key)
		}
		keys[need.key] = json.RawMessage(need.standard)
		b, err := protocol.Encode(keys)
		if err != nil {
			return nil, protocol.Invalid("", "%s: %v", what, err)
		}
		settings = b
	}
	return withType(kind, settings), nil
}

// withType adds a type as the first field of an object.
func withType(kind string, object json.RawMessage) json.RawMessage {
	name, _ := protocol.Encode(kind) // cannot fail for a string
	fields := bytes.TrimSpace(bytes.TrimPrefix(bytes.TrimSpace(object), []byte("{")))
	sep := ","
	if len(fields) == 1 { // only the closing brace
		sep = ""
	}
	return fmt.Appendf(nil, `{"type":%s%s%s`, name, sep, fields)
}

func toolChoiceOf(r *protocol.Request) (any, error) {
	switch c := r.ToolChoice; c.Mode {
	case "", "auto":
		return "auto", nil
	case "none", "required":
		return c.Mode, nil
	case "tool":
		if t := r.ChosenTool(); t != nil {
			native := t.Freeform != nil && nativeFreeform(r)
			_, name := wireName(r, t.Namespace, t.Name, native)
			if native {
				return namedChoice{Type: "custom", Name: name}, nil
			}
			return namedChoice{Type: "function", Name: name}, nil
		}
		if slices.Contains(r.HostedTools, c.Name) {
			return namedChoice{Type: c.Name}, nil
		}
	}
	return nil, r.InvalidChoice()
}
