package e2e_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/e2e/rig"
)

// shortGatherings is how many random runs TestSharedThreadAtRandom does; the long form is scripts/soak.
const shortGatherings = 3

// Clients reconnect, and any process is killed, while a thread is shared. Nobody misses or repeats an item, and no command runs twice.
func TestSharedThreadAtRandom(t *testing.T) {
	t.Parallel()
	runs, first := shortGatherings, rand.Uint64()
	for name, to := range map[string]func(uint64){
		"GANTRY_SOAK": func(n uint64) { runs = int(n) }, "GANTRY_SEED": func(n uint64) { runs, first = 1, n },
	} {
		if s := os.Getenv(name); s != "" {
			n, err := strconv.ParseUint(s, 10, 64)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			to(n)
		}
	}
	for i := range runs {
		seed := first + uint64(i)
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			t.Parallel()
			gather(t, rand.New(rand.NewPCG(seed, 0)))
		})
	}
}

// gathering is a thread that several processes share.
type gathering struct {
	t       *testing.T
	rng     *rand.Rand
	r       *rig.Rig
	thread  string
	host    *rig.Run // runs the thread at first, or has handed its task to the process that does
	watcher *rig.Run
	watched []*rig.Run
	servers [2]*rig.Server // all but the one that runs the thread relay it
	seats   [2]*seat       // a client of each server
	editor  *pane
}

// asks makes the process that runs the thread ask for each command.
var asks = []string{"-c", "approval.policy=untrusted"}

func gather(t *testing.T, rng *rand.Rand) {
	script := ""
	for i := range 5 {
		// A model that wants each call once: what it has an output of, it does not ask for again.
		script += fmt.Sprintf("[[step]]\ntimes = -1\nwhen = { no_output_of = [\"c%[1]d\"] }\ndo = [{ call = \"exec_command\", id = \"c%[1]d\", args = { cmd = \"echo c%[1]d >> ran\", login = false } }]\n", i)
	}
	g := &gathering{t: t, rng: rng, r: rig.New(t, script+"[[step]]\ntimes = -1\ndo = [{ text = \"the end\", chunk = 1 }]\n")}
	for i := range g.servers {
		g.serve(i)
	}
	g.host = g.r.Terminal(append([]string{"exec", "the task"}, asks...)...)
	g.host.Sees("answer: ")
	g.thread = threads(t, g.r)[0].ID
	g.watch()
	for i, s := range g.servers {
		g.seats[i] = &seat{t: t, thread: g.thread}
		g.seats[i].join(s)
	}
	g.edit()
	for {
		m := g.seats[0].until(func(m rig.Message) bool { return m.Method == requestApproval || m.Method == "turn/completed" })
		if m.Method == requestApproval {
			g.question(m)
			continue
		}
		var p struct{ Turn struct{ Status string } }
		if m.Into(t, &p); p.Turn.Status == "completed" {
			break
		}
	}
	g.seats[1].until(func(m rig.Message) bool {
		return m.Method == "turn/completed" && strings.Contains(string(m.Params), `"status":"completed"`)
	})
	g.editor.until(func(rig.Message) bool { return strings.HasSuffix(g.editor.text, "the end") })
	if res := g.host.Wait(); res.Code != 0 {
		t.Errorf("exit %d\n%s", res.Code, res.Stdout)
	}
	g.compare()
}

// serve starts a server: one has a unix socket, the other one a websocket.
func (g *gathering) serve(i int) {
	g.servers[i] = g.r.Serve([]string{"unix", "ws"}[i], asks...)
}

// watch attaches another process to the thread, which ends with the process that runs the thread now.
func (g *gathering) watch() {
	g.watcher = g.r.Start("attach", "--events", g.thread)
	g.watcher.Sees("thread.started")
	g.watched = append(g.watched, g.watcher)
}

// pane is an editor that shows the thread.
type pane struct {
	t     *testing.T
	c     *rig.Client
	calls []string          // the tool calls in the order in which they appeared
	state map[string]string // how they have ended
	text  string            // of the model
}

