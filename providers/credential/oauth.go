// Package credential gets tokens by OAuth 2.0 for a registration of the user's own, and keeps them fresh.
//
// It owns: logging in with a browser (authorization code with PKCE) or with a code on another machine, refreshing before
// a token expires and after it was refused, one refresh at a time, and which failures are for good. It must not know:
// which vendor it is, where tokens are kept, how a person is reached.
//
// Start with [New] and [OAuth.Token].
package credential

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/oauth2"

	"github.com/gantry-agent/gantry/sdk/llm"
)

const (
	// early is how long before its end a token is refreshed.
	early = 5 * time.Minute
	// maxAge is when a token that does not say when it ends is refreshed.
	maxAge = 8 * 24 * time.Hour
	// refreshTimeout bounds one exchange with the vendor.
	refreshTimeout = 30 * time.Second

	redirectPlace = "{redirect_uri}"
	stored        = "oauth"
)

// Registration is the user's own at the vendor.
type Registration struct {
	ClientID, ClientSecret       string // a public client has no secret
	AuthURL, TokenURL, DeviceURL string
	Scopes                       []string
	Parameters                   map[string]string // more of the login's address
}

// Vault keeps the token.
type Vault interface {
	StoredSecret(ctx context.Context, name string) (value string, found bool, err error)
	StoreSecret(ctx context.Context, name, value string) error
	// Exclusive runs f while no other process runs one of the same name.
	Exclusive(ctx context.Context, name string, wait time.Duration, f func(context.Context) error) error
}

// OAuth has tokens for one registration. Safe for concurrent use.
type OAuth struct {
	reg    Registration
	vault  Vault
	client *http.Client
	now    func() time.Time

	renewing sync.Mutex // held by who refreshes
	mu       struct {
		sync.Mutex
		token *token
		// dead is the refresh token that the vendor refused for good; until another one is there nobody asks again.
		dead string
		why  error
	}
}

// token is what is kept.
type token struct {
	Access    string    `json:"access"`
	Refresh   string    `json:"refresh,omitempty"`
	Expiry    time.Time `json:"expiry,omitzero"`
	Refreshed time.Time `json:"refreshed"`
	Client    string    `json:"client"` // the registration it belongs to
}

// New makes an OAuth. client reaches the vendor.
func New(reg Registration, vault Vault, client *http.Client) (*OAuth, error) {
	switch {
	case reg.ClientID == "":
		return nil, errors.New("client_id is missing: it is that of your own registration at the vendor")
	case reg.TokenURL == "":
		return nil, errors.New("token_url is missing")
	case reg.AuthURL == "" && reg.DeviceURL == "":
		return nil, errors.New("auth_url or device_url is missing: one of them is where you log in")
	}
	return &OAuth{reg: reg, vault: vault, client: client, now: time.Now}, nil
}

func (o *OAuth) config() *oauth2.Config {
	return &oauth2.Config{
		ClientID: o.reg.ClientID, ClientSecret: o.reg.ClientSecret, Scopes: o.reg.Scopes,
		Endpoint: oauth2.Endpoint{AuthURL: o.reg.AuthURL, TokenURL: o.reg.TokenURL, DeviceAuthURL: o.reg.DeviceURL},
	}
}

func (o *OAuth) context(ctx context.Context) context.Context { return context.WithValue(ctx, oauth2.HTTPClient, o.client) }

