package install

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/gantry-agent/gantry/config"
	"github.com/gantry-agent/gantry/config/diag"
	"github.com/gantry-agent/gantry/config/lock"
	"github.com/gantry-agent/gantry/config/permission"
	"github.com/gantry-agent/gantry/config/schema"
	"github.com/gantry-agent/gantry/config/source"
	"github.com/gantry-agent/gantry/host/internal/grants"
	"github.com/gantry-agent/gantry/host/internal/plugin"
	"github.com/gantry-agent/gantry/host/internal/plugin/binary"
	"github.com/gantry-agent/gantry/host/internal/pluginset"
	"github.com/gantry-agent/gantry/sdk/contract"
)

// Programs inspects the programs of provider and plugin blocks. It may start a program to read its manifest, but never configures
// or uses it.
type Programs struct {
	Installation
	userHome string
	cfg      *config.Config
	plugins  *plugin.Supervisor
	records  binary.Records
}

// Open returns the programs of a configuration. It starts nothing.
func (in Installation) Open(cfg *config.Config) (*Programs, error) {
	known := filepath.Join(in.Home, "cache", "manifests")
	sup, err := plugin.New(plugin.Config{
		RuntimeDir: filepath.Join(in.Home, "run"), CachePath: known, HostVersion: in.Version, Logger: in.Logger.Named("plugin"),
	})
	if err != nil {
		return nil, err
	}
	user := grants.UserHome(in.Environ)
	return &Programs{Installation: in, userHome: user, cfg: cfg, plugins: sup, records: binary.Records{Dir: filepath.Join(known, "digests")}}, nil
}

// Close stops started programs. The command is over, so cancelling its context has no effect.
func (p *Programs) Close(ctx context.Context) error {
	return p.plugins.Close(context.WithoutCancel(ctx))
}

// Blocks returns all provider and plugin blocks, including disabled ones.
func (p *Programs) Blocks() []*config.PluginBlock {
	return append(append([]*config.PluginBlock(nil), p.cfg.Providers...), p.cfg.Plugins...)
}

// Block returns the block with a label.
func (p *Programs) Block(label string) (*config.PluginBlock, error) {
	for _, b := range p.Blocks() {
		if b.Label == label {
			return b, nil
		}
	}
	return nil, diag.Failure{Diagnostics: diag.Diagnostics{p.cfg.UnknownPlugin(label)}}
}

// LockState is the state of a program with regard to its lock.
type LockState string

const (
	LockBuiltin  LockState = "built-in" // pinned by the build
	lockLocked   LockState = "locked"
	lockUnlocked LockState = "not locked"
	LockDiffers  LockState = "differs"
	lockMissing  LockState = "missing" // the program does not exist
)

// Program describes a block's program without starting it.
type Program struct {
	Block    *config.PluginBlock
	Path     string
	SHA256   string // hex; empty if the program does not exist
	entry    lock.Entry
	locked   bool
	State    LockState
	mismatch *lock.Mismatch
	Problem  error              // why it cannot be used
	Manifest *contract.Manifest // nil while unknown
}

// Look finds a program, hashes it and compares it with its lock. It starts nothing.
func (p *Programs) Look(b *config.PluginBlock) Program {
	pr := Program{Block: b, State: lockMissing}
	path, err := pluginset.Program(b, p.Bin, p.Home)
	if err != nil {
		pr.Problem = placed(b, err, nextNotInstalled)
		return pr
	}
	pr.Path = path
	file, err := binary.Open(path, p.records)
	if err != nil {
		if unknown := unknownBuiltin(b, p.Bin, p.Builtins); unknown != nil {
			pr.Problem = unknown
			return pr
		}
		next := nextNotThere
		if b.Program.Kind == source.Builtin {
			next = "the program has to be in the same folder as gantry; reinstall gantry"
		}
		pr.Problem = placed(b, reason(err, path), next)
		return pr
	}
	pr.SHA256 = file.SHA256
	if err := file.Close(); err != nil {
		pr.Problem = placed(b, err, "try again")
		return pr
	}
	pr.Manifest = p.plugins.Known(pr.SHA256)
	if b.Program.Kind == source.Builtin {
		pr.State = LockBuiltin
		if want := p.Builtins[filepath.Base(path)]; want != "" && want != pr.SHA256 {
			pr.State = LockDiffers
			pr.Problem = placed(b, fmt.Errorf("%s was not built together with this gantry", path), "reinstall gantry from a single build")
		}
		return pr
	}
	p.Compare(&pr)
	return pr
}

