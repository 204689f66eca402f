// Package rulebook combines the rules files of the machine, the user and the project under a configuration.
//
// It owns: which files apply, when they are read again, the rules that a person is offered to save with an answer, and what the network
// proxy permits. It must not know: threads, turns, and who is asked.
//
// Start with [New].
package rulebook

import (
	"context"
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

// Book is the rules that apply under a configuration: the machine's, the user's and those of a trusted project.
type Book struct {
	config  *config.Config
	folders []string       // of the machine and the user
	project []rules.Source // as read with the configuration, which is what the user agreed to
	written string         // the file to which rules from answers are appended

	mu struct {
		sync.Mutex
		sources []rules.Source
		set     *rules.Set
		err     error
	}
}

// New returns the rules of a configuration. It reads no files.
func New(c *config.Config) *Book {
	b := &Book{config: c, written: filepath.Join(c.Home, rules.Folder, rules.Written)}
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

// Current returns the rules from the files as they are now, so a change applies from the next command on. If it returns an error, the
// rules can't be trusted, and every command needs an approval.
func (b *Book) Current() (*rules.Set, error) {
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
func (b *Book) Offer(prefixes [][]string) event.RuleOffer {
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
func (b *Book) OfferHost(protocol, host string) *event.RuleOffer {
	set, err := b.Current()
	asks := func(n rules.Network) bool { return n.Host == host && n.Decision > rules.Allow }
	if err != nil || slices.ContainsFunc(set.Network(), asks) {
		return nil // nothing can be added to a broken file, or another rule would still ask
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
func (b *Book) OfferTool(plugin, tool, descriptor string, effects []contract.Effect) event.RuleOffer {
	var lines []string
	for _, e := range effects {
		s, ok := e.(contract.ServiceEffect)
		if !ok { // a rule for the tool covers what it does besides
			lines = nil
			break
		}
		lines = append(lines, rules.ActionLine(rules.Action{Plugin: plugin, Descriptor: descriptor, Service: s.Service, Name: s.Action}))
	}
	if lines == nil {
		lines = []string{rules.ToolLine(plugin, tool, descriptor)}
	}
	return event.RuleOffer{Line: strings.Join(lines, "\n"), File: b.written}
}

// Write implements [orchestrate.Rulebook].
func (b *Book) Write(ctx context.Context, o event.RuleOffer) error {
	for line := range strings.SplitSeq(o.Line, "\n") {
		if err := rules.Append(ctx, o.File, line); err != nil {
			return err
		}
	}
	return nil
}

// Equip adds to a policy request what the configuration, the rules and the machine say. env is the environment of the command.
func (b *Book) Equip(q policy.Request, env []string) policy.Request {
	c := b.config
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
		case path == "": // a shell built-in, or no program at all
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
	switch e := e.(type) {
	case contract.ExecEffect:
		return true
	case contract.SessionInputEffect:
		return e.Language == ""
	}
	return false
}

// find returns the path at which a shell finds a program, or "" if there is none. It returns false if the result depends on the
// current folder.
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
