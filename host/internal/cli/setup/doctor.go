package setup

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/gantry-agent/gantry/config"
	"github.com/gantry-agent/gantry/config/diag"
	"github.com/gantry-agent/gantry/config/hint"
	"github.com/gantry-agent/gantry/config/schema"
	"github.com/gantry-agent/gantry/config/trust"
	"github.com/gantry-agent/gantry/host/internal/cli/console"
	"github.com/gantry-agent/gantry/host/internal/cli/render"
	"github.com/gantry-agent/gantry/host/internal/cli/safety"
	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/grants"
	"github.com/gantry-agent/gantry/host/internal/host"
	"github.com/gantry-agent/gantry/host/internal/install"
	"github.com/gantry-agent/gantry/host/internal/launch"
	"github.com/gantry-agent/gantry/host/internal/model"
	"github.com/gantry-agent/gantry/host/internal/plugin"
	"github.com/gantry-agent/gantry/host/internal/pluginset"
	"github.com/gantry-agent/gantry/host/internal/runsocket"
	"github.com/gantry-agent/gantry/host/internal/store"
	"github.com/gantry-agent/gantry/sdk/codemode"
	"github.com/gantry-agent/gantry/sdk/codemode/frame"
	"github.com/gantry-agent/gantry/sdk/contract"
	"github.com/spf13/cobra"
)

func (a *app) doctorCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use: "doctor", Short: "Check that gantry and its plugins work on this machine", Args: console.Takes(0, 0),
		Long: "doctor checks gantry's folder and database, the configuration, the launcher and the features of this machine, and starts\n" +
			"every plugin as a task would. Exit status 1: there are errors (✗); warnings are marked with !.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, stop := console.Interruptible(cmd)
			defer stop()
			return a.doctor(ctx, asJSON)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// health is the status of a finding.
type health string

const (
	healthy health = "ok"
	worth   health = "warning"
	ill     health = "error"
)

// finding is one line of doctor's report.
type finding struct {
	Health health `json:"status"`
	About  string `json:"about"`
	Text   string `json:"text"`
	Next   string `json:"next,omitempty"`
}

// doctor is one examination.
type doctor struct {
	app      *app
	home     string
	bin      string
	cfg      *config.Config
	programs *install.Programs
	found    []finding
}

// say adds a finding. If an error in args has a next step, it replaces next.
func (d *doctor) say(h health, about, next, format string, args ...any) {
	text, own := hint.Split(fmt.Errorf(format, args...))
	d.found = append(d.found, finding{h, about, render.Clean(text), render.Clean(cmp.Or(own, next))})
}

func (a *app) doctor(ctx context.Context, asJSON bool) (err error) {
	d := &doctor{app: a}
	if _, err := a.Logger(); err != nil {
		return err
	}
	d.say(healthy, "gantry", "", "%s, %s, %s/%s", a.Version, runtime.Version(), runtime.GOOS, runtime.GOARCH)
	d.system(runtime.GOOS)
	if err := d.examine(ctx); err != nil {
		return err
	}
	if asJSON {
		err = a.PrintJSON(d.found)
	} else {
		err = d.print()
	}
	if err != nil {
		return err
	}
	if slices.ContainsFunc(d.found, func(f finding) bool { return f.Health == ill }) {
		return console.ErrShown
	}
	return nil
}

// system reports the support for an operating system.
func (d *doctor) system(goos string) {
	if goos == "darwin" {
		d.say(worth, "system", "try the sandbox with `gantry sandbox -- COMMAND` before you rely on it",
			"support for macOS is experimental: gantry has never been tested on a Mac")
	}
}

