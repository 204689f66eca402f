//go:build unix

package tool_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	gantryv1 "github.com/gantry-agent/gantry/sdk/proto/gantry/v1"
	"github.com/gantry-agent/gantry/sdk/tool"
)

// Emit waits until the host has opened the thread and sent its token. After the end of the thread, it sends nothing.
func TestEmitInAThread(t *testing.T) {
	t.Parallel()
	h := startHost(t)
	threads, said := make(chan *tool.Thread, 1), make(chan error, 1)
	p := configured(t, tool.Plugin{Tools: one("try", func(_ context.Context, c *tool.Call, _ struct{}) (*tool.Result, error) {
		threads <- c.Thread()
		return tool.Text("ok"), nil
	})}, h.Facts(), "{}")
	p.run(t, &gantryv1.CallStart{Tool: "try"}) // the call and the opening of the thread are concurrent; here the call is first
	th := <-threads
	ctx, cancel := context.WithCancelCause(t.Context())
	tired := errors.New("tired of waiting")
	cancel(tired)
	if err := th.Emit(ctx, "never", nil, true); !errors.Is(err, tired) {
		t.Errorf("emit that is given up: %v", err)
	}
	go func() { said <- th.Emit(t.Context(), "page.opened", map[string]string{"url": "x"}, true) }() // owned by the test: received below
	p.thread(t, t.Context(), "thread-1")
	if err := <-said; err != nil {
		t.Fatal(err)
	}
	h.mu.Lock()
	got := slices.Clone(h.mu.emitted)
	h.mu.Unlock()
	if want := []string{`token page.opened {"url":"x"} true`}; !slices.Equal(got, want) {
		t.Errorf("emitted %q, want %q", got, want)
	}
	if _, err := p.EndThread(t.Context(), &gantryv1.EndThreadRequest{ThreadId: "thread-1"}); err != nil {
		t.Fatal(err)
	}
	if err := th.Emit(t.Context(), "late", nil, true); !errors.Is(err, tool.ErrThreadOver) {
		t.Errorf("after the end: %v, want %v", err, tool.ErrThreadOver)
	}
}
