package auth

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// stored returns the stored login of h.
func (w *world) stored(h *Handler) login {
	w.t.Helper()
	var l login
	text, _, _ := w.secrets.StoredSecret(w.t.Context(), h.key())
	if err := json.Unmarshal([]byte(text), &l); err != nil {
		w.t.Fatalf("%q: %v", text, err)
	}
	return l
}

func TestLogin(t *testing.T) {
	w := newWorld(t)
	h := w.handler(nil)
	// Without a login, a connection fails; it opens no browser.
	_, err := w.connect(h)
	if l, ok := errors.AsType[*LoginError](err); !ok || !strings.Contains(l.Error(), "run `gantry mcp login linear`") {
		t.Fatalf("%v", err)
	}
	if len(w.Seen) > 0 {
		t.Fatalf("a login was opened: %v", w.Seen)
	}
	w.login(h)
	s, err := w.connect(h)
	if err != nil {
		t.Fatal(err)
	}
	if err := call(t, s, "read"); err != nil {
		t.Error(err)
	}
	for id, m := range w.Clients {
		if m["client_name"] != "gantry" || !slices.Contains(m["grant_types"].([]any), any("refresh_token")) {
			t.Errorf("%s is registered as %v", id, m)
		}
	}
	if got := w.Seen[0]; got != "read offline_access" && got != "offline_access read" {
		t.Errorf("the scopes of the login are %q", got)
	}
	if w.Complaints() != "" {
		t.Error(w.Complaints())
	}
	if got := fmt.Sprintf("%v %+v %#v", w.stored(h), w.stored(h), h.mu.login); strings.Contains(got, "access-") {
		t.Errorf("a token is printed: %s", got)
	}

	// Another handler of the same server has it, one of another address or name has not.
	if got, err := token(t.Context(), w.handler(nil)); err != nil || got == "" {
		t.Errorf("%q, %v", got, err)
	}
	for _, change := range []func(*Config){
		func(c *Config) { c.URL += "2" }, func(c *Config) { c.Name = "other" }, func(c *Config) { c.ClientID = "other" },
	} {
		if got, err := token(t.Context(), w.handler(change)); err != nil || got != "" {
			t.Errorf("%q, %v", got, err)
		}
	}
	used := w.stored(h)
	if err := h.Logout(t.Context()); err != nil {
		t.Fatal(err)
	}
	// A renewal that was about to start does not bring the login back.
	if _, err := h.renew(t.Context(), &used); err == nil || !strings.Contains(err.Error(), "logged out") || w.Count("refresh_token") > 0 {
		t.Errorf("%v, %d renewals", err, w.Count("refresh_token"))
	}
	if got, err := token(t.Context(), h); err != nil || got != "" {
		t.Errorf("after the logout: %q, %v", got, err)
	}
}

// A login is revoked where it was issued, and nowhere else.
func TestRevoke(t *testing.T) {
	for name, tc := range map[string]struct {
		later func(w *world, evil string) // after the login
		want  string
	}{
		"revoked":     {nil, ""},
		"no endpoint": {func(w *world, _ string) { delete(w.Meta, "revocation_endpoint") }, "can't revoke"},
		"elsewhere":   {func(w *world, evil string) { w.Meta["revocation_endpoint"] = evil + "/revoke" }, "which has not issued it"},
		"redirected": {func(w *world, evil string) {
			w.Intrude = func(rw http.ResponseWriter, r *http.Request) bool {
				if r.URL.Path == "/revoke" {
					http.Redirect(rw, r, evil+"/revoke", http.StatusTemporaryRedirect)
				}
				return r.URL.Path == "/revoke"
			}
		}, "which is not followed"},
		"broken": {func(w *world, _ string) {
			w.Intrude = func(rw http.ResponseWriter, r *http.Request) bool {
				if r.URL.Path == "/revoke" {
					rw.WriteHeader(503)
				}
				return r.URL.Path == "/revoke"
			}
		}, "problem of its own (HTTP 503"},
	} {
		t.Run(name, func(t *testing.T) {
			var reached atomic.Int32
			evil := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached.Add(1) }))
			defer evil.Close()
			w := newWorld(t)
			w.Meta["revocation_endpoint"] = w.Auth.URL + "/revoke"
			h := w.handler(nil)
			w.login(h)
			if tc.later != nil {
				w.Set(func() { tc.later(w, evil.URL) })
			}
			err := h.Revoke(t.Context())
			w.Lock()
			left := len(w.Access) + len(w.Refresh)
			w.Unlock()
			if tc.want == "" && (err != nil || left != 0) || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want) || left != 2) {
				t.Errorf("%v; %d tokens are left", err, left)
			}
			if reached.Load() != 0 || w.Complaints() != "" {
				t.Errorf("%d requests elsewhere; %s", reached.Load(), w.Complaints())
			}
			if err := h.Logout(t.Context()); err != nil {
				t.Error(err)
			}
			if err := h.Revoke(t.Context()); err != nil {
				t.Errorf("without a login: %v", err)
			}
		})
	}
}

