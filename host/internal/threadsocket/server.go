package threadsocket

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"math"
	"net"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/gantry-agent/gantry/host/internal/approval"
	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/orchestrate"
	"github.com/gantry-agent/gantry/host/internal/proctree"
	"github.com/gantry-agent/gantry/host/internal/review"
	"github.com/gantry-agent/gantry/host/internal/thread"
	"github.com/gantry-agent/gantry/host/internal/turn"
	"github.com/gantry-agent/gantry/host/internal/usershell"
	"github.com/gantry-agent/gantry/sdk/llm"
	"github.com/gantry-agent/gantry/sdk/wire"
	"github.com/hashicorp/go-hclog"
	"github.com/sourcegraph/jsonrpc2"
)

// Thread is a running thread and its log.
type Thread struct {
	*thread.Thread
	// Events reads the stored events after a number.
	Events   func(ctx context.Context, after uint64) iter.Seq2[event.Event, error]
	Library  Library
	Shell    *usershell.Shell
	Reviewer *review.Reviewer
}

// Plugins is what clients can do with the host's plugins.
type Plugins interface {
	PluginStatus() []PluginStatus
	ReloadPlugin(ctx context.Context, label, path string) error
}

// lastWords is the time that a client has to read pending events when the host closes. A client that is reading needs a moment;
// others are disconnected.
const lastWords = time.Second

// Serve serves clients on ln until ctx ends, which should be after the end of the thread. It then delivers the thread's last
// events to subscribers, closes the connections, and waits. Only processes of the same user can connect; processes that the host
// has started can only read.
func Serve(ctx context.Context, ln *net.UnixListener, t Thread, p Plugins, log hclog.Logger) {
	var clients sync.WaitGroup
	defer clients.Wait()
	stop := context.AfterFunc(ctx, func() { ln.Close() })
	defer stop()
	for {
		conn, err := ln.AcceptUnix()
		if err != nil {
			if ctx.Err() == nil {
				log.Warn("run socket closed", "err", err)
			}
			return
		}
		peer, err := wire.PeerOf(conn)
		if err == nil && int(peer.UID) != os.Getuid() {
			err = fmt.Errorf("user %d may not", peer.UID)
		}
		family := false
		if err == nil {
			if family, err = proctree.Contains(conn, os.Getpid(), peer.PID); errors.Is(err, errors.ErrUnsupported) {
				err = nil
			}
		}
		if err != nil {
			log.Warn("client refused", "err", err)
			conn.Close()
			continue
		}
		clients.Go(func() { // ends with its connection, or soon after ctx
			defer conn.Close()
			(&session{thread: t, plugins: p, family: family, log: log}).serve(ctx, conn)
		})
	}
}

// session is the connection of a client.
type session struct {
	thread  Thread
	plugins Plugins
	family  bool // the client is a process that the host has started
	log     hclog.Logger
	conn    *jsonrpc2.Conn
	work    sync.WaitGroup
	ctx     context.Context // of the connection

	mu struct {
		sync.Mutex
		closed     bool // no more work is started
		subscribed bool
		sent       chan struct{} // closed when the subscription has ended; nil: there is none
		leave      func()
	}
}

// begin runs f in a goroutine that serve waits for. It returns false if the connection is closing.
func (s *session) begin(f func()) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.closed {
		return false
	}
	s.work.Go(f)
	return true
}

// maxConcurrent is the number of concurrent requests of a client. Beyond it, the socket is not read.
const maxConcurrent = 16

func (s *session) serve(ctx context.Context, conn net.Conn) {
	life, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	s.ctx = life
	slots := make(chan struct{}, maxConcurrent)
	ready := make(chan struct{})
	handle := jsonrpc2.HandlerWithError(func(ctx context.Context, c *jsonrpc2.Conn, r *jsonrpc2.Request) (any, error) {
		result, err := s.handle(ctx, c, r)
		return result, wireError(err)
	}).SuppressErrClosed()
	s.conn = jsonrpc2.NewConn(life, jsonrpc2.NewPlainObjectStream(conn), handlerFunc(func(ctx context.Context, c *jsonrpc2.Conn, r *jsonrpc2.Request) {
		<-ready
		if r.Method == methodInterrupt && !waits(r) || r.Method == methodAnswer || r.Method == methodPing {
			handle.Handle(ctx, c, r) // fast, and must not wait for requests that wait for the end of the turn
			return
		}
		if r.Method == methodInterrupt {
			s.begin(func() { handle.Handle(ctx, c, r) }) // ends with the turn
			return
		}
		select {
		case slots <- struct{}{}:
		case <-s.ctx.Done():
			return
		}
		if !s.begin(func() { // ends with the request
			defer func() { <-slots }()
			handle.Handle(ctx, c, r)
		}) {
			<-slots
		}
	}), jsonrpc2.SetLogger(s.log.StandardLogger(&hclog.StandardLoggerOptions{ForceLevel: hclog.Debug})))
	close(ready)
	select {
	case <-s.conn.DisconnectNotify():
	case <-ctx.Done():
		s.flush()
	}
	cancel()
	if err := s.conn.Close(); err != nil && !errors.Is(err, jsonrpc2.ErrClosed) {
		s.log.Debug("client left", "err", err)
	}
	s.mu.Lock()
	s.mu.closed = true
	leave := s.mu.leave
	s.mu.Unlock()
	if leave != nil {
		leave()
	}
	s.work.Wait()
}

