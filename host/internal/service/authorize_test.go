package service_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"google.golang.org/grpc/codes"

	"github.com/gantry-agent/gantry/host/internal/approval"
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
