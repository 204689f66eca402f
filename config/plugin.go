package config

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/gantry-agent/gantry/config/diag"
	"github.com/gantry-agent/gantry/config/hint"
	"github.com/gantry-agent/gantry/config/hosts"
	"github.com/gantry-agent/gantry/config/internal/bind"
	"github.com/gantry-agent/gantry/config/internal/function"
	"github.com/gantry-agent/gantry/config/lock"
	"github.com/gantry-agent/gantry/config/permission"
	"github.com/gantry-agent/gantry/config/reach"
	"github.com/gantry-agent/gantry/config/schema"
	"github.com/gantry-agent/gantry/config/source"
	"github.com/gantry-agent/gantry/config/version"
	"github.com/gantry-agent/gantry/sdk/contract"
)

// PluginBlock is a provider or plugin block: a program under a label that the user chose.
type PluginBlock struct {
	Kind         contract.Kind // the kind that the block requires
	Label        string
	Source       string        // as written
	Program      source.Source // parsed
	Path         string        // absolute path of a path source; empty for other sources
	Version      version.Constraints
	Args         []string
	Files        []string // files and folders that the program loads and whose content is locked; absolute
	Enabled      bool
	Env          map[string]string
	UnsafeEnv    bool
	Transport    string        // "peercred", "mtls", or empty for the platform's default
	StartTimeout time.Duration // 0: the default
	Limits       ProcessLimits
	Permissions  permission.Set
	Spawns       Spawns
	Approval     ToolApproval   // for tools that match no entry of Tools
	Tools        []ToolApproval // for single tools, in the order of the files
	Range        Range          // the block's header in the last file that has it
	LockFile     string         // absolute; next to the file that sets the source
	// Problems are errors that affect only this block, such as an unset environment variable. Render reports them as well.
	Problems Diagnostics

	layer        Layer  // the layer that sets the source
	network      Layer  // the layer that sets permissions { network }
	base         string // the folder that Files are relative to in the lock
	capabilities []item
	body         bind.Block
	home         string // of the user; may be empty
}

// ToolApproval configures whether calls of tools need approval.
type ToolApproval struct {
	Name  string // of the tool, or a pattern; empty: all tools of the plugin
	Mode  string // "auto", "prompt", "writes", "approve" or "deny"; empty: not set
	Range Range
}

// ToolApproval returns the setting for a tool that has the given names: the entry with its exact name, otherwise the one with the
// longest matching pattern, otherwise the plugin's.
func (b *PluginBlock) ToolApproval(names ...string) ToolApproval {
	out, best := b.Approval, -1
	for _, t := range b.Tools {
		specific := len(t.Name)
		switch {
		case slices.Contains(names, t.Name):
			specific = 1 << 16 // an exact name precedes all patterns
		case !slices.ContainsFunc(names, func(n string) bool { ok, err := path.Match(t.Name, n); return ok && err == nil }):
			continue
		}
		if t.Mode != "" && specific > best {
			out, best = t, specific
		}
	}
	return out
}

// ProcessLimits bound the process and its storage. 0 means no limit, except for storage, which is always limited.
type ProcessLimits struct {
	MemoryBytes int64
	Pids        int64
	// StorageBytes applies to the plugin's folders and StateBytes to its key-value state. ArtifactBytes and EventBytes apply to
	// what it sends during one run of the host.
	StorageBytes, StateBytes, ArtifactBytes, EventBytes int64
}

// Default storage limits.
const (
	defaultStorage   = 1 << 30
	defaultState     = 64 << 20
	defaultArtifacts = 4 << 30
	defaultEvents    = 64 << 20
)

// Secret is the secret of a handle: a value, or the program that prints it. Formatting it prints a placeholder.
type Secret = bind.Secret

// Command is a program that prints a secret.
type Command = function.Command

// Secrets maps handles to secrets.
type Secrets map[string]Secret

// Where returns the block's position as "gantry.hcl:14".
func (b *PluginBlock) Where() string { return b.Range.String() }

// BuiltIn reports whether the block is part of gantry rather than of a configuration file.
func (b *PluginBlock) BuiltIn() bool { return b.layer == LayerBuiltin }

