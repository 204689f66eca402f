package turn

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"strings"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/history"
	"github.com/gantry-agent/gantry/sdk/llm"
)

// maxHostedOutput limits how much output of a vendor's tool people are shown, in bytes.
const maxHostedOutput = 4 << 10

// hostedCall records a call that the vendor runs itself. People see it like any other call. It needs no approval: offering the
// tool was the decision.
func (a *answer) hostedCall(ctx context.Context, c llm.ToolCall) error {
	if err := a.flush(ctx); err != nil {
		return err
	}
	c.Metadata = a.markVendor(c.Metadata)
	item := event.Item{
		ID: event.NewItemID(), Type: event.ItemTool, Status: event.StatusInProgress, Call: event.CallID(c.ID), Plugin: a.model.Provider, Tool: c.Name,
	}
	if json.Valid([]byte(c.Input)) {
		item.Arguments = json.RawMessage(c.Input)
	}
	if c.Name == webSearch {
		item.Type, item.Query = event.ItemWebSearch, searchQuery(item.Arguments)
	}
	m := llm.Message{Role: llm.RoleAssistant, Parts: []llm.Part{&c}}
	if err := a.write(ctx, event.ItemStarted{Item: item}, event.HistoryAdded{Messages: []llm.Message{m}}); err != nil {
		return err
	}
	if a.hosted == nil {
		a.hosted = map[string]event.Item{}
	}
	if same, twice := a.hosted[c.ID]; twice { // some vendors use an id twice
		same.Status = event.StatusCompleted
		a.notice(ctx, event.ItemCompleted{Item: same})
	}
	a.hosted[c.ID] = item
	return nil
}

// webSearch is the contract's name for the web search that many vendors run.
const webSearch = "web_search"

// searchQuery returns what a web search looked for. Vendors use different fields; a call that opens a page has its URL.
func searchQuery(arguments json.RawMessage) string {
	var in struct {
		Query   string   `json:"query"`
		Queries []string `json:"queries"`
		URL     string   `json:"url"`
		Pattern string   `json:"pattern"`
	}
	if json.Unmarshal(arguments, &in) != nil {
		return ""
	}
	switch {
	case in.Query != "":
		return in.Query
	case len(in.Queries) > 0:
		return strings.Join(in.Queries, ", ")
	case in.Pattern != "":
		return fmt.Sprintf("%q in %s", in.Pattern, in.URL)
	}
	return in.URL
}

// hostedResult records the result of such a call.
func (a *answer) hostedResult(ctx context.Context, r llm.ToolResult) error {
	if err := a.flush(ctx); err != nil {
		return err
	}
	r.Metadata = a.markVendor(r.Metadata)
	m := llm.Message{Role: llm.RoleAssistant, Parts: []llm.Part{&r}}
	bodies := []event.Body{event.HistoryAdded{Messages: []llm.Message{m}}}
	item, open := a.hosted[r.ID]
	if open {
		item.Status = event.StatusCompleted
		if r.IsError {
			item.Status = event.StatusFailed
		}
		item.Output = history.Truncate(llm.Message{Parts: r.Content}.Text(), history.Policy{Bytes: true, Limit: maxHostedOutput})
		bodies = append(bodies, event.ItemCompleted{Item: item})
	}
	if err := a.write(ctx, bodies...); err != nil {
		return err
	}
	delete(a.hosted, r.ID)
	return nil
}

// closeHosted closes the items of calls without a result in this answer.
func (a *answer) closeHosted(ctx context.Context, status event.ItemStatus) {
	for _, item := range a.hosted {
		item.Status = status
		a.notice(context.WithoutCancel(ctx), event.ItemCompleted{Item: item})
	}
	clear(a.hosted)
}

// markVendor adds the vendor's namespace to the metadata of a hosted call or a thought, so that it is sent to no other vendor.
func (a *answer) markVendor(md llm.Metadata) llm.Metadata {
	ns := a.model.Row.MetadataNamespace
	if _, said := md[ns]; said || ns == "" {
		return md
	}
	out := maps.Clone(md)
	if out == nil {
		out = llm.Metadata{}
	}
	out[ns] = json.RawMessage("{}")
	return out
}
