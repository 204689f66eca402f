package turn

import (
	"context"
	"time"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/prompt"
	"github.com/gantry-agent/gantry/host/internal/registry"
	"github.com/gantry-agent/gantry/sdk/llm"
)

// Participant takes part in a turn. It implements one or more of the interfaces of this file, [Hooks] and [hook.Stops]; a value
// that implements none of them has no effect.
//
// The turn calls the participants from its own goroutine, in the order of [Config.Participants].
type Participant any

// ContextSource supplies sections of the model's context. The sections of each source begin a message of their own.
type ContextSource interface {
	// Sections returns the current sections. A source with variable ids finds the ids that the model knows in last, which may be
	// nil, and returns a section without a text for each one that no longer exists.
	Sections(last *event.Reference) []prompt.Section
}

// ClientContextListener receives the context that a client attached to its user's input, before the input is recorded. A
// [ContextSource] passes it on to the model.
type ClientContextListener interface {
	OnClientContext(texts map[string]string)
}

// EndListener is notified when everything that the turn started has ended.
type EndListener interface {
	// OnEnd returns the events to publish before the end of the turn.
	OnEnd(ctx context.Context) []event.Body
}

// InterruptListener is notified when a person has interrupted the turn, before its [EndListener]s. What the turn waited for has ended.
type InterruptListener interface {
	OnInterrupt()
}

// NoteSource has texts for the model that are not part of a call's result.
type NoteSource interface {
	// TakeNotes returns the texts that came up since the last time. The turn records them before its next request.
	TakeNotes() []string
}

// RequestListener is notified before each request to the model. OnRequest must not block.
type RequestListener interface {
	OnRequest(tools *registry.Snapshot)
}

// ToolListener is notified as soon as the answer names the tool of a call, before the arguments are complete. OnToolAnnounced must
// not block.
type ToolListener interface {
	OnToolAnnounced(tools *registry.Snapshot, namespace, name string)
}

// OfflineWaiter says how long to wait for an unreachable provider before normal retries start. OfflineWait is the total for the
// turn and may change while the turn waits. The longest one applies; without an OfflineWaiter the turn does not wait.
type OfflineWaiter interface {
	OfflineWait() time.Duration
}

// FallbackSource opens the model that takes over after another one failed. The first source is used.
type FallbackSource interface {
	// Fallback opens the next model; why is the error of the previous one. An error ends the turn.
	Fallback(ctx context.Context, why *llm.Error) (*Fallback, error)
	// HasFallback reports whether a further model is left.
	HasFallback() bool
}

// Adjuster opens the model that continues the turn after its user has changed the turn's settings. The first one is used.
type Adjuster interface {
	// Adjust opens the model. After an error, the turn continues as before.
	Adjust(ctx context.Context, to Adjustment) (*Fallback, error)
}

// PreviousModel opens the model of the previous turn, where that was not this turn's. The first one is used.
type PreviousModel interface {
	PreviousModel(ctx context.Context) (*Fallback, error)
}

// each returns the participants that implement T, in order.
func each[T any](ps []Participant) []T {
	var out []T
	for _, p := range ps {
		if t, ok := p.(T); ok {
			out = append(out, t)
		}
	}
	return out
}

// first returns the first participant that implements T.
func first[T any](ps []Participant) (t T, ok bool) {
	for _, p := range ps {
		if t, ok = p.(T); ok {
			return t, true
		}
	}
	return t, false
}
