package console

import (
	"bufio"
	"os"
	"strings"
)

// LineReader reads lines that a person types. It reads only while one is waited for, so that what is typed at other times
// stays with the terminal, where it can be forgotten. One goroutine at a time uses it.
type LineReader struct {
	Terminal *os.File
	Done     <-chan struct{}

	want    chan struct{}
	lines   chan string // closed at the end of the input
	waiting bool        // a line was asked for and has not come
}

// Line is where the next line comes; [LineReader.Taken] follows when it has.
func (t *LineReader) Line() <-chan string {
	if t.lines == nil {
		t.want, t.lines = make(chan struct{}, 1), make(chan string)
		go t.read() // owned by the terminal: ends with its input, with done, or with the process
	}
	if !t.waiting {
		t.waiting = true
		select {
		case t.want <- struct{}{}:
		default: // at the end of the input nobody takes it
		}
	}
	return t.lines
}

// Taken says that the line has come.
func (t *LineReader) Taken() { t.waiting = false }

// Forget takes back what was typed so far.
func (t *LineReader) Forget() {
	discardTyped(t.Terminal)
	if !t.waiting {
		return
	}
	select { // of a question that ended without it
	case <-t.lines:
		t.waiting = false
	default:
	}
}

// read can't be interrupted while it reads.
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
