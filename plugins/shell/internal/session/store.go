package session

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"
)

const (
	// maxSessions is how many sessions a thread may have. The one that nobody cares for goes when another comes.
	maxSessions = 64
	// protectedSessions of them, the ones used last, never go for that reason.
	protectedSessions = 8
	// maxEnded is how many ended sessions a thread remembers.
	maxEnded = 16
	// maxHeld of them, the latest ones, can also be handed over to the next process of the plugin, for which their output's memory
	// and descriptors are kept. So are those of a program that has left others behind which still write.
	maxHeld = 4
	// stopTime bounds the end of a session that has to go.
	stopTime = 5 * time.Second

	minID, maxID = 1000, 99999
)

// Store holds the sessions of all threads.
type Store struct {
	stopWaiting chan struct{} // closed by StopWaiting
	once        sync.Once
	releasing   sync.WaitGroup

	mu struct {
		sync.Mutex
		threads map[string]*thread
	}
}

// thread is what is held for one thread; guarded by the store's lock.
type thread struct {
	sessions map[int]*Session
	reserved map[int]bool
	ended    []*Session // oldest first
	// retired are the numbers that a model has seen of sessions that are over. They are not used again: what is meant for
	// the one must not reach the other.
	retired map[int]bool
}

// NewStore returns an empty store.
func NewStore() *Store {
	st := &Store{stopWaiting: make(chan struct{})}
	st.mu.threads = map[string]*thread{}
	return st
}

func (st *Store) threadLocked(id string) *thread {
	t := st.mu.threads[id]
	if t == nil {
		t = &thread{sessions: map[int]*Session{}, reserved: map[int]bool{}, retired: map[int]bool{}}
		st.mu.threads[id] = t
	}
	return t
}

// Reserve returns a free number. It is given back by Cancel, or used by Add.
func (st *Store) Reserve(threadID string) (int, error) {
	st.mu.Lock()
	defer st.mu.Unlock()
	t := st.threadLocked(threadID)
	for range 1000 {
		id := minID + rand.IntN(maxID-minID+1)
		if !t.knowsLocked(id) {
			t.reserved[id] = true
			return id, nil
		}
	}
	return 0, errors.New("no free session number") // after tens of thousands of sessions in one thread
}

func (t *thread) knowsLocked(id int) bool {
	return t.sessions[id] != nil || t.reserved[id] || t.retired[id] ||
		slices.ContainsFunc(t.ended, func(s *Session) bool { return s.ID == id })
}

// all returns the sessions that are running or remembered.
func (t *thread) all() []*Session {
	return slices.AppendSeq(slices.Clone(t.ended), maps.Values(t.sessions))
}

// Cancel gives a number back.
func (st *Store) Cancel(threadID string, id int) {
	st.mu.Lock()
	defer st.mu.Unlock()
	if t := st.mu.threads[threadID]; t != nil {
		delete(t.reserved, id)
	}
}

// ErrThreadEnded is returned by Add when the thread ended while the process was being started. The process was stopped.
var ErrThreadEnded = errors.New("the thread has ended")

// Add keeps a started program as a session under a reserved number. When the thread is full, the session that matters
// least ends.
func (st *Store) Add(ctx context.Context, threadID string, id int, p Program) (*Session, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTime)
	defer cancel()
	s, err := newSession(id, p, st.stopWaiting)
	if err != nil {
		return nil, errors.Join(err, p.Process.Kill())
	}
	st.mu.Lock()
	t := st.threadLocked(threadID)
	if !t.reserved[id] {
		st.mu.Unlock()
		err := s.Stop(ctx)
		st.release(s)
		return nil, errors.Join(ErrThreadEnded, err)
	}
	delete(t.reserved, id)
	var victim, forgotten *Session
	var light []*Session
	if len(t.sessions) >= maxSessions {
		if victim = t.victimLocked(); victim != nil {
			forgotten, light = t.endLocked(victim)
		}
	}
	t.sessions[id] = s
	st.mu.Unlock()
	if victim != nil {
		_ = victim.Stop(ctx) // the host ends it with the thread at the latest
	}
	st.release(forgotten)
	st.releaseEnded(light)
	return s, nil
}

// victimLocked returns the session that goes: never one of those used last, nor one that somebody interacts with; the
// one not used for longest among those that have ended, else among those that run.
func (t *thread) victimLocked() *Session {
	all := slices.SortedFunc(maps.Values(t.sessions), func(a, b *Session) int { return a.used().Compare(b.used()) })
	all = all[:max(0, len(all)-protectedSessions)]
	var live *Session
	for _, s := range all {
		if len(s.interaction) == 0 { // taken
			continue
		}
		if s.Exited() {
			return s
		}
		if live == nil {
			live = s
		}
	}
	return live
}

func (s *Session) opened() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.viewer != nil
}

func (s *Session) used() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.lastUsed
}

