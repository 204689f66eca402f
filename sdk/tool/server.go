package tool

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gantry-agent/gantry/sdk/configblock"
	"github.com/gantry-agent/gantry/sdk/contract"
	gantryv1 "github.com/gantry-agent/gantry/sdk/proto/gantry/v1"
	"github.com/gantry-agent/gantry/sdk/wire"
	"github.com/gantry-agent/gantry/sdk/wire/convert"
)

// Server serves the contract of one plugin on any gRPC server. [Main] creates it for a plugin process; a test can run it on
// an in-memory connection.
type Server struct {
	gantryv1.UnimplementedPluginServiceServer
	gantryv1.UnimplementedToolServiceServer

	plugin   Plugin
	manifest *contract.Manifest
	logger   hclog.Logger
	gate     *gate
	tools    *tools
	threads  *threads
	onStop   func()          // begins the shutdown of the process
	closing  context.Context // ends when Close begins
	shut     context.CancelCauseFunc
	closed   sync.Once // for Plugin.Close

	mu struct {
		sync.Mutex
		env   *Env
		conns map[string]*grpc.ClientConn // connections to the host, by socket and token
		grace time.Duration               // for calls that Close cancels
	}
}

// NewServer validates the plugin and creates its server, without starting anything. logger may be nil.
func NewServer(p Plugin, logger hclog.Logger) (*Server, error) {
	if logger == nil {
		logger = hclog.NewNullLogger()
	}
	m, err := p.manifest()
	if err != nil {
		return nil, err
	}
	s := &Server{
		plugin: p, manifest: m, logger: logger, threads: newThreads(logger), onStop: func() {},
		gate: newGate(p.Name, int(p.Limits.MaxParallelCalls)),
	}
	if s.tools, err = newTools(p.Tools); err != nil {
		return nil, err
	}
	s.closing, s.shut = context.WithCancelCause(context.Background())
	s.mu.conns = map[string]*grpc.ClientConn{}
	return s, nil
}

// Manifest returns the manifest that Describe returns.
func (s *Server) Manifest() *contract.Manifest { return s.manifest }

// Register adds the services of the contract to a gRPC server.
func (s *Server) Register(r grpc.ServiceRegistrar) {
	gantryv1.RegisterPluginServiceServer(r, s)
	gantryv1.RegisterToolServiceServer(r, s)
}

// services returns the names of the host's RPCs that a capability permits.
func services(capability string) []string {
	switch capability {
	case "spawn":
		return []string{"Spawn", "Signal", "Wait", "Attach", "Adopt", "Release"}
	case "ask":
		return []string{"Ask", "Redirect"}
	case "call-tools":
		return []string{"CallTool", "ListTools"}
	case "sample":
		return []string{"Sample"}
	case "secrets":
		return []string{"Secret", "StoreSecret"}
	case "state":
		return []string{"GetState", "PutState", "ListState", "Lease"}
	}
	return nil
}

