package host

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"github.com/gantry-agent/gantry/config/hint"
	"github.com/gantry-agent/gantry/host/internal/appserver"
	"github.com/gantry-agent/gantry/host/internal/branch"
	"github.com/gantry-agent/gantry/host/internal/checkpoint"
	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/store"
	"github.com/gantry-agent/gantry/host/internal/thread"
	"github.com/gantry-agent/gantry/host/internal/undo"
)

// What follows is for threads that run in this host. What nobody runs is changed in the store alone; see package branch.

// running finds a thread that runs here.
func (h *Host) running(id event.ThreadID) (*running, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if r := h.mu.threads[id]; r != nil {
		return r, nil
	}
	return nil, thread.ErrClosed
}

// RevertThread implements [appserver.Library].
func (h *Host) RevertThread(ctx context.Context, id event.ThreadID, before string, turns int) (event.ThreadReverted, error) {
	r, err := h.running(id)
	if err != nil {
		return event.ThreadReverted{}, err
	}
	if h.opts.Ephemeral {
		return event.ThreadReverted{}, hint.With(fmt.Errorf("thread %s is ephemeral, so no turn of it can be taken back", id),
			fmt.Sprintf("`gantry threads fork %s` makes a stored thread of it", id))
	}
	return r.thread.Revert(ctx, func(ctx context.Context) (cut thread.Cut, err error) {
		if before != "" {
			cut, err = branch.Before(ctx, h.store, id, before)
		} else {
			cut, err = branch.Last(ctx, h.store, id, turns)
		}
		cut.Then = func() { r.hears(cut.State.ContextState) }
		return cut, err
	})
}

// ForkThread implements [appserver.Library]. The fork of an ephemeral thread is a stored one.
func (h *Host) ForkThread(ctx context.Context, id event.ThreadID, at branch.Point, name string) (event.ThreadID, error) {
	fork, err := branch.Fork(ctx, h.store, id, at, name)
	if err != nil || !h.opts.Ephemeral {
		return fork, err
	}
	home, err := store.Open(ctx, store.Config{
		Path: filepath.Join(h.opts.Home, "threads.db"), ArtifactDir: filepath.Join(h.opts.Home, "artifacts"),
		HostVersion: h.opts.Version, Logger: h.log.Named("store"),
	})
	if err != nil {
		return "", err
	}
	err = move(ctx, h.store, home, fork)
	return fork, errors.Join(err, home.Close(ctx))
}

// move copies a thread into another store, with the artifacts that it mentions.
func move(ctx context.Context, from, to *store.Store, id event.ThreadID) error {
	refs, err := from.ThreadArtifacts(ctx, id)
	if err != nil {
		return err
	}
	for _, ref := range refs {
		content, err := from.Artifact(ctx, ref.SHA256)
		if err != nil {
			return err
		}
		_, err = to.PutArtifact(ctx, ref.MediaType, ref.Name, content)
		if err = errors.Join(err, content.Close()); err != nil {
			return err
		}
	}
	out, in := io.Pipe()
	exported := make(chan struct{})
	go func() { // owned by this function: ends with the pipe, and is waited for
		defer close(exported)
		_ = in.CloseWithError(from.Export(ctx, id, in)) // always nil
	}()
	_, err = to.Import(ctx, out)
	_ = out.CloseWithError(err) // ends an export that nobody reads any more; always nil
	<-exported
	return err
}

// NameThread implements [appserver.Library].
func (h *Host) NameThread(ctx context.Context, id event.ThreadID, name string) error {
	r, err := h.running(id)
	if err != nil {
		return err
	}
	if name, err = branch.Name(name); err != nil {
		return err
	}
	seq, err := r.thread.Publish(ctx, "", event.ThreadNamed{Name: name})
	if err != nil {
		return err
	}
	return r.thread.Barrier(ctx, seq)
}

// StopSession implements [appserver.Library].
func (h *Host) StopSession(ctx context.Context, id event.ThreadID, label, session string) error {
	r, err := h.running(id)
	if err != nil {
		return err
	}
	return r.plugs.stop(ctx, label, session)
}

// ArchiveThread implements [appserver.Library].
func (h *Host) ArchiveThread(ctx context.Context, id event.ThreadID, archive bool) error {
	r, err := h.running(id)
	if err != nil {
		return err
	}
	if h.opts.Ephemeral {
		return hint.With(fmt.Errorf("thread %s is ephemeral: it ends with its process", id), fmt.Sprintf("`gantry threads fork %s` makes a stored thread of it", id))
	}
	return r.thread.Archive(ctx, archive)
}

// UndoFiles implements [appserver.Library].
func (h *Host) UndoFiles(ctx context.Context, id event.ThreadID, p appserver.UndoParams) (report undo.Report, err error) {
	r, err := h.running(id)
	if err != nil {
		return undo.Report{}, err
	}
	err = r.thread.Restore(ctx, func(ctx context.Context) ([]string, error) {
		list, err := checkpoint.Read(h.store.Events(ctx, id, 0))
		if err != nil {
			return nil, err
		}
		report, err = p.Take(ctx, h.store, r.thread, list)
		return report.Paths(), err
	})
	if _, refused := errors.AsType[*undo.RefusedError](err); refused {
		err = nil // the report says so
	}
	return report, err
}

// Threads implements [appserver.Library].
func (h *Host) Threads(ctx context.Context, f store.Filter) ([]store.ThreadInfo, error) {
	infos, err := h.store.Threads(ctx, f)
	h.store.Settle(ctx, infos)
	return infos, err
}

// Search implements [appserver.Library].
func (h *Host) Search(ctx context.Context, query string, f store.Filter) ([]store.Hit, error) {
	return h.store.Search(ctx, query, f)
}

// Turns implements [appserver.Library].
func (h *Host) Turns(ctx context.Context, id event.ThreadID) ([]store.TurnInfo, error) {
	return h.store.Turns(ctx, id)
}
