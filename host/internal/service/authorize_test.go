package service_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"

	"github.com/gantry-agent/gantry/host/internal/approval"
	"github.com/gantry-agent/gantry/host/internal/network"
	"github.com/gantry-agent/gantry/host/internal/policy"
	"github.com/gantry-agent/gantry/sdk/contract"
	gantryv1 "github.com/gantry-agent/gantry/sdk/proto/gantry/v1"
)

// reaches returns effects that reach hosts.
func reaches(hosts ...string) (out []*gantryv1.Effect) {
	for _, h := range hosts {
		out = append(out, &gantryv1.Effect{Kind: &gantryv1.Effect_Network{Network: &gantryv1.NetworkEffect{Host: h, Port: 443}}})
	}
	return out
}

func (w *world) permitted() (out []string) {
	for {
		select {
		case p := <-w.permits:
			out = append(out, p)
		default:
			return out
		}
	}
}

// A host that is authorized in a call is reached until the call has ended.
func TestAuthorizeHostInACall(t *testing.T) {
	w := newWorld(t)
	mine := w.client("mine")
	w.call(t.Context(), func(ctx context.Context, s contract.CallStart) {
		for host, granted := range map[string]bool{"forbidden.example": false, "*": true, "auth.example": true} {
			r, err := mine.Authorize(ctx, &gantryv1.AuthorizeRequest{CallToken: s.CallToken, Effects: reaches(host)})
			if err != nil || r.GetGranted() != granted || granted && r.GetScope() != "once" {
				t.Errorf("%s: %v, %v", host, r, err)
			}
		}
		if got := w.permitted(); !slices.Equal(got, []string{"+mine[{auth.example 443 }]"}) {
			t.Errorf("permitted: %q", got)
		}
	})
	if got := w.permitted(); !slices.Equal(got, []string{"-mine[{auth.example 443 }]"}) {
		t.Errorf("after the call: %q", got)
	}
}

// In a command, the person who ran it decides about each host that the plugin's block does not name.
func TestAuthorizeHostInACommand(t *testing.T) {
	w := newWorld(t)
	mine, other := w.client("mine"), w.client("other")
	var asked []string
	answer := approval.Answer{Choice: "allow"}
	var failed error
	token, end := w.commands.Begin(t.Context(), "mine", asker(func(q approval.Question) (approval.Answer, error) {
		asked = append(asked, q.Title+" "+q.Message)
		return answer, failed
	}), false)
	ask := func(c gantryv1.HostServiceClient, effects []*gantryv1.Effect) (*gantryv1.AuthorizeResponse, codes.Code) {
		r, err := c.Authorize(t.Context(), &gantryv1.AuthorizeRequest{CallToken: token, Effects: effects, Reason: "to log in"})
		return r, code(err)
	}
	r, c := ask(mine, reaches("known.example", "auth.example"))
	if c != codes.OK || !r.GetGranted() || r.GetScope() != "once" {
		t.Errorf("allowed: %v, %v", r, c)
	}
	if want := []string{`Let plugin "mine" reach auth.example:443 until this command has ended? The plugin says: to log in`}; !slices.Equal(asked, want) {
		t.Errorf("asked %q, want %q", asked, want)
	}
	if got := w.permitted(); !slices.Equal(got, []string{"+mine[{known.example 443 } {auth.example 443 }]"}) {
		t.Errorf("permitted: %q", got)
	}
	answer.Choice = "refuse"
	if r, c := ask(mine, reaches("auth.example")); c != codes.OK || r.GetGranted() || r.GetDenial() != "the user does not let the plugin reach auth.example:443" {
		t.Errorf("refused: %v, %v", r, c)
	}
	failed = approval.ErrNoApprover
	if r, c := ask(mine, reaches("auth.example")); c != codes.OK || r.GetGranted() || r.GetDenial() == "" {
		t.Errorf("without a person: %v, %v", r, c)
	}
	failed = errors.New("the terminal is gone")
	if _, c := ask(mine, reaches("auth.example")); c == codes.OK {
		t.Error("a question that fails is no error")
	}
	for name, effects := range map[string][]*gantryv1.Effect{
		"everything": reaches("*"), "a file": {{Kind: &gantryv1.Effect_Read{Read: &gantryv1.ReadEffect{Paths: []string{"/x"}}}}},
	} {
		if _, c := ask(mine, effects); c != codes.InvalidArgument {
			t.Errorf("%s: %v", name, c)
		}
	}
	if _, c := ask(other, reaches("known.example")); c != codes.PermissionDenied {
		t.Errorf("another plugin: %v", c)
	}
	if got := w.permitted(); len(got) > 0 {
		t.Errorf("permitted although refused: %q", got)
	}
	end()
	if got := w.permitted(); !slices.Equal(got, []string{"-mine[{known.example 443 } {auth.example 443 }]"}) {
		t.Errorf("after the command: %q", got)
	}
	if _, c := ask(mine, reaches("known.example")); c != codes.PermissionDenied {
		t.Errorf("after the command: %v", c)
	}
}

