package e2e_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/gantry-agent/gantry/e2e/rig"
)

// relayedScript is a model that starts a terminal, waits, and types into the terminal.
const relayedScript = startsTerminal + `
do = [{ call = "wait_for", id = "w1", args = { file = "go" } }]
` + typesIntoIt + `
[[step]]
do = [{ call = "wait_for", id = "w2", args = { file = "end" } }]
[[step]]
do = [{ text = "done" }]
`

// watches opens a view on a connection for frames.
func watches(t *testing.T, s *rig.Server, c *rig.Client, thread, session string) *viewer {
	t.Helper()
	o := openView(t, c, thread, session)
	w := &viewer{t: t, c: c, id: o.ViewID}
	var err error
	if w.frames, _, err = s.DialPath(*o.FramesPath); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.frames.Close() })
	return w
}

// A client of a server watches a terminal of a thread that exec runs, types, resizes it and takes control, as if the server ran the
// thread. The end of exec closes the view.
func TestViewOfAnotherProcess(t *testing.T) {
	t.Parallel()
	r := rig.New(t, relayedScript)
	addOdd(t, r, "waits", "waits", "")
	run := r.Start("exec", "start it")
	r.Until("the call runs", func() bool { return exists(r.Dir, "go.waiting") })
	thread := threads(t, r)[0].ID
	server := r.Serve("ws")
	c := server.Connect()
	greet(t, c)
	c.Call("thread/resume", map[string]any{"threadId": thread}, nil)
	session := sessionOf(t, r, c, thread)
	refusedWith(t, c, "gantry/view/open", map[string]any{"threadId": thread, "sessionId": session, "kinds": []string{"screen"}, "size": map[string]any{"width": 1, "height": 1}}, "can't be shown as screen")
	w := watches(t, server, c, thread, session)
	w.works()

	w.control(true)
	other := watches(t, server, c, thread, session)
	c.Until(func(m rig.Message) bool {
		return m.Method == "gantry/view/state" && strings.Contains(string(m.Params), other.id) && strings.Contains(string(m.Params), `"otherClient"`)
	})
	refusedWith(t, c, "gantry/view/input", map[string]any{"viewId": other.id, "input": map[string]any{"type": "text", "text": "a"}}, "another person has control")
	r.Write("go", "")
	r.Until("the call beside it has run", func() bool { return exists(r.Dir, "beside") })
	w.types("in control\n")
	w.shows("43 132 in control\r\n")
	if strings.Contains(w.shown, "by agent") {
		t.Errorf("the agent has typed while a person had control: %q", w.shown)
	}
	w.control(false)
	w.shows("43 132 by agent\r\n")
	c.Call("gantry/view/close", map[string]any{"viewId": other.id}, nil)
	since(c, 0, other.closed("the view was closed"))

	r.Until("exec waits again", func() bool { return exists(r.Dir, "end.waiting") })
	r.Write("end", "")
	if res := run.Wait(); res.Code != 0 {
		t.Errorf("exec: exit %d: %s", res.Code, res.Stderr)
	}
	since(c, 0, w.closed(""))
	refusedWith(t, c, "gantry/view/input", map[string]any{"viewId": w.id, "input": map[string]any{"type": "text", "text": "a"}}, "view not found")
}

// The death of the process that relays a view gives back control; that of the process that runs the thread closes the views, with a
// reason.
func TestViewOfAKilledProcess(t *testing.T) {
	t.Parallel()
	r := rig.New(t, viewScript)
	owner, relay := r.Serve("unix"), r.Serve("ws")
	a := owner.Connect()
	greet(t, a)
	thread, session := startTerminal(t, r, a)
	connect := func() (*rig.Client, *viewer) {
		c := relay.Connect()
		greet(t, c)
		c.Call("thread/resume", map[string]any{"threadId": thread}, nil)
		w := watches(t, relay, c, thread, session)
		w.shows("ready\r\n")
		w.control(true)
		return c, w
	}
	connect()
	a.Until(controlled(true))
	relay.Signal(syscall.SIGKILL)
	a.Until(controlled(false))

	relay = r.Serve("ws")
	c, w := connect()
	owner.Signal(syscall.SIGKILL)
	since(c, 0, w.closed("the process that runs the thread has ended"))
	if _, _, err := w.frames.ReadMessage(); err == nil {
		t.Error("the connection for frames has another frame")
	}
	refusedWith(t, c, "gantry/view/open", map[string]any{"threadId": thread, "sessionId": session, "kinds": []string{"terminal"}, "size": map[string]any{"width": 1, "height": 1}}, "")
}

// A process that is stopped, and so answers nothing, has its views closed elsewhere, with the next step. Control is given back when it goes
// on.
func TestViewOfAStoppedProcess(t *testing.T) {
	t.Parallel()
	r := rig.New(t, viewScript)
	owner, relay := r.Serve("unix"), r.Serve("ws")
	a, c := owner.Connect(), relay.Connect()
	greet(t, a)
	greet(t, c)
	thread, session := startTerminal(t, r, a)
	c.Call("thread/resume", map[string]any{"threadId": thread}, nil)
	w := watches(t, relay, c, thread, session)
	w.shows("ready\r\n")
	w.control(true)
	a.Until(controlled(true))
	owner.Signal(syscall.SIGSTOP)
	r.Until("all its threads have stopped", func() bool {
		tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", owner.Cmd.Process.Pid))
		if err != nil || len(tasks) == 0 {
			t.Fatalf("the owner has ended: %v", err)
		}
		for _, task := range tasks {
			if b, err := os.ReadFile(task); err == nil && !strings.Contains(string(b), ") T ") {
				return false
			}
		}
		return true
	})
	id := c.Request("gantry/view/input", map[string]any{"viewId": w.id, "input": map[string]any{"type": "text", "text": "a\n"}})
	since(c, 0, w.closed("has not answered for 10s; next: "), func(m rig.Message) bool { return m.Method == "" && string(m.ID) == id && m.Error != nil })
	owner.Signal(syscall.SIGCONT)
	a.Until(controlled(false))
}

// A client on the socket of a thread connects there for the frames of a view, too.
func TestViewOnTheSocketOfAThread(t *testing.T) {
	t.Parallel()
	r := rig.New(t, viewScript)
	server := r.Serve("ws")
	c := server.Connect()
	greet(t, c)
	thread, session := startTerminal(t, r, c)
	socket := &rig.Server{Run: server.Run, URL: "unix://" + filepath.Join(r.Home, "run", thread+".sock")}
	near := socket.Connect()
	greet(t, near)
	w := watches(t, socket, near, thread, session)
	w.shows("ready\r\n")
	w.types("by hand\n")
	w.shows("24 80 by hand\r\n")
	if _, resp, err := socket.DialPath("/view/unknown"); err == nil || resp == nil || resp.StatusCode != http.StatusNotFound {
		t.Errorf("an unknown view: %v", err)
	}
}
