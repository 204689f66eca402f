package hint_test

import (
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/gantry-agent/gantry/config/hint"
)

type quiet struct{ error }

func (quiet) NextStep() string { return "" }
func (q quiet) Unwrap() error  { return q.error }

// stated keeps its next step out of its message.
type stated struct{}

func (stated) Error() string    { return "broken" }
func (stated) NextStep() string { return "repair it" }

func TestSplit(t *testing.T) {
	full := hint.New("the disk is full", "make room")
	for _, test := range []struct {
		err           error
		message, next string
	}{
		{io.EOF, "EOF", ""},
		{full, "the disk is full", "make room"},
		{fmt.Errorf("open: %w", full), "open: the disk is full", "make room"},
		{fmt.Errorf("open: %w (twice)", full), "open: the disk is full (twice)", "make room"},
		{errors.Join(io.EOF, full), "EOF\nthe disk is full", "make room"},
		{hint.With(full, "buy another"), "the disk is full; next: make room", "buy another"},
		{quiet{full}, "the disk is full", "make room"},
		{fmt.Errorf("run: %w", stated{}), "run: broken", "repair it"},
		{errors.New("a model wrote; next: this"), "a model wrote; next: this", ""}, // it is part of the message
	} {
		if message, next := hint.Split(test.err); message != test.message || next != test.next {
			t.Errorf("%v: %q, %q, want %q, %q", test.err, message, next, test.message, test.next)
		}
	}
	if !errors.Is(hint.With(io.EOF, "stop"), io.EOF) {
		t.Error("the error itself is lost")
	}
}
