package parity_test

import (
	"bufio"
	"encoding/json"
	"maps"
	"net"
	"path/filepath"
	"testing"
	"time"
)

// door is the socket of the process that runs a thread.
type door struct {
	t      *testing.T
	thread string
	conn   net.Conn
	in     *bufio.Reader
	last   int
}

// door opens the thread's socket. Its process must run.
func (s *scenario) door() *door {
	s.t.Helper()
	conn, err := net.Dial("unix", filepath.Join(s.Home, "run", s.thread+".sock"))
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { conn.Close() })
	return &door{t: s.t, thread: s.thread, conn: conn, in: bufio.NewReader(conn)}
}

// accepted is what became of something that was said to a thread.
type accepted struct {
	Turn    string
	Steered bool
}

// ask sends a request and waits for what is answered; refused is the text of an error.
func (d *door) ask(method string, params map[string]any) (got accepted, refused string) {
	d.t.Helper()
	d.last++
	named := map[string]any{"threadId": d.thread}
	maps.Copy(named, params)
	if err := d.conn.SetDeadline(time.Now().Add(patience)); err != nil {
		d.t.Fatal(err)
	}
	if _, err := d.conn.Write(append(wire(map[string]any{"id": d.last, "method": method, "params": named}), '\n')); err != nil {
		d.t.Fatal(err)
	}
	line, err := d.in.ReadBytes('\n')
	if err != nil {
		d.t.Fatal(err)
	}
	var answer struct {
		ID     int
		Result accepted
		Error  struct{ Message string }
	}
	if err := json.Unmarshal(line, &answer); err != nil || answer.ID != d.last {
		d.t.Fatalf("%s was answered with %s", method, line)
	}
	return answer.Result, answer.Error.Message
}

// say hands over what a user says, and returns what became of it.
func (d *door) say(text string) accepted {
	d.t.Helper()
	got, refused := d.ask("gantry/thread/start", map[string]any{"text": text})
	if refused != "" {
		d.t.Fatalf("%q is refused: %s", text, refused)
	}
	return got
}

// interrupt stops the turn that runs.
func (d *door) interrupt() {
	d.t.Helper()
	if _, refused := d.ask("gantry/thread/interrupt", nil); refused != "" {
		d.t.Fatalf("the interrupt is refused: %s", refused)
	}
}
