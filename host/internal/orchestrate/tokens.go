package orchestrate

import (
	"context"
	"crypto/rand"
	"errors"
	"slices"
	"sync"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/launch"
	"github.com/gantry-agent/gantry/host/internal/policy"
	"github.com/gantry-agent/gantry/sdk/contract"
)

// Live is a call that runs: what a plugin may do in its name. It ends with the call's result, and everything that was begun
// in its name has ended before.
type Live struct {
	Call     Call
	Plugin   string
	Pipeline *Pipeline
	Grant    launch.Grant
	// Nested is the gate of the calls that this one makes.
	Nested *Gate
	item   event.ItemID
	// ReadOnly says that what runs in the call's name changes nothing, as the call said before it was decided on.
	ReadOnly bool
	// commands are those that the call said it would start, and that were decided on; wide says that they run outside of the sandbox,
	// bound that nothing else may run with what they were given, builtIn that the plugin comes with gantry.
	commands []contract.ExecEffect
	wide     bool
	bound    bool
	builtIn  bool
	ctx      context.Context // ends with the call
	cancel   context.CancelCauseFunc
	token    string
	// paused tells the plugin that a person is being asked (true) or not any more; nil: it need not know.
	paused func(bool)
	// committed is closed when the call's start is stored, or uncommitted says why not; nil: it was before the call began.
	committed   chan struct{}
	uncommitted error

	work sync.WaitGroup // of Join
	mu   struct {
		sync.Mutex
		ended bool
		notes []string // of the host's, for the model
	}
}

// ErrEnded says that a call has its result: nothing more is done in its name.
var ErrEnded = errors.New("the call has ended")

// begin makes a call live and gives it a token. The caller ends it.
func (r *run) begin(ctx context.Context, g launch.Grant) *Live {
	l := &Live{Call: r.call, Plugin: r.entry.Plugin, Pipeline: r.pipeline, Grant: g, Nested: &Gate{}, item: r.item.id()}
	for _, e := range r.assessment.Effects {
		if x, ok := e.(contract.ExecEffect); ok {
			l.commands = append(l.commands, x)
		}
	}
	l.ReadOnly, l.builtIn = r.assessment.ReadOnly, r.builtIn()
	l.wide = r.escalation != nil && r.escalation.Unsandboxed
	asked := r.call.Sandbox == policy.FullAccess && r.call.Approval == policy.Untrusted && !l.builtIn
	l.bound = r.escalation != nil || len(l.commands) > 0 && asked
	l.ctx, l.cancel = context.WithCancelCause(ctx)
	l.token = r.pipeline.tokens.issue(l)
	return l
}

// end takes the token back, ends what is still done in the call's name and waits for it. Idempotent.
func (l *Live) end() {
	l.Pipeline.tokens.revoke(l.token)
	l.mu.Lock()
	l.mu.ended = true
	l.mu.Unlock()
	l.cancel(ErrEnded)
	l.work.Wait()
}

// Join is for work in the call's name: the returned context ends with ctx and with the call, which waits for done. It
// returns once the call's start is stored; when that failed, or after the call's end ([ErrEnded]), there is nothing to do.
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

// note adds to a result what the host has to say of the call, and returns what the model would not read there: there is no result, or
// the call that made this one takes its structure.
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

// tell notes what is to be said of the call. false: it has its result.
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

// Wait tells the plugin of this call, and those of the calls that it was made from, that a person is being asked, until
// the returned function is called: their deadlines stand still. A nil Live has nobody to tell.
func (l *Live) Wait() (done func()) {
	var told []func(bool)
	for ; l != nil; l = l.Call.parent {
		if l.paused != nil {
			l.paused(true)
			told = append(told, l.paused)
		}
	}
	return func() {
		for _, paused := range told {
			paused(false)
		}
	}
}

