// Package auth logs in to MCP servers that are reached over HTTP, and provides their tokens.
//
// It owns: finding out where a server wants people to log in, the login itself, refreshing tokens, where tokens may be sent, and the
// messages about all of that. It must not know: how secrets are stored, how a browser is opened, what is sent to a server.
//
// The flows are those of the SDK for MCP and of golang.org/x/oauth2. Start with [New]; a [Handler] plugs into the SDK's transport, and
// never opens a browser unless Login is called.
package auth

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	sdkauth "github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/oauthex"
	"golang.org/x/oauth2"

	"github.com/gantry-agent/gantry/plugins/mcp/internal/transport"
)

// Secrets stores secrets where only this plugin can read them, in every process of the user's. A *tool.Env does. Names consist of at
// most 40 lower-case letters, digits and dashes.
type Secrets interface {
	// StoredSecret returns a secret. found is false if there is none.
	StoredSecret(ctx context.Context, name string) (value string, found bool, err error)
	StoreSecret(ctx context.Context, name, value string) error
	// DeleteSecret deletes a secret, which need not exist.
	DeleteSecret(ctx context.Context, name string) error
}

// Lease acquires a named lease that one holder has at a time, among all processes of the user's. It waits up to wait.
type Lease func(ctx context.Context, name string, wait time.Duration) (release func(), err error)

// Config describes how to log in to a server.
type Config struct {
	Name    string       // the server's name in the configuration
	URL     string       // of the server
	Client  *http.Client // sends the requests of logins; its CheckRedirect is not used
	Secrets Secrets
	Lease   Lease
	Version string // of gantry

	// ClientID is the client registered with the authorization server, or the https URL of a client ID metadata document. Empty: gantry
	// registers itself.
	ClientID     string
	ClientSecret func(ctx context.Context) (string, error) // nil: a public client
	Scopes       []string                                  // nil: those that the server asks for
	// Machine selects the client credentials grant, which needs no person. ClientID and ClientSecret are required.
	Machine bool
	// NoRegistration keeps gantry from registering itself as a client.
	NoRegistration bool
}

// Handler provides the tokens of one server. It implements the SDK's OAuthHandler. Its methods may be called concurrently.
type Handler struct {
	cfg    Config
	server *url.URL
	work   sync.WaitGroup // the running renewal

	mu struct {
		sync.Mutex
		login    *login    // nil: not read yet, or none
		checked  time.Time // when it was read or stored
		renewal  *renewal
		patience time.Time // an early renewal is not tried before
		dead     string    // the refresh token that was refused for good; why is the error
		why      error
		unsaved  *login // issued for the refresh token spent, but not stored yet
		spent    string
		refused  string // the token that only a new login can replace
	}
}

var _ sdkauth.OAuthHandler = (*Handler)(nil)

// LoginError says that only a new login helps.
type LoginError struct {
	Server string   // its name
	Reason string   // why, as a clause
	Scopes []string // that the server asks for in addition; may be empty
}

// Error implements error.
func (e *LoginError) Error() string {
	return fmt.Sprintf("the server %q needs a login: %s; run `gantry mcp login %s`", e.Server, e.Reason, e.Server)
}

// ErrCredentials says that a client that logs in by itself is refused: trying again does not help.
var ErrCredentials = errors.New("the client's credentials are refused")

// New checks cfg and returns a handler, which does nothing yet.
func New(cfg Config) (*Handler, error) {
	u, err := url.Parse(cfg.URL)
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil:
		return nil, fmt.Errorf("the url %q is not an address such as https://example.com/mcp", cfg.URL)
	case u.Scheme == "http" && !isLocal(u.Hostname()):
		return nil, fmt.Errorf("the url %q must begin with https://, because tokens are sent there", cfg.URL)
	case cfg.Machine && (cfg.ClientID == "" || cfg.ClientSecret == nil):
		return nil, errors.New("client credentials need client_id and client_secret")
	case cfg.ClientSecret != nil && cfg.ClientID == "":
		return nil, errors.New("client_secret needs client_id")
	case cfg.ClientID == "" && cfg.NoRegistration:
		return nil, errors.New("client_id is missing, and gantry may not register itself")
	}
	return &Handler{cfg: cfg, server: u}, nil
}

