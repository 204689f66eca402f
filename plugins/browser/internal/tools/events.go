package tools

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/gantry-agent/gantry/plugins/browser/internal/script"
	"github.com/gantry-agent/gantry/sdk/contract"
	"github.com/gantry-agent/gantry/sdk/tool"
)

// structured is what code gets that calls a tool of the browser. Cells of Python report the events of all that they have called.
type structured struct {
	Text          string         `json:"text"`
	URL           string         `json:"url,omitempty"`
	BrowserEvents []script.Event `json:"browser_events"`
}

// reporting adds to the results of a handler what code gets, unless they have it.
func reporting[In any](handler func(context.Context, *tool.Call, In) (*tool.Result, error)) func(context.Context, *tool.Call, In) (*tool.Result, error) {
	return func(ctx context.Context, c *tool.Call, in In) (*tool.Result, error) {
		r, err := handler(ctx, c, in)
		if err != nil || r == nil || r.Structured != nil {
			return r, err
		}
		var texts []string
		for _, p := range r.Parts {
			if t, ok := p.(*contract.TextPart); ok {
				texts = append(texts, t.Text)
			}
		}
		out := structured{Text: strings.Join(texts, "\n"), BrowserEvents: []script.Event{}}
		if item, ok := r.Item.(*contract.BrowserItem); ok {
			out.URL = item.URL
			e := script.Event{Action: item.Action, URL: item.URL}
			if r.IsError {
				e.Error, _, _ = strings.Cut(out.Text, "\n")
			}
			out.BrowserEvents = append(out.BrowserEvents, e)
		}
		r.Structured, err = json.Marshal(out)
		return r, err
	}
}
