package model

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/gantry-agent/gantry/host/internal/plugin"
	"github.com/gantry-agent/gantry/sdk/llm"
	"google.golang.org/grpc/status"
)

// Unreachable converts the error of a provider that did not start or answer. The result says where the provider is configured,
// what to do, and which other providers are configured. It is not retried.
func (c *Client) Unreachable(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	e := &llm.Error{Code: llm.ErrNoRoute}
	if pe, ok := errors.AsType[*plugin.Error](err); ok {
		e.Message, e.Next = c.placed(pe.Error()), c.instead(pe.NextStep()) // the message names the provider
		return e
	}
	if s, ok := status.FromError(err); ok {
		err = errors.New(s.Message())
	}
	e.Message, e.Next = c.placed(fmt.Sprintf("provider %q: %v", c.label(), err)), c.instead("")
	return e
}

// explained adds to an error of the provider what only the host knows: its place in the configuration and alternatives.
func (c *Client) explained(e *llm.Error) *llm.Error {
	if e.Code != llm.ErrAuthentication && e.Code != llm.ErrNoRoute {
		return e
	}
	full := *e
	full.Message, full.Next = c.placed(fmt.Sprintf("provider %q: %s", c.label(), e.Error())), c.instead(e.Next)
	return &full
}

func (c *Client) placed(text string) string {
	if where := c.slot.Spec().Where; where != "" {
		return where + ": " + text
	}
	return text
}

// instead adds the usable providers to a next step.
func (c *Client) instead(next string) string {
	if len(c.others) == 0 {
		return next
	}
	others := "use another configured provider (--model PROVIDER/MODEL): " + strings.Join(c.others, ", ")
	if next == "" {
		return others
	}
	return strings.TrimRight(next, ".;") + "; or " + others
}
