package output

import (
	"errors"
	"io"
	"sync"
	"sync/atomic"
	"unicode"
)

// Limits on the output before the handshake line. Runtimes and package managers print a few lines of warnings. A program that
// prints more is probably not a plugin, and is refused at once.
const (
	MaxOutputLines = 20
	MaxOutputBytes = 8 << 10
	maxStdoutLine  = 16 << 10 // a handshake line with a certificate is under 8 KiB
)

// Verdict is the result of [Stdout].
type Verdict struct {
	// Line is the result of Accept. It is empty if Err is set.
	Line string
	Err  error
}

// OutputLimitError is the error for a plugin that printed more than [MaxOutputLines] or [MaxOutputBytes] before the handshake
// line.
type OutputLimitError struct{ Lines, Bytes int }

// Error implements error.
func (e *OutputLimitError) Error() string {
	return "printed too much before the handshake line"
}

// Stdout reads a plugin's standard output to its end.
type Stdout struct {
	// Accept is called with a line that begins like a handshake line, with a number and a bar. It returns the line to pass on,
	// or an error if the handshake is refused. If it returns [ErrNotHandshake], reading continues with the next line.
	Accept func(line string) (string, error)

	verdict chan Verdict

	mu struct {
		sync.Mutex
		printed []string
	}
	dropped atomic.Int64
	decided atomic.Bool // the verdict has been sent
}

// NewStdout returns a reader. Call its Run method.
func NewStdout(accept func(line string) (string, error)) *Stdout {
	return &Stdout{Accept: accept, verdict: make(chan Verdict, 1)}
}

// Verdict receives one value: when the handshake has been accepted or refused, when the output before it exceeds a limit, or when
// the output has ended.
func (s *Stdout) Verdict() <-chan Verdict { return s.verdict }

// Printed returns the output up to the handshake line, cleaned for display.
func (s *Stdout) Printed() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.mu.printed...)
}

// Dropped returns how many bytes after the handshake line were discarded.
func (s *Stdout) Dropped() int64 { return s.dropped.Load() }

// Run reads until r ends or fails, even after a refused handshake, because a plugin would block if its output were not read.
func (s *Stdout) Run(r io.Reader) {
	var noiseLines, noiseBytes int
	lines(r, maxStdoutLine, func(piece []byte, whole bool) {
		if s.decided.Load() {
			s.dropped.Add(int64(len(piece)) + 1)
			return
		}
		if whole && looksLikeHandshake(piece) {
			line, err := s.Accept(string(piece))
			if err != ErrNotHandshake {
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
	if !s.decided.Load() {
		s.decide(Verdict{Err: errEnd})
	}
}

// ErrNotHandshake is returned by Accept for a line that is not a handshake line.
var ErrNotHandshake = errors.New("not a handshake line")

// Ended reports whether the error of a verdict is that the output has ended.
func Ended(err error) bool { return err == errEnd }

func (s *Stdout) keep(piece []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.printed = append(s.mu.printed, Clean(piece))
}

func (s *Stdout) decide(v Verdict) {
	s.decided.Store(true)
	s.verdict <- v // buffered; only one value is sent
}

// looksLikeHandshake reports whether b begins with digits and a bar.
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
