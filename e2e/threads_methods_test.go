package e2e_test

import (
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/e2e/rig"
)

// text is the input of a request.
func text(s string) []any { return []any{map[string]any{"type": "text", "text": s}} }

// userMessages returns the texts of a thread's messages of the user, each with the client's ID of it.
func userMessages(c *rig.Client, thread string) (out []string) {
	var read struct {
		Thread struct {
			Turns []struct {
				Items []struct {
					Type, ClientID string
					Content        []struct{ Text string }
				}
			}
		}
	}
	c.Call("thread/read", map[string]any{"threadId": thread, "includeTurns": true}, &read)
	for _, turn := range read.Thread.Turns {
		for _, item := range turn.Items {
			if item.Type == "userMessage" {
				out = append(out, item.Content[0].Text+" "+item.ClientID)
			}
		}
	}
	return out
}

// A client that does not know whether its message has arrived sends it again: within the turn, after it, and after a restart of the
// server. The answer is the first turn, and the message is in the thread once.
func TestAppServerRepeatedMessage(t *testing.T) {
	t.Parallel()
	r := rig.New(t, commandScript("touch running; until [ -e go ]; do sleep 0.01; done"))
	c := r.AppServer()
	greet(t, c)
	thread := begin(t, c, map[string]any{})
	type started struct{ Turn struct{ ID, Status string } }
	params := map[string]any{"threadId": thread, "input": text("hi"), "clientUserMessageId": "m1"}
	var first, second, third started
	c.Call("turn/start", params, &first)
	r.Until("the command runs", func() bool { return exists(r.Dir, "running") })
	if c.Call("turn/start", params, &second); second != first || first.Turn.Status != "inProgress" {
		t.Errorf("during the turn: %+v, want %+v", second, first)
	}
	r.Write("go", "")
	c.Notified("turn/completed")
	c.Close()

	c = r.AppServer()
	greet(t, c)
	c.Call("thread/resume", map[string]any{"threadId": thread}, nil)
	if c.Call("turn/start", params, &third); third.Turn.ID != first.Turn.ID || third.Turn.Status != "completed" {
		t.Errorf("after a restart: %+v, want %+v", third, first)
	}
	params["clientUserMessageId"], params["input"] = "m2", text("more")
	c.Call("turn/start", params, nil)
	c.Notified("turn/completed")
	if got := userMessages(c, thread); !slices.Equal(got, []string{"hi m1", "more m2"}) {
		t.Errorf("%q", got)
	}
}

// queued returns the texts of a thread's queue.
func queued(c *rig.Client, thread string) (texts, ids []string) {
	var list struct {
		Data []struct {
			ID    string
			Input []struct{ Text string }
		}
	}
	c.Call("thread/queue/list", map[string]any{"threadId": thread}, &list)
	for _, q := range list.Data {
		texts, ids = append(texts, q.Input[0].Text), append(ids, q.ID)
	}
	return texts, ids
}

// enqueue adds a text to the queue of a thread, and returns the entry's ID.
func enqueue(c *rig.Client, thread, s, message string) string {
	var added struct {
		QueuedSubmission struct{ ID, ClientUserMessageID string }
	}
	c.Call("thread/queue/add", map[string]any{"threadId": thread, "input": text(s), "clientUserMessageId": message}, &added)
	return added.QueuedSubmission.ID
}

