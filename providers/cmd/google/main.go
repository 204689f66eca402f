// The program gantry-provider-google provides Google's Gemini models.
//
// It owns the address of Google's Gemini API, the header and variable of its key, and its hosted tools. It does not know the wire
// format (providers/protocol/gemini), how requests are sent, or the turn loop.
//
// Start with [google].
package main

import (
	"github.com/gantry-agent/gantry/providers/backend"
	"github.com/gantry-agent/gantry/providers/catalog"
	"github.com/gantry-agent/gantry/providers/protocol/gemini"
	"github.com/gantry-agent/gantry/providers/route"
	"github.com/gantry-agent/gantry/sdk/llm"
	"github.com/gantry-agent/gantry/sdk/provider"
)

// version is set by the build.
var version = "0.0.0-dev"

func main() { provider.Main(plugin()) }

func plugin() provider.Plugin {
	return backend.Plugin("google", version, "Gemini models of Google, by its Gemini API.", &backend.Config{},
		func(c any, _ provider.Env) (backend.Vendor, *backend.Config, error) {
			return google(), c.(*backend.Config), nil
		})
}

func google() backend.Vendor {
	return backend.Vendor{
		Name: "Google", Protocol: gemini.Protocol{}, Namespace: "google", BaseURL: "https://generativelanguage.googleapis.com/v1beta",
		KeyVariable: "GEMINI_API_KEY", Catalog: "google", API: "generate-content",
		Auth: func(key route.Source) route.Auth { return route.Header("x-goog-api-key", key) },
		Hosted: func(m catalog.Model) []llm.HostedTool {
			// Older models reject it together with functions, which every turn has.
			if !m.Capabilities.Tools.Supported || !gemini.Mixes(m.ID) {
				return nil
			}
			return []llm.HostedTool{{Kind: "web_search", Effects: []string{"network"}}}
		},
	}
}
