package provider

import (
	"context"
	"errors"
	"io"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gantry-agent/gantry/sdk/configblock"
	"github.com/gantry-agent/gantry/sdk/contract"
	"github.com/gantry-agent/gantry/sdk/llm"
	gantryv1 "github.com/gantry-agent/gantry/sdk/proto/gantry/v1"
	"github.com/gantry-agent/gantry/sdk/wire/convert"
)

func request(text string) *gantryv1.StreamRequest {
	return &gantryv1.StreamRequest{
		Request: convert.RequestToProto(&llm.Request{
			Model: "small", Messages: []llm.Message{{Role: llm.RoleUser, Parts: []llm.Part{&llm.Text{Text: text}}}},
		}),
		ThreadId: "th", TurnId: "tu",
	}
}

// receive reads a stream to its end.
func receive(ss grpc.ServerStreamingClient[gantryv1.StreamResponse], err error) ([]llm.Event, error) {
	var out []llm.Event
	for err == nil {
		var m *gantryv1.StreamResponse
		if m, err = ss.Recv(); err == nil {
			out = append(out, convert.EventsFromProto(m.GetEvents())...)
		}
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return out, err
}

func TestManifest(t *testing.T) {
	m, err := testPlugin(&echo{}).manifest()
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Validate(); err != nil {
		t.Error(err)
	}
	if m.Kind != contract.KindProvider || !slices.Equal(m.Capabilities, []string{"network", "secrets", "state"}) ||
		!slices.Equal(m.HostServices, []string{"GetArtifact", "GetState", "Lease", "PutState", "Secret", "StoreSecret"}) {
		t.Errorf("got %s", m.Canonical())
	}
	c, closed := connect(t, testPlugin(&echo{}), nil)
	defer closed()
	res, err := c.Describe(t.Context(), &gantryv1.DescribeRequest{HostCapabilities: []string{"from the future"}})
	if err != nil || convert.ManifestFromProto(res.GetManifest()).Digest() != m.Digest() {
		t.Errorf("Describe: %v, %v", res, err)
	}
	for name, p := range map[string]Plugin{
		"no New":      {Name: "x"},
		"bad config":  {Name: "x", New: testPlugin().New, Config: &struct{ F func() }{}},
		"bad command": {Name: "x", New: testPlugin().New, Commands: []Command{{Name: "c"}}},
	} {
		if _, err := p.manifest(); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestConfigureReportsPlaces(t *testing.T) {
	p := testPlugin(&echo{})
	var seen *config
	fail := error(nil)
	makeIt := p.New
	p.New = func(ctx context.Context, env Env) (Provider, error) {
		seen = env.Config.(*config)
		if fail != nil {
			return nil, fail
		}
		return makeIt(ctx, env)
	}
	c, closed := connect(t, p, nil)
	defer closed()
	configure := func(json string) []contract.Diagnostic {
		t.Helper()
		res, err := c.Configure(t.Context(), &gantryv1.ConfigureRequest{ConfigJson: []byte(json)})
		if err != nil {
			t.Fatal(err)
		}
		return convert.DiagnosticsFromProto(res.GetDiagnostics())
	}
	if _, err := c.Models(t.Context(), &gantryv1.ModelsRequest{}); status.Code(err) != codes.FailedPrecondition {
		t.Errorf("before Configure: %v", err)
	}
	if ds := configure(`{"model":"huge"}`); len(ds) != 1 || !reflect.DeepEqual(ds[0].Path, []contract.Step{contract.Name("model")}) || seen != nil {
		t.Errorf("a value that is not allowed: %+v, New called: %v", ds, seen != nil)
	}
	fail = errors.Join(configblock.Invalid("no such key", contract.Name("api_key")), errors.New("and more"))
	if ds := configure(`{}`); len(ds) != 2 || ds[0].Path[0].Name != "api_key" || ds[1].Summary != "and more" {
		t.Errorf("errors of New: %+v", ds)
	}
	fail = &contract.Diagnostic{Severity: contract.SeverityWarning, Summary: "just so you know"}
	if ds := configure(`{}`); len(ds) != 2 || ds[1].Severity != contract.SeverityError {
		t.Errorf("a warning without a provider: %+v", ds)
	}
	if _, err := c.Models(t.Context(), &gantryv1.ModelsRequest{}); status.Code(err) != codes.FailedPrecondition {
		t.Errorf("after failures: %v", err)
	}
	fail = nil
	if ds := configure(``); len(ds) != 0 || seen.Model != "small" {
		t.Errorf("defaults: %+v, %+v", ds, seen)
	}
	before := seen
	if ds := configure(`{"model":"large"}`); len(ds) != 0 || seen.Model != "large" || before.Model != "small" {
		t.Errorf("second Configure: %+v, %+v, %+v", ds, seen, before)
	}
}

func TestAnswers(t *testing.T) {
	c, closed := configured(t, testPlugin(&echo{}))
	defer closed()
	models, err := c.Models(t.Context(), &gantryv1.ModelsRequest{})
	if err != nil || len(models.GetModels()) != 1 || models.GetModels()[0].GetContextWindow() != 1000 {
		t.Errorf("models: %v, %v", models, err)
	}
	prepared, err := c.Prepare(t.Context(), &gantryv1.PrepareRequest{Request: &gantryv1.LlmRequest{Model: "small"}})
	if err != nil || prepared.GetUrl() != "https://example.com/small" || prepared.GetHeaders()[0].GetName() != "authorization" {
		t.Errorf("prepare: %v, %v", prepared, err)
	}
	if _, err := c.Prepare(t.Context(), &gantryv1.PrepareRequest{Request: &gantryv1.LlmRequest{}}); status.Convert(err).Message() != "which model?" {
		t.Errorf("prepare: %v", err)
	}
	if _, err := c.Prepare(t.Context(), &gantryv1.PrepareRequest{}); status.Code(err) != codes.FailedPrecondition {
		t.Errorf("prepare nothing: %v", err)
	}
	out, err := c.Command(t.Context(), &gantryv1.CommandRequest{Name: "whoami", InputJson: []byte(`"me"`)})
	if err != nil || string(out.GetOutputJson()) != `"me"` {
		t.Errorf("command: %v, %v", out, err)
	}
	out, err = c.Command(t.Context(), &gantryv1.CommandRequest{Name: "whoami", InputJson: []byte(`null`)})
	if err != nil || out.GetError() != "nobody" {
		t.Errorf("failing command: %v, %v", out, err)
	}
	if _, err = c.Command(t.Context(), &gantryv1.CommandRequest{Name: "dance"}); status.Code(err) != codes.NotFound {
		t.Errorf("unknown command: %v", err)
	}
	if _, err := c.Configure(t.Context(), &gantryv1.ConfigureRequest{ConfigJson: []byte(`{"model":"large"}`)}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Models(t.Context(), &gantryv1.ModelsRequest{}); status.Convert(err).Message() != "the key is not good; next: Log in again." {
		t.Errorf("models: %v", err)
	}
}

func TestStreamEndsWithOneTerminalEvent(t *testing.T) {
	busy := &llm.Error{Code: llm.ErrOverloaded, Message: "busy", Retryable: true, RetryAfter: 2 * time.Second}
	tests := []struct {
		name   string
		stream func(ctx context.Context, r *StreamRequest, emit func(llm.Event) error) error
		events int
		last   llm.Event
	}{
		{"answer", nil, 6, llm.Finish{Reason: llm.FinishStop}},
		{"typed error", func(context.Context, *StreamRequest, func(llm.Event) error) error { return busy }, 1, busy},
		{"wrapped error", func(_ context.Context, _ *StreamRequest, emit func(llm.Event) error) error {
			return errors.Join(emit(llm.StepStart{}), errors.Join(busy))
		}, 2, busy},
		{"plain error", func(context.Context, *StreamRequest, func(llm.Event) error) error { return errors.New("boom") }, 1,
			&llm.Error{Code: llm.ErrUnknown, Message: "boom"}},
		{"error as an event and returned", func(_ context.Context, _ *StreamRequest, emit func(llm.Event) error) error {
			return errors.Join(emit(busy), busy)
		}, 1, busy},
		{"no end", func(_ context.Context, _ *StreamRequest, emit func(llm.Event) error) error {
			return emit(llm.StepStart{})
		}, 2,
			&llm.Error{Code: llm.ErrIncompleteStream, Message: "the provider's answer is incomplete", Retryable: true}},
		{"error after the end", func(_ context.Context, _ *StreamRequest, emit func(llm.Event) error) error {
			return errors.Join(answer(emit, "x"), errors.New("close body"))
		}, 6, llm.Finish{Reason: llm.FinishStop}},
		{"nothing that can be sent", func(_ context.Context, _ *StreamRequest, emit func(llm.Event) error) error {
			return emit(llm.BlockStart{})
		}, 1, &llm.Error{Code: llm.ErrUnknown, Message: "invalid event llm.BlockStart of kind unknown-start"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c, closed := configured(t, testPlugin(&echo{stream: tt.stream}))
			defer closed()
			events, err := receive(c.Stream(t.Context(), request("x")))
			if err != nil {
				t.Fatal(err)
			}
			if len(events) != tt.events || !reflect.DeepEqual(events[len(events)-1], tt.last) {
				t.Errorf("got %d events, the last %+v; want %d, %+v", len(events), events[len(events)-1], tt.events, tt.last)
			}
		})
	}
}

func TestStreamOfABadRequest(t *testing.T) {
	c, closed := configured(t, testPlugin(&echo{}))
	defer closed()
	for name, r := range map[string]*gantryv1.LlmRequest{
		"none":         nil,
		"unknown part": {Messages: []*gantryv1.LlmMessage{{Parts: []*gantryv1.LlmPart{{}}}}},
	} {
		events, err := receive(c.Stream(t.Context(), &gantryv1.StreamRequest{Request: r}))
		if e, ok := events[0].(*llm.Error); err != nil || len(events) != 1 || !ok || e.Code != llm.ErrInvalidRequest {
			t.Errorf("%s: %v, %v", name, events, err)
		}
	}
}

func TestStreamRequestIsComplete(t *testing.T) {
	var got *StreamRequest
	c, closed := configured(t, testPlugin(&echo{stream: func(_ context.Context, r *StreamRequest, emit func(llm.Event) error) error {
		got = r
		return answer(emit, "")
	}}))
	defer closed()
	if _, err := receive(c.Stream(t.Context(), request("x"))); err != nil {
		t.Fatal(err)
	}
	if got.MaxAttempts != DefaultMaxAttempts || got.ThreadID != "th" || got.TurnID != "tu" || got.Model != "small" {
		t.Errorf("got %+v", got)
	}
	r := request("x")
	r.MaxAttempts = 2
	if _, err := receive(c.Stream(t.Context(), r)); err != nil || got.MaxAttempts != 2 {
		t.Errorf("max attempts = %d, %v", got.MaxAttempts, err)
	}
}

func TestSingleEventIsSentAtOnce(t *testing.T) {
	next := make(chan struct{})
	c, closed := configured(t, testPlugin(&echo{stream: func(_ context.Context, _ *StreamRequest, emit func(llm.Event) error) error {
		if err := emit(llm.StepStart{}); err != nil {
			return err
		}
		<-next // the stream is silent until the host has the event
		return errors.New("done")
	}}))
	defer closed()
	ss, err := c.Stream(t.Context(), request("x"))
	if err != nil {
		t.Fatal(err)
	}
	m, err := ss.Recv()
	close(next)
	if err != nil || len(m.GetEvents()) != 1 {
		t.Fatalf("got %v, %v", m, err)
	}
	if _, err := receive(ss, nil); err != nil {
		t.Error(err)
	}
}

func TestCancelReachesTheProvider(t *testing.T) {
	started, ended := make(chan struct{}), make(chan error, 1)
	c, closed := configured(t, testPlugin(&echo{stream: func(ctx context.Context, _ *StreamRequest, emit func(llm.Event) error) error {
		close(started)
		<-ctx.Done()
		ended <- emit(llm.StepStart{})
		return ctx.Err()
	}}))
	defer closed()
	ctx, cancel := context.WithCancel(t.Context())
	ss, err := c.Stream(ctx, request("x"))
	if err != nil {
		t.Fatal(err)
	}
	<-started
	cancel()
	if _, err := receive(ss, nil); status.Code(err) != codes.Canceled {
		t.Errorf("stream: %v", err)
	}
	if err := <-ended; err == nil {
		t.Error("emit says nothing when nobody listens")
	}
}

func TestOldProviderIsClosedAfterItsLastRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := make(chan struct{})
		first, second := &echo{}, &echo{}
		first.stream = func(_ context.Context, _ *StreamRequest, emit func(llm.Event) error) error {
			<-gate
			return answer(emit, "from the first")
		}
		c, closed := configured(t, testPlugin(first, second))
		ss, err := c.Stream(t.Context(), request("x"))
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if _, err := c.Configure(t.Context(), &gantryv1.ConfigureRequest{}); err != nil {
			t.Fatal(err)
		}
		if events, err := receive(c.Stream(t.Context(), request("second"))); err != nil || events[2].(llm.BlockDelta).Text != "second" {
			t.Errorf("new request: %v, %v", events, err)
		}
		synctest.Wait()
		if n := first.closed.Load(); n != 0 {
			t.Errorf("closed %d times while its request runs", n)
		}
		close(gate)
		if events, err := receive(ss, nil); err != nil || events[2].(llm.BlockDelta).Text != "from the first" {
			t.Errorf("old request: %v, %v", events, err)
		}
		synctest.Wait()
		if n, m := first.closed.Load(), second.closed.Load(); n != 1 || m != 0 {
			t.Errorf("closed %d and %d times", n, m)
		}
		closed()
		if n, m := first.closed.Load(), second.closed.Load(); n != 1 || m != 1 {
			t.Errorf("in the end closed %d and %d times", n, m)
		}
	})
}

func TestDrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &echo{stream: func(_ context.Context, _ *StreamRequest, emit func(llm.Event) error) error {
			time.Sleep(time.Minute) // of the bubble
			return answer(emit, "late")
		}}
		c, closed := configured(t, testPlugin(p))
		defer closed()
		ss, err := c.Stream(t.Context(), request("x"))
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		drain := func(ms int64) (int32, time.Duration) {
			t.Helper()
			start := time.Now()
			res, err := c.Drain(t.Context(), &gantryv1.DrainRequest{DeadlineMs: ms})
			if err != nil {
				t.Fatal(err)
			}
			return res.GetStillRunning(), time.Since(start)
		}
		if n, d := drain(0); n != 1 || d != 0 {
			t.Errorf("without waiting: %d after %v", n, d)
		}
		if n, d := drain(1000); n != 1 || d != time.Second {
			t.Errorf("with a short deadline: %d after %v", n, d)
		}
		_, err = receive(c.Stream(t.Context(), request("y")))
		if status.Code(err) != codes.Unavailable || !strings.Contains(err.Error(), "draining") {
			t.Errorf("new request: %v", err)
		}
		if _, err := c.Configure(t.Context(), &gantryv1.ConfigureRequest{}); status.Code(err) != codes.Unavailable {
			t.Errorf("new configuration: %v", err)
		}
		if n, d := drain(3_600_000); n != 0 || d != 59*time.Second {
			t.Errorf("with a long deadline: %d after %v", n, d)
		}
		if events, err := receive(ss, nil); err != nil || len(events) != 6 {
			t.Errorf("what ran: %v, %v", events, err)
		}
	})
}

