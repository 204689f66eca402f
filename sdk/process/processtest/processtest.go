// Package processtest provides a host for tests. It serves HostService on a unix socket and starts real processes, so that a
// plugin runs as it does with a real host.
//
// It owns: the process part of HostService, without grants or confinement, in-memory artifacts, and connections to any host. It must not know: which
// plugin is tested, or anything about the real host.
//
// Start with [Start].
package processtest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gantry-agent/gantry/sdk/process"
	gantryv1 "github.com/gantry-agent/gantry/sdk/proto/gantry/v1"
	"github.com/gantry-agent/gantry/sdk/wire"
)

// Options configures a [Host].
type Options struct {
	// Attach makes the host offer the Attach stream instead of descriptors.
	Attach bool
	// Service wraps the host if a test needs more than processes; nil: the host itself. It must embed or call h.
	Service func(h *Host) gantryv1.HostServiceServer
	// Refuse is called before each start; the plugin gets the error that it returns.
	Refuse func(*gantryv1.SpawnRequest) *gantryv1.SpawnError
}

// Host is a running host.
type Host struct {
	gantryv1.UnimplementedHostServiceServer

	opts        Options
	tb          testing.TB
	dir         string
	token       string
	conn        *grpc.ClientConn
	server      *grpc.Server
	descriptors net.Listener
	tasks       sync.WaitGroup
	life        context.Context // ends with the test

	mu struct {
		sync.Mutex
		spawned   []*gantryv1.SpawnRequest
		processes map[string]*running
		tokens    map[string]*running
		artifacts map[string]Artifact
		declared  map[string]*gantryv1.SpawnRequest
		connected []string

		unanswered []string
	}
}

// Start starts a host. It is closed, and the processes that it has started are killed, when the test ends.
func Start(tb testing.TB, opts Options) *Host {
	tb.Helper()
	// The path of t.TempDir contains the test's name, and so may be too long for a socket.
	dir, err := os.MkdirTemp("", "host")
	if err != nil {
		tb.Fatal(err)
	}
	h := &Host{opts: opts, tb: tb, dir: dir, token: wire.NewToken()}
	h.mu.processes, h.mu.tokens = map[string]*running{}, map[string]*running{}
	h.mu.artifacts, h.mu.declared = map[string]Artifact{}, map[string]*gantryv1.SpawnRequest{}
	ln, err := net.Listen("unix", h.Socket())
	if err != nil {
		tb.Fatal(err)
	}
	unary, stream := wire.RequireToken(h.token)
	srv := grpc.NewServer(grpc.UnaryInterceptor(unary), grpc.StreamInterceptor(stream),
		grpc.Creds(wire.PeerCredentials(wire.SameUser)), grpc.MaxRecvMsgSize(wire.DefaultMaxMessageBytes))
	h.server = srv
	var service gantryv1.HostServiceServer = h
	if opts.Service != nil {
		service = opts.Service(h)
	}
	gantryv1.RegisterHostServiceServer(srv, service)
	h.tasks.Go(func() { _ = srv.Serve(ln) })
	if !opts.Attach {
		if h.descriptors, err = net.Listen("unix", filepath.Join(dir, "fd.sock")); err != nil {
			tb.Fatal(err)
		}
		h.tasks.Go(h.handOver)
	}
	life, end := context.WithCancel(context.Background())
	h.life = life
	out, err := net.Listen("unix", h.Egress())
	if err != nil {
		tb.Fatal(err)
	}
	h.tasks.Go(func() { h.connect(out) })
	if h.conn, err = wire.DialHost(context.Background(), h.Socket(), h.token); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		_ = h.conn.Close()
		h.KillAll()
		srv.Stop()
		end()
		_ = out.Close()
		if h.descriptors != nil {
			_ = h.descriptors.Close()
		}
		h.tasks.Wait()
		_ = os.RemoveAll(dir)
	})
	return h
}

// Stop ends the services, as if the host had died. Processes keep running until the test ends.
func (h *Host) Stop() { h.server.Stop() }

// Socket returns the path of the services' socket.
func (h *Host) Socket() string { return filepath.Join(h.dir, "host.sock") }

// Token returns the token of the services.
func (h *Host) Token() string { return h.token }

// Descriptors returns the path of the socket for descriptors, or "" with Options.Attach.
func (h *Host) Descriptors() string {
	if h.descriptors == nil {
		return ""
	}
	return h.descriptors.Addr().String()
}

