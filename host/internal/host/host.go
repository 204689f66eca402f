// Package host composes a host from its store, its plugins and its threads.
//
// It owns: the wiring, in one function and from the bottom up, and the order in which everything is closed. It must not know:
// flags, terminals or any front end.
//
// Start with [New]. Two hosts can run in one process: there is no global state.
package host

import (
	"cmp"
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/gantry-agent/gantry/config"
	"github.com/gantry-agent/gantry/host/internal/agent"
	"github.com/gantry-agent/gantry/host/internal/codemode"
	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/grants"
	"github.com/gantry-agent/gantry/host/internal/guardian"
	"github.com/gantry-agent/gantry/host/internal/hook"
	"github.com/gantry-agent/gantry/host/internal/hosttool"
	"github.com/gantry-agent/gantry/host/internal/judges"
	"github.com/gantry-agent/gantry/host/internal/launch"
	"github.com/gantry-agent/gantry/host/internal/launch/box"
	"github.com/gantry-agent/gantry/host/internal/library"
	"github.com/gantry-agent/gantry/host/internal/modelset"
	"github.com/gantry-agent/gantry/host/internal/orchestrate"
	"github.com/gantry-agent/gantry/host/internal/plugin"
	"github.com/gantry-agent/gantry/host/internal/pluginset"
	"github.com/gantry-agent/gantry/host/internal/redact"
	"github.com/gantry-agent/gantry/host/internal/review"
	"github.com/gantry-agent/gantry/host/internal/role"
	"github.com/gantry-agent/gantry/host/internal/rulebook"
	"github.com/gantry-agent/gantry/host/internal/scratch"
	"github.com/gantry-agent/gantry/host/internal/service"
	"github.com/gantry-agent/gantry/host/internal/store"
	"github.com/gantry-agent/gantry/host/internal/thread"
	"github.com/gantry-agent/gantry/host/internal/threadsocket"
	"github.com/gantry-agent/gantry/host/internal/usershell"
	"github.com/gantry-agent/gantry/sdk/llm"
	gantryv1 "github.com/gantry-agent/gantry/sdk/proto/gantry/v1"
	"github.com/hashicorp/go-hclog"
)

// Options configure a host.
type Options struct {
	Home    string // gantry's home; absolute
	BinDir  string // contains the built-in plugins and the launcher
	Version string
	Config  *config.Config
	// Verified returns the digests that the lock file requires of a plugin, which were checked before.
	Verified func(*config.PluginBlock) (sha256, manifest string)
	// Reverified returns the digests that the lock file requires now, for a plugin that is replaced; nil: those of Verified.
	Reverified func(context.Context, *config.PluginBlock) (sha256, manifest string, err error)
	// Maintenance runs once, concurrently with the threads. Its context ends when the host closes, and Close waits for it; nil:
	// nothing runs.
	Maintenance func(context.Context, *store.Store)
	Logger      hclog.Logger
	// Redactor learns secrets and removes them from the output of calls; nil: the host creates one.
	Redactor *redact.Redactor
	// OnPlugin is called when a plugin's state changes; nil: not called.
	OnPlugin func(event.PluginState)
	Environ  []string // the host's environment; plugins and commands get a part of it
	// Vault stores the secrets of plugins; nil: a vault in Home.
	Vault service.Vault
	// Database stores threads and the state of plugins; zero: files in Home.
	Database store.Database
	// Ephemeral means that threads are not stored after the host has closed.
	Ephemeral bool
	Shared    Shared
	// Override changes each model that a user or a thread names; nil: no changes.
	Override func(*config.Model)
	// TrustHooks runs the user's hooks, and those of a trusted project, without consent.
	TrustHooks bool
	// Keyless starts providers although their blocks refer to missing values, in particular keys.
	Keyless bool

	tuneStore func(*store.Config) // for tests that refuse reads or let writes fail; nil: nothing
}

// Shared is what the hosts of a process share. The zero value shares nothing.
type Shared struct {
	// Store returns the store of the threads of hosts that are not ephemeral. Its owner closes it after the hosts, and tells them about its
	// state; see [Host.StoreHealth]. nil: the host opens a store of its own.
	Store func() (*store.Store, error)
	// Observe is called with the events of each thread; see [thread.Config]. nil: not called.
	Observe func([]event.Event)
	// Sockets makes threads reachable for other processes. Its owner closes it after the hosts. nil: the host has a socket of its own.
	Sockets *threadsocket.Server
	// Ended is called when a thread has ended and its lock is released; nil: not called.
	Ended func(event.ThreadID)
}

