package orchestrate

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/launch"
	"github.com/gantry-agent/gantry/host/internal/policy"
	"github.com/gantry-agent/gantry/sdk/contract"
)

// Live is a running call, and what its plugin may do in its name. It ends with the call's result, after everything that was started in
// its name has ended.
type Live struct {
	Call     Call
	Plugin   string
	Pipeline *Pipeline
	Grant    launch.Grant
	// Nested is the gate of the calls that this one makes.
	Nested *Gate
	item   event.ItemID
	// ReadOnly says that the call was assessed as one that changes nothing.
	ReadOnly bool
	commands []contract.ExecEffect // declared by the assessment and decided on
	wide     bool                  // commands run outside of the sandbox
	bound    bool                  // no other command may run under the call's grant
	builtIn  bool                  // the plugin comes with gantry
	ctx      context.Context       // ends with the call
	cancel   context.CancelCauseFunc
	abort    context.CancelCauseFunc // asks the call to stop
	token    string
	// paused tells the plugin that a person is being asked (true) or no longer is (false); nil: the plugin is not told.
	paused func(bool)
	// committed is closed when the call's start is committed, or can't be: then uncommitted is the reason. nil: the start was committed
	// before the call began, or need not be.
	committed   chan struct{}
	uncommitted error

	work sync.WaitGroup // of Join and commit
	mu   struct {
		sync.Mutex
		ended bool
		notes []string // of the host, for the model
	}
}

// ErrEnded says that a call has its result, so that nothing more can be done in its name.
var ErrEnded = errors.New("the call has ended")

// errCut is the [ErrEnded] of a call that was stopped.
var errCut = fmt.Errorf("%w before it was done", ErrEnded)

// begin issues a token for the call. The caller ends the live call.
func (r *run) begin(ctx context.Context, g launch.Grant) *Live {
	l := r.live(ctx, g)
	l.token = r.pipeline.tokens.issue(l)
	return l
}

// live returns the running call, which has no token.
func (r *run) live(ctx context.Context, g launch.Grant) *Live {
	l := &Live{Call: r.call, Plugin: r.entry.Plugin, Pipeline: r.pipeline, Grant: g, Nested: &Gate{}, item: r.item.id()}
	for _, e := range r.assessment.Effects {
		if x, ok := e.(contract.ExecEffect); ok {
			l.commands = append(l.commands, x)
		}
	}
	l.ReadOnly, l.builtIn = r.assessment.ReadOnly, r.builtIn()
	l.wide = r.decision.escalation != nil && r.decision.escalation.Unsandboxed
	asked := r.call.Sandbox == policy.FullAccess && r.call.Approval == policy.Untrusted && !l.builtIn
	l.bound = r.decision.escalation != nil || len(l.commands) > 0 && asked
	l.ctx, l.cancel = context.WithCancelCause(ctx)
	l.abort = r.abort
	return l
}

// end revokes the token, cancels what is still done in the call's name, and waits for it. Idempotent.
func (l *Live) end() {
	l.Pipeline.tokens.revoke(l.token)
	l.mu.Lock()
	l.mu.ended = true
	l.mu.Unlock()
	l.cancel(ErrEnded)
	l.work.Wait()
}

