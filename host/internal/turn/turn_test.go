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
	"github.com/gantry-agent/gantry/host/internal/orchestrate"
	"github.com/gantry-agent/gantry/host/internal/registry"
	"github.com/gantry-agent/gantry/host/internal/turn"
	"github.com/gantry-agent/gantry/host/internal/turn/turntest"
	"github.com/gantry-agent/gantry/sdk/contract"
	"github.com/gantry-agent/gantry/sdk/llm"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func echo(name string) turntest.Tool {
	return turntest.Tool{
		Descriptor: contract.Descriptor{Name: name, ParallelSafe: true},
		Run: func(_ context.Context, s contract.CallStart) (*contract.Result, error) {
			return contract.Text("ran " + string(s.Input.Arguments)), nil
		},
	}
}

func wantRequest(t *testing.T, b *turntest.Bench, n int, want string) {
	t.Helper()
	got := b.Requests()
	if n > len(got) {
		t.Fatalf("%d requests, want at least %d", len(got), n)
	}
	if want = strings.TrimSpace(strings.ReplaceAll(want, "\n\t\t", "\n")); got[n-1] != want {
		t.Errorf("request %d:\n%s\nwant:\n%s", n, got[n-1], want)
	}
}

func TestUnknownToolIsAnsweredToTheModel(t *testing.T) {
	b := turntest.New(
		turntest.Say(turntest.Call("c1", "echo", `{"a":1}`), turntest.Call("c2", "nope", `{}`)),
		turntest.Say(turntest.Text("done")))
	b.Tools = []turntest.Tool{echo("echo")}
	res := b.Run(t, t.Context(), "go")
	if res.Status != event.TurnCompleted || res.LastMessage != "done" {
		t.Errorf("result = %+v", res)
	}
	if used, _ := b.Meter.Sum(); used.Input != 200 || used.Total != 220 {
		t.Errorf("usage = %+v, want the sum of both answers", used)
	}
	wantRequest(t, b, 2, `
		user: go
		call c1: echo {"a":1}
		call c2: nope {}
		output c1: ran {"a":1}
		output c2: unsupported call: nope`)
}

func TestBadArgumentsAreAnsweredToTheModel(t *testing.T) {
	b := turntest.New(turntest.Say(turntest.Call("c1", "echo", `{bad`)), turntest.Say(turntest.Text("sorry")))
	b.Tools = []turntest.Tool{echo("echo")}
	b.Run(t, t.Context(), "go")
	if got := b.Requests()[1]; !strings.Contains(got, "output c1: failed to parse function arguments: ") {
		t.Errorf("request 2 = %s", got)
	}
}

// Both calls run at once (each waits for the other); the first one asked ends last and is recorded first.
func TestOutputsAreRecordedInTheOrderAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		second := make(chan struct{})
		b := turntest.New(
			turntest.Say(turntest.Call("c1", "slow", `{}`), turntest.Call("c2", "fast", `{}`)),
			turntest.Say(turntest.Text("done")))
		b.Tools = []turntest.Tool{
			{Descriptor: contract.Descriptor{Name: "slow", ParallelSafe: true}, Run: func(context.Context, contract.CallStart) (*contract.Result, error) {
				<-second
				time.Sleep(time.Second) // in the bubble: the other call has ended when this one goes on
				return contract.Text("A"), nil
			}},
			{Descriptor: contract.Descriptor{Name: "fast", ParallelSafe: true}, Run: func(context.Context, contract.CallStart) (*contract.Result, error) {
				defer close(second)
				return contract.Text("B"), nil
			}},
		}
		b.Run(t, t.Context(), "go")
		wantRequest(t, b, 2, `
		user: go
		call c1: slow {}
		call c2: fast {}
		output c1: A
		output c2: B`)
		for _, e := range b.Events() {
			if end, ok := e.Body.(event.CallEnded); ok && (end.Result == nil || end.Result.ID != string(end.Call)) {
				t.Errorf("the journal does not keep the output of %s", end.Call)
			}
		}
	})
}

