package config

import (
	"cmp"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/hcl/v2"

	"github.com/gantry-agent/gantry/config/diag"
	"github.com/gantry-agent/gantry/config/glob"
	"github.com/gantry-agent/gantry/config/schema"
	"github.com/gantry-agent/gantry/sdk/contract"
)

// decode decodes the merged layers.
func (l *loader) decode(root *node) *Config {
	d := &decoder{files: l.files}
	c := &Config{
		Profiles: l.profiles, Files: l.read, Project: l.project, Home: l.home, Dir: l.dir, root: root, sources: l.files,
		held: l.held, commands: l.commands,
	}
	if l.o.System != "-" {
		c.System = filepath.Dir(l.o.System)
	}
	b := d.block(root, l.root)
	sub := func(parent block, name string) block { return d.block(parent.n.block(name), parent.schema.Block(name)) }

	approval := sub(b, schema.BlockApproval)
	c.Approval = l.approval(approval, sub)

	sandbox := sub(b, schema.BlockSandbox)
	c.Sandbox = Sandbox{
		Mode: sandbox.text("mode"), WritableRoots: sandbox.paths("writable_roots", l.sources.Home),
		ReadableRoots: sandbox.paths("readable_roots", l.sources.Home),
		DenyRead:      sandbox.denied("deny_read", l.sources.Home), DenyWrite: sandbox.denied("deny_write", l.sources.Home),
		Network: sandbox.flag("network", false), RequireLandlock: sandbox.flag("require_landlock", false), Range: l.files.Range(sandbox.at("mode")),
	}
	if system := l.system.block(schema.BlockSandbox); system != nil { // no other layer can allow what the machine's file denies
		machine := d.block(system, sandbox.schema)
		c.Sandbox.DenyRead = l.union(c.Sandbox.DenyRead, sandbox, machine, "deny_read")
		c.Sandbox.DenyWrite = l.union(c.Sandbox.DenyWrite, sandbox, machine, "deny_write")
	}

	c.Network = sub(b, schema.BlockNetwork).network(sandbox)
	c.Sandbox.Network = c.Network.Mode == schema.NetworkFull

	environment := sub(b, schema.BlockEnvironment)
	c.Environment = environment.environment(sub(environment, schema.BlockSet))

	secrets := sub(b, schema.BlockSecrets)
	c.Redaction = Redaction{Values: secrets.flag("redact", true), Patterns: secrets.flag("redact_patterns", true)}

	limits := sub(b, schema.BlockLimits)
	c.Limits = Limits{
		Samplings: limits.integer("samplings"), MemoryBytes: limits.size("memory"), Pids: limits.integer("pids"), CPUTime: limits.duration("cpu_time"),
		OpenFiles: limits.integer("open_files"), FileBytes: limits.size("file_size"), OutputBytes: limits.size("output"), TurnTime: limits.duration("turn_time"),
	}
	c.Limits.BusyWait = 5 * time.Minute
	if limits.has("busy_wait") {
		c.Limits.BusyWait = limits.duration("busy_wait")
	}
	if limits.has("offline_wait") {
		wait := limits.duration("offline_wait")
		c.Limits.OfflineWait = &wait
	}

	budget := sub(b, schema.BlockBudget)
	c.Budget = Budget{
		Tokens: budget.integer("tokens"), TurnTokens: budget.integer("turn_tokens"),
		USD: budget.number("usd"), TurnUSD: budget.number("turn_usd"),
	}

	history := sub(b, schema.BlockHistory)
	c.History = History{
		ToolOutputTokens: history.integer("tool_output_tokens"), CompactAtTokens: history.integer("compact_at_tokens"),
		CompactNew: history.text("compact_counts") == "new", CompactPrompt: history.text("compact_prompt"),
	}

	code := sub(b, schema.BlockCodemode)
	c.Codemode = Codemode{
		Mode: cmp.Or(code.text("mode"), schema.CodemodeOff), MemoryBytes: cmp.Or(code.size("memory"), 128<<20),
		CPUTime: cmp.Or(code.duration("cpu_time"), 10*time.Second), WallTime: cmp.Or(code.duration("wall_time"), 30*time.Minute),
		Yield: cmp.Or(code.duration("yield"), 30*time.Second),
	}

	c.Agents = l.agents(sub(b, schema.BlockAgents))
	for _, n := range root.labelled(schema.BlockAgent) {
		c.Agents.Roles = append(c.Agents.Roles, l.role(d, n))
	}
	for _, folder := range c.Agents.Folders { // otherwise an agent could write itself a role
		c.Sandbox.DenyWrite = append(c.Sandbox.DenyWrite, glob.Quote(folder))
	}
	c.Interaction = interaction(sub(b, schema.BlockInteraction))
	c.Goals = goals(sub(b, schema.BlockGoals))
	tui := sub(b, schema.BlockTUI)
	c.TUI = terminal(tui, sub(tui, schema.BlockKeys))

	instructions := sub(b, schema.BlockInstructions)
	c.Instructions = Instructions{
		Text: instructions.text("text"), MaxBytes: defaultInstructionBytes, RootMarkers: []string{".git"},
		Fallbacks: instructions.names("fallback_files"),
	}
	if instructions.has("max_bytes") {
		c.Instructions.MaxBytes = instructions.integer("max_bytes")
	}
	if instructions.has("root_markers") {
		c.Instructions.RootMarkers = instructions.names("root_markers")
	}

	c.Review = Review{Model: sub(b, schema.BlockReview).text("model")}

	guard := sub(b, schema.BlockGuardian)
	c.Guardian = Guardian{
		Enabled: guard.flag("enabled", false), Model: guard.text("model"), Policy: guard.text("policy"), Timeout: guard.duration("timeout"),
	}

	c.Hooks = l.hooks(d, root, sub(b, schema.BlockHooks))

	kept := sub(b, schema.BlockStore)
	c.Store = l.store(kept, sub(kept, schema.BlockRetention))

	for _, n := range root.labelled(schema.BlockProvider) {
		c.Providers = append(c.Providers, l.pluginBlock(d, n, contract.KindProvider))
	}
	for _, n := range root.labelled(schema.BlockPlugin) {
		p := l.pluginBlock(d, n, contract.KindTool)
		c.Plugins = append(c.Plugins, p)
		// A label identifies one process, its folders and its log lines.
		if other, twice := root.blocks[key{schema.BlockProvider, n.label}]; twice {
			d.errorAt(n.header, fmt.Sprintf("label %q is used twice", n.label),
				fmt.Sprintf("The provider at %s has the same label.", l.files.Range(other.header)), "choose another label for one of them")
		}
	}
	for _, n := range root.labelled(schema.BlockModel) {
		c.Models = append(c.Models, l.model(d, n))
	}
	l.references(d, b, c)
	l.ds = append(l.ds, d.ds...)
	return c
}

