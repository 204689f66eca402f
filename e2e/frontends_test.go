package e2e_test

import (
	"encoding/json"
	"slices"
	"syscall"
	"testing"

	"github.com/gantry-agent/gantry/e2e/rig"
)

// seat is a client of an app server that comes back to a thread after each interruption of its connection.
type seat struct {
	t      *testing.T
	thread string
	c      *rig.Client
	read   int    // number of messages of c that were seen
	seq    uint64 // of the last notification
	part   int    // of it, if others with the same number follow
	// items are the IDs of the thread's items in the order in which they appeared, completed those of items that have ended.
	items, completed []string
}

// saw notes an item.
func (s *seat) saw(id string, completed bool) {
	if !slices.Contains(s.items, id) {
		s.items = append(s.items, id)
	}
	if !completed {
		return
	}
	if slices.Contains(s.completed, id) {
		s.t.Errorf("item %s was completed twice", id)
	}
	s.completed = append(s.completed, id)
}

// note follows what has arrived.
func (s *seat) note(messages []rig.Message) {
	for _, m := range messages[s.read:] {
		if m.Seq != 0 {
			s.seq, s.part = m.Seq, m.Part
		}
		if m.Method == "item/started" || m.Method == "item/completed" {
			var p struct{ Item struct{ ID string } }
			m.Into(s.t, &p)
			s.saw(p.Item.ID, m.Method == "item/completed")
		}
	}
	s.read = len(messages)
}

// until waits for a message.
func (s *seat) until(ok func(rig.Message) bool) rig.Message {
	s.t.Helper()
	m := s.c.Until(ok)
	s.note(s.c.All)
	return m
}

func (s *seat) notified(method string) rig.Message {
	s.t.Helper()
	return s.until(func(m rig.Message) bool { return m.Method == method })
}

// leave closes the connection.
func (s *seat) leave() {
	s.c.Close()
	s.note(s.c.Ended())
	s.c = nil
}

// join resumes the thread on a new connection, from where the last one has ended.
func (s *seat) join(server *rig.Server) {
	s.t.Helper()
	s.c, s.read = server.Connect(), 0
	greet(s.t, s.c)
	s.resume()
}

// resume subscribes to the thread, or again after its process has ended.
func (s *seat) resume() {
	s.t.Helper()
	params := map[string]any{"threadId": s.thread}
	if s.seq != 0 {
		params["afterSeq"], params["afterPart"], params["excludeTurns"] = s.seq, s.part, true
	}
	var r struct {
		Seq    uint64
		Thread struct {
			Turns []struct {
				Items []struct {
					ID, Status    string
					CompletedAtMs *int64
				}
			}
		}
	}
	reply := s.c.Reply(s.c.Request("thread/resume", params))
	if reply.Error != nil {
		s.t.Fatalf("resume: %+v", reply.Error)
	}
	if err := json.Unmarshal(reply.Result, &r); err != nil {
		s.t.Fatal(err)
	}
	for _, turn := range r.Thread.Turns {
		for _, it := range turn.Items {
			s.saw(it.ID, it.CompletedAtMs != nil)
		}
	}
	if s.seq == 0 { // otherwise, what follows the last notification is still to come
		s.seq = r.Seq
	}
	s.note(s.c.All)
}

// itemsOf lists the items of events as clients see them, in the order in which they appeared.
func itemsOf(t *testing.T, events []rig.Event) (items []string) {
	t.Helper()
	for _, e := range events {
		if e.Kind != "item.started" && e.Kind != "item.completed" {
			continue
		}
		var b struct{ Item struct{ ID, Call string } }
		e.Into(t, &b)
		id := b.Item.ID
		if b.Item.Call != "" {
			id = b.Item.Call
		}
		if !slices.Contains(items, id) {
			items = append(items, id)
		}
	}
	return items
}

const requestApproval = "item/commandExecution/requestApproval"