// Host is a running host.
type Host struct {
	opts     Options
	folders  folders // fixed after New
	log      hclog.Logger
	store    *store.Store
	box      *box.Sandbox
	launcher *launch.Launcher
	plugins  *pluginset.Set
	tools    hosttool.Table // implemented by the host; fixed after New
	agents   *agent.Agents
	roles    role.Set
	tokens   *orchestrate.Tokens
	proxies  *networkProxy // of commands
	shell    *usershell.Shell
	reviewer *review.Reviewer
	rules    *rulebook.Book
	models   *modelset.Set
	judges   *judges.Judges
	guardian *guardian.Guardian // nil: a person answers
	hooks    *hook.Engine       // nil: there are none
	// hookNotices are about hooks that can't be used; fixed after New.
	hookNotices []event.Notice
	// heldByHooks returns the files that hooks run in a folder; nil: there are no hooks. Fixed after New.
	heldByHooks func(dir string) []string
	environ     *grants.Environ
	sandbox     *grants.Checker
	scratch     *scratch.Dir
	library     *library.Library
	cleanup     []func(context.Context) error
	sockets     *threadsocket.Server
	sweep       sync.Once // removes stale sockets before the first thread starts

	life context.Context // ends when the host closes
	end  context.CancelCauseFunc
	work sync.WaitGroup // started by begin

	mu struct {
		sync.Mutex
		closing bool // no more work is started
		threads map[event.ThreadID]*running
	}
}

// closeBound is the time limit of Close: the time that the supervisor gives the slowest plugin, and a margin.
const closeBound = 10 * time.Second