func (p Plugin) manifest() (*contract.Manifest, error) {
	config, err := configblock.Schema(p.Config)
	if err != nil {
		return nil, fmt.Errorf("config: %w", err)
	}
	m := &contract.Manifest{
		Name: p.Name, Version: p.Version, Kind: contract.KindTool, ContractVersions: []uint32{contract.Version},
		Description: p.Description, Config: config, Capabilities: slices.Clone(p.Capabilities),
		HostServices: []string{"Authorize", "Emit", "GetArtifact", "PutArtifact"}, Limits: p.Limits,
		Instructions: p.Instructions, Handover: p.Adopt != nil,
	}
	if config.HasSecrets() && !slices.Contains(m.Capabilities, "secrets") {
		m.Capabilities = append(m.Capabilities, "secrets")
	}
	for _, c := range m.Capabilities {
		m.HostServices = append(m.HostServices, services(c)...)
	}
	slices.Sort(m.HostServices)
	m.HostServices = slices.Compact(m.HostServices)
	var errs []error
	seen := map[string]bool{}
	for _, c := range p.Commands {
		if c.run == nil || c.err != nil || seen[c.spec.Name] {
			errs = append(errs, fmt.Errorf("command %q %w", c.spec.Name, cmp.Or(c.err, errors.New("use NewCommand, once per name"))))
		}
		seen[c.spec.Name] = true
		m.Commands = append(m.Commands, c.spec)
	}
	for _, t := range p.Tools {
		errs = append(errs, t.check())
		m.Tools = append(m.Tools, t.descriptor)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	if err := m.Validate(); err != nil {
		return nil, fmt.Errorf("manifest: %w", err)
	}
	return m, nil
}

// Describe implements PluginService.
func (s *Server) Describe(context.Context, *gantryv1.DescribeRequest) (*gantryv1.DescribeResponse, error) {
	return &gantryv1.DescribeResponse{Manifest: convert.ManifestToProto(s.manifest)}, nil
}

// Configure implements PluginService. Errors in the block are diagnostics, never a gRPC status.
func (s *Server) Configure(ctx context.Context, req *gantryv1.ConfigureRequest) (*gantryv1.ConfigureResponse, error) {
	done, err := s.gate.configure(ctx)
	if err != nil {
		return nil, err
	}
	ok := false
	defer func() { done(ok) }()
	env, err := s.newEnv(ctx, req)
	if err != nil {
		return nil, status.Errorf(codes.Unavailable, "reach the host's services: %v", err)
	}
	restore := snapshot(s.plugin.Config)
	diags := configblock.Decode(req.GetConfigJson(), s.plugin.Config)
	if !failed(diags) {
		configblock.Bind(s.plugin.Config, env.secret)
		if s.plugin.Configured != nil {
			err := s.guard("configured", func() error { return s.plugin.Configured(ctx, env) })
			diags = append(diags, configblock.Diagnostics(err)...)
		}
	}
	if ok = !failed(diags); ok {
		s.mu.Lock()
		s.mu.env = env
		s.mu.Unlock()
	} else {
		restore()
	}
	return &gantryv1.ConfigureResponse{Diagnostics: convert.DiagnosticsToProto(diags)}, nil
}

func failed(ds []contract.Diagnostic) bool {
	return slices.ContainsFunc(ds, func(d contract.Diagnostic) bool { return d.Severity != contract.SeverityWarning })
}

// snapshot copies the config struct and returns a function that restores it.
func snapshot(ptr any) (restore func()) {
	if ptr == nil {
		return func() {}
	}
	now := reflect.ValueOf(ptr).Elem()
	before := reflect.New(now.Type()).Elem()
	before.Set(now)
	return func() { now.Set(before) }
}

func (s *Server) newEnv(ctx context.Context, req *gantryv1.ConfigureRequest) (*Env, error) {
	facts := req.GetHost()
	env := &Env{
		Label: req.GetLabel(), DataDir: req.GetDataDir(), CacheDir: req.GetCacheDir(), Generation: req.GetGeneration(),
		HostVersion: facts.GetVersion(), HostLimits: convert.LimitsFromProto(facts.GetLimits()),
		HostCapabilities: facts.GetCapabilities(), Logger: s.logger, Config: s.plugin.Config,
		server: s, descriptors: facts.GetDescriptorsSocket(), egress: facts.GetEgressSocket(),
	}
	socket, token := facts.GetServicesSocket(), facts.GetServicesToken()
	if socket == "" {
		return env, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	key := socket + "\x00" + token
	conn := s.mu.conns[key]
	if conn == nil {
		var err error
		if conn, err = wire.DialHost(ctx, socket, token); err != nil {
			return nil, err
		}
		s.mu.conns[key] = conn // a previous connection stays open until Close, for users of the previous Env
	}
	env.client = gantryv1.NewHostServiceClient(conn)
	return env, nil
}

// env returns the current environment; nil before the first successful Configure.
func (s *Server) env() *Env {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.env
}

// Command implements PluginService.
func (s *Server) Command(ctx context.Context, req *gantryv1.CommandRequest) (*gantryv1.CommandResponse, error) {
	i := slices.IndexFunc(s.plugin.Commands, func(c Command) bool { return c.spec.Name == req.GetName() })
	if i < 0 {
		return nil, status.Errorf(codes.NotFound, "plugin %q has no command %q", s.plugin.Name, req.GetName())
	}
	leave, err := s.gate.enter(ctx, false)
	if err != nil {
		return nil, err
	}
	defer leave()
	var out []byte
	call := &CommandCall{env: s.env(), token: req.GetCallToken(), confirmed: req.GetConfirmed()}
	err = s.guard("command "+req.GetName(), func() (err error) {
		out, err = s.plugin.Commands[i].run(ctx, call, req.GetInputJson())
		return err
	})
	resp := &gantryv1.CommandResponse{OutputJson: out}
	if err == nil {
		resp.Edits, resp.Next = convert.ConfigEditsToProto(call.edits), convert.NextCommandToProto(call.next)
	}
	if err != nil {
		resp.OutputJson, resp.Error = nil, err.Error()
		if d, ok := errors.AsType[*contract.Diagnostic](err); ok {
			resp.Diagnostics = convert.DiagnosticsToProto([]contract.Diagnostic{*d})
		}
	}
	return resp, nil
}

// Drain implements PluginService.
func (s *Server) Drain(ctx context.Context, req *gantryv1.DrainRequest) (*gantryv1.DrainResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(req.GetDeadlineMs())*time.Millisecond)
	defer cancel()
	var hook sync.WaitGroup
	if s.plugin.Drain != nil {
		hook.Go(func() {
			if err := s.guard("drain", func() error { return s.plugin.Drain(ctx) }); err != nil {
				s.logger.Error("drain failed", "err", err)
			}
		})
	}
	running := s.gate.drain(ctx)
	hook.Wait()
	return &gantryv1.DrainResponse{StillRunning: int32(running)}, nil
}

// Stop implements PluginService. The process exits after the response.
func (s *Server) Stop(context.Context, *gantryv1.StopRequest) (*gantryv1.StopResponse, error) {
	s.onStop()
	return &gantryv1.StopResponse{}, nil
}

// ErrShutdown is the cause of contexts that end because the plugin shuts down.
var ErrShutdown = errors.New("tool: the plugin ends")

// Close refuses new work, cancels running calls, lets the plugin clean up, and waits for both until ctx ends. Call it again
// to continue waiting.
func (s *Server) Close(ctx context.Context) error {
	grace := defaultGrace
	if until, ok := ctx.Deadline(); ok {
		grace = min(grace, max(time.Until(until), time.Millisecond))
	}
	s.mu.Lock()
	s.mu.grace = grace
	conns := s.mu.conns
	s.mu.conns = map[string]*grpc.ClientConn{}
	s.mu.Unlock()
	s.shut(ErrShutdown)
	hook := make(chan error, 1)
	// Owned by the server: ends when Plugin.Close returns. Close waits for it until ctx ends.
	go func() {
		var err error
		if s.plugin.Close != nil {
			s.closed.Do(func() { err = s.guard("close", func() error { return s.plugin.Close(ctx) }) })
		}
		hook <- err
	}()
	var err error
	if n := s.gate.drain(ctx); n > 0 {
		err = fmt.Errorf("%d calls are still running: %w", n, context.Cause(ctx))
	}
	select {
	case herr := <-hook:
		err = errors.Join(err, herr)
	case <-ctx.Done():
		err = errors.Join(err, fmt.Errorf("the plugin's Close has not returned: %w", context.Cause(ctx)))
	}
	s.threads.endAll()
	for _, c := range conns {
		err = errors.Join(err, c.Close())
	}
	return err
}

// closeGrace is the time that calls have to return their results after Close has begun.
func (s *Server) closeGrace() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.grace
}

// PanicError is a panic in the plugin's code, recovered at the boundary of one call or task.
type PanicError struct {
	Where string
	Value any
}

// Error implements error.
func (e *PanicError) Error() string { return fmt.Sprintf("%s crashed: %v", e.Where, e.Value) }

// guard runs f, a piece of the plugin's code, and turns a panic into an error. The stack is logged.
func (s *Server) guard(where string, f func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			s.logger.Error("plugin code panicked", "where", where, "panic", fmt.Sprint(v), "stack", string(debug.Stack()))
			err = &PanicError{Where: where, Value: v}
		}
	}()
	return f()
}
