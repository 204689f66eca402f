package threadsocket

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/rpc"
	"github.com/gantry-agent/gantry/host/internal/thread"
)

// subscription sends the events of a thread to a client.
type subscription struct {
	session *session
	id      uint64
	only    string
	ctx     context.Context
	end     context.CancelFunc
	wake    chan struct{} // one slot: the client takes more events

	mu   sync.Mutex
	room int // how many events the client takes
}

// subscribe starts a subscription, which ends with the connection, with the thread, or when the client says so.
func (s *session) subscribe(ctx context.Context, t *served, p SubscribeParams) (r SubscribeResult, err error) {
	if (p.Attend || p.Tools) && s.launched {
		return r, errFamily
	}
	if p.Only != "" && p.Only != OnlyStates && p.Only != OnlyNone {
		return r, rpc.Errorf(rpc.InvalidParams, "%s: only is %q; it must be %q, %q or absent", methodSubscribe, p.Only, OnlyStates, OnlyNone)
	}
	policy := thread.Disconnect
	if p.Merge {
		policy = thread.Coalesce
	}
	unuse := func() {}
	if p.Only == "" {
		if unuse, err = s.server.use(t.ID()); err != nil {
			return r, err
		}
	}
	defer func() {
		if err != nil {
			unuse()
		}
	}()
	from, err := t.Subscribe(ctx, policy)
	if err != nil {
		return r, err
	}
	// Events before the thread's first turn in this process are repeated, also to a client that has some of them.
	after := min(p.After, from.Last())
	if p.After == FromNow {
		after = from.After()
	}
	if after < from.After() {
		// The log is written asynchronously: wait until the events to replay are stored.
		if err := t.Barrier(ctx, from.After()); err != nil {
			from.Close()
			return r, fmt.Errorf("replay the thread's events: %w", err)
		}
	}
	// It belongs to the thread too, which waits for it when it ends.
	life, done, err := t.begin(context.WithoutCancel(ctx))
	if err != nil {
		from.Close()
		return r, err
	}
	sub := &subscription{session: s, id: p.Subscription, only: p.Only, wake: make(chan struct{}, 1), room: Window}
	sub.ctx, sub.end = context.WithCancel(life)
	leave := func() {}
	if p.Tools { // from the response on, because a call of a tool does not wait for clients
		leave = t.Approvals().ServeTools()
	}
	release := func() {
		leave()
		from.Close()
		sub.end()
		done()
	}
	run := func() {
		defer t.subs.Done()
		defer unuse()
		defer release()
		if p.Attend {
			attend, wait := t.Approvals().Attend(), t.Wait()
			defer func() { attend(); wait() }()
		}
		lagged := sub.send(t, from, after)
		// The thread doesn't wait for a client that reads nothing.
		s.conn.Post(fmt.Sprint(sub.id), rpc.Notification{Method: noteUnsubscribed, Params: endNote{sub.id, lagged}})
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.mu.subs, sub.id)
	}
	t.subs.Add(1)
	if err := s.start(sub, run); err != nil {
		t.subs.Done()
		release()
		return r, err
	}
	return SubscribeResult{Thread: t.ID(), Cwd: t.Settings().Cwd, After: after}, nil
}

var (
	errSubscribed = errors.New("this connection has used the number of the subscription already")
	errLeft       = errors.New("the connection is closing")
)

// start runs a subscription.
func (s *session) start(sub *subscription, run func()) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var err error
	switch {
	case s.mu.closed:
		err = errLeft
	case s.mu.subs[sub.id] != nil:
		err = errSubscribed
	}
	if err != nil {
		return err
	}
	s.mu.subs[sub.id] = sub
	s.work.Go(run) // ends with the connection, or with the thread
	return nil
}

// notified receives a notification of the client.
func (s *session) notified(_ context.Context, method string, params json.RawMessage) {
	var n receivedNote
	if json.Unmarshal(params, &n) != nil {
		return
	}
	s.mu.Lock()
	sub, v := s.mu.subs[n.Subscription], s.mu.views[n.Subscription]
	s.mu.Unlock()
	switch {
	case v != nil && method == noteUnsubscribe:
		s.work.Go(v.Close) // ends soon: the connection does not wait for the thread
	case sub == nil: // it has ended
	case method == noteUnsubscribe:
		sub.end()
	case method == noteReceived:
		sub.mu.Lock()
		sub.room = min(sub.room+max(n.Events, 0), Window)
		sub.mu.Unlock()
		select {
		case sub.wake <- struct{}{}:
		default:
		}
	}
}

// wants reports whether the client has asked for an event.
func (sub *subscription) wants(e event.Event) bool {
	switch sub.only {
	case OnlyNone:
		return false
	case OnlyStates:
		switch e.Body.(type) {
		case event.ThreadStarted, event.TurnStarted, event.TurnEnded, event.QuestionAsked, event.QuestionResolved, event.ThreadNamed, event.ThreadArchived,
			event.ThreadReverted:
			return true
		}
		return false
	}
	return true
}

// deliver sends an event as soon as the client takes one.
func (sub *subscription) deliver(e event.Event) error {
	if !sub.wants(e) {
		return nil
	}
	for {
		sub.mu.Lock()
		free := sub.room > 0
		if free {
			sub.room--
		}
		sub.mu.Unlock()
		if free {
			return sub.session.conn.Notify(sub.ctx, rpc.Notification{Method: noteEvent, Params: eventNote{sub.id, e}})
		}
		select {
		case <-sub.wake:
		case <-sub.ctx.Done():
			return context.Cause(sub.ctx)
		}
	}
}

// send replays the stored events and continues with new ones. Numbers ensure that there are no gaps or duplicates. lagged means that the
// client should subscribe again.
func (sub *subscription) send(t *served, from *thread.Subscription, after uint64) (lagged bool) {
	if after < from.After() && sub.only != OnlyNone {
		for e, err := range t.Events(sub.ctx, after) {
			if err != nil {
				if sub.ctx.Err() == nil {
					sub.session.server.log.Warn("events not replayed", "thread", t.ID(), "err", err)
				}
				return true
			}
			if e.Seq > from.After() {
				break
			}
			if sub.deliver(e) != nil {
				return false
			}
		}
	}
	for {
		e, err := from.Next(sub.ctx)
		if err != nil {
			return errors.Is(err, thread.ErrLagged)
		}
		if e.Seq != 0 {
			if e.Seq <= after {
				continue // the client has it
			}
			// The client outlives this process. It must not have seen an event that the log lacks afterwards, because another one would
			// get its number. A store that can't write doesn't keep it from watching.
			if err := t.Committed(sub.ctx, e.Seq); err != nil && sub.ctx.Err() != nil {
				return false
			}
		}
		if sub.deliver(e) != nil {
			return false
		}
	}
}
