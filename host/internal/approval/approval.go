// Package approval puts questions to people and to clients, and remembers people's approvals.
//
// It owns: pending questions, of which the first answer is used, approval keys, and approvals and permissions that apply for longer than
// one call. It must not know: when a question is necessary, how a client shows it, how a grant is made.
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
	"fmt"
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
	ApproveTurn    = "approve_turn"    // also calls with the same key, until the turn ends
	ApproveSession = "approve_session" // also calls with the same key, as long as the thread runs
	ApproveAlways  = "approve_always"  // also write the rule that the question shows
	Deny           = "deny"            // the turn continues
	DenyAlways     = "deny_always"     // also write the denying rule that the question shows
	Abort          = "abort"           // deny, and interrupt the turn
	Dismiss        = "dismiss"         // a plugin's question: close it without deciding
	Unusable       = "unusable"        // what the client has answered means nothing: the call fails
)

// ErrNoApprover says that there is no one to ask. The caller treats it as a refusal.
var ErrNoApprover = errors.New("there is nobody to ask: no terminal is attached")

// TimeoutError says that a question was not answered in time. It is an [ErrNoApprover] too.
type TimeoutError struct{ After time.Duration }

// Error implements error.
func (e *TimeoutError) Error() string {
	return fmt.Sprintf("no one answered the question within %v", e.After)
}

// NextStep implements [hint.Stepper].
func (e *TimeoutError) NextStep() string { return "set timeout in the approval block to wait longer" }

// Is implements the interface of [errors.Is].
func (e *TimeoutError) Is(target error) bool { return target == ErrNoApprover }

// ErrUnknownQuestion says that a question does not exist, or is no longer pending.
var ErrUnknownQuestion = errors.New("no such question is pending; it may have been answered already")

// Publisher puts events into the thread's stream.
type Publisher interface {
	Publish(ctx context.Context, turn event.TurnID, bodies ...event.Body) (uint64, error)
}

// Question is a question about a call.
type Question struct {
	About   event.QuestionKind
	Turn    event.TurnID
	Call    event.CallID
	Chain   []string // of a nested call: the tools from the model's call to this one
	Plugin  string   // that asks its own question, in the name of Source if that is set; empty: the host asks
	Source  string
	Title   string
	Message string
	Reason  string
	Changes string // of the tool's declaration since it was last called, as its plugin says
	Effects []contract.Effect
	Wanted  []contract.Effect // requested beyond the sandbox
	Options []string
	Schema  json.RawMessage
	URL     string
	Rule    *event.RuleOffer // written by ApproveAlways and DenyAlways
	Tool    *event.ToolCall  // of a question to clients
}

// Answer is the answer to a question. By is who gave it: "user", "reviewer", "policy", or "cancelled" or [ByTimeout] if no one did.
type Answer struct {
	Choice string
	Data   json.RawMessage
	By     string
}

// ByTimeout is who answered a question that was not answered in time.
const ByTimeout = "timeout"

// Broker passes the questions of a thread to its clients, and their answers back. Safe for concurrent use.
type Broker struct {
	// Timeout is how long a question waits for a person's answer; 0: without limit. It is set before the first question.
	Timeout time.Duration

	pub Publisher
	up  *upstream // nil: none

	mu struct {
		sync.Mutex
		onQuestion func(event.QuestionAsked)
		people     presence
		clients    presence               // that run their tools
		pending    map[string]chan Answer // by question ID; buffered, removed by the first answer
		relayed    map[string]*Broker     // by the ID of a question of an agent below
		allowed    map[string]bool        // keys, for the session
		session    policy.Permissions

		// For one turn.
		turn     event.TurnID
		inTurn   map[string]bool // keys
		forTurn  policy.Permissions
		reviewed bool // every call must be approved
	}
}

// NewBroker makes a broker that publishes to pub.
func NewBroker(pub Publisher) *Broker {
	b := &Broker{pub: pub}
	b.mu.people, b.mu.clients = newPresence(), newPresence()
	b.mu.pending, b.mu.relayed = map[string]chan Answer{}, map[string]*Broker{}
	b.mu.allowed = map[string]bool{}
	return b
}

// presence counts who can answer.
type presence struct {
	n     int
	alone chan struct{} // closed while n is 0
}

func newPresence() presence {
	p := presence{alone: make(chan struct{})}
	close(p.alone)
	return p
}

