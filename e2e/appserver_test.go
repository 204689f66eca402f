package e2e_test

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/e2e/rig"
)

// greet completes the handshake of a connection.
func greet(t testing.TB, c *rig.Client) {
	t.Helper()
	c.Call("initialize", map[string]any{
		"clientInfo": map[string]any{"name": "test", "version": "1"}, "capabilities": map[string]any{"experimentalApi": true},
	}, nil)
	c.Send(`{"method":"initialized"}`)
}

// begin starts a thread, and returns its ID.
func begin(t testing.TB, c *rig.Client, params map[string]any) string {
	t.Helper()
	var r struct{ Thread struct{ ID string } }
	c.Call("thread/start", params, &r)
	c.Notified("thread/started")
	return r.Thread.ID
}

// submit starts a turn with a text, and returns its ID.
func submit(t testing.TB, c *rig.Client, thread, text string) string {
	t.Helper()
	var r struct{ Turn struct{ ID, Status string } }
	c.Call("turn/start", map[string]any{"threadId": thread, "input": []any{map[string]any{"type": "text", "text": text}}}, &r)
	if r.Turn.Status != "inProgress" {
		t.Errorf("the new turn is %s", r.Turn.Status)
	}
	return r.Turn.ID
}

// sequence names the messages from one on: methods with the types of items, and statuses.
func sequence(t *testing.T, messages []rig.Message) []string {
	t.Helper()
	var out []string
	for _, m := range messages {
		var p struct {
			Item   struct{ Type string }
			Status struct{ Type string }
			Turn   struct{ Status string }
		}
		if m.Method == "" {
			out = append(out, "response")
			continue
		}
		if err := json.Unmarshal(m.Params, &p); err != nil {
			t.Fatal(err)
		}
		name := m.Method
		for _, detail := range []string{p.Item.Type, p.Status.Type, p.Turn.Status} {
			if detail != "" {
				name += " " + detail
			}
		}
		if n := len(out); n == 0 || out[n-1] != name || !strings.HasSuffix(name, "elta") {
			out = append(out, name)
		}
	}
	return out
}

// The sequence of a plain answer is that of codex: the response, then the turn and its items, the status before the end of the turn.
func TestAppServerPlainAnswer(t *testing.T) {
	t.Parallel()
	r := rig.New(t, "[[step]]\ntimes = -1\ndo = [{ text = \"Hello there.\" }]\n")
	c := r.AppServer()
	greet(t, c)
	thread := begin(t, c, map[string]any{})
	from := len(c.All)
	turn := submit(t, c, thread, "hi")
	done := c.Notified("turn/completed")
	want := []string{
		"response", "thread/status/changed active", "turn/started inProgress", "item/started userMessage", "item/completed userMessage",
		"item/started agentMessage", "item/agentMessage/delta", "item/completed agentMessage", "thread/tokenUsage/updated",
		"thread/readState/changed", "thread/status/changed idle", "turn/completed completed",
	}
	if got := sequence(t, c.All[from:]); !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	var p struct {
		Turn struct {
			ID        string
			ItemsView string
			Items     []struct{ Type, Text string }
		}
	}
	if done.Into(t, &p); p.Turn.ID != turn || p.Turn.ItemsView != "summary" || len(p.Turn.Items) != 1 || p.Turn.Items[0].Text != "Hello there." {
		t.Errorf("%s", done.Params)
	}
}

// commandScript is a model that runs a command and then answers.
func commandScript(cmd string) string {
	return `
[[step]]
when = { since_user = 0 }
times = -1
do = [{ call = "exec_command", id = "c1", args = { cmd = ` + strconv.Quote(cmd) + `, login = false } }]
[[step]]
times = -1
do = [{ text = "done" }]
`
}

