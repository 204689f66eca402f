// Package storetest provides tests of other packages with a real store in a temporary folder, with faults, and with sample threads.
//
// It owns: opening and closing a store with a test, the language of faults, and sample threads. It must not know: how the store
// works inside. Production code never imports it.
//
// Start with [Open].
package storetest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/store"
	"github.com/gantry-agent/gantry/host/internal/store/database/postgres"
	"github.com/gantry-agent/gantry/host/internal/store/database/postgres/postgrestest"
	"github.com/gantry-agent/gantry/sdk/llm"
	"github.com/hashicorp/go-hclog"
)

// Open opens a store in a temporary folder and closes it when the test ends. Each of changes may set fields of its Config.
func Open(tb testing.TB, changes ...func(*store.Config)) *store.Store {
	tb.Helper()
	cfg := Config(tb)
	for _, change := range changes {
		change(&cfg)
	}
	s, err := store.Open(tb.Context(), cfg)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := s.Close(ctx); err != nil && !tb.Failed() {
			tb.Logf("close store: %v", err)
		}
	})
	return s
}

// Config returns the configuration that Open starts with.
func Config(tb testing.TB) store.Config {
	return store.Config{
		Path:        filepath.Join(tb.TempDir(), "threads.db"),
		Database:    Database(tb),
		HostVersion: "test",
		Logger:      hclog.New(&hclog.LoggerOptions{Name: "store", Output: tb.Output(), Level: hclog.Debug}),
	}
}

// Database returns an empty database on the server that [postgrestest.AddressVar] names, or the zero Database if it is not set.
func Database(tb testing.TB) store.Database {
	tb.Helper()
	server := os.Getenv(postgrestest.AddressVar)
	if server == "" {
		return store.Database{}
	}
	return store.Database{Driver: postgres.Driver{}, Source: postgrestest.Place(tb, server)}
}

// RefuseReads makes the store refuse to read the log.
func RefuseReads(c *store.Config) { c.RefuseReads = true }

// Faulty injects faults into the store's commits; see [Faults].
func Faulty(tb testing.TB, faults string) func(*store.Config) {
	tb.Helper()
	around, err := Faults(faults)
	if err != nil {
		tb.Fatal(err)
	}
	return func(c *store.Config) { c.WrapCommit = around }
}

// ErrFault is the error of a write that fails because of a fault.
var ErrFault = errors.New("a fault of the test")

type fault struct {
	from, to int  // numbers of the affected writes, from 1; to is 0 if there is no last one
	commits  bool // the write is committed, and then reports an error
}

// Faults reads faults, one a line or separated by semicolons, for store.Config.Around. Writes, which are batches and not
// events, are counted from 1; a write that is tried again after it failed counts again.
//
//	write fails at 3
//	write fails from 3
//	write fails from 3 to 5
//	write commits and fails at 3
func Faults(text string) (func(commit func() error) error, error) {
	var faults []fault
	for _, line := range strings.FieldsFunc(text, func(r rune) bool { return r == '\n' || r == ';' }) {
		if strings.TrimSpace(line) == "" {
			continue
		}
		f, err := parseFault(strings.Fields(line))
		if err != nil {
			return nil, fmt.Errorf("fault %q: %w", strings.TrimSpace(line), err)
		}
		faults = append(faults, f)
	}
	var mu sync.Mutex
	writes := 0
	return func(commit func() error) error {
		mu.Lock()
		writes++
		n := writes
		mu.Unlock()
		for _, f := range faults {
			if n < f.from || f.to > 0 && n > f.to {
				continue
			}
			if f.commits {
				return errors.Join(commit(), ErrFault)
			}
			return ErrFault
		}
		return commit()
	}, nil
}

