// Package appserver serves the app server's protocol: programs that were written for codex's app server work with gantry's threads.
//
// It owns the methods, what a connection has to do before it may use them, which connection receives which notification, and the
// questions that clients answer. It does not know how a client is connected, how messages are framed, or how threads run.
//
// Start with [New] and [Server.Serve].
package appserver

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/hub"
	"github.com/gantry-agent/gantry/host/internal/protocol"
	"github.com/gantry-agent/gantry/host/internal/rpc"
	"github.com/hashicorp/go-hclog"
)

// Config configures a server. Hub and Home are required.
type Config struct {
	Hub     *hub.Hub
	Home    string // gantry's home folder
	Version string
	// Workspace is that of threads whose client names no folder.
	Workspace hub.Workspace
	Logger    hclog.Logger
	// FramePaths: clients can connect for the frames of a view; [Server.Frames] serves them.
	FramePaths bool
	// Accounts stores keys and logs in; nil: clients can't.
	Accounts Accounts
	// RPC has the bounds of connections.
	RPC rpc.Config
}

// Server serves any number of connections.
type Server struct {
	cfg      Config
	log      hclog.Logger
	handlers map[string]handler // fixed after New

	life context.Context // ends with Close
	end  context.CancelFunc
	work sync.WaitGroup

	mu struct {
		sync.Mutex
		closing bool
		clients map[*client]bool
		feeds   map[event.ThreadID]*feed
		// settling are requests that wait until all connections have been told what they have changed.
		settling map[event.ThreadID]chan struct{}
		frames   map[string]*shown             // views whose client has not connected for the frames, by their token
		logins   map[string]context.CancelFunc // that wait for the user
	}
}

// New returns a server. [Server.Close] ends it.
func New(cfg Config) *Server {
	s := &Server{cfg: cfg, log: cfg.Logger}
	s.life, s.end = context.WithCancel(context.Background())
	s.mu.clients, s.mu.feeds, s.mu.settling = map[*client]bool{}, map[event.ThreadID]*feed{}, map[event.ThreadID]chan struct{}{}
	s.mu.frames = map[string]*shown{}
	s.mu.logins = map[string]context.CancelFunc{}
	s.handlers = s.methods()
	changes := cfg.Hub.Watch()
	s.work.Go(func() { // ends with the server
		s.watch(changes)
	})
	return s
}

// Close ends all connections and waits for them. Threads continue until the hub is closed.
func (s *Server) Close() {
	s.mu.Lock()
	s.mu.closing = true
	s.mu.Unlock()
	s.end()
	s.work.Wait()
}

// begin runs f in a goroutine that Close waits for. It returns false if the server is closing.
func (s *Server) begin(f func()) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.closing {
		return false
	}
	s.work.Go(f)
	return true
}

// Serve serves a connection until it ends, ctx ends, or the server is closed. launched says that the client is a process that a host of
// this process has started, such as a command of an agent: it may read threads, and nothing else.
func (s *Server) Serve(ctx context.Context, stream rpc.Stream, launched bool) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.life, cancel)()
	c := &client{server: s, launched: launched, subs: map[event.ThreadID]*subscription{}}
	cfg := s.cfg.RPC
	cfg.Route, cfg.Handle, cfg.Answered, cfg.Logger = c.route, c.handle, c.answered, s.log
	c.conn = rpc.New(stream, cfg)
	c.life, c.end = context.WithCancel(ctx)
	defer c.close()
	return c.conn.Serve(ctx)
}

// Idle waits until no thread of this process runs a turn, or ctx ends.
func (s *Server) Idle(ctx context.Context) {
	changes := s.cfg.Hub.Watch()
	defer func() { changes.Close() }()
	for {
		if !slices.ContainsFunc(s.cfg.Hub.Loaded(), func(id event.ThreadID) bool { return s.cfg.Hub.Status(id).State == hub.Active }) {
			return
		}
		if _, err := changes.Next(ctx); err != nil {
			if hub.ErrorOf(err).Code != hub.Lagged {
				return
			}
			changes.Close()
			changes = s.cfg.Hub.Watch()
		}
	}
}

// all returns the connections that receive broadcasts.
func (s *Server) all() []*client {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Keys(s.mu.clients))
}

// broadcast sends a notification about a thread to all connections but those whose subscription reports it. key identifies the state that
// a newer notification replaces.
func (s *Server) broadcast(thread event.ThreadID, key, method string, params any, subscribers bool) {
	o := outgoing{params: params}
	for _, c := range s.all() {
		if c.optedOut(method) || !subscribers && c.subscribed(thread) {
			continue
		}
		raw, err := o.encoded(c.stable())
		if err != nil {
			s.log.Error("notification not sent", "method", method, "err", err)
			return
		}
		c.post(thread, key, rpc.Notification{Method: method, Params: raw, EmittedAtMs: now()})
	}
}

func now() int64 { return time.Now().UnixMilli() }

