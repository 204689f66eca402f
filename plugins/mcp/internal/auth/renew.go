package auth

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"golang.org/x/oauth2"
	"golang.org/x/oauth2/clientcredentials"
)

const (
	// exchangeTimeout limits one exchange with an authorization server.
	exchangeTimeout = 30 * time.Second
	// leaseTimeout limits the wait for another process that renews the token.
	leaseTimeout = exchangeTimeout
	// early is how long before its expiry a token is renewed, but not before half its lifetime.
	early = 5 * time.Minute
	// retryAfter is how long a failed early renewal is not tried again.
	retryAfter = time.Minute
	// recheck is how long a login is used before it is read again: another process may have logged out, or in to another account.
	recheck = 10 * time.Second
)

// login is a stored login.
type login struct {
	Access       string           `json:"access,omitempty"` // empty: there is only Wanted
	Refresh      string           `json:"refresh,omitempty"`
	Expiry       time.Time        `json:"expiry,omitzero"`
	Refreshed    time.Time        `json:"refreshed,omitzero"`
	Renewed      bool             `json:"renewed,omitempty"` // not from a login, but for an earlier token
	Resource     string           `json:"resource,omitempty"`
	TokenURL     string           `json:"token_url,omitempty"`
	ClientID     string           `json:"client_id,omitempty"`
	ClientSecret string           `json:"client_secret,omitempty"` // of a client that gantry has registered
	Style        oauth2.AuthStyle `json:"style,omitempty"`
	Scopes       []string         `json:"scopes,omitempty"` // granted
	Wanted       []string         `json:"wanted,omitempty"` // that the server has asked for
}

// Format prints no secret, for any verb.
func (l login) Format(f fmt.State, _ rune) { fmt.Fprint(f, "(login)") }

func (l *login) expired(now time.Time) bool { return !l.Expiry.IsZero() && !now.Before(l.Expiry) }

func (l *login) stale(now time.Time) bool {
	return !l.Expiry.IsZero() && !now.Add(min(early, l.Expiry.Sub(l.Refreshed)/2)).Before(l.Expiry)
}

// with returns the login with a new token.
func (l *login) with(got *oauth2.Token) *login {
	out := *l
	out.Access, out.Refreshed, out.Expiry = got.AccessToken, time.Now().Round(0), time.Time{}
	if !got.Expiry.IsZero() {
		out.Expiry = got.Expiry.Round(0) // the monotonic clock may stop while the machine sleeps
	}
	if got.RefreshToken != "" {
		out.Refresh = got.RefreshToken
	}
	if granted, ok := got.Extra("scope").(string); ok && granted != "" {
		out.Scopes = strings.Fields(granted)
	}
	return &out
}

// renewal is a renewal in progress, shared by all requests that wait for it.
type renewal struct {
	done  chan struct{} // closed when the other fields are set
	login *login
	err   error
}

// current returns a login whose token is valid, renewed if it is about to expire. nil: there is none.
func (h *Handler) current(ctx context.Context) (*login, error) {
	h.mu.Lock()
	l, checked, patience := h.mu.login, h.mu.checked, h.mu.patience
	h.mu.Unlock()
	now := time.Now()
	if l == nil || now.Sub(checked) > recheck || l.stale(now) && !now.Before(patience) || l.expired(now) {
		var err error
		if l, err = h.read(ctx); err != nil {
			return nil, err
		}
		if l.Access == "" {
			return nil, nil
		}
		h.take(l)
	}
	switch {
	case !l.stale(now), !l.expired(now) && (now.Before(patience) || l.Refresh == "" && !h.cfg.Machine):
		return l, nil
	}
	fresh, err := h.renew(ctx, l)
	if err != nil && !l.expired(time.Now()) && ctx.Err() == nil {
		return l, nil // valid for a while yet
	}
	return fresh, err
}

// read returns the stored login; an empty one if there is none.
func (h *Handler) read(ctx context.Context) (*login, error) {
	text, found, err := h.cfg.Secrets.StoredSecret(ctx, h.key())
	if err != nil {
		return nil, fmt.Errorf("read the login of the server %q: %w", h.cfg.Name, err)
	}
	l := &login{}
	if found && json.Unmarshal([]byte(text), l) != nil {
		return nil, h.needs("the stored one can't be read", nil)
	}
	if r, err := url.Parse(l.Resource); l.Access != "" && (err != nil || !sameOrigin(r, h.server)) {
		return nil, h.needs("the stored one belongs to another server", nil)
	}
	return l, nil
}

func (h *Handler) take(l *login) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.mu.login, h.mu.checked = l, time.Now()
}

