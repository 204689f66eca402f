package e2e_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/e2e/rig"
)

// dialog is a conversation with an app server whose messages are compared with a file.
type dialog struct {
	*rig.Client
	t      *testing.T
	r      *rig.Rig
	thread string
}

// turn submits a text and waits for the end of its turn.
func (k *dialog) turn(text string) {
	k.t.Helper()
	submit(k.t, k.Client, k.thread, text)
	k.Notified("turn/completed")
}

// asked submits a text and waits for a question.
func (k *dialog) asked(text, method string) (turn string, q rig.Message) {
	k.t.Helper()
	turn = submit(k.t, k.Client, k.thread, text)
	return turn, k.Notified(method)
}

// patchScript is a model that adds a file and then answers.
const patchScript = `
[[step]]
when = { since_user = 0 }
do = [{ call = "apply_patch", id = "c1", freeform = "*** Begin Patch\n*** Add File: new.txt\n+a line\n*** End Patch\n" }]
[[step]]
do = [{ text = "done" }]
`

const answers = "[[step]]\ntimes = -1\ndo = [{ text = \"answer ${request}\" }]\n"

// conversations are those that codex's app server was recorded with, and what it does not have: their files are in testdata/appserver.
var conversations = []struct {
	name   string
	script string
	config string
	args   []string
	talk   func(k *dialog)
}{
	{"plain", "[[step]]\ndo = [{ text = \"Hello there.\", chunk = 5 }]\n", "", nil, func(k *dialog) { k.turn("hi") }},
	{"reasoning", "[[step]]\ndo = [{ reasoning = \"A greeting.\" }, { text = \"Hello.\" }]\n", "", nil, func(k *dialog) { k.turn("hi") }},
	{"two-turns", answers, "", nil, func(k *dialog) { k.turn("one"); k.turn("two") }},
	{"no-input", answers, "", nil, func(k *dialog) {
		k.turn("hi")
		k.Call("turn/start", map[string]any{"threadId": k.thread, "input": []any{}}, nil)
		k.Notified("turn/completed")
	}},
	{"command", commandScript("echo one; echo two"), "", nil, func(k *dialog) { k.turn("hi") }},
	{"command-fails", commandScript("exit 3"), "", nil, func(k *dialog) { k.turn("hi") }},
	{"approval-accept", commandScript("touch made"), "", untrusted, decide("item/commandExecution/requestApproval", `{"decision":"accept"}`)},
	{"approval-session", commandScript("touch made"), "", untrusted, func(k *dialog) { // the second turn does not ask
		decide("item/commandExecution/requestApproval", `{"decision":"acceptForSession"}`)(k)
		k.turn("again")
	}},
	{"approval-amendment", commandScript("touch made"), "", untrusted, func(k *dialog) { // nor does it with a rule
		decide("item/commandExecution/requestApproval", `{"decision":{"acceptWithExecpolicyAmendment":{"execpolicy_amendment":["touch","made"]}}}`)(k)
		k.turn("again")
	}},
	{"approval-decline", commandScript("touch made"), "", untrusted, decide("item/commandExecution/requestApproval", `{"decision":"decline"}`)},
	{"approval-cancel", commandScript("touch made"), "", untrusted, decide("item/commandExecution/requestApproval", `{"decision":"cancel"}`)},
	{"approval-malformed", commandScript("touch made"), "", untrusted, decideWrong("item/commandExecution/requestApproval", `{"decision":"perhaps"}`)},
	{"approval-error", commandScript("touch made"), "", untrusted, func(k *dialog) {
		_, q := k.asked("hi", "item/commandExecution/requestApproval")
		k.Send(fmt.Sprintf(`{"id":%s,"error":{"code":-32000,"message":"the window is closed"}}`, q.ID))
		k.Notified("turn/completed")
	}},
	{"patch", patchScript, "", nil, func(k *dialog) { k.turn("hi") }},
	{"patch-accept", patchScript, "", untrusted, decide("item/fileChange/requestApproval", `{"decision":"accept"}`)},
	{"patch-decline", patchScript, "", untrusted, decide("item/fileChange/requestApproval", `{"decision":"decline"}`)},
	{"patch-cancel", patchScript, "", untrusted, decide("item/fileChange/requestApproval", `{"decision":"cancel"}`)},
	{"patch-malformed", patchScript, "", untrusted, decideWrong("item/fileChange/requestApproval", `{"decision":"perhaps"}`)},
	{"command-background", `
[[step]]
do = [{ call = "exec_command", id = "c1", args = { cmd = "until [ -e go ]; do sleep 0.01; done; exit 3", yield_time_ms = 250, login = false } }]
[[step]]
do = [{ text = "it runs" }]
`, "", nil, func(k *dialog) { // its item ends with it, after the turn
		k.turn("hi")
		k.r.Write("go", "")
		k.Notified("item/completed")
	}},
	{"interrupt-idle", answers, "", nil, func(k *dialog) {
		k.Refused("turn/interrupt", map[string]any{"threadId": k.thread, "turnId": "t"})
	}},
	{"interrupt-streaming", "[[step]]\ndo = [{ text = \"Half an answer\" }]\nbreak = { how = \"hang\" }\n", "", nil, func(k *dialog) {
		turn := submit(k.t, k.Client, k.thread, "hi")
		k.Notified("item/agentMessage/delta")
		k.Refused("turn/interrupt", map[string]any{"threadId": k.thread, "turnId": "wrong"})
		k.Call("turn/interrupt", map[string]any{"threadId": k.thread, "turnId": turn}, nil)
		k.Notified("turn/completed")
	}},
	{"interrupt-command", commandScript("echo begun; sleep 60"), "", nil, func(k *dialog) {
		turn := submit(k.t, k.Client, k.thread, "hi")
		k.Notified("item/commandExecution/outputDelta")
		k.Call("turn/interrupt", map[string]any{"threadId": k.thread, "turnId": turn}, nil)
		k.Notified("turn/completed")
	}},
	{"interrupt-approval", commandScript("touch made"), "", untrusted, func(k *dialog) {
		turn, _ := k.asked("hi", "item/commandExecution/requestApproval")
		k.Call("turn/interrupt", map[string]any{"threadId": k.thread, "turnId": turn}, nil)
		k.Notified("turn/completed")
	}},
	{"error-retried", "[[step]]\nerror = { code = \"provider-internal\", message = \"out of order\", retry_after_ms = 1, status = 500 }\n[[step]]\ndo = [{ text = \"fine\" }]\n",
		"", nil, func(k *dialog) { k.turn("hi") }},
	{"error-exhausted", "[[step]]\ntimes = -1\nerror = { code = \"provider-internal\", message = \"out of order\", retry_after_ms = 1, status = 500 }\n",
		"", nil, func(k *dialog) { k.turn("hi") }},
	{"error-stream", "[[step]]\ndo = [{ text = \"half of it\" }]\nbreak = { after_bytes = 4 }\n[[step]]\ndo = [{ text = \"all of it\" }]\n",
		"", nil, func(k *dialog) { k.turn("hi") }},
	{"error-refused", "[[step]]\nerror = { code = \"invalid-request\", message = \"no such thing\", status = 400 }\n", "", nil, func(k *dialog) { k.turn("hi") }},
	{"error-key", "[[step]]\nerror = { code = \"authentication\", message = \"wrong key\", status = 401 }\n", "", nil, func(k *dialog) { k.turn("hi") }},
	{"error-quota", "[[step]]\nerror = { code = \"quota-exceeded\", message = \"used up\", status = 429 }\n", "", nil, func(k *dialog) { k.turn("hi") }},
	{"error-window", "[[step]]\nerror = { code = \"context-overflow\", message = \"too long\" }\n[[step]]\ntimes = -1\ndo = [{ text = \"in short\" }]\n", "", nil,
		func(k *dialog) { k.turn("hi") }},
	{"error-window-later", "[[step]]\ndo = [{ text = \"" + long + "\" }]\n[[step]]\nerror = { code = \"context-overflow\", message = \"too long\" }\n" +
		"[[step]]\ntimes = -1\ndo = [{ text = \"in short\" }]\n", "", nil, func(k *dialog) { k.turn("one"); k.turn("two") }},
	{"compact", "[[step]]\ndo = [{ text = \"" + long + "\" }]\n[[step]]\ntimes = -1\ndo = [{ text = \"in short\" }]\n", "", nil, func(k *dialog) {
		k.turn("hi")
		k.Call("thread/compact/start", map[string]any{"threadId": k.thread}, nil)
		k.Notified("turn/completed")
	}},
	{"compact-automatic", `
[[step]]
usage = { input = 5000, output = 20 }
do = [{ text = "` + long + `" }]
[[step]]
times = -1
do = [{ text = "in short" }]
`, atTokens, nil, func(k *dialog) { k.turn("one"); k.turn("two") }},
	{"user-shell", answers, "", nil, func(k *dialog) {
		k.Call("thread/shellCommand", map[string]any{"threadId": k.thread, "command": "echo mine"}, nil)
		k.Notified("turn/completed")
	}},
	{"review", answers, "", nil, func(k *dialog) {
		k.Refused("review/start", map[string]any{"threadId": k.thread, "target": map[string]any{"type": "custom", "instructions": " "}})
		k.Call("review/start", map[string]any{"threadId": k.thread, "target": map[string]any{"type": "custom", "instructions": "look at it"}}, nil)
		k.Notified("turn/completed")
	}},
	{"resume-loaded", answers, "", nil, func(k *dialog) {
		k.turn("hi")
		k.Call("thread/resume", map[string]any{"threadId": k.thread}, nil)
		k.Notified("thread/tokenUsage/updated")
	}},
	{"fork", answers, "", nil, func(k *dialog) {
		k.turn("hi")
		k.Call("thread/name/set", map[string]any{"threadId": k.thread, "name": "My name"}, nil)
		k.Notified("thread/name/updated")
		k.Call("thread/fork", map[string]any{"threadId": k.thread}, nil)
		k.Notified("thread/started")
	}},
	{"client-tool", lookupScript, "", nil, func(k *dialog) {
		k.offer()
		decide("item/tool/call", `{"contentItems":[{"type":"inputText","text":"It is 4 degrees."},{"type":"inputImage","imageUrl":"data:image/png;base64,`+pixel+`"}],"success":true}`)(k)
	}},
	{"client-tool-fails", lookupScript, "", nil, func(k *dialog) {
		k.offer()
		decide("item/tool/call", `{"contentItems":[{"type":"inputText","text":"no such place"}],"success":false}`)(k)
	}},
	{"client-tool-malformed", lookupScript, "", nil, func(k *dialog) {
		k.offer()
		decideWrong("item/tool/call", `{"contentItems":[{"type":"inputAudio","audioUrl":"data:"}],"success":true}`)(k)
	}},
	{"client-tool-refused", lookupScript, "", nil, func(k *dialog) {
		k.offer()
		_, q := k.asked("hi", "item/tool/call")
		k.Send(fmt.Sprintf(`{"id":%s,"error":{"code":-32000,"message":"the map is closed"}}`, q.ID))
		k.Notified("turn/completed")
	}},
	{"client-tool-interrupted", lookupScript, "", nil, func(k *dialog) {
		k.offer()
		turn, _ := k.asked("hi", "item/tool/call")
		k.Call("turn/interrupt", map[string]any{"threadId": k.thread, "turnId": turn}, nil)
		k.Notified("turn/completed")
	}},
	{"archive", answers, "", nil, func(k *dialog) {
		k.turn("hi")
		k.Call("thread/archive", map[string]any{"threadId": k.thread}, nil)
		k.Notified("thread/archived")
		k.Call("thread/unarchive", map[string]any{"threadId": k.thread}, nil)
	}},
}

