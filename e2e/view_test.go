package e2e_test

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/gantry-agent/gantry/e2e/rig"
	"github.com/gorilla/websocket"
)

// Models start a terminal, and type into it beside another command.
const (
	startsTerminal = `
[[step]]
when = { since_user = 0 }
do = [{ call = "exec_command", id = "c1", args = { cmd = "echo ready; while read line; do echo \"$(stty size) $line\"; done", tty = true, yield_time_ms = 250, login = false } }]
[[step]]
capture = [{ call = "c1", pattern = 'session ID (?P<id>\d+)' }]
`
	typesIntoIt = `
[[step]]
do = [
  { call = "write_stdin", id = "c2", raw = '{"session_id": ${id}, "chars": "by agent\n", "yield_time_ms": 250}' },
  { call = "exec_command", id = "c3", args = { cmd = "touch beside", login = false } },
]
`
)

// viewScript is a model that starts a terminal in the first turn, and types into it in each further one.
const viewScript = startsTerminal + `
do = [{ text = "done" }]
` + typesIntoIt + `
[[step]]
do = [{ text = "done" }]
[[step]]
do = [{ call = "write_stdin", id = "c4", raw = '{"session_id": ${id}, "chars": "interrupted\n", "yield_time_ms": 250}' },
  { call = "exec_command", id = "c5", args = { cmd = "touch again", login = false } }]
`

// viewer is a client with a view.
type viewer struct {
	t      *testing.T
	c      *rig.Client
	id     string
	frames *websocket.Conn // nil: inline
	shown  string
	end    uint64
	seen   int  // messages of the client that were searched for frames
	gaps   bool // output may be missing
}

// inline returns the next frame that has come, or comes, as a notification.
func (w *viewer) inline() rig.Message {
	w.t.Helper()
	for {
		for w.seen < len(w.c.All) {
			w.seen++
			if m := w.c.All[w.seen-1]; m.Method == "gantry/view/frame" {
				return m
			}
		}
		w.c.Next()
	}
}

// viewOpened is the result of gantry/view/open.
type viewOpened struct {
	ViewID, Kind, Title string
	Size                struct{ Width, Height int }
	ReadOnly            bool
	FramesPath          *string
}

// sessionOf waits until the thread has an open session, and returns its ID. The plugin reports it on another stream than the result of
// the call.
func sessionOf(t *testing.T, r *rig.Rig, c *rig.Client, thread string) (session string) {
	t.Helper()
	params := map[string]any{"threadId": thread, "sessionId": "4711", "kinds": []string{"terminal"}, "size": map[string]any{"width": 1, "height": 1}}
	r.Until("the session is open", func() bool {
		m := c.Reply(c.Request("gantry/view/open", params))
		if m.Error == nil || !strings.Contains(m.Error.Message, `no session "4711"`) {
			t.Fatalf("unknown session: %+v", m.Error)
		}
		var data struct{ Next string }
		if err := json.Unmarshal(m.Error.Data, &data); err != nil || data.Next == "" {
			t.Fatalf("no next step in %s: %v", m.Error.Data, err)
		}
		var ok bool
		session, ok = strings.CutPrefix(data.Next, "choose one of ")
		return ok
	})
	return session
}

// startTerminal starts a thread in whose first turn the model starts a terminal, and returns their IDs.
func startTerminal(t *testing.T, r *rig.Rig, c *rig.Client) (thread, session string) {
	t.Helper()
	thread = begin(t, c, map[string]any{})
	submit(t, c, thread, "start it")
	c.Notified("turn/completed")
	return thread, sessionOf(t, r, c, thread)
}

func openView(t *testing.T, c *rig.Client, thread, session string) viewOpened {
	t.Helper()
	var o viewOpened
	c.Call("gantry/view/open", map[string]any{
		"threadId": thread, "sessionId": session, "kinds": []string{"terminal", "screen"}, "size": map[string]any{"width": 100, "height": 30},
	}, &o)
	return o
}

