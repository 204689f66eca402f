package client

import (
	"bufio"
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/host/internal/protocol"
	"github.com/gantry-agent/gantry/host/internal/rpc"
)

var update = flag.Bool("update", false, "write the threads that the transcripts in testdata make")

// line is a message of a recorded transcript.
type line struct {
	ID     string
	Method string
	Params json.RawMessage
	Seq    uint64
	Part   int
}

func transcript(t *testing.T, path string) []line {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var out []line
	for s := bufio.NewScanner(bytes.NewReader(b)); s.Scan(); {
		var l line
		if err := json.Unmarshal(s.Bytes(), &l); err != nil {
			t.Fatal(err)
		}
		out = append(out, l)
	}
	return out
}

// threadOf returns the thread that the first message is about.
func threadOf(t *testing.T, l line) *Thread {
	t.Helper()
	var p struct{ ThreadID string }
	if err := json.Unmarshal(l.Params, &p); err != nil {
		t.Fatal(err)
	}
	return NewThread(protocol.ThreadStartResponse{Thread: protocol.Thread{ID: p.ThreadID}})
}

func (l line) to(t *testing.T, th *Thread) {
	t.Helper()
	if l.ID == "" {
		th.Apply(rpc.Notification{Method: l.Method, Params: l.Params, Seq: l.Seq, Part: l.Part})
		return
	}
	q, err := ParseQuestion(l.ID, l.Method, l.Params)
	if err != nil {
		t.Fatal(err)
	}
	th.Ask(q)
}

// shown is a thread as a test compares it, which reducers in other languages can write too.
func shown(t *testing.T, th *Thread) string {
	t.Helper()
	type item struct {
		Type, Turn, ID, Text string
		Done                 bool
		Notice               *Notice `json:",omitempty"`
	}
	v := struct {
		Turns     []*Turn
		Items     []item
		Questions []string
		Model     string
		Effort    string
		Context   int
		Status    protocol.ThreadStatus
		Seq       uint64
	}{Turns: th.Turns, Model: th.Model, Effort: th.Effort, Status: th.Status, Seq: th.seq}
	for _, q := range th.Questions {
		v.Questions = append(v.Questions, q.ID)
	}
	v.Context, _ = th.Context()
	for _, i := range th.Items {
		it := item{Turn: i.Turn, Text: i.Text(), Done: i.Done, Notice: i.Notice}
		if i.Body != nil {
			var kind struct{ Type string }
			b, err := protocol.Marshal(protocol.ThreadItem{Body: i.Body})
			if err != nil {
				t.Fatal(err)
			}
			if err := json.Unmarshal(b, &kind); err != nil {
				t.Fatal(err)
			}
			it.ID, it.Type = i.Body.Header().ID, kind.Type
		}
		v.Items = append(v.Items, it)
	}
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	return string(b) + "\n"
}

// Each recorded transcript makes the thread beside it.
func TestTranscripts(t *testing.T) {
	paths, err := filepath.Glob("testdata/*.jsonl")
	if err != nil || len(paths) == 0 {
		t.Fatal(paths, err)
	}
	for _, path := range paths {
		t.Run(filepath.Base(path), func(t *testing.T) {
			lines := transcript(t, path)
			th := threadOf(t, lines[0])
			asked := 0
			for _, l := range lines {
				l.to(t, th)
				asked = max(asked, len(th.Questions))
			}
			got, golden := shown(t, th), strings.TrimSuffix(path, ".jsonl")+".golden"
			if *update {
				if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if got != string(want) {
				t.Errorf("the thread differs from %s, which -update writes:\n%s", golden, got)
			}
			if asked == 0 {
				t.Error("no question was open at any time")
			}
		})
	}
}

// A connection that ends anywhere, and continues after the last notification, makes the same thread: what comes twice changes nothing.
func TestResumedAnywhere(t *testing.T) {
	lines := transcript(t, "testdata/patch-and-approval.jsonl")
	whole := threadOf(t, lines[0])
	for _, l := range lines {
		l.to(t, whole)
	}
	want := shown(t, whole)
	for cut := range lines {
		th := threadOf(t, lines[0])
		for _, l := range lines[:cut+1] {
			l.to(t, th)
		}
		th.Disconnected()
		p := th.Resume()
		again := slices.IndexFunc(lines, func(l line) bool { return l.Seq > *p.AfterSeq || l.Seq == *p.AfterSeq && l.Part > p.AfterPart })
		if again < 0 {
			again = len(lines)
		}
		if p.AfterPart == 0 { // those without a part are all that there is of their number, or its last
			again = max(again, cut+1)
		}
		for _, l := range lines[min(again, cut+1):] {
			l.to(t, th)
		}
		if got := shown(t, th); got != want {
			t.Fatalf("interrupted after message %d:\n%s", cut+1, got)
		}
	}
}

// A command that writes without end keeps its beginning and its end, and a delta that was received twice is counted once.
func TestStreamBounds(t *testing.T) {
	s := stream{bounded: true}
	s.addAt(0, "begin ")
	s.addAt(0, "begin ")
	for range 100 {
		s.addAt(s.received, strings.Repeat("x", 64<<10))
	}
	s.addAt(s.received, " end")
	text := s.text()
	if !strings.HasPrefix(text, "begin x") || strings.Count(text, "begin") != 1 || !strings.HasSuffix(text, "x end") || len(text) > keepMost {
		t.Errorf("%d bytes, %.20q … %.20q", len(text), text, text[len(text)-20:])
	}
	if got := s.omitted + len(text); got != int(s.received) {
		t.Errorf("%d bytes are accounted for, %d were received", got, s.received)
	}
	s.addAt(s.received+10, "after a gap")
	if got := s.omitted + len(s.text()); got != int(s.received) {
		t.Errorf("after a gap, %d bytes are accounted for, %d were written", got, s.received)
	}
}

// A page of earlier turns comes before what is known, and what it repeats stays.
func TestPrepend(t *testing.T) {
	lines := transcript(t, "testdata/patch-and-approval.jsonl")
	th := threadOf(t, lines[0])
	for _, l := range lines {
		l.to(t, th)
	}
	known := len(th.Items)
	next := "cursor"
	page := []protocol.Turn{
		{ID: th.Turns[0].ID, Status: protocol.TurnCompleted},
		{ID: "earlier", Status: protocol.TurnFailed, Error: &protocol.TurnError{Message: "no"}, Items: []protocol.ThreadItem{
			{Body: protocol.AgentMessageItem{ItemHeader: protocol.ItemHeader{ID: "m"}, Text: "hi"}},
		}},
	}
	if n := th.Prepend(page, &next); n != 2 || len(th.Items) != known+2 || th.Items[0].Text() != "hi" || th.Items[1].Notice.Text != "no" {
		t.Errorf("%d items were added: %s", n, shown(t, th))
	}
	if len(th.Turns) != 2 || th.Turns[0].ID != "earlier" || *th.Older != "cursor" {
		t.Errorf("turns %+v, older %v", th.Turns, th.Older)
	}
}
