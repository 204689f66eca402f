package service

import (
	"context"
	"errors"
	"slices"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/launch"
	gantryv1 "github.com/gantry-agent/gantry/sdk/proto/gantry/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// keepOf converts and checks what a plugin wants the launcher to keep with a session.
func keepOf(r *gantryv1.SpawnRequest) (*launch.Keep, error) {
	k := r.GetKeep()
	switch {
	case k == nil:
		return nil, nil
	case !r.GetSession():
		return nil, status.Error(codes.InvalidArgument, "keep requires session: set both or neither")
	case len(k.GetNote()) > launch.MaxNote:
		return nil, status.Errorf(codes.InvalidArgument, "the note of a kept session has %d bytes; the limit is %d", len(k.GetNote()), launch.MaxNote)
	case k.GetMemoryBytes() < 0 || k.GetMemoryBytes() > launch.MaxMemory:
		return nil, status.Errorf(codes.InvalidArgument, "a session can't have %d bytes of memory, at most %d", k.GetMemoryBytes(), launch.MaxMemory)
	}
	return &launch.Keep{Note: k.GetNote(), Memory: int(k.GetMemoryBytes())}, nil
}

var errHeld = errors.New("another process of the plugin has the session")

// Adopt implements the rpc. The calling process takes over the sessions of earlier processes of its plugin.
func (s *server) Adopt(ctx context.Context, r *gantryv1.AdoptRequest) (*gantryv1.AdoptResponse, error) {
	if err := s.may(capSpawn); err != nil {
		return nil, err
	}
	kept := slices.DeleteFunc(s.Launcher.Kept(s.id.Label, r.GetThreadId()), func(p *launch.Process) bool {
		return len(r.GetProcessIds()) > 0 && !slices.Contains(r.GetProcessIds(), p.ID())
	})
	resp := &gantryv1.AdoptResponse{EarlierRuns: s.Earlier(s.id)}
	patience := ctx
	if len(kept) > 0 && !s.MakeRoom(ctx, s.id) {
		// Another process of the plugin is the current one. It keeps sessions that have a holder, but free ones can be adopted.
		var cancel context.CancelCauseFunc
		patience, cancel = context.WithCancelCause(ctx)
		cancel(errHeld)
	}
	for _, p := range kept {
		if err := p.Adopt(patience, s.id.Generation); errors.Is(err, launch.ErrEnded) || errors.Is(err, errHeld) {
			continue
		} else if err != nil {
			return nil, statusOf(err)
		}
		a := &gantryv1.AdoptedProcess{
			ProcessId: p.ID(), Pid: int64(p.PID()), DescriptorToken: p.Token(), Descriptors: p.Descriptors(), Argv: p.Argv(),
			ThreadId: p.Owner().Thread, CallId: p.Owner().Call, Cwd: p.Cwd(), Terminal: p.OnTerminal(), Note: p.Note(),
			StartedUnixMs: p.Started().UnixMilli(),
		}
		if exit, ended := p.Ended(); ended {
			a.Exited = exitToProto(exit)
		}
		resp.Processes = append(resp.Processes, a)
	}
	for _, call := range s.Tokens.Unanswered(s.id.Label, event.ThreadID(r.GetThreadId())) {
		resp.UnansweredCallIds = append(resp.UnansweredCallIds, string(call))
	}
	return resp, nil
}

// Release implements the rpc. Processes that no longer exist were released before.
func (s *server) Release(_ context.Context, r *gantryv1.ReleaseRequest) (*gantryv1.ReleaseResponse, error) {
	for _, id := range r.GetProcessIds() {
		if p, err := s.process(id); err == nil {
			p.Release()
		}
	}
	return &gantryv1.ReleaseResponse{}, nil
}
