package console

import (
	"bufio"
	"os"
	"strings"
)

// LineReader reads lines from a terminal. It only reads while a line is expected, so that input typed at other times stays in the
// terminal, where it can be discarded. It is not safe for concurrent use.
type LineReader struct {
	Terminal *os.File
	Done     <-chan struct{}

	want    chan struct{}
	lines   chan string // closed at the end of the input
	waiting bool        // a line is expected and has not arrived
	stale   bool        // that line may have been typed before the last call of Forget
}

// Line returns the channel for the next line. Call [LineReader.Taken] after receiving it.
func (t *LineReader) Line() <-chan string {
	if t.lines == nil {
		t.want, t.lines = make(chan struct{}, 1), make(chan string)
		go t.read() // owned by the terminal: exits with its input, with Done, or with the process
	}
	if !t.waiting {
		t.waiting = true
		select {
		case t.want <- struct{}{}:
		default: // the reader exits at the end of the input
		}
	}
	return t.lines
}

// Taken records that the line was received. It reports false for a line that must be discarded: it was already expected when Forget was
// called, so it may have been typed before.
func (t *LineReader) Taken() (current bool) {
	current = !t.stale
	t.waiting, t.stale = false, false
	return current
}

// Forget discards everything typed so far. The goroutine that reads may have a line that it has not passed on yet, and can't be asked. So
// the first line after Forget is discarded too if it was expected before: a person types an answer again rather than approving what they
// have not read.
func (t *LineReader) Forget() {
	discardTyped(t.Terminal)
	if !t.waiting {
		return
	}
	select { // a line for a question that ended without it
	case <-t.lines:
		t.waiting, t.stale = false, false
	default:
		t.stale = true
	}
}

// read blocks in the terminal and cannot be interrupted there.
func (t *LineReader) read() {
	defer close(t.lines)
	in := bufio.NewReader(t.Terminal)
	for {
		select {
		case <-t.want:
		case <-t.Done:
			return
		}
		line, err := in.ReadString('\n')
		if err != nil {
			return
		}
		select {
		case t.lines <- strings.TrimSpace(line):
		case <-t.Done:
			return
		}
	}
}
