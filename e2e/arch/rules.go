package arch

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Rule forbids packages to import others, directly or indirectly.
type Rule struct {
	From    []string
	Except  []string // of From
	Not     []string
	Past    []string // external packages whose own imports are ignored
	Nobody  bool     // the packages in Not must not exist in the workspace; otherwise each must
	Tests   bool     // also check direct imports of tests
	Reason  string
	Instead string
}

// Rules are the rules for imports.
var Rules = []Rule{
	{
		From: []string{"plugins/...", "providers/..."}, Not: []string{"host/...", "config/..."}, Tests: true,
		Reason: "a plugin knows the contract and nothing of the host", Instead: "import sdk, or let the contract carry what is needed",
	},
	{
		From: []string{"plugins/..."}, Not: []string{"providers/..."}, Tests: true,
		Reason: "a plugin stands alone", Instead: "move what both need to sdk",
	},
	{
		From: []string{"providers/..."}, Not: []string{"plugins/..."}, Tests: true,
		Reason: "a provider stands alone", Instead: "move what both need to sdk",
	},
	{
		From: []string{"host/..."}, Not: []string{"plugins/...", "providers/..."}, Tests: true,
		Reason:  "the host knows its neighbours by their contract only",
		Instead: "ask the plugin in the contract's terms; a test takes a fake plugin of its own, or belongs to e2e",
	},
	{
		From: []string{"host/...", "config/...", "sdk/..."}, Nobody: true, Tests: true,
		Not: []string{
			"github.com/openai/openai-go/...", "github.com/sashabaranov/go-openai/...", "github.com/anthropics/anthropic-sdk-go/...",
			"google.golang.org/genai/...", "github.com/aws/aws-sdk-go-v2/...", "github.com/tmc/langchaingo/...",
			"github.com/chromedp/...", "github.com/go-rod/...", "github.com/playwright-community/...", "github.com/mafredri/cdp/...",
		},
		Reason: "vendors and browsers are the plugins' business", Instead: "write a provider or a plugin",
	},
	{
		From: []string{"sdk/..."}, Not: []string{"host/...", "config/...", "plugins/...", "providers/..."}, Tests: true,
		Reason: "plugin authors import sdk and nothing else", Instead: "move the code to sdk, or the need to the host",
	},
	{
		From: []string{"config/..."}, Not: []string{"host/...", "plugins/...", "providers/..."}, Tests: true,
		Reason: "configuration is read without a host", Instead: "let the caller pass what it knows",
	},
	{
		From: []string{"sdk/...", "config/...", "host/...", "plugins/...", "providers/..."}, Not: []string{"e2e/..."}, Tests: true,
		Reason: "e2e looks at the whole from outside", Instead: "move the helper to the package that needs it",
	},
	{
		From: []string{"sdk/...", "plugins/...", "providers/..."}, Except: []string{"sdk/plugintest/..."},
		Not:     []string{"github.com/hashicorp/go-plugin"},
		Reason:  "a plugin serves the protocol with the lean loop of sdk/wire: it starts sooner and is smaller",
		Instead: "extend sdk/wire",
	},
	{
		From: []string{"sdk/...", "plugins/...", "providers/..."}, Not: []string{"gorm.io/gorm", "modernc.org/sqlite/...", "github.com/spf13/cobra"},
		Reason: "a plugin carries no store and no command line", Instead: "use the host's State and Artifact services",
	},
	{
		From: []string{"host/internal/policy", "host/internal/approval", "host/internal/history", "host/internal/prompt"},
		Not:  []string{"google.golang.org/grpc", "gorm.io/gorm", "os/exec"},
		// The library unquotes the shell's words; only a helper of its tests runs a program.
		Past:   []string{"mvdan.cc/sh/v3/internal"},
		Reason: "rules and texts are decided without the world", Instead: "pass in what the decision needs",
	},
	{
		From:    []string{"host/cmd/gantry", "host/internal/cli/...", "host/internal/install", "host/internal/host", "host/internal/store"},
		Not:     []string{"github.com/jackc/...", "gorm.io/driver/postgres", "host/internal/store/database/postgres"},
		Reason:  "gantry carries the embedded database alone; a server's driver would make everybody's program larger",
		Instead: "let host/cmd/gantry-postgres hand the driver over",
	},
	{
		From:    []string{"sdk/codemode", "host/..."},
		Not:     []string{"modernc.org/quickjs", "github.com/evanw/esbuild/...", "github.com/grafana/sobek/...", "sdk/codemode/child"},
		Reason:  "scripts run in a process that is confined and can be killed; no other links an engine",
		Instead: "start gantry-codemode with codemode.Start",
	},
	{
		From:    []string{"sdk/codemode"},
		Not:     []string{"sdk/tool"},
		Reason:  "gantry runs scripts and is not a plugin; it would link what plugins are served with",
		Instead: "use it in sdk/codemode/codetool",
	},
	{
		From:    []string{"host/cmd/gantry", "host/cmd/gantry-postgres"},
		Not:     []string{"host/internal/tui/...", "host/internal/client", "charm.land/bubbletea/v2", "github.com/charmbracelet/x/ansi", "github.com/yuin/goldmark"},
		Reason:  "what draws a screen would cost each start of gantry time and memory",
		Instead: "keep it to host/cmd/gantry-tui, which gantry executes",
	},
	{
		From:    []string{"host/cmd/gantry-tui"},
		Not:     []string{"host/internal/hub", "host/internal/host", "host/internal/store", "google.golang.org/grpc", "gorm.io/gorm", "github.com/spf13/cobra"},
		Reason:  "the terminal interface is a client of the app server, and starts in the time of one",
		Instead: "let the protocol carry what it needs",
	},
	{
		From:    []string{"host/cmd/gantry-launch"},
		Not:     []string{"google.golang.org/grpc", "gorm.io/gorm", "github.com/spf13/cobra", "net/http", "host/internal/event"},
		Reason:  "the launcher starts once for each command; what it links is paid each time",
		Instead: "keep it to host/internal/launch/control and the system",
	},
}

