package service

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"

	"github.com/gantry-agent/gantry/config/hosts"
	"github.com/gantry-agent/gantry/host/internal/approval"
	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/launch"
	"github.com/gantry-agent/gantry/host/internal/orchestrate"
	"github.com/gantry-agent/gantry/sdk/contract"
	gantryv1 "github.com/gantry-agent/gantry/sdk/proto/gantry/v1"
	"github.com/gantry-agent/gantry/sdk/wire/convert"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Authorize implements the rpc. Effects that become known during a call are decided like those of any other call. In a command, the person
// who ran it is asked about hosts. Until the call or command ends, the plugin's process can reach hosts that it was authorized to reach.
func (s *server) Authorize(ctx context.Context, r *gantryv1.AuthorizeRequest) (*gantryv1.AuthorizeResponse, error) {
	effects := convert.EffectsFromProto(r.GetEffects())
	if cmd, ok := s.Commands.lookup(s.id.Label, r.GetCallToken()); ok {
		return s.authorizeCommand(ctx, cmd, r.GetCallToken(), effects, r.GetReason())
	}
	l, ctx, done, err := s.join(ctx, r.GetCallToken())
	if err != nil {
		return nil, err
	}
	defer done()
	open, effects, denial, err := judgeBrowsing(ctx, s.Config, l, effects, r.GetReason())
	if err != nil || denial != "" {
		return &gantryv1.AuthorizeResponse{Denial: denial}, err
	}
	scope := orchestrate.ScopeOnce
	if len(effects) > 0 || len(open) == 0 {
		if scope, denial, err = l.Authorize(ctx, effects, r.GetReason(), r.GetDiscriminators()); err != nil {
			return nil, statusOf(err)
		}
		if denial != "" {
			return &gantryv1.AuthorizeResponse{Denial: denial}, nil
		}
	}
	owner := launch.Owner{Plugin: s.id.Label, Thread: string(l.Call.Thread)}
	root := launch.Owner{Plugin: s.id.Label, Thread: string(s.Root(l.Call.Thread))}
	for _, q := range open {
		s.OpenHost(owner, q)
		if root != owner {
			s.OpenHost(root, q)
		}
	}
	if wanted, _ := hostsAmong(effects); len(wanted) > 0 {
		life, release, err := s.hold(ctx, r.GetCallToken())
		if err != nil {
			return nil, err
		}
		endWith(life, s.Permit(s.id.Label, wanted), release)
	}
	return &gantryv1.AuthorizeResponse{Granted: true, Scope: scope}, nil
}

// endWith calls revoke and then release when ctx ends.
func endWith(ctx context.Context, revoke, release func()) {
	context.AfterFunc(ctx, func() {
		revoke()
		release()
	})
}

// hostsAmong returns the effects that reach a single host, and whether that is what all of them do.
func hostsAmong(effects []contract.Effect) (out []contract.NetworkEffect, all bool) {
	for _, e := range effects {
		if n, ok := e.(contract.NetworkEffect); ok && hosts.Valid(hosts.Normalize(n.Host)) {
			out = append(out, n)
		}
	}
	return out, len(out) == len(effects)
}

// The answers to whether a command may reach a host.
const (
	allowHost  = "allow"
	refuseHost = "refuse"
)

// authorizeCommand asks the person who ran a command about the hosts that its plugin may not reach yet.
func (s *server) authorizeCommand(ctx context.Context, cmd *command, token string, effects []contract.Effect, reason string) (*gantryv1.AuthorizeResponse, error) {
	wanted, all := hostsAmong(effects)
	if !all {
		return nil, status.Error(codes.InvalidArgument, "a command can only be authorized to reach single hosts")
	}
	for _, e := range wanted {
		if s.Reaches(s.id.Label, e) {
			continue
		}
		if denial, err := cmd.askAboutHost(ctx, e, reason); err != nil || denial != "" {
			return &gantryv1.AuthorizeResponse{Denial: denial}, statusOf(err)
		}
	}
	life, release, err := s.hold(ctx, token)
	if err != nil {
		return nil, err
	}
	endWith(life, s.Permit(s.id.Label, wanted), release)
	return &gantryv1.AuthorizeResponse{Granted: true, Scope: orchestrate.ScopeOnce}, nil
}

// askAboutHost returns why a host may not be reached; "": it may.
func (c *command) askAboutHost(ctx context.Context, e contract.NetworkEffect, reason string) (denial string, err error) {
	target := hosts.Normalize(e.Host)
	if e.Port != 0 {
		target = net.JoinHostPort(target, strconv.Itoa(int(e.Port)))
	}
	q := approval.Question{
		About: event.QuestionChoice, Title: fmt.Sprintf("Let plugin %q reach %s until this command has ended?", c.plugin, target),
		Options: []string{allowHost, refuseHost},
	}
	if reason != "" {
		q.Message = "The plugin says: " + reason
	}
	a, err := c.ask(ctx, q)
	switch {
	case errors.Is(err, approval.ErrNoApprover):
		return fmt.Sprintf("%s can't be reached: %v", target, err), nil
	case err != nil:
		return "", err
	case a.Choice != allowHost:
		return fmt.Sprintf("the user does not let the plugin reach %s", target), nil
	}
	return "", nil
}