// frame receives a frame and acknowledges it.
func (w *viewer) frame() {
	w.t.Helper()
	var head struct{ Number, Offset uint64 }
	var data []byte
	if w.frames == nil {
		m := w.inline()
		var p struct{ DataBase64 string }
		m.Into(w.t, &head)
		m.Into(w.t, &p)
		data, _ = base64.StdEncoding.DecodeString(p.DataBase64)
	} else {
		kind, b, err := w.frames.ReadMessage()
		if err != nil || kind != websocket.BinaryMessage || len(b) < 4 {
			w.t.Fatalf("message %d %q: %v", kind, b, err)
		}
		n := 4 + binary.BigEndian.Uint32(b)
		if err := json.Unmarshal(b[4:n], &head); err != nil {
			w.t.Fatal(err)
		}
		data = b[n:]
		// The head has the members of the notification, but for those that the connection and the rest of the message stand for.
		all := map[string]any{"viewId": w.id, "dataBase64": ""}
		if err := json.Unmarshal(b[4:n], &all); err != nil {
			w.t.Fatal(err)
		}
		whole, err := json.Marshal(all)
		if err != nil {
			w.t.Fatal(err)
		}
		if err := rig.Value("GantryViewFrameNotification", whole); err != nil {
			w.t.Errorf("the head of a frame does not match its schema: %v\n%s", err, b[4:n])
		}
	}
	if w.shown != "" && head.Offset != w.end && !(w.gaps && head.Offset > w.end) {
		w.t.Errorf("frame %d at %d, want %d", head.Number, head.Offset, w.end)
	}
	w.end = head.Offset + uint64(len(data))
	w.shown += string(data)
	if w.frames == nil {
		w.c.Request("gantry/view/ack", map[string]any{"viewId": w.id, "number": head.Number})
	} else if err := w.frames.WriteJSON(map[string]any{"ack": head.Number}); err != nil {
		w.t.Fatal(err)
	}
}

func (w *viewer) shows(text string) {
	w.t.Helper()
	for !strings.Contains(w.shown, text) {
		w.frame()
	}
}

func (w *viewer) input(in map[string]any) {
	w.t.Helper()
	w.c.Call("gantry/view/input", map[string]any{"viewId": w.id, "input": in}, nil)
}

func (w *viewer) types(text string) {
	w.t.Helper()
	w.input(map[string]any{"type": "bytes", "dataBase64": base64.StdEncoding.EncodeToString([]byte(text))})
}

// control takes or gives back control, and waits until the thread says so.
func (w *viewer) control(take bool) {
	w.t.Helper()
	id := w.c.Request("gantry/view/control", map[string]any{"viewId": w.id, "take": take})
	both(w.c, func(m rig.Message) bool { return m.Method == "" && string(m.ID) == id && m.Error == nil }, controlled(take))
}

// works types into a terminal of [startsTerminal] and changes its size.
func (w *viewer) works() {
	w.t.Helper()
	w.shows("ready\r\n")
	w.types("by hand\n")
	w.shows("24 80 by hand\r\n")
	w.input(map[string]any{"type": "resize", "size": map[string]any{"width": 132, "height": 43}})
	w.types("after it\n")
	w.shows("43 132 after it\r\n")
	refusedWith(w.t, w.c, "gantry/view/input", map[string]any{"viewId": w.id, "input": map[string]any{"type": "key", "key": "a", "down": true}}, "only bytes")
}

// controlled matches the notification that a person has control of a session (true), or the agent.
func controlled(person bool) func(rig.Message) bool {
	return func(m rig.Message) bool {
		return m.Method == "gantry/view/controlled" && strings.Contains(string(m.Params), fmt.Sprintf(`"person":%v`, person))
	}
}

// both waits for two messages, in any order.
func both(c *rig.Client, one, two func(rig.Message) bool) { since(c, len(c.All), one, two) }

// since waits until each of several messages has come, in any order, after the first from messages of the client.
func since(c *rig.Client, from int, want ...func(rig.Message) bool) {
	for _, ok := range want {
		if !slices.ContainsFunc(c.All[from:], ok) {
			c.Until(ok)
		}
	}
}

// closed matches the notification that the view has ended.
func (w *viewer) closed(reason string) func(rig.Message) bool {
	return func(m rig.Message) bool {
		return m.Method == "gantry/view/closed" && strings.Contains(string(m.Params), w.id) && strings.Contains(string(m.Params), reason)
	}
}

// refusedWith sends a request that must be refused with a next step.
func refusedWith(t *testing.T, c *rig.Client, method string, params map[string]any, text string) {
	t.Helper()
	m := c.Reply(c.Request(method, params))
	if m.Error == nil || !strings.Contains(m.Error.Message, text) || !strings.Contains(string(m.Error.Data), `"next":"`) {
		t.Errorf("%s: %+v, want an error about %q with a next step", method, m.Error, text)
	}
}