// Address returns the program's key in the lock file.
func (b *PluginBlock) Address() string { return b.Program.Address() }

// Render evaluates the block's own settings and checks them against the schema in the manifest. The JSON has every attribute of
// the schema. Secrets appear in it as {"$secret": HANDLE} and are returned by handle. Render evaluates env(), file() and secret();
// programs of command() run later, when the plugin asks for the secret. Values that are missing in a block with a label are errors of
// its secrets, so that the plugin can use the other blocks. If there are errors, no JSON is returned.
func (b *PluginBlock) Render(m *contract.Manifest) (config []byte, secrets Secrets, ds Diagnostics) {
	config, secrets, _, ds = b.RenderProcesses(m)
	return config, secrets, ds
}

// RenderProcesses is Render and Processes in one evaluation.
func (b *PluginBlock) RenderProcesses(m *contract.Manifest) (config []byte, secrets Secrets, ps []Process, ds Diagnostics) {
	if ds = b.usable(m); ds.HasErrors() {
		return nil, nil, nil, ds
	}
	return b.decode(m, bind.Use)
}

// Processes returns the processes that the block declares. See [contract.ConfigNestedBlock.Process]. If there are errors, which Render
// returns as well, no process is returned.
func (b *PluginBlock) Processes(m *contract.Manifest) ([]Process, Diagnostics) {
	_, _, ps, ds := b.RenderProcesses(m)
	return ps, ds
}

// decode evaluates the block's own settings by the manifest. If there are errors, only these are returned.
func (b *PluginBlock) decode(m *contract.Manifest, mode bind.Mode) (config []byte, secrets Secrets, ps []Process, ds Diagnostics) {
	config, secrets, declared, ds := b.body.DecodeProcesses(m.Config, mode)
	for _, d := range declared {
		p, more := b.process(d)
		ps, ds = append(ps, p), append(ds, more...)
	}
	ds = append(ds, b.undeclared(m)...)
	if ds.HasErrors() {
		return nil, nil, nil, ds
	}
	return config, secrets, ps, ds
}

// Preview is like Render for a block that is only inspected, or that works without what is missing: an unset variable, for
// example, is only a warning. Missing secrets are empty, and other missing settings have no value.
func (b *PluginBlock) Preview(m *contract.Manifest) (config []byte, secrets Secrets, ds Diagnostics) {
	for _, d := range b.Problems {
		d.Severity = diag.Warning
		ds = append(ds, d)
	}
	if kind := b.wrongKind(m); kind.HasErrors() {
		return nil, nil, append(ds, kind...)
	}
	config, values, _, more := b.decode(m, bind.Look)
	return config, values, append(ds, more...)
}

// capabilityNetwork is a capability without a service of the host: providers always have it, tool plugins have it through
// permissions { network }.
const capabilityNetwork = "network"

// undeclared warns about granted capabilities that the plugin does not declare, because a misspelled name grants nothing. It
// reports an error if the capability for the network is withheld from a provider, which the host cannot enforce.
func (b *PluginBlock) undeclared(m *contract.Manifest) (ds Diagnostics) {
	if b.Kind == contract.KindProvider && slices.Contains(m.Capabilities, capabilityNetwork) && !b.Permissions.Capability(capabilityNetwork, m.Capabilities) {
		ds = append(ds, b.Place(Diagnostic{
			Severity: diag.Error, Summary: "the capability \"network\" can't be withheld from a provider",
			Detail: "A provider has the same network access as you.", Next: "add \"network\" to permissions { capabilities }, or disable the " +
				"provider with enabled = false",
		}))
	}
	if s := b.Permissions; b.Kind == contract.KindTool && len(s.Network) > 0 && !s.WholeNetwork() && !slices.Contains(m.Capabilities, capabilityNetwork) {
		ds = append(ds, b.Place(Diagnostic{
			Severity: diag.Warning, Summary: "permissions { network } has no effect",
			Detail: "The plugin does not reach the network through gantry: it does not declare the capability \"network\".", Next: "remove it, or write \"*\" for the whole network",
		}))
	}
	for _, c := range b.capabilities {
		if slices.Contains(m.Capabilities, c.text) || b.Kind == contract.KindTool && c.text == capabilityNetwork && len(b.Permissions.Network) > 0 {
			continue
		}
		ds = append(ds, b.body.Files.At(c.at, Diagnostic{
			Severity: diag.Warning, Summary: fmt.Sprintf("capability %q has no effect", c.text), Plugin: b.Label,
			Detail: "The plugin does not declare it.", Next: diag.DidYouMean(c.text, m.Capabilities, "remove it"),
		}))
	}
	return ds
}