// What a browser does is judged by the network rules, and the policy decides about hosts that they don't name. What is granted is opened for
// the plugin's processes.
func TestAuthorizeBrowsing(t *testing.T) {
	w := newWorld(t)
	mine := w.client("mine")
	w.judge = func(q network.Request) network.Decision {
		d := network.Decision{Reason: network.NotAllowed}
		switch q.Host {
		case "known.example":
			d = network.Decision{Allow: true, Reason: network.Allowed}
		case "denied.example":
			d.Reason = network.Denied
		case "10.0.0.1":
			d.Reason = network.NotAllowedLocal
		case "asked.example":
			d.Rule = "rules:1"
		}
		return d
	}
	const run, no = policy.Run, policy.Forbid
	for _, tc := range []struct {
		name, origin, kind, page string
		policy                   policy.Verdict
		asked, opened            string // empty: nothing
	}{
		{"a known host", "https://known.example", "document", "", no, "", "mine known.example:443"},
		{"its port", "http://known.example:8080", "", "", no, "", "mine known.example:8080"},
		{"a websocket", "ws://known.example", "frame", "https://known.example", no, "", "mine known.example:80"},
		{"a denied host", "https://denied.example", "document", "", run, "", ""},
		{"a part of a page", "https://denied.example", "frame", "https://known.example", run, "", ""},
		{"a private address", "http://10.0.0.1", "frame", "https://known.example", run, "", ""},
		{"an unknown host", "https://new.example", "document", "", no, "{https://new.example document } new.example is not among the hosts that the network rules allow", ""},
		{"an unknown host that the policy allows", "https://new.example", "download", "", run, "{https://new.example download } new.example is not among the hosts that the network rules allow", "mine new.example:443"},
		{"a part of a known page", "https://cdn.example", "frame", "https://known.example", no, "", "mine cdn.example:443"},
		{"an upload from a known page", "https://cdn.example", "upload", "https://known.example", no, "{https://cdn.example upload https://known.example} cdn.example is not among the hosts that the network rules allow", ""},
		{"a part of an unknown page", "https://cdn.example", "frame", "https://new.example", no, "{https://cdn.example frame https://new.example} cdn.example is not among the hosts that the network rules allow", ""},
		{"a host that a rule asks about", "https://asked.example", "frame", "https://known.example", no, "{https://asked.example frame https://known.example} a rule asks about asked.example: rules:1", ""},
	} {
		w.asked, w.opened, w.policy = nil, nil, tc.policy
		w.call(t.Context(), func(ctx context.Context, s contract.CallStart) {
			r, err := mine.Authorize(ctx, &gantryv1.AuthorizeRequest{CallToken: s.CallToken, Effects: []*gantryv1.Effect{
				{Kind: &gantryv1.Effect_Browser{Browser: &gantryv1.BrowserEffect{Origin: tc.origin, Kind: tc.kind, Page: tc.page}}},
			}})
			if err != nil || r.GetGranted() != (tc.opened != "") || r.GetGranted() == (r.GetDenial() != "") {
				t.Errorf("%s: %v, %v", tc.name, r, err)
			}
		})
		if got := strings.Join(w.asked, ", "); got != tc.asked {
			t.Errorf("%s: decided about %q, want %q", tc.name, got, tc.asked)
		}
		if got := strings.Join(w.opened, ", "); got != tc.opened {
			t.Errorf("%s: opened %q, want %q", tc.name, got, tc.opened)
		}
	}
	w.call(t.Context(), func(ctx context.Context, s contract.CallStart) {
		for _, origin := range []string{"", "known.example", "file:///etc", "https://", "https://a b", "https://known.example:0", "https://known.example:x"} {
			_, err := mine.Authorize(ctx, &gantryv1.AuthorizeRequest{CallToken: s.CallToken, Effects: []*gantryv1.Effect{
				{Kind: &gantryv1.Effect_Browser{Browser: &gantryv1.BrowserEffect{Origin: origin}}},
			}})
			if code(err) != codes.InvalidArgument {
				t.Errorf("%q: %v", origin, err)
			}
		}
	})
}