func TestAgainAsksOnceMore(t *testing.T) {
	first := turntest.Say(turntest.Text("one"))
	first.Events[len(first.Events)-2] = llm.StepFinish{Reason: llm.FinishStop, Again: true}
	b := turntest.New(first, turntest.Say(turntest.Text("two")))
	if res := b.Run(t, t.Context(), "go"); res.LastMessage != "two" {
		t.Errorf("last message = %q", res.LastMessage)
	}
	wantRequest(t, b, 2, `
		user: go
		assistant: one`)
}

func TestBrokenStreamKeepsWhatWasWhole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ran := 0
		b := turntest.New(
			turntest.Cut(turntest.Text("partial"), turntest.Call("c1", "count", `{}`)),
			turntest.Say(turntest.Text("done")))
		b.Tools = []turntest.Tool{{Descriptor: contract.Descriptor{Name: "count"}, Run: func(context.Context, contract.CallStart) (*contract.Result, error) {
			ran++
			return contract.Text("ran"), nil
		}}}
		b.Run(t, t.Context(), "go")
		if ran != 1 {
			t.Errorf("the call ran %d times", ran)
		}
		if used, _ := b.Meter.Sum(); used.Input != 100 {
			t.Errorf("usage = %+v, want that of the second answer only", used)
		}
		wantRequest(t, b, 2, `
		user: go
		assistant: partial
		call c1: count {}
		output c1: ran`)
		var retries []event.StreamRetried
		for _, e := range b.Events() {
			if r, ok := e.Body.(event.StreamRetried); ok {
				retries = append(retries, r)
			}
		}
		if len(retries) != 1 || retries[0].Attempt != 1 || retries[0].Max != 5 {
			t.Errorf("retries = %+v, want one of 1/5", retries)
		}
	})
}

// Whether a stream broke or never began is not the same to people.
func TestARetryTellsWhetherTheAnswerHadBegun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		busy := turntest.Answer{Err: &llm.Error{Code: llm.ErrOverloaded, Message: "busy", Status: 529, Retryable: true}}
		b := turntest.New(busy, turntest.Cut(), turntest.Say(turntest.Text("done")))
		b.Run(t, t.Context(), "go")
		var begun []bool
		for _, e := range b.Events() {
			if r, ok := e.Body.(event.StreamRetried); ok {
				if len(begun) == 0 && (r.Code != "overloaded" || r.Status != 529) {
					t.Errorf("code %q, status %d, want those of the failure", r.Code, r.Status)
				}
				begun = append(begun, r.Begun)
			}
		}
		if !slices.Equal(begun, []bool{false, true}) {
			t.Errorf("begun = %v, want first not, then yes", begun)
		}
	})
}

// Clients tell a remark from the answer.
func TestARemarkIsACommentary(t *testing.T) {
	b := turntest.New(turntest.Say(turntest.Text("on my way"), turntest.Text("done")).Remarking())
	b.Run(t, t.Context(), "go")
	var got []string
	for _, e := range b.Events() {
		if done, ok := e.Body.(event.ItemCompleted); ok && done.Item.Type == event.ItemAgentMessage {
			got = append(got, done.Item.Text+":"+done.Item.Phase)
		}
	}
	if want := []string{"on my way:commentary", "done:"}; !slices.Equal(got, want) {
		t.Errorf("messages %q, want %q", got, want)
	}
}

func TestRetryBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var answers []turntest.Answer
		for range 7 {
			answers = append(answers, turntest.Cut(turntest.Text("partial")))
		}
		b := turntest.New(answers...)
		began := time.Now()
		res := b.Run(t, t.Context(), "go")
		if res.Status != event.TurnFailed || res.Problem.Code != "incomplete-stream" {
			t.Errorf("result = %+v", res)
		}
		if n := len(b.Requests()); n != 6 {
			t.Fatalf("%d requests, want 6", n)
		}
		wantRequest(t, b, 6, `
		user: go`)
		if got := turntest.Render(b.History.Messages()); got != "user: go\nassistant: partial" {
			t.Errorf("history:\n%s\nwant what people read last, once", got)
		}
		var waited time.Duration
		least, most := []int64{180, 360, 720, 1440, 2880}, []int64{220, 440, 880, 1760, 3520}
		for _, e := range b.Events() {
			if again, ok := e.Body.(event.StreamRetried); ok {
				n := again.Attempt - 1
				if again.DelayMS < least[n] || again.DelayMS > most[n] {
					t.Errorf("before try %d a wait of %d ms, want %d to %d", again.Attempt, again.DelayMS, least[n], most[n])
				}
				waited += time.Duration(again.DelayMS) * time.Millisecond
			}
		}
		if took := time.Since(began); took < waited || took > waited+5*time.Millisecond {
			t.Errorf("waited %v, said %v", took, waited)
		}
	})
}

func TestServerDelayWins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := turntest.New(turntest.Answer{Err: &llm.Error{Code: llm.ErrRateLimit, Retryable: true, RetryAfter: 11054 * time.Millisecond}},
			turntest.Say(turntest.Text("done")))
		began := time.Now()
		b.Run(t, t.Context(), "go")
		if took := time.Since(began); took != 11054*time.Millisecond {
			t.Errorf("waited %v", took)
		}
	})
}

func TestFinalErrorsAreNotRetried(t *testing.T) {
	for _, code := range []llm.ErrorCode{llm.ErrContextOverflow, llm.ErrQuotaExceeded, llm.ErrOverloaded, llm.ErrInvalidRequest, llm.ErrAuthentication} {
		t.Run(code.String(), func(t *testing.T) {
			b := turntest.New(turntest.Answer{Err: &llm.Error{Code: code, Message: "no", Next: "do that"}})
			res := b.Run(t, t.Context(), "go")
			if res.Status != event.TurnFailed || res.Problem.Code != code.String() || res.Problem.Next != "do that" {
				t.Errorf("result = %+v, problem %+v", res, res.Problem)
			}
			if n := len(b.Requests()); n != 1 {
				t.Errorf("%d requests, want 1", n)
			}
		})
	}
}

func TestSilentStreamIsABrokenOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := turntest.New(turntest.Say(turntest.Text("never said")), turntest.Say(turntest.Text("done")))
		b.OnStream = func(n int) {
			if n == 1 {
				time.Sleep(6 * time.Minute) // in the bubble
			}
		}
		if res := b.Run(t, t.Context(), "go"); res.LastMessage != "done" {
			t.Errorf("result = %+v", res)
		}
		wantRequest(t, b, 2, `
		user: go`)
	})
}

func TestSteeringIsTakenAtTheBoundary(t *testing.T) {
	b := turntest.New(turntest.Say(turntest.Call("c1", "steer", `{}`)), turntest.Say(turntest.Text("done")))
	b.Tools = []turntest.Tool{{Descriptor: contract.Descriptor{Name: "steer"}, Run: func(context.Context, contract.CallStart) (*contract.Result, error) {
		for _, s := range []string{"steered", "twice"} {
			if !b.Inbox.Add(turn.Input{Parts: []llm.Part{&llm.Text{Text: s}}}) {
				t.Error("a running turn refused input")
			}
		}
		return contract.Text("ok"), nil
	}}}
	b.Run(t, t.Context(), "go")
	wantRequest(t, b, 2, `
		user: go
		call c1: steer {}
		output c1: ok
		user: steered
		user: twice`)
	if b.Inbox.Add(turn.Input{Parts: []llm.Part{&llm.Text{Text: "late"}}}) {
		t.Error("a turn that has ended took input")
	}
}

