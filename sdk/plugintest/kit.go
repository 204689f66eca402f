package plugintest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"

	"github.com/gantry-agent/gantry/sdk/contract"
	gantryv1 "github.com/gantry-agent/gantry/sdk/proto/gantry/v1"
	"github.com/gantry-agent/gantry/sdk/wire"
)

const (
	// startTimeout bounds the wait for a handshake. It is longer than any sensible budget, so that a slow plugin fails only
	// start.time.
	startTimeout = 20 * time.Second
	// responseTimeout is the time limit for responses for which the contract has none.
	responseTimeout = 10 * time.Second
	// exitTimeout is the time limit for an exit on request.
	exitTimeout = 2 * time.Second
	// orphanTimeout is the time limit for an exit after the end of the host.
	orphanTimeout = time.Second
)

// kit is the state of one run.
type kit struct {
	cfg  Config
	path string
	host *host

	// Folders below dir: for sockets (with short names), for the plugin, and the working directory of calls.
	dir, sockets, home, tmp, data, cache, work string
	// unwritable is a folder that is not writable.
	unwritable string

	failed map[string]bool
	shared *process // used by checks that don't end it; may be nil

	manifest  *contract.Manifest // printed by --describe
	described []byte
	tools     []contract.Descriptor // from the first message of Watch
	revision  string
	withHome  bool  // the plugin needs a home or a writable working directory
	bareErr   error // the error without them
	first     *process
	examples  []*transcript // results of the examples that answer, by index in cfg.Calls; nil: not run
	assessed  []assessment
	commanded []commanded // the responses to commands
	drained   *drainVerdicts
	shut      *remains
	models    []*gantryv1.ModelRow
	figures   Figures
	calls     int // number of calls so far, for their IDs
}

func newKit(cfg Config) (_ *kit, err error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	k := &kit{cfg: cfg, failed: map[string]bool{}, examples: make([]*transcript, len(cfg.Calls))}
	if k.path, err = filepath.Abs(cfg.Path); err != nil {
		return nil, err
	}
	// The path of a test's own folder is too long for sockets.
	if k.dir, err = os.MkdirTemp("", "gpt"); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			_ = os.RemoveAll(k.dir)
		}
	}()
	for name, dir := range map[string]*string{
		"s": &k.sockets, "home": &k.home, "tmp": &k.tmp, "data": &k.data, "cache": &k.cache, "work": &k.work,
	} {
		*dir = filepath.Join(k.dir, name)
		if err := os.Mkdir(*dir, 0o700); err != nil {
			return nil, err
		}
	}
	if k.unwritable, err = unwritable(k.dir); err != nil {
		return nil, err
	}
	k.host, err = startHost()
	return k, err
}

// unwritable returns a folder that is not writable, if possible not even for root.
func unwritable(below string) (string, error) {
	if runtime.GOOS == "linux" {
		if _, err := os.Stat("/proc/self"); err == nil {
			return "/proc", nil
		}
	}
	dir := filepath.Join(below, "readonly")
	return dir, os.Mkdir(dir, 0o500)
}

func (k *kit) close() {
	k.drop()
	k.host.close()
	_ = os.RemoveAll(k.dir)
}

// drop ends the shared process.
func (k *kit) drop() {
	if k.shared != nil {
		k.shared.kill()
		k.shared = nil
	}
}

// environment returns the variables that a host passes on, without HOME.
func (k *kit) environment() []string {
	var env []string
	for _, name := range []string{"LANG", "LC_ALL", "LC_CTYPE", "PATH", "TZ"} {
		if v, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+v)
		}
	}
	env = append(env, "TMPDIR="+k.tmp)
	for name, v := range k.cfg.Env {
		env = append(env, name+"="+v)
	}
	return env
}

// within limits ctx to d and the configured slack.
func (k *kit) within(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, d+k.cfg.Slack, fmt.Errorf("no response within %v", d))
}

// runStandalone runs the binary without a host, as on the command line, until it ends.
func (k *kit) runStandalone(ctx context.Context, args, env []string) (*process, error) {
	p, err := k.run(spawn{args: args, env: env, withHome: k.withHome})
	if err != nil {
		return nil, err
	}
	defer p.kill()
	select {
	case <-p.exited:
		p.finish()
		return p, nil
	case <-time.After(responseTimeout + k.cfg.Slack):
		return p, fmt.Errorf("still running after %v", responseTimeout)
	case <-ctx.Done():
		return p, context.Cause(ctx)
	}
}

// start starts the plugin like a host and waits for its handshake. Unless the process is nil, the caller must kill it, even if
// there is an error. changes modify how it is started.
func (k *kit) start(ctx context.Context, transport string, changes ...func(*spawn)) (*process, error) {
	s := spawn{transport: transport, withHome: k.withHome}
	for _, change := range changes {
		if change != nil {
			change(&s)
		}
	}
	p, err := k.run(s)
	if err != nil {
		return nil, fmt.Errorf("it can't be started: %w", err)
	}
	if err := k.awaitHandshake(ctx, p); err != nil {
		return p, err
	}
	p.atStart = p.children()
	creds := localCredentials()
	if transport == wire.TransportTLS {
		creds = nil // the TLS check connects itself
	}
	if creds != nil {
		if p.conn, err = p.dial(p.hello.Token, creds); err != nil {
			return p, err
		}
	}
	return p, nil
}

