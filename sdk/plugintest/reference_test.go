//go:build unix

package plugintest

import (
	"bufio"
	"cmp"
	"context"
	"crypto/tls"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/gantry-agent/gantry/sdk/configblock"
	"github.com/gantry-agent/gantry/sdk/contract"
	proc "github.com/gantry-agent/gantry/sdk/process"
	gantryv1 "github.com/gantry-agent/gantry/sdk/proto/gantry/v1"
	"github.com/gantry-agent/gantry/sdk/tool"
	"github.com/gantry-agent/gantry/sdk/wire"
	"github.com/gantry-agent/gantry/sdk/wire/convert"
)

// reference is a plugin that keeps every rule, with a place to break each. It serves by itself what sdk/wire would serve
// for it, since that leaves no way to do it wrong.
type reference struct {
	provider bool

	byHand    func() int                     // instead of explaining itself
	flag      func(out string) (string, int) // what --describe prints, and the status
	version   string                         // what --version prints
	manifest  func(*contract.Manifest)       // in both forms
	described func(*contract.Manifest)       // what Describe alone says
	begin     func()                         // before anything else of a hosted start
	listen    func(dir string) (net.Listener, error)
	line      func(wire.Handshake) string // the handshake line
	plain     bool                        // no TLS when it is asked for
	anybody   bool                        // no client certificate demanded
	exempt    []string                    // rpcs that need no token
	health    grpc_health_v1.HealthCheckResponse_ServingStatus
	closed    bool // health needs the token
	largest   int  // message received
	announced int  // what the manifest says of it; 0: nothing
	unary     grpc.UnaryServerInterceptor
	stream    grpc.StreamServerInterceptor
	services  func(s *services)
	during    func(ctx context.Context, c *tool.Call) error        // in each call of echo
	status    func(ctx context.Context, c *tool.CommandCall) error // in the command without side effects
	again     func(c *tool.CommandCall) error                      // how the command that calls echo goes on
	denied    func(ctx context.Context, c *tool.Call, path string) // after a denial in a call of keep
	adopts    string                                               // how it breaks the handover: "nothing", "by another name", "for good"

	deafTo       string // "shutdown", "SIGTERM", "lifeline" or "Stop" does nothing
	noController bool
	unanswered   bool // Shutdown exits before its answer
	exit         int
	keepSocket   bool
	last         func(reason string) // before the process ends
}

// config of the reference plugin for tools: something of each kind.
type config struct {
	settings
	Helper []helper `json:"helper" doc:"A program that the host starts."`
}

// settings are those that a provider has as well.
type settings struct {
	Region  string             `json:"region" doc:"Where it works." required:"true"`
	Units   string             `json:"units" doc:"Units of reports." default:"metric" enum:"metric,imperial"`
	Key     configblock.Secret `json:"key" doc:"Key of the service." sensitive:"true"`
	Station *station           `json:"station" doc:"A station to ask first."`
}

type helper struct {
	Name string `label:"name"`
	configblock.Process
}

type station struct {
	Height int `json:"height" doc:"Metres above the sea." default:"0"`
}

type text struct {
	Text string `json:"text" jsonschema:"what to say"`
}

type nothing struct{}

// examples are those that the reference plugin can serve; with them every check for tool plugins runs.
func examples() []Call {
	return []Call{
		{Tool: "echo", Arguments: []byte(`{"text":"Grüße aus dem Süden"}`)},
		{Tool: "note", Text: "a freeform text"},
		{Tool: "guarded", Arguments: []byte(`{"text":"/somewhere"}`)},
		{Tool: "keep", Arguments: []byte(`{"text":"what was said"}`)},
		{Tool: "wait", Does: Waits},
		{Tool: "flood", Does: Floods},
		{Tool: "crash", Does: Crashes},
		{Tool: "leave", Does: Leaves},
	}
}

const (
	goodConfig = `{"region":"north","key":"s3cret-of-the-kit","station":{"height":3}}`
	toolBlock  = `{"region":"north","key":"s3cret-of-the-kit","station":{"height":3},"helper":[{"name":"cat","command":"cat","args":["-u"],"env":{"LANG":"C"}}]}`
	secret     = "s3cret-of-the-kit"
)

