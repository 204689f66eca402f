package e2e_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/gantry-agent/gantry/e2e/rig"
)

// vectors are the cases that were recorded with codex's app server, and the tests that hold ours to them, or to what it should do
// instead. host tests are named by package.
var vectors = map[string]string{
	"handshake 1-4, 6-10, 12, 13 (method), 14, 15, 20": "TestAppServerEnvelope, rpc.TestDecode, protocol.TestRefusedParams",
	"handshake 5, 11, 13 (field, value), 16-19, 21":    "TestAppServerHandshake",
	"threads 1, 2, 13, 14":                             "TestAppServerFreshThread",
	"threads 3-7":                                      "TestHistoryPages, transcript.TestTurnsPages, transcript.TestItemsPages",
	"threads 8-10":                                     "TestAppServerFork",
	"threads 11, 12, 15-17, 19":                        "TestAppServerStoredThreads",
	"threads 18":                                       "TestAppServerTwoProcesses",
	"threads 20":                                       "TestAppServerInjectItems",
	"threads 21":                                       "TestAppServerEphemeral",
	"turns 1, 2":                                       "TestAppServerSteer",
	"turns 3, 5-7":                                     "TestAppServerTurnVectors",
	"turns 4":                                          "TestAppServerTurnWithoutInput",
	"turns 8, 9, 10":                                   "TestAppServerManyClients",
	"turns 11, 12":                                     "TestAppServerEndOfServer",
	"command/exec 1-9":                                 "workbench.TestCommandExec, workbench.TestCommandExecRefuses, workbench.TestCommandExecStreams, workbench.TestCloseEndsCommands",
	"fs 10-12":                                         "workbench.TestReadFile, workbench.TestCopy, workbench.TestWatch",
	"exec 1-3":                                         "TestExecSequences",
	"exec 4, 6-8":                                      "TestExecFails, TestExecStandardInput, TestExecResume, TestExecSignals",
	"exec 5":                                           "TestExecNeedsNoRepository",
	"recorded sequences, on all transports":            "TestAppServerConversations",
}

// improvements are what codex's app server and exec do badly, as their users say or as it was seen, and the tests that hold ours to better.
var improvements = map[string]string{
	"an unknown method is told apart, and methods are listed":           "TestAppServerEnvelope, TestAppServerHandshake",
	"garbage is answered, and ends the connection if it goes on":        "rpc.TestGarbageIsAnswered, rpc.TestRepeatedGarbageClosesTheConnection",
	"no reply is dropped, so that nothing need be sent again":           "rpc.TestEveryPipelinedRequestIsAnswered, rpc.TestReadingStopsAtTheBoundOfRequests",
	"a slow client loses nothing and slows nobody":                      "rpc.TestAReaderThatStops, TestAppServerHostileClients",
	"notifications are numbered, and sent again after a reconnect":      "TestAppServerAfterSeq, TestAppServerConversations",
	"a client that joins gets the text of open items":                   "TestAppServerResumeDuringAnAnswer, TestHistoryOfRunningTurn",
	"only subscribers answer questions, whose IDs are random":           "TestAppServerManyClients, TestAppServerLaunchedClient",
	"a websocket needs a token on loopback too":                         "appserver/transport.TestAuthPermitsAddress, TestAppServerRefusesHandshakes",
	"items and requests end before their turn":                          "TestAppServerConversations, TestAppServerInterrupt",
	"an interrupt and the end of exec end the commands":                 "TestAppServerInterrupt, TestExecSignals, TestSessionEndsWithItsHost",
	"output is shown from its first byte on":                            "TestAppServerCommand, TestAppServerConversations",
	"the user's profile is read once":                                   "TestProfileIsReadOnce",
	"a review has one turn, and the status one order":                   "TestAppServerConversations",
	"a question has a timeout, and clients say what they can answer":    "approval.TestTimeout, TestAppServerKindsOfQuestions",
	"who starts a turn gets its events":                                 "TestAppServerFreshThread",
	"lists lose nothing, and what is refused has no effect":             "TestHistoryThreadList, TestAppServerTwoProcesses",
	"a thread is kept from its start, and a message is accepted once":   "TestAppServerThreadWithoutTurnsIsKept, TestAppServerRepeatedMessage",
	"exec reports the usage of the turn beside that of the thread":      "TestExecUsageOverResumes",
	"exec reads standard input only if it is piped, and reports no lag": "TestExecStandardInput, TestAttachedClientThatDoesNotRead",
	"exec resumes no thread that does not exist":                        "TestExecResume",
	"idle threads are unloaded, and signals drain all transports":       "hub.TestIdleThreadsAreUnloaded, appserver/transport.TestDrain, appserver/transport.TestDrainStdio",
	"a thread is forked before a message, and a search leads to a turn": "TestAppServerFork, TestHistoryPages",
	"a folder that is not there is refused, and none becomes trusted":   "TestAppServerEnvelope, TestAppServerThreadWithoutTurnsIsKept",
}

