package usershell

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/history"
	"github.com/gantry-agent/gantry/host/internal/launch"
	"github.com/gantry-agent/gantry/host/internal/orchestrate"
	"github.com/gantry-agent/gantry/host/internal/registry"
	"github.com/gantry-agent/gantry/host/internal/thread"
	"github.com/gantry-agent/gantry/host/internal/turn"
	"github.com/gantry-agent/gantry/sdk/llm"
	"github.com/hashicorp/go-hclog"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is what a thread and its commands meet: a process that is a function, and a model that repeats what it was asked last.
type world struct {
	process func(ctx context.Context, emit func(string)) (int, error)
	started []launch.Spec
	ended   []launch.Owner
	limit   int64 // tokens that the model reads of an output

	mu   sync.Mutex
	kept []event.Event
	hold chan struct{} // the model waits for it; nil: it does not
	seen []string
}

func (w *world) Attach(ctx context.Context, _ <-chan launch.Input, emit func(launch.Output) error) (launch.Exit, error) {
	code, err := w.process(ctx, func(s string) { _ = emit(launch.Output{Data: []byte(s)}) })
	return launch.Exit{Code: code}, err
}

func (w *world) EndCall(_ context.Context, o launch.Owner) error {
	w.ended = append(w.ended, o)
	return nil
}

func (w *world) Append(_ context.Context, evs ...event.Event) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.kept = append(w.kept, evs...)
	return nil
}

func (w *world) Barrier(context.Context, event.ThreadID, uint64) error { return nil }

func (w *world) Turn(context.Context, *thread.Thread, event.TurnID, thread.Submission) (thread.Plan, error) {
	return thread.Plan{Started: event.TurnStarted{Cwd: "/w"}, Config: turn.Config{
		Model: w, Tools: registry.New().Snapshot, Request: llm.Request{Model: "m"},
	}}, nil
}

func (w *world) Check(context.Context, *thread.Thread, thread.Change) error { return nil }
func (w *world) End(context.Context, event.ThreadID)                        {}

func (w *world) Stream(ctx context.Context, r *llm.Request, _ event.TurnID, _ int) iter.Seq2[llm.Event, error] {
	return func(yield func(llm.Event, error) bool) {
		w.mu.Lock()
		w.seen = append(w.seen, r.Messages[len(r.Messages)-1].Text())
		w.mu.Unlock()
		if w.hold != nil {
			select {
			case <-w.hold:
			case <-ctx.Done():
				yield(nil, context.Cause(ctx))
				return
			}
		}
		for _, ev := range []llm.Event{
			llm.StepStart{}, llm.BlockStart{Kind: llm.BlockText, ID: "1"}, llm.BlockDelta{Kind: llm.BlockText, ID: "1", Text: "ok"},
			llm.BlockEnd{Kind: llm.BlockText, ID: "1"}, llm.StepFinish{Reason: llm.FinishStop}, llm.Finish{Reason: llm.FinishStop},
		} {
			if !yield(ev, nil) {
				return
			}
		}
	}
}

// open starts a thread and a shell in w.
func (w *world) open(t *testing.T) (*Shell, *thread.Thread) {
	t.Helper()
	s, err := New(Config{
		Spawn: func(_ context.Context, s launch.Spec) (Process, error) {
			w.started = append(w.started, s)
			if w.process == nil {
				return nil, fmt.Errorf("start: %w", fs.ErrNotExist)
			}
			return w, nil
		},
		Processes: w, Tokens: orchestrate.NewTokens(), Logger: hclog.NewNullLogger(),
		Environ: func() []string { return []string{"SHELL=/usr/bin/zsh", "A=b"} },
		Output:  func(event.ThreadID) history.Policy { return history.Policy{Limit: w.limit} },
	})
	if err != nil {
		t.Fatal(err)
	}
	th := thread.New(thread.Config{
		ID: event.NewThreadID(), Start: &event.ThreadStarted{Cwd: "/w"}, Sink: w, Engine: w, Logger: hclog.NewNullLogger(),
	})
	ctx, cancel := context.WithCancelCause(t.Context())
	done := make(chan struct{})
	go func() { // owned by the test: its end waits
		defer close(done)
		_ = th.Run(ctx)
	}()
	t.Cleanup(func() { cancel(orchestrate.ErrShutdown); <-done })
	return s, th
}