// A person watches a terminal, types, resizes it and takes control: the agent's call waits until it is given back, or interrupted.
func TestViewOfATerminal(t *testing.T) {
	t.Parallel()
	for _, transport := range rig.Transports() {
		t.Run(transport, func(t *testing.T) {
			t.Parallel()
			r := rig.New(t, viewScript)
			var server *rig.Server
			var c *rig.Client
			if transport == "stdio" {
				c = r.AppServer()
			} else {
				server = r.Serve(transport)
				c = server.Connect()
			}
			greet(t, c)
			thread, session := startTerminal(t, r, c)
			refusedWith(t, c, "gantry/view/open", map[string]any{"threadId": thread, "sessionId": session, "kinds": []string{"screen"}, "size": map[string]any{"width": 1, "height": 1}}, "can't be shown as screen")

			o := openView(t, c, thread, session)
			if o.Kind != "terminal" || o.Size.Width != 80 || o.ReadOnly || (o.FramesPath == nil) != (server == nil) {
				t.Errorf("opened %+v", o)
			}
			w := &viewer{t: t, c: c, id: o.ViewID}
			if server != nil {
				var err error
				if w.frames, _, err = server.DialPath(*o.FramesPath); err != nil {
					t.Fatal(err)
				}
				defer w.frames.Close()
				for _, path := range []string{*o.FramesPath, "/view/unknown"} { // a token is valid once
					if _, resp, err := server.DialPath(path); err == nil || resp == nil || resp.StatusCode != http.StatusNotFound {
						t.Errorf("connected again: %v", err)
					}
				}
			}
			w.works()
			refusedWith(t, c, "gantry/view/input", map[string]any{"viewId": "none", "input": map[string]any{"type": "text", "text": "a"}}, "view not found")

			w.control(true)
			from := len(c.All)
			submit(t, c, thread, "type")
			r.Until("the call beside it has run", func() bool { return exists(r.Dir, "beside") })
			w.types("in control\n")
			w.shows("43 132 in control\r\n")
			if strings.Contains(w.shown, "by agent") {
				t.Errorf("the agent has typed while a person had control: %q", w.shown)
			}
			w.control(false)
			w.shows("43 132 by agent\r\n")
			c.Notified("turn/completed")
			var order []string
			for _, m := range c.All[from:] {
				switch m.Method {
				case "gantry/view/controlled", "item/commandExecution/terminalInteraction", "turn/completed":
					order = append(order, m.Method)
				}
			}
			if want := []string{"gantry/view/controlled", "item/commandExecution/terminalInteraction", "turn/completed"}; !slices.Equal(order, want) {
				t.Errorf("order %q, want %q", order, want)
			}

			w.control(true)
			turn := submit(t, c, thread, "type again")
			r.Until("the call beside it has run", func() bool { return exists(r.Dir, "again") })
			c.Call("turn/interrupt", map[string]any{"threadId": thread, "turnId": turn}, nil)
			from = len(c.All)
			if w.frames != nil { // the end of the view gives control back
				_ = w.frames.Close()
			} else {
				c.Call("gantry/view/close", map[string]any{"viewId": w.id}, nil)
			}
			since(c, from, controlled(false), w.closed("the view was closed"))
			if strings.Contains(w.shown, "interrupted") {
				t.Errorf("the interrupted call has typed: %q", w.shown)
			}
			again := openView(t, c, thread, session) // the session continues
			if again.Size.Width != 132 {
				t.Errorf("opened again: %+v", again)
			}
		})
	}
}

// The end of the plugin's process ends the view and gives control back; the next process adopts the session, which is shown again.
func TestViewSurvivesItsPlugin(t *testing.T) {
	t.Parallel()
	r := rig.New(t, viewScript)
	c := r.AppServer()
	greet(t, c)
	thread, session := startTerminal(t, r, c)
	w := &viewer{t: t, c: c, id: openView(t, c, thread, session).ViewID}
	w.types("before\n")
	w.shows("24 80 before\r\n")
	w.control(true)
	rig.Kill(t, rig.Processes(t, r.Home, "gantry-tool-shell")...)
	both(c, controlled(false), w.closed("the view broke"))
	refusedWith(t, c, "gantry/view/input", map[string]any{"viewId": w.id, "input": map[string]any{"type": "text", "text": "a"}}, "view not found")

	again := &viewer{t: t, c: c, id: openView(t, c, thread, session).ViewID, seen: len(c.All)}
	again.types("after\n")
	again.shows("24 80 after\r\n")
	if strings.Count(again.shown, "24 80 before\r\n") > 1 {
		t.Errorf("output is repeated: %q", again.shown)
	}
}

