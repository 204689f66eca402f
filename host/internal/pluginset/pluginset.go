// Package pluginset runs the plugins of a configuration.
//
// It owns: the slot of each configured plugin and how it is started, the catalogue of tools, what manifests declare and blocks permit,
// and the commands of plugins. It must not know: threads and turns.
//
// Start with [New] and [Set.Start].
package pluginset

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/gantry-agent/gantry/config"
	"github.com/gantry-agent/gantry/config/diag"
	"github.com/gantry-agent/gantry/config/hint"
	"github.com/gantry-agent/gantry/config/source"
	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/grants"
	"github.com/gantry-agent/gantry/host/internal/plugin"
	"github.com/gantry-agent/gantry/host/internal/redact"
	"github.com/gantry-agent/gantry/host/internal/registry"
	"github.com/gantry-agent/gantry/host/internal/service"
	"github.com/gantry-agent/gantry/host/internal/tool"
	"github.com/gantry-agent/gantry/sdk/contract"
	"github.com/hashicorp/go-hclog"
)

// Config is what a set consists of.
type Config struct {
	Config  *config.Config
	Home    string // gantry's
	BinDir  string // contains the built-in plugins
	Keyless bool   // providers start even if settings in their blocks are missing
	// Verified returns the digests that the lock file requires of a plugin, as of the host's start; nil: none.
	Verified func(*config.PluginBlock) (sha256, manifest string)
	// Reverified returns the digests that the lock file requires now, for a plugin that is replaced; nil: those of Verified.
	Reverified func(context.Context, *config.PluginBlock) (sha256, manifest string, err error)
	// OnSources is called when sources of tools have failed, and after each Load. It must not block.
	OnSources func()
	Redactor  *redact.Redactor // learns secrets, and removes them from messages of plugins
	Logger    hclog.Logger
}

// Set is the plugins of a configuration. Its methods may be called concurrently after Start.
type Set struct {
	Commands service.Commands // that are running

	cfg      Config
	plugins  *plugin.Supervisor      // fixed after Start
	registry *registry.Registry      // fixed after Start
	backends map[string]*tool.Client // by the labels of tool plugins; fixed after Start

	loading chan struct{} // held while the catalogue is loaded

	cataloguing sync.Mutex      // held while a tool set is replaced
	live        map[string]bool // plugins whose tools in the catalogue come from a running process

	mu struct {
		sync.Mutex
		secrets      map[string]config.Secrets        // by plugin
		processes    map[string][]config.Process      // that are declared, by plugin
		reach        map[string]config.Reach          // hosts that plugins may reach, by plugin
		held         map[string][]string              // files that these run, by plugin
		missing      map[string][]event.Notice        // settings that a provider's block lacks, by provider
		leftOut      map[string][]contract.Diagnostic // invalid tools, by plugin
		loaded       map[string]bool                  // plugins whose tools are in the catalogue
		instructions map[string]string                // of tool plugins whose manifest is known
		manifests    map[string]*contract.Manifest    // of plugins whose manifest is known
		keyFiles     []config.KeyFile                 // nil: to be computed again, because another manifest became known
		declared     map[plugin.Identity][]string     // capabilities in the manifests of running processes
	}
}

// New returns a set without running plugins.
func New(cfg Config) *Set {
	s := &Set{cfg: cfg, backends: map[string]*tool.Client{}, loading: make(chan struct{}, 1), live: map[string]bool{}}
	s.mu.secrets = map[string]config.Secrets{}
	s.mu.reach = map[string]config.Reach{}
	s.mu.processes, s.mu.held = map[string][]config.Process{}, map[string][]string{}
	s.mu.missing = map[string][]event.Notice{}
	s.mu.leftOut = map[string][]contract.Diagnostic{}
	s.mu.loaded = map[string]bool{}
	s.mu.instructions = map[string]string{}
	s.mu.manifests = map[string]*contract.Manifest{}
	s.mu.declared = map[plugin.Identity][]string{}
	return s
}