var untrusted = []string{"-c", "approval.policy=untrusted"}

// onRequest lets plugins ask, unlike never.
var onRequest = []string{"-c", "approval.policy=on-request"}

// offer goes on with a thread for which the client has tools.
func (k *dialog) offer() {
	k.t.Helper()
	k.thread = begin(k.t, k.Client, weatherTools())
}

// decide answers the first question of a turn.
func decide(method, answer string) func(k *dialog) {
	return func(k *dialog) {
		_, q := k.asked("hi", method)
		k.Answer(q, json.RawMessage(answer))
		k.Notified("turn/completed")
	}
}

// decideWrong answers the first question of a turn with what is no answer to it.
func decideWrong(method, answer string) func(k *dialog) {
	return func(k *dialog) {
		_, q := k.asked("hi", method)
		k.AnswerWrong(q, json.RawMessage(answer))
		k.Notified("turn/completed")
	}
}

// The conversations are the same on all transports. -update writes their files anew.
func TestAppServerConversations(t *testing.T) {
	t.Parallel()
	for _, tc := range conversations {
		converses(t, tc.name, tc.script, func(_ *testing.T, r *rig.Rig) { r.Config(tc.config) }, tc.args, tc.talk)
	}
	for _, tc := range []struct{ name, tool, method, answer string }{
		{"ask-choice", "ask_choice", "item/tool/requestUserInput", `{"answers":{"choice":{"answers":["blue"]}}}`},
		{"ask-form", "ask_form", "mcpServer/elicitation/request", `{"action":"accept","content":{"size":3}}`},
		{"ask-form-wrong", "ask_form", "mcpServer/elicitation/request", `{"action":"accept","content":{"size":"three"}}`},
		{"ask-form-declined", "ask_form", "mcpServer/elicitation/request", `{"action":"decline"}`},
		{"ask-form-cancelled", "ask_form", "mcpServer/elicitation/request", `{"action":"cancel"}`},
	} {
		method, answer := tc.method, tc.answer
		converses(t, tc.name, askScript(tc.tool), func(t *testing.T, r *rig.Rig) { addOdd(t, r, "clerk", "asks", "") }, onRequest, decide(method, answer))
	}
}