// Facts returns the facts about this host that Configure passes to a plugin.
func (h *Host) Facts() *gantryv1.HostFacts {
	return &gantryv1.HostFacts{
		Version: "0.0.0-test", ServicesSocket: h.Socket(), ServicesToken: h.token,
		DescriptorsSocket: h.Descriptors(), ContractVersion: 1, EgressSocket: h.Egress(),
	}
}

// Client returns a client of the services that sends their token.
func (h *Host) Client() gantryv1.HostServiceClient { return gantryv1.NewHostServiceClient(h.conn) }

// Broker returns a broker for the call with this token.
func (h *Host) Broker(callToken string) *process.Broker {
	return process.New(h.Client(), callToken, h.Descriptors())
}

// Spawned returns the requests of Spawn so far.
func (h *Host) Spawned() []*gantryv1.SpawnRequest {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.mu.spawned)
}

// Spawn implements HostService.
func (h *Host) Spawn(_ context.Context, req *gantryv1.SpawnRequest) (*gantryv1.SpawnResponse, error) {
	h.mu.Lock()
	h.mu.spawned = append(h.mu.spawned, req)
	h.mu.Unlock()
	if h.opts.Refuse != nil {
		if e := h.opts.Refuse(req); e != nil {
			return &gantryv1.SpawnResponse{Error: e}, nil
		}
	}
	if req.GetDeclared() != "" {
		var err error
		if req, err = h.declared(req); err != nil {
			return nil, status.Error(codes.InvalidArgument, err.Error())
		}
	}
	p, err := start(req)
	if err != nil {
		return &gantryv1.SpawnResponse{Error: startError(err)}, nil
	}
	p.session, p.keep, p.started = req.GetSession(), req.GetKeep(), time.Now()
	h.tasks.Go(p.reap)
	p.id = wire.NewToken()
	resp := &gantryv1.SpawnResponse{ProcessId: p.id, Pid: int64(p.cmd.Process.Pid), Descriptors: p.names}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.mu.processes[p.id] = p
	if !h.opts.Attach {
		resp.DescriptorToken = wire.NewToken()
		h.mu.tokens[resp.DescriptorToken] = p
	}
	return resp, nil
}

// Declare declares a process: SpawnRequest.declared = name starts argv in cwd with the variables env of p.
func (h *Host) Declare(name string, p *gantryv1.SpawnRequest) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.mu.declared[name] = p
}

// declared returns the request that starts a declared process. Like a host, it refuses a request that chooses what is started.
func (h *Host) declared(req *gantryv1.SpawnRequest) (*gantryv1.SpawnRequest, error) {
	h.mu.Lock()
	p := h.mu.declared[req.GetDeclared()]
	h.mu.Unlock()
	switch {
	case p == nil:
		return nil, fmt.Errorf("the configuration declares no process %q", req.GetDeclared())
	case req.GetCallToken() != "" || len(req.GetArgv()) > 0 || req.GetCwd() != "" || len(req.GetEnv()) > 0 || len(req.GetUnset()) > 0 ||
		req.GetSession() || req.GetReadOnly() || req.GetKeep() != nil || req.GetNarrow() || len(req.GetFolders()) > 0 || req.GetQuietNetwork() || req.GetOwner() != 0:
		return nil, fmt.Errorf("the request for the process %q sets more than terminal, stdin, merge_stderr and limits", req.GetDeclared())
	}
	return &gantryv1.SpawnRequest{
		Argv: p.GetArgv(), Env: p.GetEnv(), Cwd: p.GetCwd(), Terminal: req.GetTerminal(), Stdin: req.GetStdin(), MergeStderr: req.GetMergeStderr(),
	}, nil
}

// NextGeneration prepares for the plugin's next process: it ends all processes that are not kept. The next process gets
// unanswered as the calls that have no result.
func (h *Host) NextGeneration(unanswered ...string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.mu.unanswered = unanswered
	for _, p := range h.mu.processes {
		if p.keep == nil {
			_ = p.signal(&gantryv1.SignalRequest{KillTree: true})
			<-p.done
		}
	}
}

