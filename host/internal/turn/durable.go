package turn

import "context"

// commit begins to make durable what the user said since the last time, and returns what waits for it. The request may be
// built meanwhile, but must not go out before: a task that the model has seen is not lost, whatever ends the host.
//
// A log that can't keep anything has said so to the user. That is no reason to leave him without an answer; calls with an
// effect have a barrier of their own, and are not started.
func (r *runner) commit(ctx context.Context) (wait func() error) {
	seq := r.said
	r.said = 0
	if seq == 0 {
		return func() error { return nil }
	}
	kept := make(chan error, 1)
	r.commits.Go(func() { kept <- r.Log.Barrier(ctx, seq) }) // ends with the turn at the latest, which waits for it
	return func() error {
		err := <-kept
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		r.Logger.Warn("the model is asked though what the user said is not stored", "turn", r.ID, "err", err)
		return nil
	}
}