// defaultInstructionBytes is the default limit for a project's instructions, the same as codex's.
const defaultInstructionBytes = 32 << 10

// names reads a list of file names without a path.
func (b block) names(name string) []string {
	items := b.list(name)
	for _, i := range items {
		if i.text == "" || i.text != filepath.Base(i.text) || strings.ContainsAny(i.text, `/\`) || !filepath.IsLocal(i.text) || i.text == "." {
			b.errorAt(i.at, fmt.Sprintf("invalid value for %q", name), fmt.Sprintf("%q is not a file name.", i.text),
				"use a name without a path, for example \"AGENTS.md\"")
		}
	}
	return texts(items)
}

// paths reads a list of paths and makes them absolute.
func (b block) paths(name, home string) []string {
	items := b.list(name)
	if items == nil {
		return nil
	}
	base := b.n.attrs[name].from.scope.Base()
	out := make([]string, 0, len(items))
	for _, i := range items {
		p := filepath.FromSlash(i.text)
		switch {
		case i.text == "":
			b.errorAt(i.at, fmt.Sprintf("invalid value for %q", name), "A path is empty.", "specify a folder or a file")
			continue
		case !b.inHome(i.text, i.at, home):
			continue
		case strings.HasPrefix(i.text, "~/"):
			p = filepath.Join(home, p[2:])
		case !filepath.IsAbs(p):
			p = filepath.Join(base, p)
		}
		out = append(out, filepath.Clean(p))
	}
	return out
}

// inHome reports an error if a path begins with "~/" and the user's home folder is unknown.
func (b block) inHome(path string, at hcl.Range, home string) bool {
	if home != "" || !strings.HasPrefix(path, "~/") {
		return true
	}
	b.errorAt(at, fmt.Sprintf("the path %q can't be resolved", path), "~ stands for $HOME, which is not set.",
		"set HOME, or use the full path")
	return false
}

func (l *loader) model(d *decoder, n *node) *Model {
	if n.header.Filename != builtinName {
		// A user's model block replaces the built-in one as a whole: otherwise settings left out would silently come from another
		// provider's model.
		maps.DeleteFunc(n.attrs, func(_ string, s setting) bool { return s.from.layer == LayerBuiltin })
	}
	b := d.block(n, n.schema)
	m := &Model{Label: n.label, Range: l.files.Range(n.header)}
	b.problems = &m.Problems
	b.label()
	m.Provider, m.Name, m.Reasoning = b.text("provider"), b.text("name"), b.text("reasoning")
	m.ContextWindow, m.MaxOutputTokens = b.integer("context_window"), b.integer("max_output_tokens")
	m.Fallback, m.Instructions, m.ToolMode = texts(b.list("fallback")), b.text("instructions"), b.text("tool_mode")
	for _, i := range b.list("hosted_tools") {
		if i.text == "" {
			b.errorAt(i.at, "invalid value for \"hosted_tools\"", "A name is empty.", "specify the kind of a tool, for example \"web_search\"")
			continue
		}
		m.HostedTools = append(m.HostedTools, HostedTool{Kind: i.text, Range: l.files.Range(i.at)})
	}
	b.require(key{n.schema.Name, n.label}, l.siblings(n), "provider", "name")
	return m
}

// siblings returns the labels that a misspelled label may have meant: those of blocks in files.
func (l *loader) siblings(n *node) []string {
	var out []string
	for _, s := range l.merged.labelled(n.schema.Name) {
		if !fromCommandLine(s) {
			out = append(out, s.label)
		}
	}
	return out
}

// label checks a label, which becomes part of folder names, log lines and messages.
func (b block) label() {
	if !validLabel(b.n.label) {
		b.errorAt(b.n.header, fmt.Sprintf("invalid label %q", b.n.label),
			"A label consists of 1 to 64 lower-case letters, digits, dashes, underscores and dots, and starts with a letter or digit.", "choose another label")
	}
}

func validLabel(s string) bool {
	if s == "" || len(s) > 64 || strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789-_.") != "" {
		return false
	}
	return strings.IndexByte("-_.", s[0]) < 0
}

// references checks labels that other settings refer to, and determines the default model.
func (l *loader) references(d *decoder, b block, c *Config) {
	models, providers := b.n.labels(schema.BlockModel), b.n.labels(schema.BlockProvider)
	unknown := func(at hcl.Range, kind, label string, there []string) {
		x := unknownLabel(kind, label, there)
		d.errorAt(at, x.Summary, x.Detail, x.Next)
	}
	for _, m := range c.Models {
		mb := d.block(b.n.blocks[key{schema.BlockModel, m.Label}], b.schema.Block(schema.BlockModel))
		if m.Provider != "" {
			p, ok := c.Provider(m.Provider)
			switch {
			case !ok:
				unknown(mb.at("provider"), "provider", m.Provider, providers)
			case !p.Enabled:
				m.Problems = append(m.Problems, l.files.At(mb.at("provider"), diag.Diagnostic{
					Severity: diag.Error, Summary: fmt.Sprintf("provider %q is disabled", m.Provider),
					Detail: fmt.Sprintf("Model %q uses it.", m.Label), Next: "set enabled = true in the provider's block, or use another model",
				}))
			}
		}
		if len(m.Fallback) == 0 {
			continue
		}
		for _, i := range mb.list("fallback") {
			switch {
			case i.text == m.Label:
				d.errorAt(i.at, fmt.Sprintf("model %q falls back to itself", m.Label), "", "specify other models, or remove fallback")
			case !slices.Contains(models, i.text):
				unknown(i.at, "model", i.text, models)
			}
		}
	}
	review := d.block(b.n.block(schema.BlockReview), b.schema.Block(schema.BlockReview))
	if c.Review.Model != "" && !slices.Contains(models, c.Review.Model) {
		unknown(review.at("model"), "model", c.Review.Model, models)
	}
	guard := d.block(b.n.block(schema.BlockGuardian), b.schema.Block(schema.BlockGuardian))
	if c.Guardian.Model != "" && !slices.Contains(models, c.Guardian.Model) {
		unknown(guard.at("model"), "model", c.Guardian.Model, models)
	}
	// The built-in model is a default for users who have configured none: it does not make their choice ambiguous.
	own := slices.DeleteFunc(slices.Clone(models), func(label string) bool {
		return b.n.blocks[key{schema.BlockModel, label}].header.Filename == builtinName
	})
	c.DefaultModel = b.text("default_model")
	switch {
	case c.DefaultModel != "":
		if !slices.Contains(models, c.DefaultModel) {
			unknown(b.at("default_model"), "model", c.DefaultModel, models)
		}
	case slices.Contains(own, "default"), len(own) == 0 && slices.Contains(models, "default"):
		c.DefaultModel = "default"
	case len(own) == 1:
		c.DefaultModel = own[0]
	}
}

// approval reads the approval block. The policy "granular" requires a granular block.
func (l *loader) approval(b block, sub func(block, string) block) Approval {
	a := Approval{Policy: b.text("policy"), SafeCommands: b.flag("safe_commands", false), AdditionalPermissions: b.flag("additional_permissions", true), Timeout: b.duration("timeout"), Range: l.files.Range(b.at("policy"))}
	if a.Policy == "on-failure" {
		a.Policy = "on-request"
	}
	if b.n.block(schema.BlockGranular) != nil {
		g := sub(b, schema.BlockGranular)
		a.Granular = &Granular{
			SandboxApproval: g.flag("sandbox_approval", false), Rules: g.flag("rules", false), MCPElicitations: g.flag("mcp_elicitations", false),
			RequestPermissions: g.flag("request_permissions", false),
		}
	}
	if a.Policy == "granular" && a.Granular == nil {
		l.ds = append(l.ds, l.files.At(b.at("policy"), diag.Diagnostic{
			Severity: diag.Error, Summary: "missing block \"granular\"", Detail: "The policy \"granular\" requires a selection of the questions " +
				"to ask.",
			Next: "add `granular { sandbox_approval = true, rules = true, mcp_elicitations = true }` to the approval block, one argument " +
				"per line",
		}))
	}
	return a
}
