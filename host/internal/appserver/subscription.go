package appserver

import (
	"context"
	"encoding/json"
	"slices"
	"sync"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/hub"
	"github.com/gantry-agent/gantry/host/internal/protocol"
	"github.com/gantry-agent/gantry/host/internal/rpc"
	"github.com/gantry-agent/gantry/host/internal/transcript"
)

// maxQueued is the size of what waits for a slow client, in bytes. Beyond it, the queue is dropped and read from the log again.
const maxQueued = 2 << 20

// outgoing is a message about a thread: a notification, or a question. All subscriptions share it.
type outgoing struct {
	method string
	params any
	seq    uint64
	part   int // see [part]
	// unnumbered: the log does not have it, so that clients which continue after its number do not get it again.
	unnumbered bool
	question   *question
	except     *client // that does not get it; nil: all do

	full, stable encoding
}

// encoding is a message as JSON, which is made once for all clients.
type encoding struct {
	once sync.Once
	raw  json.RawMessage
	err  error
}

// encoded returns the parameters as JSON, for clients that see experimental fields or that don't.
func (o *outgoing) encoded(stable bool) (json.RawMessage, error) {
	e, marshal := &o.full, protocol.Marshal
	if stable {
		e, marshal = &o.stable, protocol.MarshalStable
	}
	e.once.Do(func() { e.raw, e.err = marshal(o.params) })
	return e.raw, e.err
}

// subscription is a client's view of a thread. The feed never waits for it: deltas of an item that wait are merged, and a client that is
// further behind continues from the log.
type subscription struct {
	client *client
	feed   *feed
	gate   *gate // holds notifications back while a response must precede them
	life   context.Context
	end    context.CancelFunc

	mu       sync.Mutex
	queue    []*outgoing
	bytes    int
	behind   bool          // the queue was dropped
	last     uint64        // number of the last event whose messages the pump has taken from the queue, or that it has read from the log
	skip     int           // how many messages of the event after last the client has; used by the pump only
	finished bool          // the thread has ended
	wake     chan struct{} // has a value if there is something to do

	sent map[string]int // bytes of an open item's text that were sent; used by the pump only
}

// subscribe subscribes the client to a thread, from the event after a number on, of which it has skip messages already. prepare is called
// while the thread's events wait. If the client is subscribed already, the subscription that it has stays. Nothing is sent to it until the
// caller releases it, so that the response of a request that subscribes comes first.
func (c *client) subscribe(f *feed, after uint64, skip int, prepare func()) (release func(), err error) {
	id := f.thread.ID()
	c.mu.Lock()
	old := c.subs[id]
	closed := c.closed
	c.mu.Unlock()
	if closed {
		return nil, rpc.ErrClosed
	}
	if old != nil && old.feed == f {
		f.mu.Lock()
		defer f.mu.Unlock()
		if prepare != nil {
			prepare()
		}
		return old.gate.hold(), nil
	}
	if old != nil {
		old.close()
	}
	s := &subscription{client: c, feed: f, gate: newGate(), wake: make(chan struct{}, 1), sent: map[string]int{}, skip: skip}
	s.life, s.end = context.WithCancel(c.life)
	release = s.gate.hold()
	if !f.subscribe(s, func() {
		s.last = f.seq
		if after <= f.seq { // even if equal: the client lacks what is not stored, such as the text of open items, and the questions
			s.last, s.behind = after, true
		}
		if prepare != nil {
			prepare()
		}
	}) {
		s.end()
		return nil, errEnded
	}
	if err := s.serveTools(); err != nil {
		f.unsubscribe(s)
		s.end()
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		f.unsubscribe(s)
		f.tools.Leave(s)
		return nil, rpc.ErrClosed
	}
	c.subs[id] = s
	c.work.Go(s.pump) // ends with the subscription
	if s.behind {
		s.ring()
	}
	return release, nil
}

// latest subscribes to what happens from now on.
const latest = ^uint64(0)

// serveTools has the client run the tools of the thread's clients, unless it has said that it can't.
func (s *subscription) serveTools() error {
	if s.client.refusesTools() || len(s.feed.thread.Started().Tools) == 0 {
		return nil
	}
	if err := s.feed.tools.Join(s.life, s); err != nil {
		return err
	}
	if s.client.refusesTools() { // it has said so in the meantime, when the subscription was not known
		s.feed.tools.Refuse(s)
	}
	return nil
}

// close ends the subscription.
func (s *subscription) close() {
	s.feed.unsubscribe(s)
	s.feed.tools.Leave(s)
	s.end()
	c := s.client
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.subs[s.feed.thread.ID()] == s {
		delete(c.subs, s.feed.thread.ID())
	}
}

// finish ends the subscription when everything that waits has been sent.
func (s *subscription) finish() {
	s.mu.Lock()
	s.finished = true
	s.mu.Unlock()
	s.ring()
}

