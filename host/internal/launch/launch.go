// Package launch starts the processes that plugins and hooks ask for, each under the grant of its call, and ends them.
//
// It owns: grants and the ways to enforce them, the process trees, signals, sessions that outlive their plugin's process, and the end
// of a tree when its call, thread or host ends. It must not know: policy, approvals, what a tool is, who decides about a grant.
//
// Start with [Launcher.Spawn]. Between the host and each process there is a gantry-launch: the parent of the process tree, which adopts
// its orphans, and kills the tree within a second when the host ends, even after kill -9. On macOS it has to search for orphans, and
// nothing ends the tree if host and gantry-launch are killed at the same time. On other systems Spawn returns an [UnsupportedError].
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

	"github.com/gantry-agent/gantry/config/hint"
	"github.com/gantry-agent/gantry/host/internal/launch/failure"
	"github.com/gantry-agent/gantry/host/internal/launch/limit"
	"github.com/gantry-agent/gantry/host/internal/launch/pool"
	"github.com/gantry-agent/gantry/host/internal/launch/stdio"
)

// Limits and their defaults.
const (
	// DefaultMaxProcesses limits the trees that are alive, and ended ones whose output has not been read. Each costs a
	// gantry-launch (0.7 MB, and no processor time while it is idle) and up to six of the host's descriptors. Beyond the limit
	// Spawn fails instead of waiting, because sessions may live forever.
	DefaultMaxProcesses = 256
	// maxEnded limits the records of ended processes whose output was read but that were not released. Beyond it the oldest
	// is removed.
	maxEnded = 128
	// DefaultKillGrace is the time between SIGTERM and SIGKILL.
	DefaultKillGrace = 500 * time.Millisecond
	// lifelineGrace is the same after the host has ended, when everything must be over within one second.
	lifelineGrace = 300 * time.Millisecond
	// killSlack is the time after the grace in which gantry-launch repeats SIGKILL for 2 s and reports what it could not
	// kill. Then it is killed itself.
	killSlack = 3 * time.Second
	// spareDelay is when a spare gantry-launch is started while a command runs. Most commands have ended by then, and their
	// gantry-launch becomes the spare.
	spareDelay = 20 * time.Millisecond
	// maxArgumentBytes limits the arguments and the environment in an order; the kernel's own limit is lower.
	maxArgumentBytes = 7 << 20
)

// Errors of Spawn and of the methods of Process.
var (
	// ErrClosed: the launcher was closed. Spawn returns it.
	ErrClosed = pool.ErrClosed
	// ErrTooMany: there are MaxProcesses. Spawn's StartError wraps it; end some first.
	ErrTooMany = errors.New("too many processes")
	// ErrEnded: the owner's call, thread or plugin ended while the process was being started.
	ErrEnded = errors.New("ended while it was being started")
)

// Config is what a launcher needs. Zero fields mean the documented defaults.
type Config struct {
	LauncherPath string        // default: gantry-launch in the folder of the running binary
	Logger       hclog.Logger  // default: none
	MaxProcesses int           // default: DefaultMaxProcesses
	KillGrace    time.Duration // default: DefaultKillGrace; negative: none
	CgroupDir    string        // folder of cgroup v2 for our groups; default: one of v2 or v1 that is found; "none": no groups
	Confiners    []Confiner    // default: Unconfined; the first that enforces a grant is used
	// Proxy serves the connections of a process whose grant is Proxied, and of its descendants. It returns when ctx ends, which
	// happens when the tree has ended. nil: such a process is not started.
	Proxy func(ctx context.Context, p *Process, ln net.Listener)
	// OnLimit is called when a limit has ended a process, before Wait returns. It may be nil.
	OnLimit func(p *Process, limit string)
	// PreparedTime is how long a prepared sandbox waits for its process; 0: none is prepared.
	PreparedTime time.Duration
	// AdoptTime is how long a kept session waits to be adopted; default: DefaultAdoptTime. OnAbandon is called before a session
	// is ended because no process has adopted it; it may be nil.
	AdoptTime time.Duration
	OnAbandon func(p *Process)
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
		return c, fmt.Errorf("invalid limit on processes: %d is not positive", c.MaxProcesses)
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
	Argv []string // Argv[0] without a slash is searched for in the PATH of Env
	Cwd  string   // absolute
	Env  []string // the whole environment, K=V; the last of several equal names applies
	// Terminal makes stdin, stdout and stderr a pseudo terminal, the process's controlling terminal. nil: pipes.
	Terminal *Size
	// Stdin makes stdin a pipe, if there is no terminal. Otherwise it is /dev/null.
	Stdin bool
	// MergeStderr makes stderr the same pipe as stdout, which keeps the order of writes.
	MergeStderr bool
	// Session: the process may outlive its call. Otherwise EndCall ends it.
	Session bool
	// Keep: the session may outlive its plugin's process, whose number is Holder, until another process of the plugin adopts
	// it. The host keeps its descriptors meanwhile. nil: the session ends with that process.
	Keep   *Keep
	Holder uint64
	// ReadOnly asks for the grant without writes. It is not enforced under full access.
	ReadOnly bool
	// Limits of the plugin's own, which can only be stricter than the grant's.
	Limits Limits
	Grant  Grant
	Owner  Owner
}

