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

// Unreachable words the error of a provider that could not be asked: where it is configured, what to do, and what to use
// instead. It will not start by asking again.
func (c *Client) Unreachable(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	e := &llm.Error{Code: llm.ErrNoRoute}
	if pe, ok := errors.AsType[*plugin.Error](err); ok {
		e.Message, e.Next = c.placed(pe.Error()), c.instead(pe.NextStep()) // it names the provider
		return e
	}
	if s, ok := status.FromError(err); ok {
		err = errors.New(s.Message())
	}
	e.Message, e.Next = c.placed(fmt.Sprintf("provider %q: %v", c.label(), err)), c.instead("")
	return e
}

// explained adds to an error of the provider what only the host knows, where the provider itself is in the way.
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

// instead adds to a next step the providers that could be used.
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
