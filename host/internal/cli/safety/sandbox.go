package safety

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gantry-agent/gantry/config"
	"github.com/gantry-agent/gantry/config/schema"
	"github.com/gantry-agent/gantry/host/internal/cli/console"
	"github.com/gantry-agent/gantry/host/internal/cli/render"
	"github.com/gantry-agent/gantry/host/internal/grants"
	"github.com/gantry-agent/gantry/host/internal/hookconfig"
	"github.com/gantry-agent/gantry/host/internal/host"
	"github.com/gantry-agent/gantry/host/internal/launch"
	"github.com/gantry-agent/gantry/host/internal/launch/box"
	"github.com/gantry-agent/gantry/host/internal/network"
	"github.com/gantry-agent/gantry/host/internal/policy"
	"github.com/gantry-agent/gantry/host/internal/rulebook"
	"github.com/spf13/cobra"
	"golang.org/x/term"
)

func (a *app) sandboxCommand() *cobra.Command {
	var dir string
	cmd := &cobra.Command{
		Use: "sandbox [flags] -- COMMAND [ARGUMENT...]", Short: "Run a command in the same sandbox as a model's commands", Args: console.Takes(1, -1, "COMMAND"),
		Long: "sandbox runs a command as gantry would run it for a model: with the configured sandbox mode, writable folders, network\n" +
			"setting and limits. Its exit status is the command's. `gantry sandbox explain` shows the effective rules.",
		Example: "  gantry sandbox -- make test\n  gantry sandbox -c sandbox.mode=read-only -- sh",
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, stop := console.Interruptible(cmd)
			defer stop()
			return a.sandboxed(ctx, dir, args)
		},
	}
	cmd.Flags().StringVarP(&dir, "cd", "C", "", "run it in `DIR`")
	cmd.AddCommand(a.sandboxExplainCommand())
	return cmd
}

// movedAside reports files that a command created and that gantry moved because others would execute them.
func (a *app) movedAside(_ launch.Owner, moved []box.Moved, err error) {
	for _, n := range host.MovedNotices(moved, err, math.MaxInt) { // there is no thread to keep the remaining ones
		fmt.Fprintf(a.Stderr, "gantry: %s\n  Next: %s\n", n.Text, n.Next)
	}
}

// limited returns what reports the limit that ended a command.
func (a *app) limited(c *config.Config) func(*launch.Process, string) {
	return func(p *launch.Process, limit string) {
		n := host.LimitNotice(c, p, limit)
		fmt.Fprintf(a.Stderr, "gantry: %s\n  Next: %s\n", render.Clean(n.Text), n.Next)
	}
}

// networkRefused reports a request that the proxy rejected.
func (a *app) networkRefused(q network.Request, d network.Decision) {
	if !d.Allow {
		fmt.Fprintf(a.Stderr, "gantry: %s %s was refused: %s\n", q.Method, q.URL(), render.Clean(d.Message(q)))
	}
}

// sandboxed runs a command and returns its exit status.
func (a *app) sandboxed(ctx context.Context, dir string, argv []string) (err error) {
	home, cfg, dir, err := a.sandboxConfig(ctx, dir)
	if err != nil {
		return err
	}
	bin, err := console.BinDir()
	if err != nil {
		return err
	}
	if err := grants.CheckWorkDir(cfg, cfg.Sandbox.Mode, dir, grants.UserHome(a.Environ)); err != nil {
		return err
	}
	l, err := launch.New(launch.Config{LauncherPath: filepath.Join(bin, "gantry-launch"), Confiners: []launch.Confiner{launch.Unconfined{}, grants.NewBox(home, a.Environ, grants.KeyFiles(cfg), nil, a.movedAside)}, Proxy: rulebook.New(cfg).Proxy(a.networkRefused), OnLimit: a.limited(cfg)})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.Close(context.WithoutCancel(ctx))) }()
	tmp := ""
	if cfg.Sandbox.Mode == box.WorkspaceWrite {
		if !filepath.IsAbs(os.TempDir()) {
			return fmt.Errorf("TMPDIR is the relative path %q; set an absolute path, or unset it", os.TempDir())
		}
		if tmp, err = os.MkdirTemp("", "gantry-sandbox-"); err != nil {
			return fmt.Errorf("create a folder for temporary files: %w", err)
		}
		defer func() { err = errors.Join(err, os.RemoveAll(tmp)) }()
	}
	spec := launch.Spec{
		Argv: argv, Cwd: dir, Env: grants.NewEnviron(cfg, a.Environ).Tools(), Stdin: true, Grant: grants.Protect(grants.For(cfg, cfg.Sandbox.Mode, dir, tmp), hookconfig.AllHeld(cfg, home, dir, a.Environ)),
		Owner: launch.Owner{Plugin: "sandbox"},
	}
	screen := a.Terminal() && term.IsTerminal(int(a.Stdout.Fd()))
	if screen {
		cols, rows, err := term.GetSize(int(a.Stdin.Fd()))
		if err != nil {
			return fmt.Errorf("get the size of the terminal: %w", err)
		}
		spec.Stdin, spec.Terminal = false, &launch.Size{Rows: uint16(rows), Cols: uint16(cols)}
	}
	p, err := l.Spawn(ctx, spec)
	if err != nil {
		return err
	}
	if screen {
		before, err := term.MakeRaw(int(a.Stdin.Fd()))
		if err != nil {
			return errors.Join(fmt.Errorf("pass the terminal: %w", err), p.KillTree(context.WithoutCancel(ctx)))
		}
		defer func() { err = errors.Join(err, term.Restore(int(a.Stdin.Fd()), before)) }()
	}
	exit, err := p.Attach(ctx, a.typed(ctx), func(o launch.Output) error {
		if o.Stderr {
			_, err := a.Stderr.Write(o.Data)
			return err
		}
		_, err := a.Stdout.Write(o.Data)
		return err
	})
	if err != nil {
		return errors.Join(err, p.KillTree(context.WithoutCancel(ctx)))
	}
	if exit.Code != 0 {
		return console.StatusError(exit.Code)
	}
	return nil
}

