package wire

import (
	"bufio"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/hashicorp/go-hclog"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/gantry-agent/gantry/sdk/contract"
)

// DefaultStopGrace is the time that running calls have to end after Shutdown or SIGTERM. The host waits only one second
// before its next step, so a longer grace period would end in a kill.
const DefaultStopGrace = 700 * time.Millisecond

// ServeConfig configures [Serve]. Manifest and Register are required.
type ServeConfig struct {
	// Manifest returns the manifest that --describe prints. It is called at most once.
	Manifest func() *contract.Manifest
	// Register adds the plugin's own services. It is called once, before the socket exists.
	Register func(*grpc.Server)
	// Stop is called once when the shutdown begins, whatever its reason, and ends the background work of the plugin. ctx
	// ends with the grace period. Running calls are waited for at the same time. May be nil.
	Stop func(ctx context.Context)
	// Logger logs the lifecycle of the process. nil: [NewLogger] on Stderr.
	Logger hclog.Logger
	// MaxMessageBytes is the maximum size of received messages. 0: [DefaultMaxMessageBytes].
	MaxMessageBytes int
	// StopGrace limits the duration of the shutdown. 0: [DefaultStopGrace].
	StopGrace time.Duration
	// Args are the command-line arguments without the program. nil: those of the process.
	Args []string
	// Stdout receives the handshake line and the output of --describe; Stderr receives everything else. nil: those of the
	// process.
	Stdout, Stderr io.Writer
	// LookupEnv reads the environment. nil: that of the process.
	LookupEnv func(string) (string, bool)
}

// hostGoneGrace is the grace period if the host has died. There is no receiver for results any more, and the plugin must not outlive
// its host for long.
const hostGoneGrace = 300 * time.Millisecond

func (cfg ServeConfig) withDefaults() ServeConfig {
	if cfg.Args == nil {
		cfg.Args = os.Args[1:]
	}
	if cfg.Stdout == nil {
		cfg.Stdout = os.Stdout
	}
	if cfg.Stderr == nil {
		cfg.Stderr = os.Stderr
	}
	if cfg.LookupEnv == nil {
		cfg.LookupEnv = os.LookupEnv
	}
	if cfg.MaxMessageBytes <= 0 {
		cfg.MaxMessageBytes = DefaultMaxMessageBytes
	}
	if cfg.StopGrace <= 0 {
		cfg.StopGrace = DefaultStopGrace
	}
	if cfg.Logger == nil {
		cfg.Logger = NewLogger(cfg.Stderr)
	}
	return cfg
}

// NewLogger returns a logger in the format that hosts parse: one JSON object per line. The host filters by level.
func NewLogger(w io.Writer) hclog.Logger {
	return hclog.New(&hclog.LoggerOptions{Output: w, Level: hclog.Debug, JSONFormat: true})
}

// Serve is the main function of a plugin: it returns the exit code when the plugin has ended.
//
// `--describe` prints the canonical manifest and `--version` the name and version. Without the host's cookie, it prints an
// explanation and returns 1. Otherwise it reads the hello, listens, prints the handshake line, and serves until ctx ends,
// the host requests the end (Shutdown, SIGTERM), or the host is gone (the lifeline closes). A panic in a handler fails only
// that call.
//
// Health checks and go-plugin's own services need no token; all other calls do. The long-lived streams of the tool service
// (Watch, Thread) are cancelled when the shutdown begins and don't delay it.
func Serve(ctx context.Context, cfg ServeConfig) int {
	cfg = cfg.withDefaults()
	if len(cfg.Args) == 1 {
		switch cfg.Args[0] {
		case "--describe":
			return describe(cfg)
		case "--version":
			m := cfg.Manifest()
			return printOut(cfg, m.Name+" "+m.Version+"\n")
		}
	}
	if v, _ := cfg.LookupEnv(CookieKey); v != CookieValue {
		m := cfg.Manifest()
		fmt.Fprintf(cfg.Stderr, "%s %s is a %s plugin for gantry. It must be started by a gantry host.\n"+
			"Next: use this file as the source of a block in gantry.hcl, or run it with --describe to see what it offers.\n",
			m.Name, m.Version, m.Kind)
		return 1
	}
	if err := serve(ctx, cfg); err != nil {
		fmt.Fprintf(cfg.Stderr, "gantry plugin: %v\n", err)
		return 1
	}
	return 0
}

func describe(cfg ServeConfig) int {
	m := cfg.Manifest()
	if err := m.Validate(); err != nil {
		// The manifest is printed anyway, so that the error can be found in it.
		fmt.Fprintf(cfg.Stderr, "gantry plugin: the manifest is not valid: %v\n", err)
	}
	return printOut(cfg, string(m.Canonical())+"\n")
}

func printOut(cfg ServeConfig, s string) int {
	if _, err := io.WriteString(cfg.Stdout, s); err != nil {
		fmt.Fprintf(cfg.Stderr, "gantry plugin: write to stdout: %v\n", err)
		return 1
	}
	return 0
}