// examine runs all checks, except those that can only fail because an earlier one did.
func (d *doctor) examine(ctx context.Context) (err error) {
	if d.bin, err = console.BinDir(); err != nil {
		return err
	}
	if d.home, err = d.app.Home(); err != nil {
		d.say(ill, "home", "", "%w", err)
		return nil
	}
	writable := d.folder()
	if writable {
		d.secrets()
		d.sockets()
	}
	if !d.configuration(ctx) {
		d.say(worth, "database", "", "not checked: its location depends on the configuration")
		return nil
	}
	if writable {
		d.database(ctx)
	}
	d.scripts(ctx)
	launches := d.launcher(ctx)
	switch {
	case !writable:
		d.say(worth, "plugins", "", "not checked: they need the home folder")
	case !launches:
		d.say(worth, "plugins", "", "not checked: they need the launcher")
	default:
		return d.plugins(ctx)
	}
	return nil
}

func (d *doctor) print() error {
	marks := map[health]string{healthy: "✓", worth: "!", ill: "✗"}
	counts := map[health]int{}
	for _, f := range d.found {
		counts[f.Health]++
		if _, err := fmt.Fprintf(d.app.Stdout, "%s %s: %s\n", marks[f.Health], f.About, strings.ReplaceAll(f.Text, "\n", "\n    ")); err != nil {
			return err
		}
		if f.Next != "" {
			fmt.Fprintf(d.app.Stdout, "    Next: %s\n", f.Next)
		}
	}
	switch {
	case counts[ill] > 0:
		fmt.Fprintf(d.app.Stdout, "\n%s failed\n", render.Plural(counts[ill], "check"))
	case counts[worth] > 0:
		fmt.Fprintf(d.app.Stdout, "\n"+
			"everything works; %s\n", render.Plural(counts[worth], "warning"))
	default:
		fmt.Fprintf(d.app.Stdout, "\neverything works\n")
	}
	return nil
}

// probeBytes are written to test whether there is space: about what opening the database needs.
const probeBytes = 128 << 10

// folder checks gantry's home folder and reports whether it is usable.
func (d *doctor) folder() bool {
	info, err := os.Stat(d.home)
	if err == nil {
		err = probe(d.home)
	}
	if err != nil {
		text, next := diskProblem(d.home, err)
		d.say(ill, "home", next, "%s", text)
		return false
	}
	if perm := info.Mode().Perm(); runtime.GOOS != "windows" && perm&0o077 != 0 {
		d.say(worth, "home", "chmod 700 "+d.home, "%s is readable by other users (mode %#o)", d.home, perm)
		return true
	}
	d.say(healthy, "home", "", "%s", d.home)
	return true
}

// probe writes a file to a folder and removes it.
func probe(dir string) error {
	f, err := os.CreateTemp(dir, ".doctor-*")
	if err != nil {
		return err
	}
	_, err = f.Write(make([]byte, probeBytes))
	return errors.Join(err, f.Close(), os.Remove(f.Name()))
}

// diskProblem describes why a folder is not usable.
func diskProblem(dir string, err error) (text, next string) {
	const elsewhere = ", or set GANTRY_HOME to a folder elsewhere"
	switch {
	case errors.Is(err, syscall.EROFS):
		return dir + " is on a file system that is mounted read-only", "mount it writable" + elsewhere
	case errors.Is(err, syscall.ENOSPC):
		return "the disk that " + dir + " is on is full", "free up space" + elsewhere
	case errors.Is(err, syscall.EDQUOT):
		return "your quota on the disk that " + dir + " is on is used up", "delete files that you no longer need" + elsewhere
	case errors.Is(err, fs.ErrPermission):
		return dir + " is not writable by this user", "change its owner and mode with chown and chmod 700" + elsewhere
	}
	return fmt.Sprintf("can't write to %s: %v", dir, err), "check the disk" + elsewhere
}

func (d *doctor) database(ctx context.Context) {
	s, err := d.app.OpenStore(ctx)
	if err != nil {
		d.say(ill, "database", "", "%w", err)
		return
	}
	infos, err := s.Threads(ctx, store.Filter{IncludeWorkers: true})
	about, aboutErr := s.About(ctx)
	if err = errors.Join(err, aboutErr); err == nil {
		err = d.damage(ctx, s)
	}
	if err = errors.Join(err, s.Close(ctx)); err != nil {
		d.say(ill, "database", "", "%w", err)
		return
	}
	d.say(healthy, "database", "", "%s, %s", render.Plural(len(infos), "thread"), about)
}

