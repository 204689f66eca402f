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

// Outgoing is a request that is about to be sent, as an [Auth] sees it. URL and Header may be changed; Body is what will be
// sent and stays.
type Outgoing struct {
	Method string
	URL    *url.URL
	Header http.Header
	Body   []byte

	secrets *redact.Redactor
	sent    []string // what Secret was told
	showing bool     // it is only looked at: where there is no secret stands [Missing]
}

// Missing stands in a prepared request where a secret would be that nobody has set.
const Missing = "<missing>"

// Secret makes a value known that nobody may see: it is covered in everything that is shown of this request. What stands
// in a header or a parameter whose name promises a secret is known without it.
func (o *Outgoing) Secret(value string) {
	o.sent = append(o.sent, value)
	if o.secrets != nil { // nobody shows anything of a request that an Auth's own test made
		o.secrets.Add(value)
	}
}

// Auth puts into a request what proves the right to ask. It is used by several requests at once.
type Auth interface {
	// Apply is called before each try. An error ends the request; an *[llm.Error] keeps its code.
	Apply(ctx context.Context, o *Outgoing) error
}

// Recoverer is an Auth, or a part of one, that can do something about a refused credential.
type Recoverer interface {
	// Recover takes one step after a 401: reads a key anew, refreshes a token. refused are the secrets that the request was
	// sent with, as [Outgoing.Secret] was told them: where another request has brought a newer one already there is nothing
	// left to do. False means that asking again is pointless.
	Recover(ctx context.Context, refused []string) (bool, error)
}

// Source has a secret. An empty one is a missing one.
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

// None proves nothing.
func None() Auth { return applyFunc(func(context.Context, *Outgoing) error { return nil }) }

// Bearer sends a secret as "Authorization: Bearer SECRET".
func Bearer(s Source) Auth { return secretHeader("Authorization", "Bearer ", s) }

// Header sends a secret as a header's whole value.
func Header(name string, s Source) Auth { return secretHeader(name, "", s) }

func secretHeader(name, scheme string, s Source) Auth {
	return applyFunc(func(ctx context.Context, o *Outgoing) error {
		if !validName(name) {
			return fmt.Errorf("the name of the header %q is not allowed in HTTP", name)
		}
		value, err := s.load(ctx)
		if err != nil && o.showing {
			o.Header.Set(name, Missing)
			return nil
		}
		if err != nil {
			return fmt.Errorf("no key for the header %s (%w)", name, err) // a colon would make a secret of what follows
		}
		o.Secret(value)
		o.Header.Set(name, scheme+value)
		return nil
	})
}

// Step is what [Recoverer.Recover] does.
type Step func(ctx context.Context, refused []string) (bool, error)

// WithRecovery gives an auth a step to take after a 401.
func WithRecovery(a Auth, step Step) Auth { return recovering{a, step} }

type recovering struct {
	Auth
	step Step
}

func (r recovering) Recover(ctx context.Context, refused []string) (bool, error) {
	return r.step(ctx, refused)
}

// unauthorised is the error of a request whose auth could not be applied.
func (a *answer) unauthorised(err error) error {
	e := llm.Error{Code: llm.ErrAuthentication}
	if of, ok := errors.AsType[*llm.Error](err); ok {
		e = *of
	}
	e.Message = cmp.Or(a.shown(err.Error()), e.Message)
	e.Next = cmp.Or(e.Next, "set the key in the provider's block, or the variable that it is read from")
	return &Fault{Err: &e}
}
