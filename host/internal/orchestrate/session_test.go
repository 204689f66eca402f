package orchestrate_test

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/history"
	"github.com/gantry-agent/gantry/host/internal/orchestrate"
	"github.com/gantry-agent/gantry/host/internal/policy"
	"github.com/gantry-agent/gantry/host/internal/registry"
	"github.com/gantry-agent/gantry/host/internal/tool"
	"github.com/gantry-agent/gantry/sdk/contract"
	"github.com/gantry-agent/gantry/sdk/llm"
	"github.com/hashicorp/go-hclog"
)

// typist is a plugin whose calls type into sessions, or only read from one if there is no text. The assessment of a call takes as long as
// the call says, and the call a second.
type typist struct {
	*bench
	began   time.Time
	control func(ctx context.Context, plugin, session string) (bool, error) // nil: nobody has control
	decided *[]string                                                       // the lines that the policy has decided on; nil: not recorded
}

type keys struct {
	Session, Text string
	Think         int // seconds
}

func (p typist) Assess(ctx context.Context, r contract.AssessRequest) (*contract.Assessment, error) {
	var k keys
	if err := json.Unmarshal(r.Input.Arguments, &k); err != nil {
		return nil, err
	}
	select {
	case <-time.After(time.Duration(k.Think) * time.Second):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	a := &contract.Assessment{ReadOnly: k.Text == ""}
	if k.Session != "" {
		a.Item = &contract.CommandItem{SessionID: k.Session}
	}
	if k.Text != "" {
		a.Effects = []contract.Effect{contract.SessionInputEffect{SessionID: k.Session, Text: k.Text}}
	}
	return a, nil
}

func (p typist) Call(_ context.Context, s contract.CallStart, ctl tool.Control, _ func(contract.CallEvent)) (*contract.Result, error) {
	p.step("%v %s begins", time.Since(p.began), s.CallID)
	select {
	case <-time.After(time.Second):
	case <-ctl.Soft.Done():
		return &contract.Result{Aborted: true}, nil
	}
	p.step("%v %s ends", time.Since(p.began), s.CallID)
	return contract.Text("ok"), nil
}

// typing dispatches calls of one answer, by their arguments.
func (p typist) typing(t *testing.T, ctx context.Context, calls ...string) (wait func() []event.Outcome) {
	t.Helper()
	return p.typingWith(t, ctx, orchestrate.NewTokens(), calls...)
}

func (p typist) typingWith(t *testing.T, ctx context.Context, tokens *orchestrate.Tokens, calls ...string) (wait func() []event.Outcome) {
	t.Helper()
	reg := registry.New()
	d := contract.Descriptor{Name: "type", Assess: true, ParallelSafe: true, InputSchema: json.RawMessage(`{"type":"object"}`)}
	if problems := reg.Set("p", contract.ToolSet{Tools: []contract.Descriptor{d}}); len(problems) > 0 {
		t.Fatal(problems)
	}
	pipeline := orchestrate.New(orchestrate.Deps{
		Hooks: p, Policy: func(r policy.Request) policy.Decision {
			if p.decided != nil {
				*p.decided = append(*p.decided, r.Typed.All)
			}
			return policy.Decision{Verdict: policy.Run}
		}, Approver: p, Granter: p,
		Journal: p, Retry: orchestrate.NoRetry, Processes: p, Control: p.control,
		Backends: func(string) (orchestrate.ToolBackend, bool) { return p, true },
	}, tokens, hclog.NewNullLogger())
	var gate orchestrate.Gate
	var futures []*orchestrate.Future
	for i, args := range calls {
		id := fmt.Sprint("c", i+1)
		futures = append(futures, pipeline.Dispatch(ctx, &gate, orchestrate.Call{
			Settings: orchestrate.Settings{Thread: "t", Turn: "u", Tools: reg.Snapshot(), Output: history.Policy{Limit: 100}},
			Model:    &llm.ToolCall{ID: id, Name: "type", Input: args}, ID: event.CallID(id),
		}))
	}
	return func() []event.Outcome {
		var out []event.Outcome
		for _, f := range futures {
			out = append(out, f.Wait().Outcome)
		}
		return out
	}
}

// ran lists when the calls began and ended.
func (b *bench) ran() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	var out []string
	for _, s := range b.steps {
		if strings.HasSuffix(s, " begins") || strings.HasSuffix(s, " ends") {
			out = append(out, s)
		}
	}
	return strings.Join(out, "\n")
}