// Place sets the range of d to the block's header, unless d already has one.
func (b *PluginBlock) Place(d Diagnostic) Diagnostic {
	d.Plugin = b.Label
	return b.body.Files.At(b.body.Header, d)
}

// Check is like Render for a configuration that is not about to be used: what is missing outside it, such as an environment
// variable, is only a warning. If nothing is missing, config is what Render returns.
func (b *PluginBlock) Check(m *contract.Manifest) (config []byte, ds Diagnostics) {
	ds = slices.Clone(b.Problems)
	for i := range ds {
		ds[i].Severity = diag.Warning
	}
	if kind := b.wrongKind(m); kind.HasErrors() {
		return nil, append(ds, kind...)
	}
	config, _, _, more := b.decode(m, bind.Check)
	return config, append(ds, more...)
}

func (b *PluginBlock) usable(m *contract.Manifest) Diagnostics {
	if len(b.Problems) > 0 {
		return b.Problems
	}
	return b.wrongKind(m)
}

func (b *PluginBlock) wrongKind(m *contract.Manifest) Diagnostics {
	if m.Kind == b.Kind || m.Kind == contract.KindUnknown {
		return nil
	}
	want, is := schema.BlockProvider, "tool plugin"
	next := fmt.Sprintf("configure it as `plugin %q { ... }`", b.Label)
	if b.Kind == contract.KindTool {
		want, is = schema.BlockPlugin, "provider"
		next = fmt.Sprintf("configure it as `provider %q { ... }`", b.Label)
	}
	return Diagnostics{b.Place(Diagnostic{
		Severity: diag.Error, Summary: fmt.Sprintf("%s is a %s", b.Source, is),
		Detail: fmt.Sprintf("A %s block can't use it.", want), Next: next,
	})}
}

// Locate returns the range of an attribute path in the block's own settings.
func (b *PluginBlock) Locate(path []contract.Step) Range { return b.body.Locate(path) }

// Labelled returns the range of a nested block with this label, whatever its type; false: there is none.
func (b *PluginBlock) Labelled(label string) (Range, bool) { return b.body.Labelled(label) }

// Diagnose adds positions to diagnostics that the plugin itself returned for its settings.
func (b *PluginBlock) Diagnose(in []contract.Diagnostic) Diagnostics { return b.body.Diagnose(in) }

// Reach is which hosts a plugin's process may reach through the host.
type Reach struct {
	// Local may be addresses of this machine and of private networks, if they are literal.
	Local []hosts.Pattern
	// Public are reached at public addresses only.
	Public []hosts.Pattern
}

// All returns all hosts.
func (r Reach) All() []hosts.Pattern { return slices.Concat(r.Local, r.Public) }

// Reach returns the hosts that the block permits, by its endpoints according to the schema in the manifest and by permissions { network }.
// What a project's file contains gives no access to local addresses. The capability for the network may be withheld; then there are no hosts.
func (b *PluginBlock) Reach(m *contract.Manifest) (r Reach) {
	if !b.Permissions.Capability(capabilityNetwork, m.Capabilities) {
		return Reach{}
	}
	add := func(to *[]hosts.Pattern, text string) {
		if p, err := hosts.ParsePattern(text); err == nil { // others are reported when they are read
			*to = append(*to, p)
		}
	}
	for _, e := range b.body.Endpoints(m.Config) {
		host := e.Host
		if strings.Contains(host, ":") {
			host = "[" + host + "]"
		}
		if !e.Project {
			add(&r.Local, fmt.Sprintf("%s:%d", host, e.Port)) // its other ports belong to other services
		}
		add(&r.Public, host)
	}
	written := &r.Local
	if b.network == LayerProject {
		written = &r.Public
	}
	for _, text := range b.Permissions.Network {
		add(written, text)
	}
	return r
}

