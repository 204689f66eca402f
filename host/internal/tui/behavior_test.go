package tui

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	tea "charm.land/bubbletea/v2"
	"github.com/gantry-agent/gantry/host/internal/client"
	"github.com/gantry-agent/gantry/host/internal/protocol"
	"github.com/gantry-agent/gantry/host/internal/rpc"
)

// running is a desk in the middle of a turn.
func running(t testing.TB) *desk {
	t.Helper()
	d := connected(t, 80, 30)
	d.replay("turn/started")
	if d.m.running() == nil {
		t.Fatal("no turn is running")
	}
	return d
}

func (d *desk) wants(method string, parts ...string) {
	d.t.Helper()
	params, ok := d.f.called(method)
	if !ok {
		d.t.Fatalf("%s was not called: %q", method, d.f.calls)
	}
	for _, p := range parts {
		if !strings.Contains(params, p) {
			d.t.Errorf("%s was called with %s, without %s", method, params, p)
		}
	}
}

func (d *desk) text() string { return d.m.composer.Text() }

// What is sent before the thread has started is sent when it has.
func TestSendsBeforeTheThread(t *testing.T) {
	d := newDesk(t, 80, 20)
	d.typeText("hi")
	d.press("enter")
	if _, sent := d.f.called(protocol.MethodTurnStart.Name); sent {
		t.Error("sent without a thread")
	}
	d.send(Events{client.Connected{}})
	d.wants(protocol.MethodTurnStart.Name, `"text":"hi"`, `"threadId":"t"`, "clientUserMessageId")
}

func TestMessages(t *testing.T) {
	for name, test := range map[string]struct {
		keys   []string
		method string
		params string
	}{
		"Enter steers":                {[]string{"g", "o", "enter"}, protocol.MethodTurnStart.Name, `"text":"go"`},
		"Tab queues":                  {[]string{"g", "o", "tab"}, protocol.MethodThreadQueueAdd.Name, `"text":"go"`},
		"a backslash begins a line":   {[]string{"a", "\\", "enter", "b", "enter"}, protocol.MethodTurnStart.Name, `"text":"a\nb"`},
		"Shift-Enter begins a line":   {[]string{"a", "shift+enter", "b", "enter"}, protocol.MethodTurnStart.Name, `"text":"a\nb"`},
		"! runs a command":            {[]string{"!", " ", "l", "s", "enter"}, protocol.MethodThreadShellCommand.Name, `"command":"ls"`},
		"Esc interrupts":              {[]string{"esc"}, protocol.MethodTurnInterrupt.Name, `"turnId":"00000000-0000-7000-8000-000000000002"`},
		"Ctrl-C interrupts":           {[]string{"ctrl+c"}, protocol.MethodTurnInterrupt.Name, ""},
		"a path is not a command":     {[]string{"/", "e", "/", "x", "enter"}, protocol.MethodTurnStart.Name, `"/e/x"`},
		"Shift-Tab changes presets":   {[]string{"shift+tab"}, protocol.MethodThreadSettingsUpdate.Name, `"sandboxPolicy":{"type":"readOnly"`},
		"a question mark can be sent": {[]string{"a", "?", "enter"}, protocol.MethodTurnStart.Name, `"text":"a?"`},
	} {
		t.Run(name, func(t *testing.T) {
			d := running(t)
			d.press(test.keys...)
			d.wants(test.method, test.params)
			if d.text() != "" {
				t.Errorf("%q is left", d.text())
			}
		})
	}
}

// A message that was refused comes back, with the reason.
func TestRefusedMessage(t *testing.T) {
	d := running(t)
	d.f.answers[protocol.MethodTurnStart.Name] = "error: it can't be steered"
	d.typeText("go")
	d.press("enter")
	if d.text() != "go" {
		t.Errorf("the message became %q", d.text())
	}
	d.shows("✗ it can't be steered", "do something else")
}

