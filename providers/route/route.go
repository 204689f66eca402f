// Package route sends requests to a vendor and receives its responses.
//
// It owns the address, the headers and the body overlays of a request, authentication ([Auth]), connections, retries before a
// response begins, the limits for time and size, and the messages for connection problems. It does not know the meaning of a body
// (providers/protocol), where keys are stored, which vendors exist, or who retries when a response breaks off.
//
// A route is a protocol at an address: another vendor with a known protocol is another [Config], without code. The requests of a
// route share its connections and run concurrently. Everything that a request starts has ended when [Route.Stream] returns; only
// idle connections remain until [Route.Close].
//
// Start with [New] and [Route.Stream].
package route

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/gantry-agent/gantry/providers/framing"
	"github.com/gantry-agent/gantry/providers/protocol"
	"github.com/gantry-agent/gantry/providers/redact"
	"github.com/gantry-agent/gantry/sdk/llm"
	"github.com/gantry-agent/gantry/sdk/provider"
)

// Config is a protocol at an address. Protocol, Namespace and BaseURL are required.
type Config struct {
	Protocol protocol.Protocol
	// Namespace is the key of the vendor's metadata.
	Namespace string
	// BaseURL is the prefix of the protocol's path: "https://api.example.com/v1". A user and password in it are sent as Basic
	// authentication.
	BaseURL string
	// Query and Headers are the vendor's, for example the version of its API.
	Query, Headers map[string]string
	Auth           Auth // nil: [None]
	// Overlay contains the user's changes, which override the vendor's values.
	Overlay   Overlay
	Transport Transport
	// Version of gantry, for the User-Agent header.
	Version string
}

// Route sends requests. It is safe for concurrent use.
type Route struct {
	protocol  protocol.Protocol
	namespace string
	base      *url.URL // without user, query and fragment; its path does not end with a slash
	query     url.Values
	headers   http.Header
	user      *url.Userinfo
	auth      Auth
	overlay   Overlay
	agent     string
	settings  Transport
	transport *connections
	jitter    func() float64 // in [0, 1)
}

// ConfigError is an error in a provider's block that the user must correct.
type ConfigError struct {
	Attribute string // of the block: base_url, headers, body, proxy, ca_file
	Message   string
}

// Error implements error.
func (e *ConfigError) Error() string { return e.Message }

// New validates a configuration. It does not connect. Errors that the user must correct are *[ConfigError].
func New(cfg Config) (*Route, error) {
	if cfg.Protocol == nil || cfg.Namespace == "" {
		return nil, errors.New("a route needs a protocol and a namespace")
	}
	if _, err := framing.For(cfg.Protocol, 0); err != nil {
		return nil, fmt.Errorf("protocol %s: %w", cfg.Protocol.ID(), err)
	}
	base, err := parseBase(cfg.BaseURL)
	if err != nil {
		return nil, err
	}
	r := &Route{
		protocol: cfg.Protocol, namespace: cfg.Namespace, query: base.Query(), user: base.User, auth: cfg.Auth,
		agent: "gantry/" + cmp.Or(cfg.Version, "unknown"), settings: cfg.Transport.withDefaults(), jitter: rand.Float64,
	}
	base.User, base.RawQuery = nil, ""
	r.base = base
	for name, value := range cfg.Query {
		r.query.Set(name, value)
	}
	if r.headers, err = headers(cfg.Headers); err != nil {
		return nil, err
	}
	if r.auth == nil {
		r.auth = None()
	}
	if err := cfg.Overlay.validate(); err != nil {
		return nil, err
	}
	r.overlay = cfg.Overlay
	if r.transport, err = r.settings.open(); err != nil {
		return nil, err
	}
	return r, nil
}

func parseBase(raw string) (*url.URL, error) {
	var hidden redact.Redactor
	base, err := url.Parse(strings.TrimRight(raw, "/"))
	switch {
	case err != nil:
		return nil, &ConfigError{"base_url", "base_url can't be read: write it as https://HOST/PATH"}
	case base.Scheme != "http" && base.Scheme != "https" || base.Host == "":
		return nil, &ConfigError{"base_url", fmt.Sprintf("base_url %q is not an address: write it as https://HOST/PATH", hidden.URL(raw))}
	case base.Fragment != "":
		return nil, &ConfigError{
			"base_url", fmt.Sprintf("base_url %q has a fragment, which is never sent: remove the part after #", hidden.URL(raw)),
		}
	}
	base.Path, base.RawPath = strings.TrimRight(base.Path, "/"), strings.TrimRight(base.RawPath, "/")
	return base, nil
}

// With returns a route with an additional overlay, which overrides the others. It shares the connections.
func (r *Route) With(o Overlay) (*Route, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	merged, err := r.overlay.under(o)
	if err != nil {
		return nil, err
	}
	c := *r
	c.overlay = merged
	return &c, nil
}

// Close closes idle connections. Running requests continue.
func (r *Route) Close() error {
	r.transport.CloseIdleConnections()
	return nil
}

// Prepare returns the request that [Route.Stream] would send, with redacted secrets, and sends nothing. It looks up credentials as
// for sending, because the request depends on them. Missing ones are replaced by [Missing], so that the request can be displayed
// without an account.
func (r *Route) Prepare(ctx context.Context, req *protocol.Request) (*provider.Prepared, error) {
	a := r.answering(req)
	body, err := a.lower()
	if err != nil {
		return nil, err
	}
	out, err := a.outgoing(ctx, body, a.auth)
	if e, ok := errors.AsType[*llm.Error](err); ok && e.Code == llm.ErrAuthentication && ctx.Err() == nil {
		a.showing = true
		out, err = a.outgoing(ctx, body, a.auth)
	}
	if err != nil {
		return nil, err
	}
	p := &provider.Prepared{Method: out.Method, URL: a.secrets.URL(out.URL.String()), Body: []byte(a.secrets.Known(string(body)))}
	for name, values := range out.Header {
		for _, v := range values {
			if v != Missing {
				v = a.secrets.Header(name, v)
			}
			p.Headers = append(p.Headers, provider.Header{Name: name, Value: v})
		}
	}
	slices.SortFunc(p.Headers, func(a, b provider.Header) int {
		return cmp.Or(strings.Compare(a.Name, b.Name), strings.Compare(a.Value, b.Value))
	})
	return p, nil
}