// Reservation lists the packages that may import a package directly in shipped code.
type Reservation struct {
	Package string
	By      []string
	Reason  string
	Instead string
}

// Reserved are the reservations.
var Reserved = []Reservation{
	{
		Package: "gorm.io/gorm", By: []string{"host/internal/store/..."},
		Reason: "one package owns the database", Instead: "add what you need to store",
	},
	{
		Package: "github.com/jackc/pgx/v5", By: []string{"host/internal/store/database/postgres/..."},
		Reason: "one package talks to PostgreSQL", Instead: "use store.Database",
	},
	{
		Package: "github.com/hashicorp/go-plugin", By: []string{"host/internal/plugin/...", "sdk/plugintest/..."},
		Reason: "one package owns the processes of plugins", Instead: "use plugin.Slot",
	},
	{
		Package: "github.com/spf13/cobra",
		By: []string{
			"host/internal/cli", "host/internal/cli/console", "host/internal/cli/run", "host/internal/cli/threads", "host/internal/cli/plugins",
			"host/internal/cli/setup", "host/internal/cli/safety", "host/internal/cli/serve",
		},
		Reason: "flags are the door's business", Instead: "take parameters",
	},
	{
		Package: "sdk/proto/gantry/v1",
		By: []string{
			"sdk/wire/...", "sdk/tool", "sdk/provider", "sdk/internal/hostservice", "sdk/process/...", "sdk/plugintest/...", "host/internal/plugin/...",
			"host/internal/tool", "host/internal/model", "host/internal/service", "host/internal/host", "host/internal/pluginset", "sdk/internal/convertgen",
		},
		Reason: "generated types stay with those who convert them", Instead: "use sdk/llm and sdk/contract",
	},
	{
		Package: "go.starlark.net/starlark", By: []string{"host/internal/policy/rules"},
		Reason: "Starlark is the language of rules files alone", Instead: "use rules.Load",
	},
	{
		// hook finds the files that a line of the user's names, with expanded variables; it does not judge commands. config/reach
		// does the same for what trust covers.
		Package: "mvdan.cc/sh/v3/syntax", By: []string{"config/shellsyntax", "host/internal/policy/command", "host/internal/hook", "config/reach", "plugins/shell/..."},
		Reason: "scripts are read in one place, so that they are read in one way", Instead: "use what policy/command says of a script",
	},
	{
		Package: "github.com/hashicorp/hcl/v2", By: []string{"config/..."},
		Reason: "HCL is the language of one package", Instead: "use config's types and diag.Range",
	},
}

