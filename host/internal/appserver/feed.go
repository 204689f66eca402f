package appserver

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/gantry-agent/gantry/config"
	"github.com/gantry-agent/gantry/host/internal/appserver/dynamictool"
	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/hub"
	"github.com/gantry-agent/gantry/host/internal/protocol"
	"github.com/gantry-agent/gantry/host/internal/rpc"
	"github.com/gantry-agent/gantry/host/internal/transcript"
)

// feed follows a running thread for all of its subscribers. Its events are folded once. It ends with the thread.
type feed struct {
	server *Server
	thread *hub.Thread
	leave  func() // ends attendance
	end    context.CancelFunc
	done   chan struct{}  // closed when it has ended
	upto   uint64         // number of the last event that was stored when the feed began
	caught chan struct{}  // closed when that is folded
	cfg    *config.Config // of the thread's folder when it was loaded
	past   hub.History
	tools  *dynamictool.Serving[*subscription]
	goal   *hub.Goal // as clients know it; used by run only

	mu        sync.Mutex
	fold      transcript.Fold
	settings  event.Settings // of the next turn
	model     string         // label of the model, where settings has none
	seq       uint64         // number of the last stored event that was folded
	began     uint64         // number of the first event of the last turn
	subs      []*subscription
	questions []*question // pending, in the order in which they were asked
	ended     bool
}