// typed returns standard input. Its goroutine exits with the input, at the latest with the process: reading a terminal cannot be
// cancelled.
func (a *app) typed(ctx context.Context) <-chan launch.Input {
	in := make(chan launch.Input)
	if a.Stdin == nil {
		close(in)
		return in
	}
	go func() { // owned by the process; see above
		defer close(in)
		buf := make([]byte, 32<<10)
		for {
			n, err := a.Stdin.Read(buf)
			select {
			case in <- launch.Input{Data: slices.Clone(buf[:n]), Close: err != nil}:
			case <-ctx.Done():
				return
			}
			if err != nil {
				return
			}
		}
	}()
	return in
}

// sandboxConfig loads a folder's configuration.
func (a *app) sandboxConfig(ctx context.Context, dir string) (home string, cfg *config.Config, cwd string, err error) {
	if home, err = a.Home(); err != nil {
		return "", nil, "", err
	}
	if cwd = a.Dir; dir != "" {
		if cwd, err = a.WorkDir(dir); err != nil {
			return "", nil, "", err
		}
	}
	cfg, err = a.LoadConfig(ctx, home, cwd)
	return home, cfg, cwd, err
}

// sandboxFacts is the output of `gantry sandbox explain --json`.
type sandboxFacts struct {
	Mode       string       `json:"mode"`
	Approval   string       `json:"approval"`
	Network    bool         `json:"network"`
	Proxy      *proxyFacts  `json:"proxy,omitempty"`
	Writable   []string     `json:"writable,omitempty"`
	Protected  []string     `json:"protected,omitempty"`
	Readable   []string     `json:"readable,omitempty"`
	DenyRead   []string     `json:"deny_read,omitempty"`
	DenyWrite  []string     `json:"deny_write,omitempty"`
	Denied     int          `json:"denied,omitempty"` // number of denied paths that exist
	Unreadable []string     `json:"unreadable,omitempty"`
	Layers     []string     `json:"layers,omitempty"`
	Missing    []string     `json:"missing,omitempty"`
	Limits     []string     `json:"limits,omitempty"` // those that are set
	OwnTmp     bool         `json:"-"`                // in Writable
	LimitedBy  launch.Means `json:"limited_by"`       // what would enforce them
	Held       []box.Held   `json:"held,omitempty"`   // paths in Writable that git's settings and PATH refer to
	Repos      int          `json:"repositories,omitempty"`
	Walked     []box.Walked `json:"walked,omitempty"`
}

// explainLimits lists the limits and what enforces them.
func explainLimits(l launch.Limits, m launch.Means) (out []string) {
	say := func(set int64, limit, by string) {
		if set > 0 {
			what, value, name := l.Setting(limit)
			out = append(out, fmt.Sprintf("%s: %s, by %s (limits.%s)", what, value, by, name))
		}
	}
	const nothing = "nothing on this system: commands are not run"
	say(l.MemoryBytes, launch.LimitMemory, cmp.Or(m.Memory, nothing))
	say(l.MaxPids, launch.LimitPids, cmp.Or(m.Pids, nothing))
	say(l.CPUSeconds, launch.LimitTime, "a limit on each process, and a check of all of them once per second")
	say(l.FileBytes, launch.LimitFile, "a limit on each process")
	return out
}