// Compare compares a program with its lock.
func (p *Programs) Compare(pr *Program) {
	b := pr.Block
	pr.mismatch, pr.Problem, pr.State = nil, nil, lockLocked
	locks, ds := p.cfg.Lock(b)
	if err := ds.Err(); err != nil {
		pr.State, pr.Problem = LockDiffers, err
		return
	}
	pr.entry, pr.locked = locks.Entry(b.Address())
	is := lock.Program{Address: b.Address(), Label: b.Label, Constraints: b.Version, Grants: p.cfg.Grants(b.Address())}
	var err error
	if is.Binary, err = lock.Binary(pr.SHA256); err != nil {
		pr.State, pr.Problem = LockDiffers, err
		return
	}
	if is.Files, err = p.cfg.FilesDigest(b.Address()); err != nil {
		pr.State, pr.Problem = LockDiffers, placed(b, err, "correct `files`")
		return
	}
	if pr.Manifest != nil {
		is.Manifest = lock.Hash(pr.Manifest.Digest())
	}
	err = locks.Check(is)
	if err == nil {
		return
	}
	pr.State, pr.Problem = LockDiffers, err
	if m, ok := errors.AsType[*lock.Mismatch](err); ok {
		pr.mismatch, pr.Problem = m, mismatched(b, m)
		if m.Reason == lock.ReasonNotLocked || m.Reason == lock.ReasonPlatform {
			pr.State = lockUnlocked
		}
	}
}

// Trusted reports whether the program may start without asking the user: it is part of gantry, or matches its lock.
func (pr *Program) Trusted() bool { return pr.State == LockBuiltin || pr.State == lockLocked }

// Describe reads a program's manifest. It starts nothing if the manifest is cached.
func (p *Programs) Describe(ctx context.Context, pr *Program, kind contract.Kind) (*plugin.Slot, error) {
	if pr.Manifest != nil && (kind == contract.KindUnknown || pr.Manifest.Kind == kind) {
		return nil, nil
	}
	slot, said, err := p.slot(pr, kind)
	if err != nil {
		return nil, err
	}
	m, err := slot.Manifest(ctx)
	if heard := said.Load(); heard != nil {
		m, err = heard, nil
	}
	if err != nil {
		return slot, err
	}
	pr.Manifest = m
	return slot, nil
}

// described is the diagnostic that stops a program once its manifest is known, before it is configured.
var described = contract.Diagnostic{Severity: contract.SeverityError, Summary: "started only to read its manifest"}

func (p *Programs) slot(pr *Program, kind contract.Kind) (*plugin.Slot, *atomic.Pointer[contract.Manifest], error) {
	b, said := pr.Block, new(atomic.Pointer[contract.Manifest])
	sandboxes := grants.Plugins{Config: p.cfg, Keys: grants.KeyFiles(p.cfg), BinDir: p.Bin, Home: p.Home, UserHome: p.userHome}
	spec := plugin.Spec{
		Label: b.Label, Kind: kind, Source: b.Source, Path: pr.Path, Args: b.Args, Env: b.Env, UnsafeEnv: b.UnsafeEnv,
		Limits:    plugin.Limits{MemoryBytes: b.Limits.MemoryBytes, Pids: int(b.Limits.Pids)},
		Transport: b.Transport, StartTimeout: b.StartTimeout, Where: b.Where(), SHA256: pr.SHA256,
		Configure: func(_ context.Context, m *contract.Manifest) ([]byte, []contract.Diagnostic) {
			said.Store(m)
			return nil, []contract.Diagnostic{described}
		},
		Confine: sandboxes.Sandbox(b, pr.Path),
	}
	slot, err := p.plugins.Add(spec)
	return slot, said, err
}

// Next steps for a program that does not exist.
const (
	nextNotInstalled = "install it, or change `source`"
	nextNotThere     = "check `source`; relative paths are relative to the folder of the configuration file"
)

