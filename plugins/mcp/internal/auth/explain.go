package auth

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"

	"github.com/modelcontextprotocol/go-sdk/oauthex"
	"golang.org/x/oauth2"

	"github.com/gantry-agent/gantry/plugins/mcp/internal/catalog"
	"github.com/gantry-agent/gantry/plugins/mcp/internal/transport"
)

// problem is an error with a text for people.
type problem struct {
	text string
	err  error
}

// Error implements error.
func (p *problem) Error() string { return p.text }

// Unwrap returns what happened.
func (p *problem) Unwrap() error { return p.err }

// Explain is the function [Explain] for the handler's server.
func (h *Handler) Explain(err error) error { return Explain(h.cfg.Name, h.cfg.URL, err) }

// Explain returns an error of requests to a server with a text that says what to do about it. server is its name, address its URL. The
// errors of [Handler] are explained already.
func Explain(server, address string, err error) error {
	if err == nil {
		return nil
	}
	if p, ok := errors.AsType[*problem](err); ok {
		return p
	}
	if l, ok := errors.AsType[*LoginError](err); ok {
		return l
	}
	return &problem{fmt.Sprintf("the server %q: %s", server, explain(server, locus(address, err), err)), err}
}

// site is where a request went.
type site struct {
	place string
	hint  string // what to do if there is nothing of use
	err   error  // what happened there
}

// locus returns where the request for an error went, by default to the server.
func locus(address string, err error) site {
	s := site{plain(address), "check its url in the configuration", err}
	at, ok := errors.AsType[*placeError](err)
	if !ok {
		return s
	}
	s.place, s.err = at.place, fmt.Errorf("%s: %w", at.place, at.err)
	server, e1 := url.Parse(address)
	other, e2 := url.Parse(at.place)
	if e1 == nil && e2 == nil && !sameOrigin(server, other) {
		s.hint = "the server names this address for its login: try again later, or tell the server's operator"
	}
	return s
}

func explain(server string, at site, err error) string {
	if e, ok := errors.AsType[*oauthex.ClientRegistrationError](err); ok {
		return "its authorization server refuses to register gantry: " + words(e.ErrorCode, e.ErrorDescription)
	}
	if e, ok := errors.AsType[*oauth2.RetrieveError](err); ok {
		if e.ErrorCode != "" {
			return fmt.Sprintf("its authorization server refuses to issue a token: %s; run `gantry mcp login %s`", words(e.ErrorCode, e.ErrorDescription), server)
		}
		if e.Response != nil {
			return explainStatus(server, at, &transport.StatusError{Code: e.Response.StatusCode, After: e.Response.Header.Get("Retry-After")})
		}
	}
	if e, ok := errors.AsType[*transport.StatusError](err); ok {
		return explainStatus(server, at, e)
	}
	if e, ok := errors.AsType[*RedirectError](err); ok {
		if e.From == at.place {
			return e.Error() + "; if that is the right address of the server, set url to it"
		}
		return e.Error() + "; tell the server's operator"
	}
	if e, ok := errors.AsType[*net.DNSError](err); ok {
		if e.IsNotFound {
			return fmt.Sprintf("there is no host %q; %s", plain(e.Name), at.hint)
		}
		return fmt.Sprintf("the name %q can't be resolved at the moment; check the network connection", plain(e.Name))
	}
	if text := explainTLS(at, err); text != "" {
		return text
	}
	if e, ok := errors.AsType[net.Error](err); errors.Is(err, context.DeadlineExceeded) || ok && e.Timeout() {
		return at.place + " did not answer in time; check the network connection and try again"
	}
	if e, ok := errors.AsType[*net.OpError](err); ok && e.Op == "dial" {
		return fmt.Sprintf("no connection to %s (%s); is it running? Otherwise %s", at.place, plain(e.Err.Error()), at.hint)
	}
	if e, ok := errors.AsType[*url.Error](at.err); ok { // what is around it says how the SDK sends requests
		return catalog.Line(e.Err.Error(), maxText)
	}
	return catalog.Line(at.err.Error(), maxText)
}

func explainStatus(server string, at site, e *transport.StatusError) string {
	where, status := at.place, fmt.Sprintf("HTTP %d", e.Code)
	switch {
	case e.Code == http.StatusUnauthorized:
		return fmt.Sprintf("%s refuses the credentials (%s); run `gantry mcp login %s`, or check bearer_token and headers in the configuration", where, status, server)
	case e.Code == http.StatusForbidden:
		return fmt.Sprintf("%s refuses the request (%s); your account may lack the permission: run `gantry mcp login %s` to use another one", where, status, server)
	case e.Code == http.StatusNotFound:
		return fmt.Sprintf("there is nothing at %s (%s); %s", where, status, at.hint)
	case e.Code == http.StatusMethodNotAllowed:
		return fmt.Sprintf("%s does not accept the request (%s); check url and transport in the configuration", where, status)
	case e.Code == http.StatusTooManyRequests && e.After != "":
		return fmt.Sprintf("%s gets too many requests (%s); try again after %s", where, status, after(e.After))
	case e.Code == http.StatusTooManyRequests:
		return fmt.Sprintf("%s gets too many requests (%s); try again in a few minutes", where, status)
	case e.Code >= 500:
		return fmt.Sprintf("%s has a problem of its own (%s %s); try again later", where, status, http.StatusText(e.Code))
	case e.Code < 300 && e.MediaType == "text/html":
		return where + " is a web page, not a service: it answered with HTML instead of JSON; " + at.hint
	case e.Code < 300:
		return fmt.Sprintf("%s answered with %q instead of JSON; %s", where, plain(e.MediaType), at.hint)
	}
	return fmt.Sprintf("%s refuses the request (%s %s)", where, status, http.StatusText(e.Code))
}

// after is the value of a Retry-After header for people.
func after(value string) string {
	if value = plain(value); len(value) < 8 {
		return value + " s"
	}
	return value
}

// explainTLS returns "" if an error is not about TLS.
func explainTLS(at site, err error) string {
	where := at.place
	if e, ok := errors.AsType[x509.HostnameError](err); ok {
		return fmt.Sprintf("the certificate of %s is for another host than %q; %s", where, plain(e.Host), at.hint)
	}
	if e, ok := errors.AsType[x509.CertificateInvalidError](err); ok && e.Reason == x509.Expired {
		return fmt.Sprintf("the certificate of %s is not valid now; check the clock of this machine, or tell the server's operator", where)
	}
	if _, ok := errors.AsType[x509.UnknownAuthorityError](err); ok {
		return fmt.Sprintf("the certificate of %s is signed by an unknown authority; if you trust it, set ca_file in the server's block to the certificate of that authority", where)
	}
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return fmt.Sprintf("the certificate of %s is not valid: %s", where, catalog.Line(err.Error(), maxText))
	}
	if _, ok := errors.AsType[tls.RecordHeaderError](err); ok || errors.Is(err, http.ErrSchemeMismatch) {
		return where + " does not use TLS; check whether its url should begin with http://"
	}
	if _, ok := errors.AsType[tls.AlertError](err); ok {
		return where + " refuses the TLS connection: " + catalog.Line(err.Error(), maxText)
	}
	return ""
}

const maxText = 500

// plain is a stranger's text on one line of bounded length.
func plain(s string) string { return catalog.Line(s, 200) }

// words are the code and the description of an OAuth error.
func words(code, description string) string {
	if description == "" {
		return plain(code)
	}
	return plain(code) + ": " + plain(description)
}
