package hub_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/hub"
	"github.com/gantry-agent/gantry/host/internal/runsocket"
	"github.com/gantry-agent/gantry/host/internal/threadsocket"
	"github.com/gantry-agent/gantry/sdk/contract"
)

// another is another process that runs a thread.
type another struct {
	id    event.ThreadID
	cmd   *exec.Cmd
	stdin io.Closer
}

// other starts a process that starts a thread, or resumes one, and runs it until stop.
func other(t *testing.T, home string, resume event.ThreadID) *another {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self)
	cmd.Env = append(os.Environ(), owner+"="+home, "GANTRY_BIN="+binaries(t), "GANTRY_HUB_TEST_THREAD="+string(resume))
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	o := &another{cmd: cmd, stdin: stdin}
	t.Cleanup(func() { _ = o.cmd.Process.Kill(); _ = o.cmd.Wait() })
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		t.Fatal("the other process did not start: ", err)
	}
	o.id = event.ThreadID(strings.TrimSpace(line))
	return o
}

// stop ends the process.
func (o *another) stop(t *testing.T) {
	t.Helper()
	if err := o.stdin.Close(); err != nil {
		t.Fatal(err)
	}
	if err := o.cmd.Wait(); err != nil {
		t.Error(err)
	}
}

// ownThreads is the other process.
func ownThreads(home string) {
	err := func() error {
		ctx := context.Background()
		h, err := hub.New(ctx, configuration(home, os.Getenv("GANTRY_BIN")))
		if err != nil {
			return err
		}
		var th *hub.Thread
		if id := os.Getenv("GANTRY_HUB_TEST_THREAD"); id != "" {
			th, err = h.Resume(ctx, event.ThreadID(id), hub.ResumeParams{})
		} else {
			in := hub.Workspace{Dir: home, Ephemeral: os.Getenv("GANTRY_HUB_TEST_EPHEMERAL") != ""}
			th, err = h.Start(ctx, hub.StartParams{Workspace: in, Source: "other", Approval: "untrusted"})
		}
		if err != nil {
			return err
		}
		fmt.Println(th.ID())
		if _, err := io.Copy(io.Discard, os.Stdin); err != nil {
			return err
		}
		return h.Close()
	}()
	if err != nil {
		fmt.Fprintln(os.Stderr, "other process:", err)
		os.Exit(1)
	}
}

// Other processes know that a thread is not stored.
func TestAnEphemeralThreadOfAnotherProcess(t *testing.T) {
	home := newHome(t, recite)
	h := open(t, configuration(home, binaries(t)))
	changes := h.Watch()
	defer changes.Close()
	t.Setenv("GANTRY_HUB_TEST_EPHEMERAL", "1")
	o := other(t, home, "")
	change(t, changes, kind(o.id, hub.ThreadLoaded))
	if th, ok := h.Find(t.Context(), o.id); !ok || !th.Remote() || !th.Ephemeral() {
		t.Errorf("found %v, ephemeral %v", ok, ok && th.Ephemeral())
	}
	o.stop(t)
}