// A command: the item is there before its output, and the completed item has all of it.
func TestAppServerCommand(t *testing.T) {
	t.Parallel()
	r := rig.New(t, commandScript("echo one; echo two"))
	c := r.AppServer()
	greet(t, c)
	thread := begin(t, c, map[string]any{})
	from := len(c.All)
	submit(t, c, thread, "hi")
	c.Notified("turn/completed")
	want := []string{
		"response", "thread/status/changed active", "turn/started inProgress", "item/started userMessage", "item/completed userMessage",
		"item/started commandExecution", "item/commandExecution/outputDelta", "item/completed commandExecution", "thread/tokenUsage/updated",
		"item/started agentMessage", "item/agentMessage/delta", "item/completed agentMessage", "thread/tokenUsage/updated",
		"thread/readState/changed", "thread/status/changed idle", "turn/completed completed",
	}
	if got := sequence(t, c.All[from:]); !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	for _, m := range c.All[from:] {
		var p struct {
			Item struct {
				ID, Type, Command, Status, AggregatedOutput string
				ExitCode                                    *int
				CommandActions                              []struct{ Type string }
			}
		}
		if m.Method != "item/completed" {
			continue
		}
		if m.Into(t, &p); p.Item.Type == "commandExecution" && (p.Item.ID != "c1" || p.Item.AggregatedOutput != "one\ntwo\n" || p.Item.ExitCode == nil ||
			*p.Item.ExitCode != 0 || p.Item.Status != "completed" || len(p.Item.CommandActions) == 0) {
			t.Errorf("%s", m.Params)
		}
	}
}

// questioned starts a server whose model runs a command that needs an approval, and returns the question.
func questioned(t *testing.T) (r *rig.Rig, c *rig.Client, thread, turn string, q rig.Message) {
	t.Helper()
	r = rig.New(t, commandScript("touch made"))
	c = r.AppServer("-c", "approval.policy=untrusted")
	greet(t, c)
	thread = begin(t, c, map[string]any{})
	turn = submit(t, c, thread, "hi")
	return r, c, thread, turn, c.Notified("item/commandExecution/requestApproval")
}

// The decisions about a command, and what they do to the command, the item and the turn.
func TestAppServerApproval(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		decision   string
		item, turn string
		runs       bool
	}{
		{"accept", "completed", "completed", true},
		{"acceptForSession", "completed", "completed", true},
		{"decline", "declined", "completed", false},
		{"cancel", "declined", "interrupted", false},
	} {
		t.Run(tc.decision, func(t *testing.T) {
			t.Parallel()
			r, c, thread, turn, q := questioned(t)
			var p struct {
				ThreadID, TurnID, ItemID, Command string
				AvailableDecisions                []any
			}
			if q.Into(t, &p); p.ThreadID != thread || p.TurnID != turn || p.ItemID != "c1" || !strings.Contains(p.Command, "touch made") || len(p.AvailableDecisions) < 3 {
				t.Errorf("the question is %s", q.Params)
			}
			from := len(c.All)
			c.Answer(q, map[string]any{"decision": tc.decision})
			end := c.Notified("turn/completed")
			var e struct{ Turn struct{ Status string } }
			if end.Into(t, &e); e.Turn.Status != tc.turn {
				t.Errorf("the turn is %s, want %s", e.Turn.Status, tc.turn)
			}
			seq := sequence(t, c.All[from:])
			if !slices.Contains(seq, "serverRequest/resolved") || !slices.Contains(seq, "item/completed commandExecution") {
				t.Errorf("%q", seq)
			}
			for _, m := range c.All[from:] {
				var p struct{ Item struct{ Type, Status string } }
				if m.Method != "item/completed" {
					continue
				}
				if m.Into(t, &p); p.Item.Type == "commandExecution" && p.Item.Status != tc.item {
					t.Errorf("the item is %s, want %s", p.Item.Status, tc.item)
				}
			}
			if exists(r.Dir, "made") != tc.runs {
				t.Errorf("the command ran: %v", !tc.runs)
			}
		})
	}
}

// An interrupt answers when the turn has stopped. All of its items are closed before it ends.
func TestAppServerInterrupt(t *testing.T) {
	t.Parallel()
	r := rig.New(t, commandScript("(sleep 600 & touch running; wait)"))
	c := r.AppServer()
	greet(t, c)
	thread := begin(t, c, map[string]any{})
	if code, message := c.Refused("turn/interrupt", map[string]any{"threadId": thread, "turnId": "t"}); code != -32600 || message != "no active turn to interrupt" {
		t.Errorf("%d %s", code, message)
	}
	turn := submit(t, c, thread, "hi")
	r.Until("the command runs", func() bool { return exists(r.Dir, "running") })
	if code, message := c.Refused("turn/interrupt", map[string]any{"threadId": thread, "turnId": "wrong"}); code != -32600 || message != "expected active turn id `wrong` but found `"+turn+"`" {
		t.Errorf("%d %s", code, message)
	}
	from := len(c.All)
	c.Call("turn/interrupt", map[string]any{"threadId": thread, "turnId": turn}, nil)
	c.Notified("turn/completed")
	r.Until("the interrupted command has ended", func() bool { return len(rig.Processes(t, r.Dir, "sleep")) == 0 })
	got := sequence(t, c.All[from:])
	if i := slices.Index(got, "item/completed commandExecution"); i < 0 || got[len(got)-1] != "turn/completed interrupted" || got[len(got)-2] != "thread/status/changed idle" {
		t.Errorf("%q after %q", got, sequence(t, c.All[:from]))
	}
}

