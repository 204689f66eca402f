package orchestrate_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gantry-agent/gantry/config/hosts"
	"github.com/gantry-agent/gantry/host/internal/approval"
	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/history"
	"github.com/gantry-agent/gantry/host/internal/launch"
	"github.com/gantry-agent/gantry/host/internal/orchestrate"
	"github.com/gantry-agent/gantry/host/internal/plugin"
	"github.com/gantry-agent/gantry/host/internal/policy"
	"github.com/gantry-agent/gantry/host/internal/registry"
	"github.com/gantry-agent/gantry/host/internal/tool"
	"github.com/gantry-agent/gantry/sdk/contract"
	"github.com/gantry-agent/gantry/sdk/llm"
	"github.com/hashicorp/go-hclog"
)

// family is a backend whose calls are a function of the live call of their token.
type family struct {
	*bench
	tokens  *orchestrate.Tokens
	decide  func(policy.Request) policy.Decision // nil: what has effects is asked about
	effects []contract.Effect                    // of the outer call
	nesting contract.Nesting                     // of the inner tool
	// Effects of the inner tool.
	innerEffects []contract.Effect
	tool         *policy.Tool // settings; nil: none
	sandbox      string       // mode; default: workspace-write
	do           func(ctx context.Context, l *orchestrate.Live, s contract.CallStart, ctl tool.Control) (*contract.Result, error)
}

func (f *family) Call(ctx context.Context, s contract.CallStart, ctl tool.Control, _ func(contract.CallEvent)) (*contract.Result, error) {
	f.step("begin %s", s.Tool)
	defer f.step("end %s", s.Tool)
	l, ok := f.tokens.Lookup("p", s.CallToken)
	if !ok {
		return nil, errors.New("the token is dead")
	}
	return f.do(ctx, l, s, ctl)
}

// dispatch runs a call of "outer" in a plugin that also has a tool "inner".
func (f *family) dispatch(t *testing.T, ctx context.Context) orchestrate.Answer {
	t.Helper()
	f.tokens = orchestrate.NewTokens()
	reg := registry.New()
	schema := json.RawMessage(`{"type":"object"}`)
	if problems := reg.Set("p", contract.ToolSet{Tools: []contract.Descriptor{
		{Name: "outer", InputSchema: schema, Effects: f.effects}, {Name: "inner", InputSchema: schema, Nesting: f.nesting, Effects: f.innerEffects},
		{Name: "thinker", InputSchema: schema, Assess: true},
	}}); len(problems) > 0 {
		t.Fatal(problems)
	}
	pipeline := orchestrate.New(orchestrate.Deps{
		Hooks: f, Policy: func(r policy.Request) policy.Decision {
			if f.decide != nil {
				return f.decide(r)
			}
			if len(r.Effects) > 0 {
				return policy.Decision{Verdict: policy.Ask}
			}
			return policy.Decision{Verdict: policy.Run}
		},
		Approver: f, Granter: f, Journal: f, Retry: orchestrate.NoRetry, Processes: f, Files: f.files,
		Backends: func(string) (orchestrate.ToolBackend, bool) { return f, true },
		Tool:     func(*registry.Entry) *policy.Tool { return f.tool },
	}, f.tokens, hclog.NewNullLogger())
	var gate orchestrate.Gate
	return pipeline.Dispatch(ctx, &gate, orchestrate.Call{
		Settings: orchestrate.Settings{Thread: "t", Turn: "u", Sandbox: cmp.Or(f.sandbox, "workspace-write"), Approval: f.approval, Tools: reg.Snapshot(), Output: history.Policy{Limit: 100}}, Revision: "r1",
		Model: &llm.ToolCall{ID: "c1", Name: "outer", Input: "{}"}, ID: "c1",
	}).Wait()
}

func (b *bench) index(step string) int { return slices.Index(b.steps, step) }

