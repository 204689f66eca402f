package threadsocket_test

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/gantry-agent/gantry/host/internal/approval"
	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/registry"
	"github.com/gantry-agent/gantry/host/internal/runsocket"
	"github.com/gantry-agent/gantry/host/internal/thread"
	"github.com/gantry-agent/gantry/host/internal/threadsocket"
	"github.com/gantry-agent/gantry/host/internal/turn"
	"github.com/gantry-agent/gantry/sdk/llm"
	"github.com/hashicorp/go-hclog"
)

// log keeps what a thread stores, and replays it.
type log struct {
	mu     sync.Mutex
	events []event.Event
	stored int // of events, those that can be read: the log is written behind
}

func (l *log) Append(_ context.Context, evs ...event.Event) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.events = append(l.events, evs...)
	return nil
}

func (l *log) Barrier(_ context.Context, _ event.ThreadID, seq uint64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stored = max(l.stored, int(seq))
	return nil
}

func (l *log) committed(context.Context, uint64) error { return nil }

func (l *log) after(_ context.Context, after uint64) iter.Seq2[event.Event, error] {
	return func(yield func(event.Event, error) bool) {
		l.mu.Lock()
		events := append([]event.Event(nil), l.events[:l.stored]...)
		l.mu.Unlock()
		for _, e := range events {
			if e.Seq > after && !yield(e, nil) {
				return
			}
		}
	}
}

// engine answers every request with the last user text, or waits for the end of its context on "wait".
type engine struct{}

func (engine) Turn(context.Context, *thread.Thread, event.TurnID, thread.Submission) (thread.Plan, error) {
	return thread.Plan{
		Config: turn.Config{Model: engine{}, Tools: registry.New().Snapshot}, Started: event.TurnStarted{Cwd: "/"},
	}, nil
}

func (engine) Check(context.Context, *thread.Thread, thread.Change) error { return nil }

func (engine) End(context.Context, event.ThreadID) {}

func (engine) Stream(ctx context.Context, r *llm.Request, _ event.TurnID, _ int) iter.Seq2[llm.Event, error] {
	return func(yield func(llm.Event, error) bool) {
		text := r.Messages[len(r.Messages)-1].Text()
		if text == "wait" {
			<-ctx.Done()
			yield(nil, context.Cause(ctx))
			return
		}
		for _, ev := range []llm.Event{
			llm.StepStart{}, llm.BlockStart{Kind: llm.BlockText, ID: "1"}, llm.BlockDelta{Kind: llm.BlockText, ID: "1", Text: text},
			llm.BlockEnd{Kind: llm.BlockText, ID: "1"}, llm.StepFinish{}, llm.Finish{},
		} {
			if !yield(ev, nil) {
				return
			}
		}
	}
}

type plugins struct{ reloaded []string }

func (p *plugins) PluginStatus(context.Context) []threadsocket.PluginStatus {
	return []threadsocket.PluginStatus{{Label: "shell", Mode: "ready", Generation: 2}}
}

func (p *plugins) ReloadPlugin(_ context.Context, label, path string) error {
	p.reloaded = append(p.reloaded, label+" "+path)
	if label != "shell" {
		return errors.New("no such plugin")
	}
	return nil
}

func (p *plugins) RunCommand(_ context.Context, c threadsocket.CommandParams) (json.RawMessage, error) {
	switch {
	case c.Name != "publish":
		return nil, threadsocket.ErrNoCommand
	case !c.Confirmed:
		return nil, threadsocket.ErrNotConfirmed
	}
	return json.RawMessage(`{"of":"` + c.Plugin + `","input":` + string(c.Input) + `}`), nil
}

