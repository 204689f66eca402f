// Package turntest runs turns against a scripted model and tools that are functions, with the real pipeline between them.
//
// It owns: the doubles and what they remember: every request that the model got, every event in order. It must not know:
// what a test checks.
//
// Start with [New].
package turntest

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gantry-agent/gantry/host/internal/approval"
	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/history"
	"github.com/gantry-agent/gantry/host/internal/hook"
	"github.com/gantry-agent/gantry/host/internal/hosttool"
	"github.com/gantry-agent/gantry/host/internal/launch"
	"github.com/gantry-agent/gantry/host/internal/orchestrate"
	"github.com/gantry-agent/gantry/host/internal/policy"
	"github.com/gantry-agent/gantry/host/internal/prompt"
	"github.com/gantry-agent/gantry/host/internal/registry"
	"github.com/gantry-agent/gantry/host/internal/tool"
	"github.com/gantry-agent/gantry/host/internal/turn"
	"github.com/gantry-agent/gantry/host/internal/usage"
	"github.com/gantry-agent/gantry/sdk/contract"
	"github.com/gantry-agent/gantry/sdk/llm"
	"github.com/hashicorp/go-hclog"
)

// Answer is one answer of the model: events, then the stream's error (nil: it ends).
type Answer struct {
	Events []llm.Event
	Err    error
}

// Say answers with texts and calls, whole.
func Say(parts ...llm.Part) Answer {
	a := Cut(parts...)
	a.Err = nil
	reason := llm.FinishStop
	for _, p := range parts {
		if _, ok := p.(*llm.ToolCall); ok {
			reason = llm.FinishToolCalls
		}
	}
	in, out := int64(100), int64(10)
	u := llm.Usage{Input: &in, Output: &out}
	a.Events = append(a.Events, llm.StepFinish{Reason: reason, Usage: u}, llm.Finish{Reason: reason, Usage: u})
	return a
}

// Used says what an answer used, in and out.
func (a Answer) Used(in, out int64) Answer {
	u := llm.Usage{Input: &in, Output: &out}
	a.Events = slices.Clone(a.Events)
	for i, ev := range a.Events {
		switch ev := ev.(type) {
		case llm.StepFinish:
			ev.Usage = u
			a.Events[i] = ev
		case llm.Finish:
			ev.Usage = u
			a.Events[i] = ev
		}
	}
	return a
}

// Cut answers with whole parts and then breaks.
func Cut(parts ...llm.Part) Answer {
	a := Answer{
		Events: []llm.Event{llm.StepStart{}},
		Err:    &llm.Error{Code: llm.ErrIncompleteStream, Message: "cut", Retryable: true},
	}
	for i, p := range parts {
		id := fmt.Sprint("b", i)
		switch p := p.(type) {
		case *llm.Text:
			a.Events = append(a.Events, llm.BlockStart{Kind: llm.BlockText, ID: id},
				llm.BlockDelta{Kind: llm.BlockText, ID: id, Text: p.Text}, llm.BlockEnd{Kind: llm.BlockText, ID: id})
		case *llm.Reasoning:
			a.Events = append(a.Events, llm.BlockStart{Kind: llm.BlockReasoning, ID: id},
				llm.BlockDelta{Kind: llm.BlockReasoning, ID: id, Text: p.Text}, llm.BlockEnd{Kind: llm.BlockReasoning, ID: id, Metadata: p.Metadata})
		case *llm.ToolCall:
			a.Events = append(a.Events, llm.ToolCallDone{Call: *p})
		}
	}
	return a
}

// Remarking makes a remark of the answer's first text.
func (a Answer) Remarking() Answer {
	a.Events = slices.Clone(a.Events)
	for i, ev := range a.Events {
		if end, ok := ev.(llm.BlockEnd); ok && end.Kind == llm.BlockText {
			end.Remark = true
			a.Events[i] = end
			break
		}
	}
	return a
}

// Text and Call make parts.
func Text(s string) llm.Part { return &llm.Text{Text: s} }

// Call makes a call of a function.
func Call(id, name, args string) llm.Part { return &llm.ToolCall{ID: id, Name: name, Input: args} }

// Tool is a tool that is a function.
type Tool struct {
	contract.Descriptor
	Run func(ctx context.Context, start contract.CallStart) (*contract.Result, error)
}