func refusal(t *testing.T, c *rig.Client, method string, params any, code int, message string) {
	t.Helper()
	if got, text := c.Refused(method, params); got != code || !strings.HasPrefix(text, message) {
		t.Errorf("%s %v: %d %s, want %d %s", method, params, got, text, code, message)
	}
}

type object = map[string]any

// The rest of the handshake and the envelope, with a client that has not declared experimentalApi.
func TestAppServerHandshake(t *testing.T) {
	t.Parallel()
	r := rig.New(t, answers)
	c := r.AppServer()
	c.Send(`{"jsonrpc":"2.0","id":"init-1","method":"initialize","more":1,"params":{"clientInfo":{"name":"","version":"1","more":2},"more":3,` +
		`"capabilities":{"optOutNotificationMethods":["thread/started","no/such"]}}}`)
	m := c.Reply(`"init-1"`)
	if m.Error != nil {
		t.Fatalf("%+v", m.Error)
	}
	var hello struct {
		ProtocolVersion, UserAgent string
		Methods                    []string
	}
	if err := json.Unmarshal(m.Result, &hello); err != nil {
		t.Fatal(err)
	}
	// What this client can call, and nothing else.
	for method, want := range map[string]bool{"thread/start": true, "thread/loaded/list": true, "thread/settings/update": false, "no/such": false} {
		if slices.Contains(hello.Methods, method) != want {
			t.Errorf("%s is among the methods: %v", method, !want)
		}
	}
	if hello.ProtocolVersion != "0.169.0" || !strings.HasPrefix(hello.UserAgent, "/0.169.0+gantry.") {
		t.Errorf("%q, %q", hello.ProtocolVersion, hello.UserAgent)
	}
	unknown := "01a20e55-eea7-7bf0-b27f-480cea2baedf"
	for _, method := range []string{"thread/read", "thread/resume", "turn/start"} {
		m := c.Reply(c.Request(method, object{"threadId": unknown, "input": []any{}}))
		if m.Error == nil || m.Error.Code != -32600 || !strings.Contains(string(m.Error.Data), `"kind":"not_found"`) {
			t.Errorf("%s: %s", method, m.Raw)
		}
	}
	refusal(t, c, "thread/start", object{"dynamicTools": []any{}}, -32600, "thread/start.dynamicTools requires experimentalApi")
	granular := object{"granular": object{"sandbox_approval": true, "rules": true, "mcp_elicitations": true}}
	refusal(t, c, "thread/start", object{"approvalPolicy": granular}, -32600, "askForApproval.granular requires experimentalApi")
	for range 2 {
		c.Send(`{"id":30,"method":"thread/loaded/list","params":{}}`)
	}
	for range 2 {
		if m := c.Next(); string(m.ID) != "30" || m.Error != nil {
			t.Errorf("%s", m.Raw)
		}
	}
	c.Call("config/mcpServer/reload", nil, nil)
	c.Call("config/mcpServer/reload", object{}, nil)
	refusal(t, c, "thread/list", object{"cursor": "zzz"}, -32600, "invalid cursor: zzz")
	c.Call("thread/start", object{}, nil)
	c.Call("thread/loaded/list", object{}, nil)
	for _, m := range c.All {
		if m.Method == "thread/started" {
			t.Error("the client has opted out of thread/started")
		}
	}
}

