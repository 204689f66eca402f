package arch

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// root contains the host's packages.
const root = "host/internal/"

// Rows are the layers of the host, from the front ends down. A package may import packages of the rows below its own, and those in
// Edges. Subpackages belong to their parent's layer.
var Rows = [][]string{
	{"cli", "tui"},
	{"install"},
	{"appserver", "acp", "mcpserver", "web"},
	{"hub"},
	{"host"},
	{"judges", "library", "git"},
	{"modelset"},
	{"pluginset"},
	{"threadsocket"},
	{"branch", "review", "guardian", "usershell", "workbench"},
	{"child", "features", "pluginthread", "view"},
	{"agent", "goal"},
	{"thread"},
	{"queue"},
	{"turn"},
	{"prompt", "history", "compact", "usage"},
	{"rulebook", "hookconfig", "scratch"},
	{"grants"},
	{"codemode"},
	{"hosttool"},
	{"orchestrate", "registry", "hook", "approval", "service"},
	{"launch", "undo", "transcript", "egress"},
	{"policy", "environ", "network", "role"},
	{"plugin", "model", "tool", "checkpoint", "runsocket", "background"},
	{"event", "store", "secret", "diff", "redact", "form"},
	{"proctree"},
	{"client"},
	{"crashpoint", "once", "procfs"},
	{"librarylog", "protocol"},
	{"rpc", "picture", "visible"},
	{"privatedir"},
}

// Edge is an import that the rows do not allow.
type Edge struct {
	From, To string
	Reason   string
}

// Edges are imports within a row, or upwards. Each must be used.
var Edges = []Edge{
	{"codemode", "history", "the budget of an answer is in the tokens of the history"},
	{"orchestrate", "history", "the pipeline cuts output once, with the history's rule"},
	{"compact", "history", "what is left of a history, and its tokens"},
	{"usage", "history", "a report of usage states the context window that the history is measured by"},
	{"orchestrate", "registry", "the pipeline looks up what the model called"},
	{"orchestrate", "hook", "a stage of the pipeline"},
	{"orchestrate", "approval", "a stage of the pipeline"},
	{"service", "orchestrate", "a plugin's request comes with the token of a call"},
	{"service", "approval", "a plugin may ask a person"},
	{"plugin", "launch", "gantry-launch puts a plugin's cage on, and is told in its own language"},
	{"model", "plugin", "a typed client of a plugin's process"},
	{"tool", "plugin", "a typed client of a plugin's process"},
	{"store", "event", "the store keeps events"},
}

// Borrowed are subpackages that packages other than their parent may import.
var Borrowed = map[string][]string{
	"host/internal/launch/box":              {"host/internal/host", "host/internal/grants", "host/internal/git", "host/internal/judges", "host/internal/cli/safety", "host/internal/workbench"}, // wire it, configure it, run in it and explain it
	"host/internal/launch/box/fspath":       {"host/internal/workbench"},                                                                                                                        // which follows the paths of clients
	"host/internal/launch/control":          {"host/cmd/gantry-launch", "host/internal/plugin/proc"},                                                                                            // the other end of its pipe
	"host/internal/launch/box/pluginbox":    {"host/internal/grants"},                                                                                                                           // which grants a plugin its files and network
	"host/internal/policy/rules":            {"host/internal/rulebook", "host/internal/cli/safety", "host/internal/host"},                                                                       // who reads the files, and who explains them
	"host/internal/policy/command":          {"host/internal/cli/safety", "host/internal/cli/render", "host/internal/transcript/action"},                                                        // which explain what is seen in a command
	"host/internal/prompt/agentsfile":       {"host/internal/host"},                                                                                                                             // which keeps a reader for each thread
	"host/internal/plugin/binary":           {"host/internal/install", "host/internal/pluginset"},                                                                                               // look at a program without starting it
	"host/internal/store/database/postgres": {"host/cmd/gantry-postgres"},                                                                                                                       // which is gantry and this driver
	"host/internal/appserver/transport":     {"host/internal/cli/serve", "host/internal/cli/console"},                                                                                           // which listens, and which serves the clients of the socket of threads
	"host/internal/plugin/manifest":         {"host/internal/install"},                                                                                                                          // compares a manifest with the locked one
	"host/internal/store/pluginstate":       {"host/internal/host", "host/internal/service"},                                                                                                    // the host opens it, the service reads and writes it
	"host/internal/store/flock":             {"host/internal/appserver/transport", "host/internal/background"},                                                                                  // two servers that start must not remove each other's socket
}

// layers checks the layers.
func (w *Workspace) layers(rows [][]string, edges []Edge) []Problem {
	var out []Problem
	row := map[string]int{}
	for i, names := range rows {
		for _, n := range names {
			row[n] = i
			if w.packages[root+n] == nil {
				out = append(out, stale(root+n))
			}
		}
	}
	used := map[Edge]bool{}
	for _, p := range w.sorted() {
		rest, inside := strings.CutPrefix(p.Path, root)
		layer, _, _ := strings.Cut(rest, "/")
		at, known := row[layer]
		if inside && !known {
			out = append(out, Problem{
				Where: p.Path, What: "is in no row of the layers",
				Instead: "put it into a row of e2e/arch/layers.go, below everything that imports it",
			})
			continue
		}
		imports := p.imports(false)
		for _, to := range slices.Sorted(maps.Keys(imports)) {
			rest, ok := strings.CutPrefix(to, root)
			if !ok {
				continue
			}
			target, below, nested := strings.Cut(rest, "/")
			if inside && target == layer {
				continue
			}
			if nested && !slices.Contains(Borrowed[to], p.Path) {
				out = append(out, Problem{
					Where: imports[to], What: fmt.Sprintf("imports %s, whose subpackage %q may only be imported by %s", to, below, target),
					Instead: "use what " + root + target + " exports, or let it export what is missing",
				})
				continue
			}
			if i := slices.IndexFunc(edges, func(e Edge) bool { return e.From == layer && e.To == target }); inside && i >= 0 {
				used[edges[i]] = true
				continue
			}
			if to, ok := row[target]; inside && ok && to <= at {
				out = append(out, Problem{
					Where: imports[root+target], What: fmt.Sprintf("%s imports %s, which is not in a row below it", layer, target),
					Instead: "declare the interface that you need where you use it and let the wiring pass it in; if the edge is right, list it with its reason in e2e/arch/layers.go",
				})
			}
		}
	}
	for _, e := range edges {
		if !used[e] {
			out = append(out, Problem{
				Where: "e2e/arch/layers.go", What: fmt.Sprintf("lists the edge %s → %s, which nobody uses any more", e.From, e.To), Instead: "drop it",
			})
		}
	}
	return out
}
