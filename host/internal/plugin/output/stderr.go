package output

import (
	"io"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
)

// Limits on standard error.
const (
	maxStderrLine = 64 << 10  // longer lines are logged in pieces
	ringBytes     = 256 << 10 // the last lines, for error reports
	crashBytes    = 64 << 10  // the beginning of a crash report; goroutine dumps can have megabytes
	ringLineBytes = 4 << 10   // of one line in an error report

	// A plugin may log in bursts, but must not fill the disk. Lines beyond these limits are not logged, but counted.
	burstLines      = 2000
	linesPerSecond  = 500
	burstBytes      = 2 << 20
	bytesPerSecond  = 512 << 10
	droppedInterval = time.Second
)

// Stderr reads a plugin's standard error to its end, logs its lines and stores the last ones.
type Stderr struct {
	logger hclog.Logger
	redact func(string) string

	mu struct {
		sync.Mutex
		ring    ring
		crash   []string
		room    int // bytes left for crash
		opened  bool
		lines   int64
		dropped int64
	}
	bucket  bucket
	pending int64     // dropped since the last log entry about that; used by Run only
	since   time.Time // time of the first of them
}

// NewStderr returns a reader. Call its Run method. redact, which may be nil, is applied to everything that is stored or logged.
func NewStderr(logger hclog.Logger, redact func(string) string) *Stderr {
	if redact == nil {
		redact = func(s string) string { return s }
	}
	s := &Stderr{logger: logger, redact: redact, bucket: bucket{lines: burstLines, bytes: burstBytes, at: time.Now()}}
	s.mu.room = crashBytes
	s.mu.ring.room = ringBytes
	return s
}

// Run reads until r ends or fails.
func (s *Stderr) Run(r io.Reader) {
	lines(r, maxStderrLine, s.line)
	s.logDropped(time.Now(), true)
}

func (s *Stderr) line(piece []byte, whole bool) {
	l := Line{Level: hclog.Debug}
	if whole {
		l = ParseLine(piece)
	} else {
		l.Message = Clean(piece)
	}
	l.Message = s.redact(l.Message)
	for i := 1; i < len(l.Fields); i += 2 {
		if v, ok := l.Fields[i].(string); ok {
			l.Fields[i] = s.redact(v)
		}
	}
	if inCrash := s.keep(piece, l.Tagged); inCrash && !l.Tagged {
		l.Level = hclog.Error
	}

	now := time.Now()
	if !s.bucket.take(now, len(piece)) {
		if s.pending++; s.pending == 1 {
			s.since = now
		}
		s.mu.Lock()
		s.mu.dropped++
		s.mu.Unlock()
	} else {
		s.logger.Log(l.Level, l.Message, l.Fields...)
	}
	s.logDropped(now, false)
}

// keep stores a line in the ring and, if a crash report has begun, in that as well.
func (s *Stderr) keep(piece []byte, tagged bool) (inCrash bool) {
	text := s.redact(Clean(piece[:min(len(piece), ringLineBytes)]))
	if len(piece) > ringLineBytes {
		text += "…"
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.lines++
	s.mu.ring.add(text)
	if !tagged && !s.mu.opened && beginsCrash(piece) {
		s.mu.opened = true
	}
	if s.mu.opened && !tagged && s.mu.room > len(text) {
		s.mu.crash = append(s.mu.crash, text)
		s.mu.room -= len(text) + 1
	}
	return s.mu.opened
}

// logDropped logs how many lines were dropped, at most once per interval.
func (s *Stderr) logDropped(now time.Time, last bool) {
	if s.pending == 0 || !last && now.Sub(s.since) < droppedInterval {
		return
	}
	s.logger.Warn("the plugin's stderr exceeds the logging limit", "dropped_lines", s.pending)
	s.pending = 0
}

// Tail returns the last n lines, oldest first.
func (s *Stderr) Tail(n int) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.ring.last(n)
}

// Crash returns the beginning of the crash report of a Go program, or nil.
func (s *Stderr) Crash() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.mu.crash...)
}

// Lines returns the number of lines so far, and how many of them were not logged.
func (s *Stderr) Lines() (total, dropped int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.lines, s.mu.dropped
}

// ring stores the last lines up to a number of bytes.
type ring struct {
	lines []string
	room  int
}

func (r *ring) add(s string) {
	r.room -= len(s) + 1
	r.lines = append(r.lines, s)
	drop := 0
	for r.room < 0 && drop < len(r.lines) {
		r.room += len(r.lines[drop]) + 1
		r.lines[drop] = "" // release the text
		drop++
	}
	r.lines = r.lines[drop:]
}

func (r *ring) last(n int) []string {
	return append([]string(nil), r.lines[max(0, len(r.lines)-n):]...)
}

// bucket limits lines and bytes per second.
type bucket struct {
	lines, bytes float64
	at           time.Time
}

func (b *bucket) take(now time.Time, n int) bool {
	if dt := now.Sub(b.at).Seconds(); dt > 0 {
		b.lines = min(burstLines, b.lines+dt*linesPerSecond)
		b.bytes = min(burstBytes, b.bytes+dt*bytesPerSecond)
		b.at = now
	}
	if b.lines < 1 || b.bytes < float64(n) {
		return false
	}
	b.lines--
	b.bytes -= float64(n)
	return true
}