// A thread without turns, and who is subscribed to it.
func TestAppServerFreshThread(t *testing.T) {
	t.Parallel()
	r := rig.New(t, answers)
	server := r.Serve("unix")
	c, other := server.Connect(), server.Connect()
	greet(t, c)
	greet(t, other)
	thread := begin(t, c, object{})
	var list struct{ Data []any }
	if c.Call("thread/list", object{}, &list); len(list.Data) != 0 {
		t.Errorf("a thread without turns is listed: %v", list.Data)
	}
	var read struct{ Thread struct{ Turns []any } }
	if c.Call("thread/read", object{"threadId": thread, "includeTurns": true}, &read); len(read.Thread.Turns) != 0 {
		t.Errorf("%v", read)
	}
	var gone struct{ Status string }
	for _, want := range []string{"unsubscribed", "notSubscribed"} {
		if c.Call("thread/unsubscribe", object{"threadId": thread}, &gone); gone.Status != want {
			t.Errorf("%s, want %s", gone.Status, want)
		}
	}
	if c.Call("thread/unsubscribe", object{"threadId": "01a20e55-eea7-7bf0-b27f-480cea2baedf"}, &gone); gone.Status != "notLoaded" {
		t.Errorf("%s", gone.Status)
	}
	submit(t, other, thread, "hi") // which subscribes
	other.Notified("turn/completed")
	c.Until(func(m rig.Message) bool {
		return m.Method == "thread/status/changed" && strings.Contains(string(m.Params), "idle")
	})
	for _, m := range c.All {
		if strings.HasPrefix(m.Method, "item/") || strings.HasPrefix(m.Method, "turn/") {
			t.Errorf("a client that has not subscribed gets %s", m.Method)
		}
	}
}

type openedThread struct {
	Model  string
	Thread struct {
		ID, Name, Preview, ForkedFromID string
		Status                          struct{ Type string }
		Turns                           []struct {
			ID, Status string
			Items      []struct{ Type, Text string }
		}
	}
}

// turnsOf plays turns and returns their IDs.
func turnsOf(t *testing.T, c *rig.Client, thread string, texts ...string) (ids []string) {
	t.Helper()
	for _, s := range texts {
		ids = append(ids, submit(t, c, thread, s))
		c.Notified("turn/completed")
	}
	return ids
}

func TestAppServerFork(t *testing.T) {
	t.Parallel()
	r := rig.New(t, answers)
	c := r.AppServer()
	greet(t, c)
	thread := begin(t, c, object{})
	ids := turnsOf(t, c, thread, "one", "two", "three")
	c.Call("thread/name/set", object{"threadId": thread, "name": " My name "}, nil)
	var f openedThread
	if c.Call("thread/fork", object{"threadId": thread}, &f); f.Thread.Name != "My name" || f.Thread.Preview != "one" || f.Thread.ForkedFromID != thread ||
		f.Thread.ID == thread || len(f.Thread.Turns) != 3 {
		t.Errorf("%+v", f)
	}
	for _, at := range []object{{"lastTurnId": ids[0]}, {"beforeTurnId": ids[1]}} {
		at["threadId"] = thread
		var f openedThread
		if c.Call("thread/fork", at, &f); len(f.Thread.Turns) != 1 || f.Thread.Turns[0].Status != "completed" || f.Thread.Turns[0].Items[1].Text != "answer 1" {
			t.Errorf("%v: %+v", at, f)
		}
	}
	refusal(t, c, "thread/fork", object{"threadId": thread, "lastTurnId": ids[0], "beforeTurnId": ids[1]}, -32602, "")
	refusal(t, c, "thread/fork", object{"threadId": thread, "lastTurnId": "none"}, -32600, "turn not found: none")
	refusal(t, c, "thread/name/set", object{"threadId": thread, "name": " "}, -32600, "thread name must not be empty")
}

