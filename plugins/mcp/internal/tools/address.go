package tools

import (
	"context"
	"fmt"
	"net/http"

	"github.com/gantry-agent/gantry/plugins/mcp/internal/server"
	"github.com/gantry-agent/gantry/plugins/mcp/internal/transport"
	"github.com/gantry-agent/gantry/sdk/tool"
)

// opener returns a function that opens a way to a server.
func (p *mcpPlugin) opener(env *tool.Env, b Server) func(ctx context.Context) (server.Link, error) {
	if b.URL == "" {
		return started(env, b.Name)
	}
	client := env.HTTPClient()
	return func(ctx context.Context) (server.Link, error) {
		header := http.Header{}
		for name, value := range b.Headers {
			v, err := value.Value(ctx)
			if err != nil {
				return server.Link{}, fmt.Errorf("the header %s: %w", name, err)
			}
			header.Set(name, v)
		}
		if !b.BearerToken.IsZero() {
			v, err := b.BearerToken.Value(ctx)
			if err != nil {
				return server.Link{}, fmt.Errorf("bearer_token: %w", err)
			}
			header.Set("Authorization", "Bearer "+v)
		}
		life, end := context.WithCancel(context.WithoutCancel(ctx)) // the end of a session is told to the server
		t, err := transport.HTTP{
			URL: b.URL, SSE: b.Transport == "sse", Transport: client.Transport, UserAgent: "gantry/" + p.version, Header: header, Context: life,
		}.New()
		if err != nil {
			end()
			return server.Link{}, err
		}
		return server.Link{Transport: t, Retry: true, Close: func() {
			end()
			client.CloseIdleConnections()
		}}, nil
	}
}
