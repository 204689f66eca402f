package host_test

import (
	"bufio"
	"encoding/json"
	"net"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/host"
	"github.com/gantry-agent/gantry/host/internal/runsocket"
	"github.com/gantry-agent/gantry/host/internal/thread"
	"github.com/gantry-agent/gantry/host/internal/threadsocket"
)

// line is a client of a thread's socket that knows nothing but its protocol.
type line struct {
	t    *testing.T
	id   event.ThreadID
	conn net.Conn
	in   *bufio.Reader
	last int
}

func plain(t *testing.T, opts host.Options, id event.ThreadID) *line {
	t.Helper()
	path, err := runsocket.Path(opts.Home, id)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return &line{t: t, id: id, conn: conn, in: bufio.NewReader(conn)}
}

// ask sends a request, and returns the fields of its result, or the text of its error. What comes in between is passed over.
func (l *line) ask(method, params string) (result map[string]any, refused string) {
	l.t.Helper()
	l.last++
	fields := map[string]json.RawMessage{}
	if err := json.Unmarshal([]byte(params), &fields); err != nil {
		l.t.Fatal(err)
	}
	fields["threadId"] = json.RawMessage(`"` + string(l.id) + `"`)
	req, err := json.Marshal(map[string]any{"id": l.last, "method": method, "params": fields})
	if err != nil {
		l.t.Fatal(err)
	}
	if _, err := l.conn.Write(append(req, '\n')); err != nil {
		l.t.Fatal(err)
	}
	for {
		text, err := l.in.ReadBytes('\n')
		if err != nil {
			l.t.Fatal(err)
		}
		var answer struct {
			ID     int
			Result map[string]any
			Error  struct{ Message string }
		}
		if err := json.Unmarshal(text, &answer); err != nil {
			l.t.Fatal(err)
		}
		if answer.ID == l.last {
			return answer.Result, answer.Error.Message
		}
	}
}

// asked is a request that is taken.
func (l *line) asked(method, params string) map[string]any {
	l.t.Helper()
	result, refused := l.ask(method, params)
	if refused != "" {
		l.t.Fatalf("%s %s is refused: %s", method, params, refused)
	}
	return result
}

// events of a turn, from the subscription's beginning to the turn's end.
func events(t *testing.T, sub *thread.Subscription, turn any) (out []event.Event) {
	t.Helper()
	for {
		e, err := sub.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if string(e.Turn) != turn {
			continue
		}
		out = append(out, e)
		if _, ok := e.Body.(event.TurnEnded); ok {
			return out
		}
	}
}

func subscribed(t *testing.T, th *thread.Thread) *thread.Subscription {
	t.Helper()
	sub, err := th.Subscribe(t.Context(), thread.Lossless)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(sub.Close)
	return sub
}

// The shapes that the guide names for what a client may change and begin, and what is said of those that are wrong.
func TestShapesOfTheSocket(t *testing.T) {
	opts := optionsWith(t, "shapes", recite)
	_, th := started(t, opts)
	l, sub := plain(t, opts, th.ID()), subscribed(t, th)
	dir := t.TempDir()
	l.asked("gantry/thread/configure", `{"cwd": "`+dir+`", "approval": "on-request", "sandbox": "read-only"}`)
	if got := th.Settings(); got.Cwd != dir || got.Approval != "on-request" || got.Sandbox != "read-only" {
		t.Errorf("settings %+v", got)
	}
	a := l.asked("gantry/thread/start", `{"text": "hello", "approval": "never", "additionalContext": {"file": {"value": "a.go"}}}`)
	if a["steered"] != false || a["turn"] == "" {
		t.Errorf("a task is answered with %v", a)
	}
	began := events(t, sub, a["turn"])[0].Body.(event.TurnStarted)
	if began.Cwd != dir || began.Approval != "never" || began.Sandbox != "read-only" {
		t.Errorf("the turn began as %+v", began)
	}

	c := l.asked("gantry/thread/shell", `{"command": "pwd; exit 3", "timeoutMs": 60000}`)
	if c["beside"] != false {
		t.Errorf("a command is answered with %v", c)
	}
	ran := false
	for _, e := range events(t, sub, c["turn"]) {
		if done, ok := e.Body.(event.ItemCompleted); ok && done.Item.Type == event.ItemCommand {
			ran = done.Item.ExitCode != nil && *done.Item.ExitCode == 3 && done.Item.Output == dir+"\n"
		}
		if end, ok := e.Body.(event.CallEnded); ok && string(end.Call) != c["call"] {
			t.Errorf("the command's call is %s, the client was told %v", end.Call, c["call"])
		}
	}
	if !ran {
		t.Error("the command did not run in the thread's folder")
	}

	r := l.asked("gantry/thread/review", `{"target": {"type": "custom", "instructions": "look at everything"}}`)
	var kinds []event.ItemType
	for _, e := range events(t, sub, r["turn"]) {
		if done, ok := e.Body.(event.ItemCompleted); ok {
			kinds = append(kinds, done.Item.Type)
		}
	}
	if !slices.Contains(kinds, event.ItemEnteredReview) || !slices.Contains(kinds, event.ItemExitedReview) {
		t.Errorf("items of a review: %v", kinds)
	}

	for _, c := range []struct{ method, params, want string }{
		{"gantry/thread/configure", `{"cwd": "here"}`, "not an absolute path"},
		{"gantry/thread/configure", `{"cwd": "/nowhere/at/all"}`, "can't be used"},
		{"gantry/thread/configure", `{"approval": "nevr"}`, `did you mean "never"`},
		{"gantry/thread/configure", `{"sandbox": "none"}`, `no sandbox mode "none"`},
		{"gantry/thread/configure", `{"model": "other"}`, `"other"`},
		{"gantry/thread/configure", `{"cwd": 5}`, "gantry/thread/configure: json"},
		{"gantry/thread/start", `{"text": "hello", "sandbox": "none"}`, `no sandbox mode "none"`},
		{"gantry/thread/start", `{"text": ""}`, "the task is empty"},
		{"gantry/thread/steer", `{"text": "hello", "expectedTurnId": "x"}`, "no active turn to steer"},
		{"gantry/thread/interrupt", `{}`, "no active turn to interrupt"},
		{"gantry/thread/shell", `{"command": " "}`, "the command is empty"},
		{"gantry/thread/shell", `{"command": "true", "timeoutMs": -1}`, "must be positive"},
		{"gantry/thread/shell", `{"command": "true", "timeoutMs": 9223372036854775807}`, "at most"},
		{"gantry/thread/review", `{"target": {"type": "custom"}}`, "the instructions are empty"},
		{"gantry/thread/review", `{"target": {"type": "everything"}}`, "everything"},
		{"gantry/thread/review", `{"target": {"type": "baseBranch", "branch": "main"}}`, "can't be reviewed"},
		{"gantry/thread/undo", `{}`, `no method "gantry/thread/undo"`},
	} {
		if _, refused := l.ask(c.method, c.params); !strings.Contains(refused, c.want) {
			t.Errorf("%s %s: %q, want %q", c.method, c.params, refused, c.want)
		}
	}
	say(t, th, "still here")
}

