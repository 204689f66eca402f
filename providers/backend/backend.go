// Package backend turns a vendor description into a provider plugin: a protocol at an address, with a key and a list of models.
//
// It owns the settings that all provider blocks share, the lookup of models and what is known about them, media that are passed by
// reference, and the checks before a request is sent. It does not know any wire format (providers/protocol), how a request is sent
// (providers/route), or the turn loop.
//
// Start with [Plugin] and [Vendor].
package backend

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"

	"github.com/hashicorp/go-hclog"

	"github.com/gantry-agent/gantry/providers/catalog"
	"github.com/gantry-agent/gantry/providers/protocol"
	"github.com/gantry-agent/gantry/providers/route"
	"github.com/gantry-agent/gantry/sdk/configblock"
	"github.com/gantry-agent/gantry/sdk/contract"
	"github.com/gantry-agent/gantry/sdk/llm"
	"github.com/gantry-agent/gantry/sdk/provider"
)

// Vendor describes the service of a provider. Protocol, Namespace and BaseURL are required.
type Vendor struct {
	Name     string // display name
	Protocol protocol.Protocol
	// Namespace is the key of the metadata that must be sent back to the vendor.
	Namespace string
	BaseURL   string
	// KeyVariable is the environment variable that usually contains the key. It is only mentioned in messages.
	KeyVariable string
	// Keyless is set if the service needs no key.
	Keyless bool
	// Auth adds a key to a request. Nil: as a bearer token.
	Auth    func(route.Source) route.Auth
	Headers map[string]string
	// Sign authenticates requests without a key. Nil: use the key.
	Sign route.Auth
	// Catalog is the vendor's name in the catalog; empty if it is not listed.
	Catalog string
	// API is the protocol's name in the catalog: "responses", "chat-completions", "messages", "generate-content".
	API string
	// Compat returns a model's deviations from the protocol. May be nil.
	Compat func(model string) protocol.Compat
	// Hosted returns the tools that the vendor runs itself. May be nil.
	Hosted func(catalog.Model) []llm.HostedTool
	// Searches reports whether a model can search for tools that are not in the request. May be nil: no model can.
	Searches func(catalog.Model) bool
	// Effort returns the reasoning effort for a model if none is asked for; empty: that of the vendor. May be nil.
	Effort func(catalog.Model) string
	// Amend changes a request before it is sent. May be nil.
	Amend func(*protocol.Request)
	// Overlay adds request-dependent parts such as headers. May be nil.
	Overlay func(*protocol.Request) route.Overlay
	// Repair may modify a request that the vendor rejected, for one more attempt. May be nil.
	Repair func(*protocol.Request, *llm.Error) (*protocol.Request, bool)
	// Probe asks the service about a model. May be nil.
	Probe func(ctx context.Context, model string) (Facts, error)
	// Verify asks the service again after a model's first response, to check what Probe returned. May be nil.
	Verify func(ctx context.Context, model string, said Facts) (Facts, error)
	// Close releases what the vendor's functions hold. May be nil.
	Close func() error
	// List asks the service for its models. May be nil: the catalog is complete.
	List func(ctx context.Context) ([]string, error)
}

// Facts is what a service reports about one of its models.
type Facts struct {
	Window  int64           // input tokens; 0: not reported
	Model   *protocol.Model // nil: not reported
	NoTools bool            // the model does not support tools
	Warning string          // for the user; may be empty
}

// Plugin returns a provider plugin. config is the pattern of its block and contains a [Config]; pick reads it.
func Plugin(name, version, description string, config any, pick pickFunc) provider.Plugin {
	return provider.Plugin{
		Name: name, Version: version, Description: description, Config: config, Capabilities: []string{"ask", "network", "secrets", "state"},
		Commands: []provider.Command{loginCommand(pick), logoutCommand(pick), refreshCommand(pick)},
		New: func(ctx context.Context, env provider.Env) (provider.Provider, error) {
			v, cfg, err := pick(env.Config, env)
			if err != nil {
				return nil, err
			}
			return newService(ctx, v, cfg, version, env)
		},
	}
}

// service is a configured provider.
type service struct {
	label   string // of the user's block
	vendor  Vendor
	config  *Config
	route   *route.Route
	catalog *catalog.Provider
	media   *media
	logger  hclog.Logger
	done    []func() // called by Close

	probed   sync.Map // model → Facts
	verified sync.Map // models that have responded
	warned   sync.Map // warnings that were given
}

