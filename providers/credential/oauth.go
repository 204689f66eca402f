// Package credential obtains OAuth 2.0 tokens for the user's own client registration and refreshes them.
//
// It owns logging in with a browser (authorization code with PKCE) or a device code, refreshing tokens before they expire and
// after they were rejected, serializing refreshes, and recognizing permanent failures. It does not know the vendor, where tokens
// are stored, or how the user is asked.
//
// Its errors contain no code, state or token, and of a vendor's response only the name of the error and one line of description.
// Start with [New] and [OAuth.Token].
package credential

import (
	"context"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"time"

	"golang.org/x/oauth2"
)

// Registration is the user's client registration at the vendor.
type Registration struct {
	Label                        string // of the provider's block, for messages
	ClientID, ClientSecret       string // a public client has no secret
	SecretInBody                 bool   // the secret is sent in the body, not in the Authorization header
	AuthURL, TokenURL, DeviceURL string
	Scopes                       []string
	Parameters                   map[string]string // additional parameters of the authorization request
}

// Format prints no secret, for any verb.
func (r Registration) Format(f fmt.State, _ rune) { fmt.Fprintf(f, "(registration of %q)", r.Label) }

// Vault stores the token.
type Vault interface {
	StoredSecret(ctx context.Context, name string) (value string, found bool, err error)
	StoreSecret(ctx context.Context, name, value string) error
	// Exclusive runs f while no other process runs a function with the same name.
	Exclusive(ctx context.Context, name string, wait time.Duration, f func(context.Context) error) error
}

// OAuth provides tokens for a registration. It is safe for concurrent use.
type OAuth struct {
	reg    Registration
	vault  Vault
	client *http.Client
	work   sync.WaitGroup // the running renewal

	mu struct {
		sync.Mutex
		token   *token // nil: not read yet
		renewal *renewal
		// patience is the time before which an early renewal is not retried after a failure.
		patience time.Time
		// dead is the refresh token that the vendor rejected permanently, and lost the rejected access token that cannot be
		// renewed. Until other tokens are stored, no request is made; why is the error.
		dead, lost string
		why        error
		// unsaved is a token that the vendor issued for the refresh token spent, and that could not be stored.
		unsaved *token
		spent   string
	}
}

// Format prints no tokens, for any verb.
func (o *OAuth) Format(f fmt.State, _ rune) { fmt.Fprintf(f, "(login of %q)", o.reg.Label) }

// ConfigError is an error in the registration that the user must correct.
type ConfigError struct {
	Attribute string // client_id, auth_url, token_url, device_url, parameters
	Message   string
}

// Error implements error.
func (e *ConfigError) Error() string { return e.Message }

// reserved are the parameters of the authorization request that its security depends on.
var reserved = []string{"client_id", "code_challenge", "code_challenge_method", "redirect_uri", "response_type", "scope", "state"}

// New validates a registration. client sends requests to the vendor without following redirects, because they contain secrets.
func New(reg Registration, vault Vault, client *http.Client) (*OAuth, error) {
	if reg.ClientID == "" {
		return nil, &ConfigError{"client_id", "client_id is missing: it is the ID of your client registration with the vendor"}
	}
	if reg.AuthURL == "" && reg.DeviceURL == "" {
		return nil, &ConfigError{"auth_url", "auth_url and device_url are missing: set at least one of them"}
	}
	for _, u := range []struct {
		name, address string
		optional      bool
	}{{"auth_url", reg.AuthURL, true}, {"token_url", reg.TokenURL, false}, {"device_url", reg.DeviceURL, true}} {
		if err := checkURL(u.name, u.address, u.optional); err != nil {
			return nil, err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(reg.Parameters)) {
		if slices.Contains(reserved, name) {
			return nil, &ConfigError{"parameters", fmt.Sprintf("the parameter %q is reserved", name)}
		}
	}
	own := *client
	own.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &OAuth{reg: reg, vault: vault, client: &own}, nil
}

// checkURL requires https, except for this machine.
func checkURL(name, address string, optional bool) error {
	if address == "" {
		if optional {
			return nil
		}
		return &ConfigError{name, name + " is missing"}
	}
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.User != nil || u.Fragment != "" || u.Scheme != "https" && u.Scheme != "http" {
		return &ConfigError{name, name + " is not an address: write it as https://HOST/PATH"}
	}
	ip := net.ParseIP(u.Hostname())
	if u.Scheme == "http" && u.Hostname() != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return &ConfigError{name, name + " must begin with https://, because secrets are sent there"}
	}
	return nil
}

