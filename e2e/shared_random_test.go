//go:build !soak

package e2e_test

import (
	"fmt"
	"math/rand/v2"
	"os"
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
	host    *rig.Run // runs the thread, or has handed its task to the server
	watcher *rig.Run
	watched []*rig.Run
	server  *rig.Server
	seats   []*seat
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
	g.server = g.r.Serve("unix", asks...)
	g.seats = []*seat{{t: t}, {t: t}}
	g.host = g.r.Terminal(append([]string{"exec", "the task"}, asks...)...)
	g.host.Sees("answer: ")
	g.thread = threads(t, g.r)[0].ID
	g.watch()
	for _, s := range g.seats {
		s.thread = g.thread
		s.join(g.server)
	}
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
	if res := g.host.Wait(); res.Code != 0 {
		t.Errorf("exit %d\n%s", res.Code, res.Stdout)
	}
	g.compare()
}

// watch attaches another process to the thread.
func (g *gathering) watch() {
	g.watcher = g.r.Start("attach", "--events", g.thread)
	g.watched = append(g.watched, g.watcher)
}

// question has the clients answer a question, of which m has told the first one, after something has happened.
func (g *gathering) question(m rig.Message) {
	var p struct{ ItemID string }
	m.Into(g.t, &p)
	same := func(m rig.Message) bool {
		return m.Method == requestApproval && strings.Contains(string(m.Params), `"itemId":"`+p.ItemID+`"`)
	}
	asked := []rig.Message{m, g.seats[1].until(same)}
	what := g.rng.IntN(8)
	if p.ItemID == "c4" && what > 2 {
		what = 0 // a thread that goes on asks no more, so that nobody is waited for
	}
	g.t.Logf("%s is asked about, and %d happens", p.ItemID, what)
	switch what {
	case 0, 1: // a client comes back
		i := g.rng.IntN(2)
		g.seats[i].leave()
		g.seats[i].join(g.server)
		asked[i] = g.seats[i].until(same)
	case 2:
		g.watcher.Signal(os.Kill)
		g.watcher.Wait()
		g.watch()
	case 3:
		owner := g.handedOver()
		g.server.Signal(os.Kill)
		g.server.Wait()
		g.server = g.r.Serve("unix", asks...)
		if owner {
			g.goOn()
			return
		}
		for i, s := range g.seats {
			s.note(s.c.Ended())
			s.join(g.server)
			asked[i] = s.until(same)
		}
	case 4:
		if g.handedOver() {
			break
		}
		g.host.Signal(os.Kill)
		for _, s := range g.seats {
			s.notified("thread/closed")
			s.leave()
		}
		g.goOn()
		return
	}
	answers := []string{"accept", "decline"}
	g.rng.Shuffle(2, func(i, j int) { answers[i], answers[j] = answers[j], answers[i] })
	first := g.rng.IntN(2)
	if g.rng.IntN(3) == 0 {
		g.host.TryType([]string{"y\n", "n\n"}[g.rng.IntN(2)])
	}
	for _, i := range []int{first, 1 - first} {
		g.seats[i].c.Answer(asked[i], map[string]any{"decision": answers[i]})
	}
	for _, s := range g.seats {
		s.notified("serverRequest/resolved")
	}
}

// handedOver reports whether the server runs the thread, because a client resumed it before the process that was to go on with it.
func (g *gathering) handedOver() bool {
	return strings.Contains(g.host.Output(), "another process runs this thread")
}

// goOn continues the thread after the process that ran it was killed: in another process or, for a client, in the server. What the killed
// process had told others a moment before, but not yet stored, is not part of the thread, so all begin anew.
func (g *gathering) goOn() {
	g.host.Wait()
	rig.Gapless(g.t, rig.Events(g.t, g.watcher.Wait().Stdout), 1)
	g.watched = nil
	g.host = g.r.Terminal(append([]string{"resume", g.thread, "go on"}, asks...)...)
	if g.rng.IntN(2) == 0 {
		g.host.Sees("answer: ")
	}
	for i := range g.seats {
		g.seats[i] = &seat{t: g.t, thread: g.thread}
		g.seats[i].join(g.server)
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