// What waits in the queue of a thread can be edited, outlives a kill of the server, and gets turns of its own.
func TestAppServerQueue(t *testing.T) {
	t.Parallel()
	r := rig.New(t, `
[[step]]
when = { user = "hold", since_user = 0 }
do = [{ call = "exec_command", id = "c1", args = { cmd = "touch running; until [ -e go ]; do sleep 0.01; done", login = false } }]
[[step]]
times = -1
do = [{ text = "done" }]
`)
	c := r.AppServer()
	greet(t, c)
	thread := begin(t, c, map[string]any{})
	submit(t, c, thread, "hold")
	r.Until("the command runs", func() bool { return exists(r.Dir, "running") })
	one, two := enqueue(c, thread, "one", "m1"), enqueue(c, thread, "two", "m2")
	if again := enqueue(c, thread, "one", "m1"); again != one {
		t.Errorf("the repeated submission is %s, want %s", again, one)
	}
	three := enqueue(c, thread, "three", "m3")
	c.Call("thread/queue/update", map[string]any{"threadId": thread, "queuedSubmissionId": two, "input": text("second")}, nil)
	c.Call("thread/queue/reorder", map[string]any{"threadId": thread, "queuedSubmissionIds": []string{three, two, one}}, nil)
	if code, message := c.Refused("thread/queue/reorder", map[string]any{"threadId": thread, "queuedSubmissionIds": []string{three}}); code != -32600 {
		t.Errorf("an incomplete order: %d %s", code, message)
	}
	if code, message := c.Refused("thread/queue/update", map[string]any{"threadId": thread, "queuedSubmissionId": "none", "input": text("x")}); code != -32600 ||
		message != "queued submission not found: none" {
		t.Errorf("an unknown entry: %d %s", code, message)
	}
	if code, message := c.Refused("thread/queue/add", map[string]any{"threadId": thread, "input": []any{}, "clientUserMessageId": "m4"}); code != -32600 ||
		message != "input must not be empty" {
		t.Errorf("nothing: %d %s", code, message)
	}
	if code, _ := c.Refused("thread/queue/start", map[string]any{"threadId": thread}); code != -32600 {
		t.Errorf("during a turn: %d", code)
	}
	var deleted struct{ Deleted bool }
	for _, want := range []bool{true, false} {
		if c.Call("thread/queue/delete", map[string]any{"threadId": thread, "queuedSubmissionId": one}, &deleted); deleted.Deleted != want {
			t.Errorf("deleted: %v, want %v", deleted.Deleted, want)
		}
	}
	changes := 0
	for _, m := range c.All {
		if m.Method == "thread/queue/changed" {
			changes++
		}
	}
	for ; changes < 6; changes++ { // three were added, one was updated, all were reordered, and one was deleted
		c.Notified("thread/queue/changed")
	}
	c.Kill()

	r.Write("go", "")
	c = r.AppServer()
	greet(t, c)
	c.Call("thread/resume", map[string]any{"threadId": thread}, nil)
	if got, _ := queued(c, thread); !slices.Equal(got, []string{"three", "second"}) {
		t.Errorf("after the kill: %q", got)
	}
	var s struct{ Turn struct{ ID, Status string } }
	if c.Call("thread/queue/start", map[string]any{"threadId": thread, "queuedSubmissionId": two}, &s); s.Turn.ID == "" || s.Turn.Status != "inProgress" {
		t.Errorf("%+v", s)
	}
	for range 2 {
		c.Notified("turn/completed")
	}
	if got, _ := queued(c, thread); len(got) > 0 {
		t.Errorf("%q are left", got)
	}
	if got := userMessages(c, thread); !slices.Equal(got, []string{"hold ", "second m2", "three m3"}) {
		t.Errorf("%q", got)
	}
	// An idle thread begins at once.
	enqueue(c, thread, "four", "m4")
	c.Notified("turn/completed")
	if got := userMessages(c, thread); len(got) != 4 || got[3] != "four m4" {
		t.Errorf("%q", got)
	}
}

// Items that a client adds are in the history that the model reads. If one of them is invalid, none is added.
func TestAppServerInjectItems(t *testing.T) {
	t.Parallel()
	r := rig.New(t, `
[[step]]
when = { absent = "the sky is green" }
do = [{ text = "what?" }]
[[step]]
times = -1
do = [{ text = "I know" }]
`)
	c := r.AppServer()
	greet(t, c)
	thread := begin(t, c, map[string]any{})
	message := func(s string) any {
		return map[string]any{"type": "message", "role": "user", "content": []any{map[string]any{"type": "input_text", "text": s}}}
	}
	code, refused := c.Refused("thread/inject_items", map[string]any{"threadId": thread, "items": []any{message("the sky is green"), map[string]any{}}})
	if code != -32600 || !strings.HasPrefix(refused, "items[1] is not a valid response item: ") {
		t.Errorf("%d %s", code, refused)
	}
	ask := func() string {
		submit(t, c, thread, "so?")
		var end struct {
			Turn struct{ Items []struct{ Text string } }
		}
		c.Notified("turn/completed").Into(t, &end)
		return end.Turn.Items[0].Text
	}
	if got := ask(); got != "what?" {
		t.Errorf("after the refusal: %s", got)
	}
	c.Call("thread/inject_items", map[string]any{"threadId": thread, "items": []any{message("the sky is green")}}, nil)
	c.Kill()
	c = r.AppServer()
	greet(t, c)
	c.Call("thread/resume", map[string]any{"threadId": thread}, nil)
	if got := ask(); got != "I know" {
		t.Errorf("after the kill: %s", got)
	}
}

