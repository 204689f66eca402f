// Package config reads gantry.hcl: it finds the files, lays them over one another, and hands out settings with the place
// that each came from.
//
// It owns: the layers and their order, evaluation at the time of use, plugin blocks read by the plugin's own schema, and
// the words for everything that can be wrong with any of it. It must not know: how plugins are started, what the host
// does with a setting, how a person is asked.
//
// Neighbours with a subject of their own: diag (problems), lock (gantry.lock.hcl), trust (agreed projects), schema (what
// may stand in a file), permission, source, version, format. Start with [Load].
package config

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/gantry-agent/gantry/config/diag"
	"github.com/gantry-agent/gantry/config/hosts"
	"github.com/gantry-agent/gantry/config/internal/function"
	"github.com/gantry-agent/gantry/config/lock"
	"github.com/gantry-agent/gantry/config/schema"
)

// What this package says about problems; see package diag.
type (
	Diagnostic  = diag.Diagnostic
	Diagnostics = diag.Diagnostics
	Range       = diag.Range
	Severity    = diag.Severity
)

// Options says where to look. Zero fields mean the documented defaults.
type Options struct {
	// Home is gantry's home folder. Default: $GANTRY_HOME, else ~/.gantry.
	Home string
	// Dir is the working folder. Default: the process's.
	Dir string
	// Typed is the folder where the command line was typed: relative paths in File and Sets start there. Default: Dir.
	Typed string
	// NoUser leaves the user's own file, the one in Home, out.
	NoUser bool
	// File is the argument of --config: a file that must exist, above the project's.
	File string
	// Sets are the arguments of -c, NAME=VALUE, later ones above earlier ones.
	Sets []string
	// Profile selects a profile. Default: none.
	Profile string
	// System is the machine's file. Default: /etc/gantry/gantry.hcl. "-": none.
	System string
	// LookupEnv reads the environment. Default: os.LookupEnv.
	LookupEnv func(string) (string, bool)
	// Trusted reports whether the user agreed to a project's content. Default: never.
	Trusted func(dir, digest string) bool
	// Secret returns a stored secret. Where it has none (an error that [fs.ErrNotExist] is in), or is nil, the file
	// secrets/NAME in Home counts, which only its owner may read.
	Secret func(name string) (string, error)
}

// Config is the configuration in force. It is not changed any more once Load returned it, and may be read by several
// goroutines.
type Config struct {
	Providers    []*PluginBlock // in the order of the files
	Plugins      []*PluginBlock // in the order of the files
	Models       []*Model
	DefaultModel string // label; empty when there is no model that could be meant
	Approval     Approval
	Sandbox      Sandbox
	Network      Network
	Environment  Environment
	Redaction    Redaction
	Limits       Limits
	Budget       Budget
	History      History
	Instructions Instructions
	Review       Review
	Hooks        Hooks
	Guardian     Guardian
	Store        Store
	Profiles     []string // names, in the order of the files
	Files        []File   // what was read, lowest layer first
	Project      *Project // nil: there is none
	Home         string   // gantry's home folder, absolute
	System       string   // folder of the machine's file; empty: there is none
	Dir          string   // the working folder, absolute

	root    *node
	sources diag.Files
	// held are files that file() reads, commands the programs of command(), of all layers.
	held     []string
	commands []*function.Command
}

// Layer says where a setting comes from. Later ones count.
type Layer int

// The layers.
const (
	LayerUnknown     Layer = iota
	LayerBuiltin           // what holds when nobody says otherwise
	LayerSystem            // /etc/gantry/gantry.hcl
	LayerUser              // gantry.hcl in gantry's home
	LayerProject           // .gantry/gantry.hcl, when trusted
	LayerFile              // --config
	LayerCommandLine       // -c
)

var layerNames = [...]string{"unknown", "built-in", "system", "user", "project", "--config", "-c"}

// String names the layer for people.
func (l Layer) String() string {
	if l < 0 || int(l) >= len(layerNames) {
		return layerNames[0]
	}
	return layerNames[l]
}

// File is a file that was read.
type File struct {
	Layer Layer
	Path  string // absolute; empty for the built-in one
}

// Approval says when a person is asked.
type Approval struct {
	Policy       string // "untrusted", "on-request", "granular" or "never"
	SafeCommands bool   // let commands that only look run under "untrusted"
	// AdditionalPermissions lets models ask for single permissions: with a command, or ahead of it.
	AdditionalPermissions bool
	Granular              *Granular
	Range                 Range // of the policy
}

