package auth

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/gantry-agent/gantry/plugins/mcp/authtest"
	"github.com/gantry-agent/gantry/plugins/mcp/internal/transport"
)

// The metadata is found where servers really have it.
func TestMetadataAtOddPlaces(t *testing.T) {
	for name, change := range map[string]func(w *world, c *Config){
		"a resource with a slash":          func(w *world, _ *Config) { w.Resource += "/" },
		"an address with a slash":          func(_ *world, c *Config) { c.URL += "/" },
		"a resource that is an origin":     func(w *world, _ *Config) { w.Resource = w.API.URL },
		"an origin with a slash":           func(w *world, _ *Config) { w.Resource = w.API.URL + "/" },
		"a place of its own":               func(w *world, _ *Config) { w.Place = "/meta" },
		"an address with a query":          func(_ *world, c *Config) { c.URL += "?team=a" },
		"a challenge without it":           func(w *world, _ *Config) { w.Header = false },
		"without it, at the root":          func(w *world, _ *Config) { w.Header, w.Place = false, wellKnown },
		"without it, with a slash":         func(w *world, _ *Config) { w.Header, w.Place = false, wellKnown+"/mcp/" },
		"without it, the URL with a slash": func(w *world, c *Config) { w.Header = false; c.URL += "/" },
		"an issuer with a slash":           func(w *world, _ *Config) { w.Meta["issuer"], w.Iss = w.Auth.URL+"/", w.Auth.URL+"/" },
		"iss unannounced":                  func(w *world, _ *Config) { delete(w.Meta, "authorization_response_iss_parameter_supported") },
		"no iss": func(w *world, _ *Config) {
			delete(w.Meta, "authorization_response_iss_parameter_supported")
			w.Iss = ""
		},
		"OpenID's metadata": func(w *world, _ *Config) {
			w.Intrude = func(rw http.ResponseWriter, r *http.Request) bool {
				switch r.URL.Path {
				case "/.well-known/oauth-authorization-server":
					http.NotFound(rw, r)
				case "/.well-known/openid-configuration":
					authtest.AnswerJSON(rw, 200, w.Meta)
				default:
					return false
				}
				return true
			}
		},
		"a redirect within the server": func(w *world, _ *Config) {
			w.Intrude = func(rw http.ResponseWriter, r *http.Request) bool {
				if r.URL.Path != wellKnown+"/mcp" {
					return false
				}
				w.Place = "/elsewhere"
				http.Redirect(rw, r, "/elsewhere", http.StatusFound)
				return true
			}
		},
		"a page instead of metadata at a guessed place": func(w *world, _ *Config) {
			w.Header, w.Place = false, wellKnown
			w.Intrude = func(rw http.ResponseWriter, r *http.Request) bool {
				if !strings.HasPrefix(r.URL.Path, wellKnown+"/") {
					return false
				}
				rw.Header().Set("Content-Type", "text/html")
				_, _ = rw.Write([]byte("<html>"))
				return true
			}
		},
		"a server that answers POST with 405": func(w *world, _ *Config) {
			w.Intrude = func(rw http.ResponseWriter, r *http.Request) bool {
				if r.Method == http.MethodPost && r.URL.Path == "/mcp" {
					rw.WriteHeader(405)
				}
				return r.Method == http.MethodPost && r.URL.Path == "/mcp"
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			h := w.handler(func(c *Config) { change(w, c) })
			w.login(h)
			if got, err := token(t.Context(), h); got == "" || err != nil || w.Complaints() != "" {
				t.Errorf("%q, %v, %s", got, err, w.Complaints())
			}
			w.age(h, -1)
			h.forget()
			if _, err := token(t.Context(), h); err != nil || w.Complaints() != "" {
				t.Errorf("renew: %v, %s", err, w.Complaints())
			}
		})
	}
}