// serve sets up the plugin's side of the connection, serves until the plugin ends, and cleans up.
func serve(ctx context.Context, cfg ServeConfig) error {
	life, err := openLifeline(cfg.LookupEnv)
	if err != nil {
		return err
	}
	defer life.Close()
	lines := bufio.NewReader(life)
	hello, err := ReadHello(lines)
	if err != nil {
		return err
	}
	creds, cert, err := serverCredentials(hello)
	if err != nil {
		return err
	}
	ln, err := listen(cfg.LookupEnv)
	if err != nil {
		return err
	}
	defer ln.Close()

	ending, endStreams := context.WithCancelCause(context.WithoutCancel(ctx))
	defer endStreams(nil)
	why := make(chan string, 4) // reasons to end; each of them is sent at most once
	pauses := newRest()
	defer pauses.stop()
	srv, hs := newServer(ending, cfg, hello.Token, creds, pauses, func() { why <- "shutdown" })
	cfg.Register(srv)

	signals := make(chan os.Signal, 2)
	// An interrupt from the terminal is ignored: it is meant for the host, which then shuts the plugin down.
	signal.Notify(signals, syscall.SIGTERM, os.Interrupt)
	defer signal.Stop(signals)
	// When the host dies, stdout and stderr lose their readers. Without Notify, writing to them would then kill the process in
	// the middle of its clean-up; with it, the write fails. The channel is never read.
	brokenPipe := make(chan os.Signal, 1)
	signal.Notify(brokenPipe, syscall.SIGPIPE)
	defer signal.Stop(brokenPipe)

	var wg sync.WaitGroup
	wg.Go(func() {
		_, _ = io.Copy(io.Discard, lines) // ends when the host does
		why <- hostGone
	})
	served := make(chan error, 1)
	wg.Go(func() { served <- srv.Serve(ln) })

	line := Handshake{Core: CoreVersion, App: ProtocolVersion, Network: "unix", Address: ln.Addr().String(), Protocol: "grpc", Cert: cert}
	if _, err := io.WriteString(cfg.Stdout, line.String()+"\n"); err != nil {
		srv.Stop()
		return fmt.Errorf("write handshake line: %w", err)
	}

	reason, err := await(ctx, why, signals, served)
	cfg.Logger.Debug("plugin ends", "reason", reason)
	hs.Shutdown()
	endStreams(errors.New("the plugin ends: " + reason))
	end(srv, cfg, reason)
	life.Close() // ends the watch
	runWithTimeout(finalTimeout, wg.Wait)
	return err
}

const hostGone = "host gone"

// await waits for a reason to end the plugin, and returns it. The error is set if serving failed.
func await(ctx context.Context, why <-chan string, signals <-chan os.Signal, served <-chan error) (string, error) {
	for {
		select {
		case <-ctx.Done():
			return "stop", nil
		case reason := <-why:
			return reason, nil
		case s := <-signals:
			if s == syscall.SIGTERM {
				return "terminated", nil
			}
		case err := <-served:
			return "serving failed", fmt.Errorf("serve: %w", err)
		}
	}
}

// end stops the server and runs cfg.Stop concurrently, gracefully at first. It returns after the grace period at the latest; a
// handler that ignores its context runs until the process exits.
func end(srv *grpc.Server, cfg ServeConfig, reason string) {
	grace, stop := cfg.StopGrace, srv.GracefulStop
	if reason == hostGone {
		grace, stop = min(grace, hostGoneGrace), srv.Stop // there is no receiver for results, so cancel the calls
	}
	ctx, cancel := context.WithTimeout(context.Background(), grace)
	defer cancel()
	ended := runWithTimeout(grace, func() {
		var wg sync.WaitGroup
		wg.Go(stop)
		if cfg.Stop != nil {
			runStop(ctx, cfg)
		}
		wg.Wait()
	})
	if !ended {
		runWithTimeout(finalTimeout, srv.Stop) // cancels the calls
	}
}

// finalTimeout limits steps that should be immediate, so that they can't delay the exit of the process.
const finalTimeout = 100 * time.Millisecond

// runWithTimeout runs f, waits for it for at most d, and reports whether it has returned.
func runWithTimeout(d time.Duration, f func()) bool {
	done := make(chan struct{})
	// Owner: the caller for the duration d; then the process, which exits soon after.
	go func() { defer close(done); f() }()
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-done:
		return true
	case <-timer.C:
		return false
	}
}

func runStop(ctx context.Context, cfg ServeConfig) {
	defer func() {
		if v := recover(); v != nil {
			reportPanic(cfg.Stderr, "stop", v)
		}
	}()
	cfg.Stop(ctx)
}

// serverCredentials returns the credentials that the hello requests, and the certificate for the handshake line.
func serverCredentials(h Hello) (credentials.TransportCredentials, string, error) {
	if h.Transport != TransportTLS {
		return PeerCredentials(SameUser), "", nil
	}
	tc, err := ServerTLS(h.TLS)
	if err != nil {
		return nil, "", err
	}
	return credentials.NewTLS(tc), base64.RawStdEncoding.EncodeToString(tc.Certificates[0].Certificate[0]), nil
}

// listen creates the plugin's socket in the folder that the host has assigned.
func listen(lookup func(string) (string, bool)) (net.Listener, error) {
	dir, _ := lookup(SocketDirEnv)
	if dir == "" {
		return nil, fmt.Errorf("%s is not set; it must contain the folder for the plugin's socket", SocketDirEnv)
	}
	path := filepath.Join(dir, "plugin-"+NewToken()[:8])
	if len(path) > MaxSocketPath {
		return nil, fmt.Errorf("the socket path %q has %d bytes; the maximum for a unix socket is %d; use a folder with a shorter path",
			path, len(path), MaxSocketPath)
	}
	ln, err := net.Listen("unix", path)
	if err != nil {
		return nil, fmt.Errorf("listen: %w", err)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		return nil, errors.Join(fmt.Errorf("protect socket: %w", err), ln.Close())
	}
	return ln, nil
}