// Start adds a slot for each configured plugin to a supervisor. It starts no process.
func (s *Set) Start(plugins *plugin.Supervisor, sandboxes grants.Plugins) error {
	s.plugins = plugins
	var labels []string
	for _, block := range s.cfg.Config.Blocks() {
		spec, err := s.spec(block, sandboxes)
		if err != nil {
			return err
		}
		slot, err := plugins.Add(spec)
		if err != nil {
			return err
		}
		if block.Kind == contract.KindTool {
			labels = append(labels, block.Label)
			s.backends[block.Label] = tool.New(slot)
		}
	}
	s.registry = registry.New(labels...)
	return nil
}

// spec describes the slot of a block. The configuration ensures that labels of plugins and providers are different.
func (s *Set) spec(b *config.PluginBlock, sandboxes grants.Plugins) (plugin.Spec, error) {
	path, err := Program(b, s.cfg.BinDir, s.cfg.Home)
	if err != nil {
		return plugin.Spec{}, fmt.Errorf("%s: %w", b.Where(), err)
	}
	spec := plugin.Spec{
		Label: b.Label, Kind: b.Kind, Source: b.Source, Path: path, Args: b.Args, Env: b.Env, UnsafeEnv: b.UnsafeEnv,
		Limits:    plugin.Limits{MemoryBytes: b.Limits.MemoryBytes, Pids: int(b.Limits.Pids), StorageBytes: b.Limits.StorageBytes},
		Transport: b.Transport, StartTimeout: b.StartTimeout, Where: b.Where(),
	}
	spec.Confine = withFiles(s.cfg.Config, b, sandboxes.Sandbox(b, path))
	if s.cfg.Verified != nil {
		spec.SHA256, spec.ManifestDigest = s.cfg.Verified(b)
	}
	spec.Configure = func(_ context.Context, m *contract.Manifest) ([]byte, []contract.Diagnostic) {
		return s.configure(b, m)
	}
	spec.Exclusive = func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return slices.ContainsFunc(s.mu.processes[b.Label], func(p config.Process) bool { return !p.Disabled })
	}
	spec.Place = func(said []contract.Diagnostic) []contract.Diagnostic { return diagnostics(b.Diagnose(said)) }
	return spec, nil
}

// configure renders the configuration of a plugin and remembers its secrets.
func (s *Set) configure(b *config.PluginBlock, m *contract.Manifest) ([]byte, []contract.Diagnostic) {
	var (
		data      []byte
		secrets   config.Secrets
		processes []config.Process
		diags     config.Diagnostics
	)
	switch {
	case b.Kind == contract.KindTool:
		data, secrets, processes, diags = b.RenderProcesses(m)
	case s.cfg.Keyless:
		data, secrets, diags = b.Preview(m)
	default:
		data, secrets, diags = b.Render(m)
	}
	for _, secret := range secrets {
		s.cfg.Redactor.Add(secret.Value)
	}
	for _, p := range processes {
		for _, secret := range p.Env {
			s.cfg.Redactor.Add(secret.Value)
		}
	}
	files := filesOf(s.cfg.Config, processes)
	var missing []event.Notice
	for _, d := range diags {
		missing = append(missing, event.Notice{Level: "warning", Text: d.Summary, Next: d.Next})
	}
	reach := b.Reach(m)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.secrets[b.Label], s.mu.reach[b.Label] = secrets, reach
	s.mu.processes[b.Label], s.mu.held[b.Label] = processes, files
	s.mu.missing[b.Label] = missing
	return data, diagnostics(diags)
}

// withFiles compares the files that a program loads at each start with those at the start of the host, which the lock file covered.
func withFiles(c *config.Config, b *config.PluginBlock, confine func([]string) (*plugin.Sandbox, error)) func([]string) (*plugin.Sandbox, error) {
	if len(b.Files) == 0 {
		return confine
	}
	was, err := c.FilesDigest(b.Address())
	return func(own []string) (*plugin.Sandbox, error) {
		is, now := c.FilesDigest(b.Address())
		if err := errors.Join(err, now); err != nil {
			return nil, err
		}
		if is != was {
			return nil, hint.With(fmt.Errorf("a file that plugin %q loads has changed", b.Label),
				fmt.Sprintf("look at it, run `gantry plugin lock %s`, and start gantry again", b.Label))
		}
		return confine(own)
	}
}