// A command that outlives its turn is listed, and ended by its client. Its item ends as failed.
func TestAppServerBackgroundTerminals(t *testing.T) {
	t.Parallel()
	r := rig.New(t, `
[[step]]
when = { since_user = 0 }
times = 2
do = [{ call = "exec_command", id = "c${request}", args = { cmd = "touch running; sleep 600", yield_time_ms = 250, login = false } }]
[[step]]
times = -1
do = [{ text = "it runs" }]
`)
	c := r.AppServer()
	greet(t, c)
	thread := begin(t, c, map[string]any{})
	type list struct {
		Data []struct {
			ItemID, ProcessID, Command, Cwd string
			OSPid                           *int
			CPUPercent                      *float64
			RSSKb                           *uint64
		}
	}
	terminals := func() (l list) {
		c.Call("thread/backgroundTerminals/list", map[string]any{"threadId": thread}, &l)
		return l
	}
	ended := func() {
		t.Helper()
		var done struct {
			Item struct {
				Type, Status string
				ExitCode     int
			}
		}
		c.Notified("item/completed").Into(t, &done)
		if done.Item.Type != "commandExecution" || done.Item.Status != "failed" || done.Item.ExitCode == 0 {
			t.Errorf("%+v", done)
		}
	}
	if l := terminals(); len(l.Data) != 0 {
		t.Errorf("before any command: %+v", l)
	}
	for range 2 {
		submit(t, c, thread, "run it")
		c.Notified("turn/completed")
	}
	l := terminals()
	if len(l.Data) != 2 || l.Data[0].ItemID != "c1" || l.Data[0].Cwd != r.Dir || !strings.Contains(l.Data[0].Command, "sleep 600") {
		t.Fatalf("%+v", l)
	}
	for _, d := range l.Data {
		running := rig.Processes(t, r.Dir, "sleep")
		if d.OSPid == nil {
			t.Fatalf("%s has no process", d.ItemID)
		}
		if !slices.Contains(running, *d.OSPid) {
			t.Errorf("process %d of %s is not among %v", *d.OSPid, d.ItemID, running)
		}
		if runtime.GOOS == "linux" && (d.CPUPercent == nil || *d.CPUPercent < 0 || d.RSSKb == nil || *d.RSSKb == 0) {
			t.Errorf("usage of %s: %v %% and %v KiB", d.ItemID, d.CPUPercent, d.RSSKb)
		}
	}
	var result struct{ Terminated bool }
	end := map[string]any{"threadId": thread, "processId": l.Data[0].ProcessID}
	if c.Call("thread/backgroundTerminals/terminate", end, &result); !result.Terminated {
		t.Error("nothing was ended")
	}
	ended()
	if c.Call("thread/backgroundTerminals/terminate", end, &result); result.Terminated {
		t.Error("it was ended twice")
	}
	if l := terminals(); len(l.Data) != 1 {
		t.Errorf("after the end of one: %+v", l)
	}
	c.Call("thread/backgroundTerminals/clean", map[string]any{"threadId": thread}, nil)
	ended()
	c.Call("thread/backgroundTerminals/clean", map[string]any{"threadId": thread}, nil)
	if l := terminals(); len(l.Data) != 0 {
		t.Errorf("after the end of all: %+v", l)
	}
}

// What a client says about a thread's repository is kept with the thread, whether it runs or not.
func TestAppServerMetadata(t *testing.T) {
	t.Parallel()
	r := rig.New(t, "[[step]]\ntimes = -1\ndo = [{ text = \"done\" }]\n")
	c := r.AppServer()
	greet(t, c)
	thread := begin(t, c, map[string]any{})
	submit(t, c, thread, "hi")
	c.Notified("turn/completed")
	type result struct {
		Thread struct {
			GitInfo *struct{ SHA, Branch, OriginURL *string }
		}
	}
	show := func(r result) string {
		if r.Thread.GitInfo == nil {
			return "none"
		}
		out := ""
		for _, p := range []*string{r.Thread.GitInfo.SHA, r.Thread.GitInfo.Branch, r.Thread.GitInfo.OriginURL} {
			if p == nil {
				out += "null "
			} else {
				out += *p + " "
			}
		}
		return out
	}
	update := func(git map[string]any) string {
		var u result
		c.Call("thread/metadata/update", map[string]any{"threadId": thread, "gitInfo": git}, &u)
		return show(u)
	}
	for _, params := range []map[string]any{{"threadId": thread}, {"threadId": thread, "gitInfo": map[string]any{}}} {
		code, message := c.Refused("thread/metadata/update", params)
		if code != -32600 || message != "thread metadata update must include at least one field" {
			t.Errorf("%d %s", code, message)
		}
	}
	if got := update(map[string]any{"sha": "abc", "branch": "main"}); got != "abc main null " {
		t.Errorf("set: %s", got)
	}
	if got := update(map[string]any{"sha": nil, "originUrl": "https://example.org/x"}); got != "null main https://example.org/x " {
		t.Errorf("changed: %s", got)
	}
	c.Close()
	c = r.AppServer()
	greet(t, c)
	var read result
	if c.Call("thread/read", map[string]any{"threadId": thread}, &read); show(read) != "null main https://example.org/x " {
		t.Errorf("after a restart: %s", show(read))
	}
	if got := update(map[string]any{"branch": "next"}); got != "null next https://example.org/x " {
		t.Errorf("of a thread that does not run: %s", got)
	}
	var fork result
	if c.Call("thread/fork", map[string]any{"threadId": thread}, &fork); show(fork) != "null next https://example.org/x " {
		t.Errorf("of a fork: %s", show(fork))
	}
	if got := update(map[string]any{"branch": nil, "originUrl": nil}); got != "none" {
		t.Errorf("cleared: %s", got)
	}
}