// When a call ends, calls nested in it end first.
func TestNestedCallEndsWithItsParent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &family{bench: &bench{}}
		nested := make(chan *contract.Result, 1)
		var outer *orchestrate.Live
		f.do = func(_ context.Context, l *orchestrate.Live, s contract.CallStart, ctl tool.Control) (*contract.Result, error) {
			if s.Tool == "inner" {
				<-ctl.Soft.Done()
				return nil, tool.ErrGrace
			}
			outer = l
			ctx, done, err := l.Join(context.WithoutCancel(t.Context()))
			if err != nil {
				return nil, err
			}
			go func() { // owned by the call: Join makes it wait
				defer done()
				r, err := l.CallTool(ctx, "", "inner", contract.Input{Arguments: json.RawMessage("{}")})
				if err != nil {
					t.Error(err)
				}
				nested <- r
			}()
			synctest.Wait()
			return contract.Text("done"), nil
		}
		a := f.dispatch(t, t.Context())
		if text(a) != "done" || a.Outcome != event.OutcomeOK {
			t.Errorf("answer = %+v %q", a, text(a))
		}
		select {
		case r := <-nested:
			if !r.Aborted || !r.IsError {
				t.Errorf("nested result = %+v", r)
			}
		default:
			t.Fatal("the parent ended before the call that was made in its name")
		}
		if f.index("end inner") > f.index("post-hook") {
			t.Errorf("steps:\n%s", strings.Join(f.steps, "\n"))
		}
		if _, _, err := outer.Join(t.Context()); !errors.Is(err, orchestrate.ErrEnded) {
			t.Errorf("joined a call that has ended: %v", err)
		}
	})
}

// While the user is asked about a nested call, or about an effect of it, the deadlines of its parent calls are suspended.
func TestQuestionsSuspendTheDeadlinesOfParents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &family{bench: &bench{}}
		f.answer.Choice = approval.Approve
		f.do = func(ctx context.Context, l *orchestrate.Live, s contract.CallStart, ctl tool.Control) (*contract.Result, error) {
			over, stopped := make(chan struct{}), make(chan struct{})
			go func() { // owned by the call: ends when over closes, which is waited for
				defer close(stopped)
				for {
					select {
					case w := <-ctl.Waits:
						f.step("%s waits %v", s.Tool, w)
					case <-over:
						return
					}
				}
			}()
			defer func() { close(over); <-stopped }()
			if s.Tool == "inner" {
				_, denial, err := l.Authorize(ctx, []contract.Effect{contract.NetworkEffect{Host: "example.com"}}, "to look", nil)
				return contract.Text("inner: " + denial), err
			}
			return l.CallTool(ctx, "", "inner", contract.Input{Arguments: json.RawMessage("{}")})
		}
		if a := f.dispatch(t, t.Context()); text(a) != "inner: " {
			t.Errorf("answer = %q", text(a))
		}
		for _, want := range []string{"inner waits true", "inner waits false", "outer waits true", "outer waits false"} {
			if strings.Count(strings.Join(f.steps, "\n"), want) != 1 {
				t.Errorf("%q is not there once:\n%s", want, strings.Join(f.steps, "\n"))
			}
		}
	})
}

// Hooks and whoever is asked about a nested call, or about an effect of it, learn which tools it comes from.
func TestNestedCallsHaveAChain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &family{bench: &bench{}, innerEffects: []contract.Effect{contract.NetworkEffect{Host: "first.test"}}}
		f.answer.Choice = approval.Approve
		var asked [][]string
		f.do = func(ctx context.Context, l *orchestrate.Live, s contract.CallStart, ctl tool.Control) (*contract.Result, error) {
			over, stopped := make(chan struct{}), make(chan struct{})
			go func() { // owned by the call: ends when over closes, which is waited for
				defer close(stopped)
				for {
					select {
					case <-ctl.Waits:
					case <-over:
						return
					}
				}
			}()
			defer func() { close(over); <-stopped }()
			asked = append(asked, f.asked.Chain)
			_, _, err := l.Authorize(ctx, []contract.Effect{contract.NetworkEffect{Host: "example.com"}}, "to look", nil)
			asked = append(asked, f.asked.Chain)
			if err != nil || s.Tool == "inner" {
				return contract.Text("inner"), err
			}
			return l.CallTool(ctx, "", "inner", contract.Input{Arguments: json.RawMessage("{}")})
		}
		if a := f.dispatch(t, t.Context()); text(a) != "inner" {
			t.Errorf("answer = %q", text(a))
		}
		var hooks [][]string
		for _, r := range f.requested {
			hooks = append(hooks, r.Chain)
		}
		if got, want := fmt.Sprint(asked, hooks), "[[] [] [outer inner] [outer inner]] [[] [outer inner] [outer inner]]"; got != want {
			t.Errorf("chains of questions and hooks are %s, want %s", got, want)
		}
	})
}

func TestNestedCallIsInterruptedWithItsTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &family{bench: &bench{}}
		ctx, stop := context.WithCancelCause(t.Context())
		f.do = func(ctx context.Context, l *orchestrate.Live, s contract.CallStart, ctl tool.Control) (*contract.Result, error) {
			if s.Tool == "inner" {
				time.AfterFunc(time.Second, func() { stop(orchestrate.ErrInterrupted) })
				<-ctl.Soft.Done()
				return &contract.Result{Aborted: true}, nil
			}
			joined, done, err := l.Join(ctx)
			if err != nil {
				return nil, err
			}
			defer done()
			return l.CallTool(joined, "", "inner", contract.Input{Arguments: json.RawMessage("{}")})
		}
		if a := f.dispatch(t, ctx); a.Outcome != event.OutcomeAborted || text(a) != "aborted by user after 1.0s" {
			t.Errorf("answer = %s %q", a.Outcome, text(a))
		}
	})
}

func TestDepthOfNestedCallsIsBounded(t *testing.T) {
	f := &family{bench: &bench{}}
	depth := 0
	f.do = func(ctx context.Context, l *orchestrate.Live, _ contract.CallStart, _ tool.Control) (*contract.Result, error) {
		depth++
		return l.CallTool(ctx, "", "inner", contract.Input{Arguments: json.RawMessage("{}")})
	}
	if a := f.dispatch(t, t.Context()); depth != 5 || !strings.Contains(text(a), "nested deeper than 4") {
		t.Errorf("depth %d: %q", depth, text(a))
	}
}

// A call fails if its plugin does not answer the assessment.
func TestAssessmentTimesOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &bench{}
		f := &hangs{b}
		reg := registry.New()
		reg.Set("p", contract.ToolSet{Tools: []contract.Descriptor{assessed}})
		pipeline := orchestrate.New(orchestrate.Deps{
			Hooks: b, Policy: func(policy.Request) policy.Decision { return b.policy }, Approver: b, Granter: b, Journal: b,
			Retry: orchestrate.NoRetry, Backends: func(string) (orchestrate.ToolBackend, bool) { return f, true }, Processes: b,
		}, orchestrate.NewTokens(), hclog.NewNullLogger())
		var gate orchestrate.Gate
		a := pipeline.Dispatch(t.Context(), &gate, orchestrate.Call{
			Settings: orchestrate.Settings{Tools: reg.Snapshot(), Output: history.Policy{Limit: 100}},
			Model:    &llm.ToolCall{ID: "c", Name: "act", Input: "{}"}, ID: "c",
		}).Wait()
		if a.Outcome != event.OutcomeError || !strings.Contains(text(a), "was not started") || slices.Contains(b.steps, "call.started") {
			t.Errorf("answer = %s %q", a.Outcome, text(a))
		}
	})
}

type hangs struct{ *bench }

