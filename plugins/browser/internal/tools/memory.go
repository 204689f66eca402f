package tools

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	protocol "github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/runtime"

	"github.com/hashicorp/go-hclog"

	"github.com/gantry-agent/gantry/plugins/browser/internal/target"
)

const (
	// fullShare is the share of its limit, in percent, above which a browser loses its largest tab, before it is ended as a whole.
	fullShare = 80
	// The memory of a browser is read rarely until it has used half of its limit, and then as often as the host does.
	rarely, often = time.Second, 200 * time.Millisecond
	// recovery is the time after which closing a tab should have had an effect.
	recovery = 2 * time.Second
	// heapTime is the time in which a tab says what it uses. One whose script is busy does not.
	heapTime = 300 * time.Millisecond
)

// memoryGuard closes the largest tab of a browser that is about to reach its memory limit.
type memoryGuard struct {
	mu    sync.Mutex
	notes []string // for the model
}

// take returns what the model has not been told yet.
func (g *memoryGuard) take() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	out := g.notes
	g.notes = nil
	return out
}

func (g *memoryGuard) note(text string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.notes = append(g.notes, text)
}

// guardMemory works until the browser or ctx ends, or at once if there is no limit.
func (h *hosted) guardMemory(ctx context.Context, logger hclog.Logger) {
	if h.all.Attached() { // its memory is not in the tree of the relay
		return
	}
	next := time.NewTimer(0)
	defer next.Stop()
	for {
		select {
		case <-next.C:
		case <-h.all.Done():
			return
		case <-ctx.Done():
			return
		}
		s, err := h.cmd.Stat(ctx)
		if err != nil || s.Limit <= 0 {
			return
		}
		switch {
		case s.Memory > s.Limit/100*fullShare:
			if err := h.closeLargest(ctx); err != nil {
				logger.Warn("the browser is about to reach its memory limit", "memory", s.Memory, "limit", s.Limit, "err", err)
			}
			next.Reset(recovery)
		case s.Memory > s.Limit/2:
			next.Reset(often)
		default:
			next.Reset(rarely)
		}
	}
}

// closeLargest closes the tab that uses most memory, as far as is known.
func (h *hosted) closeLargest(ctx context.Context) error {
	tabs, users := h.all.Tabs(), map[*target.Tab]*running{}
	for _, r := range h.members() {
		for _, x := range r.Browser.Tabs() {
			if users[x] = r; !slices.Contains(tabs, x) {
				tabs = append(tabs, x)
			}
		}
	}
	if len(tabs) == 0 {
		return fmt.Errorf("it has no tab that could be closed")
	}
	largest := tabs[0]
	var most float64
	for i, used := range heaps(ctx, tabs) {
		if used > most {
			largest, most = tabs[i], used
		}
	}
	if r := users[largest]; r != nil {
		r.memory.note(fmt.Sprintf("Tab %s (%s) was closed, because the browser had almost reached its memory limit and the tab used most. Do not open that page again in the same way.",
			largest.Name(), short(largest.Info().URL, 100)))
	}
	ctx, cancel := context.WithTimeout(ctx, stopTime)
	defer cancel()
	return largest.Close(ctx)
}

// heaps returns what the scripts of each tab use. A tab that does not answer uses most: it is busy.
func heaps(ctx context.Context, tabs []*target.Tab) []float64 {
	ctx, cancel := context.WithTimeout(ctx, heapTime)
	defer cancel()
	out := make([]float64, len(tabs))
	var asking sync.WaitGroup
	for i, t := range tabs {
		asking.Go(func() {
			h, err := protocol.Call(ctx, t.Session, runtime.GetHeapUsage, protocol.Empty{})
			out[i] = h.UsedSize + h.EmbedderHeapUsedSize + h.BackingStorageSize
			if err != nil {
				out[i] = math.MaxFloat64
			}
		})
	}
	asking.Wait()
	return out
}