// submit runs a command and returns what became of it.
func submit(t *testing.T, s *Shell, th *thread.Thread, command string, timeout time.Duration) thread.Accepted {
	t.Helper()
	task, _, err := s.Task(command, timeout)
	if err != nil {
		t.Fatal(err)
	}
	a, err := th.Submit(t.Context(), thread.Submission{Task: task})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// told returns the messages that the history got, joined.
func (w *world) told() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var out []string
	for _, e := range w.kept {
		if b, ok := e.Body.(event.HistoryAdded); ok {
			for _, m := range b.Messages {
				out = append(out, m.Text())
			}
		}
	}
	return strings.Join(out, "\n---\n")
}

func numbers(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintln(&b, i+1)
	}
	return b.String()
}

func shape(command string, code int, seconds, output string) string {
	return fmt.Sprintf("<user_shell_command>\n<command>\n%s\n</command>\n<result>\nExit code: %d\nDuration: %s seconds\nOutput:\n%s\n</result>\n</user_shell_command>",
		command, code, seconds, output)
}

func TestWhatTheModelReadsOfACommand(t *testing.T) {
	for name, tc := range map[string]struct {
		process func(ctx context.Context, emit func(string)) (int, error)
		limit   int64
		timeout time.Duration
		want    string
	}{
		"output and exit code": {func(_ context.Context, emit func(string)) (int, error) {
			time.Sleep(1500 * time.Millisecond) // in the bubble
			emit("a\n")
			emit("b")
			return 3, nil
		}, 1000, 0, shape("do it", 3, "1.5000", "a\nb")},
		"nothing": {func(context.Context, func(string)) (int, error) { return 0, nil }, 1000, 0, shape("do it", 0, "0.0000", "")},
		"too much": {func(_ context.Context, emit func(string)) (int, error) {
			emit(numbers(400))
			return 0, nil
		}, 100, 0, shape("do it", 0, "0.0000", "Warning: truncated output (original token count: 373)\nTotal output lines: 400\n\n"+
			history.Truncate(numbers(400), history.Policy{Limit: 100}))},
		"can't be started": {nil, 1000, 0, shape("do it", -1, "0.0000", "execution error: start: file does not exist")},
		"takes too long": {func(ctx context.Context, emit func(string)) (int, error) {
			emit("x")
			<-ctx.Done()
			return 0, context.Cause(ctx)
		}, 1000, time.Minute, shape("do it", -1, "0.0000", "execution error: the command ran longer than 1m0s and was stopped")},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := &world{process: tc.process, limit: tc.limit}
				s, th := w.open(t)
				submit(t, s, th, "do it", tc.timeout)
				time.Sleep(2 * time.Minute) // in the bubble
				if got := w.told(); got != tc.want {
					t.Errorf("the model reads:\n%s\nwant:\n%s", got, tc.want)
				}
				if name == "too much" && (!strings.Contains(w.told(), "70…273 tokens truncated…351") || strings.Count(w.told(), "truncated…") != 1) {
					t.Errorf("cut elsewhere: %s", w.told())
				}
				spec := w.started[0]
				if !slices.Equal(spec.Argv, []string{"/usr/bin/zsh", "-lc", "do it"}) || spec.Cwd != "/w" || spec.Grant.Mode != launch.FullAccess || !spec.MergeStderr {
					t.Errorf("started %+v", spec)
				}
				if tc.process != nil && len(w.ended) == 0 {
					t.Error("nobody ended what the command may have left")
				}
			})
		})
	}
}

// A command that an interrupt stops is recorded so, with its turn or beside another's.
func TestStoppedCommand(t *testing.T) {
	for _, beside := range []bool{false, true} {
		t.Run(fmt.Sprint("beside a turn: ", beside), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := &world{limit: 100, process: func(ctx context.Context, emit func(string)) (int, error) {
					emit("begun")
					<-ctx.Done()
					return 0, context.Cause(ctx)
				}}
				s, th := w.open(t)
				if beside {
					w.hold = make(chan struct{})
					if _, err := th.Submit(t.Context(), thread.Submission{Input: turn.Input{Parts: []llm.Part{&llm.Text{Text: "go"}}}}); err != nil {
						t.Fatal(err)
					}
					synctest.Wait()
				}
				if a := submit(t, s, th, "wait", 0); a.Concurrent != beside {
					t.Errorf("accepted %+v", a)
				}
				time.Sleep(2 * time.Second) // in the bubble
				if err := th.Interrupt(t.Context(), orchestrate.ErrInterrupted); err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				if got, want := w.told(), shape("wait", -1, "0.0000", "command aborted by user"); !strings.Contains(got, want) {
					t.Errorf("the model reads:\n%s\nwant in it:\n%s", got, want)
				}
				if len(w.ended) == 0 {
					t.Error("the process was not ended")
				}
			})
		})
	}
}

