package route

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/gantry-agent/gantry/providers/redact"
	"github.com/gantry-agent/gantry/sdk/llm"
)

// Outgoing is a request that is about to be sent, as an [Auth] sees it. URL and Header may be modified; Body must not.
type Outgoing struct {
	Method string
	URL    *url.URL
	Header http.Header
	Body   []byte

	secrets *redact.Redactor
	sent    []string // arguments of Secret
	showing bool     // the request is only displayed: missing secrets are replaced by [Missing]
}

// Missing replaces a missing secret in a prepared request.
const Missing = "<missing>"

// Secret registers a secret, which is redacted in everything that is displayed of this request. Values of headers and parameters
// whose names suggest a secret need not be registered.
func (o *Outgoing) Secret(value string) {
	o.sent = append(o.sent, value)
	if o.secrets != nil { // nil for requests that an Auth's own test created
		o.secrets.Add(value)
	}
}

// Auth authenticates requests. It is safe for concurrent use.
type Auth interface {
	// Apply is called before each attempt. An error ends the request; an *[llm.Error] keeps its code.
	Apply(ctx context.Context, o *Outgoing) error
}

// Recoverer is implemented by an Auth, or a part of one, that can replace a rejected credential.
type Recoverer interface {
	// Recover is called after a status 401: it reads a key again or refreshes a token. refused are the secrets of the rejected
	// request, as registered with [Outgoing.Secret]: if another request has already obtained a newer one, there is nothing to do.
	// It returns false if retrying is pointless.
	Recover(ctx context.Context, refused []string) (bool, error)
}

// Source returns a secret. An empty secret is missing.
type Source func(ctx context.Context) (string, error)

func (s Source) load(ctx context.Context) (string, error) {
	value, err := s(ctx)
	if value = strings.TrimSpace(value); err == nil && value == "" {
		err = errors.New("it is empty")
	}
	return value, err
}

type applyFunc func(ctx context.Context, o *Outgoing) error

func (f applyFunc) Apply(ctx context.Context, o *Outgoing) error { return f(ctx, o) }

// None sends no credentials.
func None() Auth { return applyFunc(func(context.Context, *Outgoing) error { return nil }) }

// Bearer sends a secret as "Authorization: Bearer SECRET".
func Bearer(s Source) Auth { return secretHeader("Authorization", "Bearer ", s) }

// Header sends a secret as the value of a header.
func Header(name string, s Source) Auth { return secretHeader(name, "", s) }

func secretHeader(name, scheme string, s Source) Auth {
	return applyFunc(func(ctx context.Context, o *Outgoing) error {
		if !validName(name) {
			return fmt.Errorf("the name of the header %q is not valid in HTTP", name)
		}
		value, err := s.load(ctx)
		if err != nil && o.showing {
			o.Header.Set(name, Missing)
			return nil
		}
		if err != nil {
			return fmt.Errorf("no key for the header %s (%w)", name, err) // not a colon, after which the rest would be redacted as a secret
		}
		o.Secret(value)
		o.Header.Set(name, scheme+value)
		return nil
	})
}

// Step implements [Recoverer.Recover].
type Step func(ctx context.Context, refused []string) (bool, error)

// WithRecovery adds a step to an Auth.
func WithRecovery(a Auth, step Step) Auth { return recovering{a, step} }

type recovering struct {
	Auth
	step Step
}

func (r recovering) Recover(ctx context.Context, refused []string) (bool, error) {
	return r.step(ctx, refused)
}

// unauthorised returns the error for a request whose Auth failed.
func (a *answer) unauthorised(err error) error {
	e := llm.Error{Code: llm.ErrAuthentication}
	if of, ok := errors.AsType[*llm.Error](err); ok {
		e = *of
	}
	e.Message = cmp.Or(a.shown(err.Error()), e.Message)
	e.Next = cmp.Or(e.Next, "set the key in the provider's block, or the variable that it is read from")
	return &Fault{Err: &e}
}