func TestAThreadOfAnotherProcess(t *testing.T) {
	home := newHome(t, recite)
	h := open(t, configuration(home, binaries(t)))
	changes := h.Watch()
	defer changes.Close()
	o := other(t, home, "")
	ctx := t.Context()
	if c := change(t, changes, kind(o.id, hub.ThreadLoaded)); !c.Status.Remote || c.Status.State != hub.Idle {
		t.Errorf("loaded as %+v", c.Status)
	}
	th, ok := h.Find(ctx, o.id)
	if !ok || !th.Remote() || th.Started().Source != "other" {
		t.Fatalf("found %v, %+v", ok, th)
	}
	if _, err := th.OpenView(ctx, "", contract.ViewOpen{SessionID: "1"}); err == nil || hub.ErrorOf(err).Next == "" {
		t.Errorf("a view of its sessions: %v", err)
	}
	if again, err := h.Resume(ctx, o.id, hub.ResumeParams{}); err != nil || again != th {
		t.Errorf("resumed as %v, %v", again, err)
	}
	if s, err := th.Settings(ctx); err != nil || s.Approval != "untrusted" || s.Cwd != home {
		t.Errorf("settings %+v, %v", s, err)
	}

	// A turn, from the first event on.
	evs := follow(t, th, 0)
	a := submit(t, th, "one")
	var last uint64
	for _, e := range until(t, evs, is[event.TurnEnded]) {
		if e.Seq != 0 && e.Seq != last+1 {
			t.Errorf("event %d after %d", e.Seq, last)
		}
		last = max(last, e.Seq)
	}
	change(t, changes, func(c hub.Change) bool {
		return c.Thread == o.id && c.Status.State == hub.Active && c.Status.Turn == a.Turn
	})
	change(t, changes, func(c hub.Change) bool { return c.Thread == o.id && c.Status.State == hub.Idle })

	// An approval, which another client can see in the state.
	leave, err := th.Attend(ctx)
	if err != nil {
		t.Fatal(err)
	}
	run := submit(t, th, "run")
	seen := until(t, evs, is[event.QuestionAsked])
	change(t, changes, func(c hub.Change) bool { return c.Thread == o.id && c.Status.WaitingOnApproval })
	question := seen[len(seen)-1].Body.(event.QuestionAsked).ID
	if err := th.Answer(ctx, question, hub.Answer{Choice: hub.Approve}); err != nil {
		t.Error(err)
	}
	if err := th.Answer(ctx, question, hub.Answer{Choice: hub.Approve}); code(err) != hub.Answered {
		t.Errorf("answered again: %v", err)
	}
	if end := ended(t, evs, run.Turn); end.Status != event.TurnCompleted {
		t.Errorf("end %+v", end)
	}
	leave()
	if leave, err := th.ServeTools(ctx); err != nil {
		t.Error(err)
	} else {
		leave()
	}

	// Requests keep the types of their errors.
	slow := submit(t, th, "slow")
	until(t, evs, is[event.ItemDelta])
	if err := th.Interrupt(ctx, "another"); code(err) != hub.OtherTurn {
		t.Errorf("another turn: %v", err)
	}
	if _, err := h.Revert(ctx, o.id, "1"); code(err) != hub.Busy {
		t.Errorf("reverted during a turn: %v", err)
	}
	if err := h.Delete(ctx, o.id); code(err) != hub.Locked {
		t.Errorf("deleted: %v", err)
	}
	if err := th.Interrupt(ctx, slow.Turn); err != nil {
		t.Error(err)
	}
	if end := ended(t, evs, slow.Turn); end.Status != event.TurnInterrupted {
		t.Errorf("end %+v", end)
	}
	if err := h.Rename(ctx, o.id, "theirs"); err != nil {
		t.Error(err)
	}
	change(t, changes, kind(o.id, hub.ThreadNamed))
	if fork, err := h.Fork(ctx, o.id, hub.Fork{Through: "1"}); err != nil {
		t.Error(err)
	} else if info, err := h.Info(ctx, string(fork)); err != nil || info.Turns != 1 {
		t.Errorf("fork %+v, %v", info, err)
	}

	// When the process has ended, the thread continues here, after the same events.
	for _, e := range until(t, evs, is[event.ThreadNamed]) {
		last = max(last, e.Seq)
	}
	o.stop(t)
	change(t, changes, kind(o.id, hub.ThreadClosed))
	<-th.Done()
	if _, err := th.Submit(ctx, hub.Submission{Input: text("lost")}); code(err) != hub.Closed || hub.ErrorOf(err).Next == "" {
		t.Errorf("submitted to a process that has ended: %v", err)
	}
	if _, err := evs.Next(ctx); code(err) != hub.Closed {
		t.Errorf("event of a process that has ended: %v", err)
	}
	mine, err := h.Resume(ctx, o.id, hub.ResumeParams{})
	if err != nil || mine.Remote() {
		t.Fatalf("resumed as %+v, %v", mine, err)
	}
	if end := ask(t, mine, "mine now"); end.LastMessage != "heard mine now" {
		t.Errorf("end %+v", end)
	}
}