// Granular says which questions are put under the policy of that name.
type Granular struct {
	SandboxApproval, Rules, MCPElicitations, SkillApproval, RequestPermissions bool
}

// Sandbox says what processes that tools start may do.
type Sandbox struct {
	Mode          string   // "read-only", "workspace-write" or "full-access"
	WritableRoots []string // absolute
	ReadableRoots []string // absolute; empty: everything
	// DenyRead and DenyWrite are patterns as [glob.Parse] reads them, but that those which are not absolute hold below each root.
	DenyRead, DenyWrite []string
	Network             bool  // all of it; what [Network] says counts
	RequireLandlock     bool  // nothing runs in a box without it
	Range               Range // of the mode
}

// Network says what processes reach that tools start, in a sandbox.
type Network struct {
	Mode        string // "none", "proxy" or "full"
	Allow, Deny []hosts.Pattern
	Limited     bool // only methods that change nothing
	Local       bool // allowed names may be of this machine
	Range       Range
}

// Environment says which variables processes get that tools start.
type Environment struct {
	Inherit         string // "all", "core" or "none"
	DefaultExcludes bool   // names that mean a secret are left out
	Exclude         []string
	Set             map[string]string
	IncludeOnly     []string // empty: any
}

// Redaction says which secrets are taken out of what tools show.
type Redaction struct {
	Values   bool // known ones
	Patterns bool // what looks like one
}

// Limits bound a turn, and each process that is started for a tool. 0: no limit.
type Limits struct {
	Samplings   int64 // requests to the model in one turn
	TurnTime    time.Duration
	OfflineWait *time.Duration // for a model that can't be reached; nil: nobody has said
	MemoryBytes int64
	Pids        int64
	CPUTime     time.Duration
	OpenFiles   int64
	FileBytes   int64
	OutputBytes int64
}

// Budget bounds what a thread uses of models. 0: no bound.
type Budget struct {
	Tokens, TurnTokens int64
	USD, TurnUSD       float64
}

// History says what the model sees of a thread.
type History struct {
	ToolOutputTokens int64
	CompactAtTokens  int64 // 0: nine tenths of the model's window
	// CompactNew: the limit is for what a thread grew by since it began or was compacted.
	CompactNew    bool
	CompactPrompt string // empty: gantry's own
}

// Instructions say what a model is told before anybody says something.
type Instructions struct {
	Text        string // empty: gantry's own
	MaxBytes    int64  // of a project's AGENTS.md files; 0: they are not read
	RootMarkers []string
	Fallbacks   []string // file names that count in the place of AGENTS.md
}

// Review says how changes are reviewed.
type Review struct {
	Model string // label; empty: the thread's model
}

// Guardian says whether a model answers in a person's place when a call is asked about.
type Guardian struct {
	Enabled bool
	Model   string        // label; empty: the thread's model
	Policy  string        // what it is told beside gantry's own words
	Timeout time.Duration // 0: gantry's own
}

// Model is a model under a name of the user's.
type Model struct {
	Label           string
	Provider        string // label of a provider block
	Name            string // the provider's name for it
	Reasoning       string // empty: the model's own
	ContextWindow   int64  // tokens; 0: the model's row
	MaxOutputTokens int64  // 0: the model's row
	Fallback        []string
	Instructions    string // empty: the thread's
	HostedTools     []HostedTool
	Range           Range
	// Problems are errors that concern this model alone: a variable that it needs is not set. Whoever uses it reports them.
	Problems Diagnostics
}

// HostedTool is a tool that the provider runs itself.
type HostedTool struct {
	Kind  string
	Range Range // where it is asked for
}

// Load reads and merges all layers. With errors the Config is nil. A variable, file or secret that a provider, plugin or
// model block lacks is no error of Load, but of using that block.
func Load(ctx context.Context, o Options) (*Config, Diagnostics) {
	l, ds := newLoader(o)
	if ds.HasErrors() {
		return nil, ds
	}
	root := l.layers(ctx)
	if l.broken || ctx.Err() != nil {
		return nil, l.problems()
	}
	c := l.decode(root)
	if l.ds.HasErrors() {
		return nil, l.problems()
	}
	return c, l.problems()
}

// Model returns a model by label.
func (c *Config) Model(label string) (*Model, bool) {
	return byLabel(c.Models, label, func(m *Model) string { return m.Label })
}

// Provider returns a provider block by label.
func (c *Config) Provider(label string) (*PluginBlock, bool) {
	return byLabel(c.Providers, label, func(b *PluginBlock) string { return b.Label })
}