// Adopt implements HostService. It returns all kept sessions that have not been released.
func (h *Host) Adopt(_ context.Context, req *gantryv1.AdoptRequest) (*gantryv1.AdoptResponse, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	resp := &gantryv1.AdoptResponse{UnansweredCallIds: h.mu.unanswered}
	for id, p := range h.mu.processes {
		if p.keep == nil || p.released || len(req.GetProcessIds()) > 0 && !slices.Contains(req.GetProcessIds(), id) {
			continue
		}
		a := &gantryv1.AdoptedProcess{
			ProcessId: id, Pid: int64(p.cmd.Process.Pid), Descriptors: p.names, Argv: p.cmd.Args, ThreadId: "thread-1", CallId: "call-1",
			Cwd: p.cmd.Dir, Terminal: p.terminal != nil, Note: p.keep.GetNote(), StartedUnixMs: p.started.UnixMilli(),
		}
		if req.GetThreadId() != "" {
			a.ThreadId = req.GetThreadId()
		}
		if p.over() {
			a.Exited = p.exit
		}
		if !h.opts.Attach {
			a.DescriptorToken = wire.NewToken()
			h.mu.tokens[a.DescriptorToken] = p
		}
		resp.Processes = append(resp.Processes, a)
	}
	return resp, nil
}

// Release implements HostService.
func (h *Host) Release(_ context.Context, req *gantryv1.ReleaseRequest) (*gantryv1.ReleaseResponse, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, id := range req.GetProcessIds() {
		if p := h.mu.processes[id]; p != nil {
			p.released = true
		}
	}
	return &gantryv1.ReleaseResponse{}, nil
}

func (h *Host) process(id string) (*running, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	p := h.mu.processes[id]
	if p == nil {
		return nil, status.Errorf(codes.NotFound, "no process %q", id)
	}
	return p, nil
}

// ProcessStat implements HostService. It knows only whether the process runs.
func (h *Host) ProcessStat(_ context.Context, req *gantryv1.ProcessStatRequest) (*gantryv1.ProcessStatResponse, error) {
	p, err := h.process(req.GetProcessId())
	if err != nil || p.over() {
		return &gantryv1.ProcessStatResponse{}, err
	}
	return &gantryv1.ProcessStatResponse{Pids: 1}, nil
}

// Signal implements HostService.
func (h *Host) Signal(_ context.Context, req *gantryv1.SignalRequest) (*gantryv1.SignalResponse, error) {
	p, err := h.process(req.GetProcessId())
	if err != nil {
		return nil, err
	}
	if p.over() && !req.GetKillTree() { // what a process has left can still be killed
		return &gantryv1.SignalResponse{Gone: true}, nil
	}
	if err := p.signal(req); errors.Is(err, syscall.ESRCH) {
		return &gantryv1.SignalResponse{Gone: true}, nil
	} else if err != nil {
		return nil, status.Error(codes.Internal, err.Error())
	}
	return &gantryv1.SignalResponse{}, nil
}

// Wait implements HostService.
func (h *Host) Wait(ctx context.Context, req *gantryv1.WaitRequest) (*gantryv1.WaitResponse, error) {
	p, err := h.process(req.GetProcessId())
	if err != nil {
		return nil, err
	}
	select {
	case <-p.done:
		return p.exit, nil
	case <-ctx.Done():
		return nil, status.FromContextError(ctx.Err()).Err()
	}
}

// handOver serves the socket for descriptors.
func (h *Host) handOver() {
	for {
		conn, err := h.descriptors.Accept()
		if err != nil {
			return
		}
		if err := h.handOverTo(conn.(*net.UnixConn)); err != nil {
			h.tb.Logf("hand descriptors over: %v", err)
		}
	}
}

func (h *Host) handOverTo(conn *net.UnixConn) error {
	defer conn.Close()
	line, err := bufio.NewReader(conn).ReadString('\n')
	if err != nil {
		return err
	}
	token := strings.TrimSuffix(line, "\n")
	h.mu.Lock()
	p := h.mu.tokens[token]
	delete(h.mu.tokens, token)
	h.mu.Unlock()
	if p == nil {
		return errors.New("unknown token")
	}
	if err := wire.SendDescriptors(conn, p.files); err != nil {
		return err
	}
	if !p.session && p.terminal == nil {
		// Like a host: only the plugin has them now, so that closing stdin ends the input.
		h.mu.Lock()
		defer h.mu.Unlock()
		p.close()
		p.files, p.names = nil, nil
	}
	return nil
}

// KillAll kills all processes and waits for them.
func (h *Host) KillAll() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, p := range h.mu.processes {
		_ = p.signal(&gantryv1.SignalRequest{KillTree: true})
		<-p.done
		p.close()
	}
}

// String returns a name for test logs.
func (h *Host) String() string { return fmt.Sprintf("host at %s", h.dir) }
