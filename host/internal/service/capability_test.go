package service_test

import (
	"context"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/sdk/contract"
	gantryv1 "github.com/gantry-agent/gantry/sdk/proto/gantry/v1"
	"google.golang.org/grpc/codes"
)

// Each service that stands behind a capability is refused to a plugin that lacks it, by name, and each other one is not.
func TestCapabilities(t *testing.T) {
	w := newWorld(t)
	mine := w.client("mine")
	checked := map[string]bool{}
	w.call(t.Context(), func(ctx context.Context, s contract.CallStart) {
		for _, tc := range []struct {
			rpc, capability string
			do              func() error
		}{
			{"Spawn", "spawn", func() error {
				_, err := mine.Spawn(ctx, &gantryv1.SpawnRequest{CallToken: s.CallToken, Argv: []string{"true"}})
				return err
			}},
			{"Adopt", "spawn", func() error { _, err := mine.Adopt(ctx, &gantryv1.AdoptRequest{}); return err }},
			{"Ask", "ask", func() error {
				_, err := mine.Ask(ctx, &gantryv1.AskRequest{CallToken: s.CallToken, Kind: gantryv1.AskKind_ASK_KIND_CHOICE})
				return err
			}},
			{"Denials", "spawn", func() error {
				_, err := mine.Denials(ctx, &gantryv1.DenialsRequest{})
				return err
			}},
			{"Redirect", "ask", func() error {
				_, err := mine.Redirect(ctx, &gantryv1.RedirectRequest{CallToken: s.CallToken})
				return err
			}},
			{"CallTool", "call-tools", func() error {
				_, err := mine.CallTool(ctx, &gantryv1.CallToolRequest{CallToken: s.CallToken, Tool: "echo"})
				return err
			}},
			{"ListTools", "call-tools", func() error {
				_, err := mine.ListTools(ctx, &gantryv1.ListToolsRequest{CallToken: s.CallToken})
				return err
			}},
			{"Sample", "sample", func() error {
				_, err := mine.Sample(ctx, &gantryv1.SampleRequest{CallToken: s.CallToken, Request: &gantryv1.LlmRequest{}})
				return err
			}},
			{"Secret", "secrets", func() error { _, err := mine.Secret(ctx, &gantryv1.SecretRequest{Handle: "h1"}); return err }},
			{"StoreSecret", "secrets", func() error {
				_, err := mine.StoreSecret(ctx, &gantryv1.StoreSecretRequest{Name: "x", Value: "12345678"})
				return err
			}},
			{"GetState", "state", func() error { _, err := mine.GetState(ctx, &gantryv1.GetStateRequest{Key: "k"}); return err }},
			{"PutState", "state", func() error {
				_, err := mine.PutState(ctx, &gantryv1.PutStateRequest{Key: "k", Value: []byte("v")})
				return err
			}},
			{"ListState", "state", func() error { _, err := mine.ListState(ctx, &gantryv1.ListStateRequest{}); return err }},
			{"Lease", "state", func() error {
				ctx, end := context.WithCancel(ctx)
				defer end()
				stream, err := mine.Lease(ctx, &gantryv1.LeaseRequest{Name: "l"})
				if err == nil {
					_, err = stream.Recv()
				}
				return err
			}},
		} {
			checked[tc.rpc] = true
			w.lacks = tc.capability
			if err := tc.do(); code(err) != codes.PermissionDenied || !strings.Contains(err.Error(), "it has no "+tc.capability) {
				t.Errorf("%s without %s: %v", tc.rpc, tc.capability, err)
			}
			w.lacks = "another"
			if err := tc.do(); code(err) == codes.PermissionDenied {
				t.Errorf("%s: %v", tc.rpc, err)
			}
		}
	})
	// What needs no capability, and why: a new rpc has to be in one of the two lists.
	free := map[string]string{
		"Release": "of its own process, for which it needed spawn", "Signal": "of its own process", "Wait": "of its own process", "ProcessStat": "of its own process", "Attach": "of its own process",
		"Authorize": "only asks", "PutArtifact": "within its quota", "GetArtifact": "whose digest it knows", "Emit": "into the threads that it serves",
	}
	desc := gantryv1.File_gantry_v1_host_proto.Services().ByName("HostService").Methods()
	for i := range desc.Len() {
		name := string(desc.Get(i).Name())
		if checked[name] == (free[name] != "") {
			t.Errorf("%s: needs a capability: %v, needs none: %q", name, checked[name], free[name])
		}
		delete(free, name)
	}
	if len(free) > 0 {
		t.Errorf("there are no such rpcs: %v", free)
	}
}