// A server without metadata is its own authorization server, as in the version 2025-03-26 of the protocol.
func TestNoMetadata(t *testing.T) {
	w := newWorld(t)
	w.Meta = nil
	w.Place, w.Header, w.Iss = "/none", false, ""
	w.Intrude = func(rw http.ResponseWriter, r *http.Request) bool {
		switch {
		case strings.HasPrefix(r.URL.Path, "/.well-known"):
			http.NotFound(rw, r)
		case r.Host == w.Auth.Listener.Addr().String(), r.URL.Path == "/mcp":
			return false
		default: // the authorization server is at the address of the server
			w.Unlock()
			defer w.Lock()
			r.Host = w.Auth.Listener.Addr().String()
			w.ServeAuth(rw, r)
		}
		return true
	}
	for _, query := range []string{"", "?team=a"} {
		h := w.handler(func(c *Config) { c.URL += query })
		if renewals, err := h.Login(within30(t), w.reserve, nil); err != nil || renewals != "" {
			t.Errorf("%v; renewals go to %q", err, renewals)
		}
		if got, err := token(t.Context(), h); got == "" || err != nil || w.Complaints() != "" {
			t.Errorf("%q, %v, %s", got, err, w.Complaints())
		}
	}
}

// The ways of being a client.
func TestClients(t *testing.T) {
	const document = "https://gantry.example/client.json"
	redirects := map[string]any{"redirect_uris": []any{"http://127.0.0.1:49152/callback/1"}}
	for name, tc := range map[string]struct {
		change func(w *world, c *Config)
		want   string // part of the error
		id     string
	}{
		"a document": {func(w *world, c *Config) {
			w.Meta["client_id_metadata_document_supported"], w.Clients[document], c.ClientID = true, redirects, document
		}, "", document},
		"a document that is not supported": {func(_ *world, c *Config) { c.ClientID = document }, "", ""},
		"a registered client": {func(w *world, c *Config) {
			w.Clients["mine"], c.ClientID = redirects, "mine"
			delete(w.Meta, "registration_endpoint")
		}, "", "mine"},
		"a registered client with a secret": {func(w *world, c *Config) {
			w.Clients["mine"], c.ClientID = map[string]any{"redirect_uris": redirects["redirect_uris"], "secret": "s3cret"}, "mine"
			c.ClientSecret = func(context.Context) (string, error) { return "s3cret", nil }
		}, "", "mine"},
		"none": {func(w *world, _ *Config) { delete(w.Meta, "registration_endpoint") },
			"create a client with the redirect address http://127.0.0.1:49152/callback/1, and set client_id", ""},
		"a refused registration": {func(w *world, _ *Config) {
			w.Intrude = func(rw http.ResponseWriter, r *http.Request) bool {
				if r.URL.Path == "/register" {
					authtest.AnswerJSON(rw, 400, map[string]any{"error": "invalid_redirect_uri", "error_description": "no \x1b[31mloopback"})
				}
				return r.URL.Path == "/register"
			}
		}, "refuses to register gantry: invalid_redirect_uri: no [31mloopback", ""},
		"no PKCE": {func(w *world, _ *Config) { delete(w.Meta, "code_challenge_methods_supported") }, "does not implement PKCE", ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			h := w.handler(func(c *Config) { tc.change(w, c) })
			_, err := h.Login(within30(t), w.reserve, nil)
			if tc.want != "" {
				if err == nil || !strings.Contains(err.Error(), tc.want) {
					t.Errorf("%v", err)
				}
				return
			}
			if err != nil || w.Complaints() != "" {
				t.Fatalf("%v, %s", err, w.Complaints())
			}
			if l := w.stored(h); tc.id != "" && l.ClientID != tc.id {
				t.Errorf("the client is %q", l.ClientID)
			}
			w.age(h, -1)
			h.forget()
			if _, err := token(t.Context(), h); err != nil || w.Complaints() != "" || strings.Contains(w.secrets.values[h.key()], "s3cret") {
				t.Errorf("renew: %v, %s", err, w.Complaints())
			}
			// A refused refresh token is not sent again in another way.
			w.age(h, -1)
			h.forget()
			w.Set(func() { clear(w.Refresh) })
			if _, err := token(t.Context(), h); err == nil || w.Count("refresh_token") != 2 {
				t.Errorf("%d renewals, %v", w.Count("refresh_token"), err)
			}
		})
	}
}

