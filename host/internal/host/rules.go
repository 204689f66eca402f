package host

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/gantry-agent/gantry/config"
	"github.com/gantry-agent/gantry/host/internal/environ"
	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/grants"
	"github.com/gantry-agent/gantry/host/internal/launch"
	"github.com/gantry-agent/gantry/host/internal/policy"
	"github.com/gantry-agent/gantry/host/internal/policy/rules"
	"github.com/gantry-agent/gantry/sdk/contract"
)

// Rulebook is the rules that hold under a configuration: the machine's, the user's and, as the user agreed to them, the project's.
type Rulebook struct {
	folders []string       // of the machine and the user
	project []rules.Source // as they were read with the configuration
	written string         // the file that answers are written to

	mu struct {
		sync.Mutex
		sources []rules.Source
		set     *rules.Set
		err     error
	}
}

// NewRulebook reads nothing yet.
func NewRulebook(c *config.Config) *Rulebook {
	b := &Rulebook{written: filepath.Join(c.Home, rules.Folder, rules.Written)}
	if c.System != "" {
		b.folders = append(b.folders, filepath.Join(c.System, rules.Folder))
	}
	b.folders = append(b.folders, filepath.Join(c.Home, rules.Folder))
	if c.Project != nil && c.Project.Trusted {
		for _, r := range c.Project.Rules {
			b.project = append(b.project, rules.Source(r))
		}
	}
	return b
}

// Current returns the rules as the files have them now: a rule that a user writes or takes out counts from the next command on.
// With an error the rules can't be relied on.
func (b *Rulebook) Current() (*rules.Set, error) {
	var sources []rules.Source
	for _, f := range b.folders {
		s, err := rules.Read(f)
		if err != nil {
			return nil, err
		}
		sources = append(sources, s...)
	}
	sources = append(sources, b.project...)
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.mu.set == nil || !slices.Equal(sources, b.mu.sources) {
		b.mu.sources = sources
		b.mu.set, b.mu.err = rules.Load(sources)
	}
	return b.mu.set, b.mu.err
}

// Offer implements [orchestrate.Rulebook].
func (b *Rulebook) Offer(prefixes [][]string) event.RuleOffer {
	lines := make([]string, len(prefixes))
	for i, p := range prefixes {
		lines[i] = rules.PrefixLine(p)
	}
	o := event.RuleOffer{Line: strings.Join(lines, "\n"), File: b.written}
	if len(prefixes) == 1 {
		o.Prefix = prefixes[0]
	}
	return o
}

// OfferHost implements [orchestrate.Rulebook].
func (b *Rulebook) OfferHost(protocol, host string) *event.RuleOffer {
	set, err := b.Current()
	asks := func(n rules.Network) bool { return n.Host == host && n.Decision > rules.Allow }
	if err != nil || slices.ContainsFunc(set.Network(), asks) {
		return nil // the file can't be added to, or another rule goes on asking
	}
	for of, name := range hostProtocols {
		if name == protocol {
			return &event.RuleOffer{
				Host: host, Line: rules.NetworkLine(host, of, "allow"), Deny: rules.NetworkLine(host, of, "deny"), File: b.written,
			}
		}
	}
	return nil
}

// OfferTool implements [orchestrate.Rulebook].
func (b *Rulebook) OfferTool(plugin, tool, descriptor string) event.RuleOffer {
	return event.RuleOffer{Line: rules.ToolLine(plugin, tool, descriptor), File: b.written}
}

// Write implements [orchestrate.Rulebook].
func (b *Rulebook) Write(ctx context.Context, o event.RuleOffer) error {
	for line := range strings.SplitSeq(o.Line, "\n") {
		if err := rules.Append(ctx, o.File, line); err != nil {
			return err
		}
	}
	return nil
}

// Equip gives a decision what the configuration and the machine say. environ is what the command starts from.
func (b *Rulebook) Equip(q policy.Request, c *config.Config, env []string) policy.Request {
	q.SafeCommands, q.Additional = c.Approval.SafeCommands, c.Approval.AdditionalPermissions
	if g := c.Approval.Granular; g != nil {
		q.Questions = policy.Questions{
			Sandbox: g.SandboxApproval, Rules: g.Rules, Elicitation: g.MCPElicitations, Permissions: g.RequestPermissions,
		}
	}
	if slices.ContainsFunc(q.Effects, runsCommands) || q.Tool != nil {
		q.Rules, q.RulesErr = b.Current()
	}
	writable := q.Writable
	q.Trusted = func(program, cwd string) bool {
		path, ok := find(program, cwd, environ.Lookup(env, "PATH"))
		switch {
		case !ok:
			return false
		case path == "": // a word of the shell itself, or nothing
			return true
		}
		real, err := filepath.EvalSymlinks(path)
		for _, p := range []string{path, real} {
			if err != nil || grants.Inside(p, cwd) || q.Sandbox != launch.FullAccess && writable != nil && writable(p) {
				return false
			}
		}
		return true
	}
	return q
}

func runsCommands(e contract.Effect) bool {
	switch e.(type) {
	case contract.ExecEffect, contract.SessionInputEffect:
		return true
	}
	return false
}

// find is where a shell would find a program; "": nowhere. Not ok: that depends on the folder that it looks from.
func find(program, cwd, path string) (string, bool) {
	if filepath.IsAbs(program) {
		return program, true
	}
	if strings.Contains(program, "/") {
		return filepath.Join(cwd, program), true
	}
	for _, dir := range filepath.SplitList(path) {
		if !filepath.IsAbs(dir) {
			return "", false
		}
		file := filepath.Join(dir, program)
		info, err := os.Stat(file)
		if err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return file, true
		}
	}
	return "", true
}

// rulesNews says once that the rules can't be relied on.
func (r *running) rulesNews(b *Rulebook) []event.Notice {
	_, err := b.Current()
	if err == nil {
		r.rules = ""
		return nil
	}
	if r.rules == err.Error() {
		return nil
	}
	r.rules = err.Error()
	return []event.Notice{{
		Text: "the rules can't be relied on, so every command is asked about, or refused where nobody can be: " + err.Error(),
		Next: "correct the file; `gantry policy check COMMAND` says whether it is right",
	}}
}

// decide is the policy of a thread. Of a rule that does not apply to what follows its words the user is told once.
func (h *Host) decide(r *running, q policy.Request) policy.Decision {
	d := decideAs(r.role, q)
	if d.Verdict != policy.Run {
		return d // the question says more
	}
	for _, rule := range d.Short {
		if !r.told.First("rule " + rule.Where()) {
			continue
		}
		n := event.Notice{Text: fmt.Sprintf("the rule %s does not apply to a command that begins like it: %s; the command stays in the sandbox", rule.Where(), policy.WhyShort), Next: d.Hint}
		if _, err := r.thread.Publish(context.WithoutCancel(h.life), "", n); err != nil {
			h.log.Warn("notice not published", "error", err)
		}
	}
	return d
}