// Attend says that a person can answer questions, until the returned function is called.
func (b *Broker) Attend() (leave func()) { return b.enter(&b.mu.people) }

// ServeTools says that a client runs its tools, until the returned function is called. The calls that it has not answered end then, unless
// another client runs the tools.
func (b *Broker) ServeTools() (leave func()) { return b.enter(&b.mu.clients) }

func (b *Broker) enter(p *presence) (leave func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if p.n == 0 {
		p.alone = make(chan struct{})
	}
	p.n++
	return sync.OnceFunc(func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		if p.n--; p.n == 0 {
			close(p.alone)
		}
	})
}

// presence returns who answers such questions, and how long a question waits for them to return after the last one has left.
func (b *Broker) presence(about event.QuestionKind) (*presence, time.Duration) {
	if about.ForPerson() {
		return &b.mu.people, returnTimeout
	}
	return &b.mu.clients, 0
}

// OnQuestion sets a function that is called with each question to a person after it is published. It must not wait for the answer.
func (b *Broker) OnQuestion(f func(event.QuestionAsked)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.mu.onQuestion = f
}

// returnTimeout is how long a question waits after the last person has left, so that a client that crashed or was disconnected can
// return.
const returnTimeout = 10 * time.Second

// left waits until no one has been present for a time, and reports whether that happened before the end of ctx.
func (b *Broker) left(ctx context.Context, p *presence, returns time.Duration) (gone bool) {
	for {
		b.mu.Lock()
		alone := p.alone
		b.mu.Unlock()
		select {
		case <-alone:
		case <-ctx.Done():
			return false
		}
		select {
		case <-time.After(returns):
		case <-ctx.Done():
			return false
		}
		b.mu.Lock()
		still := p.alone == alone
		b.mu.Unlock()
		if still {
			return true
		}
	}
}

// Ask publishes a question and waits for the first answer or the end of ctx. It returns [ErrNoApprover] if no one can answer: immediately,
// or after a while if all people have left; and a [*TimeoutError] if a person does not answer in time.
func (b *Broker) Ask(ctx context.Context, q Question) (Answer, error) {
	id := rand.Text()
	slot := make(chan Answer, 1)
	by, _ := b.presence(q.About)
	b.mu.Lock()
	if by.n == 0 && !b.up.attended(q.About) {
		b.mu.Unlock()
		return Answer{}, ErrNoApprover
	}
	b.mu.pending[id] = slot
	onQuestion := b.mu.onQuestion
	b.mu.Unlock()

	asked := event.QuestionAsked{
		ID: id, About: q.About, Call: q.Call, Chain: q.Chain, Plugin: q.Plugin, Source: q.Source, Title: q.Title, Message: q.Message, Reason: q.Reason, Changes: q.Changes,
		Effects: event.EffectsOf(q.Effects), Wanted: event.EffectsOf(q.Wanted), Options: q.Options, Schema: q.Schema, URL: q.URL, Rule: q.Rule,
		Tool: q.Tool,
	}
	if _, err := b.pub.Publish(ctx, q.Turn, asked); err != nil {
		b.take(id)
		return Answer{}, err
	}
	relayed := b.up.ask(ctx, b, asked)
	if onQuestion != nil && q.About.ForPerson() {
		onQuestion(asked)
	}
	answer, err := b.await(ctx, id, slot, q.About)
	crashpoint.At(crashpoint.QuestionAnswered, "")
	data := answer.Data
	if !q.About.ForPerson() {
		data = nil
	}
	// Clients that show the question must learn that it is resolved, even if ctx has ended.
	resolved := event.QuestionResolved{ID: id, Answer: answer.Choice, Data: data, By: answer.By}
	_, perr := b.pub.Publish(context.WithoutCancel(ctx), q.Turn, resolved)
	if relayed {
		b.up.resolved(ctx, resolved)
	}
	return answer, errors.Join(err, perr)
}