// askScript is a model that calls a tool once.
func askScript(tool string) string {
	return "[[step]]\ndo = [{ call = \"" + tool + "\", id = \"c1\" }]\n[[step]]\ndo = [{ text = \"done\" }]\n"
}

// converses has a conversation on all transports and compares it with its file.
func converses(t *testing.T, name, script string, setup func(*testing.T, *rig.Rig), args []string, talk func(*dialog)) {
	path := filepath.Join("testdata", "appserver", name+".txt")
	for _, transport := range rig.Transports() {
		t.Run(name+"/"+transport, func(t *testing.T) {
			t.Parallel()
			r := rig.New(t, "[defaults]\nusage = { input = 100, output = 10 }\n"+script)
			setup(t, r)
			c := r.AppServerOn(transport, args...)
			greet(t, c)
			k := &dialog{Client: c, t: t, r: r, thread: begin(t, c, map[string]any{})}
			received, sent := len(c.All), len(c.Sent)
			talk(k)
			end := len(c.Sent)
			c.Call("thread/loaded/list", map[string]any{}, nil) // what is sent after the end arrives before the response
			numbered(t, c.All)
			got := rendered(t, r, c, received, c.Sent[sent:end])
			if *update && transport == "stdio" {
				if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if got != string(want) {
				t.Errorf("the conversation differs from %s; if that is meant, run go test -run TestAppServerConversations -update\ngot:\n%s\nwant:\n%s", path, got, want)
			}
		})
	}
}

// numbered checks that the numbers of a thread's notifications never fall, and that those of items and turns have one.
func numbered(t *testing.T, messages []rig.Message) {
	t.Helper()
	last := map[string]uint64{}
	for _, m := range messages {
		var p struct{ ThreadID string }
		if m.Method == "" || json.Unmarshal(m.Params, &p) != nil || p.ThreadID == "" {
			continue
		}
		if (strings.HasPrefix(m.Method, "item/") || strings.HasPrefix(m.Method, "turn/")) && m.ID == nil && m.Seq == 0 {
			t.Errorf("%s has no number", m.Raw)
		}
		if m.Seq != 0 && m.Seq < last[p.ThreadID] {
			t.Errorf("%s follows number %d", m.Raw, last[p.ThreadID])
		}
		last[p.ThreadID] = max(last[p.ThreadID], m.Seq)
	}
}

// volatile are members whose value differs from run to run. That they are there is part of a conversation.
var volatile = []string{
	"startedAtMs", "completedAtMs", "startedAt", "completedAt", "createdAt", "updatedAt", "recencyAt", "durationMs", "cliVersion", "processId", "requestId",
}

var wallTime = regexp.MustCompile(`Wall time: [0-9.]+ seconds`)

var uuids = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)

