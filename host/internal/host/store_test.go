package host_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/host"
	"github.com/gantry-agent/gantry/host/internal/store"
	"github.com/gantry-agent/gantry/host/internal/thread"
	"github.com/gantry-agent/gantry/host/internal/turn"
	"github.com/gantry-agent/gantry/sdk/llm"
)

// disk is one that can be full.
type disk struct{ full atomic.Bool }

var errFull = errors.New("no space left on device")

func (d *disk) around(commit func() error) error {
	if d.full.Load() {
		return errFull
	}
	return commit()
}

// fill runs two commands; while the first one waits for the file "go", a test does what it likes to the disk.
const fill = `
[[step]]
when = { since_user = 0 }
times = -1
do = [{ call = "exec_command", args = { cmd = "echo first >> ran; touch started; while [ ! -e go ]; do sleep 0.01; done", login = false } }]
[[step]]
when = { since_user = 1 }
times = -1
do = [{ call = "exec_command", args = { cmd = "echo second >> ran", login = false } }]
[[step]]
when = { since_user = 2 }
times = -1
do = [{ text = "done" }]
`

// until receives events up to the one that stop names, with what was said of the store meanwhile.
func until(t *testing.T, sub *thread.Subscription, stop func(event.Event) bool) (events []event.Event, notices []string) {
	t.Helper()
	for {
		e, err := sub.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		events = append(events, e)
		if n, ok := e.Body.(event.Notice); ok {
			notices = append(notices, n.Level+": "+n.Text)
		}
		if stop(e) {
			return events, notices
		}
	}
}

func ended(e event.Event) bool { _, ok := e.Body.(event.TurnEnded); return ok }

// both is for two events that come in either order.
func both(a, b func(event.Event) bool) func(event.Event) bool {
	var seenA, seenB bool
	return func(e event.Event) bool {
		seenA, seenB = seenA || a(e), seenB || b(e)
		return seenA && seenB
	}
}

func noticed(text string) func(event.Event) bool {
	return func(e event.Event) bool {
		n, ok := e.Body.(event.Notice)
		return ok && strings.Contains(n.Text, text)
	}
}

// A disk that is full in the middle of a turn costs the calls that have an effect, each with its reason, and not the turn.
// The user reads of it once, and once that it is over; then everything is stored that was shown.
func TestDiskIsFullDuringATurn(t *testing.T) {
	var d disk
	opts := host.TuningStore(playing(t, fill), func(c *store.Config) { c.WrapCommit = d.around })
	h, err := host.New(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := h.Close(); err != nil {
			t.Error(err)
		}
	}()
	dir := t.TempDir()
	th, err := h.StartThread(t.Context(), host.Params{Cwd: dir})
	if err != nil {
		t.Fatal(err)
	}
	sub, err := th.Subscribe(t.Context(), thread.Lossless)
	if err != nil {
		t.Fatal(err)
	}
	defer sub.Close()
	submit := func(th *thread.Thread, text string) {
		t.Helper()
		if _, err := th.Submit(t.Context(), thread.Submission{Input: turn.Input{Parts: []llm.Part{&llm.Text{Text: text}}}}); err != nil {
			t.Fatal(err)
		}
	}
	submit(th, "go")
	file(t, filepath.Join(dir, "started"))
	d.full.Store(true)
	touch(t, filepath.Join(dir, "go"))
	all, notices := until(t, sub, both(ended, noticed("can't save events")))
	end := all[slices.IndexFunc(all, ended)].Body.(event.TurnEnded)
	if end.Status != event.TurnCompleted || end.LastMessage != "done" {
		t.Errorf("the turn ended with %+v", end)
	}
	if len(notices) != 1 || !strings.HasPrefix(notices[0], "error: the store can't save events: ") || !strings.Contains(notices[0], errFull.Error()) {
		t.Errorf("in the turn the user reads %q", notices)
	}
	if ran := read(t, filepath.Join(dir, "ran")); ran != "first\n" {
		t.Errorf("ran: %q", ran)
	}
	if out := outputs(all); len(out) != 2 || !strings.Contains(out[1], "was not started") || !strings.Contains(out[1], errFull.Error()) {
		t.Errorf("the model reads %q", out)
	}

	// The next turn is answered as well, and a thread that begins now is told by itself.
	submit(th, "and on")
	more, notices := until(t, sub, ended)
	if len(notices) > 0 {
		t.Errorf("in the next turn the user reads %q", notices)
	}
	all = append(all, more...)
	other, err := h.StartThread(t.Context(), host.Params{Cwd: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	others, err := other.Subscribe(t.Context(), thread.Lossless)
	if err != nil {
		t.Fatal(err)
	}
	defer others.Close()
	submit(other, "go")
	if _, notices := until(t, others, ended); len(notices) != 1 || !strings.Contains(notices[0], "can't save events") {
		t.Errorf("in another thread the user reads %q", notices)
	}

	d.full.Store(false)
	for _, s := range []*thread.Subscription{sub, others} {
		more, notices := until(t, s, noticed("works again"))
		if len(notices) != 1 || notices[0] != "info: the store works again; no events were lost" {
			t.Errorf("afterwards the user reads %q", notices)
		}
		if s == sub {
			all = append(all, more...)
		}
	}
	touch(t, filepath.Join(dir, "go"))
	submit(th, "once more")
	more, notices = until(t, sub, ended)
	if len(notices) > 0 || read(t, filepath.Join(dir, "ran")) != "first\nfirst\nsecond\n" {
		t.Errorf("with a disk that works: notices %q, ran %q", notices, read(t, filepath.Join(dir, "ran")))
	}
	all = append(all, more...)
	var shown, stored []string
	for _, e := range all {
		if e.Seq > 0 {
			shown = append(shown, e.Body.Kind())
		}
	}
	for e, err := range h.Store().Events(t.Context(), th.ID(), 0) {
		if err != nil {
			t.Fatal(err)
		}
		stored = append(stored, e.Body.Kind())
	}
	if !slices.Equal(shown, stored) {
		t.Errorf("shown\n%v\nstored\n%v", shown, stored)
	}
}

// outputs are what the model reads of the calls in some events.
func outputs(events []event.Event) (out []string) {
	for _, e := range events {
		h, ok := e.Body.(event.HistoryAdded)
		if !ok {
			continue
		}
		for _, m := range h.Messages {
			for _, p := range m.Parts {
				if r, ok := p.(*llm.ToolResult); ok {
					out = append(out, llm.Message{Parts: r.Content}.Text())
				}
			}
		}
	}
	return out
}

// file waits until a file is there: a command has no other way to tell the test.
func file(t *testing.T, path string) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		if _, err := os.Stat(path); err == nil {
			return
		}
		select {
		case <-tick.C:
		case <-t.Context().Done():
			t.Fatalf("%s never came", path)
		}
	}
}

func touch(t *testing.T, path string) {
	t.Helper()
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
