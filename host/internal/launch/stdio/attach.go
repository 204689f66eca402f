package stdio

import (
	"context"
	"errors"
	"os"
	"sync"
	"time"
)

// Errors of Attach.
var (
	// ErrAttached: another Attach is running. End that first.
	ErrAttached = errors.New("the process is attached already")
	// ErrHandedOver: the plugin has received the descriptors for good, and reads them itself.
	ErrHandedOver = errors.New("the descriptors of the process were handed over")
)

const (
	// attachChunk limits one Output; a pipe holds 64 KiB.
	attachChunk = 32 << 10
	// trailing is how long output is read after the process has ended: descendants may keep the pipe open.
	trailing = 100 * time.Millisecond
	// maxPipe is the largest pipe that an unprivileged process can make, unless the system's limit has been raised.
	maxPipe = 1 << 20
)

// Input is a part of stdin.
type Input struct {
	Data  []byte
	Close bool // stdin ends after Data; ignored for a terminal
}

// Output is a part of what a process wrote.
type Output struct {
	Stderr bool   // false: stdout or the terminal
	Data   []byte // valid until emit returns
}

// Attach feeds stdin from the channel and passes output to emit, one part at a time, until the process has ended, which closes exited,
// and its output has been read. Nothing more is read before emit returns, so that a fast process waits in its write. While a session
// has no Attach its output stays in the pipe, and the next Attach reads it.
//
// Attach returns early with the cause of ctx, or with an error of emit; the process keeps running. A closed channel leaves stdin open.
func (s *Streams) Attach(ctx context.Context, exited <-chan struct{}, stdin <-chan Input, emit func(Output) error) error {
	files, err := s.attach()
	if err != nil {
		return err
	}
	defer s.detach(files)
	ctx, cancel := context.WithCancelCause(ctx)
	var work, pumps sync.WaitGroup
	defer work.Wait()
	defer cancel(nil)
	// Deadlines end reads and writes that block: all with ctx, and reads with the process as well.
	work.Go(func() {
		select {
		case <-exited:
			setReadDeadlines(files, time.Now())
			<-ctx.Done()
		case <-ctx.Done():
		}
		setDeadlines(files, time.Now())
	})
	if in := firstOf(files, Stdin, Terminal); in != nil {
		work.Go(func() { s.feed(ctx, in, stdin) })
	}
	pieces := make(chan piece)
	pumps.Go(func() { s.pump(ctx, firstOf(files, Stdout, Terminal), false, pieces) })
	if f := files[Stderr]; f != nil {
		pumps.Go(func() { s.pump(ctx, f, true, pieces) })
	}
	work.Go(func() {
		pumps.Wait()
		close(pieces)
	})
	for piece := range pieces {
		if ctx.Err() == nil {
			if err := emit(piece.Output); err != nil {
				cancel(err)
			}
		}
		close(piece.done)
	}
	select {
	case <-exited:
	case <-ctx.Done():
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	s.cfg.Taken()
	return nil
}

// piece is output for emit; done is closed when the buffer may be reused.
type piece struct {
	Output
	done chan struct{}
}

// pump reads one descriptor until it is closed. Descendants may keep it open after the process has ended, and keep writing: from then
// on, pump stops at a pause, or after it has read as much as a pipe can hold.
func (s *Streams) pump(ctx context.Context, f *os.File, stderr bool, pieces chan<- piece) {
	buf := make([]byte, attachChunk)
	ended, rest := false, maxPipe
	for ctx.Err() == nil && rest > 0 {
		n, err := f.Read(buf)
		if ended {
			rest -= n
		}
		if data := s.within(buf[:n]); len(data) > 0 {
			m := piece{Output: Output{Stderr: stderr, Data: data}, done: make(chan struct{})}
			pieces <- m // Attach receives until pumps have returned
			<-m.done
		}
		if err != nil && (ended || !errors.Is(err, os.ErrDeadlineExceeded)) {
			return // closed; EIO for a terminal
		}
		if err != nil {
			ended = true
		}
		if ended {
			f.SetReadDeadline(time.Now().Add(trailing))
		}
	}
}

// attach takes the files for one Attach.
func (s *Streams) attach() (map[string]*os.File, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.mu.handed:
		return nil, ErrHandedOver
	case s.mu.attached:
		return nil, ErrAttached
	}
	files := make(map[string]*os.File, len(s.mu.files))
	for name, f := range s.mu.files {
		// A plugin may have made its duplicates blocking, which affects ours.
		setNonblock(f)
		files[name] = f
	}
	if firstOf(files, Stdout, Terminal) == nil {
		return nil, os.ErrClosed
	}
	s.mu.attached = true
	return files, nil
}

func (s *Streams) detach(files map[string]*os.File) {
	setDeadlines(files, time.Time{})
	s.mu.Lock()
	s.mu.attached = false
	s.mu.Unlock()
}

// feed writes stdin until it ends. It drops input after the process has closed its end.
func (s *Streams) feed(ctx context.Context, in *os.File, stdin <-chan Input) {
	broken := false
	for {
		select {
		case m, ok := <-stdin:
			if !ok {
				return
			}
			if len(m.Data) > 0 && !broken {
				_, err := in.Write(m.Data)
				broken = err != nil
			}
			if m.Close {
				s.CloseStdin()
				return
			}
		case <-ctx.Done():
			return
		}
	}
}

// within cuts output at the limit.
func (s *Streams) within(data []byte) []byte {
	limit := s.cfg.OutputBytes
	if limit == 0 {
		return data
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	keep := min(int64(len(data)), max(0, limit-s.mu.passed))
	s.mu.passed += keep
	s.mu.dropped += int64(len(data)) - keep
	return data[:keep]
}

// Dropped returns how many bytes of output Attach has dropped beyond the limit.
func (s *Streams) Dropped() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.dropped
}

func firstOf(files map[string]*os.File, names ...string) *os.File {
	for _, name := range names {
		if f := files[name]; f != nil {
			return f
		}
	}
	return nil
}

func setDeadlines(files map[string]*os.File, t time.Time) {
	for _, f := range files {
		f.SetDeadline(t)
	}
}

func setReadDeadlines(files map[string]*os.File, t time.Time) {
	for name, f := range files {
		if name != Stdin {
			f.SetReadDeadline(t)
		}
	}
}
