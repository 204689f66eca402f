package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"sync/atomic"

	"github.com/gantry-agent/gantry/config"
	"github.com/gantry-agent/gantry/config/diag"
	"github.com/gantry-agent/gantry/config/lock"
	"github.com/gantry-agent/gantry/config/permission"
	"github.com/gantry-agent/gantry/config/source"
	"github.com/gantry-agent/gantry/host/internal/host"
	"github.com/gantry-agent/gantry/host/internal/plugin"
	"github.com/gantry-agent/gantry/host/internal/plugin/binary"
	"github.com/gantry-agent/gantry/sdk/contract"
)

// programs looks at the programs of provider and plugin blocks. It can start one to hear what it says about itself, but
// never configures it or offers it anything.
type programs struct {
	home     string
	userHome string
	bin      string
	cfg      *config.Config
	plugins  *plugin.Supervisor
	records  binary.Records
	builtins map[string]string // see app
}

func (a *app) openPrograms(ctx context.Context, home, dir string) (*programs, error) {
	cfg, err := a.loadConfig(ctx, home, dir)
	if err != nil {
		return nil, err
	}
	return a.programsOf(cfg, home)
}

func (a *app) programsOf(cfg *config.Config, home string) (*programs, error) {
	logger, err := a.logger()
	if err != nil {
		return nil, err
	}
	bin, err := binDir()
	if err != nil {
		return nil, err
	}
	known := filepath.Join(home, "cache", "manifests")
	sup, err := plugin.New(plugin.Config{
		RuntimeDir: filepath.Join(home, "run"), CachePath: known, HostVersion: a.version, Logger: logger.Named("plugin"),
	})
	if err != nil {
		return nil, err
	}
	user := host.UserHome(a.environ)
	return &programs{builtins: a.builtins, home: home, userHome: user, bin: bin, cfg: cfg, plugins: sup, records: binary.Records{Dir: filepath.Join(known, "digests")}}, nil
}

// close ends what was started. A command is over then, so its own end does not matter any more.
func (p *programs) close(ctx context.Context) error {
	return p.plugins.Close(context.WithoutCancel(ctx))
}

// blocks returns all provider and plugin blocks, those that are switched off included.
func (p *programs) blocks() []*config.PluginBlock {
	return append(append([]*config.PluginBlock(nil), p.cfg.Providers...), p.cfg.Plugins...)
}

// block finds a block by its label.
func (p *programs) block(label string) (*config.PluginBlock, error) {
	for _, b := range p.blocks() {
		if b.Label == label {
			return b, nil
		}
	}
	return nil, diag.Failure{Diagnostics: diag.Diagnostics{p.cfg.UnknownPlugin(label)}}
}

// lockState says how a program stands to its lock.
type lockState string

const (
	lockBuiltin  lockState = "built-in" // pinned by the build
	lockLocked   lockState = "locked"
	lockUnlocked lockState = "not locked"
	lockDiffers  lockState = "differs"
	lockMissing  lockState = "missing" // there is no program
)

// program is what is known of a block's program without starting it.
type program struct {
	block    *config.PluginBlock
	path     string
	sha256   string // hex; empty when there is no program
	entry    lock.Entry
	locked   bool
	state    lockState
	mismatch *lock.Mismatch
	problem  error              // why it can't be used
	manifest *contract.Manifest // nil: not known yet
}

// look finds a program, hashes it and compares it with its lock. Nothing is started.
func (p *programs) look(b *config.PluginBlock) program {
	pr := program{block: b, state: lockMissing}
	path, err := host.Program(b, p.bin, p.home)
	if err != nil {
		pr.problem = placed(b, err, nextNotInstalled)
		return pr
	}
	pr.path = path
	file, err := binary.Open(path, p.records)
	if err != nil {
		if unknown := unknownBuiltin(b, p.bin, p.builtins); unknown != nil {
			pr.problem = unknown
			return pr
		}
		next := nextNotThere
		if b.Program.Kind == source.Builtin {
			next = "the program belongs beside gantry's own; install gantry again"
		}
		pr.problem = placed(b, reason(err, path), next)
		return pr
	}
	pr.sha256 = file.SHA256
	if err := file.Close(); err != nil {
		pr.problem = placed(b, err, "try again")
		return pr
	}
	pr.manifest = p.plugins.Known(pr.sha256)
	if b.Program.Kind == source.Builtin {
		pr.state = lockBuiltin
		if want := p.builtins[filepath.Base(path)]; want != "" && want != pr.sha256 {
			pr.state = lockDiffers
			pr.problem = placed(b, fmt.Errorf("%s is not the one that was built with this gantry", path), "install gantry again, all of it from one build")
		}
		return pr
	}
	p.compare(&pr)
	return pr
}

