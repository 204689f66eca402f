// Package cli is the command line: one file for each command.
//
// It owns: flags, what is printed where and how, exit statuses, the terminal. It must not know: how a thread, a plugin or
// a store works.
//
// Start with [Main]. Rules of the streams: what a command is asked for goes to standard output, everything else to
// standard error. Exit statuses: 0 done, 1 not done, 2 the command line is wrong; 3 is `config fmt --check`'s.
package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/gantry-agent/gantry/config"
	"github.com/gantry-agent/gantry/config/diag"
	"github.com/gantry-agent/gantry/config/hint"
	"github.com/gantry-agent/gantry/host/internal/cli/render"
	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/host"
	"github.com/gantry-agent/gantry/host/internal/plugin"
	"github.com/gantry-agent/gantry/host/internal/redact"
	"github.com/gantry-agent/gantry/host/internal/store"
	"github.com/hashicorp/go-hclog"
	"github.com/spf13/cobra"
)

// app is one run of the command line.
type app struct {
	version  string
	builtins map[string]string // file name → SHA-256 of what was built with this program
	drivers  []store.Driver    // of databases beside the built-in one
	stdin    *os.File
	stdout   *output
	stderr   io.Writer
	dir      string // where it was started
	environ  []string
	leave    context.CancelCauseFunc
	redactor redact.Redactor
	log      hclog.Logger // made by logger when it is first needed
	began    bool         // a command runs: an error is its own and not one of the command line
	homeless bool         // a home that can't be made will do: nothing is kept there
	endedBy  os.Signal    // the signal that asked the run to end; nil: none did

	flags struct {
		config  string
		sets    []string
		profile string
		home    string
		log     string
		color   string
		noUser  bool // the user's own configuration file does not count
	}
}

// Main runs the command line and returns the exit status. builtins pins gantry's own plugins, NAME=SHA256 joined by
// commas; a name that is not in it is not checked. drivers are for databases beside the built-in one.
func Main(version, builtins string, args []string, drivers ...store.Driver) int {
	keepOut()
	defer ballast()()
	dir, err := os.Getwd()
	if err != nil {
		fmt.Fprintln(os.Stderr, "Error: the current folder can't be read:", err)
		return 1
	}
	ctx, leave := context.WithCancelCause(context.Background())
	defer leave(nil)
	a := &app{
		version: version, builtins: parsePins(builtins), drivers: drivers, stdin: os.Stdin, stdout: &output{File: os.Stdout}, stderr: os.Stderr, dir: dir, environ: os.Environ(), leave: leave,
	}
	status := a.run(ctx, args)
	if a.endedBy != nil {
		return endBy(a.endedBy)
	}
	return status
}

func (a *app) run(ctx context.Context, args []string) int {
	root := a.root()
	root.SetArgs(args)
	root.SetIn(a.stdin)
	root.SetOut(a.stdout)
	root.SetErr(a.stderr)
	err := root.ExecuteContext(ctx)
	if lost := a.stdout.lost(); lost != nil && (err == nil || !a.began) {
		err = lost // whatever the command says, nobody has read what it was asked for
	}
	if _, told := errors.AsType[usageError](err); err != nil && !a.began && !told && a.stdout.lost() == nil {
		err = usage("%w", err)
	}
	return a.status(err)
}

// status shows an error once and turns it into an exit status.
func (a *app) status(err error) int {
	switch {
	case err == nil:
		return 0
	case errors.Is(err, errTurn), errors.Is(err, errShown):
		return 1 // was shown
	}
	if s, ok := errors.AsType[statusError](err); ok {
		return int(s)
	}
	if f, ok := errors.AsType[diag.Failure](err); ok {
		_ = diag.Write(a.stderr, f.Diagnostics, a.colour(a.stderr)) // standard error is gone: there is nobody to tell
		return 1
	}
	if u, ok := errors.AsType[usageError](err); ok {
		fmt.Fprintf(a.stderr, "Error: %s\n  Next: %s\n", render.Clean(u.text), render.Clean(cmp.Or(u.next, "see `gantry help`")))
		return 2
	}
	a.showError(err)
	return 1
}

// errShown says that the reason was printed already.
var errShown = errors.New("failed")

// showError renders an error with all that its type knows.
func (a *app) showError(err error) {
	pe, ok := errors.AsType[*plugin.Error](err)
	if !ok {
		text, next := hint.Split(err)
		next = cmp.Or(next, systemNext(err))
		fmt.Fprintf(a.stderr, "Error: %s\n", render.Clean(text))
		if next != "" {
			fmt.Fprintf(a.stderr, "  Next: %s\n", render.Clean(next))
		}
		return
	}
	d := diag.Diagnostic{Severity: diag.Error, Summary: summary(pe), Next: pe.NextStep(), Plugin: pe.Plugin}
	d.Detail = detail(pe)
	_ = diag.Write(a.stderr, diag.Diagnostics{d}, a.colour(a.stderr))
}

