package e2e_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/e2e/rig"
)

// about keeps the messages about a thread, and responses.
func about(thread string, messages []rig.Message) []rig.Message {
	return slices.DeleteFunc(slices.Clone(messages), func(m rig.Message) bool {
		return m.Method != "" && !strings.Contains(string(m.Params), thread)
	})
}

// The response to thread/revert comes before what it causes, whether the caller is subscribed or not.
func TestAppServerRevertIsAnsweredFirst(t *testing.T) {
	t.Parallel()
	r := rig.New(t, answers)
	c := r.AppServer()
	greet(t, c)
	thread := begin(t, c, object{})
	ids := turnsOf(t, c, thread, "one", "two", "three")
	from := len(c.All)
	c.Call("thread/revert", object{"threadId": thread, "beforeTurnId": ids[2]}, nil)
	c.Notified("thread/reverted")
	want := []string{"response", "thread/status/changed notLoaded", "thread/status/changed idle", "thread/reverted"}
	if got := sequence(t, about(thread, c.All[from:])); !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	c.Call("thread/unsubscribe", object{"threadId": thread}, nil)
	from = len(c.All)
	c.Call("thread/revert", object{"threadId": thread, "beforeTurnId": ids[1]}, nil)
	c.Notified("thread/reverted")
	if got := sequence(t, about(thread, c.All[from:])); got[0] != "response" {
		t.Errorf("without a subscription: %q", got)
	}
}

// usageNotice is a notification thread/tokenUsage/updated.
type usageNotice struct {
	ThreadID, TurnID string
	TokenUsage       struct {
		Total, Last        struct{ TotalTokens, InputTokens, OutputTokens int }
		ModelContextWindow *int
	}
}

// After a resume, a fork and a revert the usage has that of the last answer, like the notification after that answer.
func TestAppServerUsageHasTheLastAnswer(t *testing.T) {
	t.Parallel()
	r := rig.New(t, `
[[step]]
usage = { input = 100, output = 10 }
do = [{ text = "one" }]
[[step]]
usage = { input = 200, output = 20 }
times = -1
do = [{ text = "two" }]
`)
	c := r.AppServer()
	greet(t, c)
	thread := begin(t, c, object{})
	said := func(c *rig.Client) (u usageNotice) {
		t.Helper()
		c.Notified("thread/tokenUsage/updated").Into(t, &u)
		return u
	}
	var one usageNotice
	ids := []string{submit(t, c, thread, "one")}
	one = said(c)
	c.Notified("turn/completed")
	ids = append(ids, submit(t, c, thread, "two"))
	live := said(c)
	c.Notified("turn/completed")
	if live.TokenUsage.Last.InputTokens != 200 || live.TokenUsage.Total.InputTokens != 300 {
		t.Fatalf("%+v", live)
	}
	c.Call("thread/shellCommand", object{"threadId": thread, "command": "true"}, nil) // a turn without an answer
	c.Notified("turn/completed")
	same := func(what string, got, want usageNotice) {
		t.Helper()
		if !slices.Equal(tokens(got), tokens(want)) {
			t.Errorf("%s: %v, want %v", what, tokens(got), tokens(want))
		}
	}
	c.Close()
	c = r.AppServer()
	greet(t, c)
	c.Call("thread/resume", object{"threadId": thread}, nil)
	same("a stored thread", said(c), live)
	c.Call("thread/resume", object{"threadId": thread}, nil)
	same("a loaded thread", said(c), live)
	c.Call("thread/fork", object{"threadId": thread}, nil)
	same("a fork", said(c), live)
	c.Call("thread/revert", object{"threadId": thread, "beforeTurnId": ids[1]}, nil)
	c.Notified("thread/reverted")
	c.Call("thread/resume", object{"threadId": thread}, nil)
	same("after a revert", said(c), one)
}