func (hangs) Assess(ctx context.Context, _ contract.AssessRequest) (*contract.Assessment, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// "Abort" ends the turn even if the question was about a second attempt; there is no third.
func TestSecondAttempt(t *testing.T) {
	wider := func(policy.Request, *contract.Result) (*contract.Escalation, bool) {
		return &contract.Escalation{Unsandboxed: true}, true
	}
	denied := func(contract.CallStart) (*contract.Result, error) {
		return &contract.Result{SandboxDenied: true, IsError: true, Parts: []contract.Part{&contract.TextPart{Text: "denied"}}}, nil
	}
	b := &bench{retry: wider, call: denied, answer: approval.Answer{Choice: approval.Abort}}
	if a := b.run(t, assessed, `{}`); !a.Abort || text(a) != "denied" || slices.Contains(b.steps, "grant 2") {
		t.Errorf("aborted: %+v %q", a, text(a))
	}
	b = &bench{retry: wider, call: denied, answer: approval.Answer{Choice: approval.Approve}}
	if a := b.run(t, assessed, `{}`); text(a) != "denied" || slices.Contains(b.steps, "grant 3") || !slices.Contains(b.steps, "grant 2") {
		t.Errorf("denied twice: %q\n%s", text(a), strings.Join(b.steps, "\n"))
	}
}

// Notes of the host are appended to the plugin's result; after the call they are refused.
func TestNotesOfTheHost(t *testing.T) {
	t.Parallel()
	f := &family{bench: &bench{}}
	var own launch.Owner
	f.do = func(_ context.Context, l *orchestrate.Live, s contract.CallStart, _ tool.Control) (*contract.Result, error) {
		own = launch.Owner{Plugin: "p", Thread: s.ThreadID, Call: s.CallID}
		other := own
		other.Call = "another"
		if !f.tokens.Note(own, "it was ended") || f.tokens.Note(other, "no") || f.tokens.Note(launch.Owner{Plugin: "q", Thread: own.Thread, Call: own.Call}, "no") {
			t.Error("a note went astray")
		}
		return contract.Text("output"), nil
	}
	a := f.dispatch(t, t.Context())
	if got := text(a); got != "output\nit was ended" {
		t.Errorf("the model reads %q", got)
	}
	if f.tokens.Note(own, "late") {
		t.Error("a call that is over took a note")
	}
}

// Whatever a plugin sends, it must fit the log and the request.
func TestForeignContent(t *testing.T) {
	many := make([]contract.Part, 0, 2000)
	for range 2000 {
		many = append(many, &contract.TextPart{Text: strings.Repeat("x", 50)}, &contract.TextPart{Text: "header\n", Fit: contract.FitVerbatim},
			&contract.ArtifactPart{Artifact: contract.ArtifactRef{SHA256: "00", MediaType: "text/plain"}})
	}
	for _, tc := range []struct {
		name   string
		result contract.Result
		want   string // of the model's text, its beginning
		most   int    // bytes of it
	}{
		{"nothing", contract.Result{}, "", 0},
		{"nil item, empty part", contract.Result{Parts: []contract.Part{&contract.TextPart{}}}, "", 0},
		{"arguments of an item that are no JSON", contract.Result{
			Item: &contract.MCPCallItem{Server: "s", Tool: "t", Arguments: json.RawMessage("{nope")}, Parts: []contract.Part{&contract.TextPart{Text: "ok"}},
		}, "ok", 2},
		{"JSON with white space", contract.Result{Parts: []contract.Part{&contract.JSONPart{JSON: json.RawMessage("{ \"a\" : 1 }")}}}, `{"a":1}`, 7},
		{"JSON that is none", contract.Result{Parts: []contract.Part{&contract.JSONPart{JSON: json.RawMessage("\xff{")}}}, "\xff{", 2},
		{"thousands of parts", contract.Result{Parts: many}, "x", 400*12/10 + 4096 + 200},
		{"huge diff", contract.Result{Item: &contract.FileChangeItem{Changes: []contract.FileChange{
			{Path: "/a", Diff: strings.Repeat("+", 3<<20)}, {Path: "/b", Diff: strings.Repeat("+", 3<<20)}}}}, "", 0},
		{"huge title", contract.Result{Item: &contract.OtherItem{Title: strings.Repeat("t", 3<<20)}}, "", 0},
		{"for people only", contract.Result{Parts: []contract.Part{&contract.TextPart{Text: "psst", Audience: contract.AudienceUser}}}, "", 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := &bench{call: func(contract.CallStart) (*contract.Result, error) { return &tc.result, nil }}
			a := b.run(t, assessed, `{}`)
			if got := text(a); !strings.HasPrefix(got, tc.want) || len(got) > tc.most {
				t.Errorf("%d bytes for the model, want at most %d that begin with %q:\n%.200s", len(got), tc.most, tc.want, got)
			}
			for _, body := range b.bodies {
				data, err := json.Marshal(event.Event{Body: body})
				if err != nil {
					t.Errorf("%s can't be stored: %v", body.Kind(), err)
				}
				if len(data) > 3<<20/2 {
					t.Errorf("%s has %d bytes", body.Kind(), len(data))
				}
			}
		})
	}
	media := &bench{call: func(contract.CallStart) (*contract.Result, error) {
		r := &contract.Result{}
		for range 150 {
			r.Parts = append(r.Parts, &contract.MediaPart{MediaType: "image/png", Data: []byte("png")})
		}
		return r, nil
	}}
	if a := media.run(t, assessed, `{}`); len(a.Result.Content) != 101 || text(a) != "[omitted 50 items ...]" {
		t.Errorf("%d parts of 150 images, %q", len(a.Result.Content), text(a))
	}
}

