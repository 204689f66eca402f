// Package settle waits until a page has reacted to what was done.
//
// It owns: when a page is quiet. It must not know: what was done.
//
// Start with [Wait].
package settle

import (
	"context"
	"time"

	"github.com/gantry-agent/gantry/plugins/browser/internal/capture"
	"github.com/gantry-agent/gantry/plugins/browser/internal/target"
)

// How long Wait waits at most: after an action, and after a navigation to another site.
const (
	Ceiling   = 3 * time.Second
	Elsewhere = 8 * time.Second
)

// still is how long a document must not change, in milliseconds.
const still = 100

// Wait waits until the tab loads nothing, the requests that it has sent since begin are answered, and its document has not changed for 100 ms
// and two frames. It returns what it could not wait for until the ceiling: addresses of requests, "the page is still loading", "the page keeps
// changing" or "the page does not answer". A tab that can't answer is not waited for. What workers of the page do is not looked at.
func Wait(ctx context.Context, t *target.Tab, begin time.Time, ceiling time.Duration) (pending []string) {
	ctx, cancel := context.WithTimeout(ctx, ceiling)
	defer cancel()
	answers := true
	loaded := func(i target.Info, requests int) bool { return !i.Loading && requests == 0 }
	_ = t.Do(ctx, func(ctx context.Context) error {
		for {
			if err := t.Wait(ctx, begin, loaded); err != nil {
				return err
			}
			before := t.Info().Document
			var quiet bool
			answers = false
			f, err := capture.Main(ctx, t)
			answers = err == nil
			if err == nil {
				err = f.Call(ctx, "quiet", &quiet, still)
			}
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if i := t.Info(); err == nil && i.Document == before && loaded(i, len(t.Pending(begin))) {
				return nil
			}
		}
	})
	if ctx.Err() == nil {
		return nil
	}
	if pending = t.Pending(begin); len(pending) > 0 {
		return pending
	}
	if !answers {
		return []string{"the page does not answer"}
	}
	if t.Info().Loading {
		return []string{"the page is still loading"}
	}
	return []string{"the page keeps changing"}
}
