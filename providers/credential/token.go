package credential

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"golang.org/x/oauth2"
)

const (
	// stored is the name under which the token is stored.
	stored = "oauth"
	// early is how long before its expiry a token is renewed, but not before half its lifetime.
	early = 5 * time.Minute
	// maxAge is the age at which a token without an expiry is renewed.
	maxAge = 8 * 24 * time.Hour
)

// token is a stored token.
type token struct {
	Access    string    `json:"access"`
	Refresh   string    `json:"refresh,omitempty"`
	Expiry    time.Time `json:"expiry,omitzero"`
	Refreshed time.Time `json:"refreshed"`
	Client    string    `json:"client"`            // the registration that it belongs to
	Account   string    `json:"account,omitempty"` // the user's account, if the vendor states it
}

func parse(text string) (*token, bool) {
	var t token
	ok := json.Unmarshal([]byte(text), &t) == nil && t.Access != ""
	return &t, ok
}

// Format prints a placeholder for every verb.
func (t token) Format(f fmt.State, _ rune) { fmt.Fprint(f, "(token)") }

// text returns the stored form.
func (t *token) text() string {
	b, err := json.Marshal(t)
	if err != nil { // cannot fail: the value consists of strings and times
		panic("credential: marshal token: " + err.Error())
	}
	return string(b)
}

func (t *token) expired(now time.Time) bool { return !t.Expiry.IsZero() && !now.Before(t.Expiry) }

func (t *token) stale(now time.Time) bool {
	if t.Expiry.IsZero() {
		return now.Sub(t.Refreshed) > maxAge
	}
	return !now.Add(min(early, t.Expiry.Sub(t.Refreshed)/2)).Before(t.Expiry)
}

// newToken converts the vendor's token. before is the token that it replaces, nil for a login: what the vendor does not repeat
// stays valid.
func newToken(got *oauth2.Token, client string, before *token) *token {
	t := &token{Access: got.AccessToken, Refresh: got.RefreshToken, Client: client}
	// Strip the monotonic clock reading, which may stop while the machine sleeps.
	t.Refreshed = time.Now().Round(0)
	if !got.Expiry.IsZero() {
		t.Expiry = got.Expiry.Round(0)
	}
	id, _ := got.Extra("id_token").(string)
	t.Account = account(id)
	if before == nil {
		return t
	}
	if t.Refresh == "" {
		t.Refresh = before.Refresh
	}
	if t.Account == "" {
		t.Account = before.Account
	}
	return t
}

// account returns the account of an OpenID token, or "". The token came directly from the vendor and is only used to recognize the
// same account, so its signature is not verified.
func account(idToken string) string {
	parts := strings.Split(idToken, ".")
	if len(parts) != 3 {
		return ""
	}
	b, err := base64.RawURLEncoding.DecodeString(parts[1])
	var claims struct {
		Issuer  string `json:"iss"`
		Subject string `json:"sub"`
	}
	if err != nil || json.Unmarshal(b, &claims) != nil || claims.Subject == "" {
		return ""
	}
	return claims.Issuer + " " + claims.Subject
}
