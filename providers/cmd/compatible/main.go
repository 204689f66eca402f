// The program gantry-provider-compatible gives gantry the models of any service that speaks OpenAI's chat format, OpenAI's
// Responses, or Anthropic's Messages: known vendors by name, others by address.
//
// It owns: how a block chooses vendor and format, and what local servers say of their models. It must not know: what is
// special about a vendor (providers/table), the wire formats, how requests travel, the turn loop.
//
// Start with [pick].
package main

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"strings"

	"github.com/gantry-agent/gantry/providers/backend"
	"github.com/gantry-agent/gantry/providers/protocol"
	"github.com/gantry-agent/gantry/providers/protocol/chat"
	"github.com/gantry-agent/gantry/providers/protocol/messages"
	"github.com/gantry-agent/gantry/providers/protocol/responses"
	"github.com/gantry-agent/gantry/providers/route"
	"github.com/gantry-agent/gantry/providers/table"
	"github.com/gantry-agent/gantry/sdk/configblock"
	"github.com/gantry-agent/gantry/sdk/contract"
	"github.com/gantry-agent/gantry/sdk/provider"
)

// version is set by the build.
var version = "0.0.0-dev"

type config struct {
	backend.Config
	Vendor   string `json:"vendor" doc:"Known vendor. Default: the block's label where it names one, else none: base_url says it all."`
	Protocol string `json:"protocol" default:"chat" enum:"chat,responses,messages" doc:"Wire format."`
}

func main() { provider.Main(plugin()) }

func plugin() provider.Plugin {
	return backend.Plugin("compatible", version, "Models of services that speak a known wire format: OpenRouter, DeepSeek, Groq, vLLM and many more.",
		&config{}, func(c any, env provider.Env) (backend.Vendor, *backend.Config, error) {
			cfg := c.(*config)
			v, err := pick(cfg, env.Label)
			return v, &cfg.Config, err
		})
}

// pick determines the vendor of a block.
func pick(cfg *config, label string) (backend.Vendor, error) {
	row, known := table.Lookup(cfg.Vendor)
	if cfg.Vendor == "" {
		row, known = table.Lookup(label)
	}
	switch {
	case cfg.Vendor != "" && !known:
		return backend.Vendor{}, configblock.Invalid(fmt.Sprintf("there is no vendor %q in the table: %s; omit vendor and set base_url for another one",
			cfg.Vendor, strings.Join(table.IDs(), ", ")), contract.Name("vendor"))
	case !known && cfg.BaseURL == "":
		return backend.Vendor{}, configblock.Invalid(fmt.Sprintf("set vendor or base_url; known vendors: %s", strings.Join(table.IDs(), ", ")))
	case len(row.Places) > 0 && cfg.BaseURL == "":
		return backend.Vendor{}, configblock.Invalid(fmt.Sprintf("base_url is missing: fill in the placeholders of %s", row.BaseURL), contract.Name("base_url"))
	}
	v := backend.Vendor{
		Name: row.Name, Namespace: row.ID, BaseURL: row.BaseURL, KeyVariable: row.KeyVariable, Keyless: row.Keyless, Catalog: row.Catalog,
		Headers: row.Headers, Compat: func(model string) protocol.Compat { return table.For(row.ID, model) },
	}
	if !known {
		v.Namespace = cmp.Or(label, "compatible")
		v.Name, v.KeyVariable = v.Namespace, "API_KEY"
	}
	if row.KeyHeader != "" {
		v.Auth = func(key route.Source) route.Auth {
			return route.Header(row.KeyHeader, func(ctx context.Context) (string, error) {
				k, err := key(ctx)
				return "Bearer " + k, err
			})
		}
	}
	if row.CacheKeyHeader != "" {
		v.Overlay = func(r *protocol.Request) route.Overlay {
			if r.PromptCacheKey == "" || r.Cache == "none" {
				return route.Overlay{}
			}
			return route.Overlay{Headers: map[string]string{row.CacheKeyHeader: r.PromptCacheKey}}
		}
	}
	switch cfg.Protocol {
	case "responses":
		v.Protocol, v.API = responses.Protocol{}, "responses"
	case "messages":
		v.Protocol, v.API = messages.Protocol{}, "messages"
		v.Headers = map[string]string{messages.VersionHeader: messages.Version}
	default:
		v.Protocol, v.API, v.Repair = chat.Protocol{}, "chat-completions", chat.WithoutEmptyTools
	}
	base := v.BaseURL
	if cfg.BaseURL != "" {
		base = cfg.BaseURL
	}
	if v.Catalog == "" && local(base) {
		s := &server{config: cfg, base: strings.TrimRight(base, "/")}
		v.List, v.Probe = s.list, s.probe
	}
	return v, nil
}

// local reports whether an address is on this machine or has a private name in its network. Such a server may be asked for its
// models.
func local(base string) bool {
	u, err := url.Parse(base)
	if err != nil {
		return false
	}
	host := u.Hostname()
	return host == "localhost" || strings.HasPrefix(host, "127.") || host == "::1" || strings.HasSuffix(host, ".local") || !strings.Contains(host, ".")
}
