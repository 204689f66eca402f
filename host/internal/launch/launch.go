// Package launch starts every process that gantry runs on somebody's behalf, under the grant of the call that asked, and
// sees to its end.
//
// It owns: the process trees, their descriptors (pipes or a terminal) and the one-time tokens by which a plugin takes
// them, limits, signals, and the end of a tree when its call, thread or host ends. It must not know: policy, approvals,
// what a tool is, who decides about a grant.
//
// Start with [Launcher.Spawn]. Each process has a gantry-launch of its own between it and the host: parent of the tree,
// collector of its orphans, and the one that kills it within a second when the host is gone, also after kill -9. One more
// waits for the next process: where it can be, the one that has just seen the end of its tree. On macOS it is not handed the tree's orphans, but looks for them, and nothing ends the tree when host
// and launcher are killed at once. On other systems Spawn answers with an [UnsupportedError].
package launch

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/gantry-agent/gantry/host/internal/launch/failure"
	"github.com/gantry-agent/gantry/host/internal/launch/limit"
	"github.com/gantry-agent/gantry/host/internal/launch/pool"
	"github.com/gantry-agent/gantry/host/internal/launch/stdio"
)

// Bounds and their defaults.
const (
	// DefaultMaxProcesses bounds the trees that are alive, and ended ones whose output nobody has taken yet. Each costs a
	// launcher (0.7 MB of its own, no processor time while nothing happens) and up to six descriptors of the host.
	// Beyond it Spawn fails, it doesn't wait: sessions may live for ever.
	DefaultMaxProcesses = 256
	// maxEnded bounds the records of ended processes whose output was taken and that nobody has released. Beyond it the
	// oldest is forgotten.
	maxEnded = 128
	// DefaultKillGrace is the time between SIGTERM and SIGKILL.
	DefaultKillGrace = 500 * time.Millisecond
	// lifelineGrace is the same after the host has gone; the whole ladder has to fit into one second.
	lifelineGrace = 300 * time.Millisecond
	// killSlack is what a launcher gets beyond the grace before it is killed itself: it repeats SIGKILL for 2 s, then
	// reports what it could not kill.
	killSlack = 3 * time.Second
	// spareDelay: most commands have ended by then, and leave their launcher to the next.
	spareDelay = 20 * time.Millisecond
	// maxArgumentBytes is what an order may hold of arguments and environment; the kernel's own bound is lower.
	maxArgumentBytes = 7 << 20
)

// Errors of Spawn and of the methods of Process.
var (
	// ErrClosed: the launcher was closed. Spawn returns it.
	ErrClosed = pool.ErrClosed
	// ErrTooMany: MaxProcesses are alive. Wrapped by the StartError of Spawn; end some first.
	ErrTooMany = errors.New("too many processes")
	// ErrEnded: the owner's call, thread or plugin ended while the process was being started.
	ErrEnded = errors.New("ended while it was being started")
)

// Config is what a launcher needs. Zero fields mean the documented defaults.
type Config struct {
	LauncherPath string        // default: gantry-launch beside the running binary
	Logger       hclog.Logger  // default: none
	MaxProcesses int           // default: DefaultMaxProcesses
	KillGrace    time.Duration // default: DefaultKillGrace; negative: none
	CgroupDir    string        // folder of cgroup v2 for groups of our own; default: found out, of v1 as well; "none": don't
	Confiners    []Confiner    // default: Unconfined alone; the first that enforces a grant's mode is taken
	// Proxy serves the way out of a process whose grant is Proxied: what it and its children connect to. It returns when ctx
	// ends, which it does with the process's tree. nil: there is none, and such a process is not started.
	Proxy func(ctx context.Context, p *Process, ln net.Listener)
	// Limited hears which limit has ended a process, before Wait returns. nil: nobody does.
	Limited func(p *Process, limit string)
	// Ahead is how long a box that was made ahead waits for its process; 0: none is made.
	Ahead time.Duration
	// AdoptTime is how long a kept session waits to be adopted; default: DefaultAdoptTime. Abandoned hears of one that is
	// ended because nobody did; nil: nobody does.
	AdoptTime time.Duration
	Abandoned func(p *Process)
}