// placed returns an error with the position of a block.
func placed(b *config.PluginBlock, err error, next string) error {
	d := diag.Diagnostic{Severity: diag.Error, Summary: fmt.Sprintf("plugin %q was not found", b.Label), Detail: sentence(err.Error()), Next: next}
	return diag.Failure{Diagnostics: diag.Diagnostics{b.Place(d)}}
}

// reason describes why a program cannot be read.
func reason(err error, path string) error {
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("the file %s doesn't exist", path)
	}
	return err
}

func sentence(s string) string {
	if s == "" {
		return ""
	}
	return strings.ToUpper(s[:1]) + strings.TrimSuffix(s[1:], ".") + "."
}

// Permissions describes the permissions that a block grants, one line each.
func Permissions(s permission.Set) []string {
	var out []string
	for _, l := range []struct {
		name string
		list []string
	}{{"network", s.Network}, {"exec", s.Exec}, {"read", s.Read}, {"write", s.Write}} {
		if len(l.list) > 0 {
			out = append(out, l.name+": "+strings.Join(l.list, ", "))
		}
	}
	if s.Exec != nil && len(s.Exec) == 0 {
		out = append(out, "exec: nothing")
	}
	out = append(out, processes(s.Processes)...)
	if s.Capabilities != nil {
		out = append(out, "capabilities: only "+listed(s.Capabilities, "none"))
	}
	return out
}

// processes describes what a block grants to the processes that are started for its plugin.
func processes(p permission.Processes) (out []string) {
	if n := p.Network; n != nil {
		text := "network of its processes: " + n.Mode
		if n.Mode == schema.NetworkProxy {
			text += "; allow: " + listed(n.Allow, "none") + "; deny: " + listed(n.Deny, "none") + "; other hosts: " + n.Unknown
		}
		if n.Limited {
			text += "; only methods that change nothing"
		}
		if n.Local {
			text += "; names may resolve to this machine and to private networks"
		}
		out = append(out, text)
	}
	if p.Memory > 0 {
		out = append(out, fmt.Sprintf("memory of its processes: %d MiB", p.Memory>>20))
	}
	return out
}

// listed joins names, or returns otherwise if there are none.
func listed(names []string, otherwise string) string {
	if len(names) == 0 {
		return otherwise
	}
	return strings.Join(names, ", ")
}

// LookAll inspects all programs. It starts those that may start and whose manifest is unknown.
func (p *Programs) LookAll(ctx context.Context) []Program {
	all := make([]Program, 0, len(p.Blocks()))
	for _, b := range p.Blocks() {
		all = append(all, p.Look(b))
	}
	var asked sync.WaitGroup
	for i := range all {
		if pr := &all[i]; pr.Trusted() && pr.Manifest == nil && pr.Block.Enabled {
			asked.Go(func() {
				if _, err := p.Describe(ctx, pr, pr.Block.Kind); err != nil {
					pr.Problem = err
				}
			})
		}
	}
	asked.Wait()
	return all
}

// Warning describes why a plugin's own settings could not be checked, or why it will not start.
func (pr *Program) Warning() diag.Diagnostic {
	d := diag.Diagnostic{
		Severity: diag.Warning, Summary: fmt.Sprintf("can't use plugin %q", pr.Block.Label), Detail: sentence(pr.Problem.Error()),
		Range: pr.Block.Range, Plugin: pr.Block.Label, Next: fmt.Sprintf("see `gantry plugin inspect %s`", pr.Block.Label),
	}
	if f, ok := errors.AsType[diag.Failure](pr.Problem); ok {
		if errs := f.Diagnostics.Errors(); len(errs) > 0 {
			d.Summary, d.Detail, d.Next, d.Snippet = errs[0].Summary, errs[0].Detail, errs[0].Next, errs[0].Snippet
		}
	}
	if pr.Manifest == nil {
		d.Detail = strings.TrimSpace(d.Detail + " Its settings were not checked.")
	}
	return d
}

// MaxInspectLines limits the lines of standard error that are shown for a plugin that did not start.
const MaxInspectLines = 1000