// Join begins work in the call's name, after the call's start is committed. The returned context ends with ctx and with the call, whose
// end waits for done. Join fails if the start can't be committed, and with [ErrEnded] after the call's end.
func (l *Live) Join(ctx context.Context) (_ context.Context, done func(), err error) {
	if err := l.awaitStart(ctx); err != nil {
		return nil, nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mu.ended {
		return nil, nil, ErrEnded
	}
	l.work.Add(1)
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(l.ctx, func() { cancel(context.Cause(l.ctx)) })
	return ctx, sync.OnceFunc(func() {
		stop()
		cancel(nil)
		l.work.Done()
	}), nil
}

// OnInterrupt calls f if the call is interrupted before it has its result, or ends because it was stopped, for example by its deadline.
// The call's end waits for f. OnInterrupt must be called between [Live.Join] and its done.
func (l *Live) OnInterrupt(f func()) {
	l.work.Add(1)
	context.AfterFunc(l.ctx, func() { // which always ends, with the call
		defer l.work.Done()
		if cause := context.Cause(l.ctx); !errors.Is(cause, ErrEnded) || errors.Is(cause, errCut) {
			f()
		}
	})
}

// note appends the host's notes to a result, and returns them if the model would not read them there: there is no result, or the parent
// call only uses its structured form. A parent call gets them instead, if there is one.
func (l *Live) note(result *contract.Result) (unread []string) {
	l.mu.Lock()
	notes := l.mu.notes
	l.mu.notes = nil
	l.mu.Unlock()
	if result == nil || l.Call.parent != nil && len(result.Structured) > 0 {
		unread = notes
	}
	for _, text := range notes {
		if result != nil {
			result.Parts = append(result.Parts, &contract.TextPart{Audience: contract.AudienceModel, Text: "\n" + text, Fit: contract.FitVerbatim})
		}
	}
	if l.Call.parent == nil {
		return unread
	}
	for _, text := range unread {
		l.Call.parent.tell(text)
	}
	return nil
}

// tell adds a note; false: the call already has its result.
func (l *Live) tell(text string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mu.ended {
		return false
	}
	l.mu.notes = append(l.mu.notes, text)
	return true
}

func (l *Live) awaitStart(ctx context.Context) error {
	if l.committed == nil {
		return nil
	}
	select {
	case <-l.committed:
		return l.uncommitted
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Wait suspends the deadlines of this call and of its parent calls while a person is asked, until the returned function is called. l may
// be nil.
func (l *Live) Wait() (done func()) {
	var suspended []func(bool)
	for ; l != nil; l = l.Call.parent {
		if l.paused != nil {
			l.paused(true)
			suspended = append(suspended, l.paused)
		}
	}
	return func() {
		for _, paused := range suspended {
			paused(false)
		}
	}
}

// Tokens maps call tokens to live calls, and thread tokens to threads in which a plugin may act outside of calls. A token can't be
// guessed. A call's token is valid until its result, a thread's until the plugin is told that the thread has ended.
type Tokens struct {
	mu      sync.Mutex
	live    map[string]*Live
	threads map[string]threadScope
	broken  []brokenCall // oldest first
	outside []session    // running outside of the sandbox; oldest first
	typed   []typedLine  // least recently changed first
}

// Bounds of the entries that are kept, more than are in use at a time. Of broken calls, only recent ones matter: a restarted plugin asks
// within seconds.
const (
	maxTyped   = 256
	maxOutside = 1024 // more sessions than a plugin may have open
	maxBroken  = 256
)

// typedLine is the incomplete line that calls have typed into a session.
type typedLine struct {
	session session
	line    policy.Typed
}

// session is a session of a plugin in a thread; with an empty id, each of them.
type session struct {
	plugin string
	thread event.ThreadID
	id     string
}

// brokenCall is a call that its plugin has accepted and not answered.
type brokenCall struct {
	plugin string
	thread event.ThreadID
	call   event.CallID
}

// threadScope is the plugin and thread of a thread token. The token does not allow to start processes, call tools, ask questions or use
// the model: that requires a call, which was approved.
type threadScope struct {
	plugin string
	thread event.ThreadID
}

// NewTokens makes an empty set.
func NewTokens() *Tokens { return &Tokens{live: map[string]*Live{}, threads: map[string]threadScope{}} }

// IssueThread issues a token for a plugin in a thread. revoke may be called more than once.
func (t *Tokens) IssueThread(plugin string, thread event.ThreadID) (token string, revoke func()) {
	token = rand.Text()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.threads[token] = threadScope{plugin, thread}
	return token, func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		delete(t.threads, token)
	}
}

// LookupThread finds the thread of a thread token of this plugin. It does not distinguish revoked tokens from those of other plugins and
// of calls.
func (t *Tokens) LookupThread(plugin, token string) (event.ThreadID, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	s, ok := t.threads[token]
	if !ok || s.plugin != plugin {
		return "", false
	}
	return s.thread, true
}

func (t *Tokens) issue(l *Live) (token string) {
	token = rand.Text()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.live[token] = l
	return token
}

func (t *Tokens) revoke(token string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.live, token)
}

// Lookup finds the call of a token of this plugin. It does not distinguish revoked tokens from those of other plugins.
func (t *Tokens) Lookup(plugin, token string) (*Live, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	l, ok := t.live[token]
	if !ok || l.Plugin != plugin {
		return nil, false
	}
	return l, true
}

// Note appends a text for the model to the result of the call for which a process was started; false: the call has ended.
func (t *Tokens) Note(o launch.Owner, text string) bool {
	t.mu.Lock()
	var l *Live
	for _, each := range t.live {
		if each.Plugin == o.Plugin && string(each.Call.Thread) == o.Thread && string(each.Call.ID) == o.Call {
			l = each
		}
	}
	t.mu.Unlock()
	return l != nil && l.tell(text)
}

// leaves records that a session of the call continues after it, outside of the sandbox.
func (t *Tokens) leaves(l *Live, id string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.outside = last(append(t.outside, session{l.Plugin, l.Call.Thread, id}), maxOutside)
}

// runsOutside reports whether a session may run outside of the sandbox.
func (t *Tokens) runsOutside(plugin string, thread event.ThreadID, id string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Contains(t.outside, session{plugin, thread, id}) || slices.Contains(t.outside, session{plugin, thread, ""})
}

// typedIn returns the incomplete line that was typed into a session.
func (t *Tokens) typedIn(s session) policy.Typed {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, x := range t.typed {
		if x.session == s {
			return x.line
		}
	}
	return policy.Typed{}
}

// typing records text that is typed into a session.
func (t *Tokens) typing(s session, text string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	var line policy.Typed
	t.typed = slices.DeleteFunc(t.typed, func(x typedLine) bool {
		if x.session == s {
			line = x.line
		}
		return x.session == s
	})
	if line = line.After(text); line == (policy.Typed{}) {
		return
	}
	t.typed = last(append(t.typed, typedLine{s, line}), maxTyped)
}

// Typed records text that a person has typed into a session, so that a line that the person has begun and a call completes is decided on
// as a whole.
func (t *Tokens) Typed(plugin string, thread event.ThreadID, id, text string) {
	t.typing(session{plugin, thread, id}, text)
}

// broke records that a live call gets no result.
func (t *Tokens) broke(l *Live) {
	if l.wide { // sessions that it started may be adopted, with unknown IDs
		t.leaves(l, "")
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.broken = last(append(t.broken, brokenCall{l.Plugin, l.Call.Thread, l.Call.ID}), maxBroken)
}

// last returns the last n elements.
func last[T any](list []T, n int) []T { return list[max(len(list)-n, 0):] }

// Unanswered returns the calls of a plugin that have no result: they run, or have failed. thread restricts them to one thread; empty: all.
func (t *Tokens) Unanswered(plugin string, thread event.ThreadID) []event.CallID {
	t.mu.Lock()
	defer t.mu.Unlock()
	var out []event.CallID
	for _, l := range t.live {
		if l.Plugin == plugin && (thread == "" || l.Call.Thread == thread) {
			out = append(out, l.Call.ID)
		}
	}
	for _, b := range t.broken {
		if b.plugin == plugin && (thread == "" || b.thread == thread) {
			out = append(out, b.call)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}
