package orchestrate

import (
	"context"
	"errors"

	"github.com/gantry-agent/gantry/host/internal/event"
)

// keepFiles backs up the files that the call may write. A second attempt uses the backup of the first.
func (s *subject) keepFiles(ctx context.Context) (*event.FilesKept, *outcome) {
	files := s.pipeline.deps.Files
	if files == nil || s.assessment.ReadOnly || s.attempt > 1 {
		return nil, nil
	}
	kept, err := files.Before(ctx, s.call.ID, s.assessment.Effects, s.assessment.Item)
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, aborted()
	case err != nil:
		return nil, failed("the files that the call would change could not be backed up, so it was not started: " + err.Error())
	}
	return kept, nil
}

// keepMoreFiles backs up and commits the files that a running call may write from now on.
func (s *subject) keepMoreFiles(ctx context.Context) error {
	kept, end := s.keepFiles(ctx)
	if end != nil {
		return errors.New(end.text)
	}
	if kept == nil {
		return nil
	}
	seq, err := s.publish(ctx, *kept)
	if err != nil {
		return err
	}
	return s.pipeline.deps.Journal.Barrier(ctx, seq)
}

// filesChanged compares the files with their backup, and adds the stored contents to the item.
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
