package workbench

import (
	"context"
	"sync"

	"github.com/gantry-agent/gantry/host/internal/protocol"
	"github.com/gantry-agent/gantry/host/internal/rpc"
)

// Limits of the memory of sessions: for the files that all sessions of a connection keep, in bytes, and what a file needs besides its
// path. Beyond it a session covers the files that it has, the shallow ones first.
const (
	maxIndex = 128 << 20
	perFile  = 48
)

// session is a search whose query changes. Its files are found once.
type session struct {
	id    string
	roots []string // of the request
	stop  context.CancelCauseFunc
	wake  chan struct{} // has an element when there is a new query, or when all files were found

	mu       sync.Mutex
	query    string
	revision int // of the query
	files    []found
	size     int // of their memory
	complete bool
}

// FuzzyFileSearchSessionStart implements fuzzyFileSearch/sessionStart. The caller calls begin once it has answered the request: then the
// client is notified of the empty result of the empty query.
func (b *searches) FuzzyFileSearchSessionStart(_ context.Context, q protocol.FuzzyFileSearchSessionStartParams) (begin func(), err error) {
	if q.SessionID == "" {
		return nil, rpc.Errorf(rpc.InvalidRequest, "sessionId must not be empty")
	}
	w, err := b.searchWalk(q.Roots)
	if err != nil {
		return nil, err
	}
	if err := b.enter(); err != nil {
		return nil, err
	}
	s := &session{id: q.SessionID, roots: q.Roots, wake: make(chan struct{}, 1)}
	b.bench.mu.Lock() // the connection must not end meanwhile
	defer b.bench.mu.Unlock()
	ctx, cancel := context.WithCancelCause(b.bench.life)
	s.stop = cancel
	if err := b.open(s); err != nil || b.bench.life.Err() != nil {
		b.leave()
		cancel(nil)
		if err == nil {
			err = errClosed
		}
		return nil, err
	}
	answered, begin := context.WithCancel(ctx)
	b.bench.work.Go(func() {
		defer b.leave()
		<-answered.Done()
		b.runSession(ctx, s, w)
	})
	return begin, nil
}

// open adds a session.
func (s *searches) open(n *session) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sessions == nil {
		s.sessions = map[string]*session{}
	}
	if s.sessions[n.id] != nil {
		return rpc.Errorf(rpc.InvalidRequest, "duplicate sessionId %q", n.id)
	}
	s.sessions[n.id] = n
	return nil
}

// FuzzyFileSearchSessionUpdate implements fuzzyFileSearch/sessionUpdate. The result comes as notifications: one or more
// fuzzyFileSearch/sessionUpdated, then fuzzyFileSearch/sessionCompleted, unless the next query comes first.
func (b *searches) FuzzyFileSearchSessionUpdate(_ context.Context, q protocol.FuzzyFileSearchSessionUpdateParams) error {
	b.mu.Lock()
	s := b.sessions[q.SessionID]
	b.mu.Unlock()
	if s == nil {
		return rpc.Errorf(rpc.InvalidRequest, "no session with sessionId %q", q.SessionID)
	}
	s.mu.Lock()
	s.query = q.Query
	s.revision++
	s.mu.Unlock()
	s.signal()
	return nil
}

// FuzzyFileSearchSessionStop implements fuzzyFileSearch/sessionStop. That there is no such session is no error.
func (b *searches) FuzzyFileSearchSessionStop(_ context.Context, q protocol.FuzzyFileSearchSessionStopParams) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if s := b.sessions[q.SessionID]; s != nil {
		s.stop(errStopped)
		delete(b.sessions, q.SessionID)
	}
	return nil
}

func (s *session) signal() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// runSession finds files and answers queries until the session ends.
func (b *searches) runSession(ctx context.Context, s *session, w *walk) {
	var work sync.WaitGroup
	defer func() {
		work.Wait()
		b.take(-s.size)
	}()
	work.Go(func() {
		ctx, full := context.WithCancel(ctx)
		defer full()
		w.run(ctx, func(int) {}, func(_ int, list []found) {
			if !s.add(list, b) {
				full()
			}
		})
		s.mu.Lock()
		s.complete = true
		s.mu.Unlock()
		s.signal()
	})
	s.signal() // for the empty query
	answered, final := -1, false
	for {
		select {
		case <-s.wake:
		case <-ctx.Done():
			return
		}
		s.mu.Lock()
		query, revision, files, complete := s.query, s.revision, s.files, s.complete
		s.mu.Unlock()
		if revision == answered && (final || !complete) {
			continue
		}
		list, ok := s.answer(ctx, query, revision, files)
		if !ok { // there is another query
			s.signal()
			continue
		}
		b.bench.cfg.Notify("fuzzyFileSearch/sessionUpdated", protocol.FuzzyFileSearchSessionUpdatedNotification{SessionID: s.id, Query: query, Files: list})
		answered, final = revision, complete || len(query) == 0
		if final {
			b.bench.cfg.Notify("fuzzyFileSearch/sessionCompleted", protocol.FuzzyFileSearchSessionCompletedNotification{SessionID: s.id})
		}
	}
}

// add adds files. It reports whether there is room for more.
func (s *session) add(list []found, all *searches) bool {
	size := 0
	for _, f := range list {
		size += len(f.path) + perFile
	}
	if !all.take(size) {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.size += size
	s.files = append(s.files, list...)
	return true
}

// take reserves memory for files. A negative size gives it back.
func (s *searches) take(size int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.index+size > maxIndex {
		return false
	}
	s.index += size
	return true
}

// answer returns the matches of a query. ok is false if it was replaced meanwhile.
func (s *session) answer(ctx context.Context, query string, revision int, files []found) (list []protocol.FuzzyFileSearchResult, ok bool) {
	p, ok := newPattern(query)
	if !ok {
		return []protocol.FuzzyFileSearchResult{}, true
	}
	const batch = 4096 // files, which take some milliseconds
	t := newTop(p)
	for i, f := range files {
		if i%batch == 0 && (ctx.Err() != nil || s.replaced(revision)) {
			return nil, false
		}
		t.add(f)
	}
	return merge([]*top{t}, s.roots), true
}

func (s *session) replaced(revision int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.revision != revision
}
