package route

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
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

// Headers sends fixed values. Of these only those are secrets whose names promise one.
func Headers(values map[string]string) Auth {
	return applyFunc(func(_ context.Context, o *Outgoing) error {
		h, err := headers(values)
		if err != nil {
			return err
		}
		for name, v := range h {
			o.Header[name] = v
		}
		return nil
	})
}

// Remove takes headers out, whoever put them in.
func Remove(names ...string) Auth {
	return applyFunc(func(_ context.Context, o *Outgoing) error {
		for _, n := range names {
			o.Header.Del(n)
		}
		return nil
	})
}

// AndThen applies all in order, each to what the one before left.
func AndThen(all ...Auth) Auth { return chain(all) }

type chain []Auth

func (c chain) Apply(ctx context.Context, o *Outgoing) error {
	for _, a := range c {
		if err := a.Apply(ctx, o); err != nil {
			return err
		}
	}
	return nil
}

func (c chain) Recover(ctx context.Context, refused []string) (bool, error) {
	return recoverAny(ctx, c, refused)
}

// OrElse applies the first that can be applied. One that fails leaves no trace in the request.
func OrElse(choices ...Auth) Auth { return choice(choices) }

type choice []Auth

func (c choice) Apply(ctx context.Context, o *Outgoing) error {
	var failed []error
	for _, a := range c {
		try := *o
		u := *o.URL
		try.URL, try.Header, try.sent = &u, o.Header.Clone(), slices.Clip(o.sent)
		err := a.Apply(ctx, &try)
		if err == nil {
			*o = try
			return nil
		}
		if ctx.Err() != nil {
			return err
		}
		failed = append(failed, err)
	}
	return errors.Join(failed...)
}

func (c choice) Recover(ctx context.Context, refused []string) (bool, error) {
	return recoverAny(ctx, c, refused)
}

// recoverAny lets every part take its step: which of them the vendor refused is not known.
func recoverAny(ctx context.Context, parts []Auth, refused []string) (bool, error) {
	var recovered bool
	var failed []error
	for _, a := range parts {
		r, ok := a.(Recoverer)
		if !ok {
			continue
		}
		done, err := r.Recover(ctx, refused)
		recovered = recovered || done
		if err != nil {
			failed = append(failed, err)
		}
	}
	if recovered {
		return true, nil
	}
	return false, errors.Join(failed...)
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