func (c Config) withDefaults() (Config, error) {
	if c.LauncherPath == "" {
		self, err := os.Executable()
		if err != nil {
			return c, fmt.Errorf("find gantry-launch: %w", err)
		}
		if real, err := filepath.EvalSymlinks(self); err == nil {
			self = real
		}
		c.LauncherPath = filepath.Join(filepath.Dir(self), "gantry-launch")
	}
	if c.Logger == nil {
		c.Logger = hclog.NewNullLogger()
	}
	if c.MaxProcesses == 0 {
		c.MaxProcesses = DefaultMaxProcesses
	}
	if c.MaxProcesses < 0 {
		return c, fmt.Errorf("max processes is %d; it must be positive", c.MaxProcesses)
	}
	switch {
	case c.KillGrace == 0:
		c.KillGrace = DefaultKillGrace
	case c.KillGrace < 0:
		c.KillGrace = 0
	}
	if c.AdoptTime == 0 {
		c.AdoptTime = DefaultAdoptTime
	}
	if len(c.Confiners) == 0 {
		c.Confiners = []Confiner{Unconfined{}}
	}
	return c, nil
}

// Owner says on whose behalf a process runs.
type Owner struct{ Plugin, Thread, Call string }

// Size is that of a terminal; zero fields mean 24 rows, 80 columns.
type Size = stdio.Size

// Spec is a process to start.
type Spec struct {
	Argv []string // Argv[0] without a slash is searched in the PATH of Env
	Cwd  string   // absolute
	Env  []string // all of it, K=V; of two equal names the later counts
	// Terminal: stdin, stdout and stderr are a pseudo terminal, which is the process's controlling one.
	Terminal *Size
	// Stdin: without a terminal, stdin is a pipe. Otherwise it is empty (/dev/null).
	Stdin bool
	// MergeStderr: stderr is the same pipe as stdout, in the order of writing.
	MergeStderr bool
	// Session: the process may outlive its call. Otherwise EndCall ends it.
	Session bool
	// Keep: the session may outlive the process of its plugin, whose number is Holder, until another adopts it: the host
	// keeps its descriptors as well. nil: it ends with that process.
	Keep   *Keep
	Holder uint64
	// ReadOnly asks for a grant without writes. Under full access nothing enforces it.
	ReadOnly bool
	Grant    Grant
	Owner    Owner
}

func (s *Spec) check() error {
	if len(s.Argv) == 0 {
		return failure.New("exec", "", syscall.EINVAL)
	}
	if !filepath.IsAbs(s.Cwd) {
		return fmt.Errorf("start %q: the folder %q is not absolute; pass an absolute one", s.Argv[0], s.Cwd)
	}
	size := len(s.Cwd)
	for _, ss := range [][]string{s.Argv, s.Env, {s.Cwd}} {
		for _, v := range ss {
			if strings.IndexByte(v, 0) >= 0 {
				return failure.New("exec", s.Argv[0], syscall.EINVAL)
			}
			size += len(v) + 16
		}
	}
	if size > maxArgumentBytes {
		return failure.New("exec", s.Argv[0], syscall.E2BIG)
	}
	return nil
}

// lastOfEach drops every K=V whose name comes again.
func lastOfEach(env []string) []string {
	seen := make(map[string]bool, len(env))
	out := make([]string, 0, len(env))
	for _, kv := range slices.Backward(env) {
		name, _, ok := strings.Cut(kv, "=")
		if ok && seen[name] {
			continue
		}
		seen[name] = true
		out = append(out, kv)
	}
	slices.Reverse(out)
	return out
}

// Launcher starts processes and ends them. Its methods may be called concurrently.
type Launcher struct {
	cfg Config
	// spareAfter is how long a command may run before the next spare is started beside it.
	spareAfter time.Duration
	limits     *limit.Enforcer
	work       sync.WaitGroup // a goroutine for each launcher that lives

	pool     *pool.Pool
	handover *stdio.Handover
	closing  chan struct{} // closed when the launcher is
	close    func()        // closes it

	mu struct {
		sync.Mutex
		closed bool
		procs  map[string]*Process // by id: alive, or ended and not released
		held   int
		ended  []*Process // ended, output taken, not released; oldest first
	}
}