// Resuming, archiving, deleting and reverting.
func TestAppServerStoredThreads(t *testing.T) {
	t.Parallel()
	r := rig.New(t, "[defaults]\nusage = { input = 100, output = 10 }\n"+answers)
	r.Config("model \"second\" {\n  provider = \"scripted\"\n  name     = \"scripted\"\n}\n")
	c := r.AppServer()
	greet(t, c)
	thread := begin(t, c, object{})
	ids := turnsOf(t, c, thread, "one", "two", "three")
	var o openedThread
	if c.Call("thread/resume", object{"threadId": thread, "model": "second"}, &o); o.Model != "default" {
		t.Errorf("a thread with subscribers has changed to %s", o.Model)
	}
	c.Call("thread/unsubscribe", object{"threadId": thread}, nil)
	from := len(c.All)
	if c.Call("thread/resume", object{"threadId": thread, "model": "second"}, &o); o.Model != "second" || o.Thread.Status.Type != "idle" {
		t.Errorf("a thread without subscribers has %s", o.Model)
	}
	c.Notified("thread/status/changed")
	want := []string{"thread/status/changed notLoaded", "thread/closed", "response", "thread/status/changed idle"}
	if got := sequence(t, c.All[from:]); !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	c.Call("thread/revert", object{"threadId": thread, "beforeTurnId": ids[2]}, nil)
	var two openedThread
	if c.Call("thread/read", object{"threadId": thread, "includeTurns": true}, &two); len(two.Thread.Turns) != 2 {
		t.Errorf("%d turns after reverting the third", len(two.Thread.Turns))
	}
	from = len(c.All)
	c.Call("thread/resume", object{"threadId": thread}, nil)
	var used struct {
		TokenUsage struct{ Total struct{ TotalTokens int } }
	}
	for len(c.All) == from || used.TokenUsage.Total.TotalTokens == 0 {
		c.Notified("thread/tokenUsage/updated").Into(t, &used)
	}
	if used.TokenUsage.Total.TotalTokens != 220 {
		t.Errorf("%+v after the third turn was reverted, want what two turns have used", used)
	}
	var f openedThread
	c.Call("thread/fork", object{"threadId": thread}, &f)
	c.Call("thread/archive", object{"threadId": thread}, nil)
	for _, method := range []string{"thread/resume", "thread/fork", "thread/archive"} {
		refusal(t, c, method, object{"threadId": thread}, -32600, "")
	}
	c.Call("thread/read", object{"threadId": thread}, nil)
	c.Call("thread/unarchive", object{"threadId": thread}, nil)
	refusal(t, c, "thread/unarchive", object{"threadId": thread}, -32600, "")
	refusal(t, c, "turn/start", object{"threadId": thread, "input": []any{}}, -32600, "thread not found: "+thread)
	c.Call("thread/resume", object{"threadId": thread}, nil)
	turnsOf(t, c, thread, "four")
	// Codex refuses to delete a thread whose history a fork shares. Here the fork keeps what it needs.
	c.Call("thread/delete", object{"threadId": thread}, nil)
	var read openedThread
	if c.Call("thread/read", object{"threadId": f.Thread.ID, "includeTurns": true}, &read); len(read.Thread.Turns) != 2 {
		t.Errorf("the fork has %d turns after its source was deleted", len(read.Thread.Turns))
	}
	refusal(t, c, "thread/read", object{"threadId": thread}, -32600, "no thread ")
}

// Two servers on one home: one process runs the thread, both can read it. Codex refuses to resume it in the other one. Here that follows the
// thread where it runs; what moves or deletes it is refused, without an effect on it.
func TestAppServerTwoProcesses(t *testing.T) {
	t.Parallel()
	r := rig.New(t, answers)
	a, b := r.AppServer(), r.AppServer()
	greet(t, a)
	greet(t, b)
	thread := begin(t, a, object{})
	turnsOf(t, a, thread, "one")
	var read openedThread
	if b.Call("thread/read", object{"threadId": thread, "includeTurns": true}, &read); len(read.Thread.Turns) != 1 {
		t.Errorf("%+v", read)
	}
	var resumed openedThread
	if b.Call("thread/resume", object{"threadId": thread}, &resumed); resumed.Thread.Status.Type != "idle" {
		t.Errorf("%+v", resumed)
	}
	turnsOf(t, b, thread, "two")
	a.Notified("turn/completed")
	refusal(t, b, "thread/delete", object{"threadId": thread}, -32600, "")
	turnsOf(t, a, thread, "three")
}