// New composes a host. It starts only the processes that the configuration requires.
func New(ctx context.Context, opts Options) (_ *Host, err error) {
	opts.Redactor = cmp.Or(opts.Redactor, &redact.Redactor{})
	h := &Host{opts: opts, log: opts.Logger, rules: rulebook.New(opts.Config), tokens: orchestrate.NewTokens(), environ: grants.NewEnviron(opts.Config, opts.Environ)}
	h.mu.threads = map[event.ThreadID]*running{}
	h.life, h.end = context.WithCancelCause(context.WithoutCancel(ctx))
	defer func() {
		if err != nil {
			err = errors.Join(err, h.Close())
		}
	}()

	opts.Redactor.Add(h.environ.Secrets()...)
	if !opts.Config.Redaction.Patterns {
		opts.Redactor.DisablePatterns()
	}
	if h.folders, err = chooseFolders(opts.Home, opts.Ephemeral); err != nil {
		return nil, err
	}
	h.onClose(func(context.Context) error { return os.RemoveAll(h.folders.own) })
	if h.sockets = opts.Shared.Sockets; h.sockets == nil || h.folders.base != opts.Home {
		h.sockets = threadsocket.NewServer(threadsocket.Config{Home: h.folders.base, Logger: h.log})
		h.onClose(func(context.Context) error { return h.sockets.Close() })
	}
	state := &stateStore{database: opts.Database, dir: h.folders.base}
	h.onClose(state.close)
	if open := opts.Shared.Store; open != nil && !opts.Ephemeral {
		if h.store, err = open(); err != nil {
			return nil, err
		}
	} else {
		if h.store, err = openStore(ctx, opts, h.folders, h.StoreHealth); err != nil {
			return nil, err
		}
		h.onClose(h.store.Close)
	}
	userHome := grants.UserHome(opts.Environ)
	h.plugins = pluginset.New(pluginset.Config{
		Config: opts.Config, Home: opts.Home, BinDir: opts.BinDir, Keyless: opts.Keyless,
		OnSources: func() { h.begin(h.publishSources) },
		Verified:  opts.Verified, Reverified: opts.Reverified, Redactor: opts.Redactor, Logger: h.log,
	})
	h.box = grants.NewBox(opts.Home, opts.Environ, h.plugins.KeyFiles, h.plugins.ToolPrograms, h.movedAside)
	proxies := &networkProxy{host: h}
	h.proxies = proxies
	h.launcher, err = launch.New(launch.Config{
		LauncherPath: filepath.Join(opts.BinDir, "gantry-launch"), Logger: h.log.Named("launch"),
		Confiners: []launch.Confiner{launch.Unconfined{}, h.box},
		Proxy:     proxies.serve, OnAbandon: func(p *launch.Process) {
			if r, err := h.running(event.ThreadID(p.Owner().Thread)); err == nil {
				r.plugins.Abandoned(p.Owner())
			}
		}, OnLimit: h.limited, PreparedTime: boxAhead,
	})
	if err != nil {
		return nil, err
	}
	h.scratch = scratch.New(opts.Home, h.log)
	h.onClose(func(context.Context) error {
		h.scratch.Close()
		return nil
	})
	h.onClose(h.launcher.Close)
	if err := h.launcher.Adopt(); err != nil {
		return nil, err
	}
	h.work.Go(h.scratch.Sweep) // ends by itself
	h.sandbox = &grants.Checker{
		Config: opts.Config, Launcher: h.launcher, Environ: h.environ, UserHome: userHome,
		CacheDir: filepath.Join(h.folders.base, "cache"), Logger: h.log,
	}

	threads := func(id event.ThreadID) (service.Thread, bool) {
		t, ok := h.Thread(id)
		return t, ok
	}
	rootOf := func(id event.ThreadID) event.ThreadID {
		r, err := h.running(id)
		if err != nil {
			return id
		}
		_, root := family(h, r.thread)
		return root
	}
	ways := proxies.egress()
	services := service.New(service.Config{
		Tokens: h.tokens, Launcher: h.launcher, Store: h.store, State: state.open, Threads: threads, Root: rootOf, Redactor: h.redactor(), Sample: h.sample,
		Secrets: h.plugins.Secret, Stored: vaultOf(opts), Commands: &h.plugins.Commands, CommandGrant: commandGrant(h), Declared: declared(h), Denied: proxies.deniedTo, Folders: h.folders.ofPlugin, NetworkMode: func(label string) string { return grants.NetworkMode(opts.Config, label) }, JudgeHost: proxies.judge, OpenHost: proxies.open, Environment: h.environ.Tools, UserEnvironment: h.environ.User,
		Elicits: func() bool { g := opts.Config.Approval.Granular; return g == nil || g.MCPElicitations },
		Quota:   h.plugins.Quota, Exceeded: h.quotaExceeded, Granted: h.plugins.Granted, Starts: h.plugins.Starts, Known: opts.Redactor.Add,
		MakeRoom: h.plugins.MakeRoom, Earlier: h.plugins.Earlier, Permit: ways.Permit, Reaches: h.plugins.Reaches,
	})
	supervisor, err := plugin.New(plugin.Config{
		RuntimeDir: filepath.Join(h.folders.base, "run"), DataDir: filepath.Join(h.folders.base, "data"),
		CacheDir: filepath.Join(h.folders.base, "cache"), HostVersion: opts.Version, Logger: h.log.Named("plugin"),
		Services:    func(id plugin.Identity) gantryv1.HostServiceServer { return services.For(id) },
		CachePath:   filepath.Join(opts.Home, "cache", "manifests"),
		Descriptors: func(id plugin.Identity, ln net.Listener) { h.launcher.ServeDescriptors(id.Label, ln) },
		Egress:      func(id plugin.Identity, ln net.Listener) { ways.Serve(h.life, id, ln) },
		OnState:     h.pluginState,
		OnDescribed: h.plugins.Described,
		OnEnd: func(id plugin.Identity) {
			h.plugins.Ended(id)
			h.launcher.HolderEnded(id.Label, id.Generation)
		},
	})
	if err != nil {
		return nil, err
	}
	h.onClose(supervisor.Close)
	h.models = modelset.New(opts.Config, supervisor, opts.Override)

	sandboxes := grants.Plugins{
		Config: opts.Config, Keys: h.plugins.KeyFiles, Box: h.box, BinDir: opts.BinDir, Home: opts.Home, UserHome: userHome,
	}
	if err := h.plugins.Start(supervisor, sandboxes); err != nil {
		return nil, err
	}
	openAgents(h)
	h.tools.Reserve(h.plugins.Registry())
	if offersScripts(opts.Config) {
		codemode.Reserve(h.plugins.Registry())
	}
	h.judges = &judges.Judges{
		Config: opts.Config, Models: h.models, Launcher: h.launcher, Open: h.openChild, Thread: h.Thread, Logger: h.log,
	}
	if err := h.openHooks(); err != nil {
		return nil, err
	}
	h.guardian = h.judges.Guardian()
	if err := h.openFeatures(); err != nil {
		return nil, err
	}
	h.library = &library.Library{
		Store: h.store, Home: opts.Home, Version: opts.Version, Ephemeral: opts.Ephemeral, Logger: h.log,
		Running: func(id event.ThreadID) (library.Thread, error) {
			r, err := h.running(id)
			if err != nil {
				return library.Thread{}, err
			}
			return library.Thread{
				Thread: r.thread, Reverted: r.reverted, StopSession: r.plugins.Stop, OpenView: r.views.Open,
				Sessions: func() []launch.Usage { return h.launcher.Sessions(string(id)) },
			}, nil
		},
	}
	if opts.Maintenance != nil {
		h.work.Go(func() { opts.Maintenance(h.life, h.store) }) // ends with the host
	}
	return h, nil
}