// proxyFacts describes what the proxy allows.
type proxyFacts struct {
	Allow   []string   `json:"allow"`
	Deny    []string   `json:"deny,omitempty"`
	Rules   []hostRule `json:"rules,omitempty"` // from rules files
	Methods string     `json:"methods"`
	Local   bool       `json:"local,omitempty"`
	Others  string     `json:"others"` // "asked" or "refused"
}

// hostRule is a rule for a host in a rules file.
type hostRule struct {
	Decision string `json:"decision"` // "allow", "ask" or "deny"
	Host     string `json:"host"`
	Protocol string `json:"protocol,omitempty"` // for rules that allow
	Where    string `json:"where"`
}

func explainProxy(cfg *config.Config) *proxyFacts {
	n := rulebook.New(cfg).Network()
	f := &proxyFacts{Allow: []string{}, Methods: schema.MethodsFull, Local: n.Local, Others: "asked"}
	for _, p := range n.Allow {
		f.Allow = append(f.Allow, p.String())
	}
	for _, p := range n.Deny {
		f.Deny = append(f.Deny, p.String())
	}
	for _, h := range n.Hosts {
		r := hostRule{Host: h.Host, Where: h.Where, Decision: map[network.Verdict]string{network.Allow: "allow", network.Ask: "ask", network.Deny: "deny"}[h.Verdict]}
		if h.Verdict == network.Allow {
			r.Protocol = h.Protocol
		}
		f.Rules = append(f.Rules, r)
	}
	if n.Limited {
		f.Methods = schema.MethodsLimited
	}
	if cfg.Approval.Policy == string(policy.Never) {
		f.Others = "refused"
	}
	return f
}

func (f *proxyFacts) lines() []string {
	out := []string{"only through a proxy"}
	if len(f.Allow) > 0 {
		out = append(out, "allows "+strings.Join(f.Allow, ", "))
	}
	if len(f.Deny) > 0 {
		out = append(out, "denies "+strings.Join(f.Deny, ", "))
	}
	for _, r := range f.Rules {
		what := map[string]string{"allow": "allows " + r.Protocol + " to", "ask": "asks about", "deny": "denies"}[r.Decision]
		out = append(out, fmt.Sprintf("a rule %s %s (%s)", what, r.Host, r.Where))
	}
	if f.Methods == schema.MethodsLimited {
		out = append(out, "only GET, HEAD and OPTIONS of plain HTTP")
	}
	if f.Local {
		out = append(out, "allowed names may resolve to this machine and to private networks")
	}
	if f.Others == "asked" {
		return append(out, "others need approval")
	}
	return append(out, "others are refused")
}