// A caller that uses the structured result does not see text, so notes of the host go to the parent call, up to the one that the model
// made. So they do if there is no result.
func TestNotesWithAStructuredResult(t *testing.T) {
	t.Parallel()
	for name, inner := range map[string]func() (*contract.Result, error){
		"a structure": func() (*contract.Result, error) {
			return &contract.Result{Structured: json.RawMessage(`{"exit_code":137}`), Parts: []contract.Part{&contract.TextPart{Text: "exit 137"}}}, nil
		},
		"a crash": func() (*contract.Result, error) { return nil, &plugin.Error{Plugin: "p", Crash: true} },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := &family{bench: &bench{}}
			f.do = func(ctx context.Context, l *orchestrate.Live, s contract.CallStart, _ tool.Control) (*contract.Result, error) {
				if len(s.Parents) < 2 {
					r, err := l.CallTool(ctx, "", "inner", contract.Input{Arguments: json.RawMessage("{}")})
					if err != nil {
						return nil, err
					}
					return &contract.Result{Structured: json.RawMessage(`[1]`), Parts: []contract.Part{&contract.TextPart{Text: "sum: " + string(r.Structured)}}}, nil
				}
				if !f.tokens.Note(launch.Owner{Plugin: "p", Thread: s.ThreadID, Call: s.CallID}, "it reached a limit") {
					t.Error("the note was not taken")
				}
				return inner()
			}
			if got := text(f.dispatch(t, t.Context())); strings.Count(got, "it reached a limit") != 1 || !strings.HasPrefix(got, "sum: ") {
				t.Errorf("the model reads %q", got)
			}
		})
	}
	f := &family{bench: &bench{}, do: func(_ context.Context, _ *orchestrate.Live, _ contract.CallStart, _ tool.Control) (*contract.Result, error) {
		return nil, nil
	}}
	f.do = func(_ context.Context, _ *orchestrate.Live, s contract.CallStart, _ tool.Control) (*contract.Result, error) {
		f.tokens.Note(launch.Owner{Plugin: "p", Thread: s.ThreadID, Call: s.CallID}, "it reached a limit")
		return nil, &plugin.Error{Plugin: "p", Crash: true}
	}
	if a := f.dispatch(t, t.Context()); !slices.Contains(a.Context, "it reached a limit") {
		t.Errorf("of a call that broke the model reads %q and %q", text(a), a.Context)
	}
}

