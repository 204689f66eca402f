package tool

import (
	"context"
	"slices"
	"time"

	"github.com/gantry-agent/gantry/sdk/process"
)

// adoptTimeout bounds what a plugin does to take over the sessions of a thread.
const adoptTimeout = 30 * time.Second

// Adoption describes the sessions of one thread that the plugin adopts.
type Adoption struct {
	Thread    *Thread
	Env       *Env
	Processes []process.Adopted

	unanswered []string
}

// Answered reports whether a call got its result, as far as the host knows. Output that an earlier process had collected
// for an unanswered call was never delivered.
func (a *Adoption) Answered(callID string) bool { return !slices.Contains(a.unanswered, callID) }

// adoptSessions lets the plugin adopt what earlier processes held of a thread. What else is done for the thread waits for it.
func (s *Server) adoptSessions(ctx context.Context, env *Env, t *Thread) {
	if s.plugin.Adopt == nil || env == nil || env.client == nil || env.Generation <= 1 { // the first one has nothing to adopt
		return
	}
	select {
	case t.adopting <- struct{}{}:
		defer func() { <-t.adopting }()
	case <-ctx.Done():
		return
	}
	if t.adopted {
		return
	}
	found, err := process.New(env.client, "", env.descriptors).Adopt(ctx, t.id)
	if err != nil {
		s.logger.Warn("earlier sessions not adopted; the next call tries again", "thread", t.id, "err", err)
		return
	}
	if len(found.Processes) > 0 {
		// Each is this process's now, also when whoever asked first has lost interest.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), adoptTimeout)
		defer cancel()
		a := &Adoption{Thread: t, Env: env, Processes: found.Processes, unanswered: found.Unanswered}
		if err := s.guard("adopt", func() error { return s.plugin.Adopt(ctx, a) }); err != nil {
			s.logger.Error("earlier sessions not adopted", "thread", t.id, "err", err)
		}
	}
	t.adopted = !found.EarlierRuns
}