// Close waits for a running renewal, whose token may be the only valid one. It takes at most a minute and a half.
func (h *Handler) Close() { h.work.Wait() }

// key is the name of the stored login and of its lease. Another address or client is another login.
func (h *Handler) key() string {
	sum := sha256.Sum256([]byte(strings.Join([]string{h.cfg.Name, h.cfg.URL, h.cfg.ClientID}, "\x00")))
	return "mcp-" + hex.EncodeToString(sum[:16])
}

// TokenSource implements the SDK's OAuthHandler. It is nil without a login: many servers answer some requests without one.
func (h *Handler) TokenSource(ctx context.Context) (oauth2.TokenSource, error) {
	l, err := h.current(ctx)
	if err != nil {
		used := ""
		if old, err := h.read(ctx); err == nil {
			used = old.Access
		}
		return nil, h.refuses(used, err)
	}
	if l == nil || l.Access == "" {
		return nil, nil
	}
	return oauth2.StaticTokenSource(&oauth2.Token{AccessToken: l.Access, TokenType: "Bearer"}), nil
}

// Authorize implements the SDK's OAuthHandler. If it returns nil, there is another token, with which the request is sent once more.
func (h *Handler) Authorize(ctx context.Context, req *http.Request, resp *http.Response) error {
	used := strings.TrimPrefix(req.Header.Get("Authorization"), "Bearer ")
	return h.refuses(used, h.authorize(ctx, used, req, resp))
}

// refuses notes the token for which err demands a new login.
func (h *Handler) refuses(token string, err error) error {
	if _, ok := errors.AsType[*LoginError](err); ok {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.mu.refused = token
	}
	return err
}

// HasLogin reports whether a login is stored.
func (h *Handler) HasLogin(ctx context.Context) (bool, error) {
	l, err := h.read(ctx)
	return err == nil && l.Access != "", err
}