// New returns a launcher. It starts nothing, but looks whether gantry-launch is there.
func New(cfg Config) (*Launcher, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	if st, err := os.Stat(cfg.LauncherPath); err != nil || st.IsDir() {
		return nil, fmt.Errorf("the launcher %s is missing; gantry-launch belongs beside gantry: install both from one build",
			cfg.LauncherPath)
	}
	l := &Launcher{
		cfg: cfg, spareAfter: spareDelay, limits: limit.NewEnforcer(cfg.CgroupDir), handover: stdio.NewHandover(cfg.Logger),
	}
	l.closing = make(chan struct{})
	l.close = sync.OnceFunc(func() { close(l.closing) })
	l.pool = pool.New(pool.Config{Start: l.startMonitor, Wait: cfg.Ahead, Logger: cfg.Logger})
	l.mu.procs = make(map[string]*Process)
	return l, nil
}

// Spawn starts a process and returns when it runs: its program has been executed. When the program or its folder can't be
// used the error is a [StartError] with the text of the operating system; when the grant can't be enforced, an
// [UnsupportedError].
//
// ctx bounds the start only. Derive it from the call's context: a Spawn that is under way when the call ends then leaves
// nothing behind.
func (l *Launcher) Spawn(ctx context.Context, spec Spec) (*Process, error) {
	if err := spec.check(); err != nil {
		return nil, err
	}
	spec.Env = lastOfEach(spec.Env)
	confiner, err := l.confiner(spec.Grant)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	p := newProcess(l, spec, cancel)
	if err := l.admit(p); err != nil {
		return nil, err
	}
	err = p.start(ctx, confiner)
	l.pool.EnsureSpare(l.spareAfter, p.gone, func() bool { return p.kept })
	if err != nil {
		l.forget(p)
		l.cfg.Logger.Debug("process did not start", "program", spec.Argv[0], "call", spec.Owner.Call, "error", err)
		return nil, err
	}
	l.cfg.Logger.Debug("process started", "id", p.id, "pid", p.PID(), "program", spec.Argv[0], "call", spec.Owner.Call, "ahead", p.slot.Ahead)
	return p, nil
}

// settle sees to it that an unconfined process finds nothing that confined ones have made for it.
func (l *Launcher) settle(spec *Spec) error {
	if spec.Grant.Mode != FullAccess {
		return nil
	}
	for _, k := range l.keepers() {
		if err := k.Settle(spec.Owner); err != nil {
			return &StartError{Op: "confine", Message: err.Error()}
		}
	}
	return nil
}

func (l *Launcher) keepers() (out []Keeper) {
	for _, c := range l.cfg.Confiners {
		if k, ok := c.(Keeper); ok {
			out = append(out, k)
		}
	}
	return out
}

// Watch says that a thread's processes are to run under a grant: what has to be known of its folders is found out meanwhile, and what
// processes of a host have left that was killed is dealt with when it returns.
func (l *Launcher) Watch(thread string, g Grant) error {
	var errs []error
	for _, k := range l.keepers() {
		errs = append(errs, k.Watch(Owner{Thread: thread}, g))
	}
	return errors.Join(errs...)
}

// admit enters a process that is about to be started, if there is room.
func (l *Launcher) admit(p *Process) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mu.closed {
		return ErrClosed
	}
	if l.mu.held >= l.cfg.MaxProcesses {
		e := failure.New("start", p.spec.Argv[0], syscall.EAGAIN)
		e.Message = fmt.Sprintf("%s: %d processes are running, or have output that nobody has taken, which is the limit; end some first",
			e.Message, l.mu.held)
		e.Err = ErrTooMany
		return e
	}
	l.mu.held++
	l.pool.Resume(p.spec.Owner.Thread)
	p.place.held = true
	l.mu.procs[p.id] = p
	return nil
}

// note records a step in the life of a process: that its tree has ended, that its output has been taken, that its plugin
// knows how it ended, or that its record is to go. When the tree has ended and the output was taken, its place is free for
// another; the record stays until it is released, its call or thread ends, or newer ones push it out.
func (l *Launcher) note(p *Process, step func(*place)) {
	l.mu.Lock()
	step(&p.place)
	var drop *Process
	if at := p.place; at.ended && at.taken && at.released && !at.forgotten {
		drop = p
	}
	if p.place.held && p.place.ended && (p.place.taken || p.place.forgotten) {
		p.place.held = false
		l.mu.held--
		if !p.place.forgotten {
			l.mu.ended = append(l.mu.ended, p)
			if drop == nil && len(l.mu.ended) > maxEnded {
				drop = l.mu.ended[0]
			}
		}
	}
	l.mu.Unlock()
	if drop != nil {
		l.forget(drop)
	}
}

