// Package route carries requests to a vendor and its answers back.
//
// It owns: the address, the headers and the body's overlays of a request, who may ask ([Auth]), the connections, the
// tries before an answer begins, the limits on waiting and on size, and the words for what goes wrong on the way. It must
// not know: what a body means (providers/protocol), where keys are kept, which vendors exist, who asks again when an
// answer broke in the middle.
//
// A route is a protocol at an address: one more vendor that speaks a known protocol is one more [Config], never code.
// Requests of one route share its connections and run side by side. Everything that a request starts has ended when
// [Route.Stream] returns; only idle connections stay, until [Route.Close].
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
	// BaseURL is what the protocol's path is put behind: "https://api.example.com/v1". A user and password in it are sent
	// as Basic authorization.
	BaseURL string
	// Query and Headers belong to the vendor: a version of its API, say.
	Query, Headers map[string]string
	Auth           Auth // nil: [None]
	// Overlay is what the user wants different. It wins over the vendor's.
	Overlay   Overlay
	Transport Transport
	// Version of gantry, for the user-agent.
	Version string
}

// Route is ready to be asked. It is safe for concurrent use.
type Route struct {
	protocol  protocol.Protocol
	namespace string
	base      *url.URL // without user, query and fragment; its path does not end in a slash
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

// ConfigError is something that a person has to correct in a provider's block.
type ConfigError struct {
	Attribute string // of the block: base_url, headers, body, proxy, ca_file
	Message   string
}

// Error implements error.
func (e *ConfigError) Error() string { return e.Message }

// New checks a configuration. Nothing is connected yet. What a user has to correct is a *[ConfigError].
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
		return nil, &ConfigError{"base_url", fmt.Sprintf("base_url %q is no address: write it as https://HOST/PATH", hidden.URL(raw))}
	case base.Fragment != "":
		return nil, &ConfigError{
			"base_url", fmt.Sprintf("base_url %q has a fragment, which is never sent: leave out what begins at the #", hidden.URL(raw)),
		}
	}
	base.Path, base.RawPath = strings.TrimRight(base.Path, "/"), strings.TrimRight(base.RawPath, "/")
	return base, nil
}

// With returns a route that differs by one more overlay, the strongest. It shares the connections.
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

// Close closes the connections that idle. A request that runs goes on.
func (r *Route) Close() error {
	r.transport.CloseIdleConnections()
	return nil
}

// Prepare returns the request that [Route.Stream] would send, secrets redacted, and sends nothing. Credentials are looked
// up as for sending, since it depends on them what is sent. Where there is none stands [Missing], so that the request can be
// looked at before there is an account.
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