// A thread that is not stored. Codex refuses to resume it and to list its turns. Here it can be read and joined as long as it runs, by the
// clients of its process; nothing is left of it.
func TestAppServerEphemeral(t *testing.T) {
	t.Parallel()
	r := rig.New(t, answers)
	server := r.Serve("unix")
	c := server.Connect()
	greet(t, c)
	thread := begin(t, c, object{"ephemeral": true})
	turnsOf(t, c, thread, "one")
	second := server.Connect()
	greet(t, second)
	var o openedThread
	if second.Call("thread/resume", object{"threadId": thread}, &o); len(o.Thread.Turns) != 1 {
		t.Errorf("%+v", o)
	}
	elsewhere := r.AppServer()
	greet(t, elsewhere)
	for _, method := range []string{"thread/archive", "thread/turns/list"} {
		refusal(t, elsewhere, method, object{"threadId": thread}, -32600, "")
	}
	var list struct{ Data []any }
	if c.Call("thread/list", object{}, &list); len(list.Data) != 0 {
		t.Errorf("it is listed: %v", list.Data)
	}
	refusal(t, c, "thread/archive", object{"threadId": thread}, -32600, "")
	turnsOf(t, c, thread, "two")
	server.Signal(syscall.SIGTERM)
	server.Wait()
	refusal(t, elsewhere, "thread/resume", object{"threadId": thread}, -32600, "")
}

func TestAppServerTurnVectors(t *testing.T) {
	t.Parallel()
	t.Run("steer during compaction", func(t *testing.T) {
		t.Parallel()
		r := rig.New(t, "[[step]]\ndo = [{ text = \""+long+"\" }]\n[[step]]\ndo = [{ text = \"in sh\" }]\nbreak = { how = \"hang\" }\n")
		c := r.AppServer()
		greet(t, c)
		thread := begin(t, c, object{})
		turnsOf(t, c, thread, "one")
		c.Call("thread/compact/start", object{"threadId": thread}, nil)
		var started struct{ Turn struct{ ID string } }
		c.Notified("turn/started").Into(t, &started)
		c.Notified("item/started")
		m := c.Reply(c.Request("turn/steer", object{"threadId": thread, "expectedTurnId": started.Turn.ID, "input": text("more")}))
		if m.Error == nil || m.Error.Code != -32600 || m.Error.Message != "cannot steer a compact turn" ||
			!strings.Contains(string(m.Error.Data), `"activeTurnNotSteerable":{"turnKind":"compact"}`) {
			t.Errorf("%s", m.Raw)
		}
		c.Call("turn/interrupt", object{"threadId": thread, "turnId": started.Turn.ID}, nil)
	})
	t.Run("input", func(t *testing.T) {
		t.Parallel()
		r := rig.New(t, answers)
		c := r.AppServer()
		greet(t, c)
		thread := begin(t, c, object{})
		m := c.Reply(c.Request("turn/start", object{"threadId": thread, "input": text(strings.Repeat("x", 1<<20+1))}))
		if m.Error == nil || m.Error.Code != -32602 || !strings.Contains(string(m.Error.Data), `"input_error_code":"input_too_large","max_chars":1048576,"actual_chars":1048577`) {
			t.Errorf("%s", m.Raw)
		}
	})
	t.Run("settings of a turn", func(t *testing.T) {
		t.Parallel()
		r := rig.New(t, answers)
		r.Config("model \"second\" {\n  provider = \"scripted\"\n  name     = \"scripted\"\n}\n")
		c := r.AppServer()
		greet(t, c)
		thread := begin(t, c, object{})
		schema := object{"type": "object", "properties": object{"a": object{"type": "string"}}, "required": []any{"a"}, "additionalProperties": false}
		c.Call("turn/start", object{"threadId": thread, "input": text("one"), "outputSchema": schema, "model": "second"}, nil)
		c.Notified("turn/completed")
		turnsOf(t, c, thread, "two")
		updated := 0
		for _, m := range c.All {
			if m.Method == "thread/settings/updated" {
				updated++
			}
		}
		if updated != 1 {
			t.Errorf("%d times thread/settings/updated", updated)
		}
		q := r.Requests()
		for i, want := range []bool{true, false} {
			raw, err := json.Marshal(q[i].Request)
			if err != nil {
				t.Fatal(err)
			}
			if got := strings.Contains(string(raw), `"required":["a"]`); got != want {
				t.Errorf("request %d has the schema: %v", i+1, got)
			}
		}
		var read openedThread
		if c.Call("thread/resume", object{"threadId": thread}, &read); read.Model != "second" {
			t.Errorf("the second turn had the model %s", read.Model)
		}
	})
}

