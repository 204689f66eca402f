// The program gantry-provider-openai provides OpenAI's models through its Responses API.
//
// It owns OpenAI's address, the variable of its key, its organization headers and hosted tools. It does not know the wire format
// (providers/protocol/responses), how requests are sent, or the turn loop.
//
// Start with [openai].
package main

import (
	"regexp"
	"sync/atomic"

	"github.com/gantry-agent/gantry/providers/backend"
	"github.com/gantry-agent/gantry/providers/catalog"
	"github.com/gantry-agent/gantry/providers/protocol"
	"github.com/gantry-agent/gantry/providers/protocol/responses"
	"github.com/gantry-agent/gantry/sdk/llm"
	"github.com/gantry-agent/gantry/sdk/provider"
)

// searching matches the models that can search for tools: GPT-5.4 and later.
var searching = regexp.MustCompile(`^gpt-(5\.([4-9]|[1-9]\d)|[6-9]|[1-9]\d)(\D|$)`)

// summaries matches the vendor's refusal of summaries: "Your organization must be verified to generate reasoning summaries".
var summaries = regexp.MustCompile(`(?i)reasoning[ ._]summar`)

// version is set by the build.
var version = "0.0.0-dev"

type config struct {
	backend.Config
	Organization string `json:"organization" doc:"Organisation that the requests are for, where the key belongs to several."`
	Project      string `json:"project" doc:"Project that the requests are for."`
}

func main() { provider.Main(plugin()) }

func plugin() provider.Plugin {
	return backend.Plugin("openai", version, "Models of OpenAI, by its Responses API.", &config{},
		func(c any, _ provider.Env) (backend.Vendor, *backend.Config, error) {
			cfg := c.(*config)
			return openai(cfg), &cfg.Config, nil
		})
}

func openai(cfg *config) backend.Vendor {
	headers := map[string]string{}
	for name, v := range map[string]string{"OpenAI-Organization": cfg.Organization, "OpenAI-Project": cfg.Project} {
		if v != "" {
			headers[name] = v
		}
	}
	var unverified atomic.Bool // the vendor has refused summaries
	return backend.Vendor{
		Name: "OpenAI", Protocol: responses.Protocol{}, Namespace: "openai", BaseURL: "https://api.openai.com/v1",
		KeyVariable: "OPENAI_API_KEY", Headers: headers, Catalog: "openai", API: "responses",
		// Several models don't reason unless they are asked to.
		Effort: func(catalog.Model) string { return "medium" },
		Amend:  func(r *protocol.Request) { r.Model.Compat.NoSummary = r.Model.Compat.NoSummary || unverified.Load() },
		// Summaries of reasoning are refused to organizations that are not verified. The request is as good without.
		Repair: func(r *protocol.Request, err *llm.Error) (*protocol.Request, bool) {
			if err.Code != llm.ErrInvalidRequest || r.Model.Compat.NoSummary || !summaries.MatchString(err.Message) {
				return nil, false
			}
			unverified.Store(true)
			bare := *r
			bare.Model.Compat.NoSummary = true
			return &bare, true
		},
		Searches: func(m catalog.Model) bool { return searching.MatchString(m.ID) },
		Hosted: func(m catalog.Model) []llm.HostedTool {
			if !m.Capabilities.Tools.Supported {
				return nil
			}
			return []llm.HostedTool{{Kind: "web_search", Effects: []string{"network"}}}
		},
	}
}
