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
	// startPatience is how long a handshake is waited for. Longer than any sensible budget: a slow plugin fails the check
	// that is about time, and no other.
	startPatience = 20 * time.Second
	// answerPatience bounds every answer for which the contract names no time.
	answerPatience = 10 * time.Second
	// endPatience is what a plugin may take to end when it is asked to.
	endPatience = 2 * time.Second
	// gonePatience is what it may take when its host has died.
	gonePatience = time.Second
)

// kit is one run.
type kit struct {
	cfg  Config
	path string
	host *host

	// Folders, all below dir: for sockets (short names), what the plugin is given, and the working directory of calls.
	dir, sockets, home, tmp, data, cache, work string
	// unwritable is a folder in which nobody can create anything.
	unwritable string

	failed map[string]bool
	shared *process // in use by checks that don't end it; nil: none

	manifest  *contract.Manifest // of --describe
	described []byte
	tools     []contract.Descriptor // of the first Watch
	revision  string
	friendly  bool  // the plugin needs a home or a folder to write in
	unfit     error // why it did not run without
	first     *process
	examples  []*transcript // of the examples that answer, by index in cfg.Calls; nil: not run
	assessed  []assessment
	drained   *drainStory
	shut      *shutdownStory
	models    []*gantryv1.ModelRow
	figures   Figures
	calls     int // made so far, for their ids
}

func newKit(cfg Config) (_ *kit, err error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	k := &kit{cfg: cfg, failed: map[string]bool{}, examples: make([]*transcript, len(cfg.Calls))}
	if k.path, err = filepath.Abs(cfg.Path); err != nil {
		return nil, err
	}
	// Not below a test's own folder, whose name is too long for sockets.
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

// unwritable returns a folder in which nothing can be created. Where there is none that holds for root too, mode bits
// have to do.
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

// environment is what a host passes on, without HOME.
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

// within is a context for something that may take d.
func (k *kit) within(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, d+k.cfg.Slack, fmt.Errorf("no answer within %v", d))
}

// byHand runs the binary as somebody would on the command line, and returns when it has ended. The error says why it
// didn't.
func (k *kit) byHand(ctx context.Context, args, env []string) (*process, error) {
	p, err := k.run(spawn{args: args, env: env, friendly: k.friendly})
	if err != nil {
		return nil, err
	}
	defer p.kill()
	select {
	case <-p.exited:
		p.finish()
		return p, nil
	case <-time.After(answerPatience + k.cfg.Slack):
		return p, fmt.Errorf("still running after %v", answerPatience)
	case <-ctx.Done():
		return p, context.Cause(ctx)
	}
}

// start starts the plugin as a host does and waits for its handshake. The process is nil when it couldn't be started at
// all; otherwise the caller kills it, also with an error. changes are made to how it is started.
func (k *kit) start(ctx context.Context, transport string, changes ...func(*spawn)) (*process, error) {
	s := spawn{transport: transport, friendly: k.friendly}
	for _, change := range changes {
		if change != nil {
			change(&s)
		}
	}
	p, err := k.run(s)
	if err != nil {
		return nil, fmt.Errorf("it can't be started: %w", err)
	}
	if err := k.shake(ctx, p); err != nil {
		return p, err
	}
	p.atStart = p.children()
	creds := localCredentials()
	if transport == wire.TransportTLS {
		creds = nil // made by the check that is about it
	}
	if creds != nil {
		if p.conn, err = p.dial(p.hello.Token, creds); err != nil {
			return p, err
		}
	}
	return p, nil
}

// localCredentials check the plugin's user where the kernel tells.
func localCredentials() credentials.TransportCredentials {
	if runtime.GOOS == "linux" {
		return wire.PeerCredentials(wire.SameUser)
	}
	return wire.PeerCredentials(nil)
}

