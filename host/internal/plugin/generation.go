package plugin

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"
	goplugin "github.com/hashicorp/go-plugin"
	gorunner "github.com/hashicorp/go-plugin/runner"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/gantry-agent/gantry/host/internal/plugin/hostsocket"
	"github.com/gantry-agent/gantry/host/internal/plugin/manifest"
	"github.com/gantry-agent/gantry/host/internal/plugin/proc"
	"github.com/gantry-agent/gantry/host/internal/plugin/socketdir"
	"github.com/gantry-agent/gantry/sdk/contract"
	gantryv1 "github.com/gantry-agent/gantry/sdk/proto/gantry/v1"
	"github.com/gantry-agent/gantry/sdk/wire"
)

// generation is one process of a slot.
type generation struct {
	id       Identity
	spec     Spec
	sha256   string
	program  string // the key of its cached manifest
	toolSet  string // the key of its cached tool set in toolSets
	toolSets manifest.ToolSets
	logger   hclog.Logger
	times    timing

	runner   *runner
	client   *goplugin.Client
	conn     *grpc.ClientConn
	sockets  *hostsocket.Sockets     // nil if its folder was not created
	served   bool                    // whether sockets are
	folders  []string                // its own folders
	peerErr  atomic.Pointer[refusal] // why the process that listens was refused
	listener atomic.Int64            // PID of the process that listens; 0 if the transport does not tell
	maxSend  atomic.Int64            // size of the largest message that the plugin receives

	manifest *contract.Manifest
	warnings []contract.Diagnostic
	began    time.Time
	ready    time.Time
	took     StartTimes

	// stopping is closed when running calls should end; see [Lease.Stopping].
	stopping     chan struct{}
	stoppingOnce sync.Once
	// drainEnd is closed when a drain in progress should end early.
	drainEnd     chan struct{}
	drainEndOnce sync.Once
	latency      atomic.Int64 // of the last health check, in nanoseconds
	onEnd        func(Identity)
	cleanOnce    sync.Once

	calls  callCounter
	ending ending
}

// StartTimes are the durations of the steps of a start.
type StartTimes struct {
	Verify    time.Duration // opening and hashing the file
	Execute   time.Duration // until the system runs the process
	Handshake time.Duration // until there is a connection
	Connect   time.Duration // until the response to Describe, the first call
	Configure time.Duration
	Total     time.Duration
}

// Exited is closed when the process has ended.
func (g *generation) Exited() <-chan struct{} { return g.runner.process.Exited() }

// enter adds a call. It returns false if the process takes no new calls.
func (g *generation) enter() bool {
	select {
	case <-g.Exited():
		return false
	default:
		return g.calls.enter()
	}
}

func (g *generation) endDrain() { g.drainEndOnce.Do(func() { close(g.drainEnd) }) }

func (g *generation) stopCalls() { g.stoppingOnce.Do(func() { close(g.stopping) }) }

// checkPeer checks that a process that connects to the host belongs to this plugin.
func (g *generation) checkPeer(p wire.Peer) error {
	if err := wire.SameUser(p); err != nil {
		return err
	}
	return g.runner.process.Owns(p.PID)
}

// checkListener checks that the process that listens for the host belongs to this plugin.
func (g *generation) checkListener(p wire.Peer) error {
	err := g.checkPeer(p)
	if err != nil {
		g.peerErr.Store(&refusal{err})
	}
	g.listener.Store(int64(p.PID))
	return err
}

// readable reports whether other processes of the user can read the memory of the process that listens.
func (g *generation) readable() bool {
	pid := g.runner.process.PID()
	return g.runner.process.Open(cmp.Or(int(g.listener.Load()), pid))
}

// launcher starts processes. All slots of a supervisor share it.
type launcher struct {
	cfg     Config
	times   timing
	starter *proc.Starter
	hostDir string
	logger  hclog.Logger
}

