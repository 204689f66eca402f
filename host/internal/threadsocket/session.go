package threadsocket

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gantry-agent/gantry/config/hint"
	"github.com/gantry-agent/gantry/host/internal/approval"
	"github.com/gantry-agent/gantry/host/internal/orchestrate"
	"github.com/gantry-agent/gantry/host/internal/queue"
	"github.com/gantry-agent/gantry/host/internal/rpc"
	"github.com/gantry-agent/gantry/host/internal/thread"
	"github.com/gantry-agent/gantry/host/internal/turn"
	"github.com/gantry-agent/gantry/host/internal/view"
	"github.com/gantry-agent/gantry/sdk/llm"
)

// session is the connection of a client.
type session struct {
	server   *Server
	launched bool // the client is a process that this one has started
	conn     *rpc.Conn
	work     sync.WaitGroup // subscriptions

	mu struct {
		sync.Mutex
		closed bool // no more subscriptions are started
		subs   map[uint64]*subscription
		views  map[uint64]*view.View
	}
}

func (s *session) serve(ctx context.Context, conn net.Conn) error {
	s.mu.subs, s.mu.views = map[uint64]*subscription{}, map[uint64]*view.View{}
	s.conn = rpc.New(rpc.Lines(conn, conn, conn), rpc.Config{
		Route: func(method string, _ json.RawMessage) rpc.Route {
			return rpc.Route{Urgent: method == methodPing || method == methodAnswer || method == methodInterrupt}
		},
		Handle: s.handle, Notified: s.notified, Logger: s.server.log,
	})
	err := s.conn.Serve(ctx)
	s.mu.Lock()
	s.mu.closed = true
	for _, sub := range s.mu.subs {
		sub.end()
	}
	views := slices.Collect(maps.Values(s.mu.views))
	s.mu.Unlock()
	for _, v := range views {
		v.Close()
	}
	s.work.Wait()
	return err
}

// handle answers a request. A request may wait for the end of a turn, so it is not in the way of others.
func (s *session) handle(ctx context.Context, r *rpc.Request) {
	r.Release()
	result, err := s.answer(ctx, r)
	if err != nil {
		r.Fail(wireError(err))
		return
	}
	r.Reply(result)
}

func (s *session) answer(ctx context.Context, r *rpc.Request) (any, error) {
	switch r.Method {
	case methodPing:
		return struct{}{}, nil
	case methodSubscribe, methodSettings, methodPlugins, methodProcesses, methodQueue, methodGoal:
	default:
		if s.launched {
			s.server.log.Warn("a process that this host has started was refused", "method", r.Method)
			return nil, errFamily
		}
	}
	if !strings.HasPrefix(r.Method, prefix) {
		return nil, unknown(r.Method)
	}
	to, err := decode[OfThread](r)
	if err != nil {
		return nil, err
	}
	t, err := s.server.thread(to.Thread)
	if err != nil {
		return nil, err
	}
	ctx, done, err := t.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	return s.ask(ctx, t, r)
}

