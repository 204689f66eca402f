package tool

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gantry-agent/gantry/sdk/contract"
	gantryv1 "github.com/gantry-agent/gantry/sdk/proto/gantry/v1"
	"github.com/gantry-agent/gantry/sdk/wire/convert"
)

const (
	// maxContextBytes is the maximum size of a context text that the host accepts.
	maxContextBytes = 16384
	// maxThreadBytes is the maximum amount of queued session output. When it is reached, Session.Write blocks, or drops output
	// if the host has no stream open for the thread: programs in sessions must not stall because there is no reader.
	maxThreadBytes = 256 << 10
	// maxThreadEvents is the maximum length of the queue for other events.
	maxThreadEvents = 1024
)

// Thread is a thread that uses the plugin. It is safe for concurrent use. It exists from the first call or stream of the
// thread until EndThread.
type Thread struct {
	id      string
	logger  hclog.Logger
	wake    chan struct{} // has one token when the sender should check the queue
	opened  chan struct{} // closed by the first call of open
	done    chan struct{} // closed by end
	sending chan struct{} // a token, held by the stream that is sending

	adopting chan struct{} // a token, held during an adoption
	adopted  bool          // whether nothing is left to adopt; guarded by adopting

	mu struct {
		sync.Mutex
		env      *Env
		cwd      string
		token    string
		parent   string
		root     string
		agent    string
		contexts map[string]string
		queue    []threadItem
		bytes    int           // of session output in the queue
		since    time.Time     // when the oldest output was queued
		room     chan struct{} // closed when there may be room, or when the stream ends; nil: no writer is waiting
		stream   *threadStream // the current stream; nil: none
		ended    bool
	}
}

// threadItem is an event, the key of a context text to be sent, or output of a session.
type threadItem struct {
	event   contract.ThreadEvent
	key     string
	session *Session
	offset  int64
	data    []byte
}

// threadStream is one execution of the Thread RPC.
type threadStream struct{ replaced chan struct{} }

func newThread(id string, logger hclog.Logger) *Thread {
	t := &Thread{
		id: id, logger: logger, wake: make(chan struct{}, 1), opened: make(chan struct{}), done: make(chan struct{}), sending: make(chan struct{}, 1),
		adopting: make(chan struct{}, 1),
	}
	t.mu.contexts = map[string]string{}
	return t
}

// ID is the thread's ID.
func (t *Thread) ID() string { return t.id }

// Family returns the IDs of the thread that this one works for, empty if there is none, and of the first of the threads above it, which is
// this one if there is none. It waits until the host has opened the thread.
func (t *Thread) Family(ctx context.Context) (parent, root string, err error) {
	select {
	case <-t.opened:
		t.mu.Lock()
		defer t.mu.Unlock()
		return t.mu.parent, t.mu.root, nil
	case <-ctx.Done():
		return "", "", context.Cause(ctx)
	}
}

// Agent is what the other agents of its root call the agent whose thread it is, such as "/root/a"; empty if it is no agent's, and until the
// host has opened the thread.
func (t *Thread) Agent() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.mu.agent
}

// Cwd is the thread's working folder; empty until the host has opened the thread.
func (t *Thread) Cwd() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.mu.cwd
}

// Done returns a channel that is closed when the thread has ended.
func (t *Thread) Done() <-chan struct{} { return t.done }

// State returns a store that lasts as long as the thread.
func (t *Thread) State() State {
	t.mu.Lock()
	defer t.mu.Unlock()
	return State{env: t.mu.env, scope: gantryv1.StateScope_STATE_SCOPE_THREAD, thread: t.id}
}

// ErrThreadOver is returned by Emit after the thread has ended.
var ErrThreadOver = errors.New("tool: the thread is over")

// Emit publishes a plugin-defined event in the thread's stream like [Call.Emit], but outside any call. The host opens a
// thread concurrently with its first call; until then, Emit blocks. After the thread has ended, it returns [ErrThreadOver]
// or the host's refusal.
func (t *Thread) Emit(ctx context.Context, kind string, payload any, durable bool) error {
	select {
	case <-t.opened:
	case <-t.done:
	case <-ctx.Done():
		return fmt.Errorf("emit %q: %w", kind, context.Cause(ctx))
	}
	select {
	case <-t.done:
		return ErrThreadOver
	default:
	}
	t.mu.Lock()
	env, token := t.mu.env, t.mu.token
	t.mu.Unlock()
	return env.emit(ctx, token, kind, payload, durable)
}

