package service

import (
	"context"
	"errors"
	"time"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/store/pluginstate"
	gantryv1 "github.com/gantry-agent/gantry/sdk/proto/gantry/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// scope returns the keys that a request may access: only those of the calling plugin.
func (s *server) scope(sc gantryv1.StateScope, thread string) (pluginstate.Scope, error) {
	scope := pluginstate.Scope{Plugin: s.id.Label}
	if sc == gantryv1.StateScope_STATE_SCOPE_THREAD {
		id, err := event.ParseThreadID(thread)
		if err != nil {
			return scope, status.Error(codes.InvalidArgument, err.Error())
		}
		scope.Thread = id
	}
	return scope, nil
}

// GetState implements the rpc.
func (s *server) GetState(ctx context.Context, r *gantryv1.GetStateRequest) (*gantryv1.GetStateResponse, error) {
	if err := s.may(capState); err != nil {
		return nil, err
	}
	scope, err := s.scope(r.GetScope(), r.GetThreadId())
	if err != nil {
		return nil, err
	}
	state, err := s.State(ctx)
	if err != nil {
		return nil, statusOf(err)
	}
	v, found, err := state.Get(ctx, scope, r.GetKey())
	if err != nil {
		return nil, statusOf(err)
	}
	return &gantryv1.GetStateResponse{Found: found, Value: v.Data, Version: v.Version}, nil
}

// PutState implements the rpc.
func (s *server) PutState(ctx context.Context, r *gantryv1.PutStateRequest) (*gantryv1.PutStateResponse, error) {
	if err := s.may(capState); err != nil {
		return nil, err
	}
	scope, err := s.scope(r.GetScope(), r.GetThreadId())
	if err != nil {
		return nil, err
	}
	if n := len(r.GetKey()); n == 0 || n > pluginstate.MaxKeyBytes {
		return nil, status.Errorf(codes.InvalidArgument, "a key must have 1 to %d bytes; this one has %d", pluginstate.MaxKeyBytes, n)
	}
	if n := len(r.GetValue()); n > pluginstate.MaxValueBytes {
		return nil, status.Errorf(codes.InvalidArgument, "a value can have at most %d bytes; this one has %d", pluginstate.MaxValueBytes, n)
	}
	state, err := s.State(ctx)
	if err != nil {
		return nil, statusOf(err)
	}
	if scope.Thread != "" && !s.isThread(ctx, scope.Thread) {
		return nil, status.Errorf(codes.NotFound, "there is no thread %s", scope.Thread)
	}
	scope.Quota = s.quota().State
	var version uint64
	var stored bool
	if r.GetDelete() {
		version, stored, err = state.Delete(ctx, scope, r.GetKey(), r.IfVersion)
	} else {
		version, stored, err = state.Put(ctx, scope, r.GetKey(), r.GetValue(), r.IfVersion)
	}
	if errors.Is(err, pluginstate.ErrQuota) {
		return nil, s.exceeded(limitState, scope.Quota)
	}
	if err != nil {
		return nil, statusOf(err)
	}
	return &gantryv1.PutStateResponse{Stored: stored, Version: version}, nil
}

// isThread reports whether there is a running or stored thread with this ID.
func (s *server) isThread(ctx context.Context, id event.ThreadID) bool {
	if _, ok := s.Threads(id); ok {
		return true
	}
	info, err := s.Store.Thread(ctx, string(id))
	return err == nil && info.ID == id
}

// ListState implements the rpc.
func (s *server) ListState(ctx context.Context, r *gantryv1.ListStateRequest) (*gantryv1.ListStateResponse, error) {
	if err := s.may(capState); err != nil {
		return nil, err
	}
	scope, err := s.scope(r.GetScope(), r.GetThreadId())
	if err != nil {
		return nil, err
	}
	state, err := s.State(ctx)
	if err != nil {
		return nil, statusOf(err)
	}
	keys, err := state.List(ctx, scope, r.GetPrefix())
	if err != nil {
		return nil, statusOf(err)
	}
	return &gantryv1.ListStateResponse{Keys: keys}, nil
}

// Lease implements the rpc. It sends granted or busy, and later lost. The lease is held by the plugin's process and ends with it.
func (s *server) Lease(r *gantryv1.LeaseRequest, stream grpc.ServerStreamingServer[gantryv1.LeaseResponse]) error {
	if err := s.may(capState); err != nil {
		return err
	}
	ctx := stream.Context()
	state, err := s.State(ctx)
	if err != nil {
		return statusOf(err)
	}
	wait := time.Duration(max(r.GetWaitMs(), 0)) * time.Millisecond
	lease, err := state.Acquire(ctx, s.id.Label, r.GetName(), s.id.String(), wait)
	if busy, ok := errors.AsType[*pluginstate.BusyError](err); ok {
		return stream.Send(&gantryv1.LeaseResponse{State: &gantryv1.LeaseResponse_Busy{Busy: busy.Error()}})
	}
	if err != nil {
		return statusOf(err)
	}
	defer lease.Release(context.WithoutCancel(ctx))
	if err := stream.Send(&gantryv1.LeaseResponse{State: &gantryv1.LeaseResponse_Granted{Granted: lease.Token}}); err != nil {
		return err
	}
	select {
	case <-lease.Lost():
		why := "released"
		if err := lease.Err(); err != nil {
			why = err.Error()
		}
		return stream.Send(&gantryv1.LeaseResponse{State: &gantryv1.LeaseResponse_Lost{Lost: why}})
	case <-ctx.Done():
		return nil
	}
}