// A stored token is not sent to another origin, even if somebody puts it there.
func TestStoredLoginOfAnotherServer(t *testing.T) {
	w, h := loggedIn(t)
	other := w.handler(func(c *Config) { c.URL = "https://elsewhere.example/mcp" })
	if err := w.secrets.StoreSecret(t.Context(), other.key(), w.secrets.values[h.key()]); err != nil {
		t.Fatal(err)
	}
	if got, err := token(t.Context(), other); got != "" || err == nil || !strings.Contains(err.Error(), "another server") {
		t.Errorf("%q, %v", got, err)
	}
}

// Two processes, with many requests each, renew a token once; the server would end the login if its refresh token came twice.
func TestOneRenewalForAll(t *testing.T) {
	for _, left := range []time.Duration{-time.Minute, time.Minute} { // expired, and early
		w := newWorld(t)
		a, b := w.handler(nil), w.handler(nil)
		w.login(a)
		w.age(a, left)
		a.forget()
		var group sync.WaitGroup
		for i := range 20 {
			h := []*Handler{a, b}[i%2]
			group.Go(func() {
				if _, err := token(t.Context(), h); err != nil {
					t.Error(err)
				}
			})
		}
		group.Wait()
		if n := w.Count("refresh_token"); n != 1 || w.Complaints() != "" {
			t.Errorf("%d renewals, %s", n, w.Complaints())
		}
		x, _ := token(t.Context(), a)
		y, _ := token(t.Context(), b)
		if x != y || x != w.stored(a).Access {
			t.Errorf("the tokens are %q and %q, stored is %q", x, y, w.stored(a).Access)
		}
	}
}

// A server that refuses a token gets another one, once.
func TestRefusedToken(t *testing.T) {
	w, h := loggedIn(t)
	s, err := w.connect(h)
	if err != nil {
		t.Fatal(err)
	}
	w.Set(func() { clear(w.Access) })
	if err := call(t, s, "read"); err != nil || w.Count("refresh_token") != 1 {
		t.Fatalf("%d renewals, %v", w.Count("refresh_token"), err)
	}
	// Another process has renewed it meanwhile: nothing needs to be requested.
	other := w.handler(nil)
	w.Set(func() { clear(w.Access) })
	l, err := other.read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := other.renew(t.Context(), l); err != nil {
		t.Fatal(err)
	}
	if err := call(t, s, "read"); err != nil || w.Count("refresh_token") != 2 {
		t.Fatalf("%d renewals, %v", w.Count("refresh_token"), err)
	}
	// The server refuses whatever it gets: no endless renewals.
	w.Set(func() { w.Refuse = true })
	for range 3 {
		err := call(t, s, "read")
		if _, ok := errors.AsType[*LoginError](err); !ok {
			t.Error(err)
		}
	}
	if n := w.Count("refresh_token"); n != 2 || w.Complaints() != "" {
		t.Errorf("%d renewals, %s", n, w.Complaints())
	}
}

func TestRevokedLogin(t *testing.T) {
	w, h := loggedIn(t)
	s, err := w.connect(h)
	if err != nil {
		t.Fatal(err)
	}
	w.Set(func() { clear(w.Access); clear(w.Refresh) })
	for range 3 {
		err := call(t, s, "read")
		if _, ok := errors.AsType[*LoginError](err); !ok || !strings.Contains(err.Error(), "expired or was revoked (invalid_grant)") {
			t.Errorf("%v", err)
		}
	}
	if n := w.Count("refresh_token"); n != 1 {
		t.Errorf("a refused refresh token was sent %d times", n)
	}
	// Another login, in another process, mends the session.
	w.login(w.handler(nil))
	if err := call(t, s, "read"); err != nil {
		t.Error(err)
	}
	// A login without a refresh token ends with its token.
	w.age(h, -time.Minute)
	l := w.stored(h)
	l.Refresh = ""
	if err := h.save(t.Context(), &l); err != nil {
		t.Fatal(err)
	}
	h.forget()
	if _, err := token(t.Context(), h); err == nil || !strings.Contains(err.Error(), "gantry mcp login linear") {
		t.Errorf("%v", err)
	}
}

