package route

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/gantry-agent/gantry/providers/protocol"
	"github.com/gantry-agent/gantry/providers/redact"
	"github.com/gantry-agent/gantry/sdk/llm"
)

// answer is a request in progress. It is not safe for concurrent use.
type answer struct {
	*Route
	req     *protocol.Request
	emit    func(llm.Event) error
	secrets redact.Redactor
	sent    []string // the secrets of the last attempt
	showing bool     // the request is only displayed
}

func (r *Route) answering(req *protocol.Request) *answer {
	q := *req
	q.Namespace = r.namespace
	return &answer{Route: r, req: &q}
}

// lower returns the body, which is the same for all attempts.
func (a *answer) lower() ([]byte, error) {
	body, err := a.protocol.Body(a.req)
	if err == nil {
		body, err = MergeJSON(body, a.overlay.Body)
	}
	if e, ok := errors.AsType[*llm.Error](err); ok {
		return nil, a.fault(e)
	}
	return body, err
}

// outgoing assembles a request. Headers of the overlay override those of the route, and those of the Auth override both; the
// content type cannot be changed.
func (a *answer) outgoing(ctx context.Context, body []byte, auth Auth) (*Outgoing, error) {
	u, err := a.address()
	if err != nil {
		return nil, err
	}
	h := http.Header{}
	h.Set("User-Agent", a.agent)
	h.Set("Accept", accepted(a.protocol.Framing()))
	if a.user != nil {
		password, _ := a.user.Password()
		(&http.Request{Header: h}).SetBasicAuth(a.user.Username(), password)
	}
	for name, values := range a.headers {
		h[name] = slices.Clone(values)
	}
	for name, value := range a.overlay.Headers {
		h.Set(name, value)
	}
	out := &Outgoing{Method: http.MethodPost, URL: u, Header: h, Body: body, secrets: &a.secrets, showing: a.showing}
	if err := auth.Apply(ctx, out); err != nil {
		return nil, a.unauthorised(err)
	}
	a.sent = out.sent
	h = out.Header
	maps.DeleteFunc(h, func(name string, _ []string) bool { return strings.EqualFold(name, "Content-Type") })
	h.Set("Content-Type", "application/json")
	for name, values := range h {
		for _, v := range values {
			if !validValue(v) {
				return nil, a.fault(&llm.Error{
					Code: llm.ErrInvalidRequest, Message: badValue(name),
					Next: "check where the value in the provider's block comes from; a key file may contain additional lines",
				})
			}
			if redact.SecretName(name) && v != Missing {
				a.secrets.Add(v)
			}
		}
	}
	a.secrets.AddURL(out.URL)
	return out, nil
}

// address returns the URL: the base with the protocol's path, and the queries of the base, the vendor, the path and the overlay,
// where later values override earlier ones of the same name.
func (a *answer) address() (*url.URL, error) {
	path, query, _ := strings.Cut(a.protocol.Path(a.req), "?")
	u, err := url.Parse(a.base.String() + path)
	if err != nil {
		return nil, a.fault(&llm.Error{
			Code: llm.ErrInvalidRequest, Message: fmt.Sprintf("the model's name %q can't be part of an address", a.req.Request.Model),
			Next: "correct the model's name",
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

// eventStream is the content type of binary frames.
const eventStream = "application/vnd.amazon.eventstream"

func accepted(f protocol.Framing) string {
	switch f {
	case protocol.FramingNDJSON:
		return "application/x-ndjson"
	case protocol.FramingEventStream:
		return eventStream
	}
	return "text/event-stream"
}

// request converts out for net/http.
func (o *Outgoing) request(ctx context.Context) (*http.Request, error) {
	r, err := http.NewRequestWithContext(ctx, o.Method, o.URL.String(), bytes.NewReader(o.Body))
	if err != nil {
		return nil, err
	}
	r.Header = o.Header
	return r, nil
}