// home is a home folder whose path is short, for sockets.
func home(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "g")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// process is a server in a home folder.
func process(t *testing.T, cfg threadsocket.Config) *threadsocket.Server {
	t.Helper()
	s := threadsocket.NewServer(cfg)
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// run runs a thread of a server, and returns the path at which clients find it, and a function that ends it.
func run(t *testing.T, s *threadsocket.Server, dir string, p threadsocket.Plugins, lib threadsocket.Library) (path string, th *thread.Thread, end func()) {
	t.Helper()
	l := &log{}
	th = thread.New(thread.Config{
		ID: event.NewThreadID(), Start: &event.ThreadStarted{Cwd: "/w"}, Sink: l, Engine: engine{}, Logger: hclog.NewNullLogger(),
	})
	path, err := runsocket.Path(dir, th.ID())
	if err != nil {
		t.Fatal(err)
	}
	shut, err := s.Open(threadsocket.Thread{Thread: th, Events: l.after, Committed: l.committed, Plugins: p, Library: lib})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var work sync.WaitGroup
	work.Go(func() {
		_ = th.Run(ctx)
		shut()
	})
	end = func() {
		cancel()
		work.Wait()
	}
	t.Cleanup(end)
	return path, th, end
}

// serve runs a thread in a process of its own.
func serve(t *testing.T) (string, *thread.Thread, *plugins) {
	t.Helper()
	dir, p := home(t), &plugins{}
	path, th, _ := run(t, process(t, threadsocket.Config{Home: dir}), dir, p, nil)
	return path, th, p
}

func dial(t *testing.T, path string) *threadsocket.Client {
	t.Helper()
	c, err := threadsocket.Dial(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// until collects durable events up to the end of a turn.
func until(t *testing.T, c *threadsocket.Client, id event.TurnID) (seqs []uint64, end event.TurnEnded) {
	t.Helper()
	for {
		e, err := c.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if e.Seq > 0 {
			seqs = append(seqs, e.Seq)
		}
		if b, ok := e.Body.(event.TurnEnded); ok && e.Turn == id {
			return seqs, b
		}
	}
}

func TestSecondClientSeesTheThreadFromItsBeginning(t *testing.T) {
	path, _, _ := serve(t)
	first := dial(t, path)
	sub, err := first.Subscribe(t.Context(), threadsocket.SubscribeParams{})
	if err != nil || sub.Cwd != "/w" {
		t.Fatalf("subscribe: %+v, %v", sub, err)
	}
	started, err := first.Start(t.Context(), threadsocket.StartParams{Text: "hello"})
	if err != nil {
		t.Fatal(err)
	}
	if _, end := until(t, first, started.Turn); end.LastMessage != "hello" {
		t.Errorf("end = %+v", end)
	}
	second := dial(t, path)
	if _, err := second.Subscribe(t.Context(), threadsocket.SubscribeParams{}); err != nil {
		t.Fatal(err)
	}
	next, err := second.Start(t.Context(), threadsocket.StartParams{Text: "again"})
	if err != nil {
		t.Fatal(err)
	}
	seqs, _ := until(t, second, next.Turn)
	for i, s := range seqs {
		if s != uint64(i+1) {
			t.Fatalf("events %v: replayed and live ones must follow each other without gaps or repeats", seqs)
		}
	}
	if _, err := second.Subscribe(t.Context(), threadsocket.SubscribeParams{}); err == nil {
		t.Error("a second subscription of one connection was taken")
	}
}

func TestInterruptAndAnswer(t *testing.T) {
	path, th, _ := serve(t)
	c := dial(t, path)
	if err := c.Interrupt(t.Context(), threadsocket.InterruptParams{}); err == nil || !strings.Contains(err.Error(), "no active turn") {
		t.Errorf("interrupt of an idle thread: %v", err)
	}
	if _, err := th.Approvals().Ask(t.Context(), approval.Question{}); !errors.Is(err, approval.ErrNoApprover) {
		t.Errorf("a client that does not attend counts as a person: %v", err)
	}
	if th.Waiting() {
		t.Error("a client that does not attend counts as one that waits")
	}
	if _, err := c.Subscribe(t.Context(), threadsocket.SubscribeParams{Attend: true}); err != nil {
		t.Fatal(err)
	}
	if !th.Waiting() {
		t.Error("a client that attends does not count as one that waits")
	}
	asked := make(chan approval.Answer, 1)
	go func() { // owned by the test: received below
		a, _ := th.Approvals().Ask(t.Context(), approval.Question{About: event.QuestionApproval, Title: "rm"})
		asked <- a
	}()
	for {
		e, err := c.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if q, ok := e.Body.(event.QuestionAsked); ok {
			if err := c.Answer(t.Context(), threadsocket.AnswerParams{ID: q.ID, Choice: approval.Approve}); err != nil {
				t.Fatal(err)
			}
			break
		}
	}
	if a := <-asked; a.Choice != approval.Approve {
		t.Errorf("answer = %+v", a)
	}
	if err := c.Answer(t.Context(), threadsocket.AnswerParams{ID: "nope"}); err == nil {
		t.Error("an unknown question was answered")
	}
	started, err := c.Start(t.Context(), threadsocket.StartParams{Text: "wait"})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Interrupt(t.Context(), threadsocket.InterruptParams{}); err != nil {
		t.Fatal(err)
	}
	if _, end := until(t, c, started.Turn); end.Status != event.TurnInterrupted {
		t.Errorf("end = %+v", end)
	}
	// An interrupt that names a turn is answered when that turn has ended.
	if started, err = c.Start(t.Context(), threadsocket.StartParams{Parts: llm.Parts{&llm.Text{Text: "wait"}}}); err != nil {
		t.Fatal(err)
	}
	if err := c.Interrupt(t.Context(), threadsocket.InterruptParams{Turn: "another"}); err == nil || threadsocket.CodeOf(err) != "" {
		t.Errorf("another turn: %v", err)
	} else if e, ok := errors.AsType[*threadsocket.Error](err); !ok || e.Code != threadsocket.OtherTurn {
		t.Errorf("another turn: %v", err)
	}
	if err := c.Interrupt(t.Context(), threadsocket.InterruptParams{Turn: started.Turn}); err != nil {
		t.Error(err)
	}
	if err := th.CheckIdle(t.Context()); err != nil {
		t.Errorf("the turn still runs: %v", err)
	}
	if s, err := c.Settings(t.Context()); err != nil || s.Cwd == "" {
		t.Errorf("settings %+v, %v", s, err)
	}
}

func TestPlugins(t *testing.T) {
	path, _, p := serve(t)
	c := dial(t, path)
	list, err := c.Plugins(t.Context())
	if err != nil || len(list) != 1 || list[0].Generation != 2 {
		t.Errorf("plugins = %+v, %v", list, err)
	}
	if err := c.Reload(t.Context(), threadsocket.ReloadParams{Plugin: "shell", Path: "/x"}); err != nil || p.reloaded[0] != "shell /x" {
		t.Errorf("reload: %v %q", err, p.reloaded)
	}
	if err := c.Reload(t.Context(), threadsocket.ReloadParams{Plugin: "nope"}); err == nil || !strings.Contains(err.Error(), "no such plugin") {
		t.Errorf("reload of an unknown one: %v", err)
	}
	run := threadsocket.CommandParams{Plugin: "desk", Name: "publish", Input: json.RawMessage(`{"file":"f"}`)}
	if _, err := c.Command(t.Context(), run); codeOf(err) != threadsocket.NotConfirmed {
		t.Errorf("a command that was not confirmed: %v", err)
	}
	run.Confirmed = true
	if out, err := c.Command(t.Context(), run); err != nil || string(out) != `{"of":"desk","input":{"file":"f"}}` {
		t.Errorf("a command: %s, %v", out, err)
	}
	run.Name = "publsh"
	if _, err := c.Command(t.Context(), run); codeOf(err) != threadsocket.NotFound {
		t.Errorf("a command that does not exist: %v", err)
	}
}

// codeOf returns the kind of an error that a host answered with.
func codeOf(err error) threadsocket.Code {
	var e *threadsocket.Error
	if !errors.As(err, &e) {
		return ""
	}
	return e.Code
}

func TestEmptyTask(t *testing.T) {
	path, _, _ := serve(t)
	if r, err := dial(t, path).Start(t.Context(), threadsocket.StartParams{Text: " \n"}); err == nil || !strings.Contains(err.Error(), "empty") {
		t.Errorf("a task of white space was taken: %+v, %v", r, err)
	}
}

func TestNobodyListens(t *testing.T) {
	if _, err := threadsocket.Dial(t.Context(), filepath.Join(t.TempDir(), string(event.NewThreadID())+".sock")); !errors.Is(err, threadsocket.ErrGone) {
		t.Errorf("Dial = %v, want %v", err, threadsocket.ErrGone)
	}
}

// Requests that wait for the end of the turn do not stand before the interrupt that ends it.
func TestInterruptPassesRequestsThatWait(t *testing.T) {
	path, _, _ := serve(t)
	c := dial(t, path)
	if _, err := c.Subscribe(t.Context(), threadsocket.SubscribeParams{}); err != nil {
		t.Fatal(err)
	}
	first, err := c.Start(t.Context(), threadsocket.StartParams{Text: "wait"})
	if err != nil {
		t.Fatal(err)
	}
	ctx, leave := context.WithCancel(t.Context())
	var waiting sync.WaitGroup
	for range 20 { // more than run at once
		waiting.Go(func() { _, _ = c.Start(ctx, threadsocket.StartParams{Text: "later", OutputSchema: []byte("{}")}) })
	}
	if err := c.Interrupt(t.Context(), threadsocket.InterruptParams{}); err != nil {
		t.Error(err)
	}
	if _, end := until(t, c, first.Turn); end.Status != event.TurnInterrupted {
		t.Errorf("end = %+v", end)
	}
	leave()
	waiting.Wait()
}

// A client has the thread compacted, in a turn of its own; one that runs is stopped for it.
func TestCompact(t *testing.T) {
	path, _, _ := serve(t)
	c := dial(t, path)
	running, err := c.Start(t.Context(), threadsocket.StartParams{Text: "wait"})
	if err != nil {
		t.Fatal(err)
	}
	compaction, err := c.Compact(t.Context())
	if err != nil || compaction.Turn == "" || compaction.Turn == running.Turn || compaction.Steered {
		t.Fatalf("compact: %+v, %v", compaction, err)
	}
	if _, err := c.Subscribe(t.Context(), threadsocket.SubscribeParams{}); err != nil {
		t.Fatal(err)
	}
	if _, end := until(t, c, running.Turn); end.Status != event.TurnInterrupted {
		t.Errorf("the turn that ran ended %+v", end)
	}
	if _, end := until(t, c, compaction.Turn); end.Status != event.TurnCompleted {
		t.Errorf("the compaction ended %+v", end)
	}
}

func TestKeysOfAdditionalContext(t *testing.T) {
	path, _, _ := serve(t)
	c := dial(t, path)
	if _, err := c.Subscribe(t.Context(), threadsocket.SubscribeParams{}); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"", "a b", "a>b", "ä", strings.Repeat("x", 65)} {
		_, err := c.Start(t.Context(), threadsocket.StartParams{Text: "hello", AdditionalContext: map[string]threadsocket.AdditionalContext{key: {Value: "x"}}})
		if err == nil || !strings.Contains(err.Error(), "additionalContext") {
			t.Errorf("key %q: %v", key, err)
		}
	}
	started, err := c.Start(t.Context(), threadsocket.StartParams{Text: "hello", AdditionalContext: map[string]threadsocket.AdditionalContext{"open-file_1": {Value: "x"}}})
	if err != nil {
		t.Fatal(err)
	}
	until(t, c, started.Turn)
}

// A client changes a thread for the turns to come, with a task or without one.
func TestSettings(t *testing.T) {
	path, th, _ := serve(t)
	c := dial(t, path)
	if err := c.Configure(t.Context(), threadsocket.Settings{Cwd: "/a", Approval: "never"}); err != nil {
		t.Fatal(err)
	}
	if got := th.Settings(); got.Cwd != "/a" || got.Approval != "never" {
		t.Errorf("settings %+v", got)
	}
	r, err := c.Subscribe(t.Context(), threadsocket.SubscribeParams{})
	if err != nil || r.Cwd != "/a" {
		t.Fatalf("%+v, %v", r, err)
	}
	started, err := c.Start(t.Context(), threadsocket.StartParams{Text: "hello", Settings: threadsocket.Settings{Cwd: "/b", Effort: "high"}})
	if err != nil {
		t.Fatal(err)
	}
	until(t, c, started.Turn)
	if got := th.Settings(); got.Cwd != "/b" || got.Reasoning != "high" || got.Approval != "never" {
		t.Errorf("settings %+v", got)
	}
}
