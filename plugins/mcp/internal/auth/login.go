package auth

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	sdkauth "github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/oauthex"
	"golang.org/x/oauth2"
)

// Redirect is an address that has been reserved for the answer to a login.
type Redirect struct {
	URI string
	// Open shows an address to the person, and returns the query that arrives at URI.
	Open func(ctx context.Context, address string) (query map[string]string, err error)
}

// Login logs in with a browser, and stores the login. Handlers in other processes use it as soon as they need a token. reserve is called
// before gantry registers itself, which states the address. permit may be nil. renewals is the URL at which tokens are renewed, without
// a person; it is empty if that is at the server itself.
func (h *Handler) Login(ctx context.Context, reserve func(context.Context) (Redirect, error), permit Permit) (renewals string, err error) {
	if err := h.logIn(ctx, reserve, permit); err != nil {
		return "", err
	}
	l, err := h.read(ctx)
	if err != nil {
		return "", err
	}
	u, err := url.Parse(l.TokenURL)
	if err != nil || sameOrigin(u, h.server) {
		return "", err
	}
	return l.TokenURL, nil
}

func (h *Handler) logIn(ctx context.Context, reserve func(context.Context) (Redirect, error), permit Permit) error {
	client, t := h.client(permit)
	asked, open, err := h.ask(ctx, client)
	if err != nil {
		return h.Explain(err)
	}
	if h.cfg.Machine {
		return h.startWith(ctx, client, t, asked)
	}
	where, resource, err := h.locate(ctx, client, asked.metadata)
	switch {
	case err != nil:
		return h.Explain(err)
	case where == "" && open:
		return fmt.Errorf("the server %q does not ask for a login", h.cfg.Name)
	}
	old, err := h.read(ctx)
	if _, useless := errors.AsType[*LoginError](err); useless {
		old = &login{}
	} else if err != nil {
		return err
	}
	redirect, err := reserve(ctx)
	if err != nil {
		return err
	}
	cfg := &sdkauth.AuthorizationCodeHandlerConfig{
		RedirectURL: redirect.URI, Client: client, RequestRefreshToken: true, AcceptUnadvertisedIss: true,
		ScopeFilter: func(found []string) []string { return union(h.scopes(found), old.Wanted) },
		NewTokenSource: func(_ context.Context, c *oauth2.Config, got *oauth2.Token) (oauth2.TokenSource, error) {
			l := &login{Resource: resource.String(), TokenURL: c.Endpoint.TokenURL, ClientID: c.ClientID, Style: c.Endpoint.AuthStyle,
				Scopes: c.Scopes, Wanted: old.Wanted}
			if h.cfg.ClientSecret == nil {
				l.ClientSecret = c.ClientSecret
			}
			return oauth2.StaticTokenSource(got), h.begin(ctx, l.with(got))
		},
	}
	if err := h.identify(ctx, cfg); err != nil {
		return err
	}
	opened := false
	cfg.AuthorizationCodeFetcher = func(ctx context.Context, a *sdkauth.AuthorizationArgs) (*sdkauth.AuthorizationResult, error) {
		opened = true
		return answer(ctx, redirect, a.URL)
	}
	flow, err := sdkauth.NewAuthorizationCodeHandler(cfg)
	if err != nil {
		return fmt.Errorf("the oauth block of the server %q: %w", h.cfg.Name, err)
	}
	// The SDK compares the resource byte by byte, so it is spelled as in the metadata that has been found and checked.
	req, resp := challenged(ctx, resource, where, asked.scopes)
	err = flow.Authorize(ctx, req, resp)
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return context.Cause(ctx)
	}
	err = t.cause(err)
	if place, ok := errors.AsType[*placeError](err); !opened && h.cfg.ClientID == "" && (!ok || place.method == http.MethodPost) {
		return fmt.Errorf("%w. If gantry can't register itself there, create a client with the redirect address %s, and set client_id in the oauth block of the server",
			h.Explain(err), redirect.URI)
	}
	return h.Explain(err)
}

// identify says which client gantry is.
func (h *Handler) identify(ctx context.Context, cfg *sdkauth.AuthorizationCodeHandlerConfig) error {
	secret, err := h.secret(ctx)
	switch {
	case err != nil:
		return err
	case strings.HasPrefix(h.cfg.ClientID, "https://"):
		cfg.ClientIDMetadataDocumentConfig = &sdkauth.ClientIDMetadataDocumentConfig{URL: h.cfg.ClientID}
	case h.cfg.ClientID != "":
		cfg.PreregisteredClient = &oauthex.ClientCredentials{ClientID: h.cfg.ClientID}
		if secret != "" {
			cfg.PreregisteredClient.ClientSecretAuth = &oauthex.ClientSecretAuth{ClientSecret: secret}
		}
	}
	if cfg.PreregisteredClient == nil && !h.cfg.NoRegistration {
		cfg.DynamicClientRegistrationConfig = &sdkauth.DynamicClientRegistrationConfig{Metadata: &oauthex.ClientRegistrationMetadata{
			ClientName: "gantry", SoftwareID: "gantry", SoftwareVersion: h.cfg.Version, RedirectURIs: []string{cfg.RedirectURL},
			GrantTypes: []string{"authorization_code", "refresh_token"}, ResponseTypes: []string{"code"}, TokenEndpointAuthMethod: "none",
		}}
	}
	return nil
}

