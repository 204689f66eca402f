package service_test

import (
	"context"
	"testing"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/redact"
	"github.com/gantry-agent/gantry/sdk/contract"
	gantryv1 "github.com/gantry-agent/gantry/sdk/proto/gantry/v1"
	"google.golang.org/grpc/codes"
)

// With a thread's token a plugin speaks in that thread, outside any call, and does nothing else.
func TestThreadTokens(t *testing.T) {
	w := newWorld(t)
	mine, other := w.client("mine"), w.client("other")
	token, revoke := w.tokens.IssueThread("mine", w.thread)
	emit := func(c gantryv1.HostServiceClient, token string) error {
		_, err := c.Emit(t.Context(), &gantryv1.EmitRequest{Token: token, Kind: "page.opened", PayloadJson: []byte(`{"url":"x"}`), Durable: true})
		return err
	}
	if err := emit(mine, token); err != nil {
		t.Fatal(err)
	}
	if e, ok := (<-w.events).(event.PluginEvent); !ok || e.Plugin != "mine" || e.Name != "page.opened" || e.Transient {
		t.Errorf("event = %+v", e)
	}
	w.known.Add("the-secret-value")
	if _, err := mine.Emit(t.Context(), &gantryv1.EmitRequest{Token: token, Kind: "x", PayloadJson: []byte(`{"typed":"the-secret-value"}`)}); err != nil {
		t.Fatal(err)
	}
	if e, _ := (<-w.events).(event.PluginEvent); string(e.Payload) != `{"typed":"`+redact.Placeholder+`"}` {
		t.Errorf("a secret is published: %s", e.Payload)
	}
	if err := emit(other, token); code(err) != codes.PermissionDenied {
		t.Errorf("another plugin speaks with it: %v", err)
	}
	elsewhere, _ := w.tokens.IssueThread("mine", event.NewThreadID())
	if err := emit(mine, elsewhere); code(err) != codes.FailedPrecondition {
		t.Errorf("a thread that does not run: %v", err)
	}
	for name, do := range map[string]func() error{
		"spawn": func() error {
			_, err := mine.Spawn(t.Context(), &gantryv1.SpawnRequest{CallToken: token, Argv: []string{"true"}})
			return err
		},
		"call a tool": func() error {
			_, err := mine.CallTool(t.Context(), &gantryv1.CallToolRequest{CallToken: token, Tool: "echo"})
			return err
		},
		"list tools": func() error {
			_, err := mine.ListTools(t.Context(), &gantryv1.ListToolsRequest{CallToken: token})
			return err
		},
		"ask": func() error {
			_, err := mine.Ask(t.Context(), &gantryv1.AskRequest{CallToken: token, Kind: gantryv1.AskKind_ASK_KIND_FORM})
			return err
		},
		"authorize": func() error {
			_, err := mine.Authorize(t.Context(), &gantryv1.AuthorizeRequest{CallToken: token})
			return err
		},
		"sample": func() error {
			_, err := mine.Sample(t.Context(), &gantryv1.SampleRequest{CallToken: token})
			return err
		},
	} {
		if err := do(); code(err) != codes.PermissionDenied {
			t.Errorf("%s with a thread's token: %v", name, err)
		}
	}
	// A call's token works beside it and is not one.
	w.call(t.Context(), func(_ context.Context, s contract.CallStart) {
		if _, ok := w.tokens.LookupThread("mine", s.CallToken); ok {
			t.Error("a call's token is a thread's")
		}
		if err := emit(mine, s.CallToken); err != nil {
			t.Error(err)
		}
	})
	revoke()
	revoke()
	if err := emit(mine, token); code(err) != codes.PermissionDenied {
		t.Errorf("after it was taken back: %v", err)
	}
}