// A turn without input has no message of the user: the model is asked with the history as it is.
func TestAppServerTurnWithoutInput(t *testing.T) {
	t.Parallel()
	r := rig.New(t, `
[[step]]
when = { since_user = 0, absent = "first" }
do = [{ text = "hello?" }]
[[step]]
when = { since_user = 0 }
do = [{ call = "exec_command", id = "c1", args = { cmd = "touch running; until [ -e go ]; do sleep 0.01; done", login = false } }]
[[step]]
times = -1
do = [{ text = "answer ${request}" }]
`)
	server := r.Serve("unix")
	c := server.Connect()
	greet(t, c)
	thread := begin(t, c, object{})
	none := func(c *rig.Client, more object) string {
		t.Helper()
		params := object{"threadId": thread, "input": []any{}}
		for k, v := range more {
			params[k] = v
		}
		var started struct{ Turn struct{ ID, Status string } }
		if c.Call("turn/start", params, &started); started.Turn.Status != "inProgress" {
			t.Errorf("%+v", started)
		}
		return started.Turn.ID
	}
	items := func() (types []string) {
		var read struct {
			Thread struct {
				Turns []struct{ Items []struct{ Type, Text string } }
			}
		}
		c.Call("thread/read", object{"threadId": thread, "includeTurns": true}, &read)
		for i, turn := range read.Thread.Turns {
			for _, it := range turn.Items {
				types = append(types, fmt.Sprintf("%d %s %s", i+1, it.Type, it.Text))
			}
		}
		return types
	}
	none(c, nil)
	c.Notified("turn/completed")
	if got, want := items(), []string{"1 agentMessage hello?"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}

	turn := submit(t, c, thread, "first")
	r.Until("the command runs", func() bool { return exists(r.Dir, "running") })
	if got := none(c, object{"additionalContext": object{"editor": object{"value": "main.go is open", "kind": "application"}}}); got != turn {
		t.Errorf("a turn without input during a turn is %s, want %s", got, turn)
	}
	if code, message := c.Refused("turn/steer", object{"threadId": thread, "expectedTurnId": turn, "input": []any{}}); code != -32600 || message != "input must not be empty" {
		t.Errorf("%d %s", code, message)
	}
	r.Write("go", "")
	c.Notified("turn/completed")
	last, err := json.Marshal(r.Last().Request.Messages)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(last), "main.go is open") {
		t.Errorf("the model has not read the context: %s", last)
	}

	other := r.AppServer() // whose turns the first server runs
	greet(t, other)
	other.Call("thread/resume", object{"threadId": thread}, nil)
	none(other, nil)
	other.Notified("turn/completed")
	want := []string{"1 agentMessage hello?", "2 userMessage ", "2 commandExecution ", "2 agentMessage answer 3", "3 agentMessage answer 4"}
	if got := items(); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// Clients come and go: a question is put to each, the first answer counts, and it waits for clients that come back.
