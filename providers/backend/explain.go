package backend

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"strings"

	"github.com/gantry-agent/gantry/providers/protocol"
	"github.com/gantry-agent/gantry/providers/route"
	"github.com/gantry-agent/gantry/sdk/llm"
)

// explain prefixes a vendor's error message with the vendor's name and the meaning, and adds a next step. On their own, messages
// such as "Overloaded", "model: x" or "Unauthorized" do not say where they come from.
func (s *service) explain(err error, model string) error {
	of, ok := errors.AsType[*llm.Error](err)
	if !ok {
		return err
	}
	if f, ok := errors.AsType[*route.Fault](err); ok {
		s.logger.Debug("the request failed", "code", of.Code, "status", of.Status, "url", f.URL, "request_id", of.RequestID, "body", f.Body, "err", of)
	}
	e := *of
	lead, next := s.meaning(&e, model)
	if lead == "" {
		return &e
	}
	words := strings.Join(strings.Fields(e.Message), " ") // a message is a single line
	if protocol.Wordless(e.Message) {
		words = ""
	}
	e.Message = strings.TrimSuffix(lead+": "+words, ": ")
	e.Next = cmp.Or(next, e.Next)
	return &e
}

const (
	waitOrSwitch = "try again later, or use another model; `fallback` in a model's block does that automatically"
	shorten      = "start a new thread, or use a model with a larger context window"
)

// meaning returns the meaning of a vendor's error and the next step. lead is empty for our own errors, which are complete.
func (s *service) meaning(e *llm.Error, model string) (lead, next string) {
	who := s.who()
	status := ""
	if e.Status != 0 {
		status = fmt.Sprintf(" (status %d)", e.Status)
	}
	switch e.Code {
	case llm.ErrRateLimit:
		return who + " accepts no more requests for now", cmp.Or(e.Next, waitOrSwitch)
	case llm.ErrOverloaded:
		return who + " is overloaded", cmp.Or(e.Next, waitOrSwitch)
	case llm.ErrProviderInternal:
		return who + " failed" + status, cmp.Or(e.Next, waitOrSwitch)
	case llm.ErrQuotaExceeded:
		return "the account at " + who + " is used up", ""
	case llm.ErrContextOverflow:
		return fmt.Sprintf("the conversation is too long for %s", model), shorten
	case llm.ErrContentPolicy:
		return who + " rejected this because of its content policy", "reword it, or use another model"
	case llm.ErrUnknown:
		return who + " answered with an error" + status, ""
	case llm.ErrIncompleteStream:
		return who + " ended its response early", waitOrSwitch
	case llm.ErrInvalidOutput:
		if e.Next == "" { // otherwise it is an error about the response itself, which explains it
			return who + " sent an invalid response", "try again; if it happens again, check base_url and proxy: a proxy may be changing responses"
		}
	}
	if e.Status < 400 || e.Status == 407 {
		return "", ""
	}
	switch {
	case e.Code == llm.ErrAuthentication && e.Status == 403:
		return who + " does not allow this", "check the permissions of the key in the provider's block, and whether the vendor serves your country"
	case e.Code == llm.ErrAuthentication && s.config.OAuth != nil:
		return who + " rejected the login", fmt.Sprintf("log in again: `gantry login %s`", s.label)
	case e.Code == llm.ErrAuthentication && s.config.APIKey.IsZero():
		return who + " wants a key", "set api_key in the provider's block"
	case e.Code == llm.ErrAuthentication:
		return who + " rejected the key", "check that api_key in the provider's block is complete, belongs to this vendor, and is still valid"
	case e.Code == llm.ErrPayloadTooLarge:
		return "the request is too large for " + who, "start a new thread, or provide large content as files"
	case noModel.MatchString(e.Message):
		return fmt.Sprintf("%s has no model %q", who, model), "correct name in the model's block; `gantry models` lists what the providers offer"
	case e.Status == 404:
		return who + " has nothing at this address", ""
	}
	return who + " refused the request" + status, ""
}

// noModel matches vendors' messages about unknown models.
var noModel = regexp.MustCompile(`(?i)^model: |\bmodels?\b.{0,80}\b(?:not exist|not found|not supported|no longer|been deprecated)|no endpoints found for|` +
	`model identifier|with on-demand throughput isn.t supported`)

// who returns the vendor's name, and its address unless that is the default.
func (s *service) who() string {
	u, err := url.Parse(s.config.BaseURL)
	if err != nil || u.Host == "" {
		return s.vendor.Name
	}
	return s.vendor.Name + " at " + u.Host
}
