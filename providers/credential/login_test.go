package credential

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gantry-agent/gantry/providers/credential/credentialtest"
	"github.com/gantry-agent/gantry/sdk/llm"
)

// Whoever the client is to the vendor, one login takes one exchange and leaves a token in the vault.
func TestBrowserLogin(t *testing.T) {
	tests := map[string]struct {
		vendor credentialtest.Config
		as     func(*Registration)
	}{
		"public client": {},
		"secret in the header": {
			credentialtest.Config{ClientSecret: "s3cret/+ with%signs"}, func(r *Registration) { r.ClientSecret = "s3cret/+ with%signs" },
		},
		"secret in the body": {
			credentialtest.Config{ClientSecret: "s3cret/+ with%signs", SecretInBody: true},
			func(r *Registration) { r.ClientSecret, r.SecretInBody = "s3cret/+ with%signs", true },
		},
		"login without parameters": {as: func(r *Registration) { r.Scopes, r.Parameters = nil, nil }},
		"address with a query":     {as: func(r *Registration) { r.AuthURL += "?tenant=a" }},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			tt.vendor.Lifetime, tt.vendor.Account = time.Hour, "ann"
			inWorld(t, tt.vendor, func(t *testing.T, w *world) {
				reg := w.registration()
				if tt.as != nil {
					tt.as(&reg)
				}
				o := w.as(reg)
				if err := o.Browser(t.Context(), w.browse); err != nil {
					t.Fatal(err)
				}
				if got, kept := w.token(o), w.stored(); kept.Access != got || kept.Account != "https://vendor.test ann" ||
					kept.Client != "client" || kept.Refresh == "" || !kept.Expiry.Equal(time.Now().Add(time.Hour)) {
					t.Errorf("stored %s", kept.text())
				}
				// The address that is opened, and the exchange.
				if n := w.requests(); n != 2 || len(w.vendor.Refused()) > 0 {
					t.Errorf("%d requests, refused %q", n, w.vendor.Refused())
				}
			})
		})
	}
}

