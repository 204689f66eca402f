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
	// deviceTimeout is how long a code may be typed where the vendor doesn't say.
	deviceTimeout = 15 * time.Minute
	// slower is what is added to the time between two questions whether the code was typed, after one that failed.
	slower      = 5
	maxInterval = 60 // seconds between two of them
	maxAnswer   = 1 << 20
)

// Browser logs in with a browser. open shows an address, in which it puts where the browser shall come back to in the place
// of "{redirect_uri}", and returns that and the query that came.
func (o *OAuth) Browser(ctx context.Context, open func(ctx context.Context, address string) (redirect string, query map[string]string, err error)) error {
	if o.reg.AuthURL == "" {
		return &llm.Error{
			Code: llm.ErrAuthentication, Message: "the oauth block has no auth_url, where one logs in with a browser",
			Next: "log in with --device",
		}
	}
	state, verifier := nonce(), nonce()
	opts := []oauth2.AuthCodeOption{oauth2.S256ChallengeOption(verifier)}
	for name, v := range o.reg.Parameters {
		opts = append(opts, oauth2.SetAuthURLParam(name, v))
	}
	cfg := o.config()
	// What is asked for is a name that stays the same when it is escaped; the host replaces the place as a whole.
	cfg.RedirectURL = nonce()
	address := strings.Replace(cfg.AuthCodeURL(state, opts...), cfg.RedirectURL, redirectPlace, 1)
	redirect, query, err := open(ctx, address)
	if err != nil {
		return err
	}
	switch {
	case subtle.ConstantTimeCompare([]byte(query["state"]), []byte(state)) != 1:
		return errors.New("the browser came back with an answer to another login; try again")
	case query["error"] != "":
		return o.denied("the vendor refused the login", query["error"], query["error_description"], state, query["code"])
	case query["code"] == "":
		return errors.New("the browser came back without a code; try again")
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

// Device logs in with a code that is typed on another machine. show is given the address and the code and returns at once.
func (o *OAuth) Device(ctx context.Context, show func(ctx context.Context, address, code string) error) error {
	if o.reg.DeviceURL == "" {
		return &llm.Error{
			Code: llm.ErrAuthentication, Message: "the oauth block has no device_url, where codes are given out", Next: "log in without --device",
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
			return errors.New("the code was not typed in time; try again")
		}
		if err = o.refusal("wait for the login", err, d.DeviceCode, d.UserCode); !passes(err) {
			return err
		}
		// The vendor was out of reach for a moment; the code is good all the same.
		d.Interval = min(max(d.Interval, slower)+slower, maxInterval)
	}
}

// askForCode asks for a device's code. The library's way neither ends with ctx nor sends the secret.
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
	d.Interval = min(max(d.Interval, 0), maxInterval) // 0: the library's 5 s
	return &d, nil
}

// begin stores the token of a login, behind whoever renews the one before.
func (o *OAuth) begin(ctx context.Context, got *oauth2.Token) error {
	ctx = context.WithoutCancel(ctx) // the code is spent
	return o.vault.Exclusive(ctx, leaseName, leaseTimeout, func(context.Context) error {
		o.forget()
		return o.keep(ctx, newToken(got, o.reg.ClientID, nil))
	})
}

// Logout forgets the token. was is false when there was none.
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

// nonce is 64 random bytes as text.
func nonce() string {
	b := make([]byte, 64)
	rand.Read(b)
	return base64.RawURLEncoding.EncodeToString(b)
}