// place is what a launcher knows of a process; guarded by the launcher's mutex.
type place struct {
	held      bool // counts against MaxProcesses
	ended     bool // the whole tree
	taken     bool // its output was handed over, or read to its end
	released  bool // its plugin knows how it ended
	forgotten bool
}

// forget removes a record, its token, and the host's descriptors.
func (l *Launcher) forget(p *Process) {
	l.mu.Lock()
	delete(l.mu.procs, p.id)
	if i := slices.Index(l.mu.ended, p); i >= 0 {
		l.mu.ended = slices.Delete(l.mu.ended, i, i+1)
	}
	l.mu.Unlock()
	l.note(p, func(at *place) { at.forgotten = true })
	p.hold.end()
	l.handover.Forget(p.streams)
}

// ServeDescriptors gives a plugin the descriptors of its processes, in exchange for the tokens of [Process.Token], until ln is closed.
// It returns when every connection is closed.
func (l *Launcher) ServeDescriptors(plugin string, ln net.Listener) { l.handover.Serve(plugin, ln) }

// Process returns a process by its id: alive, or ended and not yet forgotten.
func (l *Launcher) Process(id string) (*Process, bool) {
	l.mu.Lock()
	p := l.mu.procs[id]
	l.mu.Unlock()
	if p == nil || !p.running() {
		return nil, false
	}
	return p, true
}

// Held returns how many processes count against MaxProcesses: they are alive, or nobody has taken their output.
func (l *Launcher) Held() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.mu.held
}

func (l *Launcher) find(match func(*Process) bool) []*Process {
	l.mu.Lock()
	defer l.mu.Unlock()
	var ps []*Process
	for _, p := range l.mu.procs {
		if match(p) {
			ps = append(ps, p)
		}
	}
	slices.SortFunc(ps, func(a, b *Process) int { return strings.Compare(a.id, b.id) })
	return ps
}

// EndCall kills what belongs to the call and is no session, and forgets it. Like the other End methods it works side by
// side on all of them, sends its signals also when ctx has ended already, and returns when the trees are gone or ctx
// ends; what then still runs is killed none the less.
func (l *Launcher) EndCall(ctx context.Context, o Owner) error {
	err := l.end(ctx, func(p *Process) bool { return p.spec.Owner == o && !p.spec.Session })
	for _, k := range l.keepers() {
		k.Outlived(o)
	}
	return err
}

// EndThread kills and forgets everything of a thread.
func (l *Launcher) EndThread(ctx context.Context, thread string) error {
	l.pool.Rest(thread)
	defer l.pool.Resume(thread)
	return l.end(ctx, func(p *Process) bool { return p.spec.Owner.Thread == thread })
}

// EndPlugin kills and forgets everything of a plugin that is removed for good.
func (l *Launcher) EndPlugin(ctx context.Context, plugin string) error {
	return l.end(ctx, func(p *Process) bool { return p.spec.Owner.Plugin == plugin })
}

func (l *Launcher) end(ctx context.Context, match func(*Process) bool) error {
	ps := l.find(match)
	errs := make([]error, len(ps))
	var wg sync.WaitGroup
	for i, p := range ps {
		wg.Go(func() {
			errs[i] = p.KillTree(ctx)
			l.forget(p)
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// Close kills everything and refuses new processes. It is bounded by ctx; when that ends first the launchers are left to
// kill their trees, which they do when the host has ended at the latest.
func (l *Launcher) Close(ctx context.Context) error {
	l.mu.Lock()
	l.mu.closed = true
	l.mu.Unlock()
	l.close()
	l.pool.Close()
	if err := l.end(ctx, func(*Process) bool { return true }); err != nil {
		return err
	}
	l.work.Wait()
	l.limits.Wait()
	l.pool.Wait()
	var errs []error
	for _, k := range l.keepers() {
		errs = append(errs, k.Close())
	}
	return errors.Join(errs...)
}

func newID() string { return "p-" + strings.ToLower(rand.Text()) }
