package e2e_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/e2e/rig"
	"github.com/gantry-agent/gantry/sdk/llm"
)

// loaded lists the threads that run in the server.
func loaded(c *rig.Client) []string {
	var list struct{ Data []string }
	c.Call("thread/loaded/list", map[string]any{}, &list)
	return list.Data
}

// The queue of a thread that no process runs can be read and edited. That neither loads the thread nor begins a turn; starting an entry
// does both.
func TestAppServerQueueOfAStoredThread(t *testing.T) {
	t.Parallel()
	r := rig.New(t, say)
	c := r.AppServer()
	greet(t, c)
	thread := begin(t, c, map[string]any{})
	submit(t, c, thread, "hi")
	c.Notified("turn/completed")
	c.Close()

	c = r.AppServer()
	greet(t, c)
	if texts, _ := queued(c, thread); len(texts) > 0 {
		t.Errorf("an empty queue has %q", texts)
	}
	one, two := enqueue(c, thread, "one", "m1"), enqueue(c, thread, "two", "m2")
	if again := enqueue(c, thread, "one", "m1"); again != one {
		t.Errorf("the repeated submission is %s, want %s", again, one)
	}
	three := enqueue(c, thread, "three", "m3")
	c.Call("thread/queue/update", map[string]any{"threadId": thread, "queuedSubmissionId": two, "input": text("second")}, nil)
	c.Call("thread/queue/reorder", map[string]any{"threadId": thread, "queuedSubmissionIds": []string{three, two, one}}, nil)
	for _, want := range []bool{true, false} {
		var deleted struct{ Deleted bool }
		if c.Call("thread/queue/delete", map[string]any{"threadId": thread, "queuedSubmissionId": one}, &deleted); deleted.Deleted != want {
			t.Errorf("deleted: %v, want %v", deleted.Deleted, want)
		}
	}
	if code, message := c.Refused("thread/queue/update", map[string]any{"threadId": thread, "queuedSubmissionId": one, "input": text("x")}); code != -32600 ||
		!strings.HasPrefix(message, "queued submission not found: ") {
		t.Errorf("an unknown entry: %d %s", code, message)
	}
	c.Kill()

	c = r.AppServer()
	greet(t, c)
	if texts, ids := queued(c, thread); !slices.Equal(texts, []string{"three", "second"}) || !slices.Equal(ids, []string{three, two}) {
		t.Errorf("after the kill: %q", texts)
	}
	if got := loaded(c); len(got) > 0 {
		t.Errorf("loaded: %q", got)
	}
	if got := userMessages(c, thread); !slices.Equal(got, []string{"hi "}) {
		t.Errorf("a turn began: %q", got)
	}
	var s struct{ Turn struct{ ID, Status string } }
	if c.Call("thread/queue/start", map[string]any{"threadId": thread, "queuedSubmissionId": two}, &s); s.Turn.ID == "" || s.Turn.Status != "inProgress" {
		t.Errorf("%+v", s)
	}
	for range 2 {
		c.Notified("turn/completed")
	}
	if got := userMessages(c, thread); !slices.Equal(got, []string{"hi ", "second m2", "three m3"}) {
		t.Errorf("%q", got)
	}
	// What has had its turn is not added again, and an archived thread gets nothing.
	c.Close()
	c = r.AppServer()
	greet(t, c)
	enqueue(c, thread, "three", "m3")
	if texts, _ := queued(c, thread); len(texts) > 0 {
		t.Errorf("repeated after its turn: %q", texts)
	}
	c.Call("thread/archive", map[string]any{"threadId": thread}, nil)
	if code, message := c.Refused("thread/queue/add", map[string]any{"threadId": thread, "input": text("late"), "clientUserMessageId": "m4"}); code != -32600 ||
		!strings.Contains(message, "archived") {
		t.Errorf("archived: %d %s", code, message)
	}
}

