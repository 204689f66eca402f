package plugintest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gantry-agent/gantry/sdk/contract"
	gantryv1 "github.com/gantry-agent/gantry/sdk/proto/gantry/v1"
	"github.com/gantry-agent/gantry/sdk/wire"
)

type callOption = grpc.CallOption

const (
	threadID = "kit-thread"
	turnID   = "kit-turn"
	parentID = "kit-parent" // of nested calls
	// maxDelta is the maximum size of an output delta.
	maxDelta = 8192
)

// transcript records the events of a call. It is complete when done is closed.
type transcript struct {
	what   string
	events []*gantryv1.CallResponse
	result *gantryv1.CallResult // the first one
	err    error                // the error of the RPC; nil if it ended normally
	// forced is set if the kit had to end the RPC, before or after the result.
	forced error

	started  chan struct{} // closed with the first event
	answered chan struct{} // closed with the result
	done     chan struct{} // closed with the end of the rpc
}

// calling is a running call.
type calling struct {
	*transcript
	stream grpc.BidiStreamingClient[gantryv1.CallRequest, gantryv1.CallResponse]
	cancel context.CancelCauseFunc
}

// begin starts a call. It lasts until the plugin ends it or ctx ends.
func (p *process) begin(ctx context.Context, what string, start *gantryv1.CallStart) (*calling, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	stream, err := p.tools().Call(ctx)
	if err == nil {
		err = stream.Send(&gantryv1.CallRequest{Control: &gantryv1.CallRequest_Start{Start: start}})
	}
	if err != nil && !errors.Is(err, io.EOF) {
		cancel(nil)
		return nil, err
	}
	c := &calling{
		transcript: &transcript{what: what, started: make(chan struct{}), answered: make(chan struct{}), done: make(chan struct{})},
		stream:     stream, cancel: cancel,
	}
	// Owner: the caller of begin. It ends with the RPC.
	go func() {
		defer close(c.done)
		defer cancel(nil)
		c.read()
	}()
	return c, nil
}

// maxEvents is how many events of a call are recorded.
const maxEvents = 10_000

func (c *calling) read() {
	for {
		msg, err := c.stream.Recv()
		if err != nil {
			if !errors.Is(err, io.EOF) {
				c.err = err
			}
			return
		}
		if len(c.events) < maxEvents || msg.GetResult() != nil {
			c.events = append(c.events, msg)
		}
		if len(c.events) == 1 {
			close(c.started)
		}
		if r := msg.GetResult(); r != nil && c.result == nil {
			c.result = r
			close(c.answered)
		}
	}
}

func (c *calling) send(control *gantryv1.CallRequest) { _ = c.stream.Send(control) } // read returns the error

func (c *calling) requestCancel(reason string) {
	c.send(&gantryv1.CallRequest{Control: &gantryv1.CallRequest_Cancel{
		Cancel: &gantryv1.CallCancel{Reason: reason, GraceMs: exitTimeout.Milliseconds()},
	}})
}

// finish waits up to d for the result, and a little longer for the end of the RPC, which it then ends.
func (c *calling) finish(ctx context.Context, d time.Duration) *transcript {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-c.answered:
	case <-c.done:
		return c.transcript
	case <-timer.C:
		c.end(fmt.Errorf("no result within %v", d))
		return c.transcript
	case <-ctx.Done():
		c.end(context.Cause(ctx))
		return c.transcript
	}
	timer.Reset(exitTimeout)
	select {
	case <-c.done:
	case <-timer.C:
		c.end(fmt.Errorf("the RPC had not ended %v after the result", exitTimeout))
	}
	return c.transcript
}

// end cancels the RPC.
func (c *calling) end(why error) {
	c.cancel(why)
	<-c.done
	if c.forced = why; c.err != nil {
		c.err = nil // caused by the cancellation
	}
}

// failure explains why there is no result. It returns nil if there is one.
func (t *transcript) failure() error {
	switch {
	case t.result != nil:
		return nil
	case t.err != nil:
		s := status.Convert(t.err)
		return fmt.Errorf("%s: the RPC failed with status %s: %s", t.what, codeName(s.Code()), s.Message())
	case t.forced != nil:
		return fmt.Errorf("%s: %w", t.what, t.forced)
	}
	return fmt.Errorf("%s: the RPC ended without a result", t.what)
}