func TestInterruptWaitsForTheGracePeriod(t *testing.T) {
	for _, tc := range []struct {
		name       string
		descriptor contract.Descriptor
		after      time.Duration
		want       string
	}{
		{"other tool", contract.Descriptor{Name: "wait"}, time.Minute, "aborted by user after 60.0s"},
		{"other tool, at once", contract.Descriptor{Name: "wait"}, 30 * time.Millisecond, "aborted by user after 0.1s"},
		{"command", contract.Descriptor{Name: "wait", AbortReadsAsCommand: true}, 2040 * time.Millisecond, "Wall time: 2.0 seconds\naborted by user"},
		{"command, at once", contract.Descriptor{Name: "wait", AbortReadsAsCommand: true}, time.Millisecond, "Wall time: 0.1 seconds\naborted by user"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := turntest.New(turntest.Say(turntest.Call("c1", "wait", `{}`)))
				b.Tools = []turntest.Tool{{Descriptor: tc.descriptor, Run: func(ctx context.Context, _ contract.CallStart) (*contract.Result, error) {
					<-ctx.Done()
					return &contract.Result{Aborted: true}, nil
				}}}
				ctx, cancel := context.WithCancelCause(t.Context())
				time.AfterFunc(tc.after, func() {
					b.Inbox.Add(turn.Input{Parts: []llm.Part{&llm.Text{Text: "accepted steer"}}})
					cancel(orchestrate.ErrInterrupted)
				})
				res := b.Run(t, ctx, "go")
				if res.Status != event.TurnInterrupted || !errors.Is(res.Cause, orchestrate.ErrInterrupted) {
					t.Errorf("result = %+v", res)
				}
				got := turntest.Render(b.History.Messages())
				want := "user: go\ncall c1: wait {}\noutput c1: " + tc.want + "\nuser: accepted steer\nuser: <turn_aborted>"
				if !strings.HasPrefix(got, want) {
					t.Errorf("history:\n%s\nwant it to begin:\n%s", got, want)
				}
			})
		})
	}
}

// The result of a call that was done before the interrupt reached it is kept.
func TestResultThatWonTheRaceIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		b := turntest.New(turntest.Say(turntest.Call("c1", "race", `{}`)))
		b.Tools = []turntest.Tool{{Descriptor: contract.Descriptor{Name: "race"}, Run: func(context.Context, contract.CallStart) (*contract.Result, error) {
			cancel(orchestrate.ErrInterrupted)
			return contract.Text("ok"), nil
		}}}
		b.Run(t, ctx, "go")
		if got := turntest.Render(b.History.Messages()); !strings.Contains(got, "output c1: ok\n") {
			t.Errorf("history:\n%s", got)
		}
	})
}

func TestNothingHappensBeforeTheJournalIsDurable(t *testing.T) {
	b := turntest.New(turntest.Say(turntest.Call("c1", "write", `{}`), turntest.Call("c2", "read", `{}`)), turntest.Say(turntest.Text("done")))
	var atCall string
	b.Tools = []turntest.Tool{
		{Descriptor: contract.Descriptor{Name: "write", Effects: []contract.Effect{contract.OtherEffect{Label: "writes"}}},
			Run: func(context.Context, contract.CallStart) (*contract.Result, error) {
				atCall = b.Kinds()
				return contract.Text("ok"), nil
			}},
		{Descriptor: contract.Descriptor{Name: "read", ReadOnly: true}, Run: func(context.Context, contract.CallStart) (*contract.Result, error) {
			return contract.Text("ok"), nil
		}},
	}
	b.Run(t, t.Context(), "go")
	if !strings.HasSuffix(atCall, "item.started\ncall.decided\ncall.started") {
		t.Errorf("events when the call ran:\n%s", atCall)
	}
	if n := len(b.Barriers()); n != 2 {
		t.Errorf("%d barriers, want 2: what the user said, and of the calls only the one that is not read-only", n)
	}
}

