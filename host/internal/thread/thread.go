// Package thread runs a conversation: its turns one after the other, its events in one order, and everything that outlives a turn.
//
// It owns: the submission queue, one turn at a time, steering and interrupting it, the event bus and its subscribers,
// resuming from the log, and the end of everything that belongs to a thread. It must not know: which clients there are, how a turn
// decides, how events are stored.
//
// Start with [New] and [Thread.Run]. A Thread's state belongs to the goroutine that called Run.
package thread

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gantry-agent/gantry/host/internal/approval"
	"github.com/gantry-agent/gantry/host/internal/crashpoint"
	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/history"
	"github.com/gantry-agent/gantry/host/internal/orchestrate"
	"github.com/gantry-agent/gantry/host/internal/turn"
	"github.com/gantry-agent/gantry/host/internal/usage"
	"github.com/hashicorp/go-hclog"
)

// Engine provides what a turn runs with.
type Engine interface {
	// Turn plans a turn of t. With an error, the plan has what is known so far.
	Turn(ctx context.Context, t *Thread, id event.TurnID, in Submission) (Plan, error)
	// Check returns an error if a change is invalid.
	Check(ctx context.Context, t *Thread, c Change) error
	// End releases what plugins and the launcher hold for the thread.
	End(ctx context.Context, id event.ThreadID)
}

// Plan is what a turn runs with: its first event, notices for people, and the turn's configuration.
type Plan struct {
	Started event.TurnStarted
	Changed *event.ModelChanged // nil: the model does not change
	Notices []event.Notice
	turn.Config
}

// Config describes a thread.
type Config struct {
	ID       event.ThreadID
	Start    *event.ThreadStarted // of a new thread; nil: the thread is resumed from State
	State    State                // of a resumed thread; of a new one, only the messages that it inherits
	Features []Feature            // keep state with the thread, in this order
	Budget   usage.Budget
	// QuestionTimeout is how long a question waits for an answer; 0: without limit.
	QuestionTimeout time.Duration
	Meter           *usage.Meter // shared with another thread; nil: its own, with Budget
	Above           *usage.Meter // of the thread that this one works for, whose budget bounds both; nil: none
	Sink            Sink
	Engine          Engine
	// Observe is called with the events of the thread, in order, while no other event can be published. It must be quick and must not
	// use the thread; nil: not called.
	Observe func([]event.Event)
	Logger  hclog.Logger
}

// Submission is what a client asks a thread to do next.
type Submission struct {
	Input        turn.Input
	OutputSchema []byte // JSON Schema of the last message; nil: free text
	Change              // applies from this turn on
	// Compact: the turn compacts the history and does nothing else; there is no input. It replaces a running turn, whose input is
	// kept, and joins a turn that already compacts.
	Compact bool
	// Durable: when Submit returns, the input survives a restart of the host.
	// Input with the ID of a client is always durable.
	Durable bool
	Task    *Task // work of the turn instead of requests and calls; there is no input
	// ExitAfterTurn: the caller ends the thread after this turn. Mail starts no turns from then on, and waits until the thread is
	// resumed.
	ExitAfterTurn bool
	byMail        bool // the turn reads the mail that waits; there is no input
}

// kind names what a turn does that accepts no input; empty: it accepts input.
func (s Submission) kind() string {
	switch {
	case s.Compact:
		return "compact"
	case s.Task != nil:
		return cmp.Or(s.Task.Name, "task")
	}
	return ""
}

func (s Submission) takesTurn() bool { return s.Compact || s.Task != nil && s.Task.Replaces }

// Accepted says what happened to a submission.
type Accepted struct {
	Turn       event.TurnID
	Steered    bool // it joined the running turn
	Concurrent bool // it runs beside the running turn
	Repeated   bool // the thread had accepted the client's message before, for Turn; nothing was added
	refused    error
}

