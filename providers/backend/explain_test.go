package backend

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/sdk/llm"
)

// A user reads who refused, what that means, the vendor's own words if there are any, and what to do.
func TestExplain(t *testing.T) {
	const keyed = `{"base_url": "http://gate:4000/v1", "api_key": "sk-0123456789"}`
	for _, tc := range []struct {
		name       string
		config     string
		err        llm.Error
		want, next string
	}{
		{"usual place", `{}`, llm.Error{Code: llm.ErrOverloaded, Status: 529, Message: "Overloaded"}, "Acme is overloaded: Overloaded", "fallback"},
		{"inside a stream", keyed, llm.Error{Code: llm.ErrProviderInternal, Message: "server_error: hm"}, "Acme at gate:4000 failed: server_error: hm", "later"},
		{"no words", keyed, llm.Error{Code: llm.ErrProviderInternal, Status: 502, Message: "the vendor answered with status 502"},
			"Acme at gate:4000 failed (status 502)", "later"},
		{"lines", `{}`, llm.Error{Code: llm.ErrRateLimit, Status: 429, Message: "slow\n* down\n"}, "Acme accepts no more requests for now: slow * down", "later"},
		{"come back tomorrow", `{}`, llm.Error{Code: llm.ErrRateLimit, Status: 429, Message: "slow", Next: "try again then"}, "Acme accepts no more requests for now: slow", "then"},
		{"money", `{}`, llm.Error{Code: llm.ErrQuotaExceeded, Status: 402, Message: "pay", Next: "billing"}, "the account at Acme is used up: pay", "billing"},
		{"key", keyed, llm.Error{Code: llm.ErrAuthentication, Status: 401, Message: "no"}, "Acme at gate:4000 rejected the key: no", "api_key"},
		{"key behind another status", keyed, llm.Error{Code: llm.ErrAuthentication, Status: 400, Message: "no"}, "Acme at gate:4000 rejected the key: no", "api_key"},
		{"not allowed", keyed, llm.Error{Code: llm.ErrAuthentication, Status: 403, Message: "no"}, "Acme at gate:4000 does not allow this: no", "country"},
		{"no key", `{"base_url": "http://gate:4000/v1"}`, llm.Error{Code: llm.ErrAuthentication, Status: 401, Message: "no"}, "Acme at gate:4000 wants a key: no", "api_key"},
		{"login", `{"oauth": {"client_id": "c", "auth_url": "https://x/a", "token_url": "https://x/t"}}`, llm.Error{Code: llm.ErrAuthentication, Status: 401, Message: "no"},
			"Acme rejected the login: no", "gantry login"},
		{"long", `{}`, llm.Error{Code: llm.ErrContextOverflow, Status: 400, Message: "prompt too long"}, "the conversation is too long for m: prompt too long", "new thread"},
		{"large", `{}`, llm.Error{Code: llm.ErrPayloadTooLarge, Status: 413, Message: "big"}, "the request is too large for Acme: big", "files"},
		{"policy", `{}`, llm.Error{Code: llm.ErrContentPolicy, Message: "the vendor rejected the request because of its content policy"},
			"Acme rejected this because of its content policy", "reword it"},
		{"model", `{}`, llm.Error{Code: llm.ErrInvalidRequest, Status: 400, Message: "Model Not Exist"}, `Acme has no model "m": Model Not Exist`, "gantry models"},
		{"anthropic's model", `{}`, llm.Error{Code: llm.ErrInvalidRequest, Status: 404, Message: "model: m"}, `Acme has no model "m": model: m`, "gantry models"},
		{"openai's model", `{}`, llm.Error{Code: llm.ErrInvalidRequest, Status: 404, Message: "The model `m` does not exist or you do not have access to it."},
			"Acme has no model \"m\": The model `m` does not exist or you do not have access to it.", "gantry models"},
		{"google's model", `{}`, llm.Error{Code: llm.ErrInvalidRequest, Status: 404, Message: "models/m is not found for API version v1beta"},
			`Acme has no model "m": models/m is not found for API version v1beta`, "gantry models"},
		{"address", `{}`, llm.Error{Code: llm.ErrInvalidRequest, Status: 404, Message: "404 page not found", Next: "base_url"},
			"Acme has nothing at this address: 404 page not found", "base_url"},
		{"malformed", `{}`, llm.Error{Code: llm.ErrInvalidRequest, Status: 400, Message: "bad"}, "Acme refused the request (status 400): bad", ""},
		{"teapot", `{}`, llm.Error{Code: llm.ErrUnknown, Status: 418, Message: "tea"}, "Acme answered with an error (status 418): tea", ""},
		{"cut", `{}`, llm.Error{Code: llm.ErrIncompleteStream, Message: "the stream ended"}, "Acme ended its response early: the stream ended", "later"},
		{"garbled", `{}`, llm.Error{Code: llm.ErrInvalidOutput, Message: "a chunk is no JSON"}, "Acme sent an invalid response: a chunk is no JSON", "proxy"},
		{"no stream", `{}`, llm.Error{Code: llm.ErrInvalidOutput, Message: "gate answered with a web page", Next: "check"}, "gate answered with a web page", "check"},
		{"no kind inside a stream", `{}`, llm.Error{Code: llm.ErrUnknown, Message: "odd"}, "Acme answered with an error: odd", ""},
		{"our own", `{}`, llm.Error{Code: llm.ErrTransport, Message: "gate refused the connection", Next: "check"}, "gate refused the connection", "check"},
		{"our own refusal", `{}`, llm.Error{Code: llm.ErrInvalidRequest, Message: "the image is too large"}, "the image is too large", ""},
		{"a redirect", `{}`, llm.Error{Code: llm.ErrInvalidRequest, Status: 302, Message: "gate sends requests on"}, "gate sends requests on", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s, err := newTestService(t, Vendor{Name: "Acme"}, tc.config)
			if err != nil {
				t.Fatal(err)
			}
			before := tc.err
			e, ok := errors.AsType[*llm.Error](s.explain(fmt.Errorf("wrapped: %w", &tc.err), "m"))
			if !ok {
				t.Fatal("no error of the taxonomy")
			}
			if e.Message != tc.want || !strings.Contains(e.Next, tc.next) {
				t.Errorf("message %q, next %q, want %q and %q", e.Message, e.Next, tc.want, tc.next)
			}
			if e.Code != before.Code || e.Status != before.Status || tc.err != before {
				t.Errorf("%+v was changed to %+v", before, e)
			}
		})
	}
	s, err := newTestService(t, Vendor{}, `{}`)
	if err != nil {
		t.Fatal(err)
	}
	if other := errors.New("other"); s.explain(other, "m") != other {
		t.Error("an error of another kind was changed")
	}
}