// A watcher that comes later learns what a running turn waits for.
func TestATurnThatRunsElsewhere(t *testing.T) {
	home := newHome(t, recite)
	o := other(t, home, "")
	first := open(t, configuration(home, binaries(t)))
	th, ok := first.Find(t.Context(), o.id)
	if !ok {
		t.Fatal("not found")
	}
	if _, err := th.Attend(t.Context()); err != nil {
		t.Fatal(err)
	}
	evs := follow(t, th, hub.FromNow)
	a := submit(t, th, "run")
	until(t, evs, is[event.QuestionAsked])
	until(t, follow(t, th, 0), is[event.QuestionAsked]) // from the log: it is stored

	second := open(t, configuration(home, binaries(t)))
	changes := second.Watch()
	defer changes.Close()
	c := change(t, changes, func(c hub.Change) bool { return c.Thread == o.id && c.Status.WaitingOnApproval })
	if c.Status.State != hub.Active || c.Status.Turn != a.Turn || !c.Status.Remote {
		t.Errorf("status %+v", c.Status)
	}
	// The process is killed: both learn of it, and the turn ends as interrupted when the thread is resumed.
	if err := o.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	change(t, changes, kind(o.id, hub.ThreadClosed))
	again, err := second.Resume(t.Context(), o.id, hub.ResumeParams{})
	if err != nil {
		t.Fatal(err)
	}
	if end := ended(t, follow(t, again, 0), a.Turn); end.Status != event.TurnInterrupted {
		t.Errorf("end %+v", end)
	}
}

// A process resumes a thread whose turn was cut off, which adds events before the first turn of its own. A follower that has some of them
// gets the others alone.
func TestFollowWhatAResumeAdds(t *testing.T) {
	home := newHome(t, recite)
	h := open(t, configuration(home, binaries(t)))
	o := other(t, home, "")
	th, ok := h.Find(t.Context(), o.id)
	if !ok {
		t.Fatal("not found")
	}
	evs := follow(t, th, 0)
	submit(t, th, "slow")
	until(t, evs, is[event.ItemDelta])
	if err := o.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-th.Done()
	other(t, home, o.id)
	th, err := h.Resume(t.Context(), o.id, hub.ResumeParams{})
	if err != nil || !th.Remote() {
		t.Fatalf("remote: %v, %v", th != nil && th.Remote(), err)
	}
	var added []uint64
	for _, e := range until(t, follow(t, th, 0), is[event.TurnEnded]) {
		if e.Seq != 0 {
			added = append(added, e.Seq)
		}
	}
	var follows []*hub.Events
	for _, after := range added {
		follows = append(follows, follow(t, th, after))
	}
	a := submit(t, th, "one")
	for i, evs := range follows {
		last := added[i]
		until(t, evs, func(e event.Event) bool {
			if e.Seq != 0 && e.Seq != last+1 {
				t.Errorf("after %d: event %d after %d", added[i], e.Seq, last)
			}
			last = max(last, e.Seq)
			return is[event.TurnEnded](e) && e.Turn == a.Turn
		})
	}
}