// Variables returns the sorted names of the environment variables that the block's own settings may read. Their values are only
// for this plugin: the host removes them from the environment of all other processes.
func (b *PluginBlock) Variables() []string {
	seen := make(map[string]bool)
	b.body.Environment(func(name string) { seen[name] = true })
	return slices.Sorted(maps.Keys(seen))
}

// KeySecret returns the name of the stored secret that is the block's key: that of the setting api_key, or else the only one of the block.
// ok is false if there is no such secret, or more than one.
func (b *PluginBlock) KeySecret() (name string, ok bool) {
	seen := make(map[string]bool)
	key := ""
	b.body.Secrets(func(setting []string, secret string) {
		seen[secret] = true
		if setting[len(setting)-1] == "api_key" {
			key = secret // of the highest layer
		}
	})
	if names := slices.Sorted(maps.Keys(seen)); key == "" && len(names) == 1 {
		key = names[0]
	}
	return key, key != ""
}

// HasKey reports whether the block has a key, or another secret, that is there. Programs of command() are not run.
func (b *PluginBlock) HasKey() bool { return b.body.Keyed() }

// BaseURL returns the block's setting base_url, which providers have for the address of their service; empty: the provider's default.
// Secrets in it are masked.
func (b *PluginBlock) BaseURL() string {
	const name = "base_url"
	return strings.TrimPrefix(diag.Mask(name+" = "+b.body.Text(name)), name+" = ")
}

// forbidden are variables that make a program load code other than the locked one.
var forbidden = []string{
	"PATH", "PYTHONPATH", "PYTHONHOME", "NODE_OPTIONS", "RUBYOPT", "CLASSPATH", "GOROOT", "BASH_ENV", "ENV",
}

// ForbiddenEnv reports whether an env block may set a variable only if unsafe_env is set.
func ForbiddenEnv(name string) bool {
	name = strings.ToUpper(name)
	return slices.Contains(forbidden, name) || strings.HasPrefix(name, "LD_") || strings.HasPrefix(name, "DYLD_")
}

// reservedEnv reports whether only the host may set a variable.
func reservedEnv(name string) bool {
	name = strings.ToUpper(name)
	return strings.HasPrefix(name, "GANTRY_") || strings.HasPrefix(name, "PLUGIN_")
}

func (l *loader) pluginBlock(d *decoder, n *node, kind contract.Kind) *PluginBlock {
	p := &PluginBlock{Kind: kind, Label: n.label, Range: l.files.Range(n.header), Enabled: true, home: l.sources.Home}
	b := d.block(n, n.schema)
	b.problems = &p.Problems
	sub := func(name string) block {
		s := d.block(n.block(name), n.schema.Block(name))
		s.problems = b.problems
		return s
	}
	b.label()
	b.require(key{n.schema.Name, n.label}, l.siblings(n), "source")
	p.Enabled = b.flag("enabled", true)
	p.Args = texts(b.list("args"))
	if b.has("files") {
		p.Files, p.base = b.paths("files", l.sources.Home), b.n.attrs["files"].from.scope.Base()
	}
	p.Transport = b.text("transport")
	p.StartTimeout = b.duration("start_timeout")
	p.UnsafeEnv = b.flag("unsafe_env", false)
	l.program(b, p)
	l.environment(sub(schema.BlockEnv), p)
	l.permissions(sub(schema.BlockPermissions), p, kind)
	limits := sub(schema.BlockLimits)
	p.Limits = ProcessLimits{
		MemoryBytes: limits.size("memory"), Pids: limits.integer("pids"),
		StorageBytes: cmp.Or(limits.size("storage"), defaultStorage), StateBytes: cmp.Or(limits.size("state"), defaultState),
		ArtifactBytes: cmp.Or(limits.size("artifacts"), defaultArtifacts), EventBytes: cmp.Or(limits.size("events"), defaultEvents),
	}

	p.body = bind.Block{
		Fragments: n.open, Files: l.files, Plugin: n.label, Header: n.header,
		Inspect: fmt.Sprintf("`gantry plugin inspect %s` lists its settings", n.label),
	}
	if kind == contract.KindTool {
		l.tools(d, b, p)
		p.Spawns = l.spawns(d, b)
		p.Permissions.Processes = p.Spawns.granted()
	}
	if kind == contract.KindProvider {
		p.body.Reserved = n.schema.Names()
		p.body.Hints = map[string]string{schema.BlockConfig: "move its arguments into the provider block itself"}
	} else if c := n.block(schema.BlockConfig); c != nil {
		p.body.Fragments = c.open
	}
	return p
}

