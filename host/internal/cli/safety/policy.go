package safety

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/gantry-agent/gantry/config"
	"github.com/gantry-agent/gantry/config/hint"
	"github.com/gantry-agent/gantry/config/source"
	"github.com/gantry-agent/gantry/host/internal/cli/console"
	"github.com/gantry-agent/gantry/host/internal/cli/render"
	"github.com/gantry-agent/gantry/host/internal/grants"
	"github.com/gantry-agent/gantry/host/internal/launch/box"
	"github.com/gantry-agent/gantry/host/internal/policy"
	"github.com/gantry-agent/gantry/host/internal/policy/command"
	"github.com/gantry-agent/gantry/host/internal/policy/rules"
	"github.com/gantry-agent/gantry/host/internal/rulebook"
	"github.com/gantry-agent/gantry/sdk/contract"
	"github.com/spf13/cobra"
)

func (a *app) policyCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "policy", Short: "Check what may run, and which rule decides", Args: console.Takes(0, 0)}
	cmd.AddCommand(a.policyCheckCommand())
	return cmd
}

// Exit statuses of `gantry policy check --exit-code` for commands that do not simply run.
const (
	statusAsks      console.StatusError = 10
	statusForbidden console.StatusError = 11
)

// policyCheck contains the command's flags.
type policyCheck struct {
	files                                []string
	asJSON, pretty, resolve, exit, wants bool
	dir                                  string
	tool                                 bool
	digest                               string // of the tool's declaration
}

func (a *app) policyCheckCommand() *cobra.Command {
	var c policyCheck
	cmd := &cobra.Command{
		Use: "check [flags] -- COMMAND [ARGUMENT...]", Short: "Show whether a command would run, need approval or be refused, and why", Args: console.Takes(1, -1, "COMMAND"),
		Long: "check shows how the current rules, approval policy and sandbox mode decide on a command of a model. A single argument\n" +
			"that contains shell syntax is treated as a script. Nothing is run.\n\n" +
			"--json prints the rules that match the words of the command as given, without looking inside shells or programs such as\n" +
			"env. The exit status is 0 for every decision, and 1 if the rules can't be read; with --exit-code, it is 10 if the command\n" +
			"needs approval and 11 if it is refused.\n\n" +
			"With --tool, check decides on a call of a plugin's tool, `gantry policy check --tool PLUGIN TOOL`, or on an action of a\n" +
			"service that a plugin uses, `gantry policy check --tool PLUGIN SERVICE ACTION`. It assumes that the tool says nothing of\n" +
			"what the call does.",
		Example: "  gantry policy check git push --force\n  gantry policy check --rules team.rules --json git status\n  gantry policy check 'make && make install'",
		RunE: func(cmd *cobra.Command, args []string) error {
			cfg, set, broken, cwd, err := a.policyRules(cmd, c)
			if err != nil {
				return err
			}
			if c.tool {
				return a.explainTool(c, cfg, set, broken, args)
			}
			if c.asJSON || c.pretty {
				return c.printJSON(a.Stdout, set, broken, args)
			}
			return a.explainCommand(c, cfg, set, broken, cwd, args)
		},
	}
	f := cmd.Flags()
	f.StringArrayVar(&c.files, "rules", nil, "use only the rules in `FILE`; can be repeated")
	f.BoolVar(&c.asJSON, "json", false, "print JSON")
	f.BoolVar(&c.pretty, "pretty", false, "print indented JSON")
	f.BoolVar(&c.resolve, "resolve-host-executables", false, "with --json: match a path against the rules for its program's name")
	f.BoolVar(&c.wants, "unsandboxed", false, "assume that the model asks to run it outside the sandbox")
	f.BoolVar(&c.exit, "exit-code", false, "exit with status 10 or 11 if it would not run without approval")
	f.BoolVar(&c.tool, "tool", false, "decide on a tool, PLUGIN TOOL, or on an action of a service, PLUGIN SERVICE ACTION")
	f.StringVar(&c.digest, "digest", "", "with --tool: assume that the tool's declaration has the digest `HEX`")
	f.StringVarP(&c.dir, "cd", "C", "", "for commands in `DIR`")
	f.SetInterspersed(false) // flags after COMMAND belong to it
	return cmd
}

