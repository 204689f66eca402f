package turntest

import (
	"context"
	"time"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/prompt"
	"github.com/gantry-agent/gantry/host/internal/registry"
	"github.com/gantry-agent/gantry/host/internal/turn"
	"github.com/gantry-agent/gantry/sdk/llm"
)

// participants returns a participant for each function that the test has set.
func (b *Bench) participants() (out []turn.Participant) {
	if b.Hooks != nil {
		out = append(out, b.Hooks)
	}
	if b.Context != nil {
		out = append(out, Context(b.Context))
	}
	if b.OnClientContext != nil {
		out = append(out, clientContext(b.OnClientContext))
	}
	if b.Fallback != nil || b.HasFallback != nil {
		out = append(out, fallbacks{b})
	}
	if b.Before != nil {
		out = append(out, previous(b.Before))
	}
	if b.OfflineWait != nil {
		out = append(out, offlineWait(b.OfflineWait))
	}
	if b.Stops != nil {
		out = append(out, b.Stops)
	}
	if b.OnEnd != nil {
		out = append(out, onEnd(b.OnEnd))
	}
	if b.OnToolAnnounced != nil {
		out = append(out, onTool(b.OnToolAnnounced))
	}
	if b.Asking != nil {
		out = append(out, onRequest(b.Asking))
	}
	return append(out, b.More...)
}

// Context is a [turn.ContextSource] that is a function.
type Context func(last *event.Reference) []prompt.Section

// Sections implements [turn.ContextSource].
func (f Context) Sections(last *event.Reference) []prompt.Section { return f(last) }

type clientContext func(map[string]string)

func (f clientContext) OnClientContext(texts map[string]string) { f(texts) }

type fallbacks struct{ b *Bench }

func (f fallbacks) Fallback(ctx context.Context, why *llm.Error) (*turn.Fallback, error) {
	if f.b.Fallback == nil {
		return nil, why
	}
	return f.b.Fallback(ctx, why)
}

func (f fallbacks) HasFallback() bool { return f.b.HasFallback != nil && f.b.HasFallback() }

type previous func(context.Context) (*turn.Fallback, error)

func (f previous) PreviousModel(ctx context.Context) (*turn.Fallback, error) { return f(ctx) }

type offlineWait func() time.Duration

func (f offlineWait) OfflineWait() time.Duration { return f() }

type onEnd func(context.Context) []event.Body

func (f onEnd) OnEnd(ctx context.Context) []event.Body { return f(ctx) }

type onTool func(tools *registry.Snapshot, namespace, name string)

func (f onTool) OnToolAnnounced(tools *registry.Snapshot, namespace, name string) {
	f(tools, namespace, name)
}

type onRequest func(*registry.Snapshot)

func (f onRequest) OnRequest(tools *registry.Snapshot) { f(tools) }