// A login that fails says why, in words that give nothing away, and leaves the one before alone.
func TestBrowserLoginFails(t *testing.T) {
	type open = func(w *world, address string) (string, map[string]string, error)
	with := func(change func(query map[string]string)) open {
		return func(w *world, address string) (string, map[string]string, error) {
			redirect, query, err := w.browse(w.t.Context(), address)
			if err == nil {
				change(query)
			}
			return redirect, query, err
		}
	}
	nobody := errors.New("nobody is there")
	tests := map[string]struct {
		vendor   credentialtest.Config
		as       func(*Registration)
		failure  []credentialtest.Failure
		open     open
		code     llm.ErrorCode
		want     string
		requests int
	}{
		"nobody": {open: func(*world, string) (string, map[string]string, error) { return "", nil, nobody }, want: "nobody is there", requests: 0},
		"denied": {
			vendor: credentialtest.Config{Deny: true}, code: llm.ErrAuthentication, requests: 1,
			want: "the vendor rejected the login: access_denied (The person said no to <redacted>)",
		},
		"another state": {
			open: with(func(q map[string]string) { q["state"] = q["state"][1:] + "x" }), want: "response to another login", requests: 1,
		},
		"no state": {open: with(func(q map[string]string) { delete(q, "state") }), want: "response to another login", requests: 1},
		"error, no state": {
			open: with(func(q map[string]string) { delete(q, "state"); q["error"] = "access_denied" }), want: "response to another login", requests: 1,
		},
		"no code": {open: with(func(q map[string]string) { delete(q, "code") }), want: "returned no code", requests: 1},
		"another code": {
			open: with(func(q map[string]string) { q["code"] += "x" }), code: llm.ErrAuthentication,
			want: "exchange the code for a token: localhost rejected it permanently: invalid_grant (no such code)", requests: 2,
		},
		"another address": {
			open: func(w *world, address string) (string, map[string]string, error) {
				_, query, err := w.browse(w.t.Context(), address)
				return "http://127.0.0.1:4712/callback", query, err
			},
			code: llm.ErrAuthentication, want: "is not that of the login", requests: 2,
		},
		// The first way is the only one: a second try would bring the code twice.
		"secret in the body, wanted in the header": {
			vendor: credentialtest.Config{ClientSecret: "s3cret"}, as: func(r *Registration) { r.ClientSecret, r.SecretInBody = "s3cret", true },
			code: llm.ErrAuthentication, want: "invalid_client", requests: 2,
		},
		"secret in the header, wanted in the body": {
			vendor: credentialtest.Config{ClientSecret: "s3cret", SecretInBody: true}, as: func(r *Registration) { r.ClientSecret = "s3cret" },
			code: llm.ErrAuthentication, want: "invalid_client", requests: 2,
		},
		"vendor down": {failure: []credentialtest.Failure{{Status: 503, Body: "<html>"}}, code: llm.ErrTransport, want: "with status 503", requests: 2},
		"no answer":   {failure: []credentialtest.Failure{{}}, code: llm.ErrTransport, want: "localhost: EOF", requests: 2},
		"too slow":    {failure: []credentialtest.Failure{{Hang: true}}, code: llm.ErrTransport, want: "localhost: no response in time", requests: 2},
		"no token":    {failure: []credentialtest.Failure{{Status: 200, Body: `{}`}}, code: llm.ErrTransport, want: "its answer can't be read", requests: 2},
		"no JSON": {
			failure: []credentialtest.Failure{{Status: 200, Body: `{"access_token": secret`}}, code: llm.ErrTransport, want: "its answer can't be read", requests: 2,
		},
		"elsewhere": {
			failure: []credentialtest.Failure{{Status: 307, Body: "-", Header: http.Header{"Location": {"http://evil.test/token"}}}},
			code:    llm.ErrTransport, want: "with status 307", requests: 2,
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			inWorld(t, tt.vendor, func(t *testing.T, w *world) {
				w.vault.values[stored] = "before"
				w.vendor.Fail(tt.failure...)
				open := w.browse
				if tt.open != nil {
					open = func(_ context.Context, address string) (string, map[string]string, error) { return tt.open(w, address) }
				}
				reg := w.registration()
				if tt.as != nil {
					tt.as(&reg)
				}
				w.refuses(w.as(reg).Browser(t.Context(), open), tt.code, tt.want, "")
				if n := w.requests(); n != tt.requests || w.hosts["evil.test"] > 0 {
					t.Errorf("requests to %v, want %d", w.hosts, tt.requests)
				}
				if w.vault.values[stored] != "before" {
					t.Error("the login before is gone")
				}
			})
		})
	}
}

func TestDeviceLogin(t *testing.T) {
	tests := map[string]struct {
		vendor  credentialtest.Config
		failure []credentialtest.Failure
		want    string // of the error; empty: none
		code    llm.ErrorCode
		took    time.Duration
	}{
		"at once":             {took: time.Second},
		"after a while":       {vendor: credentialtest.Config{Pending: 20}, took: 21 * time.Second},
		"more slowly":         {vendor: credentialtest.Config{Pending: 2, SlowDown: true}, took: (1 + 3*6) * time.Second},
		"denied":              {vendor: credentialtest.Config{Deny: true}, want: "access_denied", code: llm.ErrAuthentication, took: time.Second},
		"not typed":           {vendor: credentialtest.Config{Pending: 10_000}, want: "not entered in time", took: 10 * time.Minute},
		"out of reach, twice": {failure: []credentialtest.Failure{{}, {Status: 502, Body: "-"}}, took: (1 + 10 + 15) * time.Second},
		"too many questions":  {failure: []credentialtest.Failure{{Status: 429, Body: "-"}}, took: (1 + 10) * time.Second},
		"nonsense": {
			failure: []credentialtest.Failure{{Status: 400, Body: `{"error":"invalid_scope"}`}}, want: "invalid_scope", code: llm.ErrTransport, took: time.Second,
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			inWorld(t, tt.vendor, func(t *testing.T, w *world) {
				o, began, shown := w.instance(), time.Now(), 0
				w.vendor.Fail(tt.failure...)
				err := o.Device(t.Context(), func(_ context.Context, address, code string) error {
					shown++
					if address != "https://vendor.test/device" || code != "WDJB-MJHT" {
						t.Errorf("shown: %s, %s", address, code)
					}
					return nil
				})
				if tt.want != "" {
					w.refuses(err, tt.code, tt.want, "")
				} else if err != nil {
					t.Error(err)
				} else {
					w.token(o)
				}
				if took := time.Since(began); took != tt.took || shown != 1 {
					t.Errorf("took %v, want %v; shown %d times", took, tt.took, shown)
				}
			})
		})
	}
}