// watch tells all connections what happens to threads.
func (s *Server) watch(changes *hub.Changes) {
	defer func() { changes.Close() }()
	defer s.settled("")
	for {
		ch, err := changes.Next(s.life)
		switch {
		case err != nil && hub.ErrorOf(err).Code == hub.Lagged:
			changes.Close()
			changes = s.cfg.Hub.Watch()
			s.settled("")
			for _, id := range s.cfg.Hub.Loaded() {
				s.changed(hub.Change{Kind: hub.ThreadStatus, Thread: id, Status: s.cfg.Hub.Status(id)})
			}
		case err != nil:
			return
		default:
			s.changed(ch)
		}
	}
}

// changed reports a change of a thread. Subscribers learn of its status, its name, and what happens to it while it runs in order with its
// other events. The subscriptions to a thread that does not run are about to end, so that they report nothing more.
func (s *Server) changed(ch hub.Change) {
	id := string(ch.Thread)
	if ch.Kind == hub.ThreadLoaded && !ch.Status.Remote {
		return // the request that loads it announces it, after its response
	}
	stopped := ch.Status.State == hub.NotLoaded
	switch ch.Kind {
	case hub.ThreadStatus, hub.ThreadLoaded:
		s.broadcast(ch.Thread, "status/"+id, protocol.NotifyThreadStatusChanged.Name,
			protocol.ThreadStatusChangedNotification{ThreadID: id, Status: statusOf(ch.Status)}, false)
	case hub.ThreadClosed:
		s.broadcast(ch.Thread, "status/"+id, protocol.NotifyThreadStatusChanged.Name,
			protocol.ThreadStatusChangedNotification{ThreadID: id, Status: protocol.ThreadStatus{Body: protocol.NotLoadedStatus{}}}, true)
		s.broadcast(ch.Thread, "closed/"+id, protocol.NotifyThreadClosed.Name, protocol.ThreadClosedNotification{ThreadID: id}, true)
	case hub.ThreadNamed:
		s.broadcast(ch.Thread, "name/"+id, protocol.NotifyThreadNameUpdated.Name,
			protocol.ThreadNameUpdatedNotification{ThreadID: id, ThreadName: orNull(ch.Name)}, stopped)
	case hub.ThreadArchived:
		s.broadcast(ch.Thread, "archived/"+id, protocol.NotifyThreadArchived.Name, protocol.ThreadArchivedNotification{ThreadID: id}, stopped)
		s.settled(ch.Thread)
	case hub.ThreadUnarchived:
		s.broadcast(ch.Thread, "archived/"+id, protocol.NotifyThreadUnarchived.Name, protocol.ThreadUnarchivedNotification{ThreadID: id}, stopped)
		s.settled(ch.Thread)
	case hub.ThreadReverted:
		s.broadcast(ch.Thread, "reverted/"+id, protocol.NotifyThreadReverted.Name, protocol.ThreadRevertedNotification{ThreadID: id}, stopped)
	case hub.ThreadDeleted:
		s.broadcast(ch.Thread, "deleted/"+id, protocol.NotifyThreadDeleted.Name, protocol.ThreadDeletedNotification{ThreadID: id}, true)
		s.settled(ch.Thread)
	}
}

// settled continues the requests that wait for the report of a change of a thread; "": of all threads.
func (s *Server) settled(id event.ThreadID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for thread, done := range s.mu.settling {
		if thread == id || id == "" {
			close(done)
			delete(s.mu.settling, thread)
		}
	}
}

// changing makes a change of a thread that all connections are told of. This one is told after the response, but before it that the thread
// is not loaded any more, if that is so.
func (c *call) changing(ctx context.Context, id event.ThreadID, change func() error) error {
	s := c.server
	c.afterwards(c.holdBroadcasts(id))
	s.mu.Lock()
	done := s.mu.settling[id] // of another connection's request, of which only one succeeds
	if done == nil {
		done = make(chan struct{})
		s.mu.settling[id] = done
	}
	s.mu.Unlock()
	if t, ok := s.cfg.Hub.Find(ctx, id); ok && t.Remote() {
		s.settled(id) // this process may learn of it later
	}
	if err := change(); err != nil {
		s.settled(id)
		return err
	}
	select {
	case <-done:
	case <-ctx.Done():
	case <-s.life.Done():
	}
	return nil
}

// statusOf converts the state of a thread.
func statusOf(st hub.Status) protocol.ThreadStatus {
	switch st.State {
	case hub.Idle:
		return protocol.ThreadStatus{Body: protocol.IdleStatus{}}
	case hub.Failed:
		return protocol.ThreadStatus{Body: protocol.SystemErrorStatus{}}
	case hub.Active:
		flags := []protocol.ActiveFlag{}
		if st.WaitingOnApproval {
			flags = append(flags, protocol.WaitingOnApproval)
		}
		if st.WaitingOnInput {
			flags = append(flags, protocol.WaitingOnUserInput)
		}
		return protocol.ThreadStatus{Body: protocol.ActiveStatus{ActiveFlags: flags}}
	}
	return protocol.ThreadStatus{Body: protocol.NotLoadedStatus{}}
}

// orNull returns nil for "".
func orNull(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}
