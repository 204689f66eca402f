package provider

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
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

// run implements Main. Tests replace parts of the process in cfg.
func run(ctx context.Context, p Plugin, cfg wire.ServeConfig) int {
	if cfg.Stderr == nil {
		cfg.Stderr = os.Stderr
	}
	if cfg.Logger == nil {
		cfg.Logger = wire.NewLogger(cfg.Stderr)
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	s, err := newServer(p, cfg.Logger, stop)
	if err != nil {
		fmt.Fprintf(cfg.Stderr, "gantry plugin %s: %v\n", p.Name, err)
		return 1
	}
	cfg.Manifest = func() *contract.Manifest { return s.manifest }
	cfg.MaxMessageBytes = int(s.manifest.Limits.MaxMessageBytes)
	cfg.Register = s.register
	cfg.Stop = s.shutdown
	return wire.Serve(ctx, cfg)
}

func newServer(p Plugin, logger hclog.Logger, stop func()) (*server, error) {
	m, err := p.manifest()
	if err != nil {
		return nil, err
	}
	return &server{plugin: p, manifest: m, logger: logger, stop: stop}, nil
}

func (s *server) register(srv *grpc.Server) {
	gantryv1.RegisterPluginServiceServer(srv, s)
	gantryv1.RegisterProviderServiceServer(srv, s)
}

// server implements both services of a provider plugin.
type server struct {
	gantryv1.UnimplementedPluginServiceServer
	gantryv1.UnimplementedProviderServiceServer

	plugin   Plugin
	manifest *contract.Manifest
	logger   hclog.Logger
	stop     func() // begins the shutdown of the process

	configuring sync.Mutex // held by Configure
	closing     sync.WaitGroup

	mu struct {
		sync.Mutex
		current  *instance // nil before the first successful Configure
		draining bool
		running  int
		idle     chan struct{} // closed when running becomes 0 during a drain; otherwise nil
	}
}

// instance is a configured provider.
type instance struct {
	env      Env
	provider Provider
	uses     sync.WaitGroup // running requests; incremented with server.mu held while the instance is current
}

// close waits for the last request and releases the instance's resources.
func (i *instance) close() error {
	i.uses.Wait()
	var err error
	if c, ok := i.provider.(io.Closer); ok {
		err = c.Close()
	}
	return errors.Join(err, i.env.Host.close())
}

const drainingMessage = "the plugin is draining and accepts no new requests"

func (s *server) isDraining() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.draining
}

// acquire returns the current provider for a request. The caller must call release at its end.
func (s *server) acquire() (_ *instance, release func(), _ error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := s.mu.current
	switch {
	case s.mu.draining:
		return nil, nil, status.Error(codes.Unavailable, drainingMessage)
	case i == nil:
		return nil, nil, status.Error(codes.FailedPrecondition, "the plugin is not configured")
	}
	i.uses.Add(1)
	s.mu.running++
	return i, func() {
		i.uses.Done()
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.mu.running--; s.mu.running == 0 && s.mu.idle != nil {
			close(s.mu.idle)
			s.mu.idle = nil
		}
	}, nil
}

// Describe implements the plugin service.
func (s *server) Describe(context.Context, *gantryv1.DescribeRequest) (*gantryv1.DescribeResponse, error) {
	return &gantryv1.DescribeResponse{Manifest: convert.ManifestToProto(s.manifest)}, nil
}