func (s *subscription) ring() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// push queues messages. The feed calls it.
func (s *subscription) push(out ...*outgoing) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, o := range out {
		if s.behind {
			break // the log has it, or will have it
		}
		if o.method != "" && s.client.optedOut(o.method) || o.except == s.client {
			continue
		}
		if n := len(s.queue); n > 0 {
			if merged, size := merge(s.queue[n-1], o); merged != nil {
				s.queue[n-1] = merged
				s.bytes += size
				continue
			}
		}
		s.queue = append(s.queue, o)
		s.bytes += size(o)
	}
	if s.bytes > maxQueued {
		s.queue, s.bytes, s.behind = nil, 0, true
	}
	s.ring()
}

// merge returns two deltas of an item as one, and the size of the second one; nil: they are not.
func merge(a, b *outgoing) (*outgoing, int) {
	params, n := mergeDeltas(a.params, b.params)
	if params == nil || a.method != b.method || a.question != nil {
		return nil, 0
	}
	return &outgoing{method: a.method, params: params, seq: b.seq}, n
}

// mergeDeltas merges the parameters of two deltas.
func mergeDeltas(a, b any) (any, int) {
	switch x := a.(type) {
	case protocol.AgentMessageDeltaNotification:
		if y, ok := b.(protocol.AgentMessageDeltaNotification); ok && x.ItemID == y.ItemID {
			x.Delta += y.Delta
			return x, len(y.Delta)
		}
	case protocol.ReasoningSummaryTextDeltaNotification:
		if y, ok := b.(protocol.ReasoningSummaryTextDeltaNotification); ok && x.ItemID == y.ItemID && x.SummaryIndex == y.SummaryIndex {
			x.Delta += y.Delta
			return x, len(y.Delta)
		}
	case protocol.ReasoningTextDeltaNotification:
		if y, ok := b.(protocol.ReasoningTextDeltaNotification); ok && x.ItemID == y.ItemID && x.ContentIndex == y.ContentIndex {
			x.Delta += y.Delta
			return x, len(y.Delta)
		}
	case protocol.FileChangePatchUpdatedNotification:
		if y, ok := b.(protocol.FileChangePatchUpdatedNotification); ok && x.ItemID == y.ItemID { // has all of the patch
			n := 0
			for _, c := range y.Changes {
				n += len(c.Path) + len(c.Diff)
			}
			return y, n
		}
	case protocol.CommandExecutionOutputDeltaNotification:
		if y, ok := b.(protocol.CommandExecutionOutputDeltaNotification); ok && x.ItemID == y.ItemID {
			x.Delta += y.Delta
			return x, len(y.Delta)
		}
	}
	return nil, 0
}

// size estimates the size of a message. Only completed items and diffs are large.
func size(o *outgoing) int {
	if _, n := mergeDeltas(o.params, o.params); n > 0 {
		return n + 200
	}
	raw, _ := o.encoded(false) // the error is reported when it is sent
	return len(raw) + 100
}

// pump sends what is queued until the subscription ends.
func (s *subscription) pump() {
	for {
		select {
		case <-s.wake:
		case <-s.life.Done():
			return
		}
		for {
			s.mu.Lock()
			queue, behind, finished := s.queue, s.behind, s.finished
			s.queue, s.bytes = nil, 0
			if n := len(queue); n > 0 {
				s.last = queue[n-1].seq
			}
			s.mu.Unlock()
			for _, o := range queue {
				if !s.send(o) {
					return
				}
			}
			if behind {
				if !s.catchUp() {
					return
				}
				continue
			}
			if len(queue) == 0 {
				if finished {
					s.close()
				}
				break
			}
		}
	}
}

// send sends a message. It returns false if the subscription has ended.
func (s *subscription) send(o *outgoing) bool {
	if !s.gate.pass(s.life) {
		return false
	}
	if o.question != nil {
		return s.client.ask(s.life, o.question) == nil
	}
	s.note(o.params)
	raw, err := o.encoded(s.client.stable())
	if err != nil {
		s.client.server.log.Error("notification not sent", "method", o.method, "err", err)
		return true
	}
	n := rpc.Notification{Method: o.method, Params: raw, EmittedAtMs: now()}
	if !o.unnumbered {
		n.Seq, n.Part = o.seq, o.part
	}
	return s.client.conn.Notify(s.life, n) == nil
}

// note records how much of the open items' texts the client has.
func (s *subscription) note(params any) {
	switch p := params.(type) {
	case protocol.ItemStartedNotification:
		s.sent[p.Item.Body.Header().ID] = 0
	case protocol.ItemCompletedNotification:
		delete(s.sent, p.Item.Body.Header().ID)
	case protocol.AgentMessageDeltaNotification:
		s.sent[p.ItemID] += len(p.Delta)
	case protocol.ReasoningSummaryTextDeltaNotification:
		s.sent[p.ItemID] += len(p.Delta)
	case protocol.ReasoningTextDeltaNotification:
		s.sent[p.ItemID] += len(p.Delta)
	case protocol.CommandExecutionOutputDeltaNotification:
		s.sent[p.ItemID] += len(p.Delta)
	}
}