func (r *reference) plugin() tool.Plugin {
	p := tool.Plugin{Name: "reference", Version: "1.2.3", Description: "Keeps every rule.", Config: &config{}, Capabilities: []string{"secrets", "spawn"}}
	p.Commands = []tool.Command{
		tool.NewCommand("status", "Says how it is.", func(ctx context.Context, c *tool.CommandCall, _ nothing) (any, error) {
			if r.status != nil {
				return nil, r.status(ctx, c)
			}
			return "ready", nil
		}),
		tool.NewCommand("reset", "Ends the process; the kit must not run it.", func(context.Context, *tool.CommandCall, nothing) (any, error) {
			os.Exit(4)
			return nil, nil
		}, tool.SideEffects()),
	}
	if r.provider {
		p.Config = &settings{}
		return p
	}
	again := tool.NewCommand("again", "Says something again.", func(_ context.Context, c *tool.CommandCall, in text) (any, error) {
		if r.again != nil {
			return nil, r.again(c)
		}
		return nil, c.CallTool("echo", in)
	}, tool.CallsTool())
	p.Commands = append(p.Commands, again)
	p.Tools = []tool.Tool{
		tool.New("echo", "Says it again.", func(ctx context.Context, c *tool.Call, in text) (*tool.Result, error) {
			if r.during != nil {
				if err := r.during(ctx, c); err != nil {
					return nil, err
				}
			}
			cmd := c.Env().Declared(ctx, "helper.cat")
			cmd.Stdin = strings.NewReader(in.Text)
			out, err := cmd.Output()
			if err != nil {
				return nil, err
			}
			return tool.Text(in.Text), c.Output(out)
		}, tool.ReadOnly(), tool.ParallelSafe()),
		tool.NewFreeform("note", "Takes a note.", contract.Freeform{}, func(_ context.Context, _ *tool.Call, s string) (*tool.Result, error) {
			return tool.Text("noted: " + s), nil
		}),
		tool.New("guarded", "Does nothing, but asks.", func(context.Context, *tool.Call, text) (*tool.Result, error) {
			return tool.Text("done"), nil
		}, tool.Assess(func(_ context.Context, _ *tool.AssessCall, in text) (*contract.Assessment, error) {
			return &contract.Assessment{Effects: []contract.Effect{contract.WriteEffect{Paths: []string{in.Text}}}, Summary: "write it", Digest: "d"}, nil
		})),
		tool.New("keep", "Keeps a text, if it may.", func(ctx context.Context, c *tool.Call, in text) (*tool.Result, error) {
			path := filepath.Join(c.Env().DataDir, "kept")
			if err := c.Authorize(ctx, contract.WriteEffect{Paths: []string{path}}); err != nil {
				if r.denied != nil {
					r.denied(ctx, c, path)
				}
				return nil, err
			}
			return tool.Text("kept"), os.WriteFile(path, []byte(in.Text), 0o600)
		}),
		tool.New("wait", "Waits.", func(ctx context.Context, _ *tool.Call, _ nothing) (*tool.Result, error) {
			<-ctx.Done()
			return &tool.Result{Aborted: true, Parts: tool.Text("waited").Parts}, nil
		}),
		tool.New("flood", "Writes without end.", func(ctx context.Context, c *tool.Call, _ nothing) (*tool.Result, error) {
			water := make([]byte, 32<<10)
			for i := range water {
				water[i] = 'w'
			}
			for ctx.Err() == nil {
				if err := c.Output(water); err != nil {
					return nil, err
				}
			}
			return tool.Text("ran dry"), nil
		}),
		tool.New("crash", "Panics.", func(context.Context, *tool.Call, nothing) (*tool.Result, error) { panic("as asked") }),
	}
	held := &holder{sessions: map[string]*proc.Cmd{}}
	p.Tools = append(p.Tools, tool.New("leave", "Leaves a session.", func(ctx context.Context, c *tool.Call, _ nothing) (*tool.Result, error) {
		const id = "left-1"
		cmd := c.Command(ctx, "sleep", "60")
		cmd.Session, cmd.Keep = true, &proc.Keep{Note: []byte(id)}
		if err := cmd.Start(); err != nil {
			return nil, err
		}
		held.hold(id, cmd, c.Thread().OpenSession(id, c.ID(), "sleep"))
		res := tool.Text("left")
		res.SessionID = id
		return res, nil
	}))
	p.View = func(ctx context.Context, v *tool.View) (string, error) {
		if !held.holds(v.Open().SessionID) {
			return "", tool.ErrNoSession
		}
		v.Opened(contract.ViewOpened{Kind: contract.ViewTerminal, Title: "sleep"})
		v.Output(0, make([]byte, 3*contract.MaxViewOutput)) // three frames
		<-ctx.Done()
		return "", nil
	}
	p.StopSession = func(_ context.Context, _, id string) error {
		if r.adopts == "for good" {
			return nil
		}
		return held.stop(id)
	}
	p.Adopt = func(_ context.Context, a *tool.Adoption) error {
		for _, x := range a.Processes {
			id := string(x.Note)
			switch r.adopts {
			case "nothing":
				return nil
			case "by another name":
				id += "-again"
			}
			if err := x.Cmd.Start(); err != nil {
				return err
			}
			held.hold(id, x.Cmd, a.Thread.ResumeSession(id, x.CallID, "sleep", 0))
		}
		return nil
	}
	return p
}

