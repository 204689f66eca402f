package output

import (
	"io"
	"sync"
	"sync/atomic"
	"unicode"
)

// Bounds on what may come before the handshake: runtimes and package managers print a few lines of warnings. Beyond them
// a plugin is refused at once, since it is most likely no plugin.
const (
	MaxOutputLines = 20
	MaxOutputBytes = 8 << 10
	maxStdoutLine  = 16 << 10 // a handshake line with a certificate is under 8 KiB
)

// Verdict is what a [Stdout] found.
type Verdict struct {
	// Line is what Accept returned; empty with Err.
	Line string
	Err  error
}

// OutputLimitError: no handshake within the bounds.
type OutputLimitError struct{ Lines, Bytes int }

func (e *OutputLimitError) Error() string {
	return "printed too much before the handshake line"
}

// Stdout reads a plugin's standard output for as long as it lasts.
type Stdout struct {
	// Accept judges a line that looks like a handshake, which is a number and a bar, and returns the line to pass on. It
	// is called once. A line for which it returns [ErrOutputLimit] counts as noise after all.
	Accept func(line string) (string, error)

	verdict chan Verdict

	mu struct {
		sync.Mutex
		printed []string
	}
	dropped atomic.Int64
	started atomic.Bool // the verdict is out
}

// NewStdout returns a reader that starts with Run.
func NewStdout(accept func(line string) (string, error)) *Stdout {
	return &Stdout{Accept: accept, verdict: make(chan Verdict, 1)}
}

// Verdict receives one value: when the handshake was accepted or refused, when there was too much else, or when the output
// ended without one.
func (s *Stdout) Verdict() <-chan Verdict { return s.verdict }

// Printed is what came before the handshake, fit to be shown.
func (s *Stdout) Printed() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.mu.printed...)
}

// Dropped counts the bytes that came after the handshake and were thrown away.
func (s *Stdout) Dropped() int64 { return s.dropped.Load() }

// Run reads until r ends or fails. It never stops before: a plugin that nobody listens to would block.
func (s *Stdout) Run(r io.Reader) {
	var noiseLines, noiseBytes int
	lines(r, maxStdoutLine, func(piece []byte, whole bool) {
		if s.started.Load() {
			s.dropped.Add(int64(len(piece)) + 1)
			return
		}
		if whole && looksLikeHandshake(piece) {
			line, err := s.Accept(string(piece))
			if err != ErrOutputLimit {
				s.keep(piece)
				s.decide(Verdict{line, err})
				return
			}
		}
		noiseLines++
		noiseBytes += len(piece) + 1
		if noiseLines > MaxOutputLines || noiseBytes > MaxOutputBytes {
			s.keep(piece[:min(len(piece), 256)])
			s.decide(Verdict{Err: &OutputLimitError{noiseLines, noiseBytes}})
			return
		}
		s.keep(piece)
	})
	if !s.started.Load() {
		s.decide(Verdict{Err: errEnd})
	}
}

// ErrOutputLimit is returned by an Accept for a line that isn't a handshake after all.
var ErrOutputLimit = errNoise{}

type errNoise struct{}

func (errNoise) Error() string { return "not a handshake line" }

// Ended tells whether a verdict only says that the output ended.
func Ended(err error) bool { return err == errEnd }

func (s *Stdout) keep(piece []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.printed = append(s.mu.printed, Clean(piece))
}

func (s *Stdout) decide(v Verdict) {
	s.started.Store(true)
	s.verdict <- v // has room for the one value that is ever sent
}

// looksLikeHandshake: digits, then a bar.
func looksLikeHandshake(b []byte) bool {
	for i, c := range b {
		if c == '|' {
			return i > 0
		}
		if !unicode.IsDigit(rune(c)) {
			return false
		}
	}
	return false
}