// Browser logs in with a browser. open shows an address, in which it puts where the browser shall come back to in the place
// of "{redirect_uri}", and returns that and the query that came.
func (o *OAuth) Browser(ctx context.Context, open func(ctx context.Context, address string) (redirect string, query map[string]string, err error)) error {
	if o.reg.AuthURL == "" {
		return errors.New("auth_url is missing in the oauth block; log in with --device")
	}
	state, verifier := nonce(), nonce()
	opts := []oauth2.AuthCodeOption{oauth2.S256ChallengeOption(verifier)}
	for name, v := range o.reg.Parameters {
		opts = append(opts, oauth2.SetAuthURLParam(name, v))
	}
	cfg := o.config()
	cfg.RedirectURL = redirectPlace
	// What is escaped here is the place, which the host replaces as a whole.
	address := strings.Replace(cfg.AuthCodeURL(state, opts...), "%7Bredirect_uri%7D", redirectPlace, 1)
	redirect, query, err := open(ctx, address)
	if err != nil {
		return err
	}
	switch {
	case subtle.ConstantTimeCompare([]byte(query["state"]), []byte(state)) != 1:
		return errors.New("the browser came back with an answer to another login; try again")
	case query["error"] != "":
		return fmt.Errorf("the vendor refused the login: %s", strings.TrimSpace(query["error"]+" "+query["error_description"]))
	case query["code"] == "":
		return errors.New("the browser came back without a code; try again")
	}
	cfg.RedirectURL = redirect
	ctx, cancel := context.WithTimeout(ctx, refreshTimeout)
	defer cancel()
	t, err := cfg.Exchange(o.context(ctx), query["code"], oauth2.VerifierOption(verifier))
	if err != nil {
		return fmt.Errorf("exchange the code for a token: %w", plain(err))
	}
	return o.keep(ctx, t, "")
}

// Device logs in with a code that is typed on another machine. show is given the address and the code and returns at once.
func (o *OAuth) Device(ctx context.Context, show func(ctx context.Context, address, code string) error) error {
	if o.reg.DeviceURL == "" {
		return errors.New("device_url is missing in the oauth block; log in without --device")
	}
	cfg := o.config()
	d, err := cfg.DeviceAuth(o.context(ctx))
	if err != nil {
		return fmt.Errorf("ask for a code: %w", plain(err))
	}
	address := d.VerificationURIComplete
	if address == "" {
		address = d.VerificationURI
	}
	if err := show(ctx, address, d.UserCode); err != nil {
		return err
	}
	t, err := cfg.DeviceAccessToken(o.context(ctx), d)
	if err != nil {
		return fmt.Errorf("wait for the login: %w", plain(err))
	}
	return o.keep(ctx, t, "")
}

// Logout forgets the token. was is false when there was none.
func (o *OAuth) Logout(ctx context.Context) (was bool, err error) {
	_, was, err = o.vault.StoredSecret(ctx, stored)
	if err != nil || !was {
		return was, err
	}
	o.mu.Lock()
	o.mu.token = nil
	o.mu.Unlock()
	return true, o.vault.StoreSecret(ctx, stored, "")
}

// Token returns a token to ask with, refreshed if it is about to end.
func (o *OAuth) Token(ctx context.Context) (string, error) {
	t, err := o.current(ctx)
	if err != nil {
		return "", err
	}
	if !o.stale(t) {
		return t.Access, nil
	}
	fresh, err := o.renew(ctx, t)
	if err == nil {
		return fresh.Access, nil
	}
	if o.now().Before(t.Expiry) {
		return t.Access, nil // it holds for some minutes yet, and the next request tries again
	}
	return "", err
}

// Recover takes the steps after a token was refused: the one that another process stored meanwhile, or else a new one.
func (o *OAuth) Recover(ctx context.Context) (bool, error) {
	o.mu.Lock()
	used := o.mu.token
	o.mu.Unlock()
	if used == nil {
		return false, nil
	}
	kept, err := o.read(ctx)
	if err != nil {
		return false, err
	}
	if kept.Access != used.Access {
		o.set(kept)
		return true, nil
	}
	_, err = o.renew(ctx, kept)
	return err == nil, err
}

func (o *OAuth) stale(t *token) bool {
	if t.Expiry.IsZero() {
		return t.Refresh != "" && o.now().Sub(t.Refreshed) > maxAge
	}
	return o.now().Add(early).After(t.Expiry)
}