// policyRules reads the rules. broken is set if they are not reliable.
func (a *app) policyRules(cmd *cobra.Command, c policyCheck) (_ *config.Config, set *rules.Set, broken error, cwd string, err error) {
	_, cfg, cwd, err := a.sandboxConfig(cmd.Context(), c.dir)
	if err != nil {
		return nil, nil, nil, "", err
	}
	if len(c.files) == 0 {
		set, broken = rulebook.New(cfg).Current()
		return cfg, set, broken, cwd, nil
	}
	var sources []rules.Source
	for _, f := range c.files {
		s, err := rules.ReadFile(f)
		if err != nil {
			return nil, nil, nil, "", err
		}
		sources = append(sources, s)
	}
	set, broken = rules.Load(sources)
	return cfg, set, broken, cwd, nil
}

type matchedJSON struct {
	PrefixRuleMatch prefixJSON `json:"prefixRuleMatch"`
}

type prefixJSON struct {
	MatchedPrefix   []string `json:"matchedPrefix"`
	Decision        string   `json:"decision"`
	ResolvedProgram string   `json:"resolvedProgram,omitempty"`
	Justification   string   `json:"justification,omitempty"`
}

func (c policyCheck) printJSON(out io.Writer, set *rules.Set, broken error, argv []string) error {
	if broken != nil {
		return broken
	}
	matches := set.Match(argv, c.resolve)
	answer := struct {
		MatchedRules []matchedJSON `json:"matchedRules"`
		Decision     string        `json:"decision,omitempty"`
	}{MatchedRules: []matchedJSON{}}
	for _, m := range matches {
		answer.MatchedRules = append(answer.MatchedRules, matchedJSON{prefixJSON{m.Prefix, m.Rule.Decision.String(), m.Program, m.Rule.Justification}})
	}
	d := rules.Strictest(matches)
	if d != rules.Unknown {
		answer.Decision = d.String()
	}
	enc := json.NewEncoder(out)
	enc.SetEscapeHTML(false)
	if c.pretty {
		enc.SetIndent("", "  ")
	}
	if err := enc.Encode(answer); err != nil {
		return err
	}
	return c.status(map[rules.Decision]policy.Verdict{rules.Prompt: policy.Ask, rules.Forbidden: policy.Forbid}[d])
}

// status returns the exit status for a verdict with --exit-code, otherwise nil.
func (c policyCheck) status(v policy.Verdict) error {
	switch {
	case c.exit && v == policy.Ask:
		return statusAsks
	case c.exit && v == policy.Forbid:
		return statusForbidden
	}
	return nil
}

// explainCommand prints what would happen to a command.
func (a *app) explainCommand(c policyCheck, cfg *config.Config, set *rules.Set, broken error, cwd string, argv []string) error {
	if len(argv) == 1 && strings.ContainsAny(argv[0], " \t\n;|&<>()$`{}[]*?~'\"\\=!#^") {
		argv = []string{"bash", "-lc", argv[0]}
	}
	grant := grants.For(cfg, cfg.Sandbox.Mode, cwd, "")
	q := rulebook.New(cfg).Equip(policy.Request{
		Approval: policy.Approval(cfg.Approval.Policy), Sandbox: cfg.Sandbox.Mode, Effects: []contract.Effect{contract.ExecEffect{Argv: argv, Cwd: cwd}},
		Writable: func(path string) bool { return box.Reach(grant, path) == box.AccessWrite },
	}, a.Environ)
	q.Rules, q.RulesErr = set, broken
	if c.wants {
		q.Escalation = &contract.Escalation{Unsandboxed: true, Justification: "the model says why"}
	}
	d := policy.Decide(q)
	row := a.rows()
	row("answer", answerText(d, cfg.Sandbox.Mode))
	row("why", d.Reason)
	for _, r := range d.Rules {
		row("rule", r.Where())
	}
	for _, r := range d.Short {
		row("rule", r.Where()+" does not apply: "+policy.WhyShort)
	}
	if d.Hint != "" {
		row("next", d.Hint)
	}
	if d.Verdict == policy.Ask && d.Offer != nil {
		for _, words := range d.Offer {
			row("always", "the answer \"approve always\" would write "+rules.PrefixLine(words))
		}
	}
	x := command.Extract(argv)
	for _, cmd := range x.Commands {
		row("command", command.Join(cmd.Argv()))
	}
	for _, u := range x.Unresolved {
		row("unknown", "the programs that it starts are only known at run time: "+u)
	}
	if x.Err != nil {
		row("unread", x.Err.Error())
	}
	if _, why := x.Dangerous(); why != "" {
		row("kind", "dangerous: "+why)
	} else if command.Safe(argv) {
		row("kind", "it only reads")
	}
	row("policy", cfg.Approval.Policy)
	row("sandbox", cfg.Sandbox.Mode)
	return errors.Join(broken, c.status(d.Verdict))
}

