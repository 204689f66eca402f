package session

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/gantry-agent/gantry/sdk/process"
)

// Watcher is shown a session while a person looks at it. Its methods must not block.
type Watcher interface {
	// Output gets output at an offset from the beginning. p is valid during the call.
	Output(offset int64, p []byte)
	// Resized gets the new size of the terminal.
	Resized(process.Size)
}

// Watch shows the end of the output to a watcher, and all further output, until stop is called.
func (s *Session) Watch(w Watcher) (stop func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if tail := s.mu.tail.Bytes(); len(tail) > 0 {
		w.Output(s.mu.end-int64(len(tail)), tail)
	}
	s.mu.watchers = append(s.mu.watchers, w)
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.mu.watchers = slices.DeleteFunc(s.mu.watchers, func(x Watcher) bool { return x == w })
	}
}

// Over is closed when the process has ended and its output has been read.
func (s *Session) Over() <-chan struct{} { return s.over }

// Size returns the size of the terminal. It returns 24 rows and 80 columns, as which every terminal begins, if the system does not say.
func (s *Session) Size() process.Size {
	if size, ok := windowSize(s.out); ok {
		return size
	}
	return process.Size{Rows: 24, Cols: 80}
}

// Resize changes the size of the terminal, which tells the program.
func (s *Session) Resize(size process.Size) error {
	if !s.TTY {
		return errors.New("the session has no terminal")
	}
	if err := s.process.Resize(size); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, w := range s.mu.watchers {
		w.Resized(size)
	}
	return nil
}

// Type types what a person has typed. Unlike [Session.Input], it waits while a call is typing.
func (s *Session) Type(ctx context.Context, text string) error {
	s.mu.Lock()
	s.mu.lastUsed = time.Now()
	s.mu.Unlock()
	if !s.TTY {
		return ErrClosedStdin
	}
	select {
	case <-s.typing:
	case <-s.exited:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return s.write(ctx, text)
}

// Ended says for people how the session has ended.
func (s *Session) Ended() string {
	code, known := s.Code()
	switch {
	case !known:
		return "the program has ended; its exit code is not known"
	case s.Denied():
		return fmt.Sprintf("the program has exited with code %d; the sandbox has probably blocked it", code)
	}
	return fmt.Sprintf("the program has exited with code %d", code)
}
