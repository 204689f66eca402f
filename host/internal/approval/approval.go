// Package approval puts questions to people and remembers what they allowed.
//
// It owns: pending questions, who answers first, the approval keys and the answers that hold for longer than one call.
// It must not know: what decides that a question is needed, how a door shows it, how a grant is made.
//
// Start with [Broker].
package approval

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"github.com/gantry-agent/gantry/host/internal/crashpoint"
	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/policy"
	"github.com/gantry-agent/gantry/sdk/contract"
)

// Answers to an approval.
const (
	Approve        = "approve"
	ApproveTurn    = "approve_turn"    // and whatever has the same key, until the turn ends
	ApproveSession = "approve_session" // the same, as long as the thread runs
	ApproveAlways  = "approve_always"  // and write the rule that the question shows
	Deny           = "deny"            // the turn goes on
	DenyAlways     = "deny_always"     // and write the denying rule that the question shows
	Abort          = "abort"           // the turn is interrupted
)

// ErrNoApprover says that there is no one to ask. The caller refuses what it wanted to ask about.
var ErrNoApprover = errors.New("there is nobody to ask: no terminal is attached")

// ErrUnknownQuestion says that no such question waits (any more).
var ErrUnknownQuestion = errors.New("no such question is pending; it may have been answered already")

// Publisher puts events into the thread's stream.
type Publisher interface {
	Publish(ctx context.Context, turn event.TurnID, bodies ...event.Body) (uint64, error)
}

// Question is what is asked.
type Question struct {
	About   event.QuestionKind
	Turn    event.TurnID
	Call    event.CallID
	Title   string
	Message string
	Reason  string
	Effects []contract.Effect
	Wanted  []contract.Effect // beyond the sandbox, which holds the rest
	Options []string
	Schema  json.RawMessage
	URL     string
	Rule    *event.RuleOffer // that ApproveAlways and DenyAlways write
}

// Answer is what came back. By names who answered: "user", "reviewer", "policy" or "cancelled".
type Answer struct {
	Choice string
	Data   json.RawMessage
	By     string
}

// Broker holds the questions of one thread.
type Broker struct {
	pub Publisher

	mu struct {
		sync.Mutex
		tell     func(event.QuestionAsked)
		attended int
		alone    chan struct{}          // closed while nobody attends
		pending  map[string]chan Answer // one slot; taken out by the first answer
		allowed  map[string]bool
		turn     event.TurnID    // that inTurn is of
		inTurn   map[string]bool // allowed until it ends
		session  policy.Permissions
		forTurn  policy.Permissions // until turn ends
		reviewed bool               // every call of turn is approved before it runs
	}
}

// NewBroker makes a desk that publishes to pub.
func NewBroker(pub Publisher) *Broker {
	d := &Broker{pub: pub}
	d.mu.alone = make(chan struct{})
	close(d.mu.alone)
	d.mu.pending = map[string]chan Answer{}
	d.mu.allowed = map[string]bool{}
	return d
}

// Attend says that somebody who can answer is there, until the returned function is called.
func (d *Broker) Attend() (leave func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.mu.attended == 0 {
		d.mu.alone = make(chan struct{})
	}
	d.mu.attended++
	return sync.OnceFunc(func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		if d.mu.attended--; d.mu.attended == 0 {
			close(d.mu.alone)
		}
	})
}

// OnQuestion has a function called with each question that somebody can answer, once it is published. It must not wait for the answer.
func (d *Broker) OnQuestion(f func(event.QuestionAsked)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.mu.tell = f
}

// returning is how long a question waits when everybody has left: a client that fell behind or crashed comes back within it.
const returning = 10 * time.Second

// left waits until nobody has attended for a while, and reports whether that came before the end of ctx.
func (d *Broker) left(ctx context.Context) (gone bool) {
	for {
		d.mu.Lock()
		alone := d.mu.alone
		d.mu.Unlock()
		select {
		case <-alone:
		case <-ctx.Done():
			return false
		}
		select {
		case <-time.After(returning):
		case <-ctx.Done():
			return false
		}
		d.mu.Lock()
		still := d.mu.alone == alone
		d.mu.Unlock()
		if still {
			return true
		}
	}
}

// Ask puts a question and waits for the first answer or the end of ctx. Without anybody attending it returns
// [ErrNoApprover] at once, and after a while when everybody has left.
func (d *Broker) Ask(ctx context.Context, q Question) (Answer, error) {
	id := rand.Text()
	slot := make(chan Answer, 1)
	d.mu.Lock()
	if d.mu.attended == 0 {
		d.mu.Unlock()
		return Answer{}, ErrNoApprover
	}
	d.mu.pending[id] = slot
	tell := d.mu.tell
	d.mu.Unlock()

	asked := event.QuestionAsked{
		ID: id, About: q.About, Call: q.Call, Title: q.Title, Message: q.Message, Reason: q.Reason,
		Effects: event.EffectsOf(q.Effects), Wanted: event.EffectsOf(q.Wanted), Options: q.Options, Schema: q.Schema, URL: q.URL, Rule: q.Rule,
	}
	if _, err := d.pub.Publish(ctx, q.Turn, asked); err != nil {
		d.take(id)
		return Answer{}, err
	}
	if tell != nil {
		tell(asked)
	}
	answer, err := d.await(ctx, id, slot)
	crashpoint.At(crashpoint.QuestionAnswered, "")
	// Everybody who shows the question must learn that it is over, also when the asker was cancelled.
	_, perr := d.pub.Publish(context.WithoutCancel(ctx), q.Turn, event.QuestionResolved{
		ID: id, Answer: answer.Choice, Data: answer.Data, By: answer.By,
	})
	return answer, errors.Join(err, perr)
}