// What a turn did to files is undone while no process runs the thread, and the thread stays stored. The model is told when it continues.
func TestAppServerUndoInAStoredThread(t *testing.T) {
	t.Parallel()
	r := rig.New(t, patches([]string{updateF}, nil))
	r.Write("f", "before\n")
	c := r.AppServer()
	greet(t, c)
	thread := begin(t, c, map[string]any{})
	turn := submit(t, c, thread, "go")
	c.Notified("turn/completed")
	c.Close()

	c = r.AppServer()
	greet(t, c)
	undo := func(params map[string]any) (refused bool) {
		t.Helper()
		var u struct {
			Files   []struct{ Path, Action string }
			Refused bool
		}
		params["threadId"] = thread
		if c.Call("gantry/turn/undo", params, &u); len(u.Files) != 1 {
			t.Errorf("%v: %+v", params, u)
		}
		return u.Refused
	}
	if undo(map[string]any{"dryRun": true}); r.Read("f") != "after\n" {
		t.Errorf("after a dry run: %q", r.Read("f"))
	}
	r.Write("f", "of the user\n")
	if refused := undo(map[string]any{}); !refused || r.Read("f") != "of the user\n" {
		t.Errorf("a file that the user has changed: refused %v, %q", refused, r.Read("f"))
	}
	r.Write("f", "after\n")
	if undo(map[string]any{"turnId": turn}); r.Read("f") != "before\n" {
		t.Errorf("after the undo: %q", r.Read("f"))
	}
	if undo(map[string]any{"redo": true}); r.Read("f") != "after\n" {
		t.Errorf("after the redo: %q", r.Read("f"))
	}
	if got := loaded(c); len(got) > 0 {
		t.Errorf("loaded: %q", got)
	}
	c.Call("thread/resume", map[string]any{"threadId": thread}, nil)
	submit(t, c, thread, "go on")
	c.Notified("turn/completed")
	if texts := strings.Join(r.Last().Texts(llm.RoleUser), "|"); !strings.Contains(texts, "<files_restored>") {
		t.Errorf("the model reads %q", texts)
	}
}

// An ephemeral fork works like a stored one, and leaves nothing, whether its source runs or not.
func TestAppServerEphemeralFork(t *testing.T) {
	t.Parallel()
	r := rig.New(t, say)
	c := r.AppServer()
	greet(t, c)
	thread := begin(t, c, map[string]any{})
	fork := func() (id string, turns int) {
		t.Helper()
		var f struct {
			Thread struct {
				ID, ForkedFromID string
				Ephemeral        bool
				Turns            []struct{ ID string }
			}
			TurnsBackwardsCursor *string
		}
		c.Call("thread/fork", map[string]any{"threadId": thread, "ephemeral": true}, &f)
		if !f.Thread.Ephemeral || f.Thread.ForkedFromID != thread || f.TurnsBackwardsCursor == nil {
			t.Errorf("%+v", f)
		}
		return f.Thread.ID, len(f.Thread.Turns)
	}
	for i, task := range []string{"one", "two"} {
		submit(t, c, thread, task)
		c.Notified("turn/completed")
		id, turns := fork()
		if turns != i+1 {
			t.Errorf("the fork has %d turns, want %d", turns, i+1)
		}
		submit(t, c, id, "in the fork")
		c.Notified("turn/completed")
		if texts := strings.Join(r.Last().Texts(llm.RoleUser), "|"); !strings.Contains(texts, task+"|") || !strings.HasSuffix(texts, "in the fork") {
			t.Errorf("the model reads %q", texts)
		}
	}
	c.Close()
	c = r.AppServer()
	greet(t, c)
	if _, turns := fork(); turns != 2 {
		t.Errorf("the fork of a thread that does not run has %d turns", turns)
	}
	if all := threads(t, r); len(all) != 1 || all[0].ID != thread {
		t.Errorf("stored: %+v", all)
	}
	c.Close()
	if all := threads(t, r); len(all) != 1 {
		t.Errorf("stored after the end: %+v", all)
	}
}