// feedOf returns the feed of a thread, and starts it if there is none. What was stored before is folded when it returns, so that the
// response to a client that subscribes has it. after is the number of the last stored event before the thread's running turn, or of its
// last event if it runs no turn.
func (s *Server) feedOf(ctx context.Context, t *hub.Thread, after uint64) (*feed, error) {
	f, err := s.beginFeed(ctx, t, after)
	if err != nil {
		return nil, err
	}
	select {
	case <-f.caught:
	case <-f.done:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	return f, nil
}

func (s *Server) beginFeed(ctx context.Context, t *hub.Thread, after uint64) (*feed, error) {
	for {
		s.mu.Lock()
		f := s.mu.feeds[t.ID()]
		s.mu.Unlock()
		if f == nil {
			break
		}
		if f.thread == t {
			return f, nil
		}
		select { // the thread was unloaded, or its process has ended, and it was loaded again: the old feed is about to end
		case <-f.done:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	info, err := s.cfg.Hub.Info(ctx, string(t.ID()))
	if err != nil && hub.ErrorOf(err).Code != hub.NotFound { // it is ephemeral, or not stored yet
		return nil, err
	}
	past, err := s.cfg.Hub.History(ctx, t.ID())
	if err != nil {
		return nil, err
	}
	now, err := s.effective(ctx, t)
	if err != nil {
		return nil, err
	}
	goal, err := t.Goal(ctx)
	if err != nil && hub.ErrorOf(err).Code != hub.Invalid { // it can't have one
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if f := s.mu.feeds[t.ID()]; f != nil { // another request was faster
		return f, nil
	}
	if s.mu.closing {
		return nil, errClosing
	}
	leave, err := t.Attend(ctx)
	if err != nil {
		return nil, err
	}
	events, err := t.Follow(ctx, after, hub.Coalesce)
	if err != nil {
		leave()
		return nil, err
	}
	life, end := context.WithCancel(s.life)
	f := &feed{server: s, thread: t, leave: leave, end: end, done: make(chan struct{}), cfg: now.cfg, settings: now.settings, goal: goal, seq: after,
		past: past, upto: info.Seq, caught: make(chan struct{}), tools: dynamictool.NewServing[*subscription](t.ServeTools)}
	if f.seq >= f.upto {
		close(f.caught)
	}
	s.mu.feeds[t.ID()] = f
	s.work.Go(func() { // ends with the thread or the server
		defer close(f.done)
		defer events.Close()
		f.run(life, events)
	})
	return f, nil
}

// run folds events until the thread or the feed ends.
func (f *feed) run(ctx context.Context, events *hub.Events) {
	defer f.remove()
	for {
		e, err := events.Next(ctx)
		if err != nil {
			if ctx.Err() == nil && hub.ErrorOf(err).Code != hub.Closed {
				f.server.log.Warn("thread can't be followed", "thread", f.thread.ID(), "err", err)
			}
			return
		}
		f.apply(e, f.unread(ctx, e))
		if out := f.goalAfter(ctx, e); out != nil {
			f.push(out)
		}
	}
}

// readStateTimeout limits how long a store that does not answer delays the end of a turn for clients.
const readStateTimeout = time.Second

// unread returns the read state of the thread after the end of a turn; nil: the event does not change it, no subscriber is to know, or it
// can't be read. The store may not have the end of the turn yet.
func (f *feed) unread(ctx context.Context, e event.Event) *hub.ReadState {
	if _, ended := e.Body.(event.TurnEnded); !ended || e.Seq == 0 {
		return nil
	}
	f.mu.Lock()
	began := f.began
	wanted := slices.ContainsFunc(f.subs, func(s *subscription) bool { return !s.client.optedOut(protocol.NotifyThreadReadStateChanged.Name) })
	f.mu.Unlock()
	if !wanted {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, readStateTimeout)
	defer cancel()
	state, err := f.past.ReadState(ctx)
	if err != nil && hub.ErrorOf(err).Code != hub.NotFound {
		f.server.log.Debug("read state not sent", "thread", f.thread.ID(), "err", err)
		return nil
	}
	state = state.Ended(e.Turn, began)
	if state.First != e.Turn { // an earlier turn is unread, so that the state stays as it is
		return nil
	}
	return &state
}

// remove ends the feed and its subscriptions.
func (f *feed) remove() {
	f.server.mu.Lock()
	delete(f.server.mu.feeds, f.thread.ID())
	f.server.mu.Unlock()
	f.leave()
	f.tools.Close()
	f.mu.Lock()
	f.ended = true
	subs := f.subs
	f.subs = nil
	f.mu.Unlock()
	for _, s := range subs {
		s.finish()
	}
}

// apply folds an event and passes its notifications on. A question becomes a request. unread is the read state after the event; nil: it
// stays as it is.
func (f *feed) apply(e event.Event, unread *hub.ReadState) {
	f.mu.Lock()
	defer f.mu.Unlock()
	changes := f.fold.Apply(e)
	before := f.seq
	if e.Seq != 0 {
		if f.seq < f.upto && e.Seq >= f.upto {
			close(f.caught)
		}
		f.seq = e.Seq
	}
	out := make([]*outgoing, 0, len(changes)+1)
	if r, ok := e.Body.(event.QuestionResolved); ok {
		if i := slices.IndexFunc(f.questions, func(q *question) bool { return q.asked.ID == r.ID }); i >= 0 {
			q := f.questions[i]
			f.questions = slices.Delete(f.questions, i, i+1)
			out = append(out, &outgoing{method: protocol.NotifyServerRequestResolved.Name, seq: before, params: q.resolved(), except: q.claimed})
		}
	}
	if b, ok := e.Body.(event.TurnStarted); ok && (!b.Resumed || f.began == 0) {
		f.began = e.Seq
	}
	for i, c := range changes {
		if unread != nil && c.Method == protocol.NotifyThreadStatusChanged.Name { // the end of the turn, as far as clients are concerned
			out, unread = append(out, f.readState(*unread)), nil
		}
		out = append(out, &outgoing{method: c.Method, params: c.Params, seq: f.seq, part: part(e, i, changes)})
	}
	if f.changed(e.Body) {
		out = append(out, &outgoing{method: protocol.NotifyThreadSettingsUpdated.Name, seq: f.seq, params: protocol.ThreadSettingsUpdatedNotification{
			ThreadID: string(f.thread.ID()), ThreadSettings: f.threadSettings(),
		}})
	}
	if a, ok := e.Body.(event.QuestionAsked); ok {
		if q := f.questionOf(e, a); q != nil {
			f.questions = append(f.questions, q)
			out = append(out, &outgoing{question: q, seq: f.seq})
		}
	}
	for _, s := range f.subs {
		s.push(out...)
	}
}

// push passes a notification on that is not about an event.
func (f *feed) push(out *outgoing) {
	f.mu.Lock()
	defer f.mu.Unlock()
	out.seq = f.seq
	for _, s := range f.subs {
		s.push(out)
	}
}

// readState announces the read state of the thread.
func (f *feed) readState(r hub.ReadState) *outgoing {
	return &outgoing{method: protocol.NotifyThreadReadStateChanged.Name, seq: f.seq, unnumbered: true, params: protocol.ThreadReadStateChangedNotification{
		ThreadID: string(f.thread.ID()), ReadState: readState(r),
	}}
}

// part returns the position of a change among those of its event, from 1 on; 0: it is the last one. A client that has got only some of
// them can ask for the others.
func part(e event.Event, i int, changes []transcript.Change) int {
	if e.Seq == 0 || i == len(changes)-1 {
		return 0
	}
	return i + 1
}

// changed records a change of the settings, and reports whether the event is one. A turn that changes the model has an event of its own
// for that.
func (f *feed) changed(b event.Body) bool {
	switch b := b.(type) {
	case event.SettingsChanged:
		f.settings = b.Settings
	case event.ModelChanged:
		f.model, f.settings.Model = b.To.Model, ""
	default:
		return false
	}
	return true
}

// threadSettings converts the settings of the thread.
func (f *feed) threadSettings() protocol.ThreadSettings {
	set := f.settings
	e := effective{set, f.cfg}
	model := cmp.Or(set.Model, f.model, f.thread.Started().Model)
	provider := f.thread.Started().Provider
	for _, m := range f.cfg.Models {
		if m.Label == model {
			provider = m.Provider
		}
	}
	return protocol.ThreadSettings{
		Cwd: cmp.Or(set.Cwd, f.cwd()), ApprovalPolicy: e.approval(), ApprovalsReviewer: e.reviewer(), SandboxPolicy: e.sandbox(),
		ActivePermissionProfile: e.profile(), Model: model, ModelProvider: provider, Effort: orNull(set.Reasoning),
		CollaborationMode: protocol.CollaborationMode{Mode: protocol.ModeDefault, Settings: protocol.CollaborationModeSettings{Model: model}},
	}
}

// subscribe adds a subscription that begins with the next event. With prepare, which is called while no event is folded, the caller reads
// what the subscription begins with.
func (f *feed) subscribe(s *subscription, prepare func()) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ended {
		return false
	}
	if prepare != nil {
		prepare()
	}
	f.subs = append(f.subs, s)
	return true
}

// unsubscribe removes a subscription.
func (f *feed) unsubscribe(s *subscription) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.subs = slices.DeleteFunc(f.subs, func(x *subscription) bool { return x == s })
}

// pending returns a question that is pending.
func (f *feed) pending(id rpc.ID) *question {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, q := range f.questions {
		if rpc.StringID(q.id()) == id {
			return q
		}
	}
	return nil
}

// cwd returns the folder in which the thread was started.
func (f *feed) cwd() string { return f.thread.Started().Cwd }

// folder returns the folder in which the thread works.
func (f *feed) folder() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return cmp.Or(f.settings.Cwd, f.cwd())
}