// verifyBound limits the time for checking the database, in which several GiB can be read.
const verifyBound = 10 * time.Second

// damage checks the database without reading every event, which `gantry threads check` does.
func (d *doctor) damage(ctx context.Context, s *store.Store) error {
	const next = "`gantry threads check` shows what is damaged"
	ctx, cancel := context.WithTimeout(ctx, verifyBound)
	defer cancel()
	wrong, err := s.Verify(ctx, false)
	if len(wrong) > 0 {
		d.say(ill, "database", next, "it is damaged: %s", wrong[0])
	}
	short, countErr := s.IncompleteThreads(ctx)
	if len(short) > 0 {
		d.say(ill, "threads", next, "missing events in %s, the newest is %s", render.Plural(len(short), "thread"), short[0])
	}
	if ctx.Err() != nil {
		d.say(worth, "database", "`gantry threads check` checks it without a time limit", "not checked completely within %v", verifyBound)
		return nil
	}
	return errors.Join(err, countErr)
}

// maxSocketPath is the maximum length of a unix socket's path on Linux, without the terminating zero byte.
const maxSocketPath = 107

func (d *doctor) sockets() {
	path, err := runsocket.Path(d.home, event.NewThreadID())
	if err != nil {
		d.say(ill, "run sockets", "set GANTRY_HOME to a shorter path", "%w", err)
		return
	}
	if !strings.HasPrefix(path, d.home+string(filepath.Separator)) {
		d.say(worth, "run sockets", "set GANTRY_HOME to a shorter path to keep them there", "in %s, because the home's path is too long for sockets", filepath.Dir(path))
		return
	}
	d.say(healthy, "run sockets", "", "in %s, using %d of %d bytes of a socket address", filepath.Dir(path), len(path), maxSocketPath)
}

// configuration loads the configuration. Without one, nothing else can be checked.
func (d *doctor) configuration(ctx context.Context) bool {
	cfg, ds := d.app.ReadConfig(ctx, d.home, d.app.Dir)
	if cfg != nil {
		ds = append(ds, cfg.Validate()...)
	}
	for _, g := range ds {
		h := worth
		if g.Severity != diag.Warning {
			h = ill
		}
		text := g.Summary
		if !g.Range.IsZero() {
			text = g.Range.String() + ": " + text
		}
		if g.Detail != "" {
			text += "\n" + g.Detail
		}
		d.say(h, "configuration", g.Next, "%s", text)
	}
	if cfg == nil {
		return false
	}
	d.cfg = cfg
	var files []string
	for _, f := range cfg.Files {
		if f.Path != "" {
			files = append(files, d.app.Shown(f.Path))
		}
	}
	next := ""
	if len(files) == 0 {
		next = "`gantry init` creates one"
	}
	d.say(healthy, "configuration", next, "%s", render.Listed(files, "built-in only"))
	d.say(healthy, "approval", "", "%s", safety.ApprovalText(cfg))
	if _, err := trust.Open(d.home).List(); err != nil {
		d.say(ill, "trust", "", "%w", err)
	}
	return true
}

// launcher checks the program that starts the processes of tools, and what it can enforce. It reports whether the program exists.
func (d *doctor) launcher(ctx context.Context) bool {
	const again = "reinstall gantry from a single build; the launcher has to be in the same folder as gantry"
	path := filepath.Join(d.bin, "gantry-launch")
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		d.say(ill, "launcher", again, "%s is missing", path)
		return false
	case err != nil:
		d.say(ill, "launcher", again, "%w", err)
		return false
	case !info.Mode().IsRegular():
		d.say(ill, "launcher", again, "%s is not a program", path)
		return false
	case info.Mode().Perm()&0o111 == 0:
		d.say(ill, "launcher", "chmod 755 "+path, "%s is not executable", path)
		return false
	}
	userHome := grants.UserHome(d.app.Environ)
	l, err := launch.New(launch.Config{LauncherPath: path, Confiners: []launch.Confiner{launch.Unconfined{}, grants.NewBox(d.home, d.app.Environ, nil, nil, nil)}})
	if err != nil {
		d.say(ill, "launcher", again, "%w", err)
		return false
	}
	defer func() {
		if err := l.Close(context.WithoutCancel(ctx)); err != nil {
			d.say(ill, "launcher", "", "%w", err)
		}
	}()
	if err := d.runTrue(ctx, l, launch.Grant{Mode: launch.FullAccess, Network: true}); err != nil {
		next := "check whether this user may start processes; if so, " + again
		if errors.Is(err, syscall.ENOEXEC) {
			next = again
		}
		d.say(ill, "launcher", next, "%s can't start a process: %w", path, err)
		return true
	}
	d.say(healthy, "launcher", "", "%s starts processes", path)
	d.sandbox(ctx, l, userHome)
	d.limits(ctx, l)
	return true
}