// await waits for the first answer, the end of ctx, or for everybody to have left.
func (d *Broker) await(ctx context.Context, id string, slot chan Answer) (Answer, error) {
	watch, stop := context.WithCancel(ctx)
	gone := make(chan struct{})
	var watching sync.WaitGroup
	watching.Go(func() {
		if d.left(watch) {
			close(gone)
		}
	})
	defer watching.Wait()
	defer stop()
	var err error
	select {
	case a := <-slot:
		return a, nil
	case <-gone:
		err = ErrNoApprover
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	if d.take(id) == nil {
		return <-slot, nil // the answer won the race
	}
	return Answer{By: "cancelled"}, err
}

// Resolve answers a question; the first one wins, later ones get [ErrUnknownQuestion].
func (d *Broker) Resolve(id string, a Answer) error {
	slot := d.take(id)
	if slot == nil {
		return ErrUnknownQuestion
	}
	slot <- a
	return nil
}

func (d *Broker) take(id string) chan Answer {
	d.mu.Lock()
	defer d.mu.Unlock()
	slot := d.mu.pending[id]
	delete(d.mu.pending, id)
	return slot
}

// Allowed tells whether every key was allowed, for the session or for this turn.
func (d *Broker) Allowed(turn event.TurnID, keys []string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, k := range keys {
		if !d.mu.allowed[k] && (d.mu.turn != turn || !d.mu.inTurn[k]) {
			return false
		}
	}
	return len(keys) > 0
}

// Allow remembers keys for the session.
func (d *Broker) Allow(keys []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, k := range keys {
		d.mu.allowed[k] = true
	}
}

// AllowTurn remembers keys until the next turn.
func (d *Broker) AllowTurn(turn event.TurnID, keys []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.inTurnLocked(turn)
	for _, k := range keys {
		d.mu.inTurn[k] = true
	}
}

// inTurnLocked forgets what held for another turn.
func (d *Broker) inTurnLocked(turn event.TurnID) {
	if d.mu.turn != turn || d.mu.inTurn == nil {
		d.mu.turn, d.mu.inTurn, d.mu.forTurn, d.mu.reviewed = turn, map[string]bool{}, policy.Permissions{}, false
	}
}

// Permit remembers permissions that calls have been given: for as long as the thread runs, or until the next turn.
func (d *Broker) Permit(turn event.TurnID, p policy.Permissions, session bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if session {
		d.mu.session = d.mu.session.With(p)
		return
	}
	d.inTurnLocked(turn)
	d.mu.forTurn = d.mu.forTurn.With(p)
}

// Permitted is what calls of a turn may do beyond their sandbox mode, and what of it holds for the session.
func (d *Broker) Permitted(turn event.TurnID) (all, session policy.Permissions) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.mu.turn != turn {
		return d.mu.session, d.mu.session
	}
	return d.mu.session.With(d.mu.forTurn), d.mu.session
}

// Review has every later call of a turn approved before it runs, whatever the policy says of it.
func (d *Broker) Review(turn event.TurnID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.inTurnLocked(turn)
	d.mu.reviewed = true
}

// Reviewed tells whether [Broker.Review] holds for a turn.
func (d *Broker) Reviewed(turn event.TurnID) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.mu.turn == turn && d.mu.reviewed
}

// ToolKey is the approval key of a tool as a whole, bound to the content of its descriptor and to its plugin.
func ToolKey(plugin, descriptorDigest string, discriminators []string) []string {
	b, err := json.Marshal(struct {
		Tool, Plugin string
		X            []string
	}{descriptorDigest, plugin, discriminators})
	if err != nil { // strings only
		panic("approval: marshal key: " + err.Error())
	}
	sum := sha256.Sum256(b)
	return []string{hex.EncodeToString(sum[:])}
}

// Keys computes the approval keys of a call: one for each effect, bound to the content of the tool's descriptor and to what the call
// asks for beyond its grant. Of a command it counts what it does, not how it is spelled; why it is wanted does not count. The plugin's
// discriminators only ever make a key narrower.
func Keys(descriptorDigest string, effects []contract.Effect, wanted *contract.Escalation, discriminators []string) []string {
	canonical := make([]contract.Effect, len(effects))
	for i, e := range effects {
		if x, ok := e.(contract.ExecEffect); ok {
			x.Argv, x.ShellText = policy.Canonical(x.Argv), ""
			e = x
		}
		canonical[i] = e
	}
	logged := event.EffectsOf(canonical)
	if len(logged) == 0 {
		logged = []event.Effect{{Type: "none"}}
	}
	key := struct {
		D string
		E event.Effect
		U bool
		A []event.Effect
		X []string
	}{D: descriptorDigest, X: discriminators}
	if wanted != nil {
		key.U = wanted.Unsandboxed
		if len(wanted.Additional) > 0 {
			key.A = event.EffectsOf(wanted.Additional)
		}
	}
	keys := make([]string, 0, len(logged))
	for _, e := range logged {
		key.E = e
		b, err := json.Marshal(key)
		if err != nil { // strings only
			panic("approval: marshal key: " + err.Error())
		}
		sum := sha256.Sum256(b)
		keys = append(keys, hex.EncodeToString(sum[:]))
	}
	return keys
}