// away is a model that nobody serves: its address refuses every connection.
const away = `
provider "away" {
  source   = "builtin/compatible"
  base_url = "http://127.0.0.1:1/v1"
  retries  = 0
}
model "away" {
  provider = "away"
  name     = "m"
}
`

// A model that can't be reached is waited for while a client that answers questions is there to stop it, and not for one that
// only looks.
func TestWhoWaitsForAModel(t *testing.T) {
	opts := with(t, optionsWith(t, "away", recite), away)
	_, th := started(t, opts)
	sub := subscribed(t, th)
	c := dialled(t, opts, th.ID())
	if _, err := c.Subscribe(t.Context(), threadsocket.SubscribeParams{Attend: true}); err != nil {
		t.Fatal(err)
	}
	a, err := c.Start(t.Context(), threadsocket.StartParams{Text: "go", Settings: threadsocket.Settings{Model: "away"}})
	if err != nil {
		t.Fatal(err)
	}
	for {
		e, err := sub.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if again, ok := e.Body.(event.StreamRetried); ok {
			if !again.Offline || again.Attempt != 0 || again.DelayMS != 5000 || !strings.Contains(again.Cause, "refused the connection") {
				t.Errorf("notice %+v", again)
			}
			break
		}
	}
	if err := c.Interrupt(t.Context(), threadsocket.InterruptParams{}); err != nil {
		t.Fatal(err)
	}
	if end := lastEnd(events(t, sub, string(a.Turn))); end.Status != event.TurnInterrupted {
		t.Errorf("the turn ended %+v", end)
	}

	// Nobody answers any more: the usual tries are counted.
	_ = c.Close()                                                               // nothing is asked on it any more
	for until := time.Now().Add(time.Minute); th.Waiting(); runtime.Gosched() { // the host hears of it in a moment
		if time.Now().After(until) {
			t.Fatal("the client that left still counts")
		}
	}
	watcher := dialled(t, opts, th.ID())
	if _, err := watcher.Subscribe(t.Context(), threadsocket.SubscribeParams{}); err != nil {
		t.Fatal(err)
	}
	if a, err = watcher.Start(t.Context(), threadsocket.StartParams{Text: "go"}); err != nil {
		t.Fatal(err)
	}
	counted := 0
	for _, e := range events(t, sub, string(a.Turn)) {
		if again, ok := e.Body.(event.StreamRetried); ok {
			counted++
			if again.Offline || again.Attempt != counted {
				t.Errorf("notice %+v", again)
			}
		}
	}
	if counted != 5 {
		t.Errorf("%d tries after the first", counted)
	}
}

// How long is the user's to say, with somebody there or not.
func TestPatienceOfTheUser(t *testing.T) {
	opts := with(t, optionsWith(t, "patience", recite), away+`
limits {
  offline_wait = "10m"
}
`)
	_, th := started(t, opts)
	sub := subscribed(t, th)
	l := plain(t, opts, th.ID())
	a := l.asked("gantry/thread/start", `{"text": "go", "model": "away"}`)
	for {
		e, err := sub.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if again, ok := e.Body.(event.StreamRetried); ok {
			if !again.Offline {
				t.Errorf("notice %+v", again)
			}
			break
		}
	}
	l.asked("gantry/thread/interrupt", `{}`)
	if end := lastEnd(events(t, sub, a["turn"])); end.Status != event.TurnInterrupted {
		t.Errorf("the turn ended %+v", end)
	}
}

func lastEnd(evs []event.Event) event.TurnEnded {
	return evs[len(evs)-1].Body.(event.TurnEnded)
}