func TestOutboxBatchesEvents(t *testing.T) {
	var sent [][]llm.Event
	entered, release := make(chan struct{}), make(chan struct{})
	o := newOutbox(t.Context(), func(m *gantryv1.StreamResponse) error {
		sent = append(sent, convert.EventsFromProto(m.GetEvents()))
		if len(sent) == 1 {
			close(entered)
			<-release
		}
		return nil
	})
	emit := func(e llm.Event) {
		t.Helper()
		if err := o.emit(e); err != nil {
			t.Fatal(err)
		}
	}
	emit(llm.StepStart{})
	<-entered // the first message is on its way
	var want []llm.Event
	for range batchEvents + 1 {
		e := llm.BlockDelta{Kind: llm.BlockText, Text: "x"}
		emit(e)
		want = append(want, e)
	}
	close(release)
	if err := o.close(); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(sent, [][]llm.Event{{llm.StepStart{}}, want[:batchEvents], want[batchEvents:]}) {
		t.Errorf("sent %d messages: %v", len(sent), sent)
	}
	if err := o.emit(llm.StepStart{}); err == nil {
		t.Error("emit after close is no error")
	}
}

func TestOutboxReportsSendErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broken := errors.New("the pipe broke")
		o := newOutbox(t.Context(), func(*gantryv1.StreamResponse) error { return broken })
		_ = o.emit(llm.StepStart{})
		synctest.Wait()
		if err := o.emit(llm.StepStart{}); !errors.Is(err, broken) {
			t.Errorf("emit = %v", err)
		}
		if err := o.close(); !errors.Is(err, broken) {
			t.Errorf("close = %v", err)
		}
	})
}

func TestOutboxSlowsAFastProviderDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		o := newOutbox(t.Context(), func(*gantryv1.StreamResponse) error { <-release; return nil })
		emitted := 0
		go func() { // ends with its loop, which the bubble waits for
			for range 2 * outboxEvents {
				_ = o.emit(llm.StepStart{})
				emitted++
			}
		}()
		synctest.Wait()
		if emitted > outboxEvents+batchEvents {
			t.Errorf("%d events were taken while nothing was sent", emitted)
		}
		close(release)
		synctest.Wait()
		if err := o.close(); err != nil || emitted != 2*outboxEvents {
			t.Errorf("emitted %d, %v", emitted, err)
		}
	})
}