// renew replaces a login's token, unless another process has done so meanwhile.
func (h *Handler) renew(ctx context.Context, used *login) (*login, error) {
	h.mu.Lock()
	r := h.mu.renewal
	if r == nil {
		r = &renewal{done: make(chan struct{})}
		h.mu.renewal = r
		// It continues if the request is cancelled, because the old token may have been consumed. It has its own timeouts.
		h.work.Go(func() { h.replace(context.WithoutCancel(ctx), used, r) })
	}
	h.mu.Unlock()
	select {
	case <-r.done:
		return r.login, r.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// replace performs a renewal.
func (h *Handler) replace(ctx context.Context, used *login, r *renewal) {
	defer close(r.done)
	r.err = h.exclusive(ctx, func(ctx context.Context) (err error) {
		stored, err := h.read(ctx)
		switch {
		case err != nil:
			return err
		case stored.Access != used.Access && stored.Access != "":
			h.take(stored)
			r.login = stored
			return nil
		case stored.Access == "" && used.Access != "":
			return h.needs("it has been logged out of", nil)
		}
		if used.Access != "" {
			used = stored // with the scopes that are wanted by now
		}
		r.login, err = h.refresh(ctx, used)
		return err
	})
	h.mu.Lock()
	defer h.mu.Unlock()
	h.mu.renewal = nil
	if r.err != nil {
		h.mu.patience = time.Now().Add(retryAfter)
	}
}

// refresh obtains a new token. The lease is held.
func (h *Handler) refresh(ctx context.Context, l *login) (*login, error) {
	h.mu.Lock()
	dead, why, unsaved, spent := h.mu.dead, h.mu.why, h.mu.unsaved, h.mu.spent
	h.mu.Unlock()
	params := url.Values{"resource": {l.Resource}}
	switch {
	case h.cfg.Machine:
		if scopes := union(h.scopes(l.Scopes), l.Wanted); len(scopes) > 0 {
			params.Set("scope", strings.Join(scopes, " "))
		}
	case l.Refresh == "":
		return nil, h.needs("it has expired or was revoked, and can't be renewed", nil)
	case l.Refresh == dead:
		return nil, why
	case l.Refresh == spent:
		return unsaved, h.keep(ctx, unsaved)
	default:
		params.Set("grant_type", "refresh_token")
		params.Set("refresh_token", l.Refresh)
	}
	secret, err := h.secret(ctx)
	if err != nil {
		return nil, err
	}
	if secret == "" {
		secret = l.ClientSecret
	}
	ctx, cancel := context.WithTimeout(ctx, exchangeTimeout)
	defer cancel()
	client, t := h.client(nil)
	// The package's own renewal can't send a resource.
	got, err := (&clientcredentials.Config{
		ClientID: l.ClientID, ClientSecret: secret, TokenURL: l.TokenURL, AuthStyle: style(l.Style, secret), EndpointParams: params,
	}).Token(context.WithValue(ctx, oauth2.HTTPClient, client))
	if err != nil {
		return nil, h.refused(t.cause(err), l)
	}
	fresh := l.with(got)
	fresh.Renewed = true
	if h.cfg.Machine && got.Extra("scope") == nil {
		fresh.Scopes = strings.Fields(params.Get("scope"))
	}
	h.mu.Lock()
	if l.Refresh != "" {
		h.mu.unsaved, h.mu.spent = fresh, l.Refresh
	}
	h.mu.Unlock()
	return fresh, h.keep(ctx, fresh)
}

// refused says why a token was not renewed, and remembers it if that is final.
func (h *Handler) refused(err error, l *login) error {
	answer, ok := errors.AsType[*oauth2.RetrieveError](err)
	if !ok || !slices.Contains([]string{"invalid_grant", "invalid_client", "unauthorized_client"}, answer.ErrorCode) {
		why := explain(h.cfg.Name, locus(h.cfg.URL, err), err)
		return &problem{fmt.Sprintf("the server %q: its login can't be renewed: %s", h.cfg.Name, why), err}
	}
	err = h.needs("it has expired or was revoked ("+answer.ErrorCode+")", nil)
	if l.Refresh != "" {
		h.mu.Lock()
		h.mu.dead, h.mu.why = l.Refresh, err
		h.mu.Unlock()
	}
	return err
}

// keep stores a login before it is used: its refresh token may be the only valid one. If that fails, the next renewal tries it again.
func (h *Handler) keep(ctx context.Context, l *login) error {
	if err := h.save(ctx, l); err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.mu.login, h.mu.checked, h.mu.patience = l, time.Now(), time.Time{}
	h.mu.unsaved, h.mu.spent = nil, ""
	return nil
}

func (h *Handler) save(ctx context.Context, l *login) error {
	b, err := json.Marshal(l)
	if err == nil {
		err = h.cfg.Secrets.StoreSecret(ctx, h.key(), string(b))
	}
	if err != nil {
		return fmt.Errorf("store the login of the server %q: %w", h.cfg.Name, err)
	}
	return nil
}

func (h *Handler) secret(ctx context.Context) (string, error) {
	if h.cfg.ClientSecret == nil {
		return "", nil
	}
	s, err := h.cfg.ClientSecret(ctx)
	if err != nil {
		return "", fmt.Errorf("client_secret of the server %q: %w", h.cfg.Name, err)
	}
	return s, nil
}

// scopes returns the scopes to request if a server has asked for these.
func (h *Handler) scopes(asked []string) []string {
	if h.cfg.Scopes != nil {
		return h.cfg.Scopes
	}
	return asked
}

// style chooses how a client authenticates. Trying one way after the other would send a single-use token twice.
func style(s oauth2.AuthStyle, secret string) oauth2.AuthStyle {
	switch {
	case secret == "":
		return oauth2.AuthStyleInParams
	case s == oauth2.AuthStyleAutoDetect:
		return oauth2.AuthStyleInHeader // the default of RFC 8414
	}
	return s
}