// A turn/start during a turn steers it.
func TestAppServerSteer(t *testing.T) {
	t.Parallel()
	r := rig.New(t, commandScript("touch running; until [ -e go ]; do sleep 0.01; done"))
	c := r.AppServer()
	greet(t, c)
	thread := begin(t, c, map[string]any{})
	turn := submit(t, c, thread, "first")
	r.Until("the command runs", func() bool { return exists(r.Dir, "running") })
	if second := submit(t, c, thread, "second"); second != turn {
		t.Errorf("the second input is in turn %s, want %s", second, turn)
	}
	var s struct{ TurnID string }
	c.Call("turn/steer", map[string]any{"threadId": thread, "expectedTurnId": turn, "input": []any{map[string]any{"type": "text", "text": "third"}}}, &s)
	if s.TurnID != turn {
		t.Errorf("steered %s", s.TurnID)
	}
	code, message := c.Refused("turn/steer", map[string]any{"threadId": thread, "expectedTurnId": "stale", "input": []any{map[string]any{"type": "text", "text": "no"}}})
	if code != -32600 || message != "expected active turn id `stale` but found `"+turn+"`" {
		t.Errorf("a stale turn: %d %s", code, message)
	}
	r.Write("go", "")
	c.Notified("turn/completed")
	started, texts := 0, []string{}
	for _, m := range c.All {
		var p struct {
			Item struct {
				Type    string
				Content []struct{ Text string }
			}
		}
		if m.Method == "turn/started" {
			started++
		}
		if m.Method == "item/completed" {
			if m.Into(t, &p); p.Item.Type == "userMessage" {
				texts = append(texts, p.Item.Content[0].Text)
			}
		}
	}
	if started != 1 || !slices.Equal(texts, []string{"first", "second", "third"}) {
		t.Errorf("%d turns with %q", started, texts)
	}
}

// A thread continues after a restart of the server; a turn that the end of stdin cut off is interrupted. A fork has the history.
func TestAppServerResume(t *testing.T) {
	t.Parallel()
	r := rig.New(t, "[[step]]\ntimes = -1\ndo = [{ text = \"answer ${request}\" }]\n")
	c := r.AppServer()
	greet(t, c)
	thread := begin(t, c, map[string]any{})
	for range 2 {
		submit(t, c, thread, "hi")
		c.Notified("turn/completed")
	}
	c.Close()
	c = r.AppServer()
	greet(t, c)
	if code, message := c.Refused("turn/start", map[string]any{"threadId": thread, "input": []any{}}); code != -32600 || !strings.HasPrefix(message, "thread not found") {
		t.Errorf("a thread that is not loaded: %d %s", code, message)
	}
	type opened struct {
		Thread struct {
			ID, ForkedFromID, Preview string
			Status                    struct{ Type string }
			Turns                     []struct {
				ID, Status string
				Items      []struct{ Type, Text string }
			}
		}
	}
	var o opened
	c.Call("thread/resume", map[string]any{"threadId": thread}, &o)
	if n := len(o.Thread.Turns); n != 2 || o.Thread.Status.Type != "idle" || len(o.Thread.Turns[1].Items) != 2 || o.Thread.Turns[1].Items[1].Text != "answer 2" {
		t.Errorf("%+v", o)
	}
	var f opened
	c.Call("thread/fork", map[string]any{"threadId": thread, "lastTurnId": o.Thread.Turns[0].ID}, &f)
	if len(f.Thread.Turns) != 1 || f.Thread.ForkedFromID != thread || f.Thread.ID == thread || f.Thread.Preview != o.Thread.Preview {
		t.Errorf("%+v", f)
	}
	submit(t, c, f.Thread.ID, "on")
	c.Notified("turn/completed")
	submit(t, c, thread, "on")
	c.Notified("turn/completed")
	var read opened
	c.Call("thread/read", map[string]any{"threadId": thread, "includeTurns": true}, &read)
	if len(read.Thread.Turns) != 3 {
		t.Errorf("%d turns", len(read.Thread.Turns))
	}
}