// Answers of the browser that are not to the question.
func TestForeignAnswers(t *testing.T) {
	for want, change := range map[string]func(w *world, query map[string]string){
		"does not match expected issuer": func(_ *world, q map[string]string) { q["iss"] = "https://evil.example" },
		"none was received":              func(_ *world, q map[string]string) { delete(q, "iss") },
		"to another login":               func(_ *world, q map[string]string) { q["state"] = "x" },
		"returned no code":               func(_ *world, q map[string]string) { delete(q, "code") },
		"was refused: access_denied: no": func(_ *world, q map[string]string) {
			delete(q, "code")
			q["error"], q["error_description"] = "access_denied", "n\x1bo"
		},
		"invalid_grant": func(_ *world, q map[string]string) { q["code"] = "stolen" },
	} {
		w := newWorld(t)
		h := w.handler(nil)
		_, err := h.Login(within30(t), func(ctx context.Context) (Redirect, error) {
			r, err := w.reserve(ctx)
			open := r.Open
			r.Open = func(ctx context.Context, address string) (map[string]string, error) {
				q, err := open(ctx, address)
				change(w, q)
				return q, err
			}
			return r, err
		}, nil)
		if err == nil || !strings.Contains(err.Error(), want) || len(w.secrets.values) > 0 {
			t.Errorf("%v, not %q; %d logins stored", err, want, len(w.secrets.values))
		}
		if n := w.Count("authorization_code"); n > 0 && want != "invalid_grant" {
			t.Errorf("%s: the code was sent", want)
		}
	}
}

// Nothing of a login goes to where a redirect, a document of another server, or a refused host would lead it.
func TestWhereLoginsGo(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(w *world, evil string)
		permit Permit
		want   string
	}{
		"metadata redirects": {func(w *world, evil string) {
			w.Intrude = func(rw http.ResponseWriter, r *http.Request) bool {
				if r.URL.Path == w.Place {
					http.Redirect(rw, r, evil+"/meta", http.StatusFound)
				}
				return r.URL.Path == w.Place
			}
		}, nil, "which is not followed"},
		"the server redirects": {func(w *world, evil string) {
			w.Intrude = func(rw http.ResponseWriter, r *http.Request) bool {
				http.Redirect(rw, r, evil+"/mcp", http.StatusTemporaryRedirect)
				return true
			}
		}, nil, "set url to it"},
		"the authorization server's metadata redirects": {func(w *world, evil string) {
			w.Intrude = func(rw http.ResponseWriter, r *http.Request) bool {
				if strings.Contains(r.URL.Path, "authorization-server") {
					http.Redirect(rw, r, evil, http.StatusFound)
				}
				return strings.Contains(r.URL.Path, "authorization-server")
			}
		}, nil, "which is not followed"},
		"the token endpoint redirects": {func(w *world, evil string) {
			w.Intrude = func(rw http.ResponseWriter, r *http.Request) bool {
				if r.URL.Path == "/token" {
					http.Redirect(rw, r, evil+"/token", http.StatusTemporaryRedirect)
				}
				return r.URL.Path == "/token"
			}
		}, nil, "which is not followed"},
		"the token endpoint redirects within its server": {func(w *world, _ string) {
			w.Intrude = func(rw http.ResponseWriter, r *http.Request) bool {
				if r.URL.Path == "/token" {
					http.Redirect(rw, r, "/token2", http.StatusTemporaryRedirect)
				}
				return r.URL.Path == "/token"
			}
		}, nil, "which is not followed"},
		"the metadata is another issuer's": {func(w *world, evil string) { w.Meta["issuer"] = evil }, nil, "does not match issuer"},
		"the resource is another server":   {func(w *world, evil string) { w.Resource = evil + "/mcp" }, nil, "not for this server"},
		"the resource is a neighbour":      {func(w *world, _ string) { w.Resource = w.API.URL + "/other" }, nil, "not for this server"},
		"a dangerous login page":           {func(w *world, _ string) { w.Meta["authorization_endpoint"] = "javascript:alert(1)" }, nil, "disallowed scheme"},
		"a login page without TLS":         {func(w *world, _ string) { w.Meta["token_endpoint"] = "http://evil.example/token" }, nil, "does not use HTTPS"},
		"the host is refused": {func(*world, string) {}, func(_ context.Context, host, port string) error {
			return errors.New("the user does not let the plugin reach " + host + " " + port)
		}, "does not let the plugin reach 127.0.0.1"},
	} {
		t.Run(name, func(t *testing.T) {
			var reached atomic.Int32
			evil := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached.Add(1) }))
			defer evil.Close()
			w := newWorld(t)
			tc.change(w, evil.URL)
			_, err := w.handler(nil).Login(within30(t), w.reserve, tc.permit)
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%v", err)
			}
			if reached.Load() > 0 || len(w.secrets.values) > 0 {
				t.Errorf("%d requests elsewhere, %d logins stored", reached.Load(), len(w.secrets.values))
			}
		})
	}
}

