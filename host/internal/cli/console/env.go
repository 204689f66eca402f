// Package console contains what the commands share: the streams, the global flags, the home folder, the configuration, the store,
// usage errors, and questions to the user.
//
// It owns how errors are shown and which exit status they have, and how a command opens a host and a store. It does not know any
// command.
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
	"github.com/gantry-agent/gantry/host/internal/librarylog"
	"github.com/gantry-agent/gantry/host/internal/once"
	"github.com/gantry-agent/gantry/host/internal/redact"
	"github.com/gantry-agent/gantry/host/internal/secret"
	"github.com/gantry-agent/gantry/host/internal/store"
	"github.com/hashicorp/go-hclog"
)

// Env is one invocation of the command line.
type Env struct {
	Version  string
	Builtins map[string]string // file name → SHA-256 of the programs that belong to this build
	Drivers  []store.Driver    // database drivers in addition to the built-in one
	Stdin    *os.File
	Stdout   *Output
	Stderr   io.Writer
	Dir      string // the folder where gantry was started
	Environ  []string
	Leave    func() // ends the command and everything that it has started
	redactor redact.Redactor
	warned   once.Set     // warnings that were printed
	log      hclog.Logger // created by Logger on first use
	Began    bool         // a command is running: its errors are not usage errors
	Homeless bool         // continue without a home folder if it cannot be created: nothing is stored in it
	EndedBy  os.Signal    // the signal that asked the run to end; nil: none

	Flags struct {
		Config  string
		Sets    []string
		Profile string
		Home    string
		Log     string
		Color   string
		NoUser  bool // ignore the user's own configuration file
	}
}

// LookupEnv returns the last value of an environment variable.
func (a *Env) LookupEnv(name string) (string, bool) {
	for i := len(a.Environ) - 1; i >= 0; i-- {
		if k, v, ok := strings.Cut(a.Environ[i], "="); ok && k == name {
			return v, true
		}
	}
	return "", false
}

// Home returns gantry's home folder.
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

// BinDir returns the folder of gantry's own programs.
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

// Logger returns the log, which is written to standard error.
func (a *Env) Logger() (hclog.Logger, error) {
	if a.log != nil {
		return a.log, nil // libraries may already write to their redirected logs
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
	librarylog.Redirect(l.Named("library"))
	a.log = l
	return l, nil
}

// HostOptions are a command's requirements for a host.
type HostOptions struct {
	Dir        string // working folder, which determines the project
	Ephemeral  bool
	OnlyLooks  bool // the command changes nothing that is stored
	Keyless    bool // the command needs no keys
	onPlugin   func(event.PluginState)
	Folders    []string            // folders that commands may write in addition to the configured ones
	TrustHooks bool                // run hooks that the user has not trusted
	Override   func(*config.Model) // changes the thread's model; nil: no change
	// Needs reports whether the command needs a declared process: the user is asked about no others. nil: it may need all.
	Needs func(config.Process) bool

	// Of one workspace of a hub: what it overrides, and what hosts share.
	sets    []string
	profile string
	shared  host.Shared
}

// OpenHost loads the configuration and opens a host.
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
		with := *cfg // cfg may be in use elsewhere
		with.Sandbox.WritableRoots = slices.Concat(cfg.Sandbox.WritableRoots, o.Folders)
		cfg = &with
	}
	return a.HostOf(ctx, home, cfg, o)
}

// HostOf opens a host for a configuration.
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
		cfg, ds := a.readConfig(ctx, home, o.Dir, overrides{sets: o.sets, profile: o.profile})
		return cfg, ds.Err()
	})
	if err != nil {
		return nil, err
	}
	plugins.Needs = o.Needs
	verified, err := plugins.Verify(ctx, cfg)
	if err != nil {
		return nil, err
	}
	opts := host.Options{
		Home: home, BinDir: bin, Version: a.Version, Config: cfg, Verified: verified, Logger: logger, Redactor: &a.redactor, OnPlugin: o.onPlugin,
		Environ: a.Environ, Database: where, Ephemeral: o.Ephemeral, Keyless: o.Keyless, Vault: a.Vault(home), Override: o.Override, TrustHooks: o.TrustHooks,
		Reverified: plugins.Reverify, Shared: o.shared,
	}
	if !o.Ephemeral && !o.OnlyLooks {
		opts.Maintenance = func(ctx context.Context, s *store.Store) { tidy(ctx, home, cfg, s, logger.Named("tidy")) }
	}
	return host.New(ctx, opts)
}

// WorkDir checks a folder from the command line; "" is the folder where gantry was started.
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
		_, err = os.Stat(filepath.Join(abs, ".") + string(filepath.Separator) + ".") // fails if the folder may not be entered
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

// Shown returns a path as messages show it.
func (a *Env) Shown(path string) string {
	if rel, err := filepath.Rel(a.Dir, path); err == nil && filepath.IsLocal(rel) {
		return rel
	}
	return path
}

// LogLevels returns the values of --log.
func LogLevels() []string { return []string{"trace", "debug", "info", "warn", "error"} }

// IsFile reports whether a path on the command line is an existing file.
func (a *Env) IsFile(path string) bool {
	if !filepath.IsAbs(path) {
		path = filepath.Join(a.Dir, path)
	}
	st, err := os.Stat(path)
	return err == nil && !st.IsDir()
}

// UserSecret is the prefix of secrets in the vault that users store for secret() in their files.
const UserSecret = "user/"

// Vault returns the store of this home's keys and tokens.
func (a *Env) Vault(home string) *secret.Store {
	return secret.Open(filepath.Join(home, "secrets"), secret.System(home, func(name string) string { v, _ := a.LookupEnv(name); return v }))
}