// testOnly checks that shipped code imports no packages for tests, whose names end with "test".
func (w *Workspace) testOnly() []Problem {
	isTest := func(p string) bool {
		for part := range strings.SplitSeq(p, "/") {
			if strings.HasSuffix(part, "test") || part == "e2e" {
				return true
			}
		}
		return false
	}
	var out []Problem
	for _, p := range w.sorted() {
		if isTest(p.Path) {
			continue
		}
		for to, file := range p.imports(false) {
			if w.packages[to] != nil && isTest(to) {
				out = append(out, Problem{
					Where: file, What: "shipped code imports " + to + ", which exists for tests", Instead: "move what is needed to the package itself",
				})
			}
		}
	}
	return out
}

// reach checks the rules for imports.
func (w *Workspace) reach(rules []Rule) []Problem {
	var out []Problem
	for _, l := range rules {
		for _, p := range slices.Concat(l.From, l.Except, l.Past) {
			if !w.has(p) {
				out = append(out, stale(p))
			}
		}
		for _, p := range l.Not {
			if !l.Nobody && !w.has(p) {
				out = append(out, stale(p))
			}
		}
		for _, p := range w.sorted() {
			if !matchAny(l.From, p.Path) || matchAny(l.Except, p.Path) {
				continue
			}
			if chain := w.path(p, l.Not, l.Past, l.Tests); chain != nil {
				out = append(out, Problem{
					Where: p.Path, What: fmt.Sprintf("must not reach %s, but %s: %s", chain[len(chain)-1], strings.Join(chain, " → "), l.Reason),
					Instead: l.Instead,
				})
			}
		}
	}
	return out
}

// stale returns the problem for a rule about a package that does not exist.
func stale(pattern string) Problem {
	return Problem{
		Where: "e2e/arch", What: fmt.Sprintf("the rules name %s, which does not exist", pattern),
		Instead: "give the row the package's new name, or drop it",
	}
}

// has reports whether a pattern matches any package of the workspace or its dependencies.
func (w *Workspace) has(pattern string) bool {
	for p := range w.packages {
		if match(pattern, p) {
			return true
		}
	}
	for p := range w.outside {
		if match(pattern, p) {
			return true
		}
	}
	return false
}

// path returns a shortest chain of imports from p to one of the patterns that does not pass through past.
func (w *Workspace) path(p *Package, to, past []string, tests bool) []string {
	from := map[string]string{p.Path: ""}
	queue := slices.Sorted(maps.Keys(p.imports(tests)))
	for _, q := range queue {
		from[q] = p.Path
	}
	for ; len(queue) > 0; queue = queue[1:] {
		at := queue[0]
		if at != p.Path && matchAny(to, at) {
			chain := []string{at}
			for at != p.Path {
				at = from[at]
				chain = append(chain, at)
			}
			slices.Reverse(chain)
			return chain
		}
		if matchAny(past, at) {
			continue
		}
		next := w.outside[at]
		if q := w.packages[at]; q != nil {
			next = slices.Sorted(maps.Keys(q.imports(false)))
		}
		for _, n := range next {
			n = strings.TrimPrefix(n, Prefix)
			if _, seen := from[n]; !seen {
				from[n] = at
				queue = append(queue, n)
			}
		}
	}
	return nil
}

// only checks the reservations.
func (w *Workspace) only(reserved []Reservation) []Problem {
	var out []Problem
	for _, r := range reserved {
		if !w.has(r.Package) {
			out = append(out, stale(r.Package))
		}
		for _, by := range r.By {
			if !w.has(by) {
				out = append(out, stale(by))
			}
		}
		for _, p := range w.sorted() {
			if matchAny(r.By, p.Path) {
				continue
			}
			if file, ok := p.imports(false)[r.Package]; ok {
				out = append(out, Problem{
					Where: file, What: fmt.Sprintf("imports %s: %s", r.Package, r.Reason), Instead: r.Instead,
				})
			}
		}
	}
	return out
}
