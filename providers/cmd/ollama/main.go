// The program gantry-provider-ollama provides the models of an Ollama server through its own chat API.
//
// It owns the server's address, the context with which its models are loaded, and what the server reports about them. It does not
// know the wire format (providers/protocol/ollama), how requests are sent, or the turn loop.
//
// Start with [server].
package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"sync"

	"github.com/gantry-agent/gantry/providers/backend"
	"github.com/gantry-agent/gantry/providers/ollamahost"
	"github.com/gantry-agent/gantry/providers/protocol"
	"github.com/gantry-agent/gantry/providers/protocol/ollama"
	"github.com/gantry-agent/gantry/providers/route"
	"github.com/gantry-agent/gantry/sdk/configblock"
	"github.com/gantry-agent/gantry/sdk/contract"
	"github.com/gantry-agent/gantry/sdk/provider"
)

// version is set by the build.
var version = "0.0.0-dev"

// plannedContext is requested by default: it is sufficient for work, and fits most machines. The server's default may be as low as
// 4096, and it truncates longer input silently.
const plannedContext = 32_768

type config struct {
	backend.Config
	NumCtx int64 `json:"num_ctx" doc:"Tokens of context that a model is loaded with. Default: what the model was trained for, up to 32768."`
}

func main() { provider.Main(plugin()) }

func plugin() provider.Plugin {
	return backend.Plugin("ollama", version, "Models of an Ollama server, by its own chat.", &config{},
		func(c any, _ provider.Env) (backend.Vendor, *backend.Config, error) {
			cfg := c.(*config)
			s, err := newServer(cfg)
			if err != nil {
				return backend.Vendor{}, nil, err
			}
			return s.vendor(), &cfg.Config, nil
		})
}

// server is the Ollama server.
type server struct {
	config *config
	base   string
	client *ollamahost.Client

	mu      sync.Mutex
	context map[string]int64 // requested context tokens by model
}

func newServer(cfg *config) (*server, error) {
	if cfg.NumCtx < 0 {
		return nil, configblock.Invalid("num_ctx is negative", contract.Name("num_ctx"))
	}
	base := cfg.BaseURL
	if base == "" {
		var err error
		if base, err = ollamahost.Address(os.Getenv); err != nil {
			return nil, err
		}
	}
	client, err := cfg.Client()
	if err != nil {
		return nil, err
	}
	host, err := ollamahost.New(base, client)
	if err != nil {
		return nil, err
	}
	return &server{config: cfg, base: base, client: host, context: map[string]int64{}}, nil
}

func (s *server) vendor() backend.Vendor {
	return backend.Vendor{
		Name: "Ollama", Protocol: ollama.Protocol{}, Namespace: "ollama", BaseURL: s.base, Keyless: true, API: "ollama",
		List: s.list, Probe: s.probe, Verify: s.verify, Overlay: s.overlay, Close: s.client.Close,
	}
}

func (s *server) list(ctx context.Context) ([]string, error) {
	models, err := s.client.Models(ctx)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, m := range models {
		out = append(out, m.Name)
	}
	slices.Sort(out)
	return out, nil
}

// probe asks for the properties of a model and determines the context to request.
func (s *server) probe(ctx context.Context, model string) (backend.Facts, error) {
	d, err := s.client.Show(ctx, model)
	if err != nil {
		return backend.Facts{}, err
	}
	planned := cmp.Or(s.config.NumCtx, d.NumCtx)
	if planned == 0 {
		planned = plannedContext
		if d.TrainedContext > 0 {
			planned = min(planned, d.TrainedContext)
		}
	}
	s.mu.Lock()
	s.context[model] = planned
	s.mu.Unlock()
	m := d.Model(model)
	facts := backend.Facts{Window: planned, Model: &m, NoTools: len(d.Capabilities) > 0 && !slices.Contains(d.Capabilities, "tools")}
	if d.TrainedContext > 0 && planned > d.TrainedContext {
		facts.Warning = fmt.Sprintf("num_ctx is %d, but %s was trained for %d tokens", planned, model, d.TrainedContext)
	}
	return facts, nil
}

// verify checks the context that the server loaded the model with. The server's configuration may reduce it, and longer input
// would be truncated silently, so threads must respect the actual size.
func (s *server) verify(ctx context.Context, model string, said backend.Facts) (backend.Facts, error) {
	loaded, ok, err := s.client.Loaded(ctx, model)
	if err != nil || !ok {
		return said, err
	}
	if warning := ollama.ContextWarning(model, said.Window, loaded.Context); warning != "" {
		said.Window, said.Warning = loaded.Context, warning
	}
	return said, nil
}

// overlay requests the planned context. Otherwise the server uses its default and truncates longer input.
func (s *server) overlay(r *protocol.Request) route.Overlay {
	s.mu.Lock()
	planned := s.context[r.Request.Model]
	s.mu.Unlock()
	planned = cmp.Or(planned, s.config.NumCtx, plannedContext)
	body, err := json.Marshal(map[string]any{"options": map[string]any{"num_ctx": planned}})
	if err != nil { // a number
		panic("ollama: " + err.Error())
	}
	return route.Overlay{Body: body}
}
