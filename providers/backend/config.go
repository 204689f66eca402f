package backend

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/gantry-agent/gantry/providers/protocol"
	"github.com/gantry-agent/gantry/providers/route"
	"github.com/gantry-agent/gantry/sdk/configblock"
	"github.com/gantry-agent/gantry/sdk/contract"
)

// Config contains the settings that all provider blocks share.
type Config struct {
	BaseURL       string             `json:"base_url" doc:"Address of the API up to its version, https://api.example.com/v1 for example. Default: the vendor's own."`
	APIKey        configblock.Secret `json:"api_key" sensitive:"true" doc:"Key of the account: env(\"NAME\"), secret(\"NAME\") or command([\"PROGRAM\"]), not the key itself."`
	Headers       map[string]string  `json:"headers" doc:"Headers of each request, over the vendor's. One whose value is empty is not sent."`
	Query         map[string]string  `json:"query" doc:"Parameters of each request's address."`
	Body          json.RawMessage    `json:"body" doc:"Object that is merged into the body of each request, over all else."`
	Options       json.RawMessage    `json:"options" doc:"Object with options of the vendor's protocol that have no attribute of their own."`
	Compatibility json.RawMessage    `json:"compatibility" doc:"Object with deviations of the service from its protocol, over those that are known."`
	Timeout       time.Duration      `json:"timeout" default:"5m" doc:"From sending a request until its answer begins."`
	IdleTimeout   time.Duration      `json:"idle_timeout" default:"5m" doc:"Silence within an answer."`
	Retries       int                `json:"retries" default:"4" doc:"Further tries before an answer begins, up to 99."`
	MaxRetryDelay time.Duration      `json:"max_retry_delay" default:"10m" doc:"Longest wait that the vendor may ask for."`
	Proxy         string             `json:"proxy" doc:"Address of an http, https or socks5 proxy, or \"none\". Default: what HTTPS_PROXY, HTTP_PROXY and NO_PROXY say; pass those on with an env block."`
	CAFile        string             `json:"ca_file" path:"true" doc:"PEM file with certificates of authorities to trust beside the system's."`
	Record        string             `json:"record" path:"true" doc:"File that requests and answers are added to, secrets covered, for replay. Where CI=true is set the file is replayed instead."`
	Replay        string             `json:"replay" path:"true" doc:"File that an earlier run recorded: its answers are given again, without network and key."`
	ReplayMatch   string             `json:"replay_match" default:"content" enum:"content,order" doc:"What makes a recorded answer the one to a request: what it asks, but for ids, times and durations, or only its place in the order."`
	OAuth         *OAuth             `json:"oauth" doc:"Registration by which one logs in, for a service that takes tokens; in place of api_key."`
	Models        []Model            `json:"model" doc:"What is different about one model, or a model that the catalogue does not know."`

	tape tape
}

// Model overrides what is known about a model.
type Model struct {
	ID               string          `json:"id" label:"id"`
	ContextWindow    int64           `json:"context_window" doc:"Tokens of input to use, up to what is known that it takes."`
	MaxContextWindow int64           `json:"max_context_window" doc:"Most tokens of input that it takes, where less is known of it."`
	MaxOutputTokens  int64           `json:"max_output_tokens" doc:"Tokens that it answers at most."`
	Input            []string        `json:"input" doc:"What it takes: text, image, pdf, audio, video."`
	Efforts          []string        `json:"efforts" doc:"Reasoning efforts that it takes, weakest first."`
	DefaultEffort    string          `json:"default_effort" doc:"Effort when none is asked for."`
	Freeform         *bool           `json:"freeform" doc:"Whether it takes tools with a grammar."`
	ToolSearch       *bool           `json:"tool_search" doc:"Whether tools that are found by search are kept out of its requests until it looks for them. Only with OpenAI's Responses API; elsewhere they are offered like all others."`
	Tools            *bool           `json:"tools" doc:"Whether it takes tools at all."`
	ToolTraits       []string        `json:"tool_traits" doc:"Which kinds of tools suit it: patches (the default), edits in their place, files for tools that read, list and search files."`
	ParallelCalls    *bool           `json:"parallel_calls" doc:"Whether it may ask for several calls at once."`
	Compatibility    json.RawMessage `json:"compatibility" doc:"Object with deviations, over the provider's."`
	Prices           *Prices         `json:"prices" doc:"US dollars per million tokens."`
}

// Prices overrides the prices of a model.
type Prices struct {
	Input      *float64 `json:"input"`
	Output     *float64 `json:"output"`
	CacheRead  *float64 `json:"cache_read"`
	CacheWrite *float64 `json:"cache_write"`
	Reasoning  *float64 `json:"reasoning"`
}

// check validates what the types of single attributes cannot express.
func (c *Config) check() error {
	if c.Retries < 0 || c.Retries > 99 {
		return configblock.Invalid("retries must be between 0 and 99", contract.Name("retries"))
	}
	for _, o := range []struct {
		name string
		raw  json.RawMessage
	}{{"body", c.Body}, {"options", c.Options}} {
		if _, err := route.MergeJSON([]byte("{}"), o.raw); err != nil {
			return configblock.Invalid("it must be an object", contract.Name(o.name))
		}
	}
	if _, err := overlaid(protocol.Compat{}, c.Compatibility); err != nil {
		return configblock.Invalid(err.Error(), contract.Name("compatibility"))
	}
	if c.OAuth != nil && !c.APIKey.IsZero() {
		return configblock.Invalid("api_key and oauth exclude each other: keep the one that the service takes", contract.Name("oauth"))
	}
	seen := map[string]bool{}
	for _, m := range c.Models {
		if seen[m.ID] {
			return configblock.Invalid(fmt.Sprintf("model %q is described twice", m.ID), contract.Name("model"))
		}
		seen[m.ID] = true
		if m.ContextWindow < 0 || m.MaxContextWindow < 0 || m.MaxOutputTokens < 0 {
			return configblock.Invalid(fmt.Sprintf("model %q: a number of tokens is negative", m.ID), contract.Name("model"))
		}
		if _, err := overlaid(protocol.Compat{}, m.Compatibility); err != nil {
			return configblock.Invalid(fmt.Sprintf("model %q: %v", m.ID, err), contract.Name("model"))
		}
	}
	return nil
}

// Client returns an HTTP client for requests other than those to a model, such as listing models. They are recorded and replayed
// in the same way.
func (c *Config) Client() (*http.Client, error) {
	if err := c.tape.open(c); err != nil {
		return nil, err
	}
	return c.taped().Client()
}

func (c *Config) transport() route.Transport {
	return route.Transport{
		Proxy: c.Proxy, CAFile: c.CAFile, HeaderTimeout: c.Timeout, IdleTimeout: c.IdleTimeout, MaxDelay: c.MaxRetryDelay,
	}
}

// headers omits headers without a value, whose variable is not set.
func (c *Config) headers() map[string]string {
	out := map[string]string{}
	for name, v := range c.Headers {
		if strings.TrimSpace(v) != "" {
			out[name] = v
		}
	}
	return out
}

// overlaid merges an object with compatibility settings over the known ones. An unknown name is an error.
func overlaid(c protocol.Compat, raw json.RawMessage) (protocol.Compat, error) {
	if len(raw) == 0 {
		return c, nil
	}
	err := protocol.DecodeStrictly(raw, &c, "compatibility")
	return c, err
}