// The device's endpoint is as strict about who asks, and what it answers is not trusted.
func TestDeviceCodes(t *testing.T) {
	answers := map[string]string{
		`{"device_code":"d","user_code":"u","verification_uri":"https://v.test","interval":-1}`:                                "",
		`{"device_code":"d","user_code":"u","verification_uri":"https://v.test","interval":9223372036854775807}`:               "",
		`{"device_code":"d","user_code":"u","verification_url":"https://v.test"}`:                                              "",
		`{"device_code":"d","user_code":"u","verification_uri":"https://v.test","verification_uri_complete":"https://v.test"}`: "",
		`{"device_code":"d","user_code":"u"}`:                   "can't be read",
		`{"user_code":"u","verification_uri":"https://v.test"}`: "can't be read",
		`[]`: "can't be read",
	}
	for answer, want := range answers {
		t.Run(answer, func(t *testing.T) {
			inWorld(t, credentialtest.Config{}, func(t *testing.T, w *world) {
				w.client.Transport = swap{"/device", answer, w.client.Transport}
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				defer cancel()
				err := w.instance().Device(ctx, func(_ context.Context, address, _ string) error {
					if address != "https://v.test" {
						t.Errorf("address %q", address)
					}
					return nil
				})
				if want == "" {
					want = "no such device" // it came as far as asking for the token
				}
				w.refuses(err, llm.ErrUnknown, want, "")
			})
		})
	}
	inWorld(t, credentialtest.Config{ClientSecret: "s3cret"}, func(t *testing.T, w *world) {
		reg := w.registration()
		show := func(context.Context, string, string) error { return nil }
		w.refuses(w.as(reg).Device(t.Context(), show), llm.ErrAuthentication, "ask for a code: localhost rejected it permanently: invalid_client", "gantry login p")
		reg.ClientSecret = "s3cret"
		o := w.as(reg)
		if err := o.Device(t.Context(), show); err != nil {
			t.Error(err)
		}
		w.token(o)
	})
	// Ctrl-C ends both the question and the wait.
	inWorld(t, credentialtest.Config{Pending: 1000}, func(t *testing.T, w *world) {
		why := errors.New("stopped")
		ctx, stop := context.WithCancelCause(t.Context())
		err := w.instance().Device(ctx, func(context.Context, string, string) error {
			time.AfterFunc(time.Minute, func() { stop(why) })
			return nil
		})
		if !errors.Is(err, why) {
			t.Errorf("stopped while it waits: %v", err)
		}
		w.slow(time.Hour)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := w.instance().Device(ctx, nil); err == nil {
			t.Error("a question without an answer ended well")
		}
	})
}

// swap answers a path with a text.
type swap struct {
	path, body string
	next       http.RoundTripper
}

func (s swap) RoundTrip(r *http.Request) (*http.Response, error) {
	res, err := s.next.RoundTrip(r)
	if err == nil && r.URL.Path == s.path {
		res.Body.Close()
		res.Body = http.NoBody
		if s.body != "" {
			res.Body = reader{strings.NewReader(s.body)}
		}
	}
	return res, err
}

type reader struct{ *strings.Reader }

func (reader) Close() error { return nil }

func TestLogout(t *testing.T) {
	inWorld(t, credentialtest.Config{}, func(t *testing.T, w *world) {
		o := w.instance()
		if was, err := o.Logout(t.Context()); was || err != nil {
			t.Errorf("before a login: %v, %v", was, err)
		}
		o = w.loggedIn()
		if was, err := o.Logout(t.Context()); !was || err != nil {
			t.Errorf("logout: %v, %v", was, err)
		}
		_, err := o.Token(t.Context())
		w.refuses(err, llm.ErrAuthentication, "not logged in", "gantry login p")
		_, err = w.instance().Token(t.Context())
		w.refuses(err, llm.ErrAuthentication, "not logged in", "gantry login p")
	})
}