// Thread is one conversation.
type Thread struct {
	cfg     Config
	bus     *bus
	broker  *approval.Broker
	history *history.History // owned by the running turn, or else by the owner
	meter   *usage.Meter
	model   event.Selection // like history
	state   State

	sending messages // of clients, that are being accepted

	settings atomic.Pointer[event.Settings]
	people   atomic.Int32 // people who can answer or stop the thread

	in      chan submitMsg    // unbuffered: a send means that the owner has the submission
	control chan interruptMsg // separate, so that an interrupt never waits for the queue
	mailed  chan mailMsg
	alone   chan exclusiveMsg
	results chan completion
	woken   chan struct{} // one slot: a wake-up that the owner has not handled
	opened  chan struct{} // closed when the log has the thread's first event
	done    chan struct{} // closed when Run has returned
	st      owner         // used by Run only

	mail    *turn.Mailbox
	signal  *turn.Signal
	posting chan struct{} // mutex that makes the log and the mailbox have the same order
	// amending guards the states of features between a decision and its event.
	amending amending

	turns    sync.WaitGroup
	archived atomic.Bool
}

// New returns a thread. Run starts it.
func New(cfg Config) *Thread {
	t := &Thread{
		cfg: cfg, state: cfg.State, history: history.Restore(cfg.State.Messages, cfg.State.Count), meter: cfg.Meter,
		in: make(chan submitMsg), control: make(chan interruptMsg), alone: make(chan exclusiveMsg), results: make(chan completion), done: make(chan struct{}),
		mailed: make(chan mailMsg), opened: make(chan struct{}), posting: make(chan struct{}, 1), amending: make(amending, 1), woken: make(chan struct{}, 1), mail: turn.NewMailbox(cfg.State.Mail),
	}
	if t.meter == nil {
		t.meter = usage.NewMeter(cfg.State.Usage, cfg.Budget).Under(cfg.Above)
	}
	settings := cfg.State.Settings
	settings.Approval, settings.Sandbox = "", "" // they belong to the previous host
	t.settings.Store(&settings)
	t.signal = turn.NewSignal(t.mail)
	t.st.mail, t.st.archived, t.st.state = t.mail, &t.archived, t.Feature
	for _, f := range cfg.Features {
		if s, ok := f.(Starter); ok {
			t.st.starters = append(t.st.starters, s)
		}
		if s, ok := f.(Supplier); ok {
			t.st.suppliers = append(t.st.suppliers, s)
		}
	}
	t.st.beside = map[*concurrentTask]context.CancelCauseFunc{}
	t.history.SetContextState(cfg.State.ContextState)
	if t.model = cfg.State.Model; cfg.Start != nil {
		t.model = selected(*cfg.Start)
	}
	t.bus = newBus(cfg.ID, cfg.Sink, cfg.State.Seq)
	t.bus.observe = cfg.Observe
	t.bus.st.state = cfg.State.outline()
	t.bus.st.state.features = withMessages(cfg.Features)
	states := t.bus.st.state.Features
	t.bus.features.Store(&states)
	t.broker = approval.NewBroker(t.bus)
	t.broker.Timeout = cfg.QuestionTimeout
	return t
}

// ID returns the thread's identity.
func (t *Thread) ID() event.ThreadID { return t.cfg.ID }

// Started returns the thread's first event.
func (t *Thread) Started() event.ThreadStarted {
	if t.cfg.Start != nil {
		return *t.cfg.Start
	}
	return t.cfg.State.Start
}

// Model returns the thread's model as of the beginning of the last turn. It is for the engine, while it plans a turn.
func (t *Thread) Model() event.Selection { return t.model }

// selected returns the model of a new thread.
func selected(s event.ThreadStarted) event.Selection {
	return event.Selection{Model: s.Model, Provider: s.Provider, ModelName: s.ModelName}
}

// Approvals returns the broker of the thread's questions.
func (t *Thread) Approvals() *approval.Broker { return t.broker }

