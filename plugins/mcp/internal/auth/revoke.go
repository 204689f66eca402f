package auth

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"golang.org/x/oauth2"

	"github.com/gantry-agent/gantry/plugins/mcp/internal/transport"
)

// revokeTimeout bounds the revocation of a login, including the search for where it is revoked.
const revokeTimeout = 15 * time.Second

// Revoke asks the authorization server to revoke the tokens of the login, if there is one (RFC 7009). The login is not deleted. The tokens
// are sent only to the origin that has issued them.
func (h *Handler) Revoke(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, revokeTimeout)
	defer cancel()
	return h.exclusive(ctx, func(ctx context.Context) error {
		l, err := h.read(ctx)
		if err != nil || l.Access == "" {
			return err
		}
		client, t := h.client(nil)
		asked, _, err := h.ask(ctx, client)
		if err != nil {
			return h.Explain(t.cause(err))
		}
		s, err := h.discover(ctx, client, t, asked)
		if err != nil {
			return err
		}
		to, err := url.Parse(s.meta.RevocationEndpoint)
		issuer, wrong := url.Parse(l.TokenURL)
		switch {
		case s.meta.RevocationEndpoint == "":
			return errors.New("its authorization server can't revoke logins")
		case err != nil || wrong != nil || !sameOrigin(to, issuer):
			return fmt.Errorf("it is to be revoked at %s, which has not issued it", plain(s.meta.RevocationEndpoint))
		}
		if l.Refresh != "" {
			if err := h.revokeToken(ctx, client, to.String(), l, l.Refresh, "refresh_token"); err != nil {
				return h.Explain(t.cause(err))
			}
		}
		if err := h.revokeToken(ctx, client, to.String(), l, l.Access, "access_token"); err != nil && l.Refresh == "" { // it may have ended with the other
			return h.Explain(t.cause(err))
		}
		return nil
	})
}

func (h *Handler) revokeToken(ctx context.Context, client *http.Client, address string, l *login, token, hint string) error {
	secret, err := h.secret(ctx)
	if err != nil {
		return err
	}
	if secret == "" {
		secret = l.ClientSecret
	}
	form := url.Values{"token": {token}, "token_type_hint": {hint}}
	header := style(l.Style, secret) == oauth2.AuthStyleInHeader
	if !header {
		form.Set("client_id", l.ClientID)
		if secret != "" {
			form.Set("client_secret", secret)
		}
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, address, strings.NewReader(form.Encode()))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	if header {
		req.SetBasicAuth(url.QueryEscape(l.ClientID), url.QueryEscape(secret))
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return &placeError{http.MethodPost, plain(address), &transport.StatusError{Code: resp.StatusCode, After: resp.Header.Get("Retry-After")}}
	}
	return nil
}