// A call says how much of its result is read, and whether earlier results are still there: for a nested one, in the call that made it.
func TestWhatIsReadOfResults(t *testing.T) {
	f := &family{bench: &bench{}}
	var got []string
	f.do = func(ctx context.Context, l *orchestrate.Live, s contract.CallStart, _ tool.Control) (*contract.Result, error) {
		got = append(got, s.HistoryRevision)
		if s.Caps.MaxModelTokens != 100 {
			t.Errorf("the budget of %s is %d tokens", s.Tool, s.Caps.MaxModelTokens)
		}
		if s.Tool == "inner" {
			return contract.Text("done"), nil
		}
		for range 2 {
			if _, err := l.CallTool(ctx, "", "inner", contract.Input{Arguments: json.RawMessage("{}")}); err != nil {
				return nil, err
			}
		}
		return contract.Text("done"), nil
	}
	f.dispatch(t, t.Context())
	if want := []string{"r1", "r1/c1", "r1/c1"}; !slices.Equal(got, want) {
		t.Errorf("the revisions are %q, want %q", got, want)
	}
}

// A tool is refused to callers that its descriptor excludes, with an error that says who may call it; its plugin is not called.
func TestNestingDecidesWhoCalls(t *testing.T) {
	f := &family{bench: &bench{}, nesting: contract.NestingNever}
	f.do = func(ctx context.Context, l *orchestrate.Live, s contract.CallStart, _ tool.Control) (*contract.Result, error) {
		return l.CallTool(ctx, "", "inner", contract.Input{Arguments: json.RawMessage("{}")})
	}
	if a := f.dispatch(t, t.Context()); f.index("begin inner") >= 0 || !strings.Contains(text(a), "inner can only be called by the model itself") {
		t.Errorf("code called a tool for the model: %q", text(a))
	}
	d := assessed
	d.Nesting = contract.NestingOnly
	b := &bench{}
	if a := b.run(t, d, `{}`); a.Outcome != event.OutcomeError || !strings.Contains(text(a), "act can only be called by code") || b.index("assess") >= 0 {
		t.Errorf("the model called a tool for code: %s %q", a.Outcome, text(a))
	}
	f = &family{bench: &bench{}, nesting: contract.NestingOnly}
	f.do = func(ctx context.Context, l *orchestrate.Live, s contract.CallStart, _ tool.Control) (*contract.Result, error) {
		if s.Tool == "inner" {
			return contract.Text("filtered"), nil
		}
		return l.CallTool(ctx, "", "inner", contract.Input{Arguments: json.RawMessage("{}")})
	}
	if a := f.dispatch(t, t.Context()); text(a) != "filtered" {
		t.Errorf("code may not call a tool for code: %q", text(a))
	}
}

// hearWaits receives what a call is told about questions, until stop is called.
func hearWaits(ctl tool.Control) (stop func()) {
	over, stopped := make(chan struct{}), make(chan struct{})
	go func() { // owned by the caller: stop waits for it
		defer close(stopped)
		for {
			select {
			case <-ctl.Waits:
			case <-over:
				return
			}
		}
	}()
	return func() { close(over); <-stopped }
}