func TestAppServerManyClients(t *testing.T) {
	t.Parallel()
	r := rig.New(t, commandScript("touch made"))
	server := r.Serve("unix", untrusted...)
	a, b := server.Connect(), server.Connect()
	greet(t, a)
	greet(t, b)
	thread := begin(t, a, object{})
	turn := submit(t, a, thread, "hi")
	q := a.Notified("item/commandExecution/requestApproval")
	var o openedThread
	if b.Call("thread/resume", object{"threadId": thread}, &o); len(o.Thread.Turns) != 1 || o.Thread.Turns[0].ID != turn || o.Thread.Turns[0].Status != "inProgress" {
		t.Errorf("%+v", o)
	}
	if again := b.Notified("item/commandExecution/requestApproval"); string(again.ID) != string(q.ID) {
		t.Errorf("the question %s is %s for the second client", q.ID, again.ID)
	}
	a.Close()
	b.Close()
	unknown := server.Connect()
	unknown.AnswerWrong(q, object{"decision": "accept"}) // it has not even sent initialize
	refusal(t, unknown, "thread/loaded/list", object{}, -32600, "Not initialized")
	stranger := server.Connect()
	greet(t, stranger)
	stranger.AnswerWrong(q, object{"decision": "accept"}) // it has not subscribed
	stranger.Call("thread/loaded/list", object{}, nil)
	if exists(r.Dir, "made") {
		t.Error("the answer of a client that has not subscribed counts")
	}
	c, d := server.Connect(), server.Connect()
	for _, x := range []*rig.Client{c, d} {
		greet(t, x)
		x.Call("thread/resume", object{"threadId": thread}, nil)
		if again := x.Notified("item/commandExecution/requestApproval"); string(again.ID) != string(q.ID) {
			t.Errorf("the question %s is %s afterwards", q.ID, again.ID)
		}
	}
	d.Answer(q, object{"decision": "decline"})
	c.Notified("serverRequest/resolved")
	c.Answer(q, object{"decision": "accept"})
	c.Notified("turn/completed")
	d.Notified("turn/completed")
	if exists(r.Dir, "made") {
		t.Error("the second answer counts")
	}
}

// A client that resumes a thread during an answer gets what has been said so far, and what follows.
func TestAppServerResumeDuringAnAnswer(t *testing.T) {
	t.Parallel()
	r := rig.New(t, "[[step]]\ndo = [{ text = \"Half an answer\" }]\nbreak = { how = \"hang\" }\n")
	server := r.Serve("unix")
	a, b := server.Connect(), server.Connect()
	greet(t, a)
	greet(t, b)
	thread := begin(t, a, object{})
	turn := submit(t, a, thread, "hi")
	said := ""
	for said != "Half an answer" {
		var d struct{ Delta string }
		a.Notified("item/agentMessage/delta").Into(t, &d)
		said += d.Delta
	}
	var o openedThread
	b.Call("thread/resume", object{"threadId": thread}, &o)
	if n := len(o.Thread.Turns); n != 1 || len(o.Thread.Turns[0].Items) != 2 || o.Thread.Turns[0].Items[1].Text != "Half an answer" {
		t.Errorf("%+v", o)
	}
	b.Call("turn/interrupt", object{"threadId": thread, "turnId": turn}, nil)
	var end struct{ Item struct{ Type, Text string } }
	if b.Notified("item/completed").Into(t, &end); end.Item.Type != "agentMessage" || end.Item.Text != "Half an answer" {
		t.Errorf("%+v", end)
	}
}

// The response to a client that resumes a thread comes before anything else about the thread, however much happens in it.
func TestAppServerResumeIsAnsweredFirst(t *testing.T) {
	t.Parallel()
	r := rig.New(t, commandScript("until [ -e stop ]; do echo line; done"))
	server := r.Serve("unix")
	a := server.Connect()
	greet(t, a)
	thread := begin(t, a, object{})
	submit(t, a, thread, "hi")
	a.Notified("item/commandExecution/outputDelta")
	for range 30 {
		b := server.Connect()
		greet(t, b)
		from := len(b.All)
		b.Call("thread/resume", object{"threadId": thread, "excludeTurns": true}, nil)
		for _, m := range b.All[from : len(b.All)-1] {
			var p struct{ ThreadID string }
			if m.Into(t, &p); p.ThreadID == thread {
				t.Fatalf("before the response: %s", m.Raw)
			}
		}
		b.Notified("item/commandExecution/outputDelta")
		b.Close()
	}
	r.Write("stop", "")
	a.Notified("turn/completed")
}

