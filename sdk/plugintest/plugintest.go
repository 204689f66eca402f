// Package plugintest is the conformance kit: it starts a plugin binary, written in any language, the way a host would, and
// reports for each rule whether the plugin follows the contract.
//
// It owns: the checks with their IDs and rules, the plugin's environment during them (variables, configuration, host
// services), and the report. It must not know: the real host, the implementation of a plugin, any plugin's purpose.
//
// Start with [Run], in Go tests with [Test], on the command line with cmd/gantry-plugintest. The checks are in checks.go,
// in the order in which they run.
package plugintest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// Config configures a run of the kit. Only Path is required. Examples in Calls enable more checks. [ReadConfig] reads it from
// a JSON file.
type Config struct {
	// Path is the path of the binary or script.
	Path string `json:"path,omitempty"`
	// Args are the first arguments of every start; --describe and --version are appended.
	Args []string `json:"args,omitempty"`
	// Env is added to the variables that a host passes on.
	Env map[string]string `json:"env,omitempty"`
	// Config is the plugin's config block as a JSON object, with secrets as plain strings. It is needed if the schema has
	// required attributes.
	Config json.RawMessage `json:"config,omitempty"`
	// Calls are example calls of the tools.
	Calls []Call `json:"calls,omitempty"`
	// Writes are absolute folders that a user grants to the plugin beyond its own, as permissions { write } does.
	Writes []string `json:"writes,omitempty"`
	// Model is the model that is queried, if the plugin is a provider. Default: the first one that it lists.
	Model string `json:"model,omitempty"`
	// StartBudget is the time limit until the handshake. Default 5 s.
	StartBudget time.Duration `json:"-"`
	// Slack is added to every time limit, for busy machines.
	Slack time.Duration `json:"-"`
	// Restarts is how often the plugin is started and stopped to check that it leaves nothing behind. Default 50, or as many
	// as fit into two seconds, but at least 3.
	Restarts int `json:"-"`

	// flood is for how long the output of an example that floods is not read. Default 1 s; the kit's own tests use less.
	flood time.Duration
}

// Call is an example of a call that the plugin must be able to serve. The kit really executes it.
type Call struct {
	Tool      string          `json:"tool"`
	Namespace string          `json:"namespace,omitempty"`
	Arguments json.RawMessage `json:"arguments,omitempty"` // default {}
	Text      string          `json:"text,omitempty"`      // instead, for a freeform tool
	Does      Behaviour       `json:"does,omitempty"`      // default [Answers]
}

// Behaviour is the behaviour that an example demonstrates.
type Behaviour string

// The behaviours. To run all checks, provide one example for each behaviour of the plugin.
const (
	// Answers: the call succeeds within ten seconds.
	Answers Behaviour = "answers"
	// Waits: the call runs until it is cancelled, for at least ten seconds, and leaves no lasting effects.
	Waits Behaviour = "waits"
	// Floods: the call writes output without end until it is cancelled.
	Floods Behaviour = "floods"
	// Crashes: the handler panics, or throws an unhandled exception.
	Crashes Behaviour = "crashes"
	// Leaves: the call returns a result with a session, which lasts until it is stopped.
	Leaves Behaviour = "leaves"
)

func (cfg Config) withDefaults() Config {
	if cfg.StartBudget <= 0 {
		cfg.StartBudget = 5 * time.Second
	}
	if cfg.flood <= 0 {
		cfg.flood = time.Second
	}
	cfg.Calls = slices.Clone(cfg.Calls)
	for i := range cfg.Calls {
		if cfg.Calls[i].Does == "" {
			cfg.Calls[i].Does = Answers
		}
	}
	return cfg
}

// Validate returns the errors in the configuration of the kit.
func (cfg Config) Validate() error {
	var errs []error
	if cfg.Path == "" {
		errs = append(errs, errors.New("no binary was specified"))
	}
	if len(cfg.Config) > 0 {
		var object map[string]json.RawMessage
		if err := json.Unmarshal(cfg.Config, &object); err != nil || object == nil {
			errs = append(errs, errors.New("the configuration must be a JSON object"))
		}
	}
	for _, c := range cfg.Calls {
		switch c.Does {
		case "", Answers, Waits, Floods, Crashes, Leaves:
		default:
			errs = append(errs, fmt.Errorf("example of tool %q: invalid behaviour %q; use answers, waits, floods, crashes or leaves", c.Tool, c.Does))
		}
		if c.Tool == "" {
			errs = append(errs, errors.New("example without a tool"))
		}
		if c.Text != "" && len(c.Arguments) > 0 {
			errs = append(errs, fmt.Errorf("example of tool %q: it has both text and arguments", c.Tool))
		}
	}
	for _, dir := range cfg.Writes {
		if !filepath.IsAbs(dir) {
			errs = append(errs, fmt.Errorf("writes: %q is not absolute", dir))
		}
	}
	return errors.Join(errs...)
}

// ReadConfig reads a Config from a JSON file. Relative paths are resolved against the folder of the file.
func ReadConfig(file string) (Config, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return Config{}, fmt.Errorf("read examples: %w", err)
	}
	var cfg Config
	if err := json.Unmarshal(b, &cfg); err != nil {
		return Config{}, fmt.Errorf("read examples: %s: %w", file, err)
	}
	if cfg.Path != "" && !filepath.IsAbs(cfg.Path) {
		cfg.Path = filepath.Join(filepath.Dir(file), cfg.Path)
	}
	return cfg, nil
}

// Run runs every applicable check and returns a report. It starts the plugin a few dozen times, one process at a time, and
// has ended all of them when it returns. If ctx ends, the remaining checks are skipped and [Report.OK] returns false.
func Run(ctx context.Context, cfg Config) *Report {
	cfg = cfg.withDefaults()
	began := time.Now()
	r := &Report{Path: cfg.Path, NotChecked: notChecked()}
	k, err := newKit(cfg)
	if err != nil {
		r.Problem = err.Error()
		return r
	}
	defer k.close()
	for _, c := range checks() {
		r.Checks = append(r.Checks, k.runCheck(ctx, c))
	}
	if ctx.Err() != nil {
		r.Problem = fmt.Sprintf("interrupted: %v", context.Cause(ctx))
	}
	if m := k.manifest; m != nil {
		r.Name, r.Version, r.Kind = m.Name, m.Version, m.Kind.String()
	}
	r.Figures = k.figures
	r.Figures.DurationMS = time.Since(began).Milliseconds()
	return r
}

// Test runs the kit as subtests, one per check.
func Test(t *testing.T, cfg Config) *Report {
	t.Helper()
	r := Run(t.Context(), cfg)
	if r.Problem != "" {
		t.Errorf("conformance kit: %s", r.Problem)
	}
	for _, c := range r.Checks {
		t.Run(c.ID, func(t *testing.T) {
			switch c.Status {
			case Fail:
				t.Errorf("%s\nseen: %s\nnext: %s", c.Why, c.Seen, c.Next)
			case Skip:
				t.Skip(c.Seen)
			case Pass:
				t.Log(c.Seen)
			}
		})
	}
	return r
}
