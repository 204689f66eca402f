package tool

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	gantryv1 "github.com/gantry-agent/gantry/sdk/proto/gantry/v1"
)

// ErrConflict is returned by a conditional write if the value was changed in the meantime. Read it again and retry.
var ErrConflict = errors.New("tool: the stored value has a different version")

// State is a small, durable key-value store of the plugin, kept by the host. Keys can have up to 256 bytes, values up to 1
// MiB.
type State struct {
	env    *Env
	scope  gantryv1.StateScope
	thread string
}

// State returns a store that lasts as long as the plugin's data.
func (e *Env) State() State { return State{env: e, scope: gantryv1.StateScope_STATE_SCOPE_PLUGIN} }

// State returns a store that lasts as long as the thread.
func (c *Call) State() State {
	return State{env: c.env, scope: gantryv1.StateScope_STATE_SCOPE_THREAD, thread: c.start.ThreadID}
}

// Get returns a value and its version. ok is false if the key does not exist.
func (s State) Get(ctx context.Context, key string) (value []byte, version uint64, ok bool, err error) {
	resp, err := s.env.host().GetState(ctx, &gantryv1.GetStateRequest{Scope: s.scope, ThreadId: s.thread, Key: key})
	if err != nil {
		return nil, 0, false, fmt.Errorf("get state %q: %w", key, err)
	}
	return resp.GetValue(), resp.GetVersion(), resp.GetFound(), nil
}

// Put stores a value and returns its version.
func (s State) Put(ctx context.Context, key string, value []byte) (version uint64, err error) {
	return s.put(ctx, &gantryv1.PutStateRequest{Key: key, Value: value})
}

// PutIf stores a value if the stored version is the given one; 0: if the key does not exist. Otherwise it returns
// [ErrConflict].
func (s State) PutIf(ctx context.Context, key string, value []byte, version uint64) (uint64, error) {
	return s.put(ctx, &gantryv1.PutStateRequest{Key: key, Value: value, IfVersion: &version})
}

// Delete deletes a key. It is not an error if the key does not exist.
func (s State) Delete(ctx context.Context, key string) error {
	_, err := s.put(ctx, &gantryv1.PutStateRequest{Key: key, Delete: true})
	return err
}

func (s State) put(ctx context.Context, req *gantryv1.PutStateRequest) (uint64, error) {
	req.Scope, req.ThreadId = s.scope, s.thread
	resp, err := s.env.host().PutState(ctx, req)
	if err != nil {
		return 0, fmt.Errorf("put state %q: %w", req.GetKey(), err)
	}
	if !resp.GetStored() && req.IfVersion != nil {
		return resp.GetVersion(), ErrConflict
	}
	return resp.GetVersion(), nil
}

// List returns the keys that start with prefix.
func (s State) List(ctx context.Context, prefix string) ([]string, error) {
	resp, err := s.env.host().ListState(ctx, &gantryv1.ListStateRequest{Scope: s.scope, ThreadId: s.thread, Prefix: prefix})
	if err != nil {
		return nil, fmt.Errorf("list state %q: %w", prefix, err)
	}
	return resp.GetKeys(), nil
}

// BusyError is returned if another holder has the lease.
type BusyError struct{ Holder string }

// Error implements error.
func (e *BusyError) Error() string { return "lease is held by " + e.Holder }

// Lease is an exclusive right, for example to use a browser profile. No one else has it until it is released or lost.
type Lease struct {
	// Token is incremented with every grant of the name. The guarded resource should reject a token that is smaller than
	// one it has already seen.
	Token uint64

	cancel context.CancelFunc
	lost   chan struct{}
	once   sync.Once
}

// Lost returns a channel that is closed when the lease is over, including after Release.
func (l *Lease) Lost() <-chan struct{} { return l.lost }

// Release releases the lease. It may be called more than once.
func (l *Lease) Release() {
	l.once.Do(l.cancel)
	<-l.lost
}

// Lease acquires a named lease, waiting for it for up to wait. If it is held by another holder, the error is a
// *[BusyError]. ctx bounds only the waiting.
func (e *Env) Lease(ctx context.Context, name string, wait time.Duration) (*Lease, error) {
	life, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, cancel)
	l := &Lease{cancel: cancel, lost: make(chan struct{})}
	stream, err := e.host().Lease(life, &gantryv1.LeaseRequest{Name: name, WaitMs: wait.Milliseconds()})
	if err != nil {
		cancel()
		return nil, fmt.Errorf("lease %q: %w", name, err)
	}
	first, err := stream.Recv()
	if !stop() && err == nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		cancel()
		return nil, fmt.Errorf("lease %q: %w", name, err)
	}
	switch s := first.GetState().(type) {
	case *gantryv1.LeaseResponse_Granted:
		l.Token = s.Granted
	case *gantryv1.LeaseResponse_Busy:
		cancel()
		return nil, fmt.Errorf("lease %q: %w", name, &BusyError{Holder: s.Busy})
	default:
		cancel()
		return nil, fmt.Errorf("lease %q: not granted: %s", name, first.GetLost())
	}
	// Owned by the lease: ends when the lease is released or lost, or with the connection to the host.
	go func() {
		defer close(l.lost)
		defer cancel()
		for {
			msg, err := stream.Recv()
			if err != nil || msg.GetLost() != "" {
				return
			}
		}
	}()
	return l, nil
}
