package render

import (
	"bytes"
	"fmt"
	"io"
	"sync"
)

// Screen is where progress and questions meet. While a question is open, progress is kept back and comes behind the
// answer: what is typed then stands right behind what it answers.
type Screen struct {
	Out io.Writer
	mu  struct {
		sync.Mutex
		asking  bool
		midLine bool
		kept    bytes.Buffer
		dropped int
	}
}

// maxKept is how much progress is kept back. It is only shown; the thread has what the calls printed.
const maxKept = 1 << 20

// Write shows progress, or keeps it.
func (s *Screen) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.mu.asking {
		return s.show(p)
	}
	n := min(len(p), max(maxKept-s.mu.kept.Len(), 0))
	s.mu.kept.Write(p[:n])
	s.mu.dropped += len(p) - n
	return len(p), nil
}

// show writes at once; the lock is held.
func (s *Screen) show(p []byte) (int, error) {
	if len(p) > 0 {
		s.mu.midLine = p[len(p)-1] != '\n'
	}
	return s.Out.Write(p)
}

// Ask opens a question, on a line of its own.
func (s *Screen) Ask(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.midLine {
		text = "\n" + text
	}
	s.mu.asking = true
	_, _ = s.show([]byte(text)) // nobody reads: the question stays open as it would on a screen that is off
}

// Say adds to an open question.
func (s *Screen) Say(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, _ = s.show([]byte(text)) // as in ask
}

// Done closes the question and shows what came meanwhile.
func (s *Screen) Done() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.asking = false
	_, _ = s.show(s.mu.kept.Bytes()) // as in ask
	s.mu.kept.Reset()
	if n := s.mu.dropped; n > 0 {
		s.mu.dropped = 0
		_, _ = s.show(fmt.Appendf(nil, "\n… and %d bytes more, which are not shown\n", n)) // as in ask
	}
}
