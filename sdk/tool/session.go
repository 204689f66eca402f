package tool

import (
	"errors"

	"github.com/gantry-agent/gantry/sdk/contract"
	gantryv1 "github.com/gantry-agent/gantry/sdk/proto/gantry/v1"
)

// ErrSessionOver is returned by Write after the session has been reported as over, or after its thread has ended.
var ErrSessionOver = errors.New("tool: the session is over")

// Session is something that outlives the call that opened it, such as a terminal, a kernel or a browser. It is safe for
// concurrent use.
type Session struct {
	id     string
	thread *Thread

	// Guarded by the thread's lock.
	written int64
	ended   bool

	// Owned by the stream that holds the thread's sending token.
	sent int64  // offset after the last delta
	tail []byte // an incomplete character after it
}

// sessionEnded is the end of a session on its way through the queue.
type sessionEnded struct {
	contract.SessionExited
	session *Session
}

// OpenSession reports that something outlives the call that opened it. The plugin chooses the id, which is unique in its
// thread and is also used in Result.SessionID and StopSession. Every session must be ended with Exited, Denied or Lost.
func (t *Thread) OpenSession(id, callID, title string) *Session {
	s := &Session{id: id, thread: t}
	t.event(contract.SessionOpened{SessionID: id, CallID: callID, Title: title})
	return s
}

// ResumeSession continues a session that an earlier process of the plugin opened: see [Plugin.Adopt]. at is the position in
// its output at which Write continues, counted from when the session was opened. The host never displays output twice, so a
// plugin should start with the oldest output that it still has.
func (t *Thread) ResumeSession(id, callID, title string, at int64) *Session {
	s := &Session{id: id, thread: t, written: at, sent: at}
	t.event(contract.SessionOpened{SessionID: id, CallID: callID, Title: title, Resumed: true})
	return s
}

// Skip omits n bytes of output, which are displayed as a gap.
func (s *Session) Skip(n int64) {
	s.thread.mu.Lock()
	defer s.thread.mu.Unlock()
	s.written += max(n, 0)
}

// ID is the session's ID.
func (s *Session) ID() string { return s.id }

// Thread is the session's thread.
func (s *Session) Thread() *Thread { return s.thread }

// Write displays output of the session as it appears, collected in the same way as a call's output. It blocks while the
// host is slow. If the host doesn't listen to the thread at all, output that doesn't fit is dropped, and the offsets show
// the gap.
func (s *Session) Write(p []byte) (int, error) {
	rest := p
	for len(rest) > 0 {
		var over bool
		alive := s.thread.put(func(listening bool) bool {
			n := min(len(rest), maxThreadBytes-s.thread.mu.bytes)
			switch {
			case s.ended:
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

// Exited reports that the session is over. For a signal n, the code is 128+n. Only the first of Exited, Denied and Lost has
// an effect.
func (s *Session) Exited(code int) { s.end(contract.SessionEndExited, code) }

// Denied reports that the sandbox ended the session.
func (s *Session) Denied(code int) { s.end(contract.SessionEndDenied, code) }

// Lost reports that the outcome of the session is unknown.
func (s *Session) Lost() { s.end(contract.SessionEndLost, 0) }

func (s *Session) end(how contract.SessionEnd, code int) {
	exited := contract.SessionExited{SessionID: s.id, End: how, ExitCode: int32(code)}
	s.thread.put(func(listening bool) bool {
		if s.ended || !s.thread.addEventLocked(sessionEnded{SessionExited: exited, session: s}, listening) {
			return s.ended
		}
		s.ended = true
		return true
	})
}

// send sends output as deltas. If it does not follow the previous output, the incomplete character before it is sent first.
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
