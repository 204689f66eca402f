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
	"bytes"
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
	transport *http.Transport
	jitter    func() float64 // in [0, 1)
}

// New checks a configuration. Nothing is connected yet. An error names the attribute to correct.
func New(cfg Config) (*Route, error) {
	if cfg.Protocol == nil || cfg.Namespace == "" {
		return nil, errors.New("a route needs a protocol and a namespace")
	}
	if _, err := framing.New(cfg.Protocol.Framing(), 0); err != nil {
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
		return nil, errors.New("base_url can't be read: write it as https://HOST/PATH")
	case base.Scheme != "http" && base.Scheme != "https" || base.Host == "":
		return nil, fmt.Errorf("base_url %q is no address: write it as https://HOST/PATH", hidden.URL(raw))
	case base.Fragment != "":
		return nil, fmt.Errorf("base_url %q has a fragment, which is never sent: leave out what begins at the #", hidden.URL(raw))
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
// up as for sending, since it depends on them what is sent.
func (r *Route) Prepare(ctx context.Context, req *protocol.Request) (*provider.Prepared, error) {
	a := r.answering(req)
	body, err := a.lower()
	if err != nil {
		return nil, err
	}
	out, err := a.outgoing(ctx, body)
	if err != nil {
		return nil, err
	}
	p := &provider.Prepared{Method: out.Method, URL: a.secrets.URL(out.URL.String()), Body: []byte(a.secrets.Known(string(body)))}
	for name, values := range out.Header {
		for _, v := range values {
			p.Headers = append(p.Headers, provider.Header{Name: name, Value: a.secrets.Header(name, v)})
		}
	}
	slices.SortFunc(p.Headers, func(a, b provider.Header) int {
		return cmp.Or(strings.Compare(a.Name, b.Name), strings.Compare(a.Value, b.Value))
	})
	return p, nil
}

// answer is one request on its way through the route. For one goroutine.
type answer struct {
	*Route
	req     *protocol.Request
	emit    func(llm.Event) error
	secrets redact.Redactor
}

func (r *Route) answering(req *protocol.Request) *answer {
	q := *req
	q.Namespace = r.namespace
	return &answer{Route: r, req: &q}
}

// lower makes the body. Its bytes are the same for every try.
func (a *answer) lower() ([]byte, error) {
	body, err := a.protocol.Body(a.req)
	if err == nil {
		body, err = mergeJSON(body, a.overlay.Body)
	}
	if e, ok := errors.AsType[*llm.Error](err); ok {
		return nil, a.fault(e)
	}
	return body, err
}

// outgoing puts a request together. Later headers win: the route's, the overlay's, those of auth; the type of the content
// is not for anybody to choose.
func (a *answer) outgoing(ctx context.Context, body []byte) (*Outgoing, error) {
	u, err := a.address()
	if err != nil {
		return nil, err
	}
	h := http.Header{}
	h.Set("User-Agent", a.agent)
	h.Set("Accept", accepted(a.protocol.Framing()))
	if a.user != nil {
		password, _ := a.user.Password()
		a.secrets.Add(password)
		(&http.Request{Header: h}).SetBasicAuth(a.user.Username(), password)
	}
	for name, values := range a.headers {
		h[name] = slices.Clone(values)
	}
	for name, value := range a.overlay.Headers {
		h.Set(name, value)
	}
	out := &Outgoing{Method: http.MethodPost, URL: u, Header: h, Body: body, secrets: &a.secrets}
	if err := a.auth.Apply(ctx, out); err != nil {
		return nil, a.unauthorised(err)
	}
	h = out.Header
	h.Del("Content-Type")
	h.Set("Content-Type", "application/json")
	for name, values := range h {
		for _, v := range values {
			if !validValue(v) {
				return nil, a.fault(&llm.Error{
					Code: llm.ErrInvalidRequest, Message: fmt.Sprintf("the value of the header %s holds a line break or another control character", name),
					Next: "check how the value came into the provider's block; a key that is read from a file may have lines too many",
				})
			}
			if redact.SecretName(name) {
				a.secrets.Add(v)
			}
		}
	}
	a.secrets.AddURL(out.URL)
	return out, nil
}

// address puts the protocol's path behind the base and collects the queries; of one name the last wins: the base's, the
// vendor's, the path's, the overlay's.
func (a *answer) address() (*url.URL, error) {
	path, query, _ := strings.Cut(a.protocol.Path(a.req), "?")
	u, err := url.Parse(a.base.String() + path)
	if err != nil {
		return nil, a.fault(&llm.Error{
			Code: llm.ErrInvalidRequest, Message: fmt.Sprintf("the model's name %q makes no address", a.req.Request.Model), Next: "correct the model's name",
		})
	}
	values := url.Values{}
	own, err := url.ParseQuery(query)
	if err != nil {
		return nil, fmt.Errorf("protocol %s: the query of its path: %w", a.protocol.ID(), err)
	}
	for _, from := range []url.Values{a.query, own} {
		for name, v := range from {
			values[name] = v
		}
	}
	for name, v := range a.overlay.Query {
		values.Set(name, v)
	}
	u.RawQuery = values.Encode()
	return u, nil
}

func accepted(f protocol.Framing) string {
	if f == protocol.FramingNDJSON {
		return "application/x-ndjson"
	}
	return "text/event-stream"
}

// request is out as net/http wants it.
func (o *Outgoing) request(ctx context.Context) (*http.Request, error) {
	r, err := http.NewRequestWithContext(ctx, o.Method, o.URL.String(), bytes.NewReader(o.Body))
	if err != nil {
		return nil, err
	}
	r.Header = o.Header
	return r, nil
}