// A thread is kept from its start on, and no folder becomes trusted by it.
func TestAppServerThreadWithoutTurnsIsKept(t *testing.T) {
	t.Parallel()
	r := rig.New(t, answers)
	r.Write(".gantry/gantry.hcl", "approval {\n  policy = \"untrusted\"\n}\n")
	trusted := func() string { return r.OK("trust", "--list").Stdout }
	before := trusted()
	c := r.AppServer()
	greet(t, c)
	thread := begin(t, c, object{"cwd": r.Dir, "sandbox": "danger-full-access"})
	c.Close()
	c = r.AppServer()
	greet(t, c)
	c.Call("thread/resume", object{"threadId": thread}, nil)
	turnsOf(t, c, thread, "one")
	if after := trusted(); after != before {
		t.Errorf("trusted: %q, before %q", after, before)
	}
}

// The end of a server in a turn: the turn is interrupted, and the thread can be used.
func TestAppServerEndOfServer(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"SIGKILL", "end of input"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			r := rig.New(t, commandScript("touch running; sleep 60"))
			var c *rig.Client
			if how == "SIGKILL" {
				server := r.Serve("unix")
				c = server.Connect()
				greet(t, c)
				thread := begin(t, c, object{})
				submit(t, c, thread, "hi")
				r.Until("the command runs", func() bool { return exists(r.Dir, "running") })
				server.Signal(syscall.SIGKILL)
				server.Wait()
				resumedInterrupted(t, r, thread)
				return
			}
			c = r.AppServer()
			greet(t, c)
			thread := begin(t, c, object{})
			submit(t, c, thread, "hi")
			r.Until("the command runs", func() bool { return exists(r.Dir, "running") })
			c.Close() // which waits for exit status 0
			resumedInterrupted(t, r, thread)
		})
	}
}

// resumedInterrupted resumes a thread whose only turn was cut off, with another turn.
func resumedInterrupted(t *testing.T, r *rig.Rig, thread string) {
	t.Helper()
	if err := os.Remove(r.Dir + "/running"); err != nil {
		t.Fatal(err)
	}
	c := r.AppServer()
	greet(t, c)
	var o struct {
		Thread struct {
			Turns []struct {
				Status      string
				CompletedAt *int64
				Items       []struct{ Type, Status string }
			}
		}
	}
	c.Call("thread/resume", object{"threadId": thread}, &o)
	if len(o.Thread.Turns) != 1 {
		t.Fatalf("%+v", o)
	}
	if o.Thread.Turns[0].Status != "interrupted" || o.Thread.Turns[0].CompletedAt == nil {
		t.Errorf("%+v", o)
	}
	for _, item := range o.Thread.Turns[0].Items {
		if item.Status == "inProgress" {
			t.Errorf("an item is open: %+v", item)
		}
	}
	turn := submit(t, c, thread, "again")
	r.Until("the command runs", func() bool { return exists(r.Dir, "running") })
	c.Call("turn/interrupt", object{"threadId": thread, "turnId": turn}, nil)
}

// TestVectorsAreHeld checks that the tests of the vectors and of the improvements exist.
func TestVectorsAreHeld(t *testing.T) {
	t.Parallel()
	all := maps.Clone(vectors)
	maps.Copy(all, improvements)
	for cases, held := range all {
		for name := range strings.SplitSeq(held, ", ") {
			folder := "."
			if pkg, test, ok := strings.Cut(name, "."); ok {
				folder, name = filepath.Join("../host/internal", pkg), test
			}
			files, err := filepath.Glob(filepath.Join(folder, "*_test.go"))
			if err != nil {
				t.Fatal(err)
			}
			if !slices.ContainsFunc(files, func(path string) bool {
				b, err := os.ReadFile(path)
				return err == nil && strings.Contains(string(b), "\nfunc "+name+"(")
			}) {
				t.Errorf("%s: %s has no %s", cases, folder, name)
			}
		}
	}
}