// Program returns the path of a block's program. Built-in programs are in binDir, installed ones in the plugins folder of home.
func Program(b *config.PluginBlock, binDir, home string) (string, error) {
	switch b.Program.Kind {
	case source.Builtin:
		return filepath.Join(binDir, "gantry-"+b.Kind.String()+"-"+b.Program.Name), nil
	case source.Path:
		return b.Path, nil
	}
	path, _, err := b.Program.Find(filepath.Join(home, "plugins"), b.Version)
	return path, err
}

// ToolPrograms returns the paths of the programs of the configured tool plugins.
func (s *Set) ToolPrograms() []string {
	var out []string
	for _, b := range s.cfg.Config.Plugins {
		if path, err := Program(b, s.cfg.BinDir, s.cfg.Home); err == nil && b.Kind == contract.KindTool {
			out = append(out, path)
		}
	}
	return out
}

// diagnostics converts diagnostics of the configuration to those of the contract. The place becomes part of the detail.
func diagnostics(ds config.Diagnostics) []contract.Diagnostic {
	out := make([]contract.Diagnostic, 0, len(ds))
	for _, d := range ds {
		severity := contract.SeverityError
		if d.Severity == diag.Warning {
			severity = contract.SeverityWarning
		}
		detail := d.Detail
		if where := d.Range.String(); where != "" {
			detail = strings.TrimSuffix(strings.TrimSpace(where+": "+detail), ":")
		}
		out = append(out, contract.Diagnostic{Severity: severity, Summary: d.Summary, Detail: detail, Next: d.Next})
	}
	return out
}

// MissingSettings returns notices about settings that the block of a provider lacks. The provider has started without them because
// [Config.Keyless] is set.
func (s *Set) MissingSettings(label string) []event.Notice {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.mu.missing[label])
}

// Secret returns the secret that a handle in a plugin's configuration refers to.
func (s *Set) Secret(label, handle string) (service.Secret, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	secret, ok := s.mu.secrets[label][handle]
	return serviceSecret(secret), ok
}

func serviceSecret(secret config.Secret) service.Secret {
	out := service.Secret{Value: secret.Value, Err: secret.Err}
	if c := secret.Command; c != nil {
		out.Program = &service.Program{Argv: c.Argv, Dir: c.Dir, Timeout: c.Timeout, Refresh: c.Refresh, Check: c.Check}
	}
	return out
}

// KeyFiles returns the files that the configuration reads keys from. Only known manifests can mark settings as keys.
func (s *Set) KeyFiles() []config.KeyFile {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.keyFiles == nil {
		s.mu.keyFiles = s.cfg.Config.KeyFiles(func(b *config.PluginBlock) *contract.Manifest { return s.mu.manifests[b.Label] })
	}
	return s.mu.keyFiles
}

// Registry returns the catalogue of tools.
func (s *Set) Registry() *registry.Registry { return s.registry }

// Slot returns the slot of a plugin; nil: there is no such plugin.
func (s *Set) Slot(label string) *plugin.Slot { return s.plugins.Slot(label) }

// Backend returns the client of a tool plugin.
func (s *Set) Backend(label string) (*tool.Client, bool) {
	b, ok := s.backends[label]
	return b, ok
}

// WarmTools starts the tool plugins in the background.
func (s *Set) WarmTools() {
	for label := range s.backends {
		s.plugins.Slot(label).Warm()
	}
}

// MakeRoom stops an earlier process of a plugin whose sessions id adopts.
func (s *Set) MakeRoom(ctx context.Context, id plugin.Identity) bool {
	slot := s.plugins.Slot(id.Label)
	return slot != nil && slot.StopPrevious(ctx, id.Generation)
}

// Earlier reports whether an earlier process of a plugin is running.
func (s *Set) Earlier(id plugin.Identity) bool {
	slot := s.plugins.Slot(id.Label)
	return slot != nil && slot.HasOlder(id.Generation)
}

// Block returns the block of a plugin or provider; nil: there is none.
func (s *Set) Block(label string) *config.PluginBlock {
	if b, ok := s.cfg.Config.Plugin(label); ok {
		return b
	}
	b, _ := s.cfg.Config.Provider(label)
	return b
}

// BuiltIn reports whether a plugin's program was installed with gantry.
func (s *Set) BuiltIn(label string) bool {
	b := s.Block(label)
	return b != nil && b.Program.Kind == source.Builtin
}
