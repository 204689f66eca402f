package appserver

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net"
	"os"
	"sync"

	"github.com/creachadair/jrpc2"
	"github.com/creachadair/jrpc2/channel"
	"github.com/creachadair/jrpc2/handler"
	"github.com/gantry-agent/gantry/host/internal/approval"
	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/orchestrate"
	"github.com/gantry-agent/gantry/host/internal/thread"
	"github.com/gantry-agent/gantry/host/internal/turn"
	"github.com/gantry-agent/gantry/sdk/llm"
	"github.com/gantry-agent/gantry/sdk/wire"
	"github.com/hashicorp/go-hclog"
)

// Thread is a running thread and its log.
type Thread struct {
	*thread.Thread
	// Events reads the stored ones after a number.
	Events func(ctx context.Context, after uint64) iter.Seq2[event.Event, error]
}

// Plugins is what a client may do with the host's plugins.
type Plugins interface {
	PluginStatus() []PluginStatus
	ReloadPlugin(ctx context.Context, label, path string) error
}

// Serve answers clients on ln until ctx ends, then closes it and waits for them. Only processes of the same user are
// let in.
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
		if err != nil {
			log.Warn("client refused", "err", err)
			conn.Close()
			continue
		}
		clients.Go(func() { // ends with its connection or ctx
			defer conn.Close()
			(&session{thread: t, plugins: p, log: log}).serve(ctx, conn)
		})
	}
}

// session is one client.
type session struct {
	thread  Thread
	plugins Plugins
	log     hclog.Logger
	server  *jrpc2.Server
	work    sync.WaitGroup
	ctx     context.Context // of the connection

	mu struct {
		sync.Mutex
		subscribed bool
		leave      func()
	}
}

func (s *session) serve(ctx context.Context, conn net.Conn) {
	ctx, cancel := context.WithCancel(ctx)
	s.ctx = ctx
	s.server = jrpc2.NewServer(handler.Map{
		methodSubscribe: handler.New(s.subscribe), methodStart: handler.New(s.start), methodInterrupt: handler.New(s.interrupt),
		methodAnswer: handler.New(s.answer), methodPlugins: handler.New(s.list), methodReload: handler.New(s.reload),
	}, &jrpc2.ServerOptions{AllowPush: true, Concurrency: maxConcurrent})
	stop := context.AfterFunc(ctx, s.server.Stop)
	s.server.Start(channel.Line(conn, conn))
	if err := s.server.Wait(); err != nil {
		s.log.Debug("client left", "err", err)
	}
	stop()
	cancel()
	s.work.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.leave != nil {
		s.mu.leave()
	}
}

// maxConcurrent is how many requests of one client run at once; others wait in its socket.
const maxConcurrent = 16

var errSubscribed = errors.New("this connection is subscribed already")

func (s *session) subscribe(_ context.Context, p SubscribeParams) (SubscribeResult, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.subscribed {
		return SubscribeResult{}, errSubscribed
	}
	sub, err := s.thread.Subscribe(s.ctx, thread.Disconnect)
	if err != nil {
		return SubscribeResult{}, err
	}
	s.mu.subscribed = true
	if p.Attend {
		s.mu.leave = s.thread.Desk().Attend()
	}
	s.work.Go(func() { // ends with the connection
		defer sub.Close()
		s.send(sub, p.After)
	})
	return SubscribeResult{Thread: s.thread.ID(), Cwd: s.thread.Started().Cwd}, nil
}

// send replays what is stored and goes on with what comes; the numbers make it seamless.
func (s *session) send(sub *thread.Subscription, after uint64) {
	if after < sub.After() {
		for e, err := range s.thread.Events(s.ctx, after) {
			if err != nil {
				s.log.Warn("events not replayed", "err", err)
				return
			}
			if e.Seq > sub.After() {
				break
			}
			if s.server.Notify(s.ctx, noteEvent, e) != nil {
				return
			}
			after = e.Seq
		}
	}
	for {
		e, err := sub.Next(s.ctx)
		if errors.Is(err, thread.ErrLagged) {
			_ = s.server.Notify(s.ctx, noteLagged, map[string]uint64{"after": after}) // the client is slow or gone
			return
		}
		if err != nil {
			return
		}
		if s.server.Notify(s.ctx, noteEvent, e) != nil {
			return
		}
		after = max(after, e.Seq)
	}
}

func (s *session) start(ctx context.Context, p StartParams) (StartResult, error) {
	in := turn.Input{Parts: []llm.Part{&llm.Text{Text: p.Text}}}
	a, err := s.thread.Submit(ctx, thread.Submission{Input: in, OutputSchema: p.OutputSchema})
	return StartResult{Turn: a.Turn, Steered: a.Steered}, err
}

func (s *session) interrupt(ctx context.Context) error {
	return s.thread.Interrupt(ctx, orchestrate.ErrInterrupted)
}

func (s *session) answer(_ context.Context, p AnswerParams) error {
	return s.thread.Desk().Resolve(p.ID, approval.Answer{Choice: p.Choice, Data: p.Data, By: "user"})
}

func (s *session) list(context.Context) []PluginStatus { return s.plugins.PluginStatus() }

func (s *session) reload(ctx context.Context, p ReloadParams) error {
	return s.plugins.ReloadPlugin(ctx, p.Plugin, p.Path)
}