// Bench holds the doubles. Its fields may be set before Start.
type Bench struct {
	Answers         []Answer
	Tools           []Tool
	Approval        policy.Approval
	Row             llm.ModelRow
	Limits          turn.Limits
	Inbox           *turn.Inbox
	Mail            *turn.Mailbox
	History         *history.History
	Meter           *usage.Meter
	OnStream        func(n int)       // called before answer n, from 1
	OnDelta         func(text string) // called when a delta of a text is published
	Fallback        func(ctx context.Context, why *llm.Error) (*turn.Fallback, error)
	HasFallback     func() bool
	OfflineWait     func() time.Duration
	Context         func(last *event.Reference) []prompt.Section
	OnClientContext func(map[string]string)
	Before          func(ctx context.Context) (*turn.Fallback, error)
	Stops           hook.Stops
	OnEnd           func(ctx context.Context) []event.Body
	OnToolAnnounced func(tools *registry.Snapshot, namespace, name string)
	Asking          func(tools *registry.Snapshot)
	Hooks           turn.Hooks
	// More take part after those that the functions above stand for.
	More []turn.Participant
	// Compaction of the turns; System is their base instructions.
	Compaction turn.Compaction
	System     []string
	Hosted     []string        // tools of the vendor that are offered
	HostTools  hosttool.Table  // besides gantry's own
	Schema     json.RawMessage // of the last message
	// Commit is what the log's barrier does with everything up to seq; nil: nothing, at once.
	Commit func(ctx context.Context, seq uint64) error

	Broker *approval.Broker

	mu       sync.Mutex
	requests []llm.Request
	attempts []int
	events   []event.Event
	seq      uint64
	barriers []uint64
}

// New makes a bench whose model gives the answers one after the other.
func New(answers ...Answer) *Bench {
	b := &Bench{
		Answers: answers, Approval: policy.Never, Inbox: &turn.Inbox{}, Mail: turn.NewMailbox(nil), History: history.New(nil), Meter: usage.NewMeter(event.Tokens{}, usage.Budget{}),
		Row: llm.ModelRow{ID: "m", ParallelToolCalls: true, TruncationLimit: 10_000},
	}
	b.Broker = approval.NewBroker(b)
	return b
}

// Run runs a turn to its end.
func (b *Bench) Run(t testing.TB, ctx context.Context, input string) turn.Result {
	t.Helper()
	return b.RunInput(t, ctx, turn.Input{Parts: []llm.Part{&llm.Text{Text: input}}})
}

// RunInput is [Bench.Run] for more than words.
func (b *Bench) RunInput(t testing.TB, ctx context.Context, input turn.Input) turn.Result {
	t.Helper()
	return turn.Run(ctx, b.config(t), b.History, input)
}

// Compact runs a turn that makes the history shorter.
func (b *Bench) Compact(t testing.TB, ctx context.Context) turn.Result {
	t.Helper()
	return turn.Compact(ctx, b.config(t), b.History)
}

func (b *Bench) config(t testing.TB) turn.Config {
	t.Helper()
	reg := registry.New()
	set := contract.ToolSet{Revision: "1"}
	for _, tl := range b.Tools {
		if tl.InputSchema == nil && tl.Freeform == nil {
			tl.InputSchema = json.RawMessage(`{"type":"object"}`)
		}
		set.Tools = append(set.Tools, tl.Descriptor)
	}
	if problems := reg.Set("fake", set); len(problems) > 0 {
		t.Fatal(problems)
	}
	hostTools := append(hosttool.Default(), b.HostTools...)
	tools := func() *registry.Snapshot {
		return hostTools.Extend(reg.Snapshot(), hosttool.Conditions{Approval: b.Approval})
	}
	pipeline := orchestrate.New(orchestrate.Deps{
		Hooks: hook.None{}, Policy: policy.Decide, Approver: b.Broker, Granter: granter{}, Journal: b, Retry: orchestrate.NoRetry,
		Backends: func(string) (orchestrate.ToolBackend, bool) { return family{b}, true }, HostTools: hostTools.Tool, Processes: nothing{},
	}, orchestrate.NewTokens(), hclog.NewNullLogger())
	return turn.Config{
		ID: "turn-1", Model: b, Calls: pipeline, Log: b, Tools: tools, Row: b.Row, Inbox: b.Inbox, Mail: b.Mail, Meter: b.Meter, Limits: b.Limits,
		Logger: hclog.NewNullLogger(),
		Settings: orchestrate.Settings{
			Thread: "thread-1", Cwd: "/", Approval: b.Approval, Sandbox: "full-access", Output: history.PolicyOf(b.Row),
		},
		Request: llm.Request{Model: "m", System: b.System, HostedTools: b.Hosted, OutputSchema: b.Schema}, Provider: "fake",
		Participants: b.participants(), Compaction: b.Compaction,
	}
}