// edit starts an editor, which loads the thread.
func (g *gathering) edit() {
	e := &pane{t: g.t, c: g.r.Agent(asks...), state: map[string]string{}}
	e.c.Call("initialize", map[string]any{"protocolVersion": 1, "clientCapabilities": map[string]any{}}, nil)
	e.c.Call("session/load", map[string]any{"sessionId": g.thread, "cwd": g.r.Dir, "mcpServers": []any{}}, nil)
	for _, m := range e.c.All {
		e.note(m)
	}
	g.editor = e
}

// until waits for a message.
func (e *pane) until(ok func(rig.Message) bool) rig.Message {
	e.t.Helper()
	return e.c.Until(func(m rig.Message) bool {
		e.note(m)
		return ok(m)
	})
}

// note follows an update.
func (e *pane) note(m rig.Message) {
	e.t.Helper()
	if m.Method != "session/update" {
		return
	}
	var p struct {
		Update struct {
			SessionUpdate, ToolCallID, Status string
			Content                           json.RawMessage
		}
	}
	m.Into(e.t, &p)
	switch id := p.Update.ToolCallID; p.Update.SessionUpdate {
	case "agent_message_chunk":
		var c struct{ Text string }
		if err := json.Unmarshal(p.Update.Content, &c); err != nil {
			e.t.Error(err)
		}
		e.text += c.Text
	case "tool_call", "tool_call_update":
		if !slices.Contains(e.calls, id) {
			e.calls = append(e.calls, id)
		}
		if p.Update.Status == "completed" || p.Update.Status == "failed" {
			if before := e.state[id]; before != "" && before != p.Update.Status {
				e.t.Errorf("the editor saw that %s is %s, and then %s", id, before, p.Update.Status)
			}
			e.state[id] = p.Update.Status
		}
	}
}

// asked waits for the question about a call.
func (e *pane) asked(call string) rig.Message {
	e.t.Helper()
	return e.until(func(m rig.Message) bool {
		return m.Method == "session/request_permission" && strings.Contains(string(m.Params), `"toolCallId":"`+call+`"`)
	})
}

// owner returns the PID of the process that runs the thread.
func (g *gathering) owner() string {
	to, err := os.Readlink(filepath.Join(g.r.Home, "run", g.thread+".sock"))
	if err != nil {
		g.t.Fatal(err)
	}
	pid, _, _ := strings.Cut(to, "-")
	return pid
}

// question has the clients answer a question, of which m has told the first one, after something has happened.
func (g *gathering) question(m rig.Message) {
	var p struct{ ItemID string }
	m.Into(g.t, &p)
	same := func(m rig.Message) bool {
		return m.Method == requestApproval && strings.Contains(string(m.Params), `"itemId":"`+p.ItemID+`"`)
	}
	asked := []rig.Message{m, g.seats[1].until(same)}
	inEditor := g.editor.asked(p.ItemID)
	what, owner := g.rng.IntN(9), g.owner()
	i := g.rng.IntN(2)
	if p.ItemID == "c4" && what > 2 {
		what = 0 // a thread that goes on asks no more, so that nobody is waited for
	}
	g.t.Logf("%s is asked about, and %d happens (client %d)", p.ItemID, what, i)
	switch what {
	case 0, 1: // a client comes back
		g.seats[i].leave()
		g.seats[i].join(g.servers[i])
		asked[i] = g.seats[i].until(same)
	case 2:
		g.watcher.Signal(os.Kill)
		g.watcher.Wait()
		g.watch()
	case 3:
		pid := g.servers[i].Cmd.Process.Pid
		g.servers[i].Signal(os.Kill)
		g.servers[i].Wait()
		g.seats[i].note(g.seats[i].c.Ended())
		g.serve(i)
		if owner == fmt.Sprint(pid) {
			g.gone(1 - i)
			g.goOn()
			return
		}
		g.seats[i].join(g.servers[i])
		asked[i] = g.seats[i].until(same)
	case 4:
		if owner != fmt.Sprint(g.host.Cmd.Process.Pid) {
			break
		}
		g.host.Signal(os.Kill)
		g.gone(0)
		g.gone(1)
		g.goOn()
		return
	case 5:
		g.editor.c.Kill()
		if owner == fmt.Sprint(g.editor.c.PID()) {
			g.gone(0)
			g.gone(1)
			g.edit()
			g.goOn()
			return
		}
		g.edit()
		inEditor = g.editor.asked(p.ItemID)
	}
	answers := []string{"accept", "decline"}
	g.rng.Shuffle(2, func(i, j int) { answers[i], answers[j] = answers[j], answers[i] })
	first := g.rng.IntN(2)
	if g.rng.IntN(3) == 0 {
		g.host.TryType([]string{"y\n", "n\n"}[g.rng.IntN(2)])
	}
	if g.rng.IntN(3) == 0 {
		g.editor.c.Answer(inEditor, map[string]any{"outcome": map[string]any{"outcome": "selected", "optionId": []string{"approve", "deny"}[g.rng.IntN(2)]}})
	}
	for _, i := range []int{first, 1 - first} {
		g.seats[i].c.Answer(asked[i], map[string]any{"decision": answers[i]})
	}
	for _, s := range g.seats {
		s.notified("serverRequest/resolved")
	}
}