// catchUp sends the events after the last message, stored ones and new ones, until it has reached the feed.
func (s *subscription) catchUp() bool {
	s.mu.Lock()
	last := s.last
	s.mu.Unlock()
	t := s.feed.thread
	read := s.client.server.beforeTurn(s.life, t.ID(), last)
	events, err := t.Follow(s.life, read, hub.Coalesce)
	if err != nil {
		s.failed(err)
		return false
	}
	defer events.Close()
	var fold transcript.Fold
	for {
		if reached, open, questions := s.attach(read); reached {
			return s.resume(open, questions)
		}
		e, err := events.Next(s.life)
		if err != nil {
			s.failed(err)
			return false
		}
		changes := fold.Apply(e)
		if e.Seq == 0 {
			continue // the feed has it
		}
		read = e.Seq
		for i, c := range changes {
			if e.Seq <= last || e.Seq == last+1 && i < s.skip || s.client.optedOut(c.Method) {
				continue // the client has it, or does not want it
			}
			if !s.send(&outgoing{method: c.Method, params: c.Params, seq: e.Seq, part: part(e, i, changes)}) {
				return false
			}
		}
	}
}

// beforeTurn returns the number of the last event before the turn to which the event after seq belongs, because only whole turns can be
// folded.
func (s *Server) beforeTurn(ctx context.Context, id event.ThreadID, seq uint64) uint64 {
	turns, err := s.cfg.Hub.Turns(ctx, id)
	if err != nil {
		return 0 // it is not stored
	}
	for _, t := range slices.Backward(turns) {
		switch {
		case t.LastSeq != 0 && t.LastSeq <= seq:
			return seq
		case t.FirstSeq <= seq+1:
			return t.FirstSeq - 1
		}
	}
	return 0
}

// failed ends a subscription that can't continue. The client has to resume the thread.
func (s *subscription) failed(err error) {
	if s.life.Err() == nil && hub.ErrorOf(err).Code != hub.Closed {
		s.client.server.log.Warn("events not replayed", "thread", s.feed.thread.ID(), "err", err)
	}
	s.close()
}

// resume sends the texts of open items that the client lacks, and the pending questions.
func (s *subscription) resume(open []protocol.ThreadItem, questions []*question) bool {
	for _, item := range open {
		if !s.resend(item) {
			return false
		}
	}
	for _, q := range questions {
		if !s.gate.pass(s.life) || s.client.ask(s.life, q) != nil {
			return false
		}
	}
	return true
}

// attach continues with the feed if it has folded nothing after the number. It returns the open items and the pending questions.
func (s *subscription) attach(read uint64) (ok bool, open []protocol.ThreadItem, questions []*question) {
	s.feed.mu.Lock()
	defer s.feed.mu.Unlock()
	if s.feed.seq > read {
		return false, nil, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.behind, s.last = false, read
	return true, s.feed.fold.Open(), append([]*question(nil), s.feed.questions...)
}

// resend sends what a client lacks of the text of an open item.
func (s *subscription) resend(item protocol.ThreadItem) bool {
	id := item.Body.Header().ID
	have, known := s.sent[id]
	turn := s.feed.turnID()
	thread := string(s.feed.thread.ID())
	if !known {
		return s.send(&outgoing{method: protocol.NotifyItemStarted.Name, seq: s.last, params: protocol.ItemStartedNotification{
			ThreadID: thread, TurnID: turn, Item: item, StartedAtMs: orZero(item.Body.Header().StartedAtMs),
		}})
	}
	switch b := item.Body.(type) {
	case protocol.AgentMessageItem:
		if have < len(b.Text) {
			return s.send(&outgoing{method: protocol.NotifyAgentMessageDelta.Name, seq: s.last, params: protocol.AgentMessageDeltaNotification{
				ThreadID: thread, TurnID: turn, ItemID: id, Delta: b.Text[have:],
			}})
		}
	case protocol.CommandExecutionItem:
		if b.AggregatedOutput != nil && have < len(*b.AggregatedOutput) {
			return s.send(&outgoing{method: protocol.NotifyCommandOutputDelta.Name, seq: s.last, params: protocol.CommandExecutionOutputDeltaNotification{
				ThreadID: thread, TurnID: turn, ItemID: id, Delta: (*b.AggregatedOutput)[have:],
			}})
		}
	}
	return true
}

func orZero(p *int64) int64 {
	if p == nil {
		return 0
	}
	return *p
}

// turnID returns the ID of the running turn.
func (f *feed) turnID() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	if t := f.fold.Turn(); t != nil {
		return t.ID
	}
	return ""
}

// hold holds a thread's notifications back until the returned function is called, so that a response precedes what the request causes.
func (c *client) hold(id event.ThreadID) (release func()) {
	c.mu.Lock()
	s := c.subs[id]
	c.mu.Unlock()
	if s == nil {
		return func() {}
	}
	return s.gate.hold()
}