// explainTool prints what would happen to a call of a plugin's tool, or to an action of a service.
func (a *app) explainTool(c policyCheck, cfg *config.Config, set *rules.Set, broken error, args []string) error {
	if c.asJSON || c.pretty || c.wants || c.resolve || len(args) < 2 || len(args) > 3 {
		return console.UsageError{Text: "--tool takes PLUGIN TOOL or PLUGIN SERVICE ACTION, and none of the flags for commands", Next: "see `gantry policy check --help`"}
	}
	at := slices.IndexFunc(cfg.Plugins, func(b *config.PluginBlock) bool { return b.Label == args[0] })
	if at < 0 {
		return hint.New(fmt.Sprintf("there is no plugin %q", args[0]), "`gantry plugin list` shows the configured ones")
	}
	block := cfg.Plugins[at]
	_, name, _ := strings.Cut(args[1], ".")
	t := &policy.Tool{
		Plugin: block.Label, Name: args[1], Names: []string{args[1]}, Descriptor: c.digest, Mode: policy.Auto, BuiltIn: block.Program.Kind == source.Builtin,
	}
	if name != "" {
		t.Names = append(t.Names, name)
	}
	q := policy.Request{Approval: policy.Approval(cfg.Approval.Policy), Sandbox: cfg.Sandbox.Mode, Tool: t}
	matching := set.Tools(t.Plugin, t.Names...)
	if len(args) == 3 {
		t.Name, t.Names = args[2], []string{args[2]}
		q.Effects = []contract.Effect{contract.ServiceEffect{Service: args[1], Action: args[2]}}
		matching = append(set.Tools(t.Plugin, t.Names...), set.Actions(rules.Action{Plugin: t.Plugin, BuiltIn: t.BuiltIn, Service: args[1], Name: args[2]})...)
	}
	if setting := block.ToolApproval(t.Names...); setting.Mode != "" {
		t.Mode, t.Set = policy.Mode(setting.Mode), setting.Range.String()
	}
	q = rulebook.New(cfg).Equip(q, a.Environ)
	q.Rules, q.RulesErr = set, broken
	d := policy.Decide(q)
	row := a.rows()
	row("answer", answerText(d, cfg.Sandbox.Mode))
	row("why", d.Reason)
	for _, r := range matching {
		text := r.Where() + ": " + r.Decision.String()
		if r.Descriptor != "" && r.Descriptor != c.digest {
			text = r.Where() + " applies only under the digest " + r.Descriptor
		}
		row("rule", text)
	}
	if d.Hint != "" {
		row("next", d.Hint)
	}
	row("policy", cfg.Approval.Policy)
	row("sandbox", cfg.Sandbox.Mode)
	return errors.Join(broken, c.status(d.Verdict))
}

// rows returns a function that prints a row, whose text may have several lines.
func (a *app) rows() func(name, text string) {
	return func(name, text string) {
		for line := range strings.Lines(strings.TrimRight(text, "\n")) {
			fmt.Fprintf(a.Stdout, "%-9s %s\n", name, render.Clean(strings.TrimRight(line, "\n")))
			name = ""
		}
	}
}

func answerText(d policy.Decision, mode string) string {
	switch {
	case d.Verdict == policy.Forbid:
		return "refused"
	case d.Verdict == policy.Ask:
		return "asked about"
	case mode == policy.FullAccess:
		return "runs, without a sandbox"
	case d.Wider != nil && d.Wider.Unsandboxed:
		return "runs, outside the sandbox"
	}
	return "runs, in the sandbox"
}
