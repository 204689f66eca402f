package goal

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/prompt"
	"github.com/gantry-agent/gantry/host/internal/thread"
	"github.com/gantry-agent/gantry/sdk/llm"
)

// Config has what a [Keeper] needs of its host.
type Config struct {
	// MaxTokens is the most tokens that a goal may use, and what it may use if its author does not say; 0: unlimited.
	MaxTokens int64
	// Working reports whether agents are at work for the thread, whose mail is awaited instead of a new turn.
	Working func() bool
	// Await returns when none of them is at work any more, or mail has arrived.
	Await func(context.Context) error
	// Go runs a goroutine that the host waits for when it closes; false: it is closing.
	Go func(func()) bool
}

// Keeper keeps the goal of a thread that runs: it charges what is used, and begins turns. It is safe for concurrent use.
type Keeper struct {
	Feature
	cfg    Config
	thread *thread.Thread
	opened time.Time
	life   context.Context // ends with [Keeper.Close]
	end    context.CancelFunc
	mu     struct {
		sync.Mutex
		timer    *time.Timer // begins the next turn; nil: none
		awaiting bool        // mail of agents
		arrived  bool        // there is such mail, or no agent is at work any more
		asked    int64       // what the thread had used when the model was last asked
	}
}

// NewKeeper returns a keeper. [Keeper.Serve] gives it its thread.
func NewKeeper(cfg Config) *Keeper {
	k := &Keeper{cfg: cfg, opened: time.Now()}
	k.life, k.end = context.WithCancel(context.Background())
	return k
}

// Serve is called once, before the thread runs.
func (k *Keeper) Serve(t *thread.Thread) { k.thread = t }

// Close stops waiting to begin a turn.
func (k *Keeper) Close() {
	k.end()
	k.stop()
}

// Pending reports whether a turn is about to begin by itself.
func (k *Keeper) Pending() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.mu.timer != nil || k.mu.awaiting
}

// stop forgets that a turn is to begin by itself.
func (k *Keeper) stop() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.mu.arrived = false
	if k.mu.timer != nil {
		k.mu.timer.Stop()
		k.mu.timer = nil
	}
}

// Goal returns the goal, with what has been used by now; nil: there is none.
func (k *Keeper) Goal(ctx context.Context, turn event.TurnID) (*Goal, error) {
	if err := k.account(ctx, turn); err != nil {
		return nil, err
	}
	return Of(k.thread.Feature(FeatureID)), nil
}

// Change makes a change and returns the goal after it; nil: there is none. The change survives a restart of the host. An active goal is
// worked on at once if the thread is idle, and otherwise in the running turn.
func (k *Keeper) Change(ctx context.Context, turn event.TurnID, c Change) (*Goal, error) {
	if err := k.thread.Amend(ctx, turn, FeatureID, func(raw json.RawMessage) (json.RawMessage, error) {
		s := stateOf(raw)
		due := s.due(k.used(), time.Now(), k.opened)
		if c.New { // the answer that creates the goal counts for it, whether or not its usage is known already
			k.mu.Lock()
			due.Base = k.mu.asked
			k.mu.Unlock()
		}
		r, err := decide(s, c, due, k.cfg.MaxTokens)
		if err != nil {
			return nil, err
		}
		return json.Marshal(r)
	}); err != nil {
		return nil, err
	}
	g := Of(k.thread.Feature(FeatureID))
	if g != nil && g.Status == Active {
		k.thread.Wake()
	}
	return g, nil
}

// ChangeStored decides on a change of a thread that does not run. It returns the data of the [event.FeatureChanged], and the goal after it.
func ChangeStored(raw json.RawMessage, total event.Tokens, c Change, most int64) (data json.RawMessage, after *Goal, err error) {
	s, now := stateOf(raw), time.Now()
	r, err := decide(s, c, s.due(Used(total), now, now), most)
	if err != nil {
		return nil, nil, err
	}
	if data, err = json.Marshal(r); err != nil {
		return nil, nil, err
	}
	return data, Of(applied(raw, data, now)), nil
}