// scripts runs a script that calls tools, whose process locks itself before that.
func (d *doctor) scripts(ctx context.Context) {
	const next = "reinstall gantry from a single build, or set codemode { mode = \"off\" }"
	path := filepath.Join(d.bin, "gantry-codemode")
	offered := d.cfg.Codemode.Mode != schema.CodemodeOff || slices.ContainsFunc(d.cfg.Models, func(m *config.Model) bool {
		return m.ToolMode != "" && m.ToolMode != "direct"
	})
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) && !offered {
		return // nothing needs it
	}
	began := time.Now()
	done := codemode.Start(ctx, []string{path}, codemode.Script{Code: "async () => 6 * 7", Limits: codemode.Limits{Wall: startBound}}, deaf{}).Wait()
	switch {
	case done.Error != nil && done.Error.Cause == frame.Locked:
		d.say(ill, "scripts", next, "%s can't give up its access to files, sockets and processes, and runs nothing: %s", path, done.Error.Message)
	case done.Error != nil:
		d.say(ill, "scripts", next, "%s: %s", path, done.Error.Message)
	case string(done.Value) != "42":
		d.say(ill, "scripts", next, "%s computes 6 * 7 = %s", path, done.Value)
	case !offered:
		d.say(healthy, "scripts", "", "%s works; no model is offered scripts (codemode { mode })", path)
	default:
		d.say(healthy, "scripts", "", "%s ran a script, locked, in %v", path, time.Since(began).Round(time.Millisecond))
	}
}

// deaf is the owner of a script that calls nothing.
type deaf struct{}

func (deaf) Call(context.Context, frame.Call) (json.RawMessage, error) {
	return nil, errors.New("there are no tools")
}
func (deaf) Emit(frame.Emit) {}
func (deaf) Log(string)      {}

// limits runs a command under limits and reports what enforces them.
func (d *doctor) limits(ctx context.Context, l *launch.Launcher) {
	const much = 1 << 40
	g := launch.Grant{Mode: launch.FullAccess, Network: true, Limits: launch.Limits{MemoryBytes: much, MaxPids: 1 << 20}}
	if err := l.Check(g); err != nil {
		d.say(worth, "limits", "", "%w", err)
		return
	}
	if err := d.runTrue(ctx, l, g); err != nil {
		d.say(ill, "limits", "start gantry in a place where it can create control groups, or where it sees none", "%w", err)
		return
	}
	m := launch.FindMeans()
	d.say(healthy, "limits", "", "memory limited by %s; processes limited by %s", m.Memory, m.Pids)
}

// sandbox runs a command in the configured sandbox and reports missing layers.
func (d *doctor) sandbox(ctx context.Context, l *launch.Launcher, userHome string) {
	g := grants.For(d.cfg, d.cfg.Sandbox.Mode, d.app.Dir, "")
	if err := l.Check(g); err != nil {
		d.enforced(l, "sandbox", g, "", ill)
		return
	}
	if err := d.runTrue(ctx, l, g); err != nil {
		d.say(ill, "sandbox", "fix the problem, or set sandbox { mode = \"full-access\" } to run without confinement", "mode %s: %w", g.Mode, err)
		return
	}
	d.say(healthy, "sandbox", "", "mode %s", g.Mode)
	for _, m := range safety.ExplainSandbox(d.cfg, d.home, userHome, d.app.Dir, d.app.Environ).Missing {
		d.say(worth, "sandbox", "", "%s", m)
	}
}