// AwaitLogin waits until another login is stored than the one that a *[LoginError] was about, such as by another process.
func (h *Handler) AwaitLogin(ctx context.Context) error {
	t := time.NewTicker(lookTime)
	defer t.Stop()
	for {
		h.mu.Lock()
		refused := h.mu.refused
		h.mu.Unlock()
		if l, err := h.read(ctx); err == nil && l.Access != "" && l.Access != refused {
			h.take(l)
			return nil
		}
		select {
		case <-t.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func (h *Handler) authorize(ctx context.Context, used string, req *http.Request, resp *http.Response) error {
	_ = resp.Body.Close()
	if !sameOrigin(req.URL, h.server) {
		return &transport.OriginError{Configured: origin(h.server), Other: origin(req.URL)}
	}
	asked := readChallenge(resp.Header.Values("WWW-Authenticate"))
	if resp.StatusCode == http.StatusForbidden {
		if asked.err != "insufficient_scope" {
			return h.Explain(&transport.StatusError{Code: resp.StatusCode})
		}
		return h.stepUp(ctx, used, asked)
	}
	l, err := h.read(ctx)
	switch {
	case err != nil:
		return err
	case l.Access != "" && l.Access != used: // obtained by another request, process or login
		h.take(l)
		return nil
	case h.cfg.Machine && l.TokenURL == "":
		return h.start(ctx, asked)
	case l.Access == "":
		return h.needs("it has none", asked.scopes)
	case time.Since(l.Refreshed) < justNow && l.Renewed:
		return h.needs("the server refuses a token that was issued just now", nil)
	}
	_, err = h.renew(ctx, l)
	return err
}

// lookTime is the time between two looks for a login of another process.
const lookTime = 2 * time.Second

// justNow is the age below which a renewed token that is refused is not renewed again.
const justNow = time.Minute

// stepUp handles a request for more scopes than the login has.
func (h *Handler) stepUp(ctx context.Context, used string, asked challenge) error {
	if len(asked.scopes) == 0 {
		return h.needs("the server wants scopes that it does not name; set them in the server's oauth block", nil)
	}
	var l *login
	err := h.exclusive(ctx, func(ctx context.Context) (err error) {
		if l, err = h.read(ctx); err != nil || l.Access != "" && l.Access != used || within(asked.scopes, union(l.Wanted, l.Scopes)) {
			return err
		}
		l.Wanted = union(l.Wanted, asked.scopes)
		return h.save(ctx, l) // the next login asks for them
	})
	switch {
	case err != nil:
		return err
	case l.Access != "" && l.Access != used:
		h.take(l)
		return nil
	case within(asked.scopes, l.Scopes) && l.Access != "":
		return fmt.Errorf("the server %q refuses the request although the login has the scopes that it asks for: %s; your account may lack the permission",
			h.cfg.Name, strings.Join(asked.scopes, " "))
	case h.cfg.Machine && l.TokenURL == "":
		return h.start(ctx, asked)
	case h.cfg.Machine:
		_, err = h.renew(ctx, l)
		return err
	}
	return h.needs("it asks for the scopes "+strings.Join(asked.scopes, " "), asked.scopes)
}

func (h *Handler) needs(reason string, scopes []string) error {
	if h.cfg.Machine {
		return &problem{fmt.Sprintf("the server %q can't be used: %s; check client_id, client_secret and scopes in its oauth block", h.cfg.Name, reason), ErrCredentials}
	}
	return &LoginError{Server: h.cfg.Name, Reason: reason, Scopes: scopes}
}

// exclusive runs f while no other process changes the login.
func (h *Handler) exclusive(ctx context.Context, f func(context.Context) error) error {
	release, err := h.cfg.Lease(ctx, h.key(), leaseTimeout)
	if err != nil {
		return fmt.Errorf("wait for another gantry that uses the login of the server %q: %w", h.cfg.Name, err)
	}
	defer release()
	return f(ctx)
}

// challenge is what a server says about the login that it wants.
type challenge struct {
	metadata string // the URL of the metadata; may be empty
	scopes   []string
	err      string // error code; may be empty
}

// readChallenge reads WWW-Authenticate headers. What can't be parsed is ignored: there are other ways to find the metadata.
func readChallenge(headers []string) (c challenge) {
	for _, header := range headers {
		parsed, err := oauthex.ParseWWWAuthenticate([]string{header})
		if err != nil {
			continue
		}
		for _, p := range parsed {
			if p.Scheme != "bearer" {
				continue
			}
			if u := p.Params["resource_metadata"]; c.metadata == "" && isAddress(u) {
				c.metadata = u
			}
			if c.err == "" {
				c.err = plain(p.Params["error"])
			}
			for _, s := range strings.Fields(p.Params["scope"]) {
				if isScope(s) && len(c.scopes) < maxScopes {
					c.scopes = union(c.scopes, []string{s})
				}
			}
		}
	}
	return c
}

const maxScopes = 100

// isAddress reports whether s is an absolute URL that can be quoted in a header.
func isAddress(s string) bool {
	u, err := url.Parse(s)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != "" && u.User == nil && isScope(s)
}

// isScope reports whether s has only the characters that a scope may have: those that need no quoting.
func isScope(s string) bool {
	return s != "" && len(s) <= 2000 && !strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r >= 0x7f || r == '"' || r == '\\' })
}

// union returns the scopes of both, in order.
func union(a, b []string) []string {
	out := slices.Clone(a)
	for _, s := range b {
		if !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	return out
}

func within(a, b []string) bool { return len(union(b, a)) == len(b) }
