// Package console is what the commands share: the streams, the flags of the whole command line, the home, the
// configuration, the store, usage errors, and how a person is asked.
//
// It owns: how errors are shown and what exit status they have, and how a host and a store are opened for a command. It
// must not know: any command.
//
// Start with [Env].
package console

import (
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

	"github.com/gantry-agent/gantry/config"
	"github.com/gantry-agent/gantry/config/diag"
	"github.com/gantry-agent/gantry/config/hint"
	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/host"
	"github.com/gantry-agent/gantry/host/internal/plugin"
	"github.com/gantry-agent/gantry/host/internal/redact"
	"github.com/gantry-agent/gantry/host/internal/secret"
	"github.com/gantry-agent/gantry/host/internal/store"
	"github.com/hashicorp/go-hclog"
)

// Env is one run of the command line.
type Env struct {
	Version  string
	Builtins map[string]string // file name → SHA-256 of what was built with this program
	Drivers  []store.Driver    // of databases beside the built-in one
	Stdin    *os.File
	Stdout   *Output
	Stderr   io.Writer
	Dir      string // where it was started
	Environ  []string
	Leave    context.CancelCauseFunc
	redactor redact.Redactor
	log      hclog.Logger // made by logger when it is first needed
	Began    bool         // a command runs: an error is its own and not one of the command line
	Homeless bool         // a home that can't be made will do: nothing is kept there
	EndedBy  os.Signal    // the signal that asked the run to end; nil: none did

	Flags struct {
		Config  string
		Sets    []string
		Profile string
		Home    string
		Log     string
		Color   string
		NoUser  bool // the user's own configuration file does not count
	}
}

// LookupEnv is the last value of a variable of the environment.
func (a *Env) LookupEnv(name string) (string, bool) {
	for i := len(a.Environ) - 1; i >= 0; i-- {
		if k, v, ok := strings.Cut(a.Environ[i], "="); ok && k == name {
			return v, true
		}
	}
	return "", false
}

// Home is the folder where everything of this user lives.
func (a *Env) Home() (string, error) {
	dir := a.Flags.Home
	if dir == "" {
		dir, _ = a.LookupEnv("GANTRY_HOME")
	}
	if dir == "" {
		h, ok := a.LookupEnv("HOME")
		if !ok || h == "" {
			return "", hint.New("neither GANTRY_HOME nor HOME is set", "specify a folder with --home")
		}
		dir = filepath.Join(h, ".gantry")
	}
	abs, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(abs, 0o700); err != nil && !a.Homeless {
		return "", hint.With(fmt.Errorf("can't create the home folder: %w", err), "set GANTRY_HOME to one of your folders, or use --home")
	}
	return abs, nil
}

// BinDir is where gantry's own binaries are.
func BinDir() (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("find gantry's own binary: %w", err)
	}
	if real, err := filepath.EvalSymlinks(self); err == nil {
		self = real
	}
	return filepath.Dir(self), nil
}

// Logger is the log on standard error.
func (a *Env) Logger() (hclog.Logger, error) {
	if a.log != nil {
		return a.log, nil // the libraries' logs are turned once: some may be writing already
	}
	name := a.Flags.Log
	if name == "" {
		name, _ = a.LookupEnv("GANTRY_LOG")
	}
	level := hclog.Warn
	if name != "" {
		if level = hclog.LevelFromString(name); level == hclog.NoLevel {
			return nil, UsageError{fmt.Sprintf("unknown log level %q", name), diag.DidYouMean(name, LogLevels(), "")}
		}
	}
	l := hclog.New(&hclog.LoggerOptions{Name: "gantry", Level: level, Output: a.redactor.Writer(a.Stderr)})
	log.SetFlags(0)
	plugin.RedirectLibraryLogs(l.Named("library"))
	a.log = l
	return l, nil
}

