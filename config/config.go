// Package config reads gantry.hcl. It finds the files, merges their layers, and returns settings together with the place that each
// one came from.
//
// It owns the layers and their order, evaluation at the time of use, plugin blocks (which are read by the plugin's own schema),
// and the diagnostics for everything that can be wrong in a file. It does not know how plugins start, what the host does with a
// setting, or how a user is asked.
//
// Subpackages with a subject of their own: diag (diagnostics), lock (gantry.lock.hcl), trust (trusted projects), schema (the
// settings that a file may contain), permission, source, version, format. Start with [Load].
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
	"github.com/gantry-agent/gantry/config/permission"
	"github.com/gantry-agent/gantry/config/schema"
)

// Diagnostic types; see package diag.
type (
	Diagnostic  = diag.Diagnostic
	Diagnostics = diag.Diagnostics
	Range       = diag.Range
	Severity    = diag.Severity
)

// Options tell [Load] where to look. Zero fields select the defaults given below.
type Options struct {
	// Home is gantry's home folder. Default: $GANTRY_HOME, else ~/.gantry.
	Home string
	// Dir is the working folder. Default: the working folder of the process.
	Dir string
	// Typed is the folder in which the user typed the command: relative paths in File and Sets are resolved against it. Default:
	// Dir.
	Typed string
	// NoUser skips the user's own file, the one in Home.
	NoUser bool
	// User is used as the content of gantry.hcl in Home, which is not read; nil: it is read. A front end checks a change with it.
	User []byte
	// File is the argument of --config: a file that must exist. Its layer is above the project's.
	File string
	// Sets are the arguments of -c, each NAME=VALUE. Later ones override earlier ones.
	Sets []string
	// Profile selects a profile. Default: none.
	Profile string
	// System is the machine's file. Default: /etc/gantry/gantry.hcl. "-" skips it.
	System string
	// LookupEnv reads the environment. Default: os.LookupEnv.
	LookupEnv func(string) (string, bool)
	// Trusted reports whether the user has trusted a project with this content. Default: no project is trusted.
	Trusted func(dir, digest string) bool
	// Secret returns a stored secret. If it is nil, or returns an error that wraps [fs.ErrNotExist], the secret is read from the
	// file secrets/NAME in Home, which must be readable by its owner only.
	Secret func(name string) (string, error)
}

// Config is the effective configuration. It is immutable once Load has returned it and safe for concurrent use.
type Config struct {
	Providers    []*PluginBlock // in the order of the files
	Plugins      []*PluginBlock // in the order of the files
	Models       []*Model
	DefaultModel string // label; empty if no model is selected and there is more than one, or none
	Approval     Approval
	Sandbox      Sandbox
	Network      Network
	Environment  Environment
	Redaction    Redaction
	Limits       Limits
	Budget       Budget
	History      History
	Codemode     Codemode
	Agents       Agents
	Interaction  Interaction
	Goals        Goals
	TUI          TUI
	Instructions Instructions
	Review       Review
	Hooks        Hooks
	Guardian     Guardian
	Store        Store
	Profiles     []string // names, in the order of the files
	Files        []File   // the files that were read, lowest layer first
	Project      *Project // nil outside a project
	Home         string   // gantry's home folder, absolute
	System       string   // folder of the machine's file; empty if there is none
	Dir          string   // the working folder, absolute

	root    *node
	sources diag.Files
	// held lists the files that file() reads, and commands the programs of command(), in all layers.
	held     []string
	commands []*function.Command
}

// Layer is where a setting comes from. Higher layers override lower ones.
type Layer int

// The layers.
const (
	LayerUnknown     Layer = iota
	LayerBuiltin           // defaults
	LayerSystem            // /etc/gantry/gantry.hcl
	LayerUser              // gantry.hcl in gantry's home
	LayerProject           // .gantry/gantry.hcl of a trusted project
	LayerFile              // --config
	LayerCommandLine       // -c
)

var layerNames = [...]string{"unknown", "built-in", "system", "user", "project", "--config", "-c"}

// String returns the layer's name as messages show it.
func (l Layer) String() string {
	if l < 0 || int(l) >= len(layerNames) {
		return layerNames[0]
	}
	return layerNames[l]
}

// File is a configuration file that was read.
type File struct {
	Layer Layer
	Path  string // absolute; empty for the built-in layer
}