// "Abort" at a question about a nested call, a late effect or a connection ends the calls around it and the turn.
func TestAbortInANestedCallEndsTheTurn(t *testing.T) {
	effect := []contract.Effect{contract.NetworkEffect{Host: "example.com"}}
	late := func(ctx context.Context, l *orchestrate.Live) error {
		_, _, err := l.Authorize(ctx, effect, "to look", nil)
		return err
	}
	connects := func(ctx context.Context, l *orchestrate.Live) error {
		l.Connect(ctx, "https", "example.com", 443, "")
		return nil
	}
	for _, tc := range []struct {
		name  string
		depth int
		ask   func(context.Context, *orchestrate.Live) error
	}{
		{"late effect", 0, late}, {"nested late effect", 1, late}, {"late effect two calls down", 2, late},
		{"connection", 0, connects}, {"nested connection", 1, connects},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := &family{bench: &bench{}}
				f.answer.Choice = approval.Abort
				f.do = func(ctx context.Context, l *orchestrate.Live, s contract.CallStart, ctl tool.Control) (*contract.Result, error) {
					defer hearWaits(ctl)()
					joined, done, err := l.Join(ctx)
					if err != nil {
						return nil, err
					}
					defer done()
					if len(s.Parents) == tc.depth {
						err = tc.ask(joined, l)
					} else {
						_, err = l.CallTool(joined, "", "inner", contract.Input{Arguments: json.RawMessage("{}")})
					}
					f.step("%d goes on: %v", len(s.Parents), err)
					select {
					case <-ctl.Soft.Done(): // asked to stop
						return &contract.Result{Aborted: true}, nil
					case <-time.After(time.Hour):
						return contract.Text("ignored it"), nil
					}
				}
				if a := f.dispatch(t, t.Context()); !a.Abort || a.Outcome != event.OutcomeAborted {
					t.Errorf("abort %v, %s %q\n%s", a.Abort, a.Outcome, text(a), strings.Join(f.steps, "\n"))
				}
			})
		})
	}
	// Code that has its result before it is asked to stop keeps it; the turn ends nevertheless.
	f := &family{bench: &bench{}, innerEffects: effect}
	f.answer.Choice = approval.Abort
	f.do = func(ctx context.Context, l *orchestrate.Live, _ contract.CallStart, ctl tool.Control) (*contract.Result, error) {
		defer hearWaits(ctl)()
		r, err := l.CallTool(ctx, "", "inner", contract.Input{Arguments: json.RawMessage("{}")})
		if err != nil || !r.IsError {
			t.Errorf("nested result = %+v, %v", r, err)
		}
		return contract.Text("caught it"), nil
	}
	if a := f.dispatch(t, t.Context()); !a.Abort || text(a) != "caught it" || f.index("begin inner") >= 0 {
		t.Errorf("abort %v, %q\n%s", a.Abort, text(a), strings.Join(f.steps, "\n"))
	}
}

// A host that a plugin's process may not reach is beyond the sandbox, also for a plugin that comes with gantry.
func TestAuthorizeAsksAboutHostsBeyondTheBlock(t *testing.T) {
	known, err := hosts.ParsePattern("known.test")
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name, sandbox, host, answer string
		approval                    policy.Approval
		scope, denial               string
		asked                       bool
	}{
		{name: "known", host: "known.test", approval: policy.OnRequest, scope: "once"},
		{name: "once", host: "a.test", answer: approval.Approve, approval: policy.OnRequest, scope: "once", asked: true},
		{name: "turn", host: "a.test", answer: approval.ApproveTurn, approval: policy.OnRequest, scope: "turn", asked: true},
		{name: "session", host: "a.test", answer: approval.ApproveSession, approval: policy.OnRequest, scope: "session", asked: true},
		{name: "denied", host: "a.test", answer: approval.Deny, approval: policy.OnRequest, denial: "rejected by user", asked: true},
		{name: "never", host: "a.test", approval: policy.Never, denial: "approval policy is never"},
		{name: "full access", sandbox: policy.FullAccess, host: "a.test", approval: policy.Never, scope: "once"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := &family{
					bench: &bench{answer: approval.Answer{Choice: tc.answer}, approval: tc.approval}, decide: policy.Decide, sandbox: tc.sandbox,
					tool: &policy.Tool{Plugin: "p", Mode: policy.Auto, BuiltIn: true, ByHost: true, Hosts: []hosts.Pattern{known}, Online: tc.sandbox == policy.FullAccess},
				}
				f.do = func(ctx context.Context, l *orchestrate.Live, _ contract.CallStart, ctl tool.Control) (*contract.Result, error) {
					defer hearWaits(ctl)()
					scope, denial, err := l.Authorize(ctx, []contract.Effect{contract.NetworkEffect{Host: tc.host, Port: 443}}, "to log in", nil)
					if err != nil || scope != tc.scope || !strings.Contains(denial, tc.denial) || (denial == "") != (tc.denial == "") {
						t.Errorf("scope %q, denial %q, %v", scope, denial, err)
					}
					return contract.Text("done"), nil
				}
				if a := f.dispatch(t, t.Context()); text(a) != "done" {
					t.Errorf("answer = %q", text(a))
				}
				if asked := len(f.asked.Options) > 0; asked != tc.asked {
					t.Errorf("asked: %+v", f.asked)
				}
			})
		})
	}
}