// rendered writes a conversation, a message per line, so that the same conversation is always the same text: without what is null, IDs
// by the order in which they appear, deltas of an item as one.
func rendered(t *testing.T, r *rig.Rig, c *rig.Client, received int, sent []rig.Sent) string {
	t.Helper()
	var out []string
	ids := map[string]string{}
	var clean func(v any) any
	clean = func(v any) any {
		switch v := v.(type) {
		case map[string]any:
			m := map[string]any{}
			for _, k := range slices.Sorted(maps.Keys(v)) {
				switch {
				case v[k] == nil:
				case slices.Contains(volatile, k):
					m[k] = "…"
				default:
					m[k] = clean(v[k])
				}
			}
			return m
		case []any:
			for i := range v {
				v[i] = clean(v[i])
			}
			return v
		case string:
			v = strings.ReplaceAll(v, long, "LONG")
			v = wallTime.ReplaceAllString(strings.NewReplacer(r.Dir, "DIR", r.Home, "HOME").Replace(v), "Wall time: …")
			return uuids.ReplaceAllStringFunc(v, func(id string) string {
				if ids[id] == "" {
					ids[id] = fmt.Sprintf("ID%d", len(ids)+1)
				}
				return ids[id]
			})
		}
		return v
	}
	text := func(raw json.RawMessage) string {
		var v any
		if err := json.Unmarshal(raw, &v); err != nil {
			t.Fatalf("%v\n%s", err, raw)
		}
		var b bytes.Buffer
		e := json.NewEncoder(&b)
		e.SetEscapeHTML(false)
		if err := e.Encode(clean(v)); err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(b.String())
	}
	var last struct{ method, item, delta string }
	for i := received; i <= len(c.All); i++ {
		for len(sent) > 0 && sent[0].After == i {
			var m rig.Message
			if err := json.Unmarshal(sent[0].Raw, &m); err != nil {
				t.Fatal(err)
			}
			sent = sent[1:]
			switch {
			case m.Method != "":
				out = append(out, fmt.Sprintf("→ %s %s", m.Method, text(m.Params)))
			case m.Error != nil:
				out = append(out, fmt.Sprintf("→ error %d %s", m.Error.Code, m.Error.Message))
			default:
				out = append(out, "→ answer "+text(m.Result))
			}
		}
		if i == len(c.All) {
			break
		}
		m := c.All[i]
		var d struct{ ItemID, Delta string }
		if strings.HasSuffix(m.Method, "elta") {
			m.Into(t, &d)
		}
		if d.Delta != "" && m.Method == last.method && d.ItemID == last.item {
			var p map[string]any
			m.Into(t, &p)
			last.delta += d.Delta
			p["delta"] = last.delta
			raw, err := json.Marshal(p)
			if err != nil {
				t.Fatal(err)
			}
			out[len(out)-1] = fmt.Sprintf("← %s %s", m.Method, text(raw))
			continue
		}
		last.method, last.item, last.delta = m.Method, d.ItemID, d.Delta
		switch {
		case m.Answers == "thread/loaded/list":
		case m.Method != "" && m.ID != nil:
			out = append(out, fmt.Sprintf("← question %s %s", m.Method, text(m.Params)))
		case m.Method != "":
			out = append(out, fmt.Sprintf("← %s %s", m.Method, text(m.Params)))
		case m.Error != nil:
			out = append(out, fmt.Sprintf("← error of %s: %d %s", m.Answers, m.Error.Code, clean(m.Error.Message)))
		default:
			out = append(out, fmt.Sprintf("← result of %s %s", m.Answers, text(m.Result)))
		}
	}
	return strings.Join(out, "\n") + "\n"
}