// A client changes a thread while another one loads it.
func TestChangeWhileLoading(t *testing.T) {
	h := open(t, configuration(newHome(t, recite), binaries(t)))
	th, err := h.Start(t.Context(), hub.StartParams{Workspace: hub.Workspace{Dir: t.TempDir()}})
	if err != nil {
		t.Fatal(err)
	}
	evs := follow(t, th, 0)
	ended(t, evs, submit(t, th, "one").Turn)
	evs.Close()
	for round := range 20 {
		if err := h.Unload(t.Context(), th.ID()); err != nil {
			t.Fatal(err)
		}
		loaded := make(chan error)
		go func() { // waited for below
			_, err := h.Resume(t.Context(), th.ID(), hub.ResumeParams{})
			loaded <- err
		}()
		for renames, running := 0, true; running; renames++ {
			select {
			case err := <-loaded:
				if err != nil {
					t.Fatal(err)
				}
				running = false
			default:
			}
			if err := h.Rename(t.Context(), th.ID(), fmt.Sprintf("name %d of %d", renames, round)); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// A thread is resumed at once after the end of its process was seen, by what notices it first.
func TestResumeAfterTheEndOfTheOwner(t *testing.T) {
	home := newHome(t, recite)
	h := open(t, configuration(home, binaries(t)))
	for round := range 10 {
		o := other(t, home, "")
		th, ok := h.Find(t.Context(), o.id)
		if !ok {
			t.Fatal("not found")
		}
		evs := follow(t, th, 0)
		ended(t, evs, submit(t, th, "one").Turn)
		if round%2 == 0 {
			if err := o.cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
		} else {
			o.stop(t)
		}
		var err error
		for err == nil {
			_, err = evs.Next(t.Context())
		}
		th, err = h.Resume(t.Context(), o.id, hub.ResumeParams{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := th.Settings(t.Context()); err != nil {
			t.Errorf("round %d: %v", round, err)
		}
	}
}

// A thread that another process follows stays loaded; one whose states are all that it gets does not.
func TestFollowersInAnotherProcessKeepAThread(t *testing.T) {
	cfg := configuration(newHome(t, recite), binaries(t))
	cfg.IdleTimeout = 50 * time.Millisecond
	h := open(t, cfg)
	changes := h.Watch()
	defer changes.Close()
	start := func(only string) (event.ThreadID, *threadsocket.Client) {
		t.Helper()
		th, err := h.Start(t.Context(), hub.StartParams{Workspace: hub.Workspace{Dir: cfg.Home}})
		if err != nil {
			t.Fatal(err)
		}
		events := follow(t, th, 0) // until the other process does
		path, err := runsocket.Path(cfg.Home, th.ID())
		if err != nil {
			t.Fatal(err)
		}
		c, err := threadsocket.Dial(t.Context(), path)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		if _, err := c.Subscribe(t.Context(), threadsocket.SubscribeParams{Only: only}); err != nil {
			t.Fatal(err)
		}
		events.Close()
		return th.ID(), c
	}
	followed, c := start("")
	looked, _ := start(threadsocket.OnlyStates)
	change(t, changes, kind(looked, hub.ThreadClosed))
	if _, ok := h.Find(t.Context(), followed); !ok {
		t.Fatal("a thread with a follower was unloaded")
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	change(t, changes, kind(followed, hub.ThreadClosed))
}

// A hub that falls behind the states of a thread of another process learns them all the same. The thread is not reported as closed.
func TestTheStatesOfAThreadThatIsAhead(t *testing.T) {
	home := newHome(t, fmt.Sprintf("[[step]]\nwhen  = { user = \"^much\" }\ntimes = -1\ndo    = [{ text = %q, chunk = 1 }]\n%s", strings.Repeat("x", 2000), recite))
	h := open(t, configuration(home, binaries(t)))
	changes := h.Watch()
	defer changes.Close()
	o := other(t, home, "")
	change(t, changes, kind(o.id, hub.ThreadLoaded))
	th, ok := h.Find(t.Context(), o.id)
	if !ok {
		t.Fatal("not found")
	}
	evs := follow(t, th, 0)
	release := sync.OnceFunc(hub.HoldStates(h))
	t.Cleanup(release)
	for range threadsocket.Window/2 + 1 { // each turn begins and ends
		ended(t, evs, submit(t, th, "one").Turn)
	}
	ended(t, evs, submit(t, th, "much").Turn)
	release()
	last := submit(t, th, "the last one")
	for _, state := range []hub.State{hub.Active, hub.Idle} {
		began := false
		change(t, changes, func(c hub.Change) bool {
			if c.Kind == hub.ThreadClosed {
				t.Fatal("a running thread was reported as closed")
			}
			began = began || c.Status.Turn == last.Turn || state == hub.Idle
			return began && c.Status.State == state
		})
	}
}
