package turn_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/hook"
	"github.com/gantry-agent/gantry/host/internal/orchestrate"
	"github.com/gantry-agent/gantry/host/internal/registry"
	"github.com/gantry-agent/gantry/host/internal/turn"
	"github.com/gantry-agent/gantry/host/internal/turn/turntest"
	"github.com/gantry-agent/gantry/sdk/llm"
)

// observer implements several of the optional interfaces and notes what it is called for.
type observer struct {
	name string
	log  *[]string
	held string // why the turn does not end yet; once
	err  error  // of Stop
}

func (o *observer) note(what string) { *o.log = append(*o.log, o.name+" "+what) }

func (o *observer) OnRequest(*registry.Snapshot)                      { o.note("request") }
func (o *observer) OnToolAnnounced(_ *registry.Snapshot, _, n string) { o.note("tool " + n) }
func (o *observer) OnClientContext(texts map[string]string)           { o.note("client " + texts["file"]) }

func (o *observer) OnEnd(context.Context) []event.Body {
	o.note("end")
	return []event.Body{event.Notice{Level: "info", Text: o.name}}
}

func (o *observer) Stop(context.Context, hook.Ending) (hook.StopVerdict, error) {
	o.note("stop")
	reason := o.held
	o.held = ""
	return hook.StopVerdict{Block: reason != "", Reason: reason}, o.err
}

// Participants are called in order, each for what it implements. The first one that objects keeps a turn going, also after one
// that failed.
func TestParticipants(t *testing.T) {
	var log []string
	b := turntest.New(
		turntest.Answer{Events: []llm.Event{
			llm.StepStart{}, llm.BlockStart{Kind: llm.BlockToolInput, ID: "c1", Name: "echo"}, llm.ToolCallDone{Call: llm.ToolCall{ID: "c1", Name: "echo", Input: "{}"}},
			llm.StepFinish{Reason: llm.FinishToolCalls}, llm.Finish{Reason: llm.FinishToolCalls},
		}},
		turntest.Say(turntest.Text("done")), turntest.Say(turntest.Text("tested")))
	b.Tools = []turntest.Tool{echo("echo")}
	b.More = []turn.Participant{
		&observer{name: "a", log: &log, err: errors.New("broken")}, struct{}{}, &observer{name: "b", log: &log, held: "run the tests"},
		&observer{name: "c", log: &log},
	}
	completed(t, b.RunInput(t, t.Context(), turn.Input{Parts: []llm.Part{&llm.Text{Text: "go"}}, Context: map[string]string{"file": "a.go"}}))
	want := "a client a.go, b client a.go, c client a.go, a request, b request, c request, a tool echo, b tool echo, c tool echo, " +
		"a request, b request, c request, a stop, b stop, a request, b request, c request, a stop, b stop, c stop, a end, b end, c end"
	if got := strings.Join(log, ", "); got != want {
		t.Errorf("called:\n%s\nwant:\n%s", got, want)
	}
	var said []string
	for _, e := range b.Events() {
		if n, ok := e.Body.(event.Notice); ok {
			said = append(said, n.Text)
		}
	}
	if want := []string{"a Stop hook failed: broken", "a Stop hook failed: broken", "a", "b", "c"}; !slices.Equal(said, want) {
		t.Errorf("notices %q, want %q", said, want)
	}
}

// noter has notes, and is told about an interruption.
type noter struct {
	notes [][]string // one list for each request
	log   []string
}

func (n *noter) TakeNotes() []string {
	if len(n.notes) == 0 {
		return nil
	}
	first := n.notes[0]
	n.notes = n.notes[1:]
	return first
}

func (n *noter) OnInterrupt() { n.log = append(n.log, "interrupt") }

func (n *noter) OnEnd(context.Context) []event.Body {
	n.log = append(n.log, "end")
	return nil
}

// Notes are recorded before the next request, whatever the turn does in it.
func TestNotes(t *testing.T) {
	n := &noter{notes: [][]string{{"one", "two"}, nil, {"three"}}}
	b := turntest.New(turntest.Say(turntest.Call("c1", "echo", "{}")), turntest.Say(turntest.Call("c2", "echo", "{}")), turntest.Say(turntest.Text("done")))
	b.Tools = []turntest.Tool{echo("echo")}
	b.More = []turn.Participant{n}
	completed(t, b.Run(t, t.Context(), "go"))
	var notes []int // number of notes in each request
	for _, req := range b.Sent() {
		said := 0
		for _, m := range req.Messages {
			if text := m.Text(); m.Role == llm.RoleSystem && (text == "one" || text == "two" || text == "three") {
				said++
			}
		}
		notes = append(notes, said)
	}
	if !slices.Equal(notes, []int{2, 2, 3}) {
		t.Errorf("notes in the requests: %v", notes)
	}
	if !slices.Equal(n.log, []string{"end"}) {
		t.Errorf("called for %q", n.log)
	}
}

// Only a person's interruption is one.
func TestInterruptListener(t *testing.T) {
	for _, tc := range []struct {
		cause error
		want  []string
	}{{orchestrate.ErrInterrupted, []string{"interrupt", "end"}}, {orchestrate.ErrShutdown, []string{"end"}}} {
		n := &noter{}
		b := turntest.New(turntest.Say(turntest.Text("done")))
		b.More = []turn.Participant{n}
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(tc.cause)
		if res := b.RunInput(t, ctx, turn.Input{Parts: []llm.Part{&llm.Text{Text: "go"}}}); res.Status != event.TurnInterrupted {
			t.Errorf("%v: %+v", tc.cause, res)
		}
		if !slices.Equal(n.log, tc.want) {
			t.Errorf("%v: called for %q, want %q", tc.cause, n.log, tc.want)
		}
	}
}

type waiter time.Duration

func (w waiter) OfflineWait() time.Duration { return time.Duration(w) }

// Of several participants that wait for an unreachable provider the most patient one applies.
func TestLongestOfflineWaitApplies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := turntest.New(unreached, turntest.Say(turntest.Text("done")))
		b.More = []turn.Participant{waiter(0), waiter(time.Minute), waiter(0)}
		began := time.Now()
		completed(t, b.Run(t, t.Context(), "go"))
		if waited := time.Since(began); waited != 5*time.Second {
			t.Errorf("waited %v, want 5s", waited)
		}
	})
}