// Approval configures when the user is asked.
type Approval struct {
	Policy       string // "untrusted", "on-request", "granular" or "never"
	SafeCommands bool   // run read-only commands without asking under "untrusted"
	// AdditionalPermissions lets models request single permissions, either with a command or in advance.
	AdditionalPermissions bool
	Timeout               time.Duration // after which an unanswered question is refused; 0: never
	Granular              *Granular
	Range                 Range // range of the policy
}

// Granular selects the questions that are asked under the policy "granular".
type Granular struct {
	SandboxApproval, Rules, MCPElicitations, RequestPermissions bool
}

// Sandbox configures what processes that tools start may do.
type Sandbox struct {
	Mode          string   // "read-only", "workspace-write" or "full-access"
	WritableRoots []string // absolute
	ReadableRoots []string // absolute; empty: everything is readable
	// DenyRead and DenyWrite are patterns in the syntax of [glob.Parse]. Relative patterns apply below each root.
	DenyRead, DenyWrite []string
	Network             bool  // unrestricted access; set from [Network]
	RequireLandlock     bool  // refuse to run sandboxed processes on kernels without Landlock
	Range               Range // range of the mode
}

// Network configures what sandboxed processes that tools start can reach.
type Network struct {
	Mode        string // "none", "proxy" or "full"
	Allow, Deny []hosts.Pattern
	Limited     bool   // only methods that change nothing, such as GET
	Local       bool   // allowed names may resolve to addresses of this machine
	Unknown     string // of a plugin: "ask", "public" or "deny" for hosts that no rule names; empty: ask
	Range       Range
}

// Spawns are the settings of the processes that are started for a plugin, in place of the general ones.
type Spawns struct {
	MemoryBytes int64    // 0: the general limit
	Network     *Network // nil: the general settings
}

// granted returns what the user consents to.
func (s Spawns) granted() permission.Processes {
	p := permission.Processes{Memory: s.MemoryBytes}
	if n := s.Network; n != nil {
		texts := func(patterns []hosts.Pattern) (out []string) {
			for _, p := range patterns {
				out = append(out, p.String())
			}
			return out
		}
		p.Network = &permission.Network{Mode: n.Mode, Allow: texts(n.Allow), Deny: texts(n.Deny), Limited: n.Limited, Local: n.Local, Unknown: n.Unknown}
	}
	return p
}

// Environment configures the environment variables of processes that tools start.
type Environment struct {
	Inherit         string // "all", "core" or "none"
	DefaultExcludes bool   // leave out variables whose names suggest a secret
	Exclude         []string
	Set             map[string]string
	IncludeOnly     []string // empty: all
}

// Redaction configures which secrets are removed from the output of tools.
type Redaction struct {
	Values   bool // known values
	Patterns bool // text that looks like a secret
}

// Limits bound a turn and each process that is started for a tool. 0 means no limit.
type Limits struct {
	Samplings   int64 // requests to the model in one turn
	TurnTime    time.Duration
	BusyWait    time.Duration  // how long to wait for a vendor that accepts no request at the moment
	OfflineWait *time.Duration // how long to wait for an unreachable provider; nil: not set
	MemoryBytes int64
	Pids        int64
	CPUTime     time.Duration
	OpenFiles   int64
	FileBytes   int64
	OutputBytes int64
}

// Budget bounds a thread's use of models. 0 means no bound.
type Budget struct {
	Tokens, TurnTokens int64
	USD, TurnUSD       float64
}

// History configures what the model sees of a thread.
type History struct {
	ToolOutputTokens int64
	CompactAtTokens  int64 // 0: nine tenths of the model's context window
	// CompactNew applies the limit to the growth since the thread began or was last compacted, not to its whole size.
	CompactNew    bool
	CompactPrompt string // empty: the built-in prompt
}

// Codemode configures scripts that call tools.
type Codemode struct {
	Mode                     string // one of the constants of package schema
	MemoryBytes              int64
	CPUTime, WallTime, Yield time.Duration
}

// Agents configures the agents that models spawn.
type Agents struct {
	Tools                       string // one of the constants of package schema
	Threads, Total, Depth, Hops int
	Model                       string // empty: that of the agent that spawns
	Unfinished                  string // one of the constants of package schema
	Wait, WaitMin, WaitMax      time.Duration
	Folders                     []string // with role files; absolute
	Budget                      Budget   // of all agents of a thread together
	Roles                       []*Role  // in the order of the files
}