func (a *app) sandboxExplainCommand() *cobra.Command {
	var dir string
	var asJSON bool
	cmd := &cobra.Command{
		Use: "explain", Short: "Show what sandboxed commands may do in this folder, and how that is enforced", Args: console.Takes(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			home, cfg, dir, err := a.sandboxConfig(cmd.Context(), dir)
			if err != nil {
				return err
			}
			userHome := grants.UserHome(a.Environ)
			f := ExplainSandbox(cfg, home, userHome, dir, a.Environ)
			if asJSON {
				return json.NewEncoder(a.Stdout).Encode(f)
			}
			f.print(a.Stdout, ApprovalText(cfg))
			return nil
		},
	}
	cmd.Flags().StringVarP(&dir, "cd", "C", "", "for commands in `DIR`")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// ExplainSandbox describes the sandbox of a folder.
func ExplainSandbox(cfg *config.Config, home, userHome, dir string, environ []string) sandboxFacts {
	g := grants.For(cfg, cfg.Sandbox.Mode, dir, "")
	f := sandboxFacts{Mode: g.Mode, Approval: cfg.Approval.Policy, Network: g.Network, LimitedBy: launch.FindMeans()}
	f.Limits = explainLimits(g.Limits, f.LimitedBy)
	f.DenyRead, f.DenyWrite = cfg.Sandbox.DenyRead, cfg.Sandbox.DenyWrite
	if g.Mode == launch.FullAccess && len(f.DenyWrite) > 0 {
		f.DenyWrite = nil
		f.Missing = append(f.Missing, "deny_write, which has no effect with full access: commands can write these paths")
	}
	if g.Mode == launch.FullAccess && len(f.DenyRead) == 0 {
		return f
	}
	if g.Proxied {
		f.Proxy = explainProxy(cfg)
	}
	b := box.New(box.Config{Home: home, UserHome: userHome, Environ: environ, KeyFiles: func() []string { return grants.KeyPaths(grants.KeyFiles(cfg)(), "") }})
	defer b.Close()
	r := b.Report(g)
	f.Held, f.Repos, f.Walked = r.Held, r.Repositories, r.Walked
	f.Writable, f.Protected, f.Unreadable, f.Readable, f.Denied = r.Writable, r.Protected, r.Unreadable, r.Readable, r.Denied+r.Kept
	switch {
	case r.Missing != nil:
		f.Missing = append(f.Missing, r.Missing.Error())
	case r.Seatbelt:
		f.Layers = append(f.Layers, "macOS's own sandbox, with a profile ("+r.Helper+")")
	default:
		f.Layers = append(f.Layers, "namespaces and mounts, with bubblewrap ("+r.Helper+")", "a seccomp filter, no new privileges")
	}
	f.OwnTmp = slices.Contains(r.Writable, "/tmp")
	f.Missing = append(f.Missing, r.Lacks...)
	switch {
	case r.Seatbelt: // Seatbelt is one layer
	case g.Mode == launch.FullAccess: // everything is writable
	case r.Landlock > 0:
		f.Layers = append(f.Layers, fmt.Sprintf("Landlock, version %d", r.Landlock))
	default:
		f.Missing = append(f.Missing, "Landlock: not available in this kernel")
	}
	return f
}

// printDenied prints what no approval allows.
func (f sandboxFacts) printDenied(row func(string, ...string)) {
	row("not read", f.DenyRead...)
	row("not written", f.DenyWrite...)
	if len(f.DenyRead)+len(f.DenyWrite) > 0 {
		row("", fmt.Sprintf("(there: %d)", f.Denied))
	}
}

// maxHeld limits the printed paths that settings refer to.
const maxHeld = 20

// held returns lines about paths that are read-only because other programs execute them.
func (f sandboxFacts) held() (out []string) {
	for i, h := range f.Held {
		if i == maxHeld {
			out = append(out, fmt.Sprintf("and %d more (--json lists all)", len(f.Held)-i))
			break
		}
		out = append(out, h.Path+": "+h.Why)
	}
	switch {
	case f.Repos == 1:
		out = append(out, "the hooks and settings of a repository")
	case f.Repos > 1:
		out = append(out, fmt.Sprintf("the hooks and settings of %d repositories", f.Repos))
	}
	return out
}

func (f sandboxFacts) print(w io.Writer, approval string) {
	row := func(name string, values ...string) {
		for i, v := range values {
			if i > 0 {
				name = ""
			}
			fmt.Fprintf(w, "%-11s %s\n", name, render.Clean(v))
		}
	}
	row("mode", f.Mode)
	if f.Mode == launch.FullAccess {
		if len(f.DenyRead) == 0 {
			row("writes", "everything that you can write: there is no sandbox")
		} else {
			row("writes", "everything that you can write, except denied paths")
			f.printDenied(row)
			row("enforced by", f.Layers...)
		}
		row("missing", f.Missing...)
		row("network", "all of it")
		row("limits", f.Limits...)
		row("approval", approval)
		return
	}
	reads := []string{"everything except hidden and denied paths"}
	if f.Readable != nil {
		reads = append(slices.Clone(f.Readable), "and the system's programs and libraries")
	}
	switch {
	case len(f.Writable) > 0:
		row("writes", f.Writable...)
		if f.OwnTmp {
			row("", "(/tmp is private to the thread)")
		} else {
			row("", "(and TMPDIR, which is private to the thread)")
		}
	default:
		row("writes", "nothing")
	}
	row("protected", f.Protected...)
	row("held", f.held()...)
	for _, x := range f.Walked {
		row("compared", x.Root+" before and after each command, not watched: "+x.Why)
	}
	row("reads", reads...)
	row("hidden", f.Unreadable...)
	f.printDenied(row)
	switch {
	case f.Network:
		row("network", "all of it")
	case f.Proxy != nil:
		row("network", f.Proxy.lines()...)
	default:
		row("network", "none")
	}
	row("limits", f.Limits...)
	row("enforced by", f.Layers...)
	row("missing", f.Missing...)
	row("approval", strings.TrimSpace(approval))
}

// ApprovalText describes the approval policy.
func ApprovalText(cfg *config.Config) string {
	text := map[string]string{
		"untrusted":  "gantry asks before calls with side effects, and refuses them without a terminal",
		"on-request": "gantry asks before anything that needs more than the sandbox allows",
		"granular":   "gantry asks before anything that needs more than the sandbox allows, for the enabled kinds of questions",
		"never":      "gantry never asks",
	}[cfg.Approval.Policy]
	return fmt.Sprintf("%s: %s", cfg.Approval.Policy, text)
}
