package auth

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/oauthex"
	"golang.org/x/oauth2"

	"github.com/gantry-agent/gantry/plugins/mcp/internal/transport"
)

// Permit asks whether a login may reach a host other than the server's, such as that of its authorization server. An error refuses it.
type Permit func(ctx context.Context, host, port string) error

// RedirectError says that an answer would have sent a request elsewhere.
type RedirectError struct{ From, To string }

// Error implements error.
func (e *RedirectError) Error() string {
	return fmt.Sprintf("%s redirects to %s, which is not followed", e.From, e.To)
}

// trip is an http.RoundTripper that decides where requests of a login go, and remembers why the last one failed: the SDK reports that
// as text only.
type trip struct {
	server    *url.URL
	next      http.RoundTripper
	permit    Permit // nil: the host decides
	userAgent string

	mu        sync.Mutex
	permitted map[string]bool
	failed    error // of the last request
}

// client returns a client for one login or renewal.
func (h *Handler) client(permit Permit) (*http.Client, *trip) {
	t := &trip{server: h.server, next: http.DefaultTransport, permit: permit, userAgent: "gantry/" + h.cfg.Version, permitted: map[string]bool{}}
	var c http.Client
	if h.cfg.Client != nil {
		c = *h.cfg.Client
	}
	if c.Transport != nil {
		t.next = c.Transport
	}
	c.Transport, c.Jar = t, nil
	if c.Timeout == 0 {
		c.Timeout = exchangeTimeout
	}
	c.CheckRedirect = func(req *http.Request, via []*http.Request) error {
		first := via[0]
		if first.Method == http.MethodGet && sameOrigin(first.URL, req.URL) && len(via) < 5 {
			return nil
		}
		err := &RedirectError{From: place(first.URL), To: place(req.URL)}
		t.remember(err)
		return err
	}
	return &c, t
}

func (t *trip) remember(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.failed = err
}

// cause returns the failure of the last request, unless the error of the flow that has sent it says more.
func (t *trip) cause(err error) error {
	_, registration := errors.AsType[*oauthex.ClientRegistrationError](err)
	token, ok := errors.AsType[*oauth2.RetrieveError](err)
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.failed == nil || registration || ok && token.ErrorCode != "" {
		return err
	}
	return t.failed
}

// RoundTrip implements http.RoundTripper.
func (t *trip) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := t.send(req)
	if err != nil {
		err = &placeError{req.Method, place(req.URL), err}
		t.remember(err)
		return nil, err
	}
	mediaType, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if resp.StatusCode < 300 && mediaType == "application/json" {
		t.remember(nil)
	} else {
		t.remember(&placeError{req.Method, place(req.URL), &transport.StatusError{
			Code: resp.StatusCode, MediaType: mediaType, Challenge: resp.Header.Get("WWW-Authenticate"), After: resp.Header.Get("Retry-After"),
		}})
	}
	return resp, nil
}

func (t *trip) send(req *http.Request) (*http.Response, error) {
	if isLocal(req.URL.Hostname()) && !isLocal(t.server.Hostname()) {
		return nil, errors.New("a server elsewhere must not name an address of this machine")
	}
	if err := t.allowed(req); err != nil {
		return nil, err
	}
	req, err := public(req)
	if err != nil {
		return nil, err
	}
	req.Header.Set("User-Agent", t.userAgent)
	return t.next.RoundTrip(req)
}

// allowed asks once about each other host.
func (t *trip) allowed(req *http.Request) error {
	if t.permit == nil || sameOrigin(req.URL, t.server) {
		return nil
	}
	t.mu.Lock()
	known := t.permitted[origin(req.URL)]
	t.mu.Unlock()
	if known {
		return nil
	}
	if err := t.permit(req.Context(), req.URL.Hostname(), port(req.URL)); err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.permitted[origin(req.URL)] = true
	return nil
}

// public returns a copy of a request. If it authenticates with an empty password, which the SDK chooses for clients without one, the
// client is named in the body instead (RFC 6749, section 3.2.1).
func public(req *http.Request) (*http.Request, error) {
	out := req.Clone(req.Context())
	id, password, ok := req.BasicAuth()
	if !ok || password != "" || req.Body == nil {
		return out, nil
	}
	b, err := io.ReadAll(req.Body)
	_ = req.Body.Close()
	if err != nil {
		return nil, err
	}
	form, err := url.ParseQuery(string(b))
	if err != nil {
		return nil, err
	}
	if id, err = url.QueryUnescape(id); err != nil {
		return nil, err
	}
	form.Set("client_id", id)
	b = []byte(form.Encode())
	out.Header.Del("Authorization")
	out.Body, out.ContentLength = io.NopCloser(bytes.NewReader(b)), int64(len(b))
	return out, nil
}

// placeError is what went wrong at a place.
type placeError struct {
	method, place string // of the request
	err           error
}

// Error implements error.
func (e *placeError) Error() string { return e.place + ": " + e.err.Error() }

// Unwrap returns the error without the place.
func (e *placeError) Unwrap() error { return e.err }

func sameOrigin(a, b *url.URL) bool { return origin(a) == origin(b) }

// origin returns scheme, host and port in one spelling.
func origin(u *url.URL) string {
	return strings.ToLower(u.Scheme) + "://" + net.JoinHostPort(strings.ToLower(u.Hostname()), port(u))
}

func port(u *url.URL) string {
	switch {
	case u.Port() != "":
		return u.Port()
	case strings.EqualFold(u.Scheme, "http"):
		return "80"
	}
	return "443"
}

// place is a URL for messages, without what may be secret.
func place(u *url.URL) string { return plain(u.Scheme + "://" + u.Host + u.Path) }

// isLocal reports whether a host is this machine by its name.
func isLocal(host string) bool {
	host = strings.TrimSuffix(strings.ToLower(host), ".")
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || strings.HasSuffix(host, ".localhost") || err == nil && (ip.Unmap().IsLoopback() || ip.IsUnspecified())
}
