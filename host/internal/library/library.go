// Package library changes the threads that run in a host, for its clients.
//
// It owns: what a revert, a fork, a name, an archived thread and an undo mean for a running thread and for an ephemeral host. It must not
// know: turns, plugins, and how clients are connected. Threads that no host runs are changed in the store; see package branch.
//
// Start with [Library].
package library

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/gantry-agent/gantry/config/hint"
	"github.com/gantry-agent/gantry/host/internal/branch"
	"github.com/gantry-agent/gantry/host/internal/checkpoint"
	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/launch"
	"github.com/gantry-agent/gantry/host/internal/store"
	"github.com/gantry-agent/gantry/host/internal/thread"
	"github.com/gantry-agent/gantry/host/internal/threadsocket"
	"github.com/gantry-agent/gantry/host/internal/undo"
	"github.com/gantry-agent/gantry/host/internal/view"
	"github.com/gantry-agent/gantry/sdk/contract"
	"github.com/hashicorp/go-hclog"
)

// Thread is a running thread.
type Thread struct {
	*thread.Thread
	// Reverted is called with the context state that remains after a revert.
	Reverted    func(*event.Reference)
	StopSession func(ctx context.Context, label, session string) error
	OpenView    func(ctx context.Context, label string, o contract.ViewOpen) (*view.View, error)
	Sessions    func() []launch.Usage
}

// Library implements [threadsocket.Library].
type Library struct {
	Store     *store.Store
	Home      string // gantry's
	Version   string
	Ephemeral bool // Store ends with the host
	Logger    hclog.Logger
	// Running finds a thread that runs in this host.
	Running func(event.ThreadID) (Thread, error)
}

// RevertThread implements [threadsocket.Library].
func (l *Library) RevertThread(ctx context.Context, id event.ThreadID, before string, turns int) (event.ThreadReverted, error) {
	r, err := l.Running(id)
	if err != nil {
		return event.ThreadReverted{}, err
	}
	if l.Ephemeral {
		return event.ThreadReverted{}, hint.With(fmt.Errorf("thread %s is ephemeral, so its turns can't be reverted", id),
			fmt.Sprintf("`gantry threads fork %s` creates a stored copy of it", id))
	}
	return r.Revert(ctx, func(ctx context.Context) (cut thread.Cut, err error) {
		if before != "" {
			cut, err = branch.Before(ctx, l.Store, id, before)
		} else {
			cut, err = branch.Last(ctx, l.Store, id, turns)
		}
		cut.Then = func() { r.Reverted(cut.State.ContextState) }
		return cut, err
	})
}

// ForkThread implements [threadsocket.Library]. The fork of an ephemeral thread is stored.
func (l *Library) ForkThread(ctx context.Context, id event.ThreadID, at branch.Point, name string) (event.ThreadID, error) {
	if !l.Ephemeral {
		return branch.Fork(ctx, l.Store, l.Store, id, at, name)
	}
	home, err := store.Open(ctx, store.Config{
		Path: filepath.Join(l.Home, "threads.db"), ArtifactDir: filepath.Join(l.Home, "artifacts"),
		HostVersion: l.Version, Logger: l.Logger.Named("store"),
	})
	if err != nil {
		return "", err
	}
	fork, err := branch.Fork(ctx, l.Store, home, id, at, name)
	return fork, errors.Join(err, home.Close(ctx))
}

// NameThread implements [threadsocket.Library].
func (l *Library) NameThread(ctx context.Context, id event.ThreadID, name string) error {
	r, err := l.Running(id)
	if err != nil {
		return err
	}
	if name, err = branch.Name(name); err != nil {
		return err
	}
	seq, err := r.Publish(ctx, "", event.ThreadNamed{Name: name})
	if err != nil {
		return err
	}
	return r.Barrier(ctx, seq)
}

// StopSession implements [threadsocket.Library].
func (l *Library) StopSession(ctx context.Context, id event.ThreadID, label, session string) error {
	r, err := l.Running(id)
	if err != nil {
		return err
	}
	return r.StopSession(ctx, label, session)
}

// ThreadProcesses implements [threadsocket.Library].
func (l *Library) ThreadProcesses(id event.ThreadID) ([]threadsocket.SessionProcess, error) {
	r, err := l.Running(id)
	if err != nil {
		return nil, err
	}
	out := []threadsocket.SessionProcess{}
	for _, u := range r.Sessions() {
		p := threadsocket.SessionProcess{Plugin: u.Owner.Plugin, Call: event.CallID(u.Owner.Call), PID: u.PID}
		if u.Known {
			p.CPUPercent, p.ResidentBytes = &u.CPUPercent, &u.Resident
		}
		out = append(out, p)
	}
	return out, nil
}

// OpenView implements [threadsocket.Library].
func (l *Library) OpenView(ctx context.Context, id event.ThreadID, plugin string, o contract.ViewOpen) (*view.View, error) {
	r, err := l.Running(id)
	if err != nil {
		return nil, err
	}
	o.ThreadID = string(id)
	return r.OpenView(ctx, plugin, o)
}

// ArchiveThread implements [threadsocket.Library].
func (l *Library) ArchiveThread(ctx context.Context, id event.ThreadID, archive bool) error {
	r, err := l.Running(id)
	if err != nil {
		return err
	}
	if l.Ephemeral {
		return hint.With(fmt.Errorf("thread %s is ephemeral: it ends with its process", id), fmt.Sprintf("`gantry threads fork %s` creates a stored copy of it", id))
	}
	return r.Archive(ctx, archive)
}

// UndoFiles implements [threadsocket.Library].
func (l *Library) UndoFiles(ctx context.Context, id event.ThreadID, p threadsocket.UndoParams) (report undo.Report, err error) {
	r, err := l.Running(id)
	if err != nil {
		return undo.Report{}, err
	}
	err = r.Restore(ctx, func(ctx context.Context) ([]string, error) {
		list, err := checkpoint.Read(l.Store.Events(ctx, id, 0))
		if err != nil {
			return nil, err
		}
		report, err = p.Take(ctx, l.Store, r.Thread, list)
		return report.Paths(), err
	})
	if _, refused := errors.AsType[*undo.RefusedError](err); refused {
		err = nil // the report contains the reason
	}
	return report, err
}