// Configure implements the plugin service. The new provider replaces the previous one only if it was created without errors.
func (s *server) Configure(ctx context.Context, r *gantryv1.ConfigureRequest) (*gantryv1.ConfigureResponse, error) {
	s.configuring.Lock()
	defer s.configuring.Unlock()
	if s.isDraining() {
		return nil, status.Error(codes.Unavailable, drainingMessage)
	}
	config := s.newConfig()
	data := r.GetConfigJson()
	if len(data) == 0 {
		data = []byte("{}")
	}
	diags := configblock.Decode(data, config)
	if hasErrors(diags) {
		return &gantryv1.ConfigureResponse{Diagnostics: convert.DiagnosticsToProto(diags)}, nil
	}
	host, err := newHost(ctx, r.GetHost())
	if err != nil {
		return nil, status.Error(codes.FailedPrecondition, err.Error())
	}
	configblock.Bind(config, host.Secret)
	env := Env{
		Label: r.GetLabel(), DataDir: r.GetDataDir(), CacheDir: r.GetCacheDir(), Host: host, Logger: s.logger, Config: config,
	}
	p, err := s.plugin.New(ctx, env)
	diags = append(diags, configblock.Diagnostics(err)...)
	if err != nil && !hasErrors(diags) || p == nil && err == nil {
		diags = append(diags, contract.Diagnostic{
			Severity: contract.SeverityError, Summary: "the plugin returned no provider", Next: "Report this to the plugin's author.",
		})
	}
	if hasErrors(diags) {
		if cerr := host.close(); cerr != nil {
			s.logger.Warn("closing the connection to the host failed", "err", cerr)
		}
		return &gantryv1.ConfigureResponse{Diagnostics: convert.DiagnosticsToProto(diags)}, nil
	}
	s.replace(&instance{env: env, provider: p})
	return &gantryv1.ConfigureResponse{Diagnostics: convert.DiagnosticsToProto(diags)}, nil
}

// newConfig returns a new value of the type of Plugin.Config.
func (s *server) newConfig() any {
	t := reflect.TypeOf(s.plugin.Config)
	if t == nil {
		return nil
	}
	return reflect.New(t.Elem()).Interface()
}

func hasErrors(ds []contract.Diagnostic) bool {
	return slices.ContainsFunc(ds, func(d contract.Diagnostic) bool { return d.Severity != contract.SeverityWarning })
}

// replace makes i, which may be nil, the current instance, and closes the previous one when its requests have ended.
func (s *server) replace(i *instance) {
	s.mu.Lock()
	old := s.mu.current
	s.mu.current = i
	s.mu.Unlock()
	if old == nil {
		return
	}
	s.closing.Go(func() {
		if err := old.close(); err != nil {
			s.logger.Warn("closing the provider failed", "err", err)
		}
	})
}

// Command implements the plugin service.
func (s *server) Command(ctx context.Context, r *gantryv1.CommandRequest) (*gantryv1.CommandResponse, error) {
	for _, c := range s.plugin.Commands {
		if c.Name != r.GetName() {
			continue
		}
		i, release, err := s.acquire()
		if err != nil {
			return nil, err
		}
		defer release()
		out, err := c.Run(context.WithValue(ctx, tokenKey{}, r.GetCallToken()), i.env, r.GetInputJson())
		if err != nil {
			return &gantryv1.CommandResponse{Error: err.Error()}, nil
		}
		return &gantryv1.CommandResponse{OutputJson: out}, nil
	}
	return nil, status.Errorf(codes.NotFound, "the plugin has no command %q", r.GetName())
}

// Drain implements the plugin service.
func (s *server) Drain(ctx context.Context, r *gantryv1.DrainRequest) (*gantryv1.DrainResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(max(r.GetDeadlineMs(), 0))*time.Millisecond)
	defer cancel()
	return &gantryv1.DrainResponse{StillRunning: int32(s.drain(ctx))}, nil
}

// drain rejects new requests and waits for the running ones until ctx ends. It returns the number of those still running.
func (s *server) drain(ctx context.Context) int {
	s.mu.Lock()
	s.mu.draining = true
	if s.mu.running > 0 && s.mu.idle == nil {
		s.mu.idle = make(chan struct{})
	}
	idle := s.mu.idle
	s.mu.Unlock()
	if idle != nil {
		select {
		case <-idle:
		case <-ctx.Done():
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.running
}

// Stop implements the plugin service.
func (s *server) Stop(context.Context, *gantryv1.StopRequest) (*gantryv1.StopResponse, error) {
	s.stop()
	return &gantryv1.StopResponse{}, nil
}

// shutdown drains the plugin and closes its provider, until ctx ends.
func (s *server) shutdown(ctx context.Context) {
	s.drain(ctx)
	s.replace(nil)
	closed := make(chan struct{})
	// Owner: shutdown until ctx ends; then the process, which exits.
	go func() { s.closing.Wait(); close(closed) }()
	select {
	case <-closed:
	case <-ctx.Done():
	}
}