// flush waits until the subscription has delivered the last event of a thread that has ended.
func (s *session) flush() {
	s.mu.Lock()
	sent := s.mu.sent
	s.mu.Unlock()
	if sent == nil {
		return
	}
	bound := time.NewTimer(lastWords)
	defer bound.Stop()
	select {
	case <-sent:
	case <-s.conn.DisconnectNotify():
	case <-bound.C:
		s.log.Debug("client left without the thread's last events", "waited", lastWords)
	}
}

type handlerFunc func(context.Context, *jsonrpc2.Conn, *jsonrpc2.Request)

func (f handlerFunc) Handle(ctx context.Context, c *jsonrpc2.Conn, r *jsonrpc2.Request) { f(ctx, c, r) }

// handle runs one request. Its errors are converted for the response; an unknown method has an error of its own.
func (s *session) handle(ctx context.Context, _ *jsonrpc2.Conn, r *jsonrpc2.Request) (any, error) {
	switch r.Method {
	case methodSubscribe, methodCurrent, methodPlugins, methodTurns, methodList, methodSearch, methodPing:
	default:
		if s.family {
			s.log.Warn("a process that this host has started was refused", "method", r.Method)
			return nil, errFamily
		}
	}
	switch r.Method {
	case methodSubscribe:
		return call(ctx, r, s.subscribe)
	case methodStart:
		return call(ctx, r, s.start)
	case methodSteer:
		return call(ctx, r, s.steer)
	case methodMail:
		return call(ctx, r, s.mail)
	case methodCompact:
		a, err := s.thread.Submit(ctx, thread.Submission{Compact: true})
		return StartResult{Turn: a.Turn, Steered: a.Steered}, err
	case methodSettings:
		return call(ctx, r, func(ctx context.Context, p Settings) (any, error) { return nil, s.thread.Configure(ctx, p.change()) })
	case methodCurrent:
		return settingsOf(s.thread.Settings()), nil
	case methodShell:
		return call(ctx, r, s.shell)
	case methodReview:
		return call(ctx, r, s.review)
	case methodInterrupt:
		return call(ctx, r, s.interrupt)
	case methodAnswer:
		return call(ctx, r, s.answer)
	case methodPlugins:
		return s.plugins.PluginStatus(), nil
	case methodReload:
		return call(ctx, r, s.reload)
	case methodFork:
		return call(ctx, r, s.fork)
	case methodRevert:
		return call(ctx, r, s.revert)
	case methodRollback:
		return call(ctx, r, s.rollback)
	case methodArchive, methodUnarchive:
		return nil, s.thread.Library.ArchiveThread(ctx, s.thread.ID(), r.Method == methodArchive)
	case methodName:
		return call(ctx, r, s.name)
	case methodStop:
		return call(ctx, r, s.stop)
	case methodUndo:
		return call(ctx, r, s.undo)
	case methodTurns:
		return call(ctx, r, s.turns)
	case methodList:
		return call(ctx, r, s.list)
	case methodSearch:
		return call(ctx, r, s.search)
	case methodPing:
		return nil, nil
	}
	return nil, &jsonrpc2.Error{Code: jsonrpc2.CodeMethodNotFound, Message: fmt.Sprintf("no method %q", r.Method)}
}

// call decodes the parameters of a method and calls f.
func call[P, R any](ctx context.Context, r *jsonrpc2.Request, f func(context.Context, P) (R, error)) (any, error) {
	var p P
	if r.Params != nil {
		if err := json.Unmarshal(*r.Params, &p); err != nil {
			return nil, &jsonrpc2.Error{Code: jsonrpc2.CodeInvalidParams, Message: fmt.Sprintf("%s: %v", r.Method, err)}
		}
	}
	return f(ctx, p)
}

var errSubscribed = errors.New("this connection is subscribed already")

