// Package transcript shows a thread as turns and items: it folds the thread's events into the notifications and the history of the
// app server's protocol.
//
// It owns: which notifications an event becomes, the items of a turn, the status of a thread, and the pages of its history. It does not
// know: where events come from, who reads the notifications, and how a question is answered.
//
// Start with [Fold]. The same code folds a running thread and a stored one, so a client that has seen a turn and one that reads it later
// have the same items.
package transcript

import (
	"slices"
	"time"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/protocol"
)

// Change is a notification of a thread.
type Change struct {
	Seq    uint64 // number of the event that caused it; 0: the event was transient
	Method string
	Params any // of the type of package protocol for Method, by value
}

// Fold turns the events of one thread into notifications. Its zero value is the fold of a thread without events. It is not safe for
// concurrent use.
//
// An item ends once, before its turn does. The only exceptions are commands whose process outlives their call: they end with the process.
// A message of the model that was cut off and repeated ends without text; clients and [Turns] drop messages without text. One that was
// cut off for good ends with its text and the phase partial_answer.
type Fold struct {
	turn     *protocol.Turn
	recent   event.TurnID // the running turn, or the last one
	first    uint64       // first event of that turn
	failed   bool         // the last turn failed
	provider string       // of the running turn, or the last one
	status   protocol.ThreadStatusBody
	asked    []event.QuestionAsked
	items    []*item // open items of the running turn, in order of their start
	cutoff   []*item // messages and thoughts that were cut off; what follows decides how they end
	// sessions are the commands whose process has outlived their call, by session.
	sessions map[string]*item
	last     *protocol.AgentMessageItem // the last complete message of the running turn
	usage    *protocol.ThreadTokenUsage
	unsaid   bool               // usage was reported for an answer whose calls are running; clients get it after them, as from codex
	reviews  map[string]judging // running reviews of calls
	cwd      string             // of the running turn, or the last one
	inputs   inputs

	event   event.Event // being applied
	changes []Change
}

// Apply returns the notifications of an event, in the order in which clients get them. The fold of a thread gets all of its events, from
// the first one or from the first one of a turn on, in their order.
func (f *Fold) Apply(e event.Event) []Change {
	f.event, f.changes = e, nil
	if f.unsaid && !ofCalls(e.Body) {
		f.sayUsage()
	}
	switch b := e.Body.(type) {
	case event.ItemDelta: // first, because there are so many
		f.delta(b)
	case event.TurnStarted:
		f.begin(b)
	case event.TurnEnded:
		f.end(b)
	case event.ItemStarted:
		f.itemStarted(b.Item)
	case event.ItemCompleted:
		f.itemCompleted(b.Item)
	case event.CallStarted:
		f.typed(b)
	case event.SessionOpened:
		if it := f.byCall(b.Call); it != nil {
			it.session = b.Session
		}
	case event.SessionOutput:
		f.sessionOutput(b)
	case event.SessionExited:
		f.sessionExited(b)
	case event.QuestionAsked:
		if b.About.ForPerson() {
			f.asked = append(f.asked, b)
		}
		f.updateStatus()
	case event.QuestionResolved:
		f.asked = slices.DeleteFunc(f.asked, func(q event.QuestionAsked) bool { return q.ID == b.ID })
		f.updateStatus()
	case event.UsageReported:
		f.used(b)
	case event.StreamRetried:
		f.inputs = nil // the model begins again
		f.retried(b)
	default:
		f.report(b)
	}
	changes := f.changes
	f.event, f.changes = event.Event{}, nil
	return changes
}

// report handles events that change no turn.
func (f *Fold) report(b event.Body) {
	switch b := b.(type) {
	case event.Notice:
		f.notice(b)
	case event.SourceChanged:
		emit(f, protocol.NotifyMCPServerStatus, sourceState(f.thread(), b))
	case event.SessionControlled:
		emit(f, protocol.NotifyGantryViewControlled, protocol.GantryViewControlledNotification{
			ThreadID: f.thread(), SessionID: b.Session, Plugin: b.Plugin, Person: b.Person,
		})
	case event.TurnDiff:
		emit(f, protocol.NotifyTurnDiffUpdated, protocol.TurnDiffUpdatedNotification{ThreadID: f.thread(), TurnID: f.turnID(), Diff: b.Diff})
	case event.ReviewStarted:
		f.reviewStarted(b)
	case event.ReviewEnded:
		f.reviewEnded(b)
	case event.HookStarted:
		f.hookStarted(b)
	case event.HookCompleted:
		f.hookCompleted(b)
	case event.ThreadNamed:
		emit(f, protocol.NotifyThreadNameUpdated, protocol.ThreadNameUpdatedNotification{ThreadID: f.thread(), ThreadName: &b.Name})
	case event.ThreadArchived:
		if b.Archived {
			emit(f, protocol.NotifyThreadArchived, protocol.ThreadArchivedNotification{ThreadID: f.thread()})
		} else {
			emit(f, protocol.NotifyThreadUnarchived, protocol.ThreadUnarchivedNotification{ThreadID: f.thread()})
		}
	case event.FeatureChanged, event.InputAccepted:
		if ofQueue(b) {
			emit(f, protocol.NotifyThreadQueueChanged, protocol.ThreadQueueChangedNotification{ThreadID: f.thread()})
		}
	case event.ThreadReverted:
		f.reverted(b)
	case event.ThreadForked:
		f.total(b.Thread.Usage)
	}
}

// ofQueue reports whether an event changes the queue of the thread.
func ofQueue(b event.Body) bool {
	switch b := b.(type) {
	case event.FeatureChanged:
		return b.Feature == event.QueueFeature
	case event.InputAccepted:
		return b.Queued
	}
	return false
}