var (
	_ provider.Provider = (*service)(nil)
	_ provider.Finder   = (*service)(nil)
	_ io.Closer         = (*service)(nil)
)

func newService(ctx context.Context, v Vendor, cfg *Config, version string, env provider.Env) (*service, error) {
	if err := errors.Join(cfg.check(), cfg.tape.open(cfg)); err != nil {
		return nil, err
	}
	s := &service{label: env.Label, vendor: v, config: cfg, logger: env.Logger, media: newMedia(env.Host.Artifact)}
	cfg.tape.warn = s.warn
	s.catalog = loadCatalog(v.Catalog, env.CacheDir, env.Logger)
	auth, err := s.auth(ctx, env)
	if err != nil {
		return nil, err
	}
	base := v.BaseURL
	if cfg.BaseURL != "" {
		base = cfg.BaseURL
	}
	s.route, err = route.New(route.Config{
		Protocol: v.Protocol, Namespace: v.Namespace, BaseURL: base, Headers: v.Headers, Auth: auth, Version: version,
		Overlay:   route.Overlay{Headers: cfg.headers(), Query: cfg.Query, Body: cfg.Body},
		Transport: cfg.taped(),
	})
	if e, ok := errors.AsType[*route.ConfigError](err); ok {
		return nil, configblock.Invalid(e.Message, contract.Name(e.Attribute))
	}
	return s, err
}

// Close implements [io.Closer].
func (s *service) Close() error {
	err := s.route.Close()
	for _, done := range s.done {
		done()
	}
	if s.vendor.Close != nil {
		err = errors.Join(err, s.vendor.Close())
	}
	return err
}

// auth returns the authentication of requests.
func (s *service) auth(ctx context.Context, env provider.Env) (route.Auth, error) {
	key := s.config.APIKey
	if s.config.replays() {
		return route.None(), nil // no requests are sent
	}
	if s.config.OAuth != nil {
		o, done, err := s.config.oauth(ctx, env)
		if err != nil {
			return nil, err
		}
		s.done = append(s.done, done)
		return tokens(o), nil
	}
	if s.vendor.Sign != nil {
		return s.vendor.Sign, nil
	}
	source := route.Source(key.Value)
	if key.IsZero() {
		// A service at the user's own address may need no key.
		if s.vendor.Keyless || s.config.BaseURL != "" {
			return route.None(), nil
		}
		source = noKey(s.vendor)
	}
	auth := route.Bearer
	if s.vendor.Auth != nil {
		auth = s.vendor.Auth
	}
	return route.WithRecovery(auth(source), anew(key)), nil
}

// anew returns a step that replaces the key after a status 401: with one that another request obtained meanwhile, or a new one
// from its source. If the source has no other key, this only costs the query.
func anew(key configblock.Secret) route.Step {
	return func(ctx context.Context, refused []string) (bool, error) {
		for _, ask := range []func(context.Context) (string, error){key.Value, key.Renew} {
			value, err := ask(ctx)
			if err != nil {
				return false, err
			}
			if !slices.Contains(refused, strings.TrimSpace(value)) {
				return true, nil
			}
		}
		return false, nil
	}
}

// noKey returns a source that fails on each request, so that models can be listed and requests prepared without a key.
func noKey(v Vendor) route.Source {
	return func(context.Context) (string, error) {
		return "", &llm.Error{
			Code: llm.ErrAuthentication, Message: fmt.Sprintf("the provider's block has no key for %s", v.Name),
			Next: fmt.Sprintf("add api_key = env(%q) to the provider's block, and set %s in the environment of gantry", v.KeyVariable, v.KeyVariable),
		}
	}
}

// Prepare implements [provider.Provider].
func (s *service) Prepare(ctx context.Context, r *llm.Request) (*provider.Prepared, error) {
	req, rt, err := s.request(ctx, r)
	if err != nil {
		return nil, err
	}
	return rt.Prepare(ctx, req)
}

// Stream implements [provider.Provider].
func (s *service) Stream(ctx context.Context, r *provider.StreamRequest, emit func(llm.Event) error) error {
	return s.explain(s.stream(ctx, r, emit), r.Model)
}

