package orchestrate

import "context"

// awaitControl waits while a person has control of a session that the call works on. Deadlines of the calls that contain this one do not
// pass meanwhile.
func (r *run) awaitControl(ctx context.Context) *outcome {
	_, end := r.controlled(ctx)
	return end
}

// decideAgain waits like awaitControl for a person who has taken control while the call was decided on. What the person has typed may
// change what the call does, so the decision is made again.
func (r *run) decideAgain(ctx context.Context) *outcome {
	for {
		waited, end := r.controlled(ctx)
		if end != nil || !waited {
			return end
		}
		r.decision.approved, r.decision.escalation = false, nil
		if end := r.decision.decide(ctx); end != nil {
			return end
		}
	}
}

// controlled waits until nobody has control of the call's sessions, and reports whether it had to.
func (r *run) controlled(ctx context.Context) (waited bool, end *outcome) {
	if r.pipeline.deps.Control == nil || len(r.assessment.Effects) == 0 && r.assessment.Item == nil {
		return false, nil
	}
	ids := r.sessionIDs()
	if len(ids) == 0 {
		return false, nil
	}
	defer r.asker.Wait()()
	for _, id := range ids {
		did, err := r.pipeline.deps.Control(ctx, r.entry.Plugin, id)
		if err != nil {
			return waited, aborted()
		}
		waited = waited || did
	}
	return waited, nil
}