// HostOptions say what a command needs of a host.
type HostOptions struct {
	Dir        string // whose project configuration counts
	Ephemeral  bool
	OnlyLooks  bool // it changes nothing that is stored
	Keyless    bool // it needs no keys
	onPlugin   func(event.PluginState)
	Folders    []string            // that commands may write in, beside those of the configuration
	TrustHooks bool                // hooks run that nobody has agreed to
	Override   func(*config.Model) // changes the model that answers; nil: not at all
}

// OpenHost reads the configuration and wires a host.
func (a *Env) OpenHost(ctx context.Context, o HostOptions) (*host.Host, error) {
	home, err := a.Home()
	if err != nil {
		return nil, err
	}
	cfg, err := a.LoadConfig(ctx, home, o.Dir)
	if err != nil {
		return nil, err
	}
	if len(o.Folders) > 0 {
		with := *cfg // which others may be reading
		with.Sandbox.WritableRoots = slices.Concat(cfg.Sandbox.WritableRoots, o.Folders)
		cfg = &with
	}
	return a.HostOf(ctx, home, cfg, o)
}

// HostOf wires a host for a configuration.
func (a *Env) HostOf(ctx context.Context, home string, cfg *config.Config, o HostOptions) (*host.Host, error) {
	logger, err := a.Logger()
	if err != nil {
		return nil, err
	}
	bin, err := BinDir()
	if err != nil {
		return nil, err
	}
	where, err := a.Database(cfg)
	if err != nil {
		return nil, err
	}
	plugins, err := a.installation(home, func(ctx context.Context) (*config.Config, error) {
		cfg, ds := a.ReadConfig(ctx, home, o.Dir)
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
		Home: home, BinDir: bin, Version: a.Version, Config: cfg, Verified: verified, Logger: logger, Redactor: &a.redactor, OnPlugin: o.onPlugin,
		Environ: a.Environ, Database: where, Ephemeral: o.Ephemeral, Keyless: o.Keyless, Vault: a.Vault(home), Override: o.Override, TrustHooks: o.TrustHooks,
		Reverified: plugins.Reverify,
	}
	if !o.Ephemeral && !o.OnlyLooks {
		opts.Maintenance = func(ctx context.Context, s *store.Store) { tidy(ctx, home, cfg, s, logger.Named("tidy")) }
	}
	return host.New(ctx, opts)
}

// WorkDir is a folder that the command line names, checked; "" is the one where the command was started.
func (a *Env) WorkDir(dir string) (string, error) {
	if dir == "" {
		dir = a.Dir
	}
	abs, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	st, err := os.Stat(abs)
	if err == nil && st.IsDir() {
		_, err = os.Stat(filepath.Join(abs, ".") + string(filepath.Separator) + ".") // whether it may be entered
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", UsageError{fmt.Sprintf("the folder %s doesn't exist", dir), "check the path, which is relative to the current folder"}
	case err != nil:
		return "", UsageError{fmt.Sprintf("can't use the folder %s: %v", dir, PathReason(err)), "specify another one"}
	case !st.IsDir():
		return "", UsageError{fmt.Sprintf("%s is not a folder", dir), "specify a folder"}
	}
	return abs, nil
}

// Shown is how a person would name a file.
func (a *Env) Shown(path string) string {
	if rel, err := filepath.Rel(a.Dir, path); err == nil && filepath.IsLocal(rel) {
		return rel
	}
	return path
}

// LogLevels are the values of --log.
func LogLevels() []string { return []string{"trace", "debug", "info", "warn", "error"} }

// IsFile tells whether a path on the command line is a file.
func (a *Env) IsFile(path string) bool {
	if !filepath.IsAbs(path) {
		path = filepath.Join(a.Dir, path)
	}
	st, err := os.Stat(path)
	return err == nil && !st.IsDir()
}

// UserSecret is the folder of the vault for what people store, for secret() in their files.
const UserSecret = "user/"

// Vault is where keys and tokens of this home are kept.
func (a *Env) Vault(home string) *secret.Store {
	return secret.Open(filepath.Join(home, "secrets"), secret.System(home, func(name string) string { v, _ := a.LookupEnv(name); return v }))
}