// A session notices after a while that another process has logged out, or in to another account, although its token is valid.
func TestLoginsElsewhereAreNoticed(t *testing.T) {
	w := newWorld(t)
	h, other := w.handler(nil), w.handler(nil)
	w.login(h)
	later := func() { // after recheck
		h.mu.Lock()
		defer h.mu.Unlock()
		h.mu.checked = time.Time{}
	}
	w.login(other)
	later()
	if got, err := token(t.Context(), h); err != nil || got != w.stored(other).Access {
		t.Errorf("%q, %v", got, err)
	}
	if err := other.Logout(t.Context()); err != nil {
		t.Fatal(err)
	}
	later()
	if got, err := token(t.Context(), h); err != nil || got != "" {
		t.Errorf("%q, %v", got, err)
	}
}

// A login of another process is noticed, but not the one that the server has refused.
func TestAwaitLogin(t *testing.T) {
	w := newWorld(t)
	h := w.handler(nil)
	if ok, err := h.HasLogin(t.Context()); ok || err != nil {
		t.Errorf("before: %v, %v", ok, err)
	}
	if _, err := w.connect(h); err == nil {
		t.Fatal("connected without a login")
	}
	w.login(w.handler(nil))
	if err := h.AwaitLogin(within30(t)); err != nil {
		t.Error(err)
	}
	if ok, err := h.HasLogin(t.Context()); !ok || err != nil {
		t.Errorf("after: %v, %v", ok, err)
	}
	w.Set(func() { w.Refuse = true; clear(w.Refresh) })
	if _, err := w.connect(h); err == nil {
		t.Fatal("connected with a refused token")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := h.AwaitLogin(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("the refused token is taken for another login: %v", err)
	}
}

func TestStepUp(t *testing.T) {
	w, h := loggedIn(t)
	s, err := w.connect(h)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		l, ok := errors.AsType[*LoginError](call(t, s, "write"))
		if !ok || !slices.Equal(l.Scopes, []string{"write"}) {
			t.Fatalf("%+v", l)
		}
	}
	if err := call(t, s, "read"); err != nil || len(w.Seen) != 1 {
		t.Errorf("%v, logins %q", err, w.Seen)
	}
	w.login(w.handler(nil)) // as the command does it in another process
	for _, want := range []string{"read", "write", "offline_access"} {
		if !slices.Contains(strings.Fields(w.Seen[1]), want) {
			t.Errorf("the second login asks for %q", w.Seen[1])
		}
	}
	if err := call(t, s, "write"); err != nil {
		t.Error(err)
	}
	w.login(h) // once asked for, always asked for
	if !strings.Contains(w.Seen[2], "write") {
		t.Errorf("the third login asks for %q", w.Seen[2])
	}
	// A server that is never content is not a reason to log in again.
	w.Set(func() {
		for token := range w.Access {
			w.Access[token] = "offline_access"
		}
	})
	err = call(t, s, "write")
	if _, ok := errors.AsType[*LoginError](err); ok || err == nil || !strings.Contains(err.Error(), "account may lack") {
		t.Errorf("%v", err)
	}
	// The same is true of other refusals, which are not sent twice.
	n := 0
	w.Set(func() {
		w.Intrude = func(rw http.ResponseWriter, r *http.Request) bool {
			if r.URL.Path == "/mcp" && r.Method == http.MethodPost {
				n++
				rw.WriteHeader(403)
				return true
			}
			return false
		}
	})
	if err := h.Explain(call(t, s, "read")); err == nil || !strings.Contains(err.Error(), "(HTTP 403)") || n != 1 {
		t.Errorf("%d requests, %v", n, err)
	}
}

