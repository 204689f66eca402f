package console_test

import (
	"os"
	"testing"

	"github.com/gantry-agent/gantry/host/internal/cli/console"
)

// A line that was expected for a question that ended without it does not answer the next one, even if it arrives after that appeared.
func TestALineForAnEarlierQuestion(t *testing.T) {
	in, typist, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	done := make(chan struct{})
	defer close(done)
	typed := console.LineReader{Terminal: in, Done: done}
	typing := func(line string) {
		t.Helper()
		if _, err := typist.WriteString(line + "\n"); err != nil {
			t.Fatal(err)
		}
	}
	for range 100 {
		typed.Forget() // for the first question, which is answered elsewhere
		first := typed.Line()
		typed.Forget() // for the second question
		typing("meant for the first")
		if first != typed.Line() {
			t.Fatal("there are two channels")
		}
		if line := <-first; typed.Taken() {
			t.Fatalf("%q answers the second question", line)
		}
		typing("again")
		if line := <-typed.Line(); !typed.Taken() || line != "again" {
			t.Fatalf("%q does not answer the second question", line)
		}
	}

	typed.Line()
	typed.Forget()
	if err := typist.Close(); err != nil {
		t.Fatal(err)
	}
	if line, more := <-typed.Line(); more {
		t.Errorf("%q after the end of the input", line)
	}
}
