package render

import (
	"bytes"
	"fmt"
	"io"
	"sync"
)

// Screen displays progress and questions. While a question is open, it holds back progress, so that the typed answer directly
// follows the question.
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

// maxKept limits the progress that is held back. It is only for display; the thread has the complete output.
const maxKept = 1 << 20

// Write shows progress, or holds it back.
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

// show writes at once. The caller holds the lock.
func (s *Screen) show(p []byte) (int, error) {
	if len(p) > 0 {
		s.mu.midLine = p[len(p)-1] != '\n'
	}
	return s.Out.Write(p)
}

// Ask shows a question on a new line.
func (s *Screen) Ask(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.midLine {
		text = "\n" + text
	}
	s.mu.asking = true
	_, _ = s.show([]byte(text)) // if writing fails, the question stays open, as on a screen that is switched off
}

// Say adds text to an open question.
func (s *Screen) Say(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, _ = s.show([]byte(text)) // see Ask
}

// Done closes the question and shows the progress that was held back.
func (s *Screen) Done() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.asking = false
	_, _ = s.show(s.mu.kept.Bytes()) // see Ask
	s.mu.kept.Reset()
	if n := s.mu.dropped; n > 0 {
		s.mu.dropped = 0
		_, _ = s.show(fmt.Appendf(nil, "\n… and %d bytes more, which are not shown\n", n)) // see Ask
	}
}