// A key that is pressed while a question appears is typed, and does not answer it.
func TestKeysBeforeAQuestion(t *testing.T) {
	d := connected(t, 80, 30)
	d.typeText("ma")
	d.replay("requestApproval")
	d.typeText("y")
	d.shows("keys count in a moment")
	if d.text() != "may" || len(d.f.given) > 0 {
		t.Fatalf("the message is %q, the answers %q", d.text(), d.f.given)
	}
	d.send(settled(d.m.quiet - 1)) // of a key before the last one
	d.typeText("n")
	if d.text() != "mayn" || len(d.f.given) > 0 {
		t.Fatalf("the message is %q, the answers %q", d.text(), d.f.given)
	}
	d.settle()
	d.press("a")
	if len(d.f.given) != 1 || !strings.Contains(d.f.given[0], `"execpolicy_amendment":["touch","../outside"]`) || d.text() != "mayn" {
		t.Errorf("the message is %q, the answers %q", d.text(), d.f.given)
	}
}

// A question that somebody else has answered disappears, and so do questions of a server that was lost.
func TestQuestionsElsewhere(t *testing.T) {
	d := connected(t, 80, 30)
	d.replay("serverRequest/resolved")
	if d.m.question != nil || len(d.f.given) > 0 {
		t.Errorf("%+v", d.m.question)
	}
	d = connected(t, 80, 30)
	d.replay("requestApproval")
	d.send(Events{client.Disconnected{}})
	if d.m.question != nil {
		t.Errorf("%+v", d.m.question)
	}
	d.send(Events{client.Connected{}})
	d.wants(protocol.MethodThreadResume.Name, `"threadId":"t"`, `"afterSeq":`)
}

func TestLeaving(t *testing.T) {
	for name, test := range map[string]struct {
		running bool
		keys    []string
		ends    bool
	}{
		"Ctrl-D":                            {false, []string{"ctrl+d"}, true},
		"Ctrl-D deletes if there is a text": {false, []string{"a", "left", "ctrl+d"}, false},
		"Ctrl-D asks while a turn runs":     {true, []string{"ctrl+d"}, false},
		"Ctrl-D twice":                      {true, []string{"ctrl+d", "ctrl+d"}, true},
		"another key in between":            {true, []string{"ctrl+d", "a", "backspace", "ctrl+d"}, false},
		"Ctrl-C asks":                       {false, []string{"ctrl+c"}, false},
		"Ctrl-C twice":                      {false, []string{"ctrl+c", "ctrl+c"}, true},
		"Ctrl-C clears first":               {false, []string{"a", "ctrl+c"}, false},
		"/quit":                             {false, []string{"/", "q", "u", "i", "t", "enter"}, true},
		"/quit waits for the turn":          {true, []string{"/", "q", "u", "i", "t", "enter"}, false},
		"/detach":                           {true, []string{"/", "d", "e", "t", "a", "c", "h", "enter"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			d := connected(t, 80, 20)
			if test.running {
				d = running(t)
			}
			d.press(test.keys...)
			if d.ended != test.ends {
				t.Errorf("ended: %v\n%s", d.ended, d.shown())
			}
		})
	}
}

func TestSuggestions(t *testing.T) {
	d := connected(t, 80, 20)
	d.f.answers[protocol.MethodFuzzyFileSearch.Name] = `{"files":[{"path":"cmd/main.go","match_type":"file"},{"path":"cmd","match_type":"directory"}]}`
	d.typeText("see @ma")
	d.wants(protocol.MethodFuzzyFileSearch.Name, `"query":"ma"`, `"roots":["/home/u/project"]`)
	d.shows("  cmd/main.go", "  cmd/")
	d.press("down", "tab")
	if d.text() != "see @cmd/ " {
		t.Errorf("%q", d.text())
	}
	d.press("ctrl+c")
	d.typeText("/com")
	d.shows("/compact", "compact the conversation")
	d.press("enter")
	d.wants(protocol.MethodThreadCompactStart.Name, `"threadId":"t"`)
	d.typeText("/na")
	d.press("enter") // takes the suggestion, which needs an argument
	d.typeText("docs")
	d.press("enter")
	d.wants(protocol.MethodThreadNameSet.Name, `"name":"docs"`)
	d.typeText("/nothing")
	d.press("enter")
	d.shows("/nothing is not a command")
}

