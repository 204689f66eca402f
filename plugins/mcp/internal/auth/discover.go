package auth

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/gantry-agent/gantry/plugins/mcp/internal/transport"
)

// wellKnown is where the metadata of a protected resource is by default (RFC 9728, section 3).
const wellKnown = "/.well-known/oauth-protected-resource"

// maxMetadata limits metadata, in bytes.
const maxMetadata = 1 << 20

// ask asks the server for its challenge. open says that it has answered without one.
func (h *Handler) ask(ctx context.Context, client *http.Client) (c challenge, open bool, err error) {
	// A ping opens no session. Servers with the older transport only answer GET here.
	const ping = `{"jsonrpc":"2.0","id":1,"method":"ping"}`
	for _, method := range []string{http.MethodPost, http.MethodGet} {
		var body io.Reader
		if method == http.MethodPost {
			body = strings.NewReader(ping)
		}
		req, err := http.NewRequestWithContext(ctx, method, h.cfg.URL, body)
		if err != nil {
			return c, false, err
		}
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Accept", "application/json, text/event-stream")
		resp, err := client.Do(req)
		if err != nil {
			return c, false, err
		}
		_ = resp.Body.Close()
		mediaType, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
		code := resp.StatusCode
		switch {
		case code == http.StatusMethodNotAllowed && method == http.MethodPost:
		case code == http.StatusNotFound && mediaType != "application/json", // with JSON, it is an answer about the session
			code == http.StatusTooManyRequests, code >= 500, code < 300 && mediaType == "text/html":
			return c, false, &transport.StatusError{Code: code, MediaType: mediaType, After: resp.Header.Get("Retry-After")}
		default:
			return readChallenge(resp.Header.Values("WWW-Authenticate")), code < 300, nil
		}
	}
	return c, true, nil
}

// locate finds the metadata of the server as a protected resource: where it is, and how it spells the resource. named is the URL that
// the server has given, or empty. where is empty if there is none.
func (h *Handler) locate(ctx context.Context, client *http.Client, named string) (where string, resource *url.URL, err error) {
	var missing error
	for _, candidate := range h.places(named) {
		stated, err := resourceAt(ctx, client, candidate)
		status, ok := errors.AsType[*transport.StatusError](err)
		switch {
		case ok && status.Code < 500 && status.Code != http.StatusTooManyRequests: // not here
			if candidate == named {
				missing = &placeError{http.MethodGet, plain(named), err}
			}
			continue
		case err != nil:
			return "", nil, err
		}
		resource, err := h.accept(stated)
		if err != nil {
			return "", nil, fmt.Errorf("%s: %w", plain(candidate), err)
		}
		return candidate, resource, nil
	}
	if missing != nil {
		return "", nil, missing
	}
	plainURL := *h.server
	plainURL.RawQuery, plainURL.ForceQuery, plainURL.Fragment, plainURL.RawFragment = "", false, "", ""
	return "", &plainURL, nil
}

// places returns where the metadata may be, the likeliest place first.
func (h *Handler) places(named string) (out []string) {
	base, path := h.server.Scheme+"://"+h.server.Host+wellKnown, h.server.EscapedPath()
	short := strings.TrimRight(path, "/")
	for _, s := range []string{named, base + path, base + short, base + short + "/", base} {
		if s != "" && !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	return out
}

// resourceAt returns the resource of the metadata at an address. If there is none, the error is a *transport.StatusError.
func resourceAt(ctx context.Context, client *http.Client, address string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return "", err
	}
	req.Header.Set("Accept", "application/json")
	resp, err := client.Do(req)
	if err != nil {
		return "", err
	}
	defer func() { _ = resp.Body.Close() }()
	mediaType, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if resp.StatusCode != http.StatusOK || mediaType != "application/json" {
		return "", &transport.StatusError{Code: resp.StatusCode, MediaType: mediaType, After: resp.Header.Get("Retry-After")}
	}
	var m struct {
		Resource string `json:"resource"`
	}
	if err := json.NewDecoder(io.LimitReader(resp.Body, maxMetadata)).Decode(&m); err != nil {
		return "", &placeError{http.MethodGet, plain(address), errors.New("the metadata is not valid JSON of the expected form")}
	}
	return m.Resource, nil
}

// accept checks that metadata describes this server: a trailing slash does not matter, and the resource may be its whole origin.
func (h *Handler) accept(stated string) (*url.URL, error) {
	u, err := url.Parse(stated)
	if err == nil && sameOrigin(u, h.server) && u.User == nil && u.Fragment == "" && u.String() == stated &&
		(u.RawQuery == "" || u.RawQuery == h.server.RawQuery) {
		path := strings.TrimRight(u.EscapedPath(), "/")
		if path == "" && u.RawQuery == "" || path == strings.TrimRight(h.server.EscapedPath(), "/") {
			return u, nil
		}
	}
	return nil, fmt.Errorf("the metadata is for %q, not for this server", plain(stated))
}
