package tool

import (
	"context"
	"slices"
	"time"

	"github.com/gantry-agent/gantry/sdk/process"
)

// adoptTimeout limits one call of [Plugin.Adopt].
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

// adoptSessions lets the plugin adopt the sessions that earlier processes of it left running for a thread. Every request for the
// thread calls it first. Concurrent requests wait for the one that adopts.
func (s *Server) adoptSessions(ctx context.Context, env *Env, t *Thread) {
	if s.plugin.Adopt == nil || env == nil || env.client == nil || env.Generation <= 1 { // there was no earlier process
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
		// The host has handed these processes over, so finish even if the request that triggered the adoption is cancelled.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), adoptTimeout)
		defer cancel()
		a := &Adoption{Thread: t, Env: env, Processes: found.Processes, unanswered: found.Unanswered}
		if err := s.guard("adopt", func() error { return s.plugin.Adopt(ctx, a) }); err != nil {
			s.logger.Error("earlier sessions not adopted", "thread", t.id, "err", err)
		}
	}
	t.adopted = !found.EarlierRuns
}