// launch starts a process and prepares it for calls. If launch fails, it leaves nothing behind.
func (l *launcher) launch(ctx context.Context, spec Spec, id Identity) (_ *generation, err error) {
	g := &generation{
		id: id, spec: spec, times: l.times, began: time.Now(), onEnd: l.cfg.OnEnd, toolSets: l.cfg.toolSets(),
		logger:   l.logger.Named(spec.Label).With("plugin", spec.Label, "generation", id.Generation),
		stopping: make(chan struct{}), drainEnd: make(chan struct{}),
	}
	g.maxSend.Store(wire.DefaultMaxMessageBytes)
	file, err := l.cfg.verify(spec)
	if err != nil {
		if e, ok := errors.AsType[*Error](err); ok {
			e.Generation = id.Generation
		}
		return nil, err
	}
	defer file.Close()
	g.sha256 = file.SHA256
	g.program = l.cfg.program(file.SHA256, spec)
	g.took.Verify = time.Since(g.began)

	hello := wire.Hello{Token: wire.NewToken(), Transport: spec.Transport}
	creds, err := g.credentials(&hello)
	if err != nil {
		return nil, g.problem(PhaseStart, err)
	}
	data, cache, err := l.folders(spec.Label)
	if err != nil {
		return nil, g.problem(PhaseStart, err)
	}

	for _, p := range []string{data, cache} {
		if p != "" && p != "/" {
			g.folders = append(g.folders, p)
		}
	}
	startCtx, cancel := context.WithTimeoutCause(ctx, spec.StartTimeout,
		fmt.Errorf("no handshake within %v", spec.StartTimeout))
	defer cancel()
	g.runner = newRunner(spec, l.starter, file, hello, data, g.logger, l.cfg.Redact)
	g.client = goplugin.NewClient(&goplugin.ClientConfig{
		HandshakeConfig: goplugin.HandshakeConfig{
			ProtocolVersion: wire.ProtocolVersion, MagicCookieKey: wire.CookieKey, MagicCookieValue: wire.CookieValue,
		},
		Plugins:          goplugin.PluginSet{},
		AllowedProtocols: []goplugin.Protocol{goplugin.ProtocolGRPC},
		SkipHostEnv:      true,
		StartTimeout:     spec.StartTimeout + time.Second, // startCtx ends earlier, with an error that says why
		Logger:           hclog.NewNullLogger(),
		UnixSocketConfig: &goplugin.UnixSocketConfig{TempDir: l.hostDir},
		// Not used, because the credentials of GRPCDialOptions take precedence. Without it the library would crash on a
		// certificate in the handshake line, although our runner never passes one on.
		TLSConfig:       &tls.Config{MinVersion: tls.VersionTLS13},
		GRPCDialOptions: g.dialOptions(creds, hello.Token),
		RunnerFunc: func(_ hclog.Logger, _ *exec.Cmd, dir string) (gorunner.Runner, error) {
			if len(dir) > socketdir.MaxProcessDir {
				return nil, errors.Join(fmt.Errorf("folder %s is too long for sockets", dir), os.RemoveAll(dir))
			}
			g.sockets, g.folders = hostsocket.New(dir, g.logger), append(g.folders, filepath.Join(dir, TmpDir))
			g.runner.dir, g.runner.env = dir, spec.environment(dir).Build(l.cfg.lookupEnv)
			if spec.Confine != nil {
				if err := os.Mkdir(filepath.Join(dir, TmpDir), 0o700); err != nil {
					return nil, fmt.Errorf("create the plugin's temporary folder: %w", err)
				}
				var err error
				if g.runner.sandbox, err = spec.Confine(slices.DeleteFunc([]string{dir, data, cache}, func(p string) bool { return p == "" || p == "/" })); err != nil {
					return nil, err
				}
				g.runner.sandbox.Dial = g.sockets.Connect
				if spec.Kind == contract.KindProvider {
					g.runner.sandbox.Keep = l.keeper(g.runner.sandbox.Launcher, file.Path, dir, g.runner.env)
				}
			}
			return g.runner, nil
		},
	})

	// Killing the process ends every wait of the library, so this enforces the timeout.
	unwatch := context.AfterFunc(startCtx, g.runner.kill)
	protocol, err := g.client.Client()
	if !unwatch() && err == nil {
		err = context.Cause(startCtx)
	}
	if err != nil {
		if !g.runner.began {
			close(g.runner.done) // Start, which would close it, was not called
		}
		return nil, g.abort(g.startProblem(startCtx, err))
	}
	g.took.Execute = g.runner.execution
	g.took.Handshake = time.Since(g.began) - g.took.Verify - g.took.Execute
	grpcClient, ok := protocol.(*goplugin.GRPCClient)
	if !ok {
		return nil, g.abort(g.problem(PhaseHandshake, errors.New("it doesn't use gRPC")))
	}
	g.conn = grpcClient.Conn

	if err := g.serve(l.cfg); err != nil {
		return nil, g.abort(g.problem(PhaseStart, err))
	}
	if err := g.setUp(ctx, l.cfg, data, cache); err != nil {
		return nil, g.abort(err)
	}
	g.ready = time.Now()
	g.took.Total = g.ready.Sub(g.began)
	g.calls.lastUse = g.ready
	// Owned by the process, and ends after it.
	go func() {
		<-g.Exited()
		g.cleanUp()
	}()
	return g, nil
}