func TestCommands(t *testing.T) {
	d := connected(t, 100, 30)
	d.f.answers[protocol.MethodModelList.Name] = `{"data":[{"model":"default","description":"the one","supportedReasoningEfforts":[{"reasoningEffort":"low"},{"reasoningEffort":"medium"},{"reasoningEffort":"high"}]},{"model":"other"}]}`
	run := func(keys ...string) { d.press(keys...) }
	d.typeText("/model")
	run("enter")
	d.shows("default  the one")
	run("down", "enter")
	d.wants(protocol.MethodThreadSettingsUpdate.Name, `"model":"other"`)
	d.typeText("/effort low")
	run("enter")
	d.wants(protocol.MethodThreadSettingsUpdate.Name, `"effort":"low"`)
	run("alt+.")
	d.wants(protocol.MethodThreadSettingsUpdate.Name, `"effort":"high"`)
	run("alt+,")
	d.wants(protocol.MethodThreadSettingsUpdate.Name, `"effort":"low"`)
	d.typeText("/permissions")
	run("enter")
	d.typeText("full")
	run("enter")
	d.wants(protocol.MethodThreadSettingsUpdate.Name, `"approvalPolicy":"never"`, `"dangerFullAccess"`)
	d.typeText("/review the docs")
	run("enter")
	d.wants(protocol.MethodReviewStart.Name, `"instructions":"the docs"`)
	d.typeText("/review")
	run("enter")
	d.wants(protocol.MethodReviewStart.Name, `"uncommittedChanges"`)

	d.f.answers[protocol.MethodGantryTurnUndo.Name] = `{"turnIds":["u"],"files":[{"path":"/home/u/project/a.go","action":"restore","obstacle":null}]}`
	d.typeText("/undo")
	run("enter")
	d.shows("Undo these changes?", "restore a.go")
	d.wants(protocol.MethodGantryTurnUndo.Name, `"dryRun":true`)
	run("enter")
	if params, _ := d.f.called(protocol.MethodGantryTurnUndo.Name); strings.Contains(params, "dryRun") {
		t.Errorf("undo: %s", params)
	}
	d.shows("restored 1 files: restore a.go")
	d.f.answers[protocol.MethodGantryTurnUndo.Name] = `{"refused":true,"files":[{"path":"/home/u/project/a.go","action":"restore","obstacle":"changed since"}]}`
	d.typeText("/redo")
	run("enter")
	d.wants(protocol.MethodGantryTurnUndo.Name, `"redo":true`)
	d.shows("not undone, because this would be lost: a.go (changed since)")

	d.replay("")
	d.typeText("/diff")
	run("enter")
	d.shows("+++ b/hello.txt")
	d.typeText("/status")
	run("enter")
	d.shows("folder /home/u/project", "sandbox: workspace-write")
	d.typeText("/copy")
	run("enter")
	d.shows("the last message was copied")

	d.f.answers[protocol.MethodThreadQueueList.Name] = `{"data":[{"id":"q1","input":[{"type":"text","text":"later"}]}]}`
	d.notify(protocol.NotifyThreadQueueChanged.Name, `{"threadId":"t"}`)
	d.shows("queued: later")
	d.typeText("/queue")
	run("enter", "enter")
	d.wants(protocol.MethodThreadQueueDelete.Name, `"queuedSubmissionId":"q1"`)
	if d.text() != "later" {
		t.Errorf("the queued message became %q", d.text())
	}
	run("ctrl+c")

	d.f.answers[protocol.MethodThreadFork.Name] = strings.Replace(startedThread, `"id":"t"`, `"id":"copy"`, 1)
	d.f.answers[protocol.MethodThreadResume.Name] = d.f.answers[protocol.MethodThreadFork.Name]
	d.typeText("/fork")
	run("enter")
	if d.m.thread.ID != "copy" {
		t.Errorf("the thread is %s", d.m.thread.ID)
	}
	d.wants(protocol.MethodThreadUnsubscribe.Name, `"threadId":"t"`)
	d.typeText("/new")
	run("enter")
	if d.m.thread.ID != "t" {
		t.Errorf("the thread is %s", d.m.thread.ID)
	}
	d.typeText("/help")
	run("enter")
	d.shows("Commands and keys")
}