// Stream implements [turn.Model].
func (b *Bench) Stream(ctx context.Context, r *llm.Request, _ event.TurnID, attempts int) iter.Seq2[llm.Event, error] {
	return func(yield func(llm.Event, error) bool) {
		b.mu.Lock()
		b.requests = append(b.requests, *r)
		b.attempts = append(b.attempts, attempts)
		n := len(b.requests)
		b.mu.Unlock()
		if b.OnStream != nil {
			b.OnStream(n)
		}
		if n > len(b.Answers) {
			yield(nil, &llm.Error{Code: llm.ErrInvalidRequest, Message: fmt.Sprintf("request %d was not expected", n)})
			return
		}
		a := b.Answers[n-1]
		for _, ev := range a.Events {
			if ctx.Err() != nil {
				yield(nil, context.Cause(ctx))
				return
			}
			if !yield(ev, nil) {
				return
			}
		}
		if a.Err != nil {
			yield(nil, a.Err)
		}
	}
}

// Publish implements the log.
func (b *Bench) Publish(_ context.Context, id event.TurnID, bodies ...event.Body) (uint64, error) {
	for _, body := range bodies {
		if d, ok := body.(event.ItemDelta); ok && b.OnDelta != nil {
			b.OnDelta(d.Text)
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, body := range bodies {
		e := event.Event{Turn: id, Body: body}
		if e.Durable() {
			b.seq++
			e.Seq = b.seq
		}
		b.events = append(b.events, e)
	}
	return b.seq, nil
}

// Barrier implements the log.
func (b *Bench) Barrier(ctx context.Context, seq uint64) error {
	b.mu.Lock()
	b.barriers = append(b.barriers, seq)
	b.mu.Unlock()
	if b.Commit == nil {
		return nil
	}
	return b.Commit(ctx, seq)
}

// Events returns what happened so far, in order.
func (b *Bench) Events() []event.Event {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]event.Event(nil), b.events...)
}

// Kinds returns the kinds of the durable events, one a line.
func (b *Bench) Kinds() string {
	var out []string
	for _, e := range b.Events() {
		if e.Durable() {
			out = append(out, e.Body.Kind())
		}
	}
	return strings.Join(out, "\n")
}

// Sent returns the requests as they were.
func (b *Bench) Sent() []llm.Request {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]llm.Request(nil), b.requests...)
}

// Requests returns what the model saw, request by request, one line for each part.
func (b *Bench) Requests() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	out := make([]string, 0, len(b.requests))
	for _, r := range b.requests {
		out = append(out, Render(r.Messages))
	}
	return out
}

// Attempts returns how many tries each request was given.
func (b *Bench) Attempts() []int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.attempts)
}

// Render shows messages as lines of "role: content".
func Render(ms []llm.Message) string {
	var out []string
	for _, m := range ms {
		for _, p := range m.Parts {
			switch p := p.(type) {
			case *llm.Text:
				out = append(out, m.Role.String()+": "+p.Text)
			case *llm.ToolCall:
				out = append(out, fmt.Sprintf("call %s: %s %s", p.ID, p.Name, p.Input))
			case *llm.ToolResult:
				out = append(out, fmt.Sprintf("output %s: %s", p.ID, llm.Message{Parts: p.Content}.Text()))
			case *llm.Reasoning:
				out = append(out, "thought: "+p.Text)
			default:
				out = append(out, fmt.Sprintf("%s: %T", m.Role, p))
			}
		}
	}
	return strings.Join(out, "\n")
}

type family struct{ b *Bench }

func (f family) Assess(context.Context, contract.AssessRequest) (*contract.Assessment, error) {
	return &contract.Assessment{}, nil
}

func (f family) Call(ctx context.Context, start contract.CallStart, ctl tool.Control, sink func(contract.CallEvent)) (*contract.Result, error) {
	for _, t := range f.b.Tools {
		if t.Name != start.Tool {
			continue
		}
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		stop := context.AfterFunc(ctl.Soft, cancel)
		defer stop()
		sink(contract.Started{})
		return t.Run(ctx, start)
	}
	return nil, fmt.Errorf("no tool %q", start.Tool)
}

type granter struct{}

func (granter) Grant(_ context.Context, r orchestrate.GrantRequest) (launch.Grant, error) {
	return launch.Grant{Mode: r.Sandbox}, nil
}

func (granter) Writable(orchestrate.GrantRequest, string) bool { return true }

func (granter) Resolve(_ string, p policy.Permissions) (policy.Permissions, error) { return p, nil }

type nothing struct{}

func (nothing) EndCall(context.Context, launch.Owner) error { return nil }

// Barriers returns the numbers that were waited for.
func (b *Bench) Barriers() []uint64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]uint64(nil), b.barriers...)
}