// Tokens binds call tokens to live calls, and thread tokens to what a plugin may say in a thread outside any call. A token is
// unguessable; a call's is dead after the result, a thread's when the plugin is told that the thread is over.
type Tokens struct {
	mu      sync.Mutex
	live    map[string]*Live
	threads map[string]threadScope
	broken  []brokenCall // oldest first
	outside []session    // that run outside of the sandbox; oldest first
	typed   []typedIn    // the one typed into last is the last
}

// typedIn is what stands in a session's line.
type typedIn struct {
	in   session
	line policy.Typed
}

// maxTypedIn bounds how many of them are remembered: more than are used at a time.
const maxTypedIn = 256

// session is one that a call left running; without an id, any that the plugin has in the thread.
type session struct {
	plugin string
	thread event.ThreadID
	id     string
}

// maxOutside bounds how many of them are remembered: more than a plugin may have open.
const maxOutside = 1024

// brokenCall is a call whose plugin took it and gave no result.
type brokenCall struct {
	plugin string
	thread event.ThreadID
	call   event.CallID
}

// maxBroken bounds what is remembered of them. A process that comes after another asks within seconds.
const maxBroken = 256

// threadScope is what a thread token stands for. It gives no right to processes, tools, questions or the model: these are
// for calls, which were approved.
type threadScope struct {
	plugin string
	thread event.ThreadID
}

// NewTokens makes an empty set.
func NewTokens() *Tokens { return &Tokens{live: map[string]*Live{}, threads: map[string]threadScope{}} }

// IssueThread makes a token for a plugin's word in a thread. revoke kills it; it may be called more than once.
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

// LookupThread finds the thread behind a thread token of this plugin. A dead token, another plugin's and a call's look the
// same.
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

// Lookup finds the call behind a token of this plugin. A dead token and another plugin's token look the same.
func (t *Tokens) Lookup(plugin, token string) (*Live, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	l, ok := t.live[token]
	if !ok || l.Plugin != plugin {
		return nil, false
	}
	return l, true
}

// Note has the model read a text at the end of the result of the call for which a process was started. false: that call has its
// result, or had none.
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

// leaves notes that a session which runs outside of the sandbox goes on after its call.
func (t *Tokens) leaves(l *Live, id string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.outside = append(t.outside, session{l.Plugin, l.Call.Thread, id})
	if over := len(t.outside) - maxOutside; over > 0 {
		t.outside = t.outside[over:]
	}
}

// runsOutside tells whether a session runs outside of the sandbox, or may.
func (t *Tokens) runsOutside(plugin string, thread event.ThreadID, id string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Contains(t.outside, session{plugin, thread, id}) || slices.Contains(t.outside, session{plugin, thread, ""})
}

// typedIn is what stands in a session's line.
func (t *Tokens) typedIn(s session) policy.Typed {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, x := range t.typed {
		if x.in == s {
			return x.line
		}
	}
	return policy.Typed{}
}

// typing notes what is typed into a session.
func (t *Tokens) typing(s session, text string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	var line policy.Typed
	t.typed = slices.DeleteFunc(t.typed, func(x typedIn) bool {
		if x.in == s {
			line = x.line
		}
		return x.in == s
	})
	if line = line.After(text); line == (policy.Typed{}) {
		return
	}
	t.typed = append(t.typed, typedIn{s, line})
	if over := len(t.typed) - maxTypedIn; over > 0 {
		t.typed = t.typed[over:]
	}
}

// broke notes that a live call gets no result.
func (t *Tokens) broke(l *Live) {
	if l.wide { // what it started may be adopted, under a number that nobody knows
		t.leaves(l, "")
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.broken = append(t.broken, brokenCall{l.Plugin, l.Call.Thread, l.Call.ID})
	if over := len(t.broken) - maxBroken; over > 0 {
		t.broken = t.broken[over:]
	}
}

// Unanswered returns the calls of a plugin that run or have broken: no result of theirs has come. thread chooses those of
// one; empty: of any.
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