// A person who begins to watch sees up to 64 KiB of what was there, from the beginning of a line on. Secrets that gantry knows are masked,
// also when they come in pieces; what a person types is shown at once.
func TestViewOfWhatWasThere(t *testing.T) {
	t.Parallel()
	r := rig.New(t, `
[[step]]
do = [{ call = "exec_command", id = "c1", args = { cmd = "seq -f 'line %05g' 1 12000; cat secret.txt; while read line; do printf gh-token-; sleep 0.1; printf of-mine-1; done", tty = true, yield_time_ms = 250, login = false } }]
[[step]]
do = [{ text = "done" }]
`)
	r.Env = append(r.Env, "GH_TOKEN=gh-token-of-mine-1")
	r.Write("secret.txt", "before gh-token-of-mine-1 after\n")
	c := r.AppServer()
	greet(t, c)
	thread, session := startTerminal(t, r, c)
	first := &viewer{t: t, c: c, id: openView(t, c, thread, session).ViewID}
	first.shows("before ****************** after\r\n")
	c.Call("gantry/view/close", map[string]any{"viewId": first.id}, nil)

	w := &viewer{t: t, c: c, id: openView(t, c, thread, session).ViewID, seen: len(c.All)}
	w.shows("before ****************** after\r\n")
	if n := len(w.shown); n > 64<<10 || n < 64<<10-20 || !strings.HasPrefix(w.shown, "line 0") || w.end != 12000*12+33 {
		t.Errorf("%d bytes up to %d, which begin with %.20q", n, w.end, w.shown)
	}
	for _, key := range "gh-" {
		w.shown = ""
		w.types(string(key))
		w.shows(string(key))
	}
	w.types("\n")
	w.shows("\r\n")
	for strings.Count(w.shown, "*") < 15 { // the first three bytes may be shown
		w.frame()
	}
	if strings.Contains(w.shown, "oken") || strings.Contains(w.shown, "of-mine") {
		t.Errorf("shown: %q", w.shown)
	}
}

// Clients that read nothing, acknowledge what they have not read, or send garbage harm neither the thread nor other clients; a program that
// exits closes its views.
func TestViewersThatMisbehave(t *testing.T) {
	t.Parallel()
	for _, where := range []string{"in the process that runs the thread", "in another process"} {
		t.Run(where, func(t *testing.T) {
			t.Parallel()
			misbehave(t, where == "in another process")
		})
	}
}

func misbehave(t *testing.T, relayed bool) {
	r := rig.New(t, `
[[step]]
when = { since_user = 0 }
do = [{ call = "exec_command", id = "c1", args = { cmd = "stty -echo; echo ready; wc -l; seq 300000; echo all; read line; exit 7", tty = true, yield_time_ms = 250, login = false } }]
[[step]]
do = [{ text = "done" }]
`)
	server := r.Serve("ws")
	c := server.Connect()
	greet(t, c)
	thread, session := startTerminal(t, r, c)
	if relayed {
		server = r.Serve("ws")
		c = server.Connect()
		greet(t, c)
		c.Call("thread/resume", map[string]any{"threadId": thread}, nil)
	}
	bad := server.Connect()
	greet(t, bad)
	if relayed {
		bad.Call("thread/resume", map[string]any{"threadId": thread}, nil)
	}
	deaf := watches(t, server, bad, thread, session)
	ahead := openView(t, bad, thread, session)
	for n := range 50 { // nothing reads its frames
		bad.Request("gantry/view/ack", map[string]any{"viewId": ahead.ViewID, "number": n})
	}
	for name, m := range map[string]struct {
		kind int
		text string
	}{"no JSON": {websocket.TextMessage, "ack"}, "too much": {websocket.TextMessage, strings.Repeat(" ", 5000)}, "another type": {websocket.TextMessage, `{"ack":"1"}`}} {
		w := watches(t, server, bad, thread, session)
		from := len(bad.All)
		_ = w.frames.WriteMessage(m.kind, []byte(m.text)) // the server may close the connection before it has all
		since(bad, from, w.closed("the view was closed"))
		if t.Failed() {
			t.Fatal(name)
		}
	}

	w := watches(t, server, c, thread, session)
	w.shows("ready\r\n")
	const lines = 10_000
	var ids []string
	for range lines {
		ids = append(ids, c.Request("gantry/view/input", map[string]any{"viewId": w.id, "input": map[string]any{"type": "text", "text": "a line\n"}}))
	}
	for _, id := range ids {
		if m := c.Reply(id); m.Error != nil {
			t.Fatalf("input: %+v", m.Error)
		}
	}
	w.types("\x04") // the end of what wc counts
	w.shows(fmt.Sprintf("%d\r\n", lines))
	w.gaps = true
	w.shows("300000\r\nall\r\n")
	w.types("\n")
	since(c, 0, w.closed("the program has exited with code 7"))
	since(bad, 0, deaf.closed("exited with code 7"))
	since(bad, 0, (&viewer{id: ahead.ViewID}).closed("exited with code 7"))
	refusedWith(t, c, "gantry/view/open", map[string]any{"threadId": thread, "sessionId": session, "kinds": []string{"terminal"}, "size": map[string]any{"width": 1, "height": 1}}, "session")
	server.Signal(syscall.SIGTERM)
	if res := server.Wait(); res.Code != 0 {
		t.Errorf("the server ended with %d: %s", res.Code, res.Stderr)
	}
}
