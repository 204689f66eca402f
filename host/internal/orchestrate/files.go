package orchestrate

import (
	"context"
	"errors"

	"github.com/gantry-agent/gantry/host/internal/event"
)

// keepFiles keeps what stands where the call may write. A second attempt goes on from what was kept before the first.
func (r *run) keepFiles(ctx context.Context) (*event.FilesKept, *verdict) {
	files := r.pipeline.deps.Files
	if files == nil || r.assessment.ReadOnly || r.attempt > 1 {
		return nil, nil
	}
	kept, err := files.Before(ctx, r.call.ID, r.assessment.Effects, r.assessment.Item)
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, &verdict{outcome: event.OutcomeAborted}
	case err != nil:
		return nil, fail("what the call would change could not be kept, so it was not started: " + err.Error())
	}
	return kept, nil
}

// keepAlso keeps what a call that runs may write from now on.
func (r *run) keepAlso(ctx context.Context) error {
	kept, v := r.keepFiles(ctx)
	if v != nil {
		return errors.New(v.text)
	}
	if kept == nil {
		return nil
	}
	seq, err := r.pipeline.deps.Journal.Publish(ctx, r.call.Turn, *kept)
	if err != nil {
		return err
	}
	return r.pipeline.deps.Journal.Barrier(ctx, seq)
}

// filesChanged sees what the call has changed.
func (r *run) filesChanged(ctx context.Context, item *event.Item) (*event.FilesChanged, *event.TurnDiff) {
	files := r.pipeline.deps.Files
	if files == nil || !r.journaled {
		return nil, nil
	}
	changed := files.After(ctx, r.call.ID, item)
	if changed == nil || len(changed.Changes) == 0 {
		return changed, nil
	}
	return changed, files.Diff(ctx)
}