// What people see of a command is what they see of a call: an item with its command, output as it comes, an end; and the journal
// has it before it begins. Nobody is asked, whatever the policy.
func TestCommandHasTheEventsOfACall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{limit: 100}
		var atStart string
		w.process = func(_ context.Context, emit func(string)) (int, error) {
			w.mu.Lock()
			for _, e := range w.kept {
				atStart += e.Body.Kind() + " "
			}
			w.mu.Unlock()
			emit("out")
			return 1, nil
		}
		s, th := w.open(t)
		sub, _ := th.Subscribe(t.Context(), thread.Lossless)
		task, call, _ := s.Task("ls", 0)
		if _, err := th.Submit(t.Context(), thread.Submission{Task: task}); err != nil {
			t.Fatal(err)
		}
		if synctest.Wait(); !strings.HasSuffix(atStart, "item.started call.decided call.started ") {
			t.Errorf("when it began the log had %s", atStart)
		}
		var kinds []string
		var last event.Item
		for {
			e, err := sub.Next(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			kinds = append(kinds, e.Body.Kind())
			if c, ok := e.Body.(event.ItemCompleted); ok {
				last = c.Item
			}
			if _, ok := e.Body.(event.TurnEnded); ok {
				break
			}
		}
		want := "thread.started turn.started item.started call.decided call.started item.delta item.completed call.ended history.added turn.ended"
		if got := strings.Join(kinds, " "); got != want {
			t.Errorf("events:\n%s\nwant:\n%s", got, want)
		}
		if last.Type != event.ItemCommand || last.Command != "ls" || last.Output != "out" || *last.ExitCode != 1 || last.Call != call || last.Status != event.StatusFailed {
			t.Errorf("item %+v", last)
		}
	})
}

func TestCommandsThatAreNone(t *testing.T) {
	s := &Shell{}
	for _, command := range []string{"", " \n", "a\x00b"} {
		if _, _, err := s.Task(command, 0); err == nil {
			t.Errorf("%q is taken", command)
		}
	}
	if _, _, err := s.Task("ls", -1); err == nil {
		t.Error("a negative timeout is taken")
	}
}

func TestShellOfTheUser(t *testing.T) {
	for env, want := range map[string]string{
		"SHELL=/bin/bash": "/bin/bash", "SHELL=/usr/bin/fish": "/usr/bin/fish", "SHELL=bash": "/bin/sh", "SHELL=/opt/nu": "/bin/sh", "A=b": "/bin/sh",
	} {
		if got := argv([]string{env}, "x"); !slices.Equal(got, []string{want, "-lc", "x"}) {
			t.Errorf("%s: %q", env, got)
		}
	}
}

func TestExcerpt(t *testing.T) {
	var e excerpt
	var whole strings.Builder
	for i := range 40_000 {
		line := fmt.Sprintf("%032d\n", i)
		whole.WriteString(line)
		e.add([]byte(line))
	}
	all := whole.String()
	p := e.part()
	if p.Text != all[:keptEnd]+all[len(all)-keptEnd:] || p.TotalBytes != int64(len(all)) || p.OmittedBytes != int64(len(all)-2*keptEnd) {
		t.Errorf("%d bytes of %d, %d omitted", len(p.Text), p.TotalBytes, p.OmittedBytes)
	}
	if cap(e.tail) > 4*keptEnd {
		t.Errorf("the end takes %d bytes", cap(e.tail))
	}
	short := excerpt{}
	short.add([]byte("short"))
	if p := short.part(); p.Text != "short" || p.OmittedBytes != 0 {
		t.Errorf("%+v", p)
	}
}

// What a program prints is its answer; what it leaves when it does not end is ended.
func TestAsk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{process: func(_ context.Context, emit func(string)) (int, error) {
			emit("a tree")
			return 2, nil
		}}
		s, _ := w.open(t)
		out, err := s.Ask(t.Context(), launch.Grant{Mode: "read-only"}, "/r", []string{"LC_ALL=C"}, "git", "status")
		if err != nil || out.Stdout != "a tree" || out.Code != 2 || len(w.ended) != 0 {
			t.Errorf("%+v, %v; ended %v", out, err, w.ended)
		}
		w.process = func(ctx context.Context, _ func(string)) (int, error) {
			<-ctx.Done()
			return 0, context.Cause(ctx)
		}
		if _, err := s.Ask(t.Context(), launch.Grant{Mode: "read-only"}, "/r", nil, "git", "status"); !errors.Is(err, errTimeout) || len(w.ended) != 1 {
			t.Errorf("%v; ended %v", err, w.ended)
		}
	})
}
