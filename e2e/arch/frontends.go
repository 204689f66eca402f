package arch

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// FrontEnd lists which packages of the host the packages of a front end may import directly in shipped code.
type FrontEnd struct {
	Packages []string
	Own      []string // what belongs to the same front end
	Also     []Edge   // exceptions; each must be used. From is empty: any of Packages
}

// Shared are the packages of the host that all front ends may import: the hub, and what its terms are.
var Shared = []string{root + "hub", root + "event", root + "protocol", root + "transcript", root + "rpc"}

// FrontEnds are the front ends.
var FrontEnds = []FrontEnd{
	{
		Packages: []string{root + "cli/run"},
		Own:      []string{root + "cli/console", root + "cli/render", root + "cli/codex"},
		Also: []Edge{
			{"", root + "picture", "it reads the images of a task from files"},
			{"", root + "background", "it starts the process that keeps a thread for later calls"},
		},
	},
	{
		Packages: []string{root + "cli/threads"},
		Own:      []string{root + "cli/console", root + "cli/render"},
		Also: []Edge{
			{"", root + "checkpoint", "it shows what turns have done to files"},
			{"", root + "store", "it exports, imports, checks and cleans what is stored, for which no thread is needed"},
			{"", root + "branch", "it checks names, and recovers what is left of a damaged thread"},
			{"", root + "role", "it lists the roles of a configuration, for which no thread is needed"},
		},
	},
	{
		Packages: []string{root + "cli/serve"},
		Own:      []string{root + "cli/console", root + "appserver/...", root + "acp", root + "mcpserver", root + "web"},
		Also:     []Edge{{"", root + "approval", "the login command of a provider may ask a question"}},
	},
	{
		Packages: []string{root + "acp"},
		Own:      []string{root + "acp"},
		Also:     []Edge{{"", root + "picture", "it checks the images of a prompt"}},
	},
	{
		// It is a client: what it needs of a thread, the protocol carries.
		Packages: []string{root + "tui/...", "host/cmd/gantry-tui"},
		Own:      []string{root + "tui/...", root + "client"},
		Also: []Edge{
			{root + "tui/term", root + "visible", "it shows text of others"},
			{root + "tui/past", root + "redact", "it keeps what was typed, without secrets"},
		},
	},
	{
		Packages: []string{root + "mcpserver"},
		Own:      []string{root + "mcpserver"},
	},
	{
		Packages: []string{root + "web"},
		Own:      []string{root + "web"},
	},
	{
		Packages: []string{root + "appserver/..."},
		Own:      []string{root + "appserver/..."},
		Also: []Edge{
			{root + "appserver", root + "picture", "it reads images that a client names by their paths"},
			{root + "appserver/dynamictool", root + "picture", "it checks the images that tools of clients return"},
			{root + "appserver", root + "workbench", "clients run commands and read files beside threads"},
			{root + "appserver/transport", root + "privatedir", "its socket is in a folder of the user's own"},
			{root + "appserver/transport", root + "proctree", "a process that the host has launched must not connect"},
			{root + "appserver/transport", root + "store/flock", "two servers that start must not remove each other's socket"},
		},
	},
}

// frontEnds checks that front ends reach threads through the hub.
func (w *Workspace) frontEnds(shared []string, ends []FrontEnd) []Problem {
	var out []Problem
	for _, f := range ends {
		for _, p := range slices.Concat(f.Packages, f.Own) {
			if !w.has(p) {
				out = append(out, stale(p))
			}
		}
		used := map[Edge]bool{}
		for _, p := range w.sorted() {
			if !matchAny(f.Packages, p.Path) {
				continue
			}
			imports := p.imports(false)
			for _, to := range slices.Sorted(maps.Keys(imports)) {
				if !strings.HasPrefix(to, root) || matchAny(shared, to) || matchAny(f.Own, to) {
					continue
				}
				i := slices.IndexFunc(f.Also, func(e Edge) bool { return (e.From == "" || e.From == p.Path) && e.To == to })
				if i >= 0 {
					used[f.Also[i]] = true
					continue
				}
				out = append(out, Problem{
					Where:   imports[to],
					What:    fmt.Sprintf("imports %s: a front end reaches threads through the hub alone, so that each can do the same, wherever a thread runs", to),
					Instead: "add what is missing to the hub; if it has nothing to do with threads, list it with its reason in e2e/arch/frontends.go",
				})
			}
		}
		for _, e := range f.Also {
			if !used[e] {
				out = append(out, Problem{
					Where: "e2e/arch/frontends.go", What: fmt.Sprintf("lists %s for %s, which nobody uses any more", e.To, f.Packages[0]), Instead: "drop it",
				})
			}
		}
	}
	return out
}