// twoTurns is the response to thread/resume of a thread with two turns, of which each has changed a file.
var twoTurns = strings.TrimSuffix(startedThread, "}") + `,"initialTurnsPage":{"data":[
	{"id":"u2","status":"completed","items":[{"type":"userMessage","id":"m","content":[{"type":"text","text":"second task"}]},
		{"type":"fileChange","id":"f","status":"completed","changes":[{"path":"b.go","kind":{"type":"update"},"diff":"@@ -1 +1 @@\n-old b\n+new b\n"}]},
		{"type":"userMessage","id":"s","content":[{"type":"text","text":"steered"}]}]},
	{"id":"u1","status":"completed","items":[{"type":"userMessage","id":"m","content":[{"type":"text","text":"first task"}]},
		{"type":"fileChange","id":"f","status":"completed","changes":[{"path":"a.go","kind":{"type":"update"},"diff":"@@ -1 +1 @@\n-old a\n+new a\n"}]}]}
	],"nextCursor":null}}`

// Esc twice edits an earlier message: in a fork, here, or with the files as they were.
func TestGoingBack(t *testing.T) {
	back := func(keys ...string) *desk {
		t.Helper()
		d := connected(t, 90, 40)
		d.f.answers[protocol.MethodThreadResume.Name] = twoTurns
		d.f.answers[protocol.MethodThreadFork.Name] = strings.Replace(startedThread, `"id":"t"`, `"id":"copy"`, 1)
		d.run(d.m.resume("t"))
		d.press("esc")
		d.shows("Esc again edits an earlier message")
		d.press("esc")
		d.shows("Edit an earlier message", "second task", "first task")
		d.press(append(keys, "enter")...)
		return d
	}
	d := back("enter")
	d.wants(protocol.MethodThreadFork.Name, `"threadId":"t"`, `"beforeTurnId":"u2"`)
	d.wants(protocol.MethodThreadResume.Name, `"threadId":"copy"`)
	if d.text() != "second task" {
		t.Errorf("the message is %q", d.text())
	}
	d = back("down", "enter", "down")
	d.wants(protocol.MethodThreadRevert.Name, `"threadId":"t"`, `"beforeTurnId":"u1"`)
	d.wants(protocol.MethodThreadResume.Name, `"threadId":"t"`)
	if d.text() != "first task" {
		t.Errorf("the message is %q", d.text())
	}
	d = back("down", "enter", "down", "down")
	d.shows("-old a", "+new a", "-old b", "+new b", "Undo these changes, and drop the messages?", "changes of 2 turns")
	if _, done := d.f.called(protocol.MethodThreadRevert.Name); done {
		t.Error("it was not confirmed")
	}
	d.press("enter")
	var undone []string
	for _, c := range d.f.calls {
		if rest, ok := strings.CutPrefix(c, protocol.MethodGantryTurnUndo.Name+" "); ok {
			undone = append(undone, rest)
		}
	}
	if len(undone) != 2 || !strings.Contains(undone[0], `"u2"`) || !strings.Contains(undone[1], `"u1"`) {
		t.Errorf("undone: %q", undone)
	}
	d.wants(protocol.MethodThreadRevert.Name, `"beforeTurnId":"u1"`)

	d = back("enter")
	d.press("ctrl+c")
	d.f.answers[protocol.MethodGantryTurnUndo.Name] = `{"refused":true,"files":[{"path":"/home/u/project/b.go","action":"restore","obstacle":"changed since"}]}`
	d.press("esc", "esc", "enter", "down", "down", "enter", "enter")
	d.shows("not undone, because this would be lost: b.go (changed since)")
	if _, done := d.f.called(protocol.MethodThreadRevert.Name); done {
		t.Error("messages were dropped although the files are not restored")
	}
}

// What an undo restores is shown before it is done.
func TestUndoShowsTheDiff(t *testing.T) {
	d := connected(t, 90, 40)
	d.f.answers[protocol.MethodThreadResume.Name] = twoTurns
	d.f.answers[protocol.MethodGantryTurnUndo.Name] = `{"turnIds":["u2"],"files":[{"path":"/home/u/project/b.go","action":"restore","obstacle":null}]}`
	d.run(d.m.resume("t"))
	d.typeText("/undo")
	d.press("enter")
	if n := strings.Count(d.shown(), "+new b"); n != 2 { // the change itself, and what is undone
		t.Errorf("it is shown %d times:\n%s", n, d.shown())
	}
	d.press("down", "enter")
	if params, _ := d.f.called(protocol.MethodGantryTurnUndo.Name); !strings.Contains(params, `"dryRun":true`) {
		t.Errorf("it was not confirmed: %s", params)
	}
}