// Each host other than the server's is asked about once.
func TestPermit(t *testing.T) {
	w := newWorld(t)
	asked := 0
	h := w.handler(nil)
	renewals, err := h.Login(within30(t), w.reserve, func(_ context.Context, host, port string) error {
		asked++
		if host+":"+port != w.Auth.Listener.Addr().String() {
			t.Errorf("asked about %s:%s", host, port)
		}
		return nil
	})
	if err != nil || asked != 1 || renewals != w.Auth.URL+"/token" {
		t.Errorf("%v, asked %d times; renewals go to %q", err, asked, renewals)
	}
}

// A server elsewhere can't make gantry send requests to this machine.
func TestServersElsewhereDoNotNameThisMachine(t *testing.T) {
	w := newWorld(t)
	w.Resource = "https://mcp.example/mcp"
	w.API.Config.Handler = http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/mcp" {
			rw.Header().Set("WWW-Authenticate", `Bearer resource_metadata="https://mcp.example/.well-known/oauth-protected-resource/mcp"`)
			rw.WriteHeader(401)
			return
		}
		w.ServeAPI(rw, r)
	})
	h := w.handler(func(c *Config) {
		c.URL, c.Client = "https://mcp.example/mcp", &http.Client{Transport: elsewhere{"mcp.example": w.API.URL, w.Auth.Listener.Addr().String(): w.Auth.URL}}
	})
	t.Cleanup(http.DefaultTransport.(*http.Transport).CloseIdleConnections)
	_, err := h.Login(within30(t), w.reserve, nil)
	if err == nil || !strings.Contains(err.Error(), "must not name an address of this machine") || len(w.Seen) > 0 {
		t.Errorf("%v", err)
	}
}

// A token stays with its origin when the server redirects a request that carries it.
func TestTokensStayWithTheirServer(t *testing.T) {
	w, h := loggedIn(t)
	s, err := w.connect(h)
	if err != nil {
		t.Fatal(err)
	}
	var reached atomic.Int32
	evil := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached.Add(1) }))
	defer evil.Close()
	w.Set(func() {
		w.Intrude = func(rw http.ResponseWriter, r *http.Request) bool {
			http.Redirect(rw, r, evil.URL+"/mcp", http.StatusTemporaryRedirect)
			return true
		}
	})
	if _, ok := errors.AsType[*transport.OriginError](call(t, s, "read")); !ok || reached.Load() > 0 {
		t.Errorf("%d requests elsewhere", reached.Load())
	}
	// Nor does a challenge of another origin get a new one.
	req := httptest.NewRequest(http.MethodPost, evil.URL+"/mcp", nil)
	if _, ok := errors.AsType[*transport.OriginError](h.Authorize(t.Context(), req, httptest.NewRecorder().Result())); !ok {
		t.Error("another origin was authorized")
	}
}