// gone lets a client notice that the thread's process has ended.
func (g *gathering) gone(i int) {
	g.seats[i].notified("thread/closed")
	g.seats[i].leave()
}

// goOn continues the thread after the process that ran it was killed: in another process or, for a client, in its server. The clients come
// back with the number of the last notification that they have.
func (g *gathering) goOn() {
	g.host.Wait()
	rig.Gapless(g.t, rig.Events(g.t, g.watcher.Wait().Stdout), 1)
	g.host = g.r.Terminal(append([]string{"resume", g.thread, "go on"}, asks...)...)
	if g.rng.IntN(2) == 0 {
		g.host.Sees("answer: ")
	}
	for i, s := range g.servers {
		g.seats[i].join(s)
	}
	g.watch()
}

// compare compares what each of them has seen with the log.
func (g *gathering) compare() {
	t := g.t
	log := rig.Events(t, g.r.OK("threads", "export", g.thread).Stdout)
	want := itemsOf(t, log)
	for i, s := range g.seats {
		if !slices.Equal(s.items, want) {
			t.Errorf("client %d saw %q\nthe log has   %q", i, s.items, want)
		}
		if len(s.completed) != len(want) {
			t.Errorf("client %d saw the end of %q\nthe log has %q", i, s.completed, want)
		}
	}
	var calls []string
	for _, id := range want {
		if strings.HasPrefix(id, "c") {
			calls = append(calls, id)
		}
	}
	if e := g.editor; !slices.Equal(e.calls, calls) || len(e.state) != len(calls) {
		t.Errorf("the editor saw %q, which ended as %q\nthe log has   %q", e.calls, e.state, calls)
	}
	byNumber := map[uint64]string{}
	for _, e := range log {
		byNumber[e.Seq] = e.Kind
	}
	for _, w := range g.watched {
		_ = w.Cmd.Process.Kill() // it watches on if the server runs the thread, and has ended otherwise
		seen := rig.Events(t, w.Wait().Stdout)
		rig.Gapless(t, seen, 1)
		for _, e := range seen {
			if e.Seq > 0 && byNumber[e.Seq] != e.Kind {
				t.Errorf("attach saw %s as event %d, which is %s", e.Kind, e.Seq, byNumber[e.Seq])
			}
		}
	}
	resolved := map[string]int{}
	for _, e := range log {
		if e.Kind == "question.resolved" {
			var b struct{ ID string }
			e.Into(t, &b)
			if resolved[b.ID]++; resolved[b.ID] > 1 {
				t.Errorf("question %s was resolved again", b.ID)
			}
		}
	}
	lines := strings.Fields(g.r.Read("ran"))
	for _, l := range lines {
		if n := count(lines)[l]; n != 1 {
			t.Errorf("%s ran %d times", l, n)
		}
	}
}