// Plugin returns a plugin block by label.
func (c *Config) Plugin(label string) (*PluginBlock, bool) {
	return byLabel(c.Plugins, label, func(b *PluginBlock) string { return b.Label })
}

func byLabel[T any](list []*T, label string, of func(*T) string) (*T, bool) {
	i := slices.IndexFunc(list, func(x *T) bool { return of(x) == label })
	if i < 0 {
		return nil, false
	}
	return list[i], true
}

// Find returns the model that a user names: the label of a model block, or PROVIDER/NAME for any model of a provider, as the
// provider calls it and with its own settings.
func (c *Config) Find(name string) (*Model, error) {
	if m, ok := c.Model(name); ok {
		return m, nil
	}
	if name == "" {
		d := Diagnostic{Severity: diag.Error, Summary: "no model is selected", Next: "select one with --model, or set default_model"}
		if labels := c.root.labels(schema.BlockModel); len(labels) > 0 {
			d.Next += "; there is " + diag.Quoted(labels)
		}
		return nil, diag.Failure{Diagnostics: diag.Diagnostics{d}}
	}
	label, model, ok := strings.Cut(name, "/")
	if !ok || model == "" {
		return nil, diag.Failure{Diagnostics: diag.Diagnostics{c.UnknownModel(name)}}
	}
	p, ok := c.Provider(label)
	if !ok {
		d := unknownLabel("provider", label, c.root.labels(schema.BlockProvider))
		d.Detail = fmt.Sprintf("%q would be a model of it.", name)
		return nil, diag.Failure{Diagnostics: diag.Diagnostics{d}}
	}
	if !p.Enabled {
		return nil, diag.Failure{Diagnostics: diag.Diagnostics{p.Place(Diagnostic{
			Severity: diag.Error, Summary: fmt.Sprintf("provider %q is disabled", label), Detail: fmt.Sprintf("Model %q uses it.", name),
			Next: "set enabled = true in the provider's block, or use another model",
		})}}
	}
	return &Model{Label: name, Provider: label, Name: model, Range: p.Range}, nil
}

// UnknownModel is the error for a model that somebody asked for by name.
func (c *Config) UnknownModel(label string) Diagnostic {
	return unknownLabel("model", label, c.root.labels(schema.BlockModel))
}

// UnknownPlugin is the error for a plugin or provider that somebody asked for by name.
func (c *Config) UnknownPlugin(label string) Diagnostic {
	return unknownLabel("plugin", label, slices.Concat(c.root.labels(schema.BlockPlugin), c.root.labels(schema.BlockProvider)))
}

func unknownLabel(kind, label string, there []string) Diagnostic {
	d := Diagnostic{
		Severity: diag.Error, Summary: "there is no " + kind + " \"" + label + "\"",
		Next: diag.DidYouMean(label, there, "`gantry config show` prints the configuration"),
	}
	if len(there) == 0 {
		d.Next = "add a " + kind + " block to gantry.hcl; `gantry init` creates a first file"
	}
	return d
}

// Blocks returns all enabled provider and plugin blocks.
func (c *Config) Blocks() []*PluginBlock {
	return slices.DeleteFunc(slices.Concat(c.Providers, c.Plugins), func(b *PluginBlock) bool { return !b.Enabled })
}

// Lock reads the lock file that belongs to a block. For a project it is the text whose digest was trusted, whatever the
// file says by now.
func (c *Config) Lock(b *PluginBlock) (*lock.File, Diagnostics) {
	if b.layer == LayerProject && c.Project != nil {
		return lock.Parse(c.Project.content[lock.FileName], c.shown(b.LockFile))
	}
	return lock.Read(b.LockFile)
}

// Place gives d a place of this configuration with its text, unless it has one: the Range of [Sandbox], for example, when
// a mode can't be enforced.
func (c *Config) Place(r Range, d Diagnostic) Diagnostic {
	if !d.Range.IsZero() {
		return d
	}
	return c.sources.Place(r, d)
}

func (c *Config) shown(path string) string { return shown(c.Dir, path) }

// shown is how a person would name a file: relative to the working folder when it lies beneath it.
func shown(dir, path string) string {
	if rel, err := filepath.Rel(dir, path); err == nil && filepath.IsLocal(rel) {
		return rel
	}
	return path
}

// userHome is the user's home folder, "" when there is none.
func userHome(lookup func(string) (string, bool)) string {
	if h, ok := lookup("HOME"); ok && filepath.IsAbs(h) {
		return h
	}
	h, err := os.UserHomeDir()
	if err != nil || !filepath.IsAbs(h) {
		return ""
	}
	return h
}
