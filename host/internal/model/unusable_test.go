package model

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/host/internal/plugin"
	"github.com/gantry-agent/gantry/sdk/contract"
	"github.com/gantry-agent/gantry/sdk/llm"
	"github.com/hashicorp/go-hclog"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// client is one of a provider that is never started.
func client(t *testing.T, others ...string) *Client {
	t.Helper()
	sup, err := plugin.New(plugin.Config{RuntimeDir: t.TempDir(), CachePath: t.TempDir(), Logger: hclog.NewNullLogger()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := sup.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	slot, err := sup.Add(plugin.Spec{Label: "acme", Kind: contract.KindProvider, Path: "/nowhere", Where: "gantry.hcl:3"})
	if err != nil {
		t.Fatal(err)
	}
	return New(slot, "thread", others...)
}

// Where a provider itself is in the way, its error says where it is configured and what could be used instead. Other
// errors are the provider's own business.
func TestErrorsNameThePlaceAndTheOthers(t *testing.T) {
	const others = "use another configured provider (--model PROVIDER/MODEL): b, c"
	for _, tc := range []struct {
		name             string
		in               llm.Error
		others           []string
		wantText, wantDo string
	}{
		{"no key", llm.Error{Code: llm.ErrAuthentication, Message: "there is no key", Next: "set KEY."}, []string{"b", "c"},
			`gantry.hcl:3: provider "acme": there is no key`, "set KEY; or " + others},
		{"no route and no advice", llm.Error{Code: llm.ErrNoRoute, Message: "no way"}, []string{"b", "c"}, `gantry.hcl:3: provider "acme": no way`, others},
		{"nothing else is configured", llm.Error{Code: llm.ErrAuthentication, Message: "no", Next: "set KEY"}, nil, `gantry.hcl:3: provider "acme": no`, "set KEY"},
		{"overload", llm.Error{Code: llm.ErrOverloaded, Message: "busy", Next: "wait"}, []string{"b"}, "busy", "wait"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			before := tc.in
			got := client(t, tc.others...).explained(&tc.in)
			if got.Message != tc.wantText || got.Next != tc.wantDo || got.Code != tc.in.Code || tc.in != before {
				t.Errorf("%+v, want %q and %q", got, tc.wantText, tc.wantDo)
			}
		})
	}
}

// What keeps a provider from being asked is told without the transport's words; an interrupt is none of it.
func TestUnreachable(t *testing.T) {
	c := client(t, "b")
	e, ok := errors.AsType[*llm.Error](c.Unreachable(t.Context(), status.Error(codes.FailedPrecondition, "the server is down")))
	if !ok || e.Code != llm.ErrNoRoute || e.Retryable || e.Message != `gantry.hcl:3: provider "acme": the server is down` {
		t.Errorf("%+v", e)
	}
	for _, err := range c.Stream(t.Context(), &llm.Request{Model: "m"}, "turn", 1) { // there is no such program
		e, ok := errors.AsType[*llm.Error](err)
		if !ok || e.Code != llm.ErrNoRoute || !strings.HasPrefix(e.Message, `gantry.hcl:3: plugin "acme" was not found`) || e.Next == "" {
			t.Errorf("%+v", err)
		}
	}
	stop := errors.New("stop")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(stop)
	if err := c.Unreachable(ctx, errors.New("x")); err != stop {
		t.Errorf("%v", err)
	}
}