// answer opens the browser and reads what comes back. The SDK checks state and issuer of a code, but does not see refusals.
func answer(ctx context.Context, redirect Redirect, address string) (*sdkauth.AuthorizationResult, error) {
	u, err := url.Parse(address)
	if err != nil {
		return nil, err
	}
	query, err := redirect.Open(ctx, address)
	switch {
	case err != nil:
		return nil, err
	case query["state"] != u.Query().Get("state"):
		return nil, errors.New("the browser returned the answer to another login; try again")
	case query["error"] != "":
		return nil, fmt.Errorf("the login was refused: %s", words(query["error"], query["error_description"]))
	case query["code"] == "":
		return nil, errors.New("the browser returned no code; try again")
	}
	return &sdkauth.AuthorizationResult{Code: query["code"], State: query["state"], Iss: query["iss"]}, nil
}

// challenged returns a request for a resource, and an answer that demands a login with the given metadata.
func challenged(ctx context.Context, resource *url.URL, where string, scopes []string) (*http.Request, *http.Response) {
	var params []string
	if where != "" {
		params = append(params, `resource_metadata="`+where+`"`)
	}
	if len(scopes) > 0 {
		params = append(params, `scope="`+strings.Join(scopes, " ")+`"`)
	}
	header := strings.TrimSpace("Bearer " + strings.Join(params, ", "))
	req := (&http.Request{Method: http.MethodPost, URL: resource}).WithContext(ctx)
	return req, &http.Response{StatusCode: http.StatusUnauthorized, Body: http.NoBody, Header: http.Header{"Www-Authenticate": {header}}}
}

// begin stores a new login, after any renewal of the previous one.
func (h *Handler) begin(ctx context.Context, l *login) error {
	return h.exclusive(context.WithoutCancel(ctx), func(ctx context.Context) error { // the code has been used
		h.forget()
		return h.keep(ctx, l)
	})
}

func (h *Handler) forget() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.mu.login, h.mu.unsaved, h.mu.spent, h.mu.dead, h.mu.why = nil, nil, "", "", nil
}

// Logout deletes the login.
func (h *Handler) Logout(ctx context.Context) error {
	return h.exclusive(ctx, func(ctx context.Context) error {
		h.forget()
		return h.cfg.Secrets.DeleteSecret(ctx, h.key())
	})
}

// start obtains the first token of a machine.
func (h *Handler) start(ctx context.Context, asked challenge) error {
	client, t := h.client(nil)
	return h.startWith(ctx, client, t, asked)
}

func (h *Handler) startWith(ctx context.Context, client *http.Client, t *trip, asked challenge) error {
	s, err := h.discover(ctx, client, t, asked)
	if err != nil {
		return err
	}
	l := &login{Resource: s.resource.String(), TokenURL: s.meta.TokenEndpoint, ClientID: h.cfg.ClientID, Scopes: s.scopes, Style: oauth2.AuthStyleInHeader}
	for _, method := range s.meta.TokenEndpointAuthMethodsSupported {
		if method == "client_secret_post" {
			l.Style = oauth2.AuthStyleInParams
		}
	}
	_, err = h.renew(ctx, l)
	return err
}

// authServer is the authorization server that a server names.
type authServer struct {
	resource *url.URL
	scopes   []string
	meta     *oauthex.AuthServerMeta
}

// discover finds the authorization server. The error is explained.
func (h *Handler) discover(ctx context.Context, client *http.Client, t *trip, asked challenge) (s authServer, err error) {
	where, resource, err := h.locate(ctx, client, asked.metadata)
	if err != nil {
		return s, h.Explain(err)
	}
	issuer, scopes := origin(h.server), asked.scopes
	if where != "" {
		m, err := oauthex.GetProtectedResourceMetadata(ctx, where, resource.String(), client)
		switch {
		case err != nil:
			return s, h.Explain(t.cause(err))
		case len(m.AuthorizationServers) == 0:
			return s, h.Explain(fmt.Errorf("%s names no authorization server", plain(where)))
		}
		issuer = m.AuthorizationServers[0]
		if len(scopes) == 0 {
			scopes = m.ScopesSupported
		}
	}
	m, err := sdkauth.GetAuthServerMetadata(ctx, issuer, client)
	if err != nil {
		return s, h.Explain(t.cause(err))
	}
	if m == nil { // as of the version 2025-03-26 of the protocol
		m = &oauthex.AuthServerMeta{TokenEndpoint: strings.TrimRight(issuer, "/") + "/token"}
	}
	return authServer{resource, scopes, m}, nil
}