// An earlier thread opens with its latest turns, and reads those before when it is scrolled to them.
func TestResume(t *testing.T) {
	d := connected(t, 80, 12)
	d.f.answers[protocol.MethodThreadList.Name] = `{"data":[{"id":"o","preview":"fix the tests","cwd":"/home/u/x","updatedAt":1795932900,"status":{"type":"active","activeFlags":["waitingOnApproval"]}},{"id":"e","preview":"","cwd":"/y","status":{"type":"idle"}}]}`
	d.f.answers[protocol.MethodThreadResume.Name] = strings.Replace(strings.TrimSuffix(startedThread, "}"), `"id":"t"`, `"id":"o"`, 1) +
		`,"initialTurnsPage":{"data":[{"id":"u2","status":"completed","items":[{"type":"userMessage","id":"m","content":[{"type":"text","text":"second task"}]}]}],"nextCursor":"c"}}`
	d.f.answers[protocol.MethodThreadTurnsList.Name] = `{"data":[{"id":"u1","status":"completed","items":[{"type":"userMessage","id":"m","content":[{"type":"text","text":"first task"}]}]}],"nextCursor":null}`
	d.typeText("/resume")
	d.press("enter")
	d.shows("fix the tests  x, 1 min ago, working, needs you")
	d.press("enter")
	d.shows("› second task")
	d.press("pgup")
	d.wants(protocol.MethodThreadTurnsList.Name, `"cursor":"c"`, `"itemsView":"full"`)
	d.shows("› first task", "› second task")
	d.press("up")
	if d.text() != "second task" {
		t.Errorf("the message before is %q", d.text())
	}
}

// What arrives between the server's answer and the moment in which the thread is shown is not lost, and counts once.
func TestEventsWhileAThreadOpens(t *testing.T) {
	d := connected(t, 80, 30)
	open := func(id string, seq uint64) (finish func()) {
		d.f.answers[protocol.MethodThreadResume.Name] = strings.Replace(strings.TrimSuffix(startedThread, "}"), `"id":"t"`, `"id":"`+id+`"`, 1) + fmt.Sprintf(`,"seq":%d}`, seq)
		cmd := d.m.resume(id)
		return func() { d.run(cmd) }
	}
	message := func(thread, text string, seq uint64) {
		d.send(Events{client.Notified{Notification: rpc.Notification{Method: protocol.NotifyItemCompleted.Name, Seq: seq, Params: json.RawMessage(
			`{"threadId":"` + thread + `","turnId":"u","item":{"type":"agentMessage","id":"` + text + `","text":"` + text + `"}}`)}}})
	}
	finish := open("o", 7)
	message("o", "early", 7)
	d.send(Events{client.Asked{Question: client.Question{ID: "q", Thread: "o", Params: &protocol.CommandExecutionRequestApprovalParams{}}}})
	finish()
	if d.m.question == nil {
		t.Error("the question is lost")
	}
	d.m.thread.Settle("q")
	d.send(Events{})
	d.shows("early")
	finish = open("o", 9) // the same again
	message("o", "known", 9)
	message("o", "later", 10)
	finish()
	d.shows("later")
	if strings.Contains(d.shown(), "known") {
		t.Errorf("what the answer contains was applied to it:\n%s", d.shown())
	}
}

