package responses

import (
	"encoding/json"
	"strings"

	"github.com/gantry-agent/gantry/providers/protocol"
	"github.com/gantry-agent/gantry/sdk/llm"
)

// A tool search has its own items: the model searches for tools by keywords and receives their declarations. It is run either by
// the client, like any other call, or by the vendor, whose items are sent back unchanged.

const (
	typeSearch       = "tool_search"
	typeSearchCall   = "tool_search_call"
	typeSearchOutput = "tool_search_output"
	byClient         = "client"
)

// searchName is the name of the vendor's own search, and of ours unless a tool of the request has another name.
const searchName = "tool_search"

type searchTool struct {
	Type        string          `json:"type"`
	Execution   string          `json:"execution"`
	Description string          `json:"description"`
	Parameters  json.RawMessage `json:"parameters"`
}

type searchCall struct {
	Type      string          `json:"type"`
	ID        string          `json:"id,omitempty"`
	CallID    string          `json:"call_id"`
	Execution string          `json:"execution"`
	Status    string          `json:"status"`
	Arguments json.RawMessage `json:"arguments"`
}

type searchOutput struct {
	Type      string `json:"type"`
	CallID    string `json:"call_id"`
	Status    string `json:"status"`
	Execution string `json:"execution"`
	Tools     []any  `json:"tools"`
}

// searches reports whether tool searches use the vendor's own form.
func searches(r *protocol.Request) bool { return r.Model.Search }

// offersSearch reports whether the request contains a tool search. In that case, tools are grouped by namespaces, under which the
// model calls those that were found.
func offersSearch(r *protocol.Request) bool {
	for _, t := range r.Tools {
		if t.Search && searches(r) {
			return true
		}
	}
	return false
}

// found returns the tools that searches in the history found.
func found(r *protocol.Request) []llm.Tool {
	var out []llm.Tool
	for _, m := range r.Messages {
		for _, p := range m.Parts {
			if res, ok := p.(*llm.ToolResult); ok {
				out = append(out, res.Tools...)
			}
		}
	}
	return out
}

func searchToolOf(t llm.Tool) searchTool {
	return searchTool{typeSearch, byClient, t.Description, t.InputSchema}
}

// clientSearch reports whether the client must run a search.
func (w *wireItem) clientSearch() bool {
	return w.Type == typeSearchCall && w.Execution == byClient && w.CallID != ""
}

// searched publishes a search for the client. Its arguments arrive complete.
func (d *decoder) searched(dst []llm.Event, it *item, raw json.RawMessage) []llm.Event {
	var w struct {
		CallID    string          `json:"call_id"`
		Arguments json.RawMessage `json:"arguments"`
	}
	if json.Unmarshal(raw, &w) != nil {
		return dst
	}
	name := searchName
	for _, t := range d.r.Tools {
		if t.Search {
			name = t.Name
		}
	}
	input := ""
	if known(w.Arguments) {
		input = strings.TrimSpace(words(w.Arguments)) // some vendors send a string, as for functions
	}
	return d.calls.Whole(dst, llm.ToolCall{ID: w.CallID, Name: name, Input: input, Search: true}, it.meta)
}

// searchedThere publishes the result of the vendor's own search as a separate pair: the item with the call precedes it.
func (d *decoder) searchedThere(dst []llm.Event, it *item, raw json.RawMessage) []llm.Event {
	var w struct {
		ID    string `json:"id"`
		Tools []struct {
			Name  string `json:"name"`
			Tools []struct {
				Name string `json:"name"`
			} `json:"tools"`
		} `json:"tools"`
	}
	if json.Unmarshal(raw, &w) != nil {
		return dst // from a later version; nothing depends on it
	}
	id := w.ID
	if id == "" {
		id = d.newID()
	}
	if d.calls.Used(id) {
		return dst
	}
	var names []string
	for _, t := range w.Tools {
		if len(t.Tools) == 0 {
			names = append(names, t.Name)
		}
		for _, inner := range t.Tools {
			names = append(names, t.Name+"."+inner.Name)
		}
	}
	text := "nothing was found"
	if len(names) > 0 {
		text = "found: " + strings.Join(names, ", ")
	}
	dst = d.calls.Whole(dst, llm.ToolCall{ID: id, Name: searchName, ProviderExecuted: true, Search: true}, it.meta)
	return append(dst, llm.ToolResultDone{Result: llm.ToolResult{
		ID: id, Name: searchName, Content: llm.Parts{&llm.Text{Text: text}}, ProviderExecuted: true, Search: true,
		Metadata: with(it.meta, "item", raw).Under(d.life.Namespace),
	}})
}

// search converts a search that the client ran.
func (l *lowering) search(c *llm.ToolCall) {
	args := json.RawMessage(c.Input)
	if !json.Valid(args) {
		args = json.RawMessage("{}")
	}
	l.searches[c.ID] = true
	l.add(searchCall{typeSearchCall, l.itemID(l.meta(c.Metadata).ItemID), callID(c.ID), byClient, "completed", args})
}

// searchResult converts its result, which only contains tools. The format has no errors.
func (l *lowering) searchResult(res *llm.ToolResult) {
	out := searchOutput{Type: typeSearchOutput, CallID: callID(res.ID), Status: "completed", Execution: byClient, Tools: []any{}}
	groups := map[string]*namespaceTool{}
	for _, t := range res.Tools {
		namespace, name := wireName(l.r, t.Namespace, t.Name, false)
		f := functionOf(l.r, t, name)
		f.DeferLoading = true
		if namespace == "" {
			out.Tools = append(out.Tools, f)
			continue
		}
		g := groups[namespace]
		if g == nil {
			g = &namespaceTool{Type: "namespace", Name: namespace, Description: describes(l.r, namespace)}
			groups[namespace] = g
			out.Tools = append(out.Tools, g)
		}
		g.Tools = append(g.Tools, f)
	}
	l.add(out)
}