// systemNext is what to do about an error of the system that nobody on its way knew more about.
func systemNext(err error) string {
	switch {
	case errors.Is(err, syscall.ENOSPC):
		return "make room on the disk"
	case errors.Is(err, syscall.EROFS):
		return "its file system is mounted read-only; use another place, or mount it writable"
	case errors.Is(err, fs.ErrPermission):
		return "see whom it belongs to and who may use it, with ls -l"
	}
	return ""
}

func summary(e *plugin.Error) string {
	what := map[plugin.Phase]string{
		plugin.PhaseFind: "was not found", plugin.PhaseVerify: "is not the one that was locked", plugin.PhaseStart: "did not start",
		plugin.PhaseHandshake: "did not start", plugin.PhaseConnect: "can't be reached", plugin.PhaseDescribe: "describes itself wrongly",
		plugin.PhaseConfigure: "refuses its configuration", plugin.PhaseRun: "ended", plugin.PhaseCall: "failed in a call",
		plugin.PhaseStop: "did not stop",
	}[e.Phase]
	if what == "" {
		what = "failed"
	}
	return fmt.Sprintf("plugin %q %s", e.Plugin, what)
}

func detail(e *plugin.Error) string {
	var b strings.Builder
	if e.Where != "" {
		fmt.Fprintf(&b, "%s\n", e.Where)
	}
	if e.Err != nil && len(e.Diagnostics) == 0 { // with diagnostics it repeats them
		fmt.Fprintf(&b, "%s\n", render.Clean(e.Err.Error()))
	}
	if e.Exit != nil {
		fmt.Fprintf(&b, "It %s.\n", e.Exit)
	}
	for _, d := range e.Diagnostics {
		fmt.Fprintf(&b, "%s\n", render.Clean(d.Error()))
	}
	printed := e.Printed
	if e.Phase != plugin.PhaseStart && e.Phase != plugin.PhaseHandshake {
		printed = nil // the handshake itself, which came about
	}
	for _, l := range printed {
		fmt.Fprintf(&b, "It printed: %s\n", render.Clean(l))
	}
	for _, l := range e.StderrTail {
		fmt.Fprintf(&b, "stderr: %s\n", render.Clean(l))
	}
	return strings.TrimSuffix(b.String(), "\n")
}

func (a *app) root() *cobra.Command {
	name := "gantry"
	for _, d := range a.drivers {
		name += "-" + d.Name()
	}
	root := &cobra.Command{
		Use:   name,
		Short: "A host for AI agents in which every tool and model provider is a plugin",
		Long: "gantry runs the agent loop, enforces your policies, and records everything. Tools and model providers are separate\n" +
			"programs, configured in gantry.hcl.",
		Example: "  gantry init                                    # create a first gantry.hcl\n" +
			"  gantry exec \"what does this project do?\"\n" +
			"  gantry resume --last \"and what is missing?\"\n" +
			"  gantry threads list",
		Version:       a.version,
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.SetFlagErrorFunc(flagError)
	fs := root.PersistentFlags()
	fs.Var(&settings{app: a, file: true}, "config", "read `FILE` after all other configuration files")
	fs.VarP(&settings{app: a}, "set", "c", "override a setting with `NAME=VALUE`, as in -c approval.policy=never; can be repeated")
	fs.StringVarP(&a.flags.profile, "profile", "p", "", "use the profile `NAME`")
	fs.StringVar(&a.flags.home, "home", "", "use `DIR` instead of ~/.gantry (or $GANTRY_HOME)")
	fs.StringVar(&a.flags.color, "color", "auto", "`WHEN` to use colours: auto (on a terminal), always, never")
	fs.BoolVar(&a.flags.noUser, "ignore-user-config", false, "ignore your own gantry.hcl")
	fs.StringVar(&a.flags.log, "log", "", "log to standard error at `LEVEL`: trace, debug, info, warn, error (default warn)")
	root.AddCommand(
		a.execCommand(), a.resumeCommand(), a.forkCommand(), a.compactCommand(), a.reviewCommand(), a.attachCommand(), a.threadsCommand(), a.pluginCommand(), a.modelsCommand(), a.modelCommand(),
		a.diffCommand(), a.undoCommand(),
		a.configCommand(), a.initCommand(), a.trustCommand(), a.hooksCommand(), a.loginCommand(), a.logoutCommand(), a.secretCommand(), a.doctorCommand(), a.sandboxCommand(), a.policyCommand(),
	)
	root.SetHelpCommand(helpCommand(root))
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	for _, cmd := range root.Commands() {
		if cmd.Name() == "completion" {
			for _, shell := range cmd.Commands() {
				shell.Args = takes(0, 0)
			}
		}
	}
	a.complete(root)
	a.strict(root)
	return root
}

func (a *app) env(name string) (string, bool) {
	for i := len(a.environ) - 1; i >= 0; i-- {
		if k, v, ok := strings.Cut(a.environ[i], "="); ok && k == name {
			return v, true
		}
	}
	return "", false
}

// home is the folder where everything of this user lives.
func (a *app) home() (string, error) {
	dir := a.flags.home
	if dir == "" {
		dir, _ = a.env("GANTRY_HOME")
	}
	if dir == "" {
		h, ok := a.env("HOME")
		if !ok || h == "" {
			return "", hint.New("neither GANTRY_HOME nor HOME is set", "say where to keep things with --home")
		}
		dir = filepath.Join(h, ".gantry")
	}
	abs, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(abs, 0o700); err != nil && !a.homeless {
		return "", hint.With(fmt.Errorf("the home folder can't be made: %w", err), "set GANTRY_HOME to a folder of yours, or use --home")
	}
	return abs, nil
}

// binDir is where gantry's own binaries are.
func binDir() (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("find gantry's own binary: %w", err)
	}
	if real, err := filepath.EvalSymlinks(self); err == nil {
		self = real
	}
	return filepath.Dir(self), nil
}