// program reads source and version.
func (l *loader) program(b block, p *PluginBlock) {
	if s, ok := b.string("source"); ok {
		var err error
		p.Source = s
		from := b.n.attrs["source"].from
		p.layer, p.LockFile = from.layer, filepath.Join(from.dir, lock.FileName)
		if from.layer == LayerCommandLine || from.layer == LayerBuiltin || from.layer == LayerSystem {
			p.LockFile = filepath.Join(l.home, lock.FileName) // there is no file next to it, or none that the user can write
		}
		p.Program, err = source.Parse(p.Source)
		if err != nil {
			next := `write "builtin/NAME", a path like "./bin/NAME", or the name of an installed plugin`
			if s := source.NormalForm(p.Source); s != "" {
				next = fmt.Sprintf("write %q", s)
			} else if first, rest, ok := strings.Cut(p.Source, "/"); ok && diag.Suggest(first, []string{"builtin"}) != "" {
				next = fmt.Sprintf("did you mean %q?", "builtin/"+rest)
			} else if ok {
				next = fmt.Sprintf("did you mean %q?", "./"+p.Source)
			}
			b.errorAt(b.at("source"), "invalid source", capital(err.Error())+".", next)
		}
		if p.Program.Kind == source.Path && b.inHome(p.Program.Path, b.at("source"), l.sources.Home) {
			p.Path = p.Program.File(from.scope.Base(), l.sources.Home)
		}
	}
	if text, ok := b.string("version"); ok {
		cs, err := version.ParseConstraints(text)
		switch {
		case err != nil:
			b.errorAt(b.at("version"), "invalid version constraint", capital(err.Error())+".", `write one like "~> 1.4" or ">= 1.2, < 2"`)
		case p.Program.Kind == source.Builtin:
			b.errorAt(b.at("version"), "a built-in plugin has no separate version", "It is part of gantry.", "remove `version`")
		}
		p.Version = cs
	}
}

func (l *loader) environment(b block, p *PluginBlock) {
	p.Env = b.variables(func(name string) bool {
		if !ForbiddenEnv(name) || p.UnsafeEnv {
			return false
		}
		b.errorAt(b.n.attrs[name].at, fmt.Sprintf("environment variable %q is not allowed here", name),
			"It can make the program load code other than what was checked.",
			"remove it, or set unsafe_env = true in the block if you are sure")
		return true
	})
}

func (l *loader) permissions(b block, p *PluginBlock, kind contract.Kind) {
	checked := func(name string, check func(string) error, next string) []string {
		items := b.list(name)
		for _, i := range items {
			if err := check(i.text); err != nil {
				b.errorAt(i.at, "invalid permission", capital(err.Error())+".", next)
			}
		}
		return texts(items)
	}
	p.capabilities = b.list("capabilities")
	p.Permissions = permission.Set{
		Network:      checked("network", permission.CheckNetwork, `write hosts like "api.example.com" or "*.example.com", or "*" for the whole network`),
		Exec:         checked("exec", permission.CheckExec, seeSchema),
		Read:         b.paths("read", l.sources.Home),
		Write:        b.paths("write", l.sources.Home),
		Capabilities: texts(p.capabilities),
	}
	if s, set := b.n.attrs["network"]; set {
		p.network = s.from.layer
	}
	if kind == contract.KindProvider {
		for name, why := range map[string]string{"network": "A provider has the same network access as you.", "exec": "A provider doesn't start programs."} {
			if _, set := b.n.attrs[name]; set {
				b.errorAt(b.at(name), fmt.Sprintf("permissions { %s } has no effect in a provider block", name), why, "remove it")
			}
		}
	}
	if s := p.Permissions; len(s.Network) > 0 && s.Capabilities != nil && !slices.Contains(s.Capabilities, capabilityNetwork) {
		b.errorAt(b.at("network"), "network access is granted, but its capability is not", "", "add \"network\" to `capabilities`, or remove `network`")
	}
}