// ask lets a thread answer a request.
func (s *session) ask(ctx context.Context, t *served, r *rpc.Request) (any, error) {
	switch r.Method {
	case methodSubscribe:
		return call(ctx, r, func(ctx context.Context, p SubscribeParams) (SubscribeResult, error) { return s.subscribe(ctx, t, p) })
	case methodStart:
		return call(ctx, r, t.start)
	case methodSteer:
		return call(ctx, r, t.steer)
	case methodMail:
		return call(ctx, r, t.mail)
	case methodCompact:
		a, err := t.Submit(ctx, thread.Submission{Compact: true})
		return StartResult{Turn: a.Turn, Steered: a.Steered}, err
	case methodConfigure:
		return call(ctx, r, func(ctx context.Context, p ConfigureParams) (struct{}, error) {
			return struct{}{}, t.Configure(ctx, p.change())
		})
	case methodSettings:
		return settingsOf(t.Settings()), nil
	case methodShell:
		return call(ctx, r, t.shell)
	case methodReview:
		return call(ctx, r, t.review)
	case methodInterrupt:
		return call(ctx, r, t.interrupt)
	case methodAnswer:
		return call(ctx, r, t.answer)
	case methodPlugins:
		return t.Plugins.PluginStatus(ctx), nil
	case methodCommand:
		return call(ctx, r, t.Plugins.RunCommand)
	case methodCallTool:
		return call(ctx, r, func(ctx context.Context, p callParams) (ToolResult, error) { return t.CallTool(ctx, p.ToolCall) })
	case methodReload:
		return call(ctx, r, func(ctx context.Context, p ReloadParams) (struct{}, error) {
			return struct{}{}, t.Plugins.ReloadPlugin(ctx, p.Plugin, p.Path)
		})
	case methodFork:
		return call(ctx, r, t.fork)
	case methodRevert:
		return call(ctx, r, t.revert)
	case methodRollback:
		return call(ctx, r, t.rollback)
	case methodArchive, methodUnarchive:
		return struct{}{}, t.Library.ArchiveThread(ctx, t.ID(), r.Method == methodArchive)
	case methodName:
		return call(ctx, r, func(ctx context.Context, p NameParams) (struct{}, error) {
			return struct{}{}, t.Library.NameThread(ctx, t.ID(), p.Name)
		})
	case methodDescribe:
		return call(ctx, r, func(ctx context.Context, p DescribeParams) (struct{}, error) {
			return struct{}{}, Describe(ctx, t.Thread.Thread, p.Git)
		})
	case methodStop:
		return call(ctx, r, func(ctx context.Context, p StopParams) (struct{}, error) {
			return struct{}{}, t.Library.StopSession(ctx, t.ID(), p.Plugin, p.Session)
		})
	case methodProcesses:
		return t.Library.ThreadProcesses(t.ID())
	case methodView:
		return call(ctx, r, func(ctx context.Context, p ViewParams) (ViewResult, error) { return s.view(ctx, t, p) })
	case methodViewAct:
		return call(ctx, r, s.act)
	case methodInject:
		return call(ctx, r, func(ctx context.Context, p InjectParams) (struct{}, error) {
			return struct{}{}, t.Inject(ctx, p.Messages...)
		})
	case methodQueue:
		entries, err := queue.EntriesOf(t.Feature(queue.ID))
		return QueueResult{entries}, err
	case methodQueueChange:
		return call(ctx, r, t.changeQueue)
	case methodQueueStart:
		return call(ctx, r, t.startQueued)
	case methodGoal:
		return t.goal(ctx)
	case methodGoalChange:
		return call(ctx, r, t.changeGoal)
	case methodUndo:
		return call(ctx, r, t.undo)
	}
	return nil, unknown(r.Method)
}

// unknown refuses a method, which is probably one of another version.
func unknown(method string) error {
	message, next := fmt.Sprintf("process %d of gantry has no method %q: it is of another version", os.Getpid(), method),
		"use the same version of gantry for both, or end that process and resume its threads"
	return &rpc.Error{Code: rpc.MethodNotFound, Message: hint.Line(message, next), Data: errorData{Next: next}}
}

// decode decodes the parameters of a request.
func decode[P any](r *rpc.Request) (p P, err error) {
	if r.Params == nil {
		return p, nil
	}
	if err := json.Unmarshal(r.Params, &p); err != nil {
		return p, rpc.Errorf(rpc.InvalidParams, "%s: %v", r.Method, err)
	}
	return p, nil
}

func call[P, R any](ctx context.Context, r *rpc.Request, f func(context.Context, P) (R, error)) (any, error) {
	p, err := decode[P](r)
	if err != nil {
		return nil, err
	}
	return f(ctx, p)
}