// checkOrder returns an error if the events are not in order. It ignores calls whose RPC failed.
func (t *transcript) checkOrder() error {
	if t.err != nil {
		return nil
	}
	started, ended := 0, false
	for i, e := range t.events {
		if ended {
			return fmt.Errorf("%s: event %d (%s) came after the result", t.what, i+1, eventName(e))
		}
		switch e.GetEvent().(type) {
		case nil: // an unknown kind
			continue
		case *gantryv1.CallResponse_Started:
			if started++; started > 1 {
				return fmt.Errorf("%s: event %d is a second started", t.what, i+1)
			}
		case *gantryv1.CallResponse_Result:
			ended = true
		}
		if started == 0 {
			return fmt.Errorf("%s: the first event is %s instead of started", t.what, eventName(e))
		}
	}
	if !ended {
		return t.failure()
	}
	if t.forced != nil {
		return fmt.Errorf("%s: %w", t.what, t.forced)
	}
	return nil
}

func eventName(e *gantryv1.CallResponse) string {
	r := e.ProtoReflect()
	if f := r.WhichOneof(r.Descriptor().Oneofs().ByName("event")); f != nil {
		return string(f.Name())
	}
	return "an unknown event"
}

// output returns all deltas, and an error if one of them is invalid.
func (t *transcript) output() ([]byte, error) {
	var all []byte
	var deltas [][]byte
	for _, e := range t.events {
		d := e.GetOutput()
		if d == nil {
			continue
		}
		if d.GetOffset() != int64(len(all)) {
			return all, fmt.Errorf("%s: a delta has the offset %d instead of %d", t.what, d.GetOffset(), len(all))
		}
		if len(d.GetData()) > maxDelta {
			return all, fmt.Errorf("%s: a delta has %d bytes; the maximum is %d", t.what, len(d.GetData()), maxDelta)
		}
		all, deltas = append(all, d.GetData()...), append(deltas, d.GetData())
	}
	if utf8.Valid(all) && slices.ContainsFunc(deltas, func(d []byte) bool { return !utf8.Valid(d) }) {
		return all, fmt.Errorf("%s: a delta ends inside a character", t.what)
	}
	return all, nil
}

// says returns the text of a result, truncated.
func says(r *gantryv1.CallResult) string {
	var b strings.Builder
	for _, p := range r.GetParts() {
		b.WriteString(p.GetText().GetText())
		b.Write(p.GetJson())
	}
	return quote(b.String())
}

// startOf returns the first message of a call.
func (k *kit) startOf(c Call) *gantryv1.CallStart {
	k.calls++
	id := fmt.Sprintf("kit-call-%d", k.calls)
	var parents []string
	if d := k.descriptor(c); d != nil && d.Nesting == contract.NestingOnly {
		parents = []string{parentID}
	}
	return &gantryv1.CallStart{
		ThreadId: threadID, TurnId: turnID, CallId: id, Namespace: c.Namespace, Tool: c.Tool, Input: inputOf(c),
		Grant: &gantryv1.GrantFacts{SandboxMode: "full-access", Network: true, Digest: "kit"}, Cwd: k.work, CallToken: wire.NewToken(),
		ToolsRevision: k.revision, Caps: &gantryv1.CallCaps{MaxOutputBytes: 8 << 20, MaxInlineBytes: 1 << 20, MaxModelTokens: 10_000},
		Parents: parents, ModelTraits: []string{"images"}, Attempt: 1,
	}
}

func inputOf(c Call) *gantryv1.CallInput {
	if c.Text != "" {
		return &gantryv1.CallInput{Input: &gantryv1.CallInput_Text{Text: c.Text}}
	}
	args := c.Arguments
	if len(args) == 0 {
		args = json.RawMessage("{}")
	}
	return &gantryv1.CallInput{Input: &gantryv1.CallInput_ArgumentsJson{ArgumentsJson: args}}
}

// assessment is the response to Assess for a call.
type assessment struct {
	what string
	resp *gantryv1.AssessResponse
	err  error
}

// assess calls Assess if the tool declares it. Otherwise it returns nil.
func (k *kit) assess(ctx context.Context, p *process, c Call, start *gantryv1.CallStart) (*gantryv1.AssessResponse, error) {
	if d := k.descriptor(c); d == nil || !d.Assess {
		return nil, nil
	}
	resp, err := call(ctx, k, p, p.tools().Assess, &gantryv1.AssessRequest{
		ThreadId: start.GetThreadId(), TurnId: start.GetTurnId(), CallId: start.GetCallId(), Namespace: start.GetNamespace(),
		Tool: start.GetTool(), Input: start.GetInput(), Cwd: start.GetCwd(), CallToken: start.GetCallToken(), ToolsRevision: start.GetToolsRevision(),
	})
	k.assessed = append(k.assessed, assessment{name(c), resp, err})
	return resp, err
}

// assessedStart returns the first message of a call that has been assessed, and the early result of the assessment, if any.
func (k *kit) assessedStart(ctx context.Context, p *process, c Call) (*gantryv1.CallStart, *gantryv1.CallResult) {
	start := k.startOf(c)
	a, err := k.assess(ctx, p, c, start)
	if err != nil {
		return start, nil
	}
	start.AssessDigest = a.GetDigest()
	return start, a.GetEarly()
}

