package credential

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"golang.org/x/oauth2"

	"github.com/gantry-agent/gantry/providers/redact"
	"github.com/gantry-agent/gantry/sdk/llm"
)

// maxShown limits the text of a vendor's error that is shown.
const maxShown = 200

// finalCodes are permanent errors.
var finalCodes = []string{
	"access_denied", "expired_token", "invalid_client", "invalid_grant", "unauthorized_client", "refresh_token_expired",
	"refresh_token_invalidated", "refresh_token_reused",
}

var errUnreadable = errors.New("its answer can't be read")

// ended returns the error for a login that is no longer valid. next defaults to logging in.
func (o *OAuth) ended(what, next string) *llm.Error {
	return &llm.Error{Code: llm.ErrAuthentication, Message: what, Next: cmp.Or(next, "run `gantry login "+o.reg.Label+"`")}
}

// isFinal reports whether an error is permanent.
func isFinal(err error) bool {
	e, ok := errors.AsType[*llm.Error](err)
	return ok && e.Code == llm.ErrAuthentication
}

// failure is a failed exchange that may succeed later.
type failure struct {
	err    *llm.Error
	status int // of the response; 0: there was none
}

func (f failure) Error() string { return f.err.Error() }

func (f failure) Unwrap() error { return f.err }

// passes reports whether an error may disappear within the minutes of a login: no response, or a server error.
func passes(err error) bool {
	f, ok := errors.AsType[failure](err)
	return ok && (f.status < 400 || f.status >= 500 || f.status == http.StatusTooManyRequests)
}

// refusal returns the error of an exchange, with the vendor's name for it. It omits the vendor's response, which may echo the
// request, and all secrets in the request.
func (o *OAuth) refusal(what string, err error, secrets ...string) error {
	vendor := host(o.reg.TokenURL)
	refused, ok := errors.AsType[*oauth2.RetrieveError](err)
	if !ok {
		return failure{err: &llm.Error{
			Code: llm.ErrTransport, Retryable: true, Message: fmt.Sprintf("%s: %s: %s", what, vendor, unreached(err)),
			Next: fmt.Sprintf("check whether %s is reachable; the login may still be valid", vendor),
		}}
	}
	code, description := named(refused)
	status := 0
	if refused.Response != nil {
		status = refused.Response.StatusCode
	}
	if slices.Contains(finalCodes, code) || status == http.StatusUnauthorized {
		return o.denied(fmt.Sprintf("%s: %s rejected it permanently", what, vendor), cmp.Or(code, fmt.Sprintf("status %d", status)), description, secrets...)
	}
	return failure{status: status, err: &llm.Error{
		Code: llm.ErrTransport, Retryable: true,
		Message: fmt.Sprintf("%s: %s answers %s", what, vendor, o.shown(secrets, cmp.Or(code, fmt.Sprintf("with status %d", status)), description)),
		Next:    fmt.Sprintf("try again later; if it fails again, check the oauth block and run `gantry login %s`", o.reg.Label),
	}}
}

// denied returns a permanent error.
func (o *OAuth) denied(what, code, description string, secrets ...string) error {
	return o.ended(what+": "+o.shown(secrets, code, description), "")
}

// shown returns the vendor's name for an error and one line of description.
func (o *OAuth) shown(secrets []string, code, description string) string {
	var r redact.Redactor
	for _, s := range append(secrets, o.reg.ClientSecret) {
		r.Add(s)
	}
	line, _, _ := strings.Cut(strings.TrimSpace(description), "\n")
	if line != "" {
		code += " (" + line + ")"
	}
	text, cut := redact.Clip(r.Text(code), maxShown)
	if cut {
		text += "…"
	}
	return text
}

// named finds the name and description of an error in the formats that vendors use: as in RFC 6749, as an object, or next to one.
func named(e *oauth2.RetrieveError) (code, description string) {
	if e.ErrorCode != "" {
		return e.ErrorCode, e.ErrorDescription
	}
	var body struct {
		Error       json.RawMessage `json:"error"`
		Description string          `json:"error_description"`
		Code        string          `json:"code"`
	}
	if json.Unmarshal(e.Body, &body) != nil {
		return "", ""
	}
	if json.Unmarshal(body.Error, &code) == nil && code != "" {
		return code, body.Description
	}
	var inner struct {
		Code    string `json:"code"`
		Type    string `json:"type"`
		Message string `json:"message"`
	}
	if json.Unmarshal(body.Error, &inner) != nil {
		return body.Code, body.Description
	}
	return cmp.Or(inner.Code, body.Code, inner.Type), inner.Message
}

// unreached says why there was no response, without the address, which may contain secrets.
func unreached(err error) string {
	if u, ok := errors.AsType[*url.Error](err); ok {
		err = u.Err
	}
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return "no response in time"
	case errors.Is(err, context.Canceled), errors.Is(err, errUnreadable):
		return err.Error()
	}
	if n, ok := errors.AsType[net.Error](err); ok {
		return n.Error()
	}
	if strings.HasPrefix(err.Error(), "oauth2: ") {
		return errUnreadable.Error() // the library's message may contain part of the response
	}
	return err.Error()
}

// host returns the vendor's host for messages.
func host(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return "the vendor"
	}
	return u.Host
}