func emit[P any](f *Fold, n protocol.Notification[P], params P) {
	f.changes = append(f.changes, Change{Seq: f.event.Seq, Method: n.Name, Params: params})
}

func (f *Fold) thread() string { return string(f.event.Thread) }

// turnID returns the turn of the current event. Events outside of turns belong to the last one.
func (f *Fold) turnID() string {
	if f.event.Turn == "" {
		return string(f.recent)
	}
	return string(f.event.Turn)
}

// Turn returns the running turn, without items; nil: none is running.
func (f *Fold) Turn() *protocol.Turn {
	if f.turn == nil {
		return nil
	}
	t := *f.turn
	return &t
}

// Status returns what the thread does. It is never [protocol.NotLoadedStatus].
func (f *Fold) Status() protocol.ThreadStatus {
	if f.status == nil {
		return protocol.ThreadStatus{Body: protocol.IdleStatus{}}
	}
	return protocol.ThreadStatus{Body: f.status}
}

// Usage returns the usage of tokens so far; nil: nothing was reported.
func (f *Fold) Usage() *protocol.ThreadTokenUsage { return f.usage }

// begin starts a turn.
func (f *Fold) begin(b event.TurnStarted) {
	if f.turn != nil { // the log lacks its end
		f.close(protocol.TurnInterrupted)
	}
	f.recent, f.first, f.failed, f.last = f.event.Turn, f.event.Seq, false, nil
	f.provider, f.cwd, f.inputs = b.Provider, b.Cwd, nil
	f.turn = &protocol.Turn{
		ID: f.turnID(), Items: []protocol.ThreadItem{}, ItemsView: protocol.ItemsNotLoaded, Status: protocol.TurnInProgress,
		StartedAt: new(f.event.Time.Unix()),
	}
	f.updateStatus()
	emit(f, protocol.NotifyTurnStarted, protocol.TurnStartedNotification{ThreadID: f.thread(), Turn: *f.turn})
}

// end ends the running turn. What is still open ends before it.
func (f *Fold) end(b event.TurnEnded) {
	if f.turn == nil { // the fold began within the turn
		f.recent = f.event.Turn
		f.turn = &protocol.Turn{ID: f.turnID(), Items: []protocol.ThreadItem{}, ItemsView: protocol.ItemsNotLoaded}
	}
	t := f.turn
	t.DurationMs = &b.DurationMS
	status := protocol.TurnCompleted
	switch b.Status {
	case event.TurnInterrupted:
		status = protocol.TurnInterrupted
	case event.TurnFailed:
		status = protocol.TurnFailed
		t.Error = f.turnError(b.Error)
	}
	f.close(status)
}

// close ends the running turn with a status.
func (f *Fold) close(status protocol.TurnStatus) {
	f.endItems()
	t := f.turn
	t.Status, t.CompletedAt = status, new(f.event.Time.Unix())
	f.turn, f.failed, f.asked, f.reviews = nil, status == protocol.TurnFailed, nil, nil
	f.updateStatus()
	if t.Error != nil {
		emit(f, protocol.NotifyError, protocol.ErrorNotification{ThreadID: f.thread(), TurnID: t.ID, Error: *t.Error})
	}
	if status == protocol.TurnCompleted && f.last != nil {
		t.Items, t.ItemsView = []protocol.ThreadItem{{Body: *f.last}}, protocol.ItemsSummary
	}
	emit(f, protocol.NotifyTurnCompleted, protocol.TurnCompletedNotification{ThreadID: f.thread(), Turn: *t})
}

// updateStatus reports the status of the thread if it has changed.
func (f *Fold) updateStatus() {
	var is protocol.ThreadStatusBody = protocol.IdleStatus{}
	switch {
	case f.turn != nil:
		flags := []protocol.ActiveFlag{}
		for _, q := range f.asked {
			flag := protocol.WaitingOnUserInput
			if q.About == event.QuestionApproval || q.About == event.QuestionPermissions {
				flag = protocol.WaitingOnApproval
			}
			if !slices.Contains(flags, flag) {
				flags = append(flags, flag)
			}
		}
		slices.Sort(flags)
		is = protocol.ActiveStatus{ActiveFlags: flags}
	case f.failed:
		is = protocol.SystemErrorStatus{}
	}
	f.setStatus(is)
}

func (f *Fold) setStatus(is protocol.ThreadStatusBody) {
	if same(f.Status().Body, is) {
		return
	}
	f.status = is
	emit(f, protocol.NotifyThreadStatusChanged, protocol.ThreadStatusChangedNotification{ThreadID: f.thread(), Status: f.Status()})
}

func same(a, b protocol.ThreadStatusBody) bool {
	x, active := a.(protocol.ActiveStatus)
	y, too := b.(protocol.ActiveStatus)
	if active || too {
		return active && too && slices.Equal(x.ActiveFlags, y.ActiveFlags)
	}
	return a == b
}

// reverted drops the last turns. The thread is loaded again at the point before them.
func (f *Fold) reverted(b event.ThreadReverted) {
	for id, s := range f.sessions {
		if s.first >= b.From {
			delete(f.sessions, id)
		}
	}
	f.turn, f.items, f.cutoff, f.asked, f.failed = nil, nil, nil, nil, false
	f.total(b.Thread.Usage)
	f.setStatus(protocol.NotLoadedStatus{})
	f.updateStatus()
	emit(f, protocol.NotifyThreadReverted, protocol.ThreadRevertedNotification{ThreadID: f.thread()})
}

func millis(t time.Time) *int64 { return new(t.UnixMilli()) }