// localCredentials checks the plugin's user, if the system identifies it.
func localCredentials() credentials.TransportCredentials {
	if runtime.GOOS == "linux" {
		return wire.PeerCredentials(wire.SameUser)
	}
	return wire.PeerCredentials(nil)
}

// awaitHandshake waits for the handshake and checks it, except for the location of the socket and the time.
func (k *kit) awaitHandshake(ctx context.Context, p *process) error {
	select {
	case <-p.handshaken:
	case <-time.After(startTimeout + k.cfg.Slack):
		return fmt.Errorf("no handshake line within %v%s", startTimeout, p.said())
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if p.refuse != nil {
		if errors.Is(p.refuse, wire.ErrNotHandshake) || p.wait(time.Second) {
			p.finish()
			return fmt.Errorf("stdout ended without a handshake line%s; the process: %s", p.said(), p.end())
		}
		return fmt.Errorf("%w%s", p.refuse, p.said())
	}
	if len(p.noise) > 0 {
		return fmt.Errorf("it printed %s before the handshake line", quote(string(p.noise)))
	}
	if err := p.line.Check(); err != nil {
		return err
	}
	conn, err := p.dialer(ctx, "")
	if err != nil {
		return fmt.Errorf("nothing listens at the address in the handshake line: %w", err)
	}
	return conn.Close()
}

// said describes what the process printed instead of a handshake line.
func (p *process) said() string {
	if len(p.noise) == 0 {
		return ""
	}
	return "; it printed " + quote(string(p.noise))
}

// running returns the shared process, and starts it if necessary.
func (k *kit) running(ctx context.Context) (*process, error) {
	if k.shared != nil && !k.shared.dead() {
		return k.shared, nil
	}
	p, err := k.launch(ctx)
	k.shared = p
	return p, err
}

// launch ends the shared process and starts another one, so that there is only one at a time, whose resources can be measured.
// The caller must kill it.
func (k *kit) launch(ctx context.Context, changes ...func(*spawn)) (*process, error) {
	k.drop()
	p, err := k.start(ctx, wire.TransportPeer, changes...)
	if err != nil && p != nil {
		p.kill()
		p = nil
	}
	return p, err
}

// ready returns the shared process, and configures it if necessary.
func (k *kit) ready(ctx context.Context) (*process, error) {
	p, err := k.running(ctx)
	if err != nil || p.configured {
		return p, err
	}
	return p, k.configure(ctx, p, k.configuration())
}

// fresh returns a new configured process. The caller must kill it.
func (k *kit) fresh(ctx context.Context, changes ...func(*spawn)) (*process, error) {
	p, err := k.launch(ctx, changes...)
	if err != nil {
		return nil, err
	}
	if err := k.configure(ctx, p, k.configuration()); err != nil {
		p.kill()
		return nil, err
	}
	return p, nil
}

// configure returns an error if the plugin rejects the configuration.
func (k *kit) configure(ctx context.Context, p *process, req *gantryv1.ConfigureRequest) error {
	ctx, cancel := k.within(ctx, k.startLimit())
	defer cancel()
	resp, err := p.plugin().Configure(ctx, req)
	if err != nil {
		return fmt.Errorf("the RPC Configure: %w", k.explain(ctx, p, err))
	}
	var said []string
	for _, d := range resp.GetDiagnostics() {
		if d.GetSeverity() != gantryv1.Severity_SEVERITY_WARNING {
			said = append(said, d.GetSummary()+" "+d.GetDetail())
		}
	}
	if len(said) > 0 {
		return fmt.Errorf("it rejected its configuration: %s", strings.TrimSpace(strings.Join(said, "; ")))
	}
	p.configured = true
	return nil
}

func (k *kit) startLimit() time.Duration {
	if m := k.manifest; m != nil && m.Limits.StartMS > 0 {
		return time.Duration(m.Limits.StartMS) * time.Millisecond
	}
	return responseTimeout
}

// explain returns the error of an RPC as the report should show it.
func (k *kit) explain(ctx context.Context, p *process, err error) error {
	if err == nil {
		return nil
	}
	s := status.Convert(err)
	if s.Code() == codes.Unavailable && p.wait(time.Second) {
		p.finish()
		return fmt.Errorf("the process ended: %s", p.end())
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return fmt.Errorf("it failed with status %s: %s", codeName(s.Code()), s.Message())
}

// call makes a unary RPC with the time limit for responses.
func call[Req, Resp any](ctx context.Context, k *kit, p *process, f func(context.Context, Req, ...callOption) (Resp, error), req Req) (Resp, error) {
	ctx, cancel := k.within(ctx, responseTimeout)
	defer cancel()
	resp, err := f(ctx, req)
	return resp, k.explain(ctx, p, err)
}

// withBehaviour returns the indices of the examples with behaviour b.
func (k *kit) withBehaviour(b Behaviour) []int {
	var out []int
	for i, c := range k.cfg.Calls {
		if c.Does == b {
			out = append(out, i)
		}
	}
	return out
}

// waiting returns the index of the first example that waits, or -1.
func (k *kit) waiting() int {
	return slices.IndexFunc(k.cfg.Calls, func(c Call) bool { return c.Does == Waits })
}

// notExecutable returns an error if the file can't be executed.
func notExecutable(path string) error {
	fi, err := os.Stat(path)
	switch {
	case err != nil:
		return err
	case fi.IsDir():
		return errors.New("it is a folder")
	case fi.Mode()&0o111 == 0 && runtime.GOOS != "windows":
		return errors.New("it is not executable")
	}
	_, err = exec.LookPath(path)
	return err
}
