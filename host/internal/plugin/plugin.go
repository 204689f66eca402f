// Package plugin supervises plugin processes: it starts them, speaks go-plugin's protocol with them, detects hangs and
// crashes, stops them with all their descendants, and replaces them while calls are running.
//
// It owns: a plugin's process from its start to its removal, the states of a slot, restarts after crashes, health checks and
// limits, orderly stops, and the transport and tokens of the connection. It must not know: what tools or models are, who
// calls a plugin and why, configuration files, what the host's services do.
//
// Start with [Supervisor] and [Slot.Acquire]. go-plugin starts processes through a runner of ours. It never reads what a
// plugin prints; [output] does.
//
// [output]: https://pkg.go.dev/github.com/gantry-agent/gantry/host/internal/plugin/output
package plugin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/hashicorp/go-hclog"

	"github.com/gantry-agent/gantry/host/internal/plugin/binary"
	"github.com/gantry-agent/gantry/host/internal/plugin/manifest"
	"github.com/gantry-agent/gantry/host/internal/plugin/proc"
	"github.com/gantry-agent/gantry/host/internal/plugin/socketdir"
	"github.com/gantry-agent/gantry/sdk/contract"
	gantryv1 "github.com/gantry-agent/gantry/sdk/proto/gantry/v1"
)

// Config configures a supervisor. Functions may be nil.
type Config struct {
	// RuntimeDir contains the sockets if its path is short enough (at most 35 bytes). Otherwise a folder under
	// $XDG_RUNTIME_DIR or under the temporary folder does.
	RuntimeDir string
	// DataDir and CacheDir contain a folder for each plugin. If empty, plugins get none.
	DataDir, CacheDir string
	// CachePath is the host's own folder for manifests, tool sets and digests. If empty, nothing is cached.
	CachePath   string
	HostVersion string
	// Logger may be nil. Each plugin's output is logged with a sublogger.
	Logger hclog.Logger
	// Services returns the host service for one process.
	Services func(Identity) gantryv1.HostServiceServer
	// Descriptors transfers file descriptors over the connections of the listener until that is closed.
	Descriptors func(Identity, net.Listener)
	// Egress connects the process of a tool plugin to the network over the connections of the listener until that is closed; nil: they
	// have no network. It is called only for plugins that declare the capability "network".
	Egress func(Identity, net.Listener)
	// OnState is called with every change of state. It must return quickly, and must not call this package.
	OnState func(State)
	// OnEnd is called when a process has ended and is no longer served.
	OnEnd func(Identity)
	// OnDescribed is called with the manifest of each process once that is accepted, before the process is configured.
	OnDescribed func(Identity, *contract.Manifest)
	// Redact is applied to everything that plugins print before it is stored or logged.
	Redact func(string) string
	// NoNamespaces finds the descendants of plugins by scanning the process table even if the system has namespaces.
	NoNamespaces bool

	lookupEnv func(string) (string, bool)
	timing    *timing
}

func (c Config) withDefaults() Config {
	if c.Logger == nil {
		c.Logger = hclog.NewNullLogger()
	}
	if c.lookupEnv == nil {
		c.lookupEnv = os.LookupEnv
	}
	if c.timing == nil {
		t := defaultTiming()
		c.timing = &t
	}
	if c.OnEnd == nil {
		c.OnEnd = func(Identity) {}
	}
	if c.OnDescribed == nil {
		c.OnDescribed = func(Identity, *contract.Manifest) {}
	}
	if c.OnState == nil {
		c.OnState = func(State) {}
	}
	return c
}

// Supervisor manages the slots of one host. Several supervisors in one process are independent.
type Supervisor struct {
	cfg Config

	mu struct {
		sync.Mutex
		slots    map[string]*Slot
		launcher *launcher // nil until the first start
		dir      *socketdir.Dir
		closed   bool
	}
	owners sync.WaitGroup // one goroutine for each slot
}

// New checks the configuration. It starts no process.
func New(cfg Config) (*Supervisor, error) {
	for name, dir := range map[string]string{"runtime": cfg.RuntimeDir, "data": cfg.DataDir, "cache": cfg.CacheDir, "manifest cache": cfg.CachePath} {
		if dir != "" && !filepath.IsAbs(dir) {
			return nil, fmt.Errorf("plugin supervisor: the %s folder %q is not absolute", name, dir)
		}
	}
	s := &Supervisor{cfg: cfg.withDefaults()}
	s.mu.slots = map[string]*Slot{}
	return s, nil
}