// Context sets the text that the model sees under key; an empty text removes it. The host sends the model only changes.
// Text beyond 16384 bytes is cut off.
func (t *Thread) Context(key, text string) {
	if text = strings.ToValidUTF8(text, "\uFFFD"); len(text) > maxContextBytes {
		t.logger.Warn("context text is cut off", "thread", t.id, "key", key, "bytes", len(text))
		text = text[:cutBefore(text, maxContextBytes)]
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if old, ok := t.mu.contexts[key]; t.mu.ended || ok && old == text || !ok && text == "" {
		return
	}
	if text == "" {
		delete(t.mu.contexts, key)
	} else {
		t.mu.contexts[key] = text
	}
	if t.mu.stream != nil {
		t.queueContextLocked(key)
	}
}

// queueContextLocked queues a key, unless it is queued already. Its text is looked up when it is sent.
func (t *Thread) queueContextLocked(key string) {
	if !slices.ContainsFunc(t.mu.queue, func(i threadItem) bool { return i.event == nil && i.session == nil && i.key == key }) {
		t.mu.queue = append(t.mu.queue, threadItem{key: key})
	}
	t.wakeSender()
}

func (t *Thread) wakeSender() {
	select {
	case t.wake <- struct{}{}:
	default:
	}
}

// put calls add with the lock held, repeatedly as the queue gets room, until add returns true, which add must do if the thread has no
// stream. put returns false if the thread has ended.
func (t *Thread) put(add func(listening bool) bool) bool {
	for {
		t.mu.Lock()
		if t.mu.ended {
			t.mu.Unlock()
			return false
		}
		done := add(t.mu.stream != nil)
		if !done && t.mu.room == nil {
			t.mu.room = make(chan struct{})
		}
		room := t.mu.room
		t.mu.Unlock()
		t.wakeSender()
		if done {
			return true
		}
		select {
		case <-room:
		case <-t.done:
			return false
		}
	}
}

// event queues an event. The event is dropped if the queue is full and the thread has no stream.
func (t *Thread) event(e contract.ThreadEvent) {
	t.put(func(listening bool) bool { return t.addEventLocked(e, listening) })
}

// addEventLocked queues or drops an event, and returns false if the event has to wait for room.
func (t *Thread) addEventLocked(e contract.ThreadEvent, listening bool) bool {
	if len(t.mu.queue) >= maxThreadEvents {
		if !listening {
			t.logger.Warn("event dropped: the host has no stream open for the thread", "thread", t.id)
		}
		return !listening
	}
	t.mu.queue = append(t.mu.queue, threadItem{event: e})
	return true
}

func (t *Thread) addOutputLocked(s *Session, offset int64, p []byte) {
	if t.mu.bytes == 0 {
		t.mu.since = time.Now()
	}
	t.mu.bytes += len(p)
	if n := len(t.mu.queue) - 1; n >= 0 {
		if last := &t.mu.queue[n]; last.session == s && last.offset+int64(len(last.data)) == offset {
			last.data = append(last.data, p...)
			return
		}
	}
	t.mu.queue = append(t.mu.queue, threadItem{session: s, offset: offset, data: append([]byte(nil), p...)})
}

// run sends the thread's events until ctx or the thread ends, or until a later call of run replaces this one.
func (t *Thread) run(ctx context.Context, send func(*gantryv1.ThreadResponse) error) error {
	me := &threadStream{replaced: make(chan struct{})}
	if err := t.attach(ctx, me); err != nil {
		return err
	}
	defer t.detach(me)
	timer := time.NewTimer(flushAfter)
	defer timer.Stop()
	for {
		batch, ended, wait := t.take()
		for _, item := range batch {
			if err := t.send(item, send); err != nil {
				return err
			}
		}
		if ended {
			return nil
		}
		timer.Stop()
		var due <-chan time.Time
		if wait > 0 {
			timer.Reset(wait)
			due = timer.C
		}
		select {
		case <-t.wake:
		case <-due:
		case <-me.replaced:
			return status.Error(codes.Aborted, "replaced by another stream for this thread")
		case <-ctx.Done():
			return status.FromContextError(ctx.Err()).Err()
		}
	}
}

func (t *Thread) attach(ctx context.Context, me *threadStream) error {
	t.mu.Lock()
	old := t.mu.stream
	t.mu.stream = me
	t.mu.Unlock()
	if old != nil {
		close(old.replaced)
	}
	select {
	case t.sending <- struct{}{}: // the previous stream has stopped sending
	case <-ctx.Done():
		t.detachStream(me)
		return status.FromContextError(ctx.Err()).Err()
	case <-me.replaced:
		return status.Error(codes.Aborted, "replaced by another stream for this thread")
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, key := range slices.Sorted(maps.Keys(t.mu.contexts)) {
		t.queueContextLocked(key)
	}
	return nil
}

func (t *Thread) detach(me *threadStream) {
	t.detachStream(me)
	<-t.sending
}

// detachStream removes a stream, and wakes writers that are waiting for room: without a stream, they drop their output.
func (t *Thread) detachStream(me *threadStream) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.mu.stream == me {
		t.mu.stream = nil
		t.signalRoomLocked()
	}
}

func (t *Thread) signalRoomLocked() {
	if t.mu.room != nil {
		close(t.mu.room)
		t.mu.room = nil
	}
}

// take removes and returns the items to be sent now. If there are none yet, wait is the time after which take should be called
// again; 0: when wake has a token.
func (t *Thread) take() (batch []threadItem, ended bool, wait time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	only := !slices.ContainsFunc(t.mu.queue, func(i threadItem) bool { return i.session == nil })
	if only && t.mu.bytes > 0 && t.mu.bytes < flushBytes && !t.mu.ended {
		if wait = flushAfter - time.Since(t.mu.since); wait > 0 {
			return nil, false, wait
		}
	}
	batch = t.mu.queue
	for i := range batch {
		if batch[i].event == nil && batch[i].session == nil {
			batch[i].event = contract.ContextText{Key: batch[i].key, Text: t.mu.contexts[batch[i].key]}
		}
	}
	t.mu.queue, t.mu.bytes = nil, 0
	t.signalRoomLocked()
	return batch, t.mu.ended, 0
}

func (t *Thread) send(item threadItem, send func(*gantryv1.ThreadResponse) error) error {
	if item.session != nil {
		return item.session.send(item.offset, item.data, send)
	}
	if e, ok := item.event.(sessionEnded); ok {
		if err := e.session.flush(send); err != nil {
			return err
		}
		return send(convert.ThreadEventToProto(e.SessionExited))
	}
	return send(convert.ThreadEventToProto(item.event))
}

// end marks the thread as ended. The stream ends after sending the queue.
func (t *Thread) end() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.mu.ended {
		t.mu.ended = true
		close(t.done)
		t.signalRoomLocked()
		t.wakeSender()
	}
}