// compare compares a program with its lock.
func (p *programs) compare(pr *program) {
	b := pr.block
	pr.mismatch, pr.problem, pr.state = nil, nil, lockLocked
	locks, ds := p.cfg.Lock(b)
	if err := ds.Err(); err != nil {
		pr.state, pr.problem = lockDiffers, err
		return
	}
	pr.entry, pr.locked = locks.Entry(b.Address())
	is := lock.Program{Address: b.Address(), Label: b.Label, Constraints: b.Version, Grants: p.cfg.Grants(b.Address())}
	var err error
	if is.Binary, err = lock.Binary(pr.sha256); err != nil {
		pr.state, pr.problem = lockDiffers, err
		return
	}
	if is.Files, err = p.cfg.FilesDigest(b.Address()); err != nil {
		pr.state, pr.problem = lockDiffers, placed(b, err, "correct `files`")
		return
	}
	if pr.manifest != nil {
		is.Manifest = lock.Hash(pr.manifest.Digest())
	}
	err = locks.Check(is)
	if err == nil {
		return
	}
	pr.state, pr.problem = lockDiffers, err
	if m, ok := errors.AsType[*lock.Mismatch](err); ok {
		pr.mismatch, pr.problem = m, mismatched(b, m)
		if m.Reason == lock.ReasonNotLocked || m.Reason == lock.ReasonPlatform {
			pr.state = lockUnlocked
		}
	}
}

// trusted tells whether the program may be started without asking: it comes with gantry, or is the one that was locked.
func (pr *program) trusted() bool { return pr.state == lockBuiltin || pr.state == lockLocked }

// describe asks a program what it is. Where that is remembered nothing is started.
func (p *programs) describe(ctx context.Context, pr *program, kind contract.Kind) (*plugin.Slot, error) {
	if pr.manifest != nil && (kind == contract.KindUnknown || pr.manifest.Kind == kind) {
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
	pr.manifest = m
	return slot, nil
}

// described is what ends a start once the program has said what it is: this process must not be configured.
var described = contract.Diagnostic{Severity: contract.SeverityError, Summary: "only asked what it is"}

func (p *programs) slot(pr *program, kind contract.Kind) (*plugin.Slot, *atomic.Pointer[contract.Manifest], error) {
	b, said := pr.block, new(atomic.Pointer[contract.Manifest])
	spec := plugin.Spec{
		Label: b.Label, Kind: kind, Source: b.Source, Path: pr.path, Args: b.Args, Env: b.Env, UnsafeEnv: b.UnsafeEnv,
		Limits:    plugin.Limits{MemoryBytes: b.Limits.MemoryBytes, Pids: int(b.Limits.Pids)},
		Transport: b.Transport, StartTimeout: b.StartTimeout, Where: b.Where(), SHA256: pr.sha256,
		Configure: func(_ context.Context, m *contract.Manifest) ([]byte, []contract.Diagnostic) {
			said.Store(m)
			return nil, []contract.Diagnostic{described}
		},
		Confine: host.Confine(b, p.cfg, host.KeyFiles(p.cfg), nil, p.bin, p.home, p.userHome, pr.path),
	}
	slot, err := p.plugins.Add(spec)
	return slot, said, err
}

// What to do about a program that is not there.
const (
	nextNotInstalled = "install it, or change `source`"
	nextNotThere     = "check `source`; relative paths start at the folder of the configuration file"
)

// placed is an error at a block.
func placed(b *config.PluginBlock, err error, next string) error {
	d := diag.Diagnostic{Severity: diag.Error, Summary: fmt.Sprintf("plugin %q was not found", b.Label), Detail: sentence(err.Error()), Next: next}
	return diag.Failure{Diagnostics: diag.Diagnostics{b.Place(d)}}
}

// reason says in words why a program can't be read.
func reason(err error, path string) error {
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("there is no file %s", path)
	}
	return err
}

func sentence(s string) string {
	if s == "" {
		return ""
	}
	return strings.ToUpper(s[:1]) + strings.TrimSuffix(s[1:], ".") + "."
}

// permissions says what a block grants, one line each.
func permissions(s permission.Set) []string {
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
	if s.Capabilities != nil {
		out = append(out, "capabilities: only "+listed(s.Capabilities, "none"))
	}
	return out
}

// listed joins names, or says otherwise.
func listed(names []string, otherwise string) string {
	if len(names) == 0 {
		return otherwise
	}
	return strings.Join(names, ", ")
}