func (s *session) subscribe(ctx context.Context, p SubscribeParams) (SubscribeResult, error) {
	if p.Attend && s.family {
		return SubscribeResult{}, errFamily
	}
	sub, err := s.thread.Subscribe(ctx, thread.Disconnect)
	if err != nil {
		return SubscribeResult{}, err
	}
	if p.After < sub.After() {
		// The log is written asynchronously: wait until the events to replay are stored.
		if err := s.thread.Barrier(ctx, sub.After()); err != nil {
			sub.Close()
			return SubscribeResult{}, fmt.Errorf("replay the thread's events: %w", err)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.subscribed || s.mu.closed {
		sub.Close()
		return SubscribeResult{}, errSubscribed
	}
	s.mu.subscribed = true
	if p.Attend {
		attend, wait := s.thread.Approvals().Attend(), s.thread.Wait()
		s.mu.leave = func() { attend(); wait() }
	}
	sent := make(chan struct{})
	s.mu.sent = sent
	s.work.Go(func() { // ends with the connection, or with the thread
		defer close(sent)
		defer sub.Close()
		s.send(sub, p.After)
	})
	return SubscribeResult{Thread: s.thread.ID(), Cwd: s.thread.Settings().Cwd}, nil
}

// send replays the stored events and continues with new ones. Numbers ensure that there are no gaps or duplicates.
func (s *session) send(sub *thread.Subscription, after uint64) {
	if after < sub.After() {
		for e, err := range s.thread.Events(s.ctx, after) {
			if err != nil {
				s.log.Warn("events not replayed", "err", err)
				s.lagged(after)
				return
			}
			if e.Seq > sub.After() {
				break
			}
			if s.conn.Notify(s.ctx, noteEvent, e) != nil {
				return
			}
			after = e.Seq
		}
	}
	for {
		e, err := sub.Next(s.ctx)
		if errors.Is(err, thread.ErrLagged) {
			s.lagged(after)
			return
		}
		if err != nil {
			return
		}
		if s.conn.Notify(s.ctx, noteEvent, e) != nil {
			return
		}
		after = max(after, e.Seq)
	}
}

// lagged sends the last notification of a client that has to subscribe again.
func (s *session) lagged(after uint64) {
	_ = s.conn.Notify(s.ctx, noteLagged, map[string]uint64{"after": after}) // the client may be gone
}

func (s *session) start(ctx context.Context, p StartParams) (StartResult, error) {
	if strings.TrimSpace(p.Text) == "" && len(p.Parts) == 0 {
		return StartResult{}, errors.New("the task is empty")
	}
	in, err := input(p.Text, p.Parts, p.AdditionalContext, p.ClientID)
	if err != nil {
		return StartResult{}, err
	}
	a, err := s.thread.Submit(ctx, thread.Submission{Input: in, OutputSchema: p.OutputSchema, Change: p.change(), Durable: true})
	return StartResult{Turn: a.Turn, Steered: a.Steered, Repeated: a.Repeated}, err
}

func (s *session) steer(ctx context.Context, p SteerParams) (StartResult, error) {
	in, err := input(p.Text, p.Parts, p.AdditionalContext, p.ClientID)
	if err != nil {
		return StartResult{}, err
	}
	a, err := s.thread.Steer(ctx, p.ExpectedTurn, in)
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

// maxTimeoutMS is the maximum of a time.Duration in milliseconds.
const maxTimeoutMS = int64(math.MaxInt64 / time.Millisecond)

func (s *session) shell(ctx context.Context, p ShellParams) (ShellResult, error) {
	if p.TimeoutMS > maxTimeoutMS {
		return ShellResult{}, fmt.Errorf("timeoutMs is %d; it must be at most %d", p.TimeoutMS, maxTimeoutMS)
	}
	task, call, err := s.thread.Shell.Task(p.Command, time.Duration(p.TimeoutMS)*time.Millisecond)
	if err != nil {
		return ShellResult{}, err
	}
	a, err := s.thread.Submit(ctx, thread.Submission{Task: task})
	return ShellResult{Turn: a.Turn, Concurrent: a.Concurrent, Call: call}, err
}

func (s *session) review(ctx context.Context, p ReviewParams) (StartResult, error) {
	task, err := s.thread.Reviewer.Task(ctx, s.thread.Settings().Cwd, p.Target)
	if err != nil {
		return StartResult{}, err
	}
	a, err := s.thread.Submit(ctx, thread.Submission{Task: task})
	return StartResult{Turn: a.Turn}, err
}

// waits reports whether a request to interrupt waits for the end of the turn.
func waits(r *jsonrpc2.Request) bool {
	var p InterruptParams
	return r.Params != nil && json.Unmarshal(*r.Params, &p) == nil && (p.Wait || p.Turn != "")
}

func (s *session) interrupt(ctx context.Context, p InterruptParams) (any, error) {
	if p.Wait || p.Turn != "" {
		return nil, s.thread.InterruptTurn(ctx, p.Turn, orchestrate.ErrInterrupted)
	}
	return nil, s.thread.Interrupt(ctx, orchestrate.ErrInterrupted)
}

// contextKey reports whether a key is valid as part of an element's name.
func contextKey(key string) bool {
	const allowed = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_"
	return key != "" && len(key) <= 64 && strings.Trim(key, allowed) == ""
}

func (s *session) answer(_ context.Context, p AnswerParams) (any, error) {
	return nil, s.thread.Approvals().Resolve(p.ID, approval.Answer{Choice: p.Choice, Data: p.Data, By: "user"})
}

func (s *session) reload(ctx context.Context, p ReloadParams) (any, error) {
	return nil, s.plugins.ReloadPlugin(ctx, p.Plugin, p.Path)
}