// The roster lists threads by what they do, follows them, attaches, and starts others.
func TestRoster(t *testing.T) {
	d := connected(t, 100, 30)
	list := func(status string) {
		d.f.answers[protocol.MethodThreadList.Name] = `{"data":[{"id":"a","preview":"write docs","cwd":"/x","updatedAt":1795932900,"status":{"type":"idle"}},
			{"id":"b","preview":"fix tests","cwd":"/y","updatedAt":1795932800,"status":` + status + `},
			{"id":"t","preview":"this one","cwd":"/y","status":{"type":"active","activeFlags":[]}}]}`
	}
	first := func() string {
		for line := range strings.Lines(d.shown()) {
			if strings.Contains(line, ", 1 min ago") || strings.Contains(line, ", 2 min ago") || strings.Contains(line, "days ago") {
				return line
			}
		}
		return ""
	}
	list(`{"type":"active","activeFlags":[]}`)
	d.typeText("/threads")
	d.press("enter")
	d.shows("working    fix tests  y, 2 min ago", "done       write docs  x, 1 min ago", "this one  y,", "open here")
	d.press("down", "down") // to the one that is done
	list(`{"type":"active","activeFlags":["waitingOnApproval"]}`)
	d.notify(protocol.NotifyThreadStatusChanged.Name, `{"threadId":"b","status":{"type":"active","activeFlags":["waitingOnApproval"]}}`)
	if got := first(); !strings.Contains(got, "needs you  fix tests") {
		t.Errorf("the first is %q:\n%s", got, d.shown())
	}
	d.f.answers[protocol.MethodThreadResume.Name] = strings.Replace(startedThread, `"id":"t"`, `"id":"a"`, 1)
	d.press("enter")
	d.wants(protocol.MethodThreadResume.Name, `"threadId":"a"`)

	before := len(d.f.calls)
	d.notify(protocol.NotifyThreadStatusChanged.Name, `{"threadId":"b","status":{"type":"idle"}}`)
	if len(d.f.calls) > before {
		t.Errorf("a list that is not shown is read: %q", d.f.calls[before:])
	}

	d.f.answers[protocol.MethodThreadStart.Name] = strings.Replace(startedThread, `"id":"t"`, `"id":"new"`, 1)
	d.typeText("/threads")
	d.press("enter")
	d.typeText("sort the imports")
	d.shows("new thread: sort the imports")
	d.press("enter")
	d.wants(protocol.MethodTurnStart.Name, `"threadId":"new"`, `"text":"sort the imports"`)
	d.wants(protocol.MethodThreadUnsubscribe.Name, `"threadId":"new"`)
	if d.m.thread.ID != "a" {
		t.Errorf("the thread is %s", d.m.thread.ID)
	}
	d.shows("Threads", "needs you")
}

func TestScrollingAndFolding(t *testing.T) {
	d := connected(t, 60, 12)
	d.replay("")
	d.press("shift+up")
	d.shows("scrolled up")
	first := d.shown()
	d.press("shift+up")
	if second := d.shown(); second == first {
		t.Error("the second line up shows the same")
	}
	d.press("ctrl+home")
	d.shows("› look and change")
	d.press("ctrl+end")
	d.shows("All done.")
	d.send(tea.MouseWheelMsg{Button: tea.MouseWheelUp})
	d.shows("scrolled up")
	d.press("pgdown", "pgdown")
	if !d.m.view.Following() {
		t.Error("the end is not followed")
	}
	if d.m.View().MouseMode == tea.MouseModeNone {
		t.Error("the wheel does not scroll")
	}
	d.press("f2")
	if d.m.View().MouseMode != tea.MouseModeNone {
		t.Error("the mouse is not the terminal's")
	}
}

// The pager shows the thread in full, and copies from it. A question is above it.
func TestPager(t *testing.T) {
	d := connected(t, 60, 14)
	d.replay("")
	d.press("ctrl+t")
	d.shows("q closes")
	d.press("/")
	d.typeText("look and")
	d.press("enter")
	d.shows("› look and change", "found from the beginning on")
	d.press("space", "k")
	d.send(tea.MouseWheelMsg{Button: tea.MouseWheelUp})
	d.send(Events{client.Asked{Question: client.Question{ID: "q", Thread: "t", Params: &protocol.CommandExecutionRequestApprovalParams{}}}})
	if d.m.question == nil {
		t.Fatal("no question")
	}
	d.shows("keys count in a moment")
	d.m.thread.Settle("q")
	d.send(Events{})
	d.press("[", "c")
	d.shows("the message was copied")
	d.press("q")
	d.shows("What shall be done?")
	if d.text() != "" {
		t.Errorf("the message is %q", d.text())
	}
}

// A window without the focus is called for, when a turn ends and when there is a question.
func TestBell(t *testing.T) {
	d := running(t)
	if d.m.bell() != nil {
		t.Error("a bell in the window that has the focus")
	}
	d.send(tea.BlurMsg{})
	if d.m.bell() == nil {
		t.Error("no bell")
	}
}