// Add adds a slot. Its process is started when it is needed.
func (s *Supervisor) Add(spec Spec) (*Slot, error) {
	spec = spec.withDefaults()
	if err := spec.validate(); err != nil {
		return nil, &Error{
			Plugin: spec.Label, Where: spec.Where, Phase: PhaseConfigure, Err: err,
			Next: "correct the block of the plugin",
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.closed {
		return nil, ErrClosed
	}
	if other, ok := s.mu.slots[spec.Label]; ok {
		return nil, &Error{
			Plugin: spec.Label, Where: spec.Where, Phase: PhaseConfigure,
			Err:  fmt.Errorf("the label is already used by %s", cmp.Or(other.Spec().Where, "another block")),
			Next: "change one of the labels; plugins and providers share one namespace",
		}
	}
	slot := newSlot(s, spec)
	s.mu.slots[spec.Label] = slot
	s.owners.Go(slot.run)
	return slot, nil
}

// Slot returns the slot with this label, or nil.
func (s *Supervisor) Slot(label string) *Slot {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.slots[label]
}

// Slots returns all slots, sorted by label.
func (s *Supervisor) Slots() []*Slot {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.SortedFunc(maps.Values(s.mu.slots), func(a, b *Slot) int { return cmp.Compare(a.label, b.label) })
}

// Close stops all plugins concurrently, and waits for all their processes. It takes at most about five seconds if calls are
// running, and half of that otherwise. When ctx ends, remaining processes are killed.
func (s *Supervisor) Close(ctx context.Context) error {
	s.mu.Lock()
	s.mu.closed = true
	all := slices.Collect(maps.Values(s.mu.slots))
	s.mu.Unlock()

	var wg sync.WaitGroup
	for _, slot := range all {
		wg.Go(func() { slot.close(ctx) })
	}
	wg.Wait()
	s.owners.Wait()

	s.mu.Lock()
	l, dir := s.mu.launcher, s.mu.dir
	s.mu.launcher, s.mu.dir = nil, nil
	s.mu.Unlock()
	if l == nil {
		return nil
	}
	l.starter.Close()
	if err := dir.Close(); err != nil {
		return fmt.Errorf("remove the folder of plugin sockets: %w", err)
	}
	return nil
}

// start starts a process of a slot.
func (s *Supervisor) start(ctx context.Context, spec Spec, id Identity) (*generation, error) {
	l, err := s.launcher()
	if err != nil {
		return nil, &Error{Plugin: spec.Label, Where: spec.Where, Phase: PhaseStart, Generation: id.Generation, Err: err,
			Next: "set XDG_RUNTIME_DIR to a folder of your own with a short path"}
	}
	return l.launch(ctx, spec, id)
}

// launcher returns what all starts share. The first call creates it.
func (s *Supervisor) launcher() (*launcher, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.launcher != nil {
		return s.mu.launcher, nil
	}
	dir, err := socketdir.Open(socketdir.Bases(s.cfg.RuntimeDir, s.cfg.lookupEnv), s.cfg.Logger)
	if err != nil {
		return nil, err
	}
	s.mu.dir = dir
	s.mu.launcher = &launcher{
		cfg: s.cfg, times: *s.cfg.timing, hostDir: dir.Path, logger: s.cfg.Logger,
		starter: proc.NewStarter(s.cfg.Logger, !s.cfg.NoNamespaces),
	}
	return s.mu.launcher, nil
}

// Known returns the cached manifest of the executable with this SHA-256 (in hex) and these arguments, or nil. It starts no
// process.
func (s *Supervisor) Known(sha256 string, args ...string) *contract.Manifest {
	return s.cfg.manifests().Get(s.cfg.program(sha256, Spec{Args: args}))
}

func (c Config) manifests() manifest.Cache { return manifest.NewCache(c.CachePath, c.HostVersion) }

func (c Config) toolSets() manifest.ToolSets { return manifest.NewToolSets(c.CachePath, c.HostVersion) }

// program identifies the code that a process of spec runs, if its executable has this digest.
func (c Config) program(sha256 string, spec Spec) string {
	return manifest.Program(sha256, spec.Args, spec.Env, c.records())
}

// records returns where digests of binaries are stored.
func (c Config) records() binary.Records {
	if c.CachePath == "" {
		return binary.Records{}
	}
	return binary.Records{Dir: filepath.Join(c.CachePath, "digests")}
}

var (
	errReplacing  = errors.New("a replacement is already in progress")
	errNotCurrent = errors.New("it is not the current process")
)