func (a *app) logger() (hclog.Logger, error) {
	if a.log != nil {
		return a.log, nil // the libraries' logs are turned once: some may be writing already
	}
	name := a.flags.log
	if name == "" {
		name, _ = a.env("GANTRY_LOG")
	}
	level := hclog.Warn
	if name != "" {
		if level = hclog.LevelFromString(name); level == hclog.NoLevel {
			return nil, usageError{fmt.Sprintf("there is no log level %q", name), diag.DidYouMean(name, logLevels(), "")}
		}
	}
	l := hclog.New(&hclog.LoggerOptions{Name: "gantry", Level: level, Output: a.redactor.Writer(a.stderr)})
	log.SetFlags(0)
	plugin.RedirectLibraryLogs(l.Named("library"))
	a.log = l
	return l, nil
}

// hostOptions say what a command needs of a host.
type hostOptions struct {
	dir        string // whose project configuration counts
	ephemeral  bool
	onlyLooks  bool // it changes nothing that is stored
	keyless    bool // it needs no keys
	onPlugin   func(event.PluginState)
	folders    []string            // that commands may write in, beside those of the configuration
	trustHooks bool                // hooks run that nobody has agreed to
	override   func(*config.Model) // changes the model that answers; nil: not at all
}

// openHost reads the configuration and wires a host.
func (a *app) openHost(ctx context.Context, o hostOptions) (*host.Host, error) {
	home, err := a.home()
	if err != nil {
		return nil, err
	}
	cfg, err := a.loadConfig(ctx, home, o.dir)
	if err != nil {
		return nil, err
	}
	if len(o.folders) > 0 {
		with := *cfg // which others may be reading
		with.Sandbox.WritableRoots = slices.Concat(cfg.Sandbox.WritableRoots, o.folders)
		cfg = &with
	}
	return a.hostOf(ctx, home, cfg, o)
}

// hostOf wires a host for a configuration.
func (a *app) hostOf(ctx context.Context, home string, cfg *config.Config, o hostOptions) (*host.Host, error) {
	logger, err := a.logger()
	if err != nil {
		return nil, err
	}
	bin, err := binDir()
	if err != nil {
		return nil, err
	}
	where, err := a.database(cfg)
	if err != nil {
		return nil, err
	}
	plugins, err := a.installation(home, func(ctx context.Context) (*config.Config, error) {
		cfg, ds := a.readConfig(ctx, home, o.dir)
		return cfg, ds.Err()
	})
	if err != nil {
		return nil, err
	}
	verified, err := plugins.Verify(ctx, cfg)
	if err != nil {
		return nil, err
	}
	opts := host.Options{
		Home: home, BinDir: bin, Version: a.version, Config: cfg, Verified: verified, Logger: logger, Redactor: &a.redactor, OnPlugin: o.onPlugin,
		Environ: a.environ, Database: where, Ephemeral: o.ephemeral, Keyless: o.keyless, Vault: a.vault(home), Override: o.override, TrustHooks: o.trustHooks,
		Reverified: plugins.Reverify,
	}
	if !o.ephemeral && !o.onlyLooks {
		opts.Beside = func(ctx context.Context, s *store.Store) { tidy(ctx, home, cfg, s, logger.Named("tidy")) }
	}
	return host.New(ctx, opts)
}
