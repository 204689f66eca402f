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

	"github.com/gantry-agent/gantry/plugins/shell/internal/output"
)

const (
	// maxSessions is the maximum number of sessions of a thread. When it is reached, a new session evicts another one.
	maxSessions = 64
	// protectedSessions is the number of most recently used sessions that are never evicted.
	protectedSessions = 8
	// maxEnded is the number of ended sessions that are remembered for a thread.
	maxEnded = 16
	// maxHeld is the number of latest ended sessions that can be handed over to the next process of the plugin. Memory and
	// descriptors of their output are kept, as are those of sessions whose output is still open in other processes.
	maxHeld = 4
	// stopTime limits the time for stopping an evicted session.
	stopTime = 5 * time.Second

	minID, maxID = 1000, 99999
)

// Store contains the sessions of all threads. It is safe for concurrent use.
type Store struct {
	stopWaiting chan struct{} // closed by StopWaiting
	once        sync.Once
	releasing   sync.WaitGroup

	mu struct {
		sync.Mutex
		threads map[string]*thread
	}
}

// thread contains the sessions of a thread. It is guarded by the store's lock.
type thread struct {
	sessions map[int]*Session
	reserved map[int]bool
	ended    []*Session // oldest first
	// retired contains the IDs of ended sessions that the model knows. They are not reused, so that input for the old session
	// can't reach a new one.
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

// Reserve returns an unused session ID, which must be passed to Add or Cancel.
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
	return 0, errors.New("no session ID is available") // after tens of thousands of sessions in one thread
}

func (t *thread) knowsLocked(id int) bool {
	return t.sessions[id] != nil || t.reserved[id] || t.retired[id] ||
		slices.ContainsFunc(t.ended, func(s *Session) bool { return s.ID == id })
}

// all returns the sessions that are running or remembered.
func (t *thread) all() []*Session {
	return slices.AppendSeq(slices.Clone(t.ended), maps.Values(t.sessions))
}

// Cancel releases a reserved ID.
func (st *Store) Cancel(threadID string, id int) {
	st.mu.Lock()
	defer st.mu.Unlock()
	if t := st.mu.threads[threadID]; t != nil {
		delete(t.reserved, id)
	}
}

// ErrThreadEnded is returned by Add if the thread has ended since the ID was reserved. The process was stopped.
var ErrThreadEnded = errors.New("the thread has ended")

// Add adds a started program as a session with a reserved ID. If the thread has its maximum number of sessions, another one is
// stopped; see victimLocked.
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
		_ = victim.Stop(ctx) // otherwise the host ends it with the thread
	}
	st.release(forgotten)
	st.releaseEnded(light)
	return s, nil
}

// victimLocked returns the session to evict, or nil: the least recently used one that has ended, or else the least recently used one.
// The most recently used sessions, and those that a call interacts with, are exempt.
func (t *thread) victimLocked() *Session {
	all := slices.SortedFunc(maps.Values(t.sessions), func(a, b *Session) int { return a.used().Compare(b.used()) })
	all = all[:max(0, len(all)-protectedSessions)]
	var live *Session
	for _, s := range all {
		if len(s.interaction) == 0 { // acquired
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

// endLocked moves a session to the ended ones. It returns the session that is no longer remembered in exchange, or nil, and those whose
// resources can be released.
func (t *thread) endLocked(s *Session) (forgotten *Session, light []*Session) {
	delete(t.sessions, s.ID)
	if s.opened() {
		t.retired[s.ID] = true
	}
	s.shrink()
	t.ended = append(t.ended, s)
	if len(t.ended) > maxEnded {
		forgotten = t.ended[0]
		t.ended = slices.Delete(t.ended, 0, 1)
	}
	return forgotten, slices.Clone(t.ended[:max(0, len(t.ended)-maxHeld)])
}

// releaseEnded releases sessions whose output has ended.
func (st *Store) releaseEnded(all []*Session) {
	for _, s := range all {
		select {
		case <-s.closed:
			st.release(s)
		default: // a process is still writing; closing the pipe would kill it
		}
	}
}

// release closes the output of a session and releases its resources. It waits for the session's goroutines, unless the process could
// not be stopped; then they end when the host ends the process. The host is notified in the background, so that no call has to wait.
// s may be nil.
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
			st.releasing.Go(func() { _ = s.process.Release() }) // otherwise the host releases it with the thread
		}
	})
}

// Get returns a session that is running, or whose last output has not been returned. Otherwise the error is an *[UnknownError].
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

// UnknownError reports an ID without a session. Ended is the ended session with this ID, if it is remembered.
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
	return output.Text(s.tailLocked())
}

// tailLocked returns the end of the output. Its first character may be incomplete.
func (s *Session) tailLocked() []byte {
	b := s.mu.tail.Bytes()
	return b[max(0, len(b)-tailBytes):]
}

// shrink keeps only what is remembered after the end.
func (s *Session) shrink() {
	s.mu.Lock()
	defer s.mu.Unlock()
	small := output.NewTail(tailBytes)
	_, _ = small.Write(s.tailLocked()) // never fails
	s.mu.tail = small
}

// Finish moves a session whose last output was returned to the ended sessions, which are remembered for a while.
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

// Stop stops a session. An unknown ID is not an error.
func (st *Store) Stop(ctx context.Context, threadID string, id int) error {
	s, err := st.Get(threadID, id)
	if err != nil {
		return nil
	}
	return s.Stop(ctx)
}

// End stops all sessions of a thread and removes them.
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

// StopWaiting ends all present and future waits in Collect, because another process of the plugin is about to take over.
func (st *Store) StopWaiting() { st.once.Do(func() { close(st.stopWaiting) }) }

// Close stops reading output, so that none is lost when this process ends, and waits until that is done. The sessions keep running:
// the host keeps them for the next process of the plugin, or ends them.
func (st *Store) Close(ctx context.Context) error {
	st.mu.Lock()
	var all []*Session
	for _, t := range st.mu.threads {
		all = append(all, t.all()...)
	}
	st.mu.Unlock()
	done := make(chan struct{})
	// Owned by Close: readers end when their descriptors are closed, and each release has a timeout.
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
