package credential

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"golang.org/x/oauth2"

	"github.com/gantry-agent/gantry/sdk/llm"
)

const (
	redirectPlace = "{redirect_uri}"
	// deviceTimeout is the lifetime of a device code if the vendor does not state one.
	deviceTimeout = 15 * time.Minute
	// slower is added to the polling interval after an error, in seconds.
	slower      = 5
	maxInterval = 60 // in seconds
	maxAnswer   = 1 << 20
)

// Browser logs in with a browser. open opens an address after replacing "{redirect_uri}" with the redirect address, and returns
// that address and the query that arrived there.
func (o *OAuth) Browser(ctx context.Context, open func(ctx context.Context, address string) (redirect string, query map[string]string, err error)) error {
	if o.reg.AuthURL == "" {
		return &llm.Error{
			Code: llm.ErrAuthentication, Message: "the oauth block has no auth_url, which is needed to log in with a browser",
			Next: "log in with --device",
		}
	}
	state, verifier := nonce(), nonce()
	opts := []oauth2.AuthCodeOption{oauth2.S256ChallengeOption(verifier)}
	for name, v := range o.reg.Parameters {
		opts = append(opts, oauth2.SetAuthURLParam(name, v))
	}
	cfg := o.config()
	// The placeholder contains no characters that need escaping; the host replaces it as a whole.
	cfg.RedirectURL = nonce()
	address := strings.Replace(cfg.AuthCodeURL(state, opts...), cfg.RedirectURL, redirectPlace, 1)
	redirect, query, err := open(ctx, address)
	if err != nil {
		return err
	}
	switch {
	case subtle.ConstantTimeCompare([]byte(query["state"]), []byte(state)) != 1:
		return errors.New("the browser returned the response to another login; try again")
	case query["error"] != "":
		return o.denied("the vendor rejected the login", query["error"], query["error_description"], state, query["code"])
	case query["code"] == "":
		return errors.New("the browser returned no code; try again")
	}
	cfg.RedirectURL = redirect
	bounded, cancel := context.WithTimeout(ctx, exchangeTimeout)
	defer cancel()
	got, err := cfg.Exchange(o.context(bounded), query["code"], oauth2.VerifierOption(verifier))
	if err != nil {
		return o.refusal("exchange the code for a token", err, query["code"], state, verifier)
	}
	return o.begin(ctx, got)
}

// Device logs in with a code that the user types on another device. show receives the address and the code, and returns at once.
func (o *OAuth) Device(ctx context.Context, show func(ctx context.Context, address, code string) error) error {
	if o.reg.DeviceURL == "" {
		return &llm.Error{
			Code: llm.ErrAuthentication, Message: "the oauth block has no device_url, which is needed to log in with a code", Next: "log in without --device",
		}
	}
	d, err := o.askForCode(ctx)
	if err != nil {
		return err
	}
	address := d.VerificationURIComplete
	if address == "" {
		address = d.VerificationURI
	}
	if err := show(ctx, address, d.UserCode); err != nil {
		return err
	}
	for {
		got, err := o.config().DeviceAccessToken(o.context(ctx), d)
		if err == nil {
			return o.begin(ctx, got)
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if !time.Now().Before(d.Expiry) {
			return errors.New("the code was not entered in time; try again")
		}
		if err = o.refusal("wait for the login", err, d.DeviceCode, d.UserCode); !passes(err) {
			return err
		}
		// The vendor was unreachable for a moment; the code is still valid.
		d.Interval = min(max(d.Interval, slower)+slower, maxInterval)
	}
}

// askForCode requests a device code. The library's function ignores ctx and does not send the secret.
func (o *OAuth) askForCode(ctx context.Context) (*oauth2.DeviceAuthResponse, error) {
	const what = "ask for a code"
	ctx, cancel := context.WithTimeout(ctx, exchangeTimeout)
	defer cancel()
	form := url.Values{"client_id": {o.reg.ClientID}}
	if len(o.reg.Scopes) > 0 {
		form.Set("scope", strings.Join(o.reg.Scopes, " "))
	}
	if o.reg.ClientSecret != "" && o.reg.SecretInBody {
		form.Set("client_secret", o.reg.ClientSecret)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, o.reg.DeviceURL, strings.NewReader(form.Encode()))
	if err != nil {
		return nil, o.refusal(what, err)
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.Header.Set("Accept", "application/json")
	if o.reg.ClientSecret != "" && !o.reg.SecretInBody {
		req.SetBasicAuth(url.QueryEscape(o.reg.ClientID), url.QueryEscape(o.reg.ClientSecret))
	}
	res, err := o.client.Do(req)
	if err != nil {
		return nil, o.refusal(what, err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	if err != nil {
		return nil, o.refusal(what, err)
	}
	if res.StatusCode != http.StatusOK {
		return nil, o.refusal(what, &oauth2.RetrieveError{Response: res, Body: body})
	}
	var d oauth2.DeviceAuthResponse
	if json.Unmarshal(body, &d) != nil || d.DeviceCode == "" || d.UserCode == "" || d.VerificationURI == "" {
		return nil, o.refusal(what, errUnreadable)
	}
	if latest := time.Now().Add(deviceTimeout); d.Expiry.IsZero() || d.Expiry.After(latest) {
		d.Expiry = latest
	}
	d.Interval = min(max(d.Interval, 0), maxInterval) // 0: the library's default of 5 s
	return &d, nil
}

// begin stores the token of a login, after any renewal of the previous one.
func (o *OAuth) begin(ctx context.Context, got *oauth2.Token) error {
	ctx = context.WithoutCancel(ctx) // the code has been used
	return o.vault.Exclusive(ctx, leaseName, leaseTimeout, func(context.Context) error {
		o.forget()
		return o.keep(ctx, newToken(got, o.reg.ClientID, nil))
	})
}

// Logout deletes the token. was is false if there was none.
func (o *OAuth) Logout(ctx context.Context) (was bool, err error) {
	err = o.vault.Exclusive(ctx, leaseName, leaseTimeout, func(ctx context.Context) error {
		o.forget()
		_, was, err = o.vault.StoredSecret(ctx, stored)
		if err != nil || !was {
			return err
		}
		return o.vault.StoreSecret(ctx, stored, "")
	})
	return was, err
}

// nonce returns 64 random bytes as text.
func nonce() string {
	b := make([]byte, 64)
	rand.Read(b)
	return base64.RawURLEncoding.EncodeToString(b)
}