// current is the token in memory, or the stored one.
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
	var t token
	switch {
	case !found:
		return nil, missing("nobody is logged in")
	case json.Unmarshal([]byte(text), &t) != nil || t.Access == "":
		return nil, missing("the stored login can't be read")
	case t.Client != o.reg.ClientID:
		return nil, missing("the stored login belongs to another client_id")
	}
	return &t, nil
}

func missing(what string) *llm.Error {
	return &llm.Error{Code: llm.ErrAuthentication, Message: what, Next: "run `gantry login` with the provider's name"}
}

// renew refreshes a token that was used, unless somebody else has done so meanwhile.
func (o *OAuth) renew(ctx context.Context, used *token) (*token, error) {
	o.renewing.Lock()
	defer o.renewing.Unlock()
	var fresh *token
	err := o.vault.Exclusive(ctx, "oauth-refresh", refreshTimeout, func(ctx context.Context) error {
		kept, err := o.read(ctx)
		if err != nil {
			return err
		}
		if kept.Access != used.Access {
			o.set(kept)
			fresh = kept
			return nil
		}
		fresh, err = o.refresh(ctx, kept)
		return err
	})
	return fresh, err
}

func (o *OAuth) refresh(ctx context.Context, t *token) (*token, error) {
	o.mu.Lock()
	dead, why := o.mu.dead, o.mu.why
	o.mu.Unlock()
	switch t.Refresh {
	case "":
		return nil, missing("the login has ended, and there is nothing to renew it with")
	case dead:
		return nil, why
	}
	ctx, cancel := context.WithTimeout(ctx, refreshTimeout)
	defer cancel()
	got, err := o.config().TokenSource(o.context(ctx), &oauth2.Token{RefreshToken: t.Refresh}).Token()
	if err != nil {
		if final(err) {
			err = missing(fmt.Sprintf("the vendor does not renew the login any more: %v", plain(err)))
			o.mu.Lock()
			o.mu.dead, o.mu.why = t.Refresh, err
			o.mu.Unlock()
			return nil, err
		}
		return nil, fmt.Errorf("renew the login: %w", plain(err))
	}
	if err := o.keep(ctx, got, t.Refresh); err != nil {
		return nil, err
	}
	return o.current(ctx)
}

// keep stores a token before it is used: its refresh token may be the only one that still works.
func (o *OAuth) keep(ctx context.Context, t *oauth2.Token, refresh string) error {
	if t.RefreshToken != "" {
		refresh = t.RefreshToken
	}
	kept := &token{Access: t.AccessToken, Refresh: refresh, Expiry: t.Expiry, Refreshed: o.now(), Client: o.reg.ClientID}
	b, err := json.Marshal(kept)
	if err != nil { // texts and times
		panic("credential: marshal token: " + err.Error())
	}
	if err := o.vault.StoreSecret(ctx, stored, string(b)); err != nil {
		return err
	}
	o.set(kept)
	return nil
}

// finalCodes are those of refusals that asking again does not change.
var finalCodes = []string{
	"invalid_grant", "invalid_client", "unauthorized_client", "refresh_token_expired", "refresh_token_reused", "refresh_token_invalidated",
}

func final(err error) bool {
	e, ok := errors.AsType[*oauth2.RetrieveError](err)
	if !ok {
		return false
	}
	return slices.Contains(finalCodes, e.ErrorCode) || e.Response != nil && e.Response.StatusCode == http.StatusUnauthorized
}

// plain leaves out the vendor's body, which may echo what was sent.
func plain(err error) error {
	e, ok := errors.AsType[*oauth2.RetrieveError](err)
	switch {
	case !ok:
		return err
	case e.ErrorCode != "":
		return errors.New(strings.TrimSpace(e.ErrorCode + " " + e.ErrorDescription))
	case e.Response != nil:
		return fmt.Errorf("the vendor answered %s", e.Response.Status)
	}
	return errors.New("the vendor's answer can't be read")
}

// nonce is 64 random bytes as text.
func nonce() string {
	b := make([]byte, 64)
	rand.Read(b)
	return base64.RawURLEncoding.EncodeToString(b)
}
