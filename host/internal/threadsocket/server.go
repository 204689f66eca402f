package threadsocket

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"iter"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/goal"
	"github.com/gantry-agent/gantry/host/internal/proctree"
	"github.com/gantry-agent/gantry/host/internal/review"
	"github.com/gantry-agent/gantry/host/internal/thread"
	"github.com/gantry-agent/gantry/host/internal/usershell"
	"github.com/gantry-agent/gantry/sdk/wire"
	"github.com/hashicorp/go-hclog"
)

// Thread is a running thread and its log.
type Thread struct {
	*thread.Thread
	// Events reads the stored events after a number.
	Events func(ctx context.Context, after uint64) iter.Seq2[event.Event, error]
	// Committed returns when the events up to a number survive the end of this process.
	Committed func(ctx context.Context, seq uint64) error
	Library   Library
	Shell     *usershell.Shell
	Reviewer  *review.Reviewer
	Plugins   Plugins
	// Goal returns what keeps the thread's goal.
	Goal func() (*goal.Keeper, error)
	// CallTool calls a tool in a turn of its own and returns when it has ended.
	CallTool func(context.Context, ToolCall) (ToolResult, error)
}

// Plugins is what clients can do with the plugins of the host that runs a thread.
type Plugins interface {
	PluginStatus(ctx context.Context) []PluginStatus
	ReloadPlugin(ctx context.Context, label, path string) error
	// RunCommand runs a command of a plugin and returns its output, JSON. The errors include [ErrNoCommand] and [ErrNotConfirmed].
	RunCommand(ctx context.Context, p CommandParams) (json.RawMessage, error)
}

// Config configures a server. Home is required.
type Config struct {
	Home   string       // contains the run folder
	Logger hclog.Logger // nil: none
	// Serve serves a client that speaks the protocol of the app server: its first message is the request initialize, or an HTTP request.
	// launched says that this process has started the client, so that it may only read. Serve returns when the connection or ctx ends.
	// nil: such clients are refused.
	Serve func(ctx context.Context, conn net.Conn, launched bool)
	// Use keeps a thread from being unloaded until done is called, for a client that gets all its events or a view. nil: threads are not
	// unloaded.
	Use func(event.ThreadID) (done func(), err error)
}

func (s *Server) use(id event.ThreadID) (done func(), err error) {
	if s.cfg.Use == nil {
		return func() {}, nil
	}
	return s.cfg.Use(id)
}

// Server serves the threads of a process on one socket. Only processes of the same user can connect; those that this process has started
// can only read.
type Server struct {
	cfg Config
	log hclog.Logger

	life context.Context // ends with Close
	end  context.CancelFunc
	work sync.WaitGroup

	mu struct {
		sync.Mutex
		closed  bool
		ln      *listener // nil: there was no thread yet
		threads map[event.ThreadID]*served
	}
}

// NewServer returns a server, which listens from the first thread on.
func NewServer(cfg Config) *Server {
	if cfg.Logger == nil {
		cfg.Logger = hclog.NewNullLogger()
	}
	s := &Server{cfg: cfg, log: cfg.Logger.Named("threadsocket")}
	s.life, s.end = context.WithCancel(context.Background())
	s.mu.threads = map[event.ThreadID]*served{}
	return s
}

// Owns reports whether a link in the run folder leads to this server.
func (s *Server) Owns(link string) bool {
	to, err := os.Readlink(link)
	s.mu.Lock()
	defer s.mu.Unlock()
	return err == nil && s.mu.ln != nil && to == filepath.Base(s.mu.ln.path)
}

// Close closes all connections and the socket, and waits. The threads should have ended before. It is idempotent.
func (s *Server) Close() error {
	s.mu.Lock()
	s.mu.closed = true
	ln := s.mu.ln
	s.mu.ln = nil
	s.mu.Unlock()
	s.end()
	var err error
	if ln != nil {
		err = ln.close()
	}
	s.work.Wait()
	return err
}

// lastWords is the time that clients have to read pending events when a thread ends. A client that is reading needs a moment; the
// subscriptions of others are ended.
const lastWords = time.Second

// served is a thread that clients can reach.
type served struct {
	Thread
	life context.Context // of what clients asked for; ends with the thread
	end  context.CancelFunc

	mu      sync.Mutex
	closing bool // no more work is started
	work    sync.WaitGroup
	subs    sync.WaitGroup // part of work
}