// Calls of one answer type into a session in their order, however long their assessments take. A call of another session, or of none,
// waits only until the calls before it have begun or wait for a session.
func TestCallsOfOneSessionKeepTheirOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := typist{bench: &bench{}, began: time.Now()}
		p.typing(t, t.Context(),
			`{"session":"7","text":"first","think":3}`,
			`{"session":"7","text":"second"}`,
			`{"session":"8","text":"elsewhere"}`,
			`{"think":1}`,
			`{"session":"7"}`,
		)()
		want := `3s c1 begins
3s c3 begins
3s c4 begins
4s c1 ends
4s c3 ends
4s c4 ends
4s c2 begins
5s c2 ends
5s c5 begins
6s c5 ends`
		if got := sorted(p.ran()); got != sorted(want) {
			t.Errorf("calls:\n%s\nwant:\n%s", got, sorted(want))
		}
	})
}

// Concurrent calls begin in their order, however long their assessments take.
func TestConcurrentCallsBeginInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := typist{bench: &bench{}, began: time.Now()}
		p.typing(t, t.Context(), `{"think":3}`, `{"think":1}`, `{}`, `{"think":2}`)()
		var shown []string
		for _, b := range p.bodies {
			if s, ok := b.(event.ItemStarted); ok {
				shown = append(shown, string(s.Item.Call))
			}
		}
		if want := []string{"c1", "c2", "c3", "c4"}; !slices.Equal(shown, want) {
			t.Errorf("shown %q, want %q", shown, want)
		}
	})
}

// sorted sorts what happened at the same time, as only the times matter.
func sorted(s string) string {
	at := func(line string) time.Duration {
		moment, _, _ := strings.Cut(line, " ")
		d, _ := time.ParseDuration(moment)
		return d
	}
	lines := strings.Split(s, "\n")
	slices.SortFunc(lines, func(a, b string) int { return cmp.Or(cmp.Compare(at(a), at(b)), strings.Compare(a, b)) })
	return strings.Join(lines, "\n")
}

// An interrupt ends calls that wait for their session.
func TestInterruptEndsWaitingForASession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := typist{bench: &bench{}, began: time.Now()}
		ctx, cancel := context.WithCancelCause(t.Context())
		wait := p.typing(t, ctx, `{"session":"7","text":"first"}`, `{"session":"7","text":"second"}`)
		time.AfterFunc(500*time.Millisecond, func() { cancel(orchestrate.ErrInterrupted) })
		for i, o := range wait() {
			if o != event.OutcomeAborted {
				t.Errorf("call %d: %s", i+1, o)
			}
		}
		if got := p.ran(); got != "0s c1 begins" {
			t.Errorf("calls:\n%s", got)
		}
	})
}

// The item of code has its language and source.
func TestItemOfCode(t *testing.T) {
	b := &bench{
		assess: func(contract.AssessRequest) (*contract.Assessment, error) {
			return &contract.Assessment{Item: &contract.CodeItem{Language: "python", Source: "1 + 1", SessionID: "k"}}, nil
		},
		call: func(contract.CallStart) (*contract.Result, error) { return contract.Text("2"), nil },
	}
	b.run(t, assessed, `{}`)
	var items []event.Item
	for _, body := range b.bodies {
		switch body := body.(type) {
		case event.ItemStarted:
			items = append(items, body.Item)
		case event.ItemCompleted:
			items = append(items, body.Item)
		}
	}
	for _, it := range items {
		if it.Type != event.ItemCode || it.Language != "python" || it.Command != "1 + 1" || it.Session != "k" {
			t.Errorf("item = %+v", it)
		}
	}
	if len(items) != 2 || items[1].Status != event.StatusCompleted || items[1].Output != "out" {
		t.Errorf("items = %+v", items)
	}
}