// perform runs an example, from its assessment to its result. change may modify the first message.
func (k *kit) perform(ctx context.Context, p *process, c Call, change func(*gantryv1.CallStart)) (*transcript, error) {
	start, early := k.assessedStart(ctx, p, c)
	if early != nil {
		return &transcript{what: name(c), result: early, events: []*gantryv1.CallResponse{
			{Event: &gantryv1.CallResponse_Started{Started: &gantryv1.CallStarted{}}},
			{Event: &gantryv1.CallResponse_Result{Result: early}},
		}}, nil
	}
	if change != nil {
		change(start)
	}
	running, err := p.begin(ctx, name(c), start)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name(c), k.explain(ctx, p, err))
	}
	t := running.finish(ctx, responseTimeout+k.cfg.Slack)
	if status.Code(t.err) == codes.Unavailable {
		return t, fmt.Errorf("%s: %w", name(c), k.explain(ctx, p, t.err))
	}
	return t, nil
}

// name returns the call as a report shows it.
func name(c Call) string {
	n := c.Tool
	if c.Namespace != "" {
		n = c.Namespace + "." + n
	}
	if c.Text != "" {
		return fmt.Sprintf("%s(%s)", n, quote(c.Text))
	}
	if len(c.Arguments) == 0 {
		return n + "({})"
	}
	s := string(c.Arguments)
	if len(s) > 60 {
		s = s[:60] + "…"
	}
	return fmt.Sprintf("%s(%s)", n, s)
}

// descriptor returns the descriptor of the tool that c calls, or nil.
func (k *kit) descriptor(c Call) *contract.Descriptor {
	for i, d := range k.tools {
		if d.Name == c.Tool && d.Namespace == c.Namespace {
			return &k.tools[i]
		}
	}
	return nil
}

// example runs the i-th example, unless it has been run before.
func (k *kit) example(ctx context.Context, i int) (*transcript, error) {
	if t := k.examples[i]; t != nil {
		return t, nil
	}
	p, err := k.ready(ctx)
	if err != nil {
		return nil, err
	}
	t, err := k.perform(ctx, p, k.cfg.Calls[i], nil)
	if err == nil {
		k.examples[i] = t
	}
	return t, err
}

// badCalls returns calls with invalid arguments.
func (k *kit) badCalls() []Call {
	var out []Call
	for _, d := range k.tools {
		if d.Freeform != nil {
			continue
		}
		c := Call{Tool: d.Name, Namespace: d.Namespace}
		for _, args := range []string{`["not","an","object"]`, `{"cut":"off`} {
			c.Arguments = json.RawMessage(args)
			out = append(out, c)
		}
		var schema struct{ Required []string }
		if json.Unmarshal(d.InputSchema, &schema) == nil && len(schema.Required) > 0 {
			c.Arguments = json.RawMessage("{}")
			out = append(out, c)
		}
	}
	const most = 60
	return out[:min(len(out), most)]
}

// anyCall returns an example that answers or, if there is none, an invalid call.
func (k *kit) anyCall() (Call, bool) {
	if answers := k.withBehaviour(Answers); len(answers) > 0 {
		return k.cfg.Calls[answers[0]], true
	}
	return k.badCall()
}

// cheapCall returns a call that can be made many times: a read-only example, or an invalid call.
func (k *kit) cheapCall() (Call, bool) {
	for _, i := range k.withBehaviour(Answers) {
		if d := k.descriptor(k.cfg.Calls[i]); d != nil && d.ReadOnly && d.ParallelSafe && !d.Assess {
			return k.cfg.Calls[i], true
		}
	}
	return k.badCall()
}

func (k *kit) badCall() (Call, bool) {
	bad := k.badCalls()
	if len(bad) == 0 {
		return Call{}, false
	}
	return bad[0], true
}

// codeName returns the name of a status code in the contract's spelling.
func codeName(c codes.Code) string {
	names := [...]string{
		"OK", "CANCELLED", "UNKNOWN", "INVALID_ARGUMENT", "DEADLINE_EXCEEDED", "NOT_FOUND", "ALREADY_EXISTS", "PERMISSION_DENIED",
		"RESOURCE_EXHAUSTED", "FAILED_PRECONDITION", "ABORTED", "OUT_OF_RANGE", "UNIMPLEMENTED", "INTERNAL", "UNAVAILABLE", "DATA_LOSS",
		"UNAUTHENTICATED",
	}
	if int(c) < len(names) {
		return names[c]
	}
	return c.String()
}