// A login waits for the renewal that another process has begun: else that would end it.
func TestLoginComesBehindARenewal(t *testing.T) {
	inWorld(t, credentialtest.Config{Lifetime: time.Hour}, func(t *testing.T, w *world) {
		other := w.loggedIn()
		w.passes(56 * time.Minute)
		w.slow(10 * time.Second)
		renewed := make(chan error)
		go func() { // owned by the test, which receives
			_, err := other.Token(t.Context())
			renewed <- err
		}()
		w.passes(time.Second)
		o := w.instance()
		if err := o.Browser(t.Context(), func(ctx context.Context, address string) (string, map[string]string, error) {
			w.slow(0)
			return w.browse(ctx, address)
		}); err != nil {
			t.Fatal(err)
		}
		if err := <-renewed; err != nil {
			t.Error(err)
		}
		if w.stored().Access != w.token(o) {
			t.Error("the renewal has replaced the login")
		}
	})
}

func TestRegistration(t *testing.T) {
	good := Registration{ClientID: "c", AuthURL: "https://v.test/a", TokenURL: "https://v.test/t"}
	for name, tt := range map[string]struct {
		change    func(*Registration)
		attribute string // empty: it is right
	}{
		"good":              {func(*Registration) {}, ""},
		"on this machine":   {func(r *Registration) { r.TokenURL = "http://127.0.0.1:1/t" }, ""},
		"by name":           {func(r *Registration) { r.TokenURL = "http://localhost/t" }, ""},
		"by the new number": {func(r *Registration) { r.TokenURL = "http://[::1]:1/t" }, ""},
		"only devices":      {func(r *Registration) { r.AuthURL, r.DeviceURL = "", "https://v.test/d" }, ""},
		"no client":         {func(r *Registration) { r.ClientID = "" }, "client_id"},
		"no token":          {func(r *Registration) { r.TokenURL = "" }, "token_url"},
		"no login":          {func(r *Registration) { r.AuthURL = "" }, "auth_url"},
		"in the clear":      {func(r *Registration) { r.TokenURL = "http://v.test/t" }, "token_url"},
		"with a password":   {func(r *Registration) { r.DeviceURL = "https://u:p@v.test/t" }, "device_url"},
		"a fragment":        {func(r *Registration) { r.AuthURL += "#x" }, "auth_url"},
		"no address":        {func(r *Registration) { r.AuthURL = "v.test/a" }, "auth_url"},
		"no scheme":         {func(r *Registration) { r.AuthURL = "javascript://v.test/a" }, "auth_url"},
		"own state":         {func(r *Registration) { r.Parameters = map[string]string{"state": "x"} }, "parameters"},
		"own challenge":     {func(r *Registration) { r.Parameters = map[string]string{"code_challenge_method": "plain"} }, "parameters"},
	} {
		reg := good
		tt.change(&reg)
		_, err := New(reg, newVault(), http.DefaultClient)
		wrong, ok := errors.AsType[*ConfigError](err)
		if tt.attribute == "" && err != nil || tt.attribute != "" && (!ok || wrong.Attribute != tt.attribute) {
			t.Errorf("%s: %v, want one about %q", name, err, tt.attribute)
		}
	}
	o, err := New(Registration{ClientID: "c", DeviceURL: "https://v.test/d", TokenURL: "https://v.test/t"}, newVault(), http.DefaultClient)
	if err != nil {
		t.Fatal(err)
	}
	if err := o.Browser(t.Context(), nil); err == nil || !strings.Contains(err.(*llm.Error).Next, "--device") {
		t.Errorf("a browser without an address: %v", err)
	}
	if o, err = New(good, newVault(), http.DefaultClient); err != nil {
		t.Fatal(err)
	}
	if err := o.Device(t.Context(), nil); err == nil || !strings.Contains(err.(*llm.Error).Next, "without --device") {
		t.Errorf("a device without an address: %v", err)
	}
}