// Open makes a thread reachable, until the returned function is called. That should be after the end of the thread: it delivers the last
// events to subscribers, and waits. The caller holds the thread's lock until then, so that an existing link belongs to a process that has
// ended.
func (s *Server) Open(t Thread) (shut func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.closed {
		return nil, thread.ErrClosed
	}
	if runtime.GOOS == "windows" { // which does not report the user of a client, and lets few make links
		return func() {}, nil
	}
	if s.mu.ln == nil {
		ln, err := listen(s.cfg.Home)
		if err != nil {
			return nil, err
		}
		s.mu.ln = ln
		s.work.Go(func() { s.accept(ln) }) // ends with the socket
	}
	v := &served{Thread: t}
	v.life, v.end = context.WithCancel(s.life)
	s.mu.threads[t.ID()] = v
	link, err := s.mu.ln.link(t.ID())
	if err != nil {
		v.end()
		delete(s.mu.threads, t.ID())
		return nil, err
	}
	return func() {
		v.shut(s.log)
		if err := link.remove(); err != nil {
			s.log.Warn("link to the run socket not removed", "thread", t.ID(), "err", err)
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.mu.threads, t.ID())
	}, nil
}

// shut ends what clients have asked for.
func (t *served) shut(log hclog.Logger) {
	t.mu.Lock()
	t.closing = true
	t.mu.Unlock()
	told := make(chan struct{})
	go func() { // waited for below
		t.subs.Wait()
		close(told)
	}()
	bound := time.NewTimer(lastWords)
	defer bound.Stop()
	select {
	case <-told:
	case <-bound.C:
		log.Debug("clients without the thread's last events", "thread", t.ID(), "waited", lastWords)
	}
	t.end()
	<-told
	t.work.Wait()
}

// begin adds the caller to the work that shut waits for, until it calls done. ctx ends with the thread as well.
func (t *served) begin(ctx context.Context) (_ context.Context, done func(), err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closing {
		return nil, nil, thread.ErrClosed
	}
	t.work.Add(1)
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(t.life, func() { cancel(thread.ErrClosed) })
	return ctx, func() {
		stop()
		cancel(nil)
		t.work.Done()
	}, nil
}

func (s *Server) thread(id event.ThreadID) (*served, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t := s.mu.threads[id]; t != nil {
		return t, nil
	}
	return nil, thread.ErrClosed
}

func (s *Server) accept(ln *listener) {
	for {
		conn, err := ln.AcceptUnix()
		if err != nil {
			if s.life.Err() == nil {
				s.log.Warn("run socket closed", "err", err)
			}
			return
		}
		s.work.Go(func() { s.connected(conn) }) // ends with the connection, or soon after the server
	}
}

// connected serves a client.
func (s *Server) connected(conn *net.UnixConn) {
	defer conn.Close()
	peer, err := wire.PeerOf(conn)
	if err == nil {
		err = wire.SameUser(peer)
	}
	launched := false
	if err == nil {
		if launched, err = proctree.Contains(conn, os.Getpid(), peer.PID); errors.Is(err, errors.ErrUnsupported) {
			err = nil
		}
	}
	if err != nil {
		s.log.Warn("client refused", "err", err)
		return
	}
	stop := context.AfterFunc(s.life, func() { _ = conn.SetReadDeadline(time.Unix(1, 0)) }) // what reads the first message
	in := bufio.NewReaderSize(conn, firstSize)
	front := speaksFront(in)
	if !stop() {
		return
	}
	both := &bufferedConn{conn, in}
	if front && s.cfg.Serve != nil {
		s.cfg.Serve(s.life, both, launched)
		return
	}
	if err := (&session{server: s, launched: launched}).serve(s.life, both); err != nil {
		s.log.Debug("client left", "pid", peer.PID, "err", err)
	}
}

// firstSize is the size of the largest first message in bytes.
const firstSize = 64 << 10

// speaksFront reports whether the first message of a client is one of the app server's protocol.
func speaksFront(in *bufio.Reader) bool {
	for n := 1; n <= firstSize; n = in.Buffered() + 1 {
		if _, err := in.Peek(n); err != nil {
			return false
		}
		text, _ := in.Peek(in.Buffered())
		if text[0] == 'G' { // GET
			return true
		}
		line, _, whole := strings.Cut(string(text), "\n")
		var m struct{ Method string }
		if whole {
			return json.Unmarshal([]byte(line), &m) == nil && m.Method == "initialize"
		}
	}
	return false
}

// bufferedConn is a connection of which something has been read.
type bufferedConn struct {
	*net.UnixConn
	in *bufio.Reader
}

// Read implements [net.Conn].
func (c *bufferedConn) Read(b []byte) (int, error) { return c.in.Read(b) }