// tools reads the approval settings of tools.
func (l *loader) tools(d *decoder, b block, p *PluginBlock) {
	p.Approval = ToolApproval{Mode: b.text("approval"), Range: l.files.Range(b.at("approval"))}
	if _, set := b.n.attrs["approval"]; !set {
		p.Approval = ToolApproval{}
	}
	for _, n := range b.n.labelled(schema.BlockTool) {
		t := d.block(n, n.schema)
		t.problems = b.problems
		if _, err := path.Match(n.label, ""); err != nil || n.label == "" {
			t.errorAt(n.header, fmt.Sprintf("invalid tool name %q", n.label), "A bracket in the pattern is not closed.", "use the name of a tool, with \"*\" for any characters")
			continue
		}
		p.Tools = append(p.Tools, ToolApproval{Name: n.label, Mode: t.text("approval"), Range: l.files.Range(n.header)})
	}
}

// Grants returns the digest of the permissions that all blocks together grant to a program. The user's consent applies to this
// digest.
func (c *Config) Grants(address string) lock.Hash {
	var sets []permission.Set
	for _, b := range c.Blocks() {
		if b.Address() == address {
			sets = append(sets, b.Permissions)
		}
	}
	return lock.Hash(permission.Digest(sets...))
}

// FilesDigest returns the digest of the files that the programs with this address load, according to their blocks.
func (c *Config) FilesDigest(address string) (lock.Hash, error) {
	var blocks []*PluginBlock
	for _, b := range c.Blocks() {
		if b.Address() == address && len(b.Files) > 0 {
			blocks = append(blocks, b)
		}
	}
	if len(blocks) == 0 {
		return lock.NoFiles, nil
	}
	q := reach.Query{Dir: blocks[0].base, Complete: true}
	for _, b := range blocks {
		for _, path := range b.Files {
			if rel, err := filepath.Rel(q.Dir, path); err == nil && filepath.IsLocal(rel) {
				path = rel
			}
			q.Listed = append(q.Listed, path)
		}
	}
	slices.Sort(q.Listed)
	q.Listed = slices.Compact(q.Listed)
	set := q.Names()
	if len(set.Gaps) > 0 {
		g := set.Gaps[0]
		return "", hint.With(fmt.Errorf("%s: files: %s", blocks[0].Where(), g), g.Next)
	}
	sum, err := set.Digest()
	if err != nil {
		return "", fmt.Errorf("%s: files: %w", blocks[0].Where(), err)
	}
	return lock.Hash(lock.SchemeFiles + strings.TrimPrefix(sum, "r1")), nil
}

// loads returns the files that the programs of blocks load and that sandboxed commands could change.
func (c *Config) loads() []string {
	var out []string
	for _, b := range c.Blocks() {
		if b.Program.Kind != source.Path {
			continue
		}
		dir := filepath.Dir(b.Path)
		if b.base != "" {
			dir = b.base
		}
		out = append(out, c.Reach(append([]string{b.Path}, b.Args...), dir, b.Files).Held()...)
	}
	return out
}

// Unpinned explains why the lock of a block covers only part of what its program loads. It returns "" if the lock covers
// everything, as far as is known.
func (c *Config) Unpinned(b *PluginBlock) string {
	if b.Program.Kind != source.Path || b.Files != nil {
		return ""
	}
	if head, err := reach.Read(b.Path, 2); err == nil && string(head) == "#!" {
		return filepath.Base(b.Path) + " is a script"
	}
	for _, arg := range b.Args {
		if path, err := filepath.Abs(filepath.Join(filepath.Dir(b.Path), arg)); filepath.IsAbs(arg) || err == nil {
			if filepath.IsAbs(arg) {
				path = arg
			}
			if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
				return arg + " is a file among its arguments"
			}
		}
	}
	return ""
}