// Role is an agent block.
type Role struct {
	Label, Description, Instructions string
	Model, Reasoning                 string   // empty: not set
	Tools                            []string // patterns; nil: all
	Without                          []string // patterns
	Nicknames                        []string
	Sandbox                          RoleSandbox
	Budget                           Budget
	Samplings                        int64 // 0: not set
	Range                            Range
}

// RoleSandbox narrows the sandbox of an agent.
type RoleSandbox struct {
	Mode                string // empty: not set
	NoNetwork           bool
	DenyRead, DenyWrite []string
}

// Instructions configure the model's system prompt.
type Instructions struct {
	Text        string // empty: the built-in prompt
	MaxBytes    int64  // limit for a project's AGENTS.md files; 0: they are not read
	RootMarkers []string
	Fallbacks   []string // file names to try where there is no AGENTS.md
}

// Review configures code reviews.
type Review struct {
	Model string // label; empty: the thread's model
}

// Guardian configures a model that answers approval questions in the user's place.
type Guardian struct {
	Enabled bool
	Model   string        // label; empty: the thread's model
	Policy  string        // added to the built-in policy
	Timeout time.Duration // 0: the built-in default
}

// Model is a model block: a model under a label that the user chose.
type Model struct {
	Label           string
	Provider        string // label of a provider block
	Name            string // the provider's name for it
	Reasoning       string // empty: the model's default
	ContextWindow   int64  // tokens; 0: from the catalog
	MaxOutputTokens int64  // tokens; 0: from the catalog
	Fallback        []string
	Instructions    string // empty: the thread's
	HostedTools     []HostedTool
	ToolMode        string // "direct", "code" or "code-only"; empty: that of [Codemode]
	Range           Range
	// Problems are errors that affect only this model, such as an unset environment variable. They are reported when the model is
	// used.
	Problems Diagnostics
}

// HostedTool is a tool that the provider itself runs.
type HostedTool struct {
	Kind  string
	Range Range // where the file requests it
}

// Load reads and merges all layers. If there are errors, the returned Config is nil. A missing variable, file or secret of a
// provider, plugin or model block is not an error of Load: it is reported when the block is used.
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

// Model returns the model block with the given label.
func (c *Config) Model(label string) (*Model, bool) {
	return byLabel(c.Models, label, func(m *Model) string { return m.Label })
}

// Provider returns the provider block with the given label.
func (c *Config) Provider(label string) (*PluginBlock, bool) {
	return byLabel(c.Providers, label, func(b *PluginBlock) string { return b.Label })
}

// Plugin returns the plugin block with the given label.
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

// Find returns the model that a user named: the label of a model block, or PROVIDER/NAME for any model of a provider, where NAME
// is the provider's own name for it and all settings are defaults.
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
		d := unknownProvider(label, c.root.labels(schema.BlockProvider))
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

// UnknownModel returns the error for a requested model that is not configured.
func (c *Config) UnknownModel(label string) Diagnostic {
	return unknownLabel("model", label, c.root.labels(schema.BlockModel))
}

// UnknownPlugin returns the error for a requested plugin or provider that is not configured.
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

// Lock reads the lock file of a block. For a project it returns the content that the user trusted, even if the file has changed
// since.
func (c *Config) Lock(b *PluginBlock) (*lock.File, Diagnostics) {
	if b.layer == LayerProject && c.Project != nil {
		return lock.Parse(c.Project.content[lock.FileName], c.shown(b.LockFile))
	}
	return lock.Read(b.LockFile)
}

// Place sets the range and snippet of d to r, unless d already has a range. For example, the host uses the Range of [Sandbox] when
// it cannot enforce a mode.
func (c *Config) Place(r Range, d Diagnostic) Diagnostic {
	if !d.Range.IsZero() {
		return d
	}
	return c.sources.Place(r, d)
}

func (c *Config) shown(path string) string { return shown(c.Dir, path) }

// Text returns the content of one of the [Config.Files] as it was read; nil: it was not.
func (c *Config) Text(path string) []byte { return c.sources[c.shown(path)] }

// shown returns path as messages show it: relative to dir if it is inside, absolute otherwise.
func shown(dir, path string) string {
	if rel, err := filepath.Rel(dir, path); err == nil && filepath.IsLocal(rel) {
		return rel
	}
	return path
}

// userHome returns the user's home folder, or "" if it is unknown.
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