func (o *OAuth) config() *oauth2.Config {
	// By default, the library tries one style after the other, which would send a single-use code or refresh token twice.
	style := oauth2.AuthStyleInHeader
	if o.reg.ClientSecret == "" || o.reg.SecretInBody {
		style = oauth2.AuthStyleInParams
	}
	return &oauth2.Config{
		ClientID: o.reg.ClientID, ClientSecret: o.reg.ClientSecret, Scopes: o.reg.Scopes,
		Endpoint: oauth2.Endpoint{AuthURL: o.reg.AuthURL, TokenURL: o.reg.TokenURL, DeviceAuthURL: o.reg.DeviceURL, AuthStyle: style},
	}
}

func (o *OAuth) context(ctx context.Context) context.Context {
	return context.WithValue(ctx, oauth2.HTTPClient, o.client)
}

// Close waits for a running renewal, whose token may be the only valid one. It takes at most a minute.
func (o *OAuth) Close() { o.work.Wait() }

// Token returns a valid access token, renewed if it is about to expire.
func (o *OAuth) Token(ctx context.Context) (string, error) {
	t, err := o.current(ctx)
	if err != nil {
		return "", err
	}
	if why := o.isLost(t); why != nil {
		if t, err = o.newer(ctx, t); err != nil {
			return "", err
		}
		if t == nil {
			return "", why
		}
	}
	if !o.due(t) {
		return t.Access, nil
	}
	fresh, err := o.renew(ctx, t)
	if err == nil {
		return fresh.Access, nil
	}
	if !t.expired(time.Now()) && ctx.Err() == nil {
		return t.Access, nil // valid for some more minutes
	}
	return "", err
}

// Recover handles rejected tokens: it takes the token that another request or process has obtained meanwhile, or a new one.
func (o *OAuth) Recover(ctx context.Context, refused []string) (bool, error) {
	o.mu.Lock()
	used := o.mu.token
	o.mu.Unlock()
	switch {
	case used == nil:
		return false, nil
	case !slices.Contains(refused, used.Access):
		return true, nil
	}
	kept, err := o.newer(ctx, used)
	if err != nil || kept != nil {
		return err == nil, err
	}
	if _, err = o.renew(ctx, used); err == nil {
		return true, nil
	}
	if isFinal(err) {
		o.mu.Lock()
		o.mu.lost, o.mu.why = used.Access, err
		o.mu.Unlock()
	}
	return false, err
}

func (o *OAuth) isLost(t *token) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.mu.lost == t.Access {
		return o.mu.why
	}
	return nil
}

// due reports whether a token should be renewed.
func (o *OAuth) due(t *token) bool {
	now := time.Now()
	if t.expired(now) {
		return true
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	return t.Refresh != "" && t.stale(now) && !now.Before(o.mu.patience)
}

// current returns the token in memory, or the stored one.
func (o *OAuth) current(ctx context.Context) (*token, error) {
	o.mu.Lock()
	t := o.mu.token
	o.mu.Unlock()
	if t != nil {
		return t, nil
	}
	t, err := o.read(ctx)
	if err == nil {
		o.set(t)
	}
	return t, err
}

// newer replaces a used token with the stored one, or returns nil if they are the same.
func (o *OAuth) newer(ctx context.Context, used *token) (*token, error) {
	kept, err := o.read(ctx)
	switch {
	case err != nil:
		return nil, err
	case kept.Access == used.Access:
		return nil, nil
	case kept.Account != used.Account && kept.Account != "" && used.Account != "":
		return nil, o.ended("a login to another account has taken place meanwhile", "restart gantry to use it")
	}
	o.set(kept)
	return kept, nil
}

func (o *OAuth) set(t *token) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.mu.token = t
}

// read returns the stored token.
func (o *OAuth) read(ctx context.Context) (*token, error) {
	text, found, err := o.vault.StoredSecret(ctx, stored)
	if err != nil {
		return nil, err
	}
	if !found {
		return nil, o.ended("not logged in", "")
	}
	t, ok := parse(text)
	switch {
	case !ok:
		return nil, o.ended("the stored login can't be read", "")
	case t.Client != o.reg.ClientID:
		return nil, o.ended("the stored login belongs to another client_id", "")
	}
	return t, nil
}

// forget discards everything about earlier tokens.
func (o *OAuth) forget() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.mu.token, o.mu.patience = nil, time.Time{}
	o.mu.dead, o.mu.lost, o.mu.why = "", "", nil
	o.mu.unsaved, o.mu.spent = nil, ""
}