// A client that comes back after any notification gets the ones after it, as if it had stayed.
func TestAppServerAfterSeq(t *testing.T) {
	t.Parallel()
	r := rig.New(t, commandScript("echo one"))
	c := r.AppServer()
	greet(t, c)
	thread := begin(t, c, map[string]any{})
	submit(t, c, thread, "hi")
	c.Notified("turn/completed")
	// What the log has. The others come with the response, or are about the connection.
	durable := func(messages []rig.Message) (out []rig.Message) {
		for _, m := range messages {
			if m.Seq != 0 && !strings.HasSuffix(m.Method, "elta") {
				out = append(out, m)
			}
		}
		return out
	}
	all := durable(c.All)
	parts := 0
	for i, m := range all[:len(all)-1] {
		if m.Part != 0 {
			parts++
		}
		c.Call("thread/resume", map[string]any{"threadId": thread, "afterSeq": m.Seq, "afterPart": m.Part, "excludeTurns": true}, nil)
		again := len(c.All)
		c.Notified("turn/completed")
		got, want := sequence(t, durable(c.All[again:])), sequence(t, all[i+1:])
		if !slices.Equal(got, want) {
			t.Errorf("after %s %d.%d:\ngot  %q\nwant %q", m.Method, m.Seq, m.Part, got, want)
		}
	}
	if parts == 0 {
		t.Error("no event has several notifications")
	}
}

// The handshake and the envelope, in one connection.
func TestAppServerEnvelope(t *testing.T) {
	t.Parallel()
	r := rig.New(t, "[[step]]\ntimes = -1\ndo = [{ text = \"x\" }]\n")
	c := r.AppServer()
	hello := map[string]any{"clientInfo": map[string]any{"name": "test", "version": "1"}}
	for _, tc := range []struct {
		name, method string
		params       any
		code         int
		message      string // the beginning
	}{
		{"before initialize", "thread/loaded/list", map[string]any{}, -32600, "Not initialized"},
		{"unknown method", "no/such", map[string]any{}, -32601, "method not found: no/such"},
		{"no clientInfo", "initialize", map[string]any{}, -32602, ""},
		{"a name that is no header", "initialize", map[string]any{"clientInfo": map[string]any{"name": "a\nb", "version": "1"}}, -32600, "Invalid clientInfo.name: "},
		{"", "initialize", hello, 0, ""},
		{"twice", "initialize", hello, -32600, "Already initialized"},
		{"no params", "thread/read", nil, -32602, ""},
		{"a number for a string", "thread/read", map[string]any{"threadId": 7}, -32602, ""},
		{"no id", "thread/read", map[string]any{"threadId": "abc"}, -32600, "invalid thread id"},
		{"unknown policy", "thread/start", map[string]any{"approvalPolicy": "sometimes"}, -32602, ""},
		{"experimental method", "thread/settings/update", map[string]any{"threadId": "x"}, -32600, "thread/settings/update requires experimentalApi"},
		{"a limit that is none", "thread/loaded/list", map[string]any{"limit": 4294967296}, -32602, ""},
		{"a negative limit", "thread/loaded/list", map[string]any{"limit": -1}, -32602, ""},
		{"a folder that is not there", "thread/start", map[string]any{"cwd": "/no/such/folder"}, -32602, "cwd: the folder /no/such/folder does not exist"},
	} {
		m := c.Reply(c.Request(tc.method, tc.params))
		switch {
		case tc.code == 0 && m.Error != nil, tc.code != 0 && (m.Error == nil || m.Error.Code != tc.code || !strings.HasPrefix(m.Error.Message, tc.message)):
			t.Errorf("%s: %+v %s, want %d %q", tc.name, m.Error, m.Result, tc.code, tc.message)
		}
	}
	c.Send(`{"id":-7,"method":"thread/loaded/list","params":{},"jsonrpc":"2.0","more":1}`)
	if m := c.Next(); string(m.ID) != "-7" || m.Error != nil {
		t.Errorf("%+v", m)
	}
	for _, line := range []string{`{"id":25,`, `[1]`, `42`, `{"id":1.5,"method":"thread/loaded/list"}`, `{"id":null,"method":"thread/loaded/list"}`} {
		c.SendWrong(line)
		if m := c.Next(); string(m.ID) != "null" || m.Error == nil {
			t.Errorf("%s: %+v", line, m)
		}
	}
	c.SendWrong("")
	c.SendWrong(`{"method":"no/such/notification"}`)
	c.SendWrong(`{"id":99,"result":{}}`)
	c.Call("thread/loaded/list", map[string]any{}, nil)
}