// holder holds the sessions of the reference plugin.
type holder struct {
	mu       sync.Mutex
	sessions map[string]*proc.Cmd
}

func (h *holder) hold(id string, cmd *proc.Cmd, s *tool.Session) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.sessions[id] = cmd
	// Owner: the session, which its process ends.
	go func() {
		_ = cmd.Wait()
		s.Exited(0)
		_ = cmd.Release()
	}()
}

func (h *holder) holds(id string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.sessions[id] != nil
}

func (h *holder) stop(id string) error {
	h.mu.Lock()
	cmd := h.sessions[id]
	h.mu.Unlock()
	if cmd == nil {
		return nil
	}
	return cmd.Kill()
}

// main is the plugin's.
func (r *reference) main() int {
	server, err := tool.NewServer(r.plugin(), nil)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	m := *server.Manifest()
	if r.provider {
		m.Kind = contract.KindProvider
	}
	m.Limits.MaxMessageBytes = int64(r.announced)
	if r.manifest != nil {
		r.manifest(&m)
	}
	switch {
	case len(os.Args) == 2 && os.Args[1] == "--describe":
		out, status := string(m.Canonical())+"\n", 0
		if r.flag != nil {
			out, status = r.flag(out)
		}
		fmt.Print(out)
		return status
	case len(os.Args) == 2 && os.Args[1] == "--version":
		out := m.Name + " " + m.Version
		if r.version != "" {
			out = r.version
		}
		fmt.Println(out)
		return 0
	case os.Getenv(wire.CookieKey) != wire.CookieValue:
		if r.byHand != nil {
			return r.byHand()
		}
		fmt.Fprintln(os.Stderr, "This is the reference plugin of the conformance kit; a host starts it.")
		return 1
	}
	status, err := r.serve(server, &m)
	if err != nil {
		fmt.Fprintln(os.Stderr, "reference plugin:", err)
		return 1
	}
	return status
}

func (r *reference) serve(server *tool.Server, m *contract.Manifest) (int, error) {
	if r.begin != nil {
		r.begin()
	}
	life := bufio.NewReader(os.NewFile(3, "lifeline"))
	hello, err := wire.ReadHello(life)
	if err != nil {
		return 0, err
	}
	ln, err := r.listener()
	if err != nil {
		return 0, err
	}
	creds, cert, err := r.credentials(hello)
	if err != nil {
		return 0, err
	}
	why := make(chan string, 8)
	grpcServer := r.newServer(server, m, hello, creds, why)

	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM)
	// Owner: the process.
	go func() { _ = grpcServer.Serve(ln) }()
	// Owner: the process.
	go func() {
		_, _ = io.Copy(io.Discard, life)
		why <- "lifeline"
	}()
	line := wire.Handshake{Core: 1, App: 1, Network: "unix", Address: ln.Addr().String(), Protocol: "grpc", Cert: cert}
	if r.line == nil {
		fmt.Println(line)
	} else {
		fmt.Print(r.line(line))
	}
	for {
		var reason string
		select {
		case reason = <-why:
		case <-signals:
			reason = "SIGTERM"
		}
		if reason == r.deafTo {
			continue
		}
		if r.last != nil {
			r.last(reason)
		}
		r.end(server, grpcServer, ln)
		return r.exit, nil
	}
}

// end lets running calls come to their results, for a short while. What ignores its end is left to that of the process.
func (r *reference) end(server *tool.Server, grpcServer *grpc.Server, ln net.Listener) {
	const grace = 300 * time.Millisecond
	ctx, cancel := context.WithTimeout(context.Background(), grace)
	defer cancel()
	_ = ln.Close()
	_ = server.Close(ctx)
	ended := make(chan struct{})
	// Owner: end, up to the grace; after that the end of the process.
	go func() { defer close(ended); grpcServer.GracefulStop() }()
	select {
	case <-ended:
	case <-time.After(grace):
	}
}

