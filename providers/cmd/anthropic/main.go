// The program gantry-provider-anthropic provides Anthropic's models through its Messages API.
//
// It owns Anthropic's address, the header and variable of its key, and its hosted tools. It does not know the wire format
// (providers/protocol/messages), how requests are sent, or the turn loop.
//
// Start with [anthropic].
package main

import (
	"strings"

	"github.com/gantry-agent/gantry/providers/backend"
	"github.com/gantry-agent/gantry/providers/catalog"
	"github.com/gantry-agent/gantry/providers/protocol"
	"github.com/gantry-agent/gantry/providers/protocol/claude"
	"github.com/gantry-agent/gantry/providers/protocol/messages"
	"github.com/gantry-agent/gantry/providers/route"
	"github.com/gantry-agent/gantry/sdk/llm"
	"github.com/gantry-agent/gantry/sdk/provider"
)

// version is set by the build.
var version = "0.0.0-dev"

type config struct {
	backend.Config
	Betas []string `json:"betas" doc:"Further tokens of the anthropic-beta header."`
}

func main() { provider.Main(plugin()) }

func plugin() provider.Plugin {
	return backend.Plugin("anthropic", version, "Models of Anthropic, by its Messages API.", &config{},
		func(c any, _ provider.Env) (backend.Vendor, *backend.Config, error) {
			cfg := c.(*config)
			return anthropic(cfg), &cfg.Config, nil
		})
}

func anthropic(cfg *config) backend.Vendor {
	format := messages.Protocol{}
	return backend.Vendor{
		Name: "Anthropic", Protocol: format, Namespace: messages.Namespace, BaseURL: "https://api.anthropic.com/v1",
		KeyVariable: "ANTHROPIC_API_KEY", Catalog: "anthropic", API: "messages",
		Headers: map[string]string{messages.VersionHeader: messages.Version},
		Auth:    func(key route.Source) route.Auth { return route.Header("x-api-key", key) },
		// What the vendor takes where thinking is on by default. Earlier models don't think unless they are asked to.
		Effort: func(catalog.Model) string { return "high" },
		Overlay: func(r *protocol.Request) route.Overlay {
			tokens := append(format.Betas(r), cfg.Betas...)
			if len(tokens) == 0 {
				return route.Overlay{}
			}
			return route.Overlay{Headers: map[string]string{messages.BetaHeader: strings.Join(tokens, ",")}}
		},
		// The vendor may reject signed reasoning after a change on its side. The conversation can continue without it.
		Repair: func(r *protocol.Request, err *llm.Error) (*protocol.Request, bool) {
			if !claude.Refused(err) {
				return nil, false
			}
			return claude.Strip(r)
		},
		Hosted: func(m catalog.Model) []llm.HostedTool {
			if !m.Capabilities.Tools.Supported {
				return nil
			}
			return []llm.HostedTool{{Kind: "web_search", Effects: []string{"network"}}, {Kind: "web_fetch", Effects: []string{"network"}}}
		},
	}
}