func (d *doctor) enforced(l *launch.Launcher, about string, g launch.Grant, text string, otherwise health) {
	err := l.Check(g)
	if err == nil {
		d.say(healthy, about, "", "%s", text)
		return
	}
	next := ""
	if u, ok := errors.AsType[*launch.UnsupportedError](err); ok {
		err, next = errors.New(u.What), u.Next
	}
	if otherwise == worth {
		next = "" // no action is needed
	}
	d.say(otherwise, about, next, "%w", err)
}

// startBound limits the time of a process that does nothing.
const startBound = 10 * time.Second

func (d *doctor) runTrue(ctx context.Context, l *launch.Launcher, g launch.Grant) error {
	ctx, cancel := context.WithTimeout(ctx, startBound)
	defer cancel()
	p, err := l.Spawn(ctx, launch.Spec{
		Argv: []string{"true"}, Cwd: "/", Env: d.app.Environ, Grant: g,
		Owner: launch.Owner{Plugin: "doctor"},
	})
	if err != nil {
		return err
	}
	exit, err := p.Wait(ctx)
	if err == nil && exit.Code != 0 {
		err = fmt.Errorf("`true` exited with status %d", exit.Code)
	}
	return err
}

// plugins starts all plugins concurrently, as a task would.
func (d *doctor) plugins(ctx context.Context) (err error) {
	if d.programs, err = d.app.ProgramsOf(d.cfg, d.home); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.programs.Close(ctx)) }()
	only := *d.cfg
	only.Providers, only.Plugins = nil, nil
	for _, b := range d.cfg.Blocks() {
		pr := d.programs.Look(b)
		if !pr.Trusted() {
			d.unusable(&pr)
			continue
		}
		if b.Kind == contract.KindProvider {
			only.Providers = append(only.Providers, b)
		} else {
			only.Plugins = append(only.Plugins, b)
		}
	}
	h, err := d.app.HostOf(ctx, d.home, &only, console.HostOptions{Dir: d.app.Dir, Ephemeral: true})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, h.Close()) }()
	blocks := only.Blocks()
	results := make([][]finding, len(blocks))
	var started sync.WaitGroup
	for i, b := range blocks {
		started.Go(func() { results[i] = startOne(ctx, h, b) })
	}
	started.Wait()
	for i, b := range blocks {
		results[i] = append(results[i], d.checks(ctx, h, b)...)
	}
	for _, r := range results {
		d.found = append(d.found, r...)
	}
	d.isolation(h, blocks)
	d.models()
	return nil
}

func about(b *config.PluginBlock) string { return install.BlockType(b.Kind) + " " + b.Label }

func (d *doctor) unusable(pr *install.Program) {
	text, next := pr.Problem.Error(), ""
	if f, ok := errors.AsType[diag.Failure](pr.Problem); ok && len(f.Diagnostics) > 0 {
		g := f.Diagnostics[0]
		text, next = strings.TrimSpace(g.Summary+"\n"+g.Detail), g.Next
	}
	d.say(ill, about(pr.Block), next, "%s: %s", pr.Block.Where(), text)
}

// startOne starts a plugin and sends it a request.
func startOne(ctx context.Context, h *host.Host, b *config.PluginBlock) []finding {
	slot := h.Plugins().Slot(b.Label)
	began := time.Now()
	lease, err := slot.Acquire(ctx)
	if err != nil {
		return []finding{broken(b, err)}
	}
	took := time.Since(began)
	m := lease.Manifest()
	lease.Release()
	what := render.Plural(len(m.Tools), "tool")
	if b.Kind == contract.KindProvider {
		rows, err := model.New(slot, "").Rows(ctx)
		if err != nil {
			return []finding{broken(b, err)}
		}
		what = render.Plural(len(rows), "model")
	}
	return []finding{{healthy, about(b), render.Clean(fmt.Sprintf("%s %s, %s, started in %v", m.Name, m.Version, what, took.Round(time.Millisecond))), ""}}
}