// await waits for the first answer, the end of ctx, or until everyone who can answer has left.
func (b *Broker) await(ctx context.Context, id string, slot chan Answer, about event.QuestionKind) (Answer, error) {
	by, returns := b.presence(about)
	watch, stop := context.WithCancel(ctx)
	gone := make(chan struct{})
	var watching sync.WaitGroup
	watching.Go(func() {
		if b.allLeft(watch, by, returns, about) {
			close(gone)
		}
	})
	defer watching.Wait()
	defer stop()
	var late <-chan time.Time
	if b.Timeout > 0 && about.ForPerson() {
		timer := time.NewTimer(b.Timeout)
		defer timer.Stop()
		late = timer.C
	}
	none := Answer{By: "cancelled"}
	var err error
	select {
	case a := <-slot:
		return a, nil
	case <-gone:
		err = ErrNoApprover
	case <-late:
		none.By, err = ByTimeout, &TimeoutError{b.Timeout}
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	if b.take(id) == nil {
		return <-slot, nil // an answer came at the same time
	}
	return none, err
}

// Resolve answers a question. Only the first answer is used; for later ones it returns [ErrUnknownQuestion].
func (b *Broker) Resolve(id string, a Answer) error {
	b.mu.Lock()
	below := b.mu.relayed[id]
	b.mu.Unlock()
	if below != nil {
		return below.Resolve(id, a)
	}
	slot := b.take(id)
	if slot == nil {
		return ErrUnknownQuestion
	}
	slot <- a
	return nil
}

// take removes a pending question; nil: there is none.
func (b *Broker) take(id string) chan Answer {
	b.mu.Lock()
	defer b.mu.Unlock()
	slot := b.mu.pending[id]
	delete(b.mu.pending, id)
	return slot
}

// Allowed reports whether every key is allowed, for the session or for this turn.
func (b *Broker) Allowed(turn event.TurnID, keys []string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, k := range keys {
		if !b.mu.allowed[k] && !b.up.allowed(k) && (b.mu.turn != turn || !b.mu.inTurn[k]) {
			return false
		}
	}
	return len(keys) > 0
}

// Allow allows keys for the session.
func (b *Broker) Allow(keys []string) {
	if b.up != nil { // the session is that of the whole tree
		b.up.broker.Allow(keys)
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, k := range keys {
		b.mu.allowed[k] = true
	}
}

// AllowTurn allows keys until the next turn.
func (b *Broker) AllowTurn(turn event.TurnID, keys []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.inTurnLocked(turn)
	for _, k := range keys {
		b.mu.inTurn[k] = true
	}
}

// inTurnLocked forgets what applied to another turn.
func (b *Broker) inTurnLocked(turn event.TurnID) {
	if b.mu.turn != turn || b.mu.inTurn == nil {
		b.mu.turn, b.mu.inTurn, b.mu.forTurn, b.mu.reviewed = turn, map[string]bool{}, policy.Permissions{}, false
	}
}

// Permit grants permissions to later calls, for as long as the thread runs or until the next turn.
func (b *Broker) Permit(turn event.TurnID, p policy.Permissions, session bool) {
	if session && b.up != nil {
		b.up.broker.Permit(turn, p, true)
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if session {
		b.mu.session = b.mu.session.With(p)
		return
	}
	b.inTurnLocked(turn)
	b.mu.forTurn = b.mu.forTurn.With(p)
}

// Permitted returns what calls of a turn may do beyond their sandbox mode, and the part of it that applies for the session.
func (b *Broker) Permitted(turn event.TurnID) (all, session policy.Permissions) {
	b.mu.Lock()
	defer b.mu.Unlock()
	session = b.mu.session.With(b.up.permitted())
	if b.mu.turn != turn {
		return session, session
	}
	return session.With(b.mu.forTurn), session
}

// Review requires an approval for every later call of a turn, whatever the policy decides.
func (b *Broker) Review(turn event.TurnID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.inTurnLocked(turn)
	b.mu.reviewed = true
}

// Reviewed reports whether [Broker.Review] was called for a turn.
func (b *Broker) Reviewed(turn event.TurnID) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.mu.turn == turn && b.mu.reviewed
}

// ToolKey returns the approval key of a tool, bound to its plugin and the content of its descriptor.
func ToolKey(plugin, descriptorDigest string, discriminators []string) []string {
	return []string{digest(struct {
		Tool, Plugin string
		X            []string
	}{descriptorDigest, plugin, discriminators})}
}

func digest(key any) string {
	b, err := json.Marshal(key)
	if err != nil { // strings only
		panic("approval: marshal key: " + err.Error())
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// Keys returns the approval keys of a call: one for each effect, bound to the content of the tool's descriptor and to what the call
// requests beyond its sandbox. Commands that differ only in spelling have the same key, as have calls with different justifications. The
// plugin's discriminators can only make a key narrower.
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
		keys = append(keys, digest(key))
	}
	return keys
}