func (t *served) start(ctx context.Context, p StartParams) (StartResult, error) {
	if strings.TrimSpace(p.Text) == "" && len(p.Parts) == 0 && !p.Continue {
		return StartResult{}, errors.New("the task is empty")
	}
	in, err := input(p.Text, p.Parts, p.AdditionalContext, p.ClientID)
	if err != nil {
		return StartResult{}, err
	}
	if in.Continue = p.Continue; in.Continue {
		in.Parts = nil
	}
	a, err := t.Submit(ctx, thread.Submission{Input: in, OutputSchema: p.OutputSchema, Change: p.change(), Durable: true})
	return StartResult{Turn: a.Turn, Steered: a.Steered, Repeated: a.Repeated}, err
}

func (t *served) steer(ctx context.Context, p SteerParams) (StartResult, error) {
	in, err := input(p.Text, p.Parts, p.AdditionalContext, p.ClientID)
	if err != nil {
		return StartResult{}, err
	}
	in.Continue, in.Adjust = p.Continue, p.Adjust
	if in.Continue || in.Adjust != (turn.Adjustment{}) {
		in.Parts = nil
	}
	a, err := t.Steer(ctx, p.ExpectedTurn, in)
	return StartResult{Turn: a.Turn, Steered: a.Steered, Repeated: a.Repeated}, err
}

// input converts a user's input and the client's context.
func input(text string, parts llm.Parts, beside map[string]AdditionalContext, clientID string) (turn.Input, error) {
	in := turn.Input{Parts: parts, Context: map[string]string{}, ClientID: clientID}
	if len(parts) == 0 {
		in.Parts = []llm.Part{&llm.Text{Text: text}}
	}
	for key, c := range beside {
		if !contextKey(key) {
			return in, fmt.Errorf("additionalContext: key %.80q: it has 1 to 64 letters, digits, dashes and underscores", key)
		}
		in.Context[key] = c.Value
	}
	return in, nil
}

// contextKey reports whether a key is valid as part of an element's name.
func contextKey(key string) bool {
	const allowed = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_"
	return key != "" && len(key) <= 64 && strings.Trim(key, allowed) == ""
}

// maxTimeoutMS is the maximum of a time.Duration in milliseconds.
const maxTimeoutMS = int64(math.MaxInt64 / time.Millisecond)

func (t *served) shell(ctx context.Context, p ShellParams) (ShellResult, error) {
	if p.TimeoutMS > maxTimeoutMS {
		return ShellResult{}, fmt.Errorf("timeoutMs is %d; it must be at most %d", p.TimeoutMS, maxTimeoutMS)
	}
	task, id, err := t.Shell.Task(p.Command, time.Duration(p.TimeoutMS)*time.Millisecond)
	if err != nil {
		return ShellResult{}, err
	}
	a, err := t.Submit(ctx, thread.Submission{Task: task})
	return ShellResult{Turn: a.Turn, Concurrent: a.Concurrent, Call: id}, err
}

func (t *served) review(ctx context.Context, p ReviewParams) (StartResult, error) {
	task, err := t.Reviewer.Task(ctx, t.Settings().Cwd, p.Target)
	if err != nil {
		return StartResult{}, err
	}
	a, err := t.Submit(ctx, thread.Submission{Task: task})
	return StartResult{Turn: a.Turn}, err
}

func (t *served) interrupt(ctx context.Context, p InterruptParams) (struct{}, error) {
	if p.Wait || p.Turn != "" {
		return struct{}{}, t.InterruptTurn(ctx, p.Turn, orchestrate.ErrInterrupted)
	}
	return struct{}{}, t.Interrupt(ctx, orchestrate.ErrInterrupted)
}

func (t *served) answer(_ context.Context, p AnswerParams) (struct{}, error) {
	return struct{}{}, t.Approvals().Resolve(p.ID, approval.Answer{Choice: p.Choice, Data: p.Data, By: "user"})
}