func (s *service) stream(ctx context.Context, r *provider.StreamRequest, emit func(llm.Event) error) error {
	s.ask(ctx, r.Model)
	req, rt, err := s.request(ctx, r.Request)
	if err != nil {
		return err
	}
	attempts := min(r.MaxAttempts, s.config.Retries+1)
	begun := false
	err = rt.Stream(ctx, req, attempts, func(e llm.Event) error {
		if _, again := e.(llm.Attempt); !again {
			begun = true
		}
		return emit(e)
	})
	if err == nil {
		s.verify(ctx, r.Model)
		return nil
	}
	refused, ok := errors.AsType[*llm.Error](err)
	if !ok || begun || s.vendor.Repair == nil {
		return err
	}
	repaired, ok := s.vendor.Repair(req, refused)
	if !ok {
		return err
	}
	s.logger.Warn("the vendor rejected the request; retrying without the rejected part", "reason", refused.Message)
	return rt.Stream(ctx, repaired, attempts, emit)
}

// request returns the request for the protocol and its route.
func (s *service) request(ctx context.Context, r *llm.Request) (*protocol.Request, *route.Route, error) {
	if r.Model == "" {
		return nil, nil, &llm.Error{Code: llm.ErrInvalidRequest, Message: "the request has no model", Next: "set name in the model's block"}
	}
	known := s.look(r.Model)
	copied := *r
	req := &protocol.Request{Request: &copied, Model: known.protocol, Namespace: s.vendor.Namespace, Warn: s.warn}
	var err error
	if copied.Messages, err = s.media.resolve(ctx, r.Messages); err != nil {
		return nil, nil, err
	}
	if s.vendor.API != "responses" {
		copied.System, copied.Messages = hoist(copied.System, copied.Messages)
	}
	if copied.ProviderOptions, err = s.options(r.ProviderOptions); err != nil {
		return nil, nil, err
	}
	if copied.ReasoningEffort == "" && !thinks(copied.ProviderOptions[s.vendor.Namespace]) {
		copied.ReasoningEffort = known.row.DefaultReasoningEffort
	}
	if s.vendor.Amend != nil {
		s.vendor.Amend(req)
	}
	if s.vendor.Overlay == nil {
		return req, s.route, nil
	}
	rt, err := s.route.With(s.vendor.Overlay(req))
	return req, rt, err
}

// thinks reports whether the options of a request say how the model reasons.
func thinks(options json.RawMessage) bool {
	var set map[string]json.RawMessage
	if json.Unmarshal(options, &set) != nil {
		return false
	}
	for _, name := range []string{"thinking", "reasoning", "reasoning_effort"} {
		if set[name] != nil {
			return true
		}
	}
	return false
}

// hoist moves notes of the host that precede the first answer to the system text. Only the Responses API has a role for them;
// elsewhere they would have to be part of a user message.
func hoist(system []string, messages []llm.Message) ([]string, []llm.Message) {
	begun := slices.IndexFunc(messages, func(m llm.Message) bool { return m.Role == llm.RoleAssistant })
	if begun < 0 {
		begun = len(messages)
	}
	note := func(m llm.Message) bool { return m.Role == llm.RoleSystem }
	if !slices.ContainsFunc(messages[:begun], note) {
		return system, messages
	}
	system = slices.Clone(system)
	rest := make([]llm.Message, 0, len(messages))
	for _, m := range messages[:begun] {
		if note(m) {
			system = append(system, protocol.Note(m))
		} else {
			rest = append(rest, m)
		}
	}
	return system, append(rest, messages[begun:]...)
}

// options returns the block's options overridden by those of the request.
func (s *service) options(of map[string]json.RawMessage) (map[string]json.RawMessage, error) {
	if len(s.config.Options) == 0 {
		return of, nil
	}
	out := map[string]json.RawMessage{}
	for namespace, raw := range of {
		out[namespace] = raw
	}
	merged, err := route.MergeJSON(s.config.Options, out[s.vendor.Namespace])
	if err != nil {
		return nil, fmt.Errorf("options of the provider's block: %w", err)
	}
	out[s.vendor.Namespace] = merged
	return out, nil
}

// warn logs a warning once.
func (s *service) warn(text string) {
	if _, said := s.warned.LoadOrStore(text, true); !said {
		s.logger.Warn(text)
	}
}

// hosted returns the tools that the vendor runs for a model.
func (s *service) hosted(m catalog.Model) []llm.HostedTool {
	if s.vendor.Hosted == nil {
		return nil
	}
	return slices.Clone(s.vendor.Hosted(m))
}
