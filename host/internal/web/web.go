// Package web serves gantry's web page to browsers on this machine, and decides which of them may be a client.
//
// It owns: the files of the page and their headers, one-time codes and the token of a session, and the download of artifacts. It does not
// know the protocol that the page speaks, or how connections are accepted.
//
// Start with [New]. The transport has checked the host and the origin of what arrives here. Nothing uses cookies: browsers send those to
// every port of a host, so each program that serves something on this machine would receive them.
package web

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"

	"github.com/hashicorp/go-hclog"
)

// Config configures a page.
type Config struct {
	// Artifact opens stored content of a thread by its digest. Its errors wrap [ErrNoArtifact] if there is none.
	Artifact func(ctx context.Context, thread, digest string) (io.ReadCloser, error)
	Logger   hclog.Logger // nil: none
}

// ErrNoArtifact says that a thread has no content with a digest.
var ErrNoArtifact = errors.New("no such artifact")

// Page is the page of one server. Its methods may be called concurrently.
type Page struct {
	cfg    Config
	assets assets
	access *access
}

// New returns the page of a server.
func New(cfg Config) (*Page, error) {
	if cfg.Logger == nil {
		cfg.Logger = hclog.NewNullLogger()
	}
	a, err := loadAssets()
	if err != nil {
		return nil, err
	}
	return &Page{cfg: cfg, assets: a, access: newAccess()}, nil
}

// Link returns an address that opens the page at base once. The code is in the fragment, which browsers send to no server.
func (p *Page) Link(base string) string { return base + "#code=" + p.access.code() }

// Paths below which the page finds what is not a file.
const (
	pathSession  = "/session"
	pathCode     = "/code"
	pathArtifact = "/artifact/"
)

// policy is what the page may do: run its own files, and talk to its own server. Text that becomes a script or markup is refused by the
// browser, whoever wrote it.
func policy(host string) string {
	return strings.Join([]string{
		"default-src 'none'",
		"script-src 'self'",
		"style-src 'self'",
		"img-src 'self' blob: data:",
		"connect-src 'self' ws://" + host, // not every browser takes 'self' for a websocket
		"base-uri 'none'",
		"form-action 'none'",
		"frame-ancestors 'none'",
		"require-trusted-types-for 'script'",
		"trusted-types 'none'",
	}, "; ")
}

// ServeHTTP implements [http.Handler].
func (p *Page) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Security-Policy", policy(r.Host))
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Permissions-Policy", "camera=(), microphone=(), geolocation=()")
	h.Set("Cache-Control", "no-store")
	read := r.Method == http.MethodGet || r.Method == http.MethodHead
	switch {
	case r.URL.Path == pathSession && r.Method == http.MethodPost:
		p.exchange(w, r)
	case r.URL.Path == pathSession && read:
		if p.authorized(w, r) {
			w.WriteHeader(http.StatusNoContent)
		}
	case r.URL.Path == pathCode && r.Method == http.MethodPost:
		if p.authorized(w, r) {
			p.reply(w, codeMessage{p.access.code()})
		}
	case !read:
		w.Header().Set("Allow", "GET, HEAD")
		http.Error(w, "method not allowed", http.StatusMethodNotAllowed)
	case strings.HasPrefix(r.URL.Path, pathArtifact):
		p.artifact(w, r)
	default:
		p.assets.serve(w, r)
	}
}

type (
	codeMessage  struct{ Code string }
	tokenMessage struct{ Token string }
)

// maxCodeMessage bounds the request that contains a code, in bytes.
const maxCodeMessage = 1 << 10

// exchange answers a one-time code with the token.
func (p *Page) exchange(w http.ResponseWriter, r *http.Request) {
	var m codeMessage
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxCodeMessage)).Decode(&m); err != nil {
		http.Error(w, "not a code: "+err.Error(), http.StatusBadRequest)
		return
	}
	token, ok := p.access.exchange(m.Code)
	if !ok {
		p.cfg.Logger.Warn("browser refused", "peer", r.RemoteAddr, "err", "the code is wrong or was used")
		http.Error(w, "the link is not valid: each one can be opened once", http.StatusForbidden)
		return
	}
	p.reply(w, tokenMessage{token})
}

func (p *Page) reply(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(v); err != nil {
		p.cfg.Logger.Debug("response not sent", "err", err)
	}
}

// authorized checks the token of a request, and refuses the request if it is not valid.
func (p *Page) authorized(w http.ResponseWriter, r *http.Request) bool {
	token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !ok || !p.access.valid(token) {
		w.Header().Set("WWW-Authenticate", "Bearer")
		http.Error(w, errToken.Error(), http.StatusUnauthorized)
		return false
	}
	return true
}

var errToken = errors.New("the token is not valid: open a new link")

// Subprotocols of a websocket: the one that is agreed on, and the one that carries the token, since a page can set no other header.
const (
	subprotocol = "gantry"
	tokenPrefix = "token."
)

// Authorize implements the transport's Page.
func (p *Page) Authorize(r *http.Request) (string, error) {
	offered, token := false, ""
	for _, value := range r.Header.Values("Sec-Websocket-Protocol") {
		for name := range strings.SplitSeq(value, ",") {
			name = strings.TrimSpace(name)
			if t, ok := strings.CutPrefix(name, tokenPrefix); ok {
				token = t
			}
			offered = offered || name == subprotocol
		}
	}
	if !offered || !p.access.valid(token) {
		return "", errToken
	}
	return subprotocol, nil
}