func (k *Keeper) used() int64 {
	_, total := k.thread.Meter().Sum()
	return Used(total)
}

// account charges what was used since the last time.
func (k *Keeper) account(ctx context.Context, turn event.TurnID) error {
	if k.thread.Feature(FeatureID) == nil {
		return nil
	}
	return thread.Revise(ctx, k.thread, turn, FeatureID, func(raw json.RawMessage) (json.RawMessage, error) {
		s := stateOf(raw)
		if s == nil || !s.charges() {
			return nil, nil
		}
		due := s.due(k.used(), time.Now(), k.opened)
		if due.Tokens == 0 && due.Seconds == 0 {
			return nil, nil
		}
		return json.Marshal(recorded{Kind: accounted, Goal: s.ID, Charge: due})
	})
}

// pause returns how long a thread waits before it continues, after a number of turns in a row without a call.
func pause(idle int) time.Duration {
	waits := [...]time.Duration{0, 0, 5 * time.Second, 30 * time.Second, 2 * time.Minute}
	return waits[min(idle, len(waits)-1)]
}

// NextTurn implements [thread.Starter].
func (k *Keeper) NextTurn(raw json.RawMessage) ([]llm.Message, error) {
	s := stateOf(raw)
	if s == nil || s.Status != Active {
		return nil, nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if wait := time.Until(time.UnixMilli(s.Rested).Add(pause(s.Idle))); wait > 0 && s.Idle > 0 {
		if k.mu.timer == nil {
			k.mu.timer = time.AfterFunc(wait, k.thread.Wake)
		} else {
			k.mu.timer.Reset(wait)
		}
		return nil, nil
	}
	if !k.mu.arrived && k.cfg.Working() {
		k.awaitLocked()
		return nil, nil
	}
	return []llm.Message{continuation(s.Goal)}, nil
}

// awaitLocked wakes the thread when there is mail of its agents.
func (k *Keeper) awaitLocked() {
	if k.mu.awaiting {
		return
	}
	k.mu.awaiting = k.cfg.Go(func() { // ends with Close at the latest
		err := k.cfg.Await(k.life)
		k.mu.Lock()
		k.mu.awaiting, k.mu.arrived = false, err == nil
		k.mu.Unlock()
		if err == nil {
			k.thread.Wake()
		}
	})
}

// InTurn takes part in a turn of the keeper's thread.
type InTurn struct {
	k    *Keeper
	turn event.TurnID
	told bool // that the budget is used up
}

// Turn returns the participant for a turn that begins.
func (k *Keeper) Turn(id event.TurnID) *InTurn {
	k.stop()
	return &InTurn{k: k, turn: id}
}

// Sections implements [turn.ContextSource].
func (p *InTurn) Sections(*event.Reference) []prompt.Section {
	return []prompt.Section{section(stateOf(p.k.thread.Feature(FeatureID)))}
}

// TakeNotes implements [turn.NoteSource]: before each request, what the previous answer has used is charged. The model is told once if
// that was the rest of the budget.
func (p *InTurn) TakeNotes() []string {
	p.k.mu.Lock()
	p.k.mu.asked = p.k.used()
	p.k.mu.Unlock()
	if p.k.account(context.Background(), p.turn) != nil {
		return nil // a log that accepts no event ends the turn by itself
	}
	if s := stateOf(p.k.thread.Feature(FeatureID)); s != nil && s.Wraps && !p.told {
		p.told = true
		return []string{wrapUp(s.Goal)}
	}
	return nil
}

// OnEnd implements [turn.EndListener].
func (p *InTurn) OnEnd(ctx context.Context) []event.Body {
	if err := p.k.account(ctx, p.turn); err != nil {
		return []event.Body{event.Notice{Level: "warning", Text: "the usage of the turn is not charged to the goal: " + err.Error()}}
	}
	return nil
}