// tokens are the counts of a notification, and the context window.
func tokens(u usageNotice) []int {
	window := 0
	if u.TokenUsage.ModelContextWindow != nil {
		window = *u.TokenUsage.ModelContextWindow
	}
	total, last := u.TokenUsage.Total, u.TokenUsage.Last
	return []int{total.TotalTokens, total.InputTokens, total.OutputTokens, last.TotalTokens, last.InputTokens, last.OutputTokens, window}
}

// The end of the first unread turn changes the read state, which is the one that thread/readState/update expects. Ends of further turns
// don't, and clients without experimental methods learn nothing.
func TestAppServerReadStateAtTheEndOfTurns(t *testing.T) {
	t.Parallel()
	r := rig.New(t, answers)
	server := r.Serve("unix")
	c, stable := server.Connect(), server.Connect()
	greet(t, c)
	stable.Call("initialize", object{"clientInfo": object{"name": "test", "version": "1"}}, nil)
	thread := begin(t, c, object{})
	stable.Call("thread/resume", object{"threadId": thread}, nil)
	type changed struct {
		ReadState struct {
			Revision    string
			FirstUnread *struct{ Type, TurnID string }
		}
	}
	changes := func(c *rig.Client, from int) (out []changed) {
		t.Helper()
		for _, m := range c.All[from:] {
			if m.Method == "thread/readState/changed" {
				var ch changed
				m.Into(t, &ch)
				out = append(out, ch)
			}
		}
		return out
	}
	unread := func(text string) string {
		t.Helper()
		from := len(c.All)
		turn := submit(t, c, thread, text)
		c.Notified("turn/completed")
		got := changes(c, from)
		if len(got) != 1 || got[0].ReadState.FirstUnread == nil || got[0].ReadState.FirstUnread.TurnID != turn {
			t.Fatalf("after %q: %+v, want the turn %s", text, got, turn)
		}
		names := sequence(t, c.All[from:])
		if i := slices.Index(names, "thread/readState/changed"); i+1 >= len(names) || names[i+1] != "thread/status/changed idle" {
			t.Errorf("%q", names)
		}
		return got[0].ReadState.Revision
	}
	revision := unread("one")
	from := len(c.All)
	submit(t, c, thread, "two")
	c.Notified("turn/completed")
	if got := changes(c, from); len(got) != 0 {
		t.Errorf("a second unread turn: %+v", got)
	}
	c.Call("thread/readState/update", object{"threadId": thread, "operation": object{"type": "read"}, "expectedRevision": revision}, nil)
	c.Notified("thread/readState/changed")
	revision = unread("three")
	c.Call("thread/readState/update", object{"threadId": thread, "operation": object{"type": "read"}, "expectedRevision": revision}, nil)
	stable.Call("thread/loaded/list", object{}, nil)
	if got := changes(stable, 0); len(got) != 0 {
		t.Errorf("a client without experimental methods: %+v", got)
	}
}

// A hook for notifications runs, but codex's protocol has no name for its event: clients get no message about it. The rig checks that each
// message is valid.
func TestAppServerNotificationHook(t *testing.T) {
	t.Parallel()
	r := rig.New(t, commandScript("touch made"))
	hookFile(t, r, map[string][]hookGroup{"Notification": on("permission_prompt", "cat >told.tmp && mv told.tmp told"), "Stop": on("", "true")})
	c := r.AppServer("-c", "approval.policy=untrusted")
	greet(t, c)
	thread := begin(t, c, object{})
	submit(t, c, thread, "hi")
	q := c.Notified("item/commandExecution/requestApproval")
	r.Until("the hook ran", func() bool { return r.Read("told") != "" })
	c.Answer(q, object{"decision": "accept"})
	c.Notified("turn/completed")
	var events []string
	for _, m := range c.All {
		if m.Method == "hook/started" || m.Method == "hook/completed" {
			var p struct{ Run struct{ EventName string } }
			if err := json.Unmarshal(m.Params, &p); err != nil {
				t.Fatal(err)
			}
			events = append(events, p.Run.EventName)
		}
	}
	if !slices.Equal(events, []string{"stop", "stop"}) {
		t.Errorf("%q", events)
	}
}