// shake waits for the handshake and checks everything about it but the place of the socket and the time.
func (k *kit) shake(ctx context.Context, p *process) error {
	select {
	case <-p.shaken:
	case <-time.After(startPatience + k.cfg.Slack):
		return fmt.Errorf("no handshake line within %v%s", startPatience, p.said())
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
		return fmt.Errorf("before the handshake line it printed %s", quote(string(p.noise)))
	}
	if err := p.line.Check(); err != nil {
		return err
	}
	conn, err := p.dialer(ctx, "")
	if err != nil {
		return fmt.Errorf("nobody listens where the handshake line says: %w", err)
	}
	return conn.Close()
}

// said is what the process printed instead of a handshake line.
func (p *process) said() string {
	if len(p.noise) == 0 {
		return ""
	}
	return "; it printed " + quote(string(p.noise))
}

// running returns the shared process, started if need be.
func (k *kit) running(ctx context.Context) (*process, error) {
	if k.shared != nil && !k.shared.dead() {
		return k.shared, nil
	}
	k.drop()
	p, err := k.start(ctx, wire.TransportPeer)
	if err != nil {
		if p != nil {
			p.kill()
		}
		return nil, err
	}
	k.shared = p
	return p, nil
}

// ready returns the shared process, configured.
func (k *kit) ready(ctx context.Context) (*process, error) {
	p, err := k.running(ctx)
	if err != nil || p.configured {
		return p, err
	}
	return p, k.configure(ctx, p, k.configuration())
}

// fresh returns a configured process of the caller's own, who kills it.
func (k *kit) fresh(ctx context.Context, changes ...func(*spawn)) (*process, error) {
	k.drop() // one process at a time: what is measured is then its own
	p, err := k.start(ctx, wire.TransportPeer, changes...)
	if err == nil {
		err = k.configure(ctx, p, k.configuration())
	}
	if err != nil && p != nil {
		p.kill()
		p = nil
	}
	return p, err
}

// configure demands that the plugin accepts.
func (k *kit) configure(ctx context.Context, p *process, req *gantryv1.ConfigureRequest) error {
	ctx, cancel := k.within(ctx, k.startLimit())
	defer cancel()
	resp, err := p.plugin().Configure(ctx, req)
	if err != nil {
		return fmt.Errorf("it was configured: %w", k.explain(ctx, p, err))
	}
	var said []string
	for _, d := range resp.GetDiagnostics() {
		if d.GetSeverity() != gantryv1.Severity_SEVERITY_WARNING {
			said = append(said, d.GetSummary()+" "+d.GetDetail())
		}
	}
	if len(said) > 0 {
		return fmt.Errorf("it refused its configuration: %s", strings.TrimSpace(strings.Join(said, "; ")))
	}
	p.configured = true
	return nil
}

func (k *kit) startLimit() time.Duration {
	if m := k.manifest; m != nil && m.Limits.StartMS > 0 {
		return time.Duration(m.Limits.StartMS) * time.Millisecond
	}
	return answerPatience
}

// explain turns the error of an rpc into what a report should say.
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

// call makes a unary rpc with the patience that every answer gets.
func call[Req, Resp any](ctx context.Context, k *kit, p *process, f func(context.Context, Req, ...callOption) (Resp, error), req Req) (Resp, error) {
	ctx, cancel := k.within(ctx, answerPatience)
	defer cancel()
	resp, err := f(ctx, req)
	return resp, k.explain(ctx, p, err)
}

// withBehaviour returns the indices of the examples that show b.
func (k *kit) withBehaviour(b Behaviour) []int {
	var out []int
	for i, c := range k.cfg.Calls {
		if c.Does == b {
			out = append(out, i)
		}
	}
	return out
}

// waiting is the index of the first example that waits; -1: there is none.
func (k *kit) waiting() int {
	return slices.IndexFunc(k.cfg.Calls, func(c Call) bool { return c.Does == Waits })
}

// notExecutable says why a file can't be started, in words.
func notExecutable(path string) error {
	fi, err := os.Stat(path)
	switch {
	case err != nil:
		return err
	case fi.IsDir():
		return errors.New("it is a folder")
	case fi.Mode()&0o111 == 0 && runtime.GOOS != "windows":
		return errors.New("it has no execute permission")
	}
	_, err = exec.LookPath(path)
	return err
}