// threads contains the threads that the plugin has served and that have not ended.
type threads struct {
	logger hclog.Logger
	mu     struct {
		sync.Mutex
		byID map[string]*Thread
	}
}

func newThreads(logger hclog.Logger) *threads {
	ts := &threads{logger: logger}
	ts.mu.byID = map[string]*Thread{}
	return ts
}

func (ts *threads) find(id string) (*Thread, bool) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	t, ok := ts.mu.byID[id]
	return t, ok
}

// get returns a thread, creating it if necessary, and sets its environment.
func (ts *threads) get(id string, env *Env) *Thread {
	ts.mu.Lock()
	t, ok := ts.mu.byID[id]
	if !ok {
		t = newThread(id, ts.logger)
		ts.mu.byID[id] = t
	}
	ts.mu.Unlock()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.mu.env = env
	return t
}

// open records the information from the host's stream.
func (t *Thread) open(cwd, token, parent, root, agent string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.mu.cwd, t.mu.token, t.mu.parent, t.mu.root = cwd, token, parent, cmp.Or(root, t.id) // hosts of earlier versions send no root
	t.mu.agent = agent
	select {
	case <-t.opened:
	default:
		close(t.opened)
	}
}

func (ts *threads) end(id string) {
	ts.mu.Lock()
	t := ts.mu.byID[id]
	delete(ts.mu.byID, id)
	ts.mu.Unlock()
	if t != nil {
		t.end()
	}
}

func (ts *threads) endAll() {
	ts.mu.Lock()
	all := slices.Collect(maps.Values(ts.mu.byID))
	clear(ts.mu.byID)
	ts.mu.Unlock()
	for _, t := range all {
		t.end()
	}
}