// endLocked moves a session to the ended ones. It returns the one that is forgotten for it, or nil, and those of which no more is kept
// than what is told of them.
func (t *thread) endLocked(s *Session) (forgotten *Session, light []*Session) {
	delete(t.sessions, s.ID)
	if s.opened() {
		t.retired[s.ID] = true
	}
	t.ended = append(t.ended, s)
	if len(t.ended) > maxEnded {
		forgotten = t.ended[0]
		t.ended = slices.Delete(t.ended, 0, 1)
	}
	return forgotten, slices.Clone(t.ended[:max(0, len(t.ended)-maxHeld)])
}

// releaseEnded lets go of what sessions hold that have nothing more to return.
func (st *Store) releaseEnded(all []*Session) {
	for _, s := range all {
		select {
		case <-s.closed:
			st.release(s)
		default: // somebody still writes: with the pipe he would end
		}
	}
}

// release lets go of a session that is not held any more, and of what others may still hold open of its output. It waits
// for the session's goroutines, unless the process could not be stopped: then they end when the host ends it. The host
// hears of it beside: no call waits for that. nil is nobody.
func (st *Store) release(s *Session) {
	if s == nil {
		return
	}
	_ = s.out.Close()
	if s.Exited() {
		s.work.Wait()
	}
	s.release.Do(func() {
		s.pending.Close()
		if s.Exited() {
			st.releasing.Go(func() { _ = s.process.Release() }) // the host forgets it with its thread at the latest
		}
	})
}

// Get returns a session that runs, or has ended and still has something to return.
func (st *Store) Get(threadID string, id int) (*Session, error) {
	st.mu.Lock()
	defer st.mu.Unlock()
	t := st.mu.threads[threadID]
	if t == nil {
		return nil, &UnknownError{ID: id}
	}
	if s := t.sessions[id]; s != nil {
		return s, nil
	}
	for _, s := range t.ended {
		if s.ID == id {
			return nil, &UnknownError{ID: id, Ended: s}
		}
	}
	return nil, &UnknownError{ID: id}
}

// UnknownError is a number without a session. Ended is the one that had it, if it is remembered.
type UnknownError struct {
	ID    int
	Ended *Session
}

// Error implements error; its text is for the model.
func (e *UnknownError) Error() string {
	text := fmt.Sprintf("Unknown process id %d", e.ID)
	if e.Ended == nil {
		return text
	}
	code, known := e.Ended.Code()
	switch {
	case !e.Ended.Exited():
		text += " (it is being stopped)"
	case !known:
		text += " (it has ended, its exit code is lost)"
	default:
		text += fmt.Sprintf(" (it exited with code %d)", code)
	}
	if tail := e.Ended.tail(); tail != "" {
		text += ". Its output ended with:\n" + tail
	}
	return text
}

func (s *Session) tail() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.tail.Text()
}

// Finish takes an ended session whose output was returned out of the store; it is remembered for a while.
func (st *Store) Finish(threadID string, s *Session) {
	st.mu.Lock()
	var forgotten *Session
	var light []*Session
	if t := st.mu.threads[threadID]; t != nil && t.sessions[s.ID] == s {
		forgotten, light = t.endLocked(s)
	}
	st.mu.Unlock()
	st.release(forgotten)
	st.releaseEnded(light)
}

// Stop ends one session. An unknown number is no error.
func (st *Store) Stop(ctx context.Context, threadID string, id int) error {
	s, err := st.Get(threadID, id)
	if err != nil {
		return nil
	}
	return s.Stop(ctx)
}

// End ends all sessions of a thread and forgets them.
func (st *Store) End(ctx context.Context, threadID string) error {
	st.mu.Lock()
	t := st.mu.threads[threadID]
	delete(st.mu.threads, threadID)
	st.mu.Unlock()
	if t == nil {
		return nil
	}
	all := t.all()
	errs := make([]error, len(all))
	var wg sync.WaitGroup
	for i, s := range all {
		wg.Go(func() {
			errs[i] = s.Stop(ctx)
			st.release(s)
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// StopWaiting ends waiting for output, now and from now on: another process of the plugin takes over.
func (st *Store) StopWaiting() { st.once.Do(func() { close(st.stopWaiting) }) }

// Close ends reading, so that nothing is lost to a process that ends, and waits for what is under way. Sessions live on: the
// host keeps them for the next process of the plugin, or ends them.
func (st *Store) Close(ctx context.Context) error {
	st.mu.Lock()
	var all []*Session
	for _, t := range st.mu.threads {
		all = append(all, t.all()...)
	}
	st.mu.Unlock()
	done := make(chan struct{})
	// Owned by Close: readers end with their descriptors, and each release has a bound of its own.
	go func() {
		defer close(done)
		for _, s := range all {
			_ = s.out.Close()
			<-s.closed
			s.release.Do(s.pending.Close)
		}
		st.releasing.Wait()
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