// Without a server there is no interface: it ends with the reason. With a thread, what is there stays.
func TestServerIsLost(t *testing.T) {
	d := newDesk(t, 60, 10)
	d.send(Ended{os.ErrNotExist})
	if !d.ended || d.m.fatal == nil {
		t.Error("it goes on")
	}
	d = connected(t, 60, 10)
	d.send(Ended{os.ErrNotExist})
	if d.ended {
		t.Error("it ended")
	}
	d.shows("the server can't be reached")
}

// An image that is dropped on the terminal is mentioned, and images that are mentioned are sent.
func TestImages(t *testing.T) {
	dir := t.TempDir()
	shot := filepath.Join(dir, "screen shot.png")
	if err := os.WriteFile(shot, []byte("png"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, paste := range []string{shot, "'" + shot + "' ", strings.ReplaceAll(shot, " ", `\ `), "file://" + strings.ReplaceAll(shot, " ", "%20") + "\n"} {
		d := connected(t, 200, 20)
		d.typeText("see ")
		d.send(tea.PasteMsg{Content: paste})
		if want := `see @"` + shot + `" `; d.text() != want {
			t.Errorf("%q became %q", paste, d.text())
		}
		d.typeText("and @docs/logo.PNG not @main.go")
		d.press("enter")
		d.wants(protocol.MethodTurnStart.Name, `{"type":"localImage","path":"`+shot+`"}`, `{"type":"localImage","path":"/home/u/project/docs/logo.PNG"}`, `"text":"see @`)
		if params, _ := d.f.called(protocol.MethodTurnStart.Name); strings.Count(params, "localImage") != 2 {
			t.Errorf("%s", params)
		}
	}
	d := connected(t, 200, 20)
	d.notify(protocol.NotifyItemCompleted.Name, `{"threadId":"t","turnId":"u","item":{"type":"userMessage","id":"m","content":[
		{"type":"text","text":"see @x.png"},{"type":"localImage","path":"/x.png"}]}}`)
	if got := sentMessages(d.m.thread); len(got) != 1 || got[0].text != "see @x.png" {
		t.Errorf("what can be edited is %q", got)
	}
	for _, paste := range []string{filepath.Join(dir, "none.png"), dir, "/etc/hosts", "see /x.png"} {
		d.send(tea.PasteMsg{Content: paste})
		if d.text() != paste {
			t.Errorf("%q became %q", paste, d.text())
		}
		d.press("ctrl+c")
	}
}

// The history is searched, and what is found is edited.
func TestHistory(t *testing.T) {
	d := connected(t, 60, 12)
	for _, s := range []string{"fix tests", "write docs"} {
		d.typeText(s)
		d.press("enter")
	}
	d.press("ctrl+r")
	d.typeText("fix")
	d.press("enter")
	if d.text() != "fix tests" {
		t.Errorf("%q", d.text())
	}
	d.press("ctrl+c")
	d.send(tea.PasteMsg{Content: strings.Repeat("x\n", 30)})
	d.shows("[31 lines pasted]")
	d.press("enter")
	d.wants(protocol.MethodTurnStart.Name, strings.Repeat(`x\n`, 30))
}

// The guide lists the commands as the table has them.
func TestGuideListsCommands(t *testing.T) {
	const guide, begin, end = "../../../docs/guides/terminal.md", "<!-- commands: written by a test with -update -->\n", "<!-- end of commands -->"
	b, err := os.ReadFile(guide)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, _ := strings.Cut(string(b), begin)
	listed, after, ok := strings.Cut(rest, end)
	if !ok {
		t.Fatal("the guide has no place for the list of commands")
	}
	want := "\n| command | |\n| --- | --- |\n"
	for _, c := range commands() {
		when := ""
		if !c.running {
			when = " (not while a turn runs)"
		}
		want += "| `/" + c.name + c.arguments() + "` | " + c.help + when + " |\n"
	}
	want += "\n"
	if listed == want {
		return
	}
	if !*update {
		t.Fatalf("%s differs from the table; -update writes it", guide)
	}
	if err := os.WriteFile(guide, []byte(before+begin+want+end+after), 0o644); err != nil {
		t.Fatal(err)
	}
}
