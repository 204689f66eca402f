package call

//lint:file-ignore SA1019 most servers are of versions that have sampling, roots and logs

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/gantry-agent/gantry/plugins/mcp/internal/catalog"
	"github.com/gantry-agent/gantry/sdk/llm"
	"github.com/gantry-agent/gantry/sdk/tool"
)

// Limits of what a person sees of a sampling request, in bytes.
const (
	maxSaid    = 1000 // of one message
	maxRequest = 8 << 10
)

// codeDeclined is the code of the error for a sampling request that is not answered, as the protocol has it.
const codeDeclined = -1

// maxStops is how many stop sequences are passed on.
const maxStops = 16

// Sample passes a server's request for a model's answer on to sample, which is [tool.Call.Sample], after ask, which is [tool.Call.Ask];
// nil: no one is asked. An error is for the server; it names what was wrong, but nothing of the model's provider.
func Sample(ctx context.Context, server string, p *mcp.CreateMessageWithToolsParams, ask func(context.Context, tool.Question) (tool.Answer, error),
	sample func(context.Context, *llm.Request) (*tool.Sampled, error),
) (*mcp.CreateMessageWithToolsResult, error) {
	req, err := request(p)
	if err != nil {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: err.Error()}
	}
	if ask != nil {
		a, err := ask(ctx, tool.Question{
			Source: catalog.Line(server, 64), Title: fmt.Sprintf("The MCP server %q wants to ask the model, at your expense", catalog.Line(server, 64)),
			Message: describe(req), Options: []string{allow, decline},
		})
		switch {
		case err != nil:
			return nil, err
		case a.Declined && a.Note != "":
			return nil, &jsonrpc.Error{Code: codeDeclined, Message: "the sampling request was declined: " + a.Note}
		case string(a.JSON) != `"`+allow+`"`:
			return nil, &jsonrpc.Error{Code: codeDeclined, Message: "the user declined the sampling request"}
		}
	}
	s, err := sample(ctx, req)
	if err != nil {
		reason := "it could not be reached"
		if e, ok := errors.AsType[*llm.Error](err); ok {
			reason = e.Code.String()
		}
		return nil, &jsonrpc.Error{Code: codeDeclined, Message: "the model did not answer the sampling request: " + reason}
	}
	out := &mcp.CreateMessageWithToolsResult{Role: "assistant", Model: s.Model, Content: []mcp.Content{&mcp.TextContent{Text: s.Message.Text()}}}
	switch s.Reason {
	case llm.FinishStop:
		out.StopReason = "endTurn"
	case llm.FinishLength:
		out.StopReason = "maxTokens"
	default:
		out.StopReason = s.Reason.String()
	}
	return out, nil
}

// allow is the option that answers a sampling request.
const allow = "allow"

// request converts a sampling request. The model is the thread's: hints and priorities are not followed, and no context of the thread is
// included.
func request(p *mcp.CreateMessageWithToolsParams) (*llm.Request, error) {
	switch {
	case len(p.Tools) > 0 || p.ToolChoice != nil && p.ToolChoice.Mode != "none":
		return nil, errors.New("sampling requests with tools are not supported; send the request without tools and toolChoice")
	case len(p.Messages) == 0:
		return nil, errors.New("the sampling request has no messages")
	case len(p.StopSequences) > maxStops:
		return nil, fmt.Errorf("the sampling request has %d stop sequences; the maximum is %d", len(p.StopSequences), maxStops)
	}
	r := &llm.Request{Generation: llm.Generation{Stop: p.StopSequences}}
	if p.SystemPrompt != "" {
		r.System = []string{catalog.Output(p.SystemPrompt)}
	}
	if p.MaxTokens > 0 {
		r.Generation.MaxTokens = &p.MaxTokens
	}
	if p.Temperature != 0 {
		r.Generation.Temperature = &p.Temperature
	}
	for i, m := range p.Messages {
		role, ok := map[mcp.Role]llm.Role{"user": llm.RoleUser, "assistant": llm.RoleAssistant}[m.Role]
		if !ok {
			return nil, fmt.Errorf("message %d has the role %q; it must be user or assistant", i+1, catalog.Line(string(m.Role), 40))
		}
		out := llm.Message{Role: role}
		for _, c := range m.Content {
			part, err := sampledPart(c)
			if err != nil {
				return nil, fmt.Errorf("message %d: %w", i+1, err)
			}
			out.Parts = append(out.Parts, part)
		}
		if len(out.Parts) == 0 {
			return nil, fmt.Errorf("message %d has no content", i+1)
		}
		r.Messages = append(r.Messages, out)
	}
	return r, nil
}

func sampledPart(c mcp.Content) (llm.Part, error) {
	switch c := c.(type) {
	case *mcp.TextContent:
		return &llm.Text{Text: catalog.Output(c.Text)}, nil
	case *mcp.ImageContent:
		return sampledMedia("image", c.MIMEType, c.Data)
	case *mcp.AudioContent:
		return sampledMedia("audio", c.MIMEType, c.Data)
	}
	return nil, errors.New("its content is neither text, an image nor audio")
}

func sampledMedia(kind, mimeType string, data []byte) (llm.Part, error) {
	if !mediaType().MatchString(mimeType) || !strings.HasPrefix(mimeType, kind+"/") || len(data) == 0 {
		return nil, fmt.Errorf("its %s has the type %q and %d bytes", kind, catalog.Line(mimeType, 80), len(data))
	}
	return &llm.Media{MediaType: mimeType, Data: data}, nil
}

// describe shows a request to a person. Each line of the server's is marked, so that it can't pass for gantry's.
func describe(r *llm.Request) string {
	var b strings.Builder
	say := func(who, text string) {
		fmt.Fprintf(&b, "%s:\n", who)
		for line := range strings.Lines(catalog.Text(text, maxSaid)) {
			fmt.Fprintf(&b, "  > %s\n", strings.TrimRight(line, "\n"))
		}
	}
	if len(r.System) > 0 {
		say("system", r.System[0])
	}
	for i, m := range r.Messages {
		if b.Len() > maxRequest-2*maxSaid && i < len(r.Messages)-1 {
			fmt.Fprintf(&b, "and %d more messages\n", len(r.Messages)-i)
			break
		}
		var text []string
		for _, p := range m.Parts {
			switch p := p.(type) {
			case *llm.Text:
				text = append(text, p.Text)
			case *llm.Media:
				text = append(text, fmt.Sprintf("[%s, %d bytes]", p.MediaType, len(p.Data)))
			}
		}
		say(m.Role.String(), strings.Join(text, "\n"))
	}
	if n := r.Generation.MaxTokens; n != nil {
		fmt.Fprintf(&b, "at most %d tokens in the answer\n", *n)
	}
	return catalog.Text(b.String(), maxRequest)
}
