package plugintest

import (
	"context"
	"fmt"
	"slices"
	"time"

	"google.golang.org/grpc"

	gantryv1 "github.com/gantry-agent/gantry/sdk/proto/gantry/v1"
)

// checkHandover kills a process that has a session, and expects the next process to resume it.
func checkHandover(ctx context.Context, k *kit) verdict {
	const next = "spawn sessions with Keep, call Adopt when a thread is opened, and resume each session under its original ID"
	if !k.manifest.Handover {
		return skipped("", "its manifest doesn't declare handover")
	}
	leaves := k.withBehaviour(Leaves)
	if len(leaves) == 0 {
		return skipped(needsExample(Leaves, "leaves a session"), "no example leaves a session")
	}
	example := k.cfg.Calls[leaves[0]]
	first, err := k.fresh(ctx)
	if err != nil {
		return broken(err)
	}
	defer first.kill()
	t, err := k.perform(ctx, first, example, nil)
	if err != nil {
		return broken(err)
	}
	id := t.result.GetSessionId()
	if id == "" {
		return failed("set session_id in the result", "%s left no session: %s", name(example), t.said())
	}
	first.kill()
	k.host.NextGeneration()

	second, err := k.launch(ctx)
	if err != nil {
		return broken(err)
	}
	defer second.kill()
	req := k.configuration()
	req.Generation = 2
	if err := k.configure(ctx, second, req); err != nil {
		return broken(err)
	}
	w, err := follow(ctx, func(ctx context.Context) (grpc.ServerStreamingClient[gantryv1.ThreadResponse], error) {
		return second.tools().Thread(ctx, &gantryv1.ThreadRequest{ThreadId: threadID, Cwd: k.work, ThreadToken: "kit"})
	})
	if err != nil {
		return failed(next, "%v", k.explain(ctx, second, err))
	}
	defer w.close()
	limit := responseTimeout + k.cfg.Slack
	opened := func(m *gantryv1.ThreadResponse) bool {
		o := m.GetSessionOpened()
		return o.GetSessionId() == id && o.GetResumed()
	}
	if !w.sees(limit, opened) {
		return failed(next, "after a kill and a restart, it did not resume the session %s within %v", quote(id), limit)
	}
	if _, err := call(ctx, k, second, second.tools().StopSession, &gantryv1.StopSessionRequest{ThreadId: threadID, SessionId: id}); err != nil {
		return failed("let StopSession end resumed sessions", "StopSession: %v", err)
	}
	if !w.sees(limit, func(m *gantryv1.ThreadResponse) bool { return m.GetSessionExited().GetSessionId() == id }) {
		return failed("let StopSession end resumed sessions, and report their end", "the session %s had not ended %v after StopSession", quote(id), limit)
	}
	return passed("the session %s was resumed and stopped", quote(id))
}

// sees waits for a message for which is returns true.
func (w *watch) sees(limit time.Duration, is func(*gantryv1.ThreadResponse) bool) bool {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	for {
		if slices.ContainsFunc(w.messages(), func(m any) bool { return is(m.(*gantryv1.ThreadResponse)) }) {
			return true
		}
		select {
		case <-w.news:
		case <-w.ended:
			return false
		case <-timer.C:
			return false
		}
	}
}

// said describes the result for the report.
func (t *transcript) said() string {
	if err := t.failure(); err != nil {
		return err.Error()
	}
	return fmt.Sprintf("it returned %d parts", len(t.result.GetParts()))
}
