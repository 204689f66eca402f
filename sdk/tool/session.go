package tool

import (
	"errors"

	"github.com/gantry-agent/gantry/sdk/contract"
	gantryv1 "github.com/gantry-agent/gantry/sdk/proto/gantry/v1"
)

// ErrSessionOver is returned by Write after the session was told to be over, or after its thread has ended.
var ErrSessionOver = errors.New("tool: the session is over")

// Session is something that outlives the call that opened it: a terminal, a kernel, a browser. It may be used by several
// goroutines.
type Session struct {
	id     string
	thread *Thread

	// Guarded by the thread's lock.
	written int64
	over    bool

	// Owned by whoever holds the thread's turn.
	sent int64  // the offset after the last delta
	tail []byte // the beginning of a character
}

// sessionOver is the end of a session on its way through the queue.
type sessionOver struct {
	contract.SessionExited
	session *Session
}

// OpenSession tells that something outlives the call that opened it. The id is the plugin's own, unique in its thread;
// it is also what Result.SessionID and StopSession name. Every session must be ended by Exited, Denied or Lost.
func (t *Thread) OpenSession(id, callID, title string) *Session {
	s := &Session{id: id, thread: t}
	t.event(contract.SessionOpened{SessionID: id, CallID: callID, Title: title})
	return s
}

// ResumeSession goes on with a session that an earlier process of the plugin has opened: see [Plugin.Adopt]. at is the
// position in its output where Write goes on, counted from the moment when it was opened. Of what was shown already the
// host shows nothing twice, so a plugin begins with the oldest output that it still has.
func (t *Thread) ResumeSession(id, callID, title string, at int64) *Session {
	s := &Session{id: id, thread: t, written: at, sent: at}
	t.event(contract.SessionOpened{SessionID: id, CallID: callID, Title: title, Resumed: true})
	return s
}

// Skip leaves out n bytes of output, which shows as a gap.
func (s *Session) Skip(n int64) {
	s.thread.mu.Lock()
	defer s.thread.mu.Unlock()
	s.written += max(n, 0)
}

// ID of the session.
func (s *Session) ID() string { return s.id }

// Thread of the session.
func (s *Session) Thread() *Thread { return s.thread }

// Write shows output of the session as it appears, gathered as a call's output is. It waits while the host is slow; when
// the host does not listen to the thread at all, what finds no room is dropped, and the gap shows in the offsets.
func (s *Session) Write(p []byte) (int, error) {
	rest := p
	for len(rest) > 0 {
		var over bool
		alive := s.thread.put(func(listening bool) bool {
			n := min(len(rest), maxThreadBytes-s.thread.mu.bytes)
			switch {
			case s.over:
				over = true
			case n > 0:
				s.thread.addOutputLocked(s, s.written, rest[:n])
				s.written += int64(n)
				rest = rest[n:]
			case listening:
				return false
			default:
				s.written += int64(len(rest))
				rest = nil
			}
			return true
		})
		if !alive || over {
			return len(p) - len(rest), ErrSessionOver
		}
	}
	return len(p), nil
}

// Exited tells that the session is over. A signal n is the code 128+n. Only the first of Exited, Denied and Lost counts.
func (s *Session) Exited(code int) { s.end(contract.SessionEndExited, code) }

// Denied tells that the sandbox ended the session.
func (s *Session) Denied(code int) { s.end(contract.SessionEndDenied, code) }

// Lost tells that nobody knows what became of the session.
func (s *Session) Lost() { s.end(contract.SessionEndLost, 0) }

func (s *Session) end(how contract.SessionEnd, code int) {
	exited := contract.SessionExited{SessionID: s.id, End: how, ExitCode: int32(code)}
	s.thread.put(func(listening bool) bool {
		if s.over || !s.thread.addEventLocked(sessionOver{SessionExited: exited, session: s}, listening) {
			return s.over
		}
		s.over = true
		return true
	})
}

// send cuts output into deltas. A gap flushes what waited for the rest of a character.
func (s *Session) send(offset int64, p []byte, send func(*gantryv1.ThreadResponse) error) error {
	if offset != s.sent+int64(len(s.tail)) {
		if err := s.flush(send); err != nil {
			return err
		}
		s.sent = offset
	}
	return s.deltas(append(s.tail, p...), false, send)
}

func (s *Session) flush(send func(*gantryv1.ThreadResponse) error) error {
	return s.deltas(s.tail, true, send)
}

func (s *Session) deltas(p []byte, last bool, send func(*gantryv1.ThreadResponse) error) error {
	for {
		n := nextDelta(p, last)
		if n == 0 {
			s.tail = append([]byte(nil), p...)
			return nil
		}
		out := &gantryv1.SessionOutput{SessionId: s.id, Offset: s.sent, Data: p[:n]}
		if err := send(&gantryv1.ThreadResponse{Event: &gantryv1.ThreadResponse_SessionOutput{SessionOutput: out}}); err != nil {
			return err
		}
		s.sent += int64(n)
		p = p[n:]
	}
}