func parseFault(words []string) (fault, error) {
	var f fault
	take := func(expected string) bool {
		if len(words) == 0 || words[0] != expected {
			return false
		}
		words = words[1:]
		return true
	}
	number := func() (int, error) {
		if len(words) == 0 {
			return 0, errors.New("a number is missing")
		}
		n, err := strconv.Atoi(words[0])
		if err != nil || n < 1 {
			return 0, fmt.Errorf("%q is not the number of a write", words[0])
		}
		words = words[1:]
		return n, nil
	}
	if !take("write") {
		return f, errors.New(`it does not begin with "write"`)
	}
	if take("commits") {
		if !take("and") {
			return f, errors.New(`"and fails" is missing`)
		}
		f.commits = true
	}
	if !take("fails") {
		return f, errors.New(`"fails" is missing`)
	}
	var err error
	switch {
	case take("at"):
		f.from, err = number()
		f.to = f.from
	case take("from"):
		if f.from, err = number(); err == nil && take("to") {
			f.to, err = number()
		}
	default:
		return f, errors.New(`"at" or "from" is missing`)
	}
	if err == nil && len(words) > 0 {
		err = fmt.Errorf("%q is too much", strings.Join(words, " "))
	}
	if err == nil && f.to != 0 && f.to < f.from {
		err = errors.New("it ends before it begins")
	}
	return f, err
}

// begin is the time at which sample threads begin.
var begin = time.Date(2026, 7, 1, 9, 0, 0, 0, time.UTC)

// Story returns the events of a thread with a number of completed turns, each of which runs one command.
func Story(thread event.ThreadID, turns int) []event.Event {
	w := &storyWriter{thread: thread}
	w.add(event.ThreadStarted{
		Cwd: "/home/ada/project", Model: "default", Provider: "scripted", ModelName: "play", HostVersion: "test", Source: "exec",
		Instructions: "Be brief.",
	})
	for n := range turns {
		w.turnOf(n)
	}
	return w.events
}

type storyWriter struct {
	thread event.ThreadID
	turn   event.TurnID
	events []event.Event
	total  event.Tokens
}

func (w *storyWriter) add(b event.Body) {
	seq := uint64(len(w.events) + 1)
	w.events = append(w.events, event.Event{
		Seq: seq, Thread: w.thread, Turn: w.turn, Time: begin.Add(time.Duration(seq) * time.Millisecond), Body: b,
	})
}

func (w *storyWriter) turnOf(n int) {
	w.turn = event.TurnID(fmt.Sprintf("%s-turn-%d", w.thread, n+1))
	item := func(what string) event.ItemID { return event.ItemID(fmt.Sprintf("%s-%s", w.turn, what)) }
	call := event.CallID(fmt.Sprintf("call-%d", n+1))
	ask := fmt.Sprintf("Please fix\nbug %d.", n+1)

	w.add(event.TurnStarted{Cwd: "/home/ada/project", Model: "default", Provider: "scripted", ModelName: "play"})
	user := event.Item{ID: item("user"), Type: event.ItemUserMessage, Status: event.StatusCompleted, Text: ask}
	w.add(event.ItemCompleted{Item: user})
	w.add(event.HistoryAdded{Messages: []llm.Message{{Role: llm.RoleUser, Parts: []llm.Part{&llm.Text{Text: ask}}}}})

	command := event.Item{
		ID: item("command"), Type: event.ItemCommand, Status: event.StatusInProgress, Call: call, Plugin: "shell",
		Tool: "exec_command", Command: "go test ./...", Cwd: "/home/ada/project",
	}
	w.add(event.ItemStarted{Item: command})
	w.add(event.CallStarted{
		Call: call, Item: command.ID, Plugin: "shell", Tool: "exec_command", Arguments: []byte(`{"cmd":"go test ./..."}`), Attempt: 1,
	})
	code := int32(0)
	command.Status, command.ExitCode, command.Output = event.StatusCompleted, &code, "ok  \tproject\t0.01s\n"
	w.add(event.CallEnded{Call: call, Outcome: event.OutcomeOK, DurationMS: 12})
	w.add(event.ItemCompleted{Item: command})

	w.total.Input += 1000
	w.total.Output += 100
	w.total.Total += 1100
	w.add(event.UsageReported{Total: w.total})
	answer := event.Item{ID: item("answer"), Type: event.ItemAgentMessage, Status: event.StatusCompleted, Text: "Done."}
	w.add(event.ItemCompleted{Item: answer})
	w.add(event.TurnEnded{Status: event.TurnCompleted, LastMessage: "Done.", Usage: w.total, DurationMS: 40})
	w.turn = ""
}