func (r *reference) listener() (net.Listener, error) {
	dir := os.Getenv(wire.SocketDirEnv)
	if r.listen != nil {
		return r.listen(dir)
	}
	ln, err := net.Listen("unix", filepath.Join(dir, "r"))
	if err == nil && r.keepSocket {
		ln.(*net.UnixListener).SetUnlinkOnClose(false)
	}
	return ln, err
}

func (r *reference) credentials(h wire.Hello) (credentials.TransportCredentials, string, error) {
	if h.Transport != wire.TransportTLS || r.plain {
		return localCredentials(), "", nil
	}
	tc, err := wire.ServerTLS(h.TLS)
	if err != nil {
		return nil, "", err
	}
	if r.anybody {
		tc.ClientAuth, tc.VerifyPeerCertificate, tc.VerifyConnection = tls.NoClientCert, nil, nil
	}
	return credentials.NewTLS(tc), base64.RawStdEncoding.EncodeToString(tc.Certificates[0].Certificate[0]), nil
}

func (r *reference) newServer(server *tool.Server, m *contract.Manifest, hello wire.Hello, creds credentials.TransportCredentials, why chan<- string) *grpc.Server {
	exempt := append([]string{"/plugin.GRPCController/"}, r.exempt...)
	if !r.closed {
		exempt = append(exempt, "/grpc.health.v1.Health/")
	}
	unary, stream := wire.RequireToken(hello.Token, exempt...)
	unaries, streams := []grpc.UnaryServerInterceptor{unary}, []grpc.StreamServerInterceptor{stream}
	if r.unary != nil {
		unaries = append(unaries, r.unary)
	}
	if r.stream != nil {
		streams = append(streams, r.stream)
	}
	largest := cmp.Or(r.largest, r.announced, wire.DefaultMaxMessageBytes)
	srv := grpc.NewServer(grpc.Creds(creds), grpc.MaxRecvMsgSize(largest), grpc.ChainUnaryInterceptor(unaries...), grpc.ChainStreamInterceptor(streams...))

	hs := health.NewServer()
	hs.SetServingStatus(wire.HealthService, max(r.health, grpc_health_v1.HealthCheckResponse_SERVING))
	grpc_health_v1.RegisterHealthServer(srv, hs)

	described := *m
	if r.described != nil {
		r.described(&described)
	}
	s := &services{Server: server, manifest: convert.ManifestToProto(&described), stop: func() { why <- "Stop" }}
	gantryv1.RegisterPluginServiceServer(srv, s)
	if r.provider {
		gantryv1.RegisterProviderServiceServer(srv, s)
	} else {
		gantryv1.RegisterToolServiceServer(srv, s)
	}
	if r.services != nil {
		r.services(s)
	}
	if !r.noController {
		r.registerController(srv, func() { why <- "shutdown" })
	}
	return srv
}

// services are the contract's, as sdk/tool serves them, and a provider beside.
type services struct {
	*tool.Server
	gantryv1.UnimplementedProviderServiceServer

	manifest *gantryv1.Manifest
	stop     func()
	draining atomic.Bool
	rows     []*gantryv1.ModelRow
	prepared *gantryv1.PrepareResponse
	answer   func(stream grpc.ServerStreamingServer[gantryv1.StreamResponse]) error
}

// Describe implements PluginService.
func (s *services) Describe(context.Context, *gantryv1.DescribeRequest) (*gantryv1.DescribeResponse, error) {
	return &gantryv1.DescribeResponse{Manifest: s.manifest}, nil
}

// Stop implements PluginService.
func (s *services) Stop(context.Context, *gantryv1.StopRequest) (*gantryv1.StopResponse, error) {
	s.stop()
	return &gantryv1.StopResponse{}, nil
}

// Drain implements PluginService.
func (s *services) Drain(ctx context.Context, r *gantryv1.DrainRequest) (*gantryv1.DrainResponse, error) {
	s.draining.Store(true)
	return s.Server.Drain(ctx, r)
}

func (r *reference) registerController(srv *grpc.Server, shutdown func()) {
	srv.RegisterService(&grpc.ServiceDesc{
		ServiceName: "plugin.GRPCController", HandlerType: (*any)(nil),
		Methods: []grpc.MethodDesc{{MethodName: "Shutdown", Handler: func(_ any, _ context.Context, dec func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
			if r.unanswered {
				os.Exit(0)
			}
			if r.deafTo != "shutdown" {
				shutdown()
			}
			return &emptypb.Empty{}, dec(&emptypb.Empty{})
		}}},
	}, nil)
}