func TestUntrustedWithoutAnybodyIsRefused(t *testing.T) {
	b := turntest.New(turntest.Say(turntest.Call("c1", "echo", `{}`)), turntest.Say(turntest.Text("done")))
	b.Approval = "untrusted"
	b.Tools = []turntest.Tool{echo("echo")}
	b.Run(t, t.Context(), "go")
	if got := b.Requests()[1]; !strings.Contains(got, "output c1: rejected: there is nobody to ask") {
		t.Errorf("request 2:\n%s", got)
	}
}

func TestSamplingLimit(t *testing.T) {
	b := turntest.New(turntest.Say(turntest.Call("c1", "echo", `{}`)), turntest.Say(turntest.Call("c2", "echo", `{}`)))
	b.Limits.Samplings = 2
	b.Tools = []turntest.Tool{echo("echo")}
	if res := b.Run(t, t.Context(), "go"); res.Status != event.TurnFailed || res.Problem.Code != "turn-limit" {
		t.Errorf("result = %+v", res)
	}
}

// A call is expected as soon as the model has named its tool, before its arguments are there.
func TestCallsAreExpected(t *testing.T) {
	var b *turntest.Bench
	var got []string
	b = turntest.New(
		turntest.Answer{Events: []llm.Event{
			llm.StepStart{}, llm.BlockStart{Kind: llm.BlockText, ID: "t"}, llm.BlockEnd{Kind: llm.BlockText, ID: "t"},
			llm.BlockStart{Kind: llm.BlockToolInput, ID: "s", Name: "search", ProviderExecuted: true}, llm.BlockEnd{Kind: llm.BlockToolInput, ID: "s"},
			llm.BlockStart{Kind: llm.BlockToolInput, ID: "c1", Name: "echo", Namespace: "n"},
			llm.ToolInputError{ID: "c1", Name: "echo", Namespace: "n", Raw: "{", Message: "no JSON"},
			llm.StepFinish{Reason: llm.FinishToolCalls}, llm.Finish{Reason: llm.FinishToolCalls},
		}},
		turntest.Say(turntest.Text("done")))
	b.Tools = []turntest.Tool{echo("echo")}
	b.OnToolAnnounced = func(tools *registry.Snapshot, namespace, name string) {
		if _, ok := tools.Lookup("", "echo"); !ok {
			t.Error("the tools are others")
		}
		got = append(got, namespace+"."+name)
	}
	asked := 0
	b.Asking = func(tools *registry.Snapshot) {
		if _, ok := tools.Lookup("", "echo"); !ok {
			t.Error("the tools are others")
		}
		if asked++; asked != len(got)+1 {
			t.Errorf("asked for the %dth time after %q", asked, got)
		}
	}
	b.Run(t, t.Context(), "go")
	if asked != 2 {
		t.Errorf("asked %d times", asked)
	}
	if !slices.Equal(got, []string{"n.echo"}) {
		t.Errorf("expected %q", got)
	}
}

// What answers a call that never reached a tool is cut like the output of one.
func TestLongAnswerToABrokenCallIsCut(t *testing.T) {
	b := turntest.New(
		turntest.Answer{Events: []llm.Event{
			llm.StepStart{}, llm.BlockStart{Kind: llm.BlockToolInput, ID: "c1", Name: "echo"},
			llm.ToolInputError{ID: "c1", Name: "echo", Raw: "{", Message: strings.Repeat("x", 1000)},
			llm.StepFinish{Reason: llm.FinishToolCalls}, llm.Finish{Reason: llm.FinishToolCalls},
		}},
		turntest.Say(turntest.Text("done")))
	b.Row.TruncationLimit = 50
	b.Run(t, t.Context(), "go")
	if got := b.Requests()[1]; !strings.Contains(got, "…199 tokens truncated…") {
		t.Errorf("request 2 = %s", got)
	}
}