func (s *Spec) check() error {
	if len(s.Argv) == 0 {
		return failure.New("exec", "", syscall.EINVAL)
	}
	if !filepath.IsAbs(s.Cwd) {
		return fmt.Errorf("start %q: the path of the folder, %q, is not absolute", s.Argv[0], s.Cwd)
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

// withoutDuplicates removes every K=V that is followed by another with the same name.
func withoutDuplicates(env []string) []string {
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
	cfg        Config
	spareAfter time.Duration // spareDelay; longer in tests
	limits     *limit.Enforcer
	work       sync.WaitGroup // goroutines, among them one for each tree

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

// New returns a launcher. It starts nothing. It returns an error if gantry-launch is missing.
func New(cfg Config) (*Launcher, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	if st, err := os.Stat(cfg.LauncherPath); err != nil || st.IsDir() {
		return nil, hint.New(cfg.LauncherPath+" is missing", "install gantry and gantry-launch from one build, in one folder")
	}
	l := &Launcher{
		cfg: cfg, spareAfter: spareDelay, limits: limit.NewEnforcer(cfg.CgroupDir), handover: stdio.NewHandover(cfg.Logger),
	}
	l.closing = make(chan struct{})
	l.close = sync.OnceFunc(func() { close(l.closing) })
	l.pool = pool.New(pool.Config{Start: l.startMonitor, Wait: cfg.PreparedTime, Logger: cfg.Logger})
	l.mu.procs = make(map[string]*Process)
	return l, nil
}

// Spawn starts a process and returns once its program has been executed. If the program or its folder can't be used the error is a
// [StartError] with the operating system's text; if the grant can't be enforced, an [UnsupportedError].
//
// ctx limits only the start. Derive it from the call's context, so that a Spawn that is under way when the call ends leaves nothing
// behind.
func (l *Launcher) Spawn(ctx context.Context, spec Spec) (*Process, error) {
	if err := spec.check(); err != nil {
		return nil, err
	}
	spec.Env = withoutDuplicates(spec.Env)
	granted := spec.Grant.Limits
	if err := spec.Limits.Check(); err != nil {
		return nil, err
	}
	spec.Grant.Limits = granted.Tightened(spec.Limits)
	confiner, err := l.confiner(spec.Grant)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	p := newProcess(l, spec, cancel)
	p.granted = granted
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
	l.cfg.Logger.Debug("process started", "id", p.id, "pid", p.PID(), "program", spec.Argv[0], "call", spec.Owner.Call, "ahead", p.slot.Prepared)
	return p, nil
}

// prepareUnconfined prepares for an unconfined process, which must not execute what confined ones have created for it.
func (l *Launcher) prepareUnconfined(spec *Spec) error {
	if spec.Grant.Mode != FullAccess {
		return nil
	}
	for _, k := range l.keepers() {
		if err := k.PrepareUnconfined(spec.Owner); err != nil {
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

// Watch announces that a thread's processes will run under a grant, so that its folders can be examined in the background. What
// processes of a killed host have left there has been dealt with when it returns.
func (l *Launcher) Watch(thread string, g Grant) error {
	var errs []error
	for _, k := range l.keepers() {
		errs = append(errs, k.Watch(Owner{Thread: thread}, g))
	}
	return errors.Join(errs...)
}

// admit adds the record of a process that is about to be started, unless there are too many.
func (l *Launcher) admit(p *Process) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mu.closed {
		return ErrClosed
	}
	if l.mu.held >= l.cfg.MaxProcesses {
		e := failure.New("start", p.spec.Argv[0], syscall.EAGAIN)
		e.Message = fmt.Sprintf("%s: %d processes are running or have unread output, which is the limit; end some first",
			e.Message, l.mu.held)
		e.Err = ErrTooMany
		return e
	}
	l.mu.held++
	l.pool.Resume(p.spec.Owner.Thread)
	p.status.held = true
	l.mu.procs[p.id] = p
	return nil
}

// update records a change in the life of a process. Once its tree has ended and its output was read, it no longer counts against
// MaxProcesses; its record remains until the process is released, its call or thread ends, or there are maxEnded newer ones.
func (l *Launcher) update(p *Process, step func(*status)) {
	l.mu.Lock()
	step(&p.status)
	var drop *Process
	if at := p.status; at.ended && at.taken && at.released && !at.forgotten {
		drop = p
	}
	if p.status.held && p.status.ended && (p.status.taken || p.status.forgotten) {
		p.status.held = false
		l.mu.held--
		if !p.status.forgotten {
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

// status is the state of a process's record; guarded by the launcher's mutex.
type status struct {
	held      bool // it counts against MaxProcesses
	ended     bool // the whole tree has
	taken     bool // its plugin has received the descriptors, or its output was read to the end
	claimed   bool // its plugin has used its ID
	released  bool // its plugin knows how it ended
	forgotten bool // the record was removed
}

// forget removes the record of a process, its token, and the host's descriptors.
func (l *Launcher) forget(p *Process) {
	l.mu.Lock()
	delete(l.mu.procs, p.id)
	if i := slices.Index(l.mu.ended, p); i >= 0 {
		l.mu.ended = slices.Delete(l.mu.ended, i, i+1)
	}
	l.mu.Unlock()
	l.update(p, func(at *status) { at.forgotten = true })
	p.hold.end()
	l.handover.Forget(p.streams)
}

// ServeDescriptors gives a plugin the descriptors of its processes, in exchange for the tokens of [Process.Token], until ln is closed.
// It returns when every connection is closed.
func (l *Launcher) ServeDescriptors(plugin string, ln net.Listener) { l.handover.Serve(plugin, ln) }

// Process returns the process with an id, if its record exists. Whoever has the id can end the process, so it is no longer subject to
// EndUnclaimed.
func (l *Launcher) Process(id string) (*Process, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	p := l.mu.procs[id]
	if p == nil || !p.running() {
		return nil, false
	}
	p.status.claimed = true
	return p, true
}

// Count returns the number of processes that count against MaxProcesses: they are alive, or their output has not been read.
func (l *Launcher) Count() int {
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

// EndCall kills the processes of a call that are not sessions, and removes their records. Like the other End methods it kills them
// concurrently, even if ctx has ended already, and returns when the trees have ended or ctx ends; in that case the killing continues.
func (l *Launcher) EndCall(ctx context.Context, o Owner) error {
	err := l.end(ctx, func(p *Process) bool { return p.spec.Owner == o && !p.spec.Session })
	l.RunsOn(o)
	return err
}

// EndUnclaimed kills a process and removes its record, unless its plugin has shown that it knows the process: it has received the
// descriptors, or used the id. It returns as EndCall does.
func (l *Launcher) EndUnclaimed(ctx context.Context, p *Process) error {
	return l.end(ctx, func(q *Process) bool { return q == p && !q.status.claimed && !q.status.taken })
}

// RunsOn says that the processes of an owner, which EndCall has not ended, run in the background. What they create in their writable
// folders is checked as it appears, instead of when they end, and they don't delay the check of what others create.
func (l *Launcher) RunsOn(o Owner) {
	for _, k := range l.keepers() {
		k.CallEnded(o)
	}
}

// EndThread kills all processes of a thread, and removes their records.
func (l *Launcher) EndThread(ctx context.Context, thread string) error {
	l.pool.Rest(thread)
	defer l.pool.Resume(thread)
	return l.end(ctx, func(p *Process) bool { return p.spec.Owner.Thread == thread })
}

// EndPlugin kills all processes of a plugin that is removed for good, and removes their records.
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

// Close kills all processes and refuses new ones. If ctx ends first, the gantry-launch processes finish the killing, at the latest
// when the host has ended.
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