// A thread in a terminal, an attached process and two clients of an app server at once: all see the same, the first answer to a question
// counts, and the others are told.
func TestSharedThread(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name     string
		terminal bool // the person at the terminal answers first
		decision string
		ran      bool
	}{
		{"a client accepts first", false, "accept", true},
		{"a client declines first", false, "decline", false},
		{"the terminal accepts first", true, "y\n", true},
		{"the terminal denies first", true, "n\n", false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			r := rig.New(t, `
[[step]]
do = [{ call = "wait_for", id = "c1", args = { file = "go" } }]
[[step]]
do = [{ call = "exec_command", id = "c2", args = { cmd = "touch made", login = false } }]
[[step]]
times = -1
do = [{ text = "the end" }]
`)
			addOdd(t, r, "waits", "waits", "")
			run := r.Terminal("exec", "-c", "approval.policy=untrusted", "the task")
			r.Until("the call runs", func() bool { return exists(r.Dir, "go.waiting") })
			thread := threads(t, r)[0].ID
			watcher := r.Start("attach", "--events", thread)
			watcher.Sees("item.started")
			server := r.Serve("unix")
			one, two := &seat{t: t, thread: thread}, &seat{t: t, thread: thread}
			one.join(server)
			two.join(server)
			r.Write("go", "")
			run.Sees("answer: ")
			first, second := one.notified(requestApproval), two.notified(requestApproval)
			other := map[bool]string{true: "decline", false: "accept"}[tc.ran]
			if tc.terminal {
				run.Type(tc.decision)
				one.notified("serverRequest/resolved")
				one.c.Answer(first, map[string]any{"decision": other})
			} else {
				one.c.Answer(first, map[string]any{"decision": tc.decision})
				run.Sees("answered elsewhere")
			}
			two.notified("serverRequest/resolved")
			two.c.Answer(second, map[string]any{"decision": other})
			one.notified("turn/completed")
			two.notified("turn/completed")
			if res := run.Wait(); res.Code != 0 || exists(r.Dir, "made") != tc.ran {
				t.Errorf("exit %d, the command ran: %v\n%s", res.Code, !tc.ran, res.Stdout)
			}
			events := rig.Events(t, watcher.Wait().Stdout)
			rig.Gapless(t, events, 1)
			if n := count(kinds(events))["question.resolved"]; n != 1 {
				t.Errorf("the question was resolved %d times", n)
			}
			want := itemsOf(t, events)
			if len(want) != 4 || !slices.Equal(one.items, want) || !slices.Equal(two.items, want) {
				t.Errorf("one client saw  %q\nthe other one   %q\nattach          %q", one.items, two.items, want)
			}
			if !slices.Equal(one.completed, two.completed) || len(one.completed) != len(want) {
				t.Errorf("one client saw the end of %q\nthe other one         %q", one.completed, two.completed)
			}
			server.Signal(syscall.SIGTERM)
			server.Wait()
			r.NothingLeft()
		})
	}
}

// A client answers a question while the person at the terminal is about to. What they type then does not answer the next question.
func TestALineForAQuestionAnsweredElsewhere(t *testing.T) {
	t.Parallel()
	r := rig.New(t, `
[[step]]
do = [{ call = "exec_command", id = "c1", args = { cmd = "touch first", login = false } }]
[[step]]
do = [{ call = "exec_command", id = "c2", args = { cmd = "touch second", login = false } }]
[[step]]
times = -1
do = [{ text = "the end" }]
`)
	run := r.Terminal("exec", "-c", "approval.policy=untrusted", "the task")
	run.Sees("answer: ")
	server := r.Serve("unix")
	client := &seat{t: t, thread: threads(t, r)[0].ID}
	client.join(server)
	client.c.Answer(client.notified(requestApproval), map[string]any{"decision": "accept"})
	run.Sees("answered elsewhere")
	run.SeesTimes("answer: ", 2)
	run.Type("y\n")
	run.Sees("answer again: ")
	if exists(r.Dir, "second") {
		t.Error("the answer to the first question has approved the second command")
	}
	run.Type("n\n")
	client.notified("turn/completed")
	if res := run.Wait(); res.Code != 0 || !exists(r.Dir, "first") || exists(r.Dir, "second") {
		t.Errorf("exit %d, the commands ran: %v, %v\n%s", res.Code, exists(r.Dir, "first"), exists(r.Dir, "second"), res.Stdout)
	}
}
