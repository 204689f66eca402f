package call

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/gantry-agent/gantry/plugins/mcp/internal/catalog"
	"github.com/gantry-agent/gantry/sdk/tool"
)

// maxQuestion bounds the text of a server's question, in bytes.
const maxQuestion = 4 << 10

// Answers of a question without a form.
const (
	accept  = "accept"
	decline = "decline"
)

// Elicit passes a server's question on to ask, which is [tool.Call.Ask]. The question names the server, so that it can't pass for one of
// gantry's.
func Elicit(ctx context.Context, server string, p *mcp.ElicitParams, ask func(context.Context, tool.Question) (tool.Answer, error)) (*mcp.ElicitResult, error) {
	q := tool.Question{Source: catalog.Line(server, 64), Title: fmt.Sprintf("The MCP server %q asks", catalog.Line(server, 64)), Message: catalog.Text(p.Message, maxQuestion)}
	form := false
	switch p.Mode {
	case "", "form":
		schema, err := json.Marshal(p.RequestedSchema)
		if err != nil {
			return nil, err
		}
		var object struct {
			Properties map[string]json.RawMessage `json:"properties"`
		}
		if err := json.Unmarshal(schema, &object); err != nil {
			return nil, fmt.Errorf("the form is not a JSON Schema of an object: %w", err)
		}
		if form = len(object.Properties) > 0; form {
			q.FormSchema = schema
		} else {
			q.Options = []string{accept, decline}
		}
	case "url":
		if u, err := url.Parse(p.URL); err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.User != nil { // https://bank.example@evil.example leads to the latter
			return nil, fmt.Errorf("%q is not an address that could be opened", catalog.Line(p.URL, 200))
		}
		q.URL = p.URL
	default:
		return nil, fmt.Errorf("questions of the kind %q are not known", catalog.Line(p.Mode, 40))
	}
	a, err := ask(ctx, q)
	if err != nil {
		return nil, err
	}
	out := &mcp.ElicitResult{Action: accept}
	var choice string
	switch {
	case a.Declined:
		out.Action = decline
	case a.Cancelled, a.Dismissed:
		out.Action = "cancel"
	case form:
		if err := json.Unmarshal(a.JSON, &out.Content); err != nil {
			return nil, fmt.Errorf("the answer is not a JSON object: %w", err)
		}
	case q.URL == "" && json.Unmarshal(a.JSON, &choice) == nil && choice != accept:
		out.Action = decline
	case q.URL == "":
		out.Content = map[string]any{}
	}
	return out, nil
}