// Publish publishes events in the thread's stream, for packages that work for the thread. It waits for the thread's first event.
func (t *Thread) Publish(ctx context.Context, id event.TurnID, bodies ...event.Body) (uint64, error) {
	select {
	case <-t.opened:
	default:
		if err := t.Opened(ctx); err != nil {
			return 0, err
		}
	}
	return t.bus.Publish(ctx, id, bodies...)
}

// Opened returns when the thread has its first event.
func (t *Thread) Opened(ctx context.Context) error {
	select {
	case <-t.opened: // the thread's first event comes before all others
		return nil
	case <-t.done:
		return ErrClosed
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Flush returns when the log has everything that was published. After the thread has ended, it has.
func (t *Thread) Flush(ctx context.Context) error {
	if err := t.Opened(ctx); err != nil {
		return err
	}
	return t.bus.flush(ctx)
}

// Meter counts the thread's usage. Requests that are made for one of its calls are counted there too.
func (t *Thread) Meter() *usage.Meter { return t.meter }

// Barrier returns when everything up to seq is durable.
func (t *Thread) Barrier(ctx context.Context, seq uint64) error { return t.bus.Barrier(ctx, seq) }

// Subscribe delivers the thread's events from now on; before the first turn, from the thread's start or resumption on.
func (t *Thread) Subscribe(ctx context.Context, p Policy) (*Subscription, error) {
	return t.bus.subscribe(ctx, p)
}

var errEmpty = errors.New("input must not be empty")

// Submit submits input or a task: it starts a turn or joins the running one. It waits while the queue is full, and until the end
// of the running turn if it can't join that. With an error, nothing was accepted.
func (t *Thread) Submit(ctx context.Context, s Submission) (Accepted, error) {
	if s.Input.Blank() && !s.Compact && s.Task == nil {
		return Accepted{}, errEmpty
	}
	if t.archived.Load() {
		return Accepted{}, ErrArchived
	}
	if err := t.check(ctx, s.Change); err != nil {
		return Accepted{}, err
	}
	if s.Input.Blank() || s.Input.Continue || !s.Durable && s.Input.ClientID == "" {
		return t.submit(ctx, submitMsg{Submission: s})
	}
	return t.submitDurably(ctx, submitMsg{Submission: s})
}

func (t *Thread) submit(ctx context.Context, m submitMsg) (Accepted, error) {
	m.accepted, m.claimed = make(chan Accepted, 1), &atomic.Bool{}
	select {
	case t.in <- m:
	case <-t.done:
		return Accepted{}, ErrClosed
	case <-ctx.Done():
		return Accepted{}, context.Cause(ctx)
	}
	ended := ctx.Done()
	for {
		select {
		case a := <-m.accepted:
			return a, a.refused
		case <-t.done:
			select {
			case a := <-m.accepted: // accepted just before the end; the log has it
				return a, a.refused
			default:
				return Accepted{}, ErrClosed
			}
		case <-ended:
			if m.claim() {
				return Accepted{}, context.Cause(ctx)
			}
			ended = nil // the owner has claimed it and will answer
		}
	}
}

// ErrIdle says that there is no turn to interrupt.
var ErrIdle = errors.New("no active turn to interrupt")

// Interrupt interrupts the running turn. It returns when the turn has been told, not when it has ended.
func (t *Thread) Interrupt(ctx context.Context, cause error) error {
	_, err := t.interrupt(ctx, "", cause)
	return err
}

// InterruptTurn interrupts the running turn, which must be the given one unless id is empty, and returns when it has ended. If another
// turn runs, the error is an [*OtherTurnError].
func (t *Thread) InterruptTurn(ctx context.Context, id event.TurnID, cause error) error {
	ended, err := t.interrupt(ctx, id, cause)
	if err != nil || ended == nil {
		return err
	}
	select {
	case <-ended:
		return nil
	case <-t.done:
		return nil // the turn has ended with the thread
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (t *Thread) interrupt(ctx context.Context, id event.TurnID, cause error) (ended <-chan struct{}, err error) {
	m := interruptMsg{cause, id, make(chan stopping, 1)}
	select {
	case t.control <- m:
		s := <-m.reply
		return s.ended, s.err
	case <-t.done:
		return nil, ErrClosed
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// CheckIdle returns [ErrBusy] if a turn runs, or [ErrClosed].
func (t *Thread) CheckIdle(ctx context.Context) error {
	return t.runExclusive(ctx, func(context.Context) error { return nil })
}

// Done is closed when Run has returned.
func (t *Thread) Done() <-chan struct{} { return t.done }

// Run owns the thread until ctx ends. It starts every goroutine of the thread and waits for all of them.
func (t *Thread) Run(ctx context.Context) error {
	defer close(t.done)
	defer t.end(ctx)
	if err := t.open(ctx); err != nil {
		return err
	}
	close(t.opened)
	for {
		in := t.in
		if t.st.full() {
			in = nil // when the queue is full, Submit waits
		}
		var acts []action
		select {
		case m := <-t.control:
			acts = t.st.interrupt(m)
		case m := <-in:
			acts = t.st.submit(m)
		case m := <-t.mailed:
			acts = t.st.post(m)
		case m := <-t.alone:
			acts = t.st.between(m)
		case m := <-t.results:
			acts = m.tell(&t.st)
		case <-t.woken:
			acts = t.st.wake()
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		perform(ctx, t, acts)
	}
}

// open writes the first event of a new thread, or repairs what was open when the previous host ended.
func (t *Thread) open(ctx context.Context) error {
	var bodies []event.Body
	if t.cfg.Start != nil {
		bodies = append(bodies, *t.cfg.Start)
	} else {
		bodies = t.state.repair(t.history, hostStopped)
	}
	if len(bodies) == 0 {
		return nil
	}
	if _, err := t.bus.Publish(ctx, t.state.OpenTurn, bodies...); err != nil {
		return fmt.Errorf("open thread %s: %w", t.cfg.ID, err)
	}
	crashpoint.At(crashpoint.ResumeDone, "")
	t.state.OpenTurn = ""
	return nil
}

// closeTimeout is how long an ending thread waits for lossless subscribers that do not read, before it disconnects them.
const closeTimeout = 3 * time.Second

// end waits for the running turn, releases what others hold for the thread, and closes the bus.
func (t *Thread) end(ctx context.Context) {
	slow := time.AfterFunc(closeTimeout, func() {
		t.cfg.Logger.Warn("disconnecting subscribers that do not read their events", "thread", t.cfg.ID, "waited", closeTimeout)
		t.bus.disconnectSlow()
	})
	defer slow.Stop()
	cause := context.Cause(ctx)
	if cause == nil {
		cause = orchestrate.ErrShutdown
	}
	if t.st.cancel != nil {
		t.st.cancel(cause)
	}
	for _, cancel := range t.st.beside {
		cancel(cause)
	}
	drained := make(chan struct{})
	go func() { // owned by end: ends after the turns, for which end waits below
		t.turns.Wait()
		close(drained)
	}()
	for waiting := true; waiting; {
		select {
		case m := <-t.results:
			if b, ok := m.(*concurrentTask); ok {
				t.st.left = append(t.st.left, b.said...)
			}
		case <-drained:
			waiting = false
		}
	}
	if len(t.st.left) > 0 {
		if err := record(context.WithoutCancel(ctx), t, t.st.left...); err != nil {
			t.cfg.Logger.Error("results of a concurrent task not recorded", "thread", t.cfg.ID, "err", err)
		}
	}
	t.cfg.Engine.End(context.WithoutCancel(ctx), t.cfg.ID)
	seq := t.bus.close()
	// The next process that continues the thread reads the log.
	if err := t.bus.Barrier(context.WithoutCancel(ctx), seq); err != nil {
		t.cfg.Logger.Warn("end of the thread not stored", "thread", t.cfg.ID, "err", err)
	}
}