// abort ends a process whose start failed with err, and adds to err how the process ended and what it printed.
func (g *generation) abort(err error) error {
	g.ending.request()
	if g.runner.process != nil {
		select {
		case <-g.Exited():
		default:
			g.runner.kill()
		}
	}
	g.cleanUp()
	if e, ok := errors.AsType[*Error](err); ok && g.runner.process != nil {
		g.describeEnd(e)
		g.noteCrash(e)
	}
	return err
}

// cleanUp waits for the end of a process that is ending, and releases its resources. It may be called several times.
func (g *generation) cleanUp() {
	g.cleanOnce.Do(func() {
		g.stopCalls()
		<-g.runner.done
		if g.sockets != nil {
			g.sockets.Close()
		}
		if g.served {
			g.onEnd(g.id)
		}
		// The process has ended, so this only closes the connection and ends the library's goroutines.
		g.client.Kill()
		g.calls.drain()
	})
}

// serve serves the host's side to the process.
func (g *generation) serve(cfg Config) error {
	var services func() gantryv1.HostServiceServer
	var descriptors func(net.Listener)
	if cfg.Services != nil {
		services = func() gantryv1.HostServiceServer { return cfg.Services(g.id) }
	}
	if cfg.Descriptors != nil {
		descriptors = func(ln net.Listener) { cfg.Descriptors(g.id, ln) }
	}
	err := g.sockets.Serve(services, descriptors, g.checkPeer)
	g.served = err == nil
	return err
}

// folders creates the plugin's own folders, if any are configured, and returns their paths without symbolic links, so that its processes
// can have the same paths in sandboxes. Without a data folder, its working folder is "/".
func (l *launcher) folders(label string) (data, cache string, err error) {
	data = "/"
	if l.cfg.DataDir != "" {
		data = filepath.Join(l.cfg.DataDir, label)
		if err := os.MkdirAll(data, 0o700); err != nil {
			return "", "", fmt.Errorf("create the plugin's data folder: %w", err)
		}
		if data, err = filepath.EvalSymlinks(data); err != nil {
			return "", "", fmt.Errorf("find the plugin's data folder: %w", err)
		}
	}
	if l.cfg.CacheDir != "" {
		cache = filepath.Join(l.cfg.CacheDir, label)
		if err := os.MkdirAll(cache, 0o700); err != nil {
			return "", "", fmt.Errorf("create the plugin's cache folder: %w", err)
		}
		if cache, err = filepath.EvalSymlinks(cache); err != nil {
			return "", "", fmt.Errorf("find the plugin's cache folder: %w", err)
		}
	}
	return data, cache, nil
}

// credentials creates the credentials of the connection, and adds the plugin's half to hello.
func (g *generation) credentials(hello *wire.Hello) (credentials.TransportCredentials, error) {
	if g.spec.Transport != wire.TransportTLS {
		return wire.PeerCredentials(g.checkListener), nil
	}
	server, client, err := wire.NewMaterials()
	if err != nil {
		return nil, err
	}
	hello.TLS = server
	cfg, err := wire.ClientTLS(client)
	if err != nil {
		return nil, err
	}
	return credentials.NewTLS(cfg), nil
}