// selfChecks are the commands of plugins that examine themselves, the preferred one first. Their output has checks.
var selfChecks = []string{"doctor", "status"}

// selfCheck returns the command by which a plugin examines itself, and whether its input has a folder; "": there is none. A status without a
// folder is about something else.
func selfCheck(commands []contract.CommandSpec) (name string, folder bool) {
	for _, want := range selfChecks {
		for _, c := range commands {
			var schema struct {
				Properties struct {
					Folder any `json:"folder"`
				} `json:"properties"`
			}
			if c.Name != want || c.SideEffects || c.CallsTool || json.Unmarshal(c.InputSchema, &schema) != nil {
				continue
			}
			if folder = schema.Properties.Folder != nil; folder || want == "doctor" {
				return want, folder
			}
		}
	}
	return "", false
}

// checks runs a plugin's own checks, if it has any.
func (d *doctor) checks(ctx context.Context, h *host.Host, b *config.PluginBlock) []finding {
	name, folder := selfCheck(h.Plugins().CommandsOf(b.Label))
	if name == "" {
		return nil
	}
	in := map[string]string{}
	if folder {
		in["folder"] = d.app.Dir
	}
	input, err := json.Marshal(in)
	if err != nil { // impossible for text
		panic("doctor: " + err.Error())
	}
	out, err := h.Plugins().Command(ctx, b.Label, pluginset.CommandRun{Name: name, Input: input})
	var report struct {
		Checks []finding `json:"checks"`
	}
	if err == nil {
		err = json.Unmarshal(out, &report)
	}
	if err != nil {
		return []finding{broken(b, err)}
	}
	for i, f := range report.Checks {
		if f.Health != healthy && f.Health != worth {
			f.Health = ill
		}
		report.Checks[i] = finding{f.Health, about(b), render.Clean(f.Text), render.Clean(f.Next)}
	}
	return report.Checks
}

func broken(b *config.PluginBlock, err error) finding {
	f := finding{Health: ill, About: about(b), Text: render.Clean(err.Error())}
	if e, ok := errors.AsType[*plugin.Error](err); ok {
		f.Text, f.Next = render.Clean(strings.TrimSpace(e.Summary()+"\n"+console.Detail(e))), render.Clean(e.Next)
	}
	return f
}

func (d *doctor) isolation(h *host.Host, blocks []*config.PluginBlock) {
	for _, b := range blocks {
		switch h.Plugins().Slot(b.Label).Status().Isolation {
		case plugin.IsolationNamespace:
			d.say(healthy, "isolation", "", "plugins run in their own namespaces: no process that they start can outlive them")
			return
		case plugin.IsolationScan:
			if runtime.GOOS == "darwin" {
				d.say(worth, "isolation", "", "macOS has no namespaces: gantry searches for processes that a plugin leaves behind")
				return
			}
			d.say(worth, "isolation", "allow unprivileged user namespaces on this machine", "this machine doesn't allow namespaces: gantry searches for "+
				"processes that a plugin leaves behind, and your keys and gantry's own files are not hidden from plugins")
			return
		}
	}
}

// builtinFile is the name of the built-in configuration in positions.
const builtinFile = "built-in"

// models checks the default model.
func (d *doctor) models() {
	m, ok := d.cfg.Model(d.cfg.DefaultModel)
	switch {
	case !ok:
		return // reported with the configuration
	case len(m.Problems) > 0:
		d.say(ill, "model "+m.Label, m.Problems[0].Next, "%s: %s", m.Range, m.Problems[0].Summary)
	default:
		if m.Range.File == builtinFile {
			d.say(worth, "model "+m.Label, "add a provider and a model block to gantry.hcl; `gantry init` creates examples",
				"tasks are sent to the scripted provider, which plays a demo and uses no model")
			return
		}
		d.say(healthy, "model "+m.Label, "", "tasks are sent to %s of provider %q", m.Name, m.Provider)
	}
}