func (h *Host) onClose(f func(context.Context) error) { h.cleanup = append(h.cleanup, f) }

// Store returns the store of threads.
func (h *Host) Store() *store.Store { return h.store }

// Library changes the threads that run in the host.
func (h *Host) Library() *library.Library { return h.library }

// Plugins returns the plugins of the host.
func (h *Host) Plugins() *pluginset.Set { return h.plugins }

// Close ends threads, plugins and processes in the reverse order of New, and waits for all of them. It is idempotent.
func (h *Host) Close() error {
	h.mu.Lock()
	h.mu.closing = true
	h.mu.Unlock()
	h.end(orchestrate.ErrShutdown)
	ctx, cancel := context.WithTimeout(context.Background(), closeBound)
	defer cancel()
	h.work.Wait() // threads end because h.life has ended; each has its own time limits
	var errs []error
	for i := len(h.cleanup) - 1; i >= 0; i-- {
		errs = append(errs, h.cleanup[i](ctx))
	}
	h.cleanup = nil
	return errors.Join(errs...)
}

// redactor returns what removes secrets from the output of calls; nil: the configuration disables it.
func (h *Host) redactor() *redact.Redactor {
	if !h.opts.Config.Redaction.Values {
		return nil
	}
	return h.opts.Redactor
}

// begin runs f in a goroutine that Close waits for. It returns false if the host is closing.
func (h *Host) begin(f func()) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.mu.closing {
		return false
	}
	h.work.Go(f)
	return true
}

// Thread finds a thread that runs in this host.
func (h *Host) Thread(id event.ThreadID) (*thread.Thread, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	r, ok := h.mu.threads[id]
	if !ok {
		return nil, false
	}
	return r.thread, true
}

// Models returns the models of the host's configuration.
func (h *Host) Models() *modelset.Set { return h.models }

// sample asks a thread's model on behalf of a plugin's call, or the model whose block's label the request names.
func (h *Host) sample(ctx context.Context, c orchestrate.Call, req *llm.Request) (*service.Sampled, error) {
	r, err := h.running(c.Thread)
	if err != nil {
		return nil, errors.New("the thread has ended")
	}
	model := r.sample.Load()
	if named, err := h.models.Find(req.Model); req.Model != "" && err == nil && named.Label == req.Model {
		if model, err = h.models.Open(ctx, c.Thread, named); err != nil {
			return nil, err
		}
	}
	if model == nil { // the thread has had no turn: a person calls its tools
		if model, err = r.firstModel(ctx); err != nil {
			return nil, err
		}
	}
	m, used, reason, err := model.Sample(ctx, c, req, r.thread.Meter(), r.thread, func(err error) {
		h.log.Warn("usage of a plugin's request not stored", "thread", c.Thread, "call", c.ID, "err", err)
	})
	return &service.Sampled{Message: m, Usage: used, Reason: reason, Model: model.Config.Name}, err
}