// A token is stored before it is used. If it can't be stored, it is not lost, and the one that it replaces is not used again.
func TestStoredBeforeUse(t *testing.T) {
	w, h := loggedIn(t)
	w.age(h, -time.Minute)
	h.forget()
	w.secrets.fail = errors.New("disk full")
	if got, err := token(t.Context(), h); got != "" || err == nil || !strings.Contains(err.Error(), "disk full") {
		t.Fatalf("%q, %v", got, err)
	}
	w.secrets.fail = nil
	got, err := token(t.Context(), h)
	if err != nil || got != w.stored(h).Access || w.Count("refresh_token") != 1 || w.Complaints() != "" {
		t.Errorf("%q, %v, %d renewals, %s", got, err, w.Count("refresh_token"), w.Complaints())
	}
}

// A request that is cancelled while its token is renewed does not lose the new token.
func TestCancelledRenewal(t *testing.T) {
	w, h := loggedIn(t)
	w.age(h, -time.Minute)
	h.forget()
	ctx, cancel := context.WithCancel(t.Context())
	w.secrets.onSave = cancel
	_, _ = token(ctx, h) // either way
	h.Close()
	if l := w.stored(h); !l.Renewed || w.Count("refresh_token") != 1 {
		t.Errorf("the new token was lost; %d renewals", w.Count("refresh_token"))
	}
	// An authorization server that is out of order is no reason to give up a token that is valid for some minutes.
	w.secrets.onSave = nil
	w.age(h, time.Minute)
	h.forget()
	w.Set(func() {
		w.Intrude = func(rw http.ResponseWriter, r *http.Request) bool {
			if r.URL.Path != "/token" {
				return false
			}
			w.Grants["refused"]++
			rw.WriteHeader(503)
			return true
		}
	})
	for range 3 {
		if got, err := token(t.Context(), h); err != nil || got != w.stored(h).Access {
			t.Errorf("%q, %v", got, err)
		}
	}
	if n := w.Count("refused"); n != 1 {
		t.Errorf("%d attempts in a row", n)
	}
	w.age(h, -time.Minute)
	h.forget()
	_, err := token(t.Context(), h)
	if _, final := errors.AsType[*LoginError](err); final || err == nil || !strings.Contains(err.Error(), `the server "linear": its login can't be renewed: http://`) || !strings.Contains(err.Error(), "HTTP 503") {
		t.Errorf("%v", err)
	}
}

func TestMachine(t *testing.T) {
	w := newWorld(t)
	machine := func(secret string) func(*Config) {
		return func(c *Config) {
			c.Machine, c.ClientID = true, "machine"
			c.ClientSecret = func(context.Context) (string, error) { return secret, nil }
		}
	}
	h := w.handler(machine("s3cret"))
	s, err := w.connect(h)
	if err != nil {
		t.Fatal(err)
	}
	for _, tool := range []string{"read", "write", "read"} { // "write" needs another scope, which takes no person
		if err := call(t, s, tool); err != nil {
			t.Error(err)
		}
	}
	if n := w.Count("client_credentials"); n != 2 || w.Complaints() != "" || strings.Contains(w.secrets.values[h.key()], "s3cret") {
		t.Errorf("%d tokens, %s", n, w.Complaints())
	}
	w.age(h, -time.Minute)
	h.forget()
	if err := call(t, s, "write"); err != nil || w.Count("client_credentials") != 3 {
		t.Errorf("%d tokens, %v", w.Count("client_credentials"), err)
	}
	if err := h.Logout(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.Set(func() { clear(w.Access) })
	if _, err := h.Login(within30(t), nil, nil); err != nil {
		t.Error(err)
	}
	if err := h.Logout(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := w.connect(w.handler(machine("wrong"))); err == nil || !strings.Contains(err.Error(), "check client_id, client_secret") {
		t.Errorf("%v", err)
	}
}

func TestConfigs(t *testing.T) {
	secret := func(context.Context) (string, error) { return "x", nil }
	for want, cfg := range map[string]Config{
		"is not an address":         {URL: "linear.app/mcp"},
		"must begin with https://":  {URL: "http://linear.app/mcp"},
		"client credentials need":   {URL: "https://linear.app/mcp", Machine: true, ClientID: "x"},
		"client_secret needs":       {URL: "https://linear.app/mcp", ClientSecret: secret},
		"may not register itself":   {URL: "https://linear.app/mcp", NoRegistration: true},
		"is not an address such as": {URL: "https://me:pw@linear.app/mcp"},
	} {
		if _, err := New(cfg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, not %q", err, want)
		}
	}
}
