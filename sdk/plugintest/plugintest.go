// Package plugintest is the conformance kit: it starts a plugin binary, written in whatever language, as a host would,
// and says rule by rule whether it keeps the contract.
//
// It owns: the checks with their ids and reasons, what a plugin is shown during them (environment, configuration, host
// services), and the report. It must not know: the real host, how a plugin is written inside, any plugin's purpose.
//
// Start with [Run], in Go tests with [Test], on the command line with cmd/gantry-plugintest. The checks stand in
// checks.go in the order in which they run.
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

// Config says what is tested, and with what. The zero value of everything but Path is fine; examples in Calls let more
// checks run. It can be written as JSON.
type Config struct {
	// Path of the binary or script.
	Path string `json:"path,omitempty"`
	// Args for every start, before --describe and --version.
	Args []string `json:"args,omitempty"`
	// Env is added to the few variables that a host passes on.
	Env map[string]string `json:"env,omitempty"`
	// Config is the plugin's config block as a JSON object, secrets as plain strings. Needed where the schema has required
	// attributes.
	Config json.RawMessage `json:"config,omitempty"`
	// Calls are examples for the tools.
	Calls []Call `json:"calls,omitempty"`
	// Writes are absolute folders that a user grants to the plugin beyond its own, as permissions { write } does.
	Writes []string `json:"writes,omitempty"`
	// Model of a provider that is asked to answer. Empty: the first one it lists.
	Model string `json:"model,omitempty"`
	// StartBudget is how long the plugin may take until its handshake. Default 5 s.
	StartBudget time.Duration `json:"-"`
	// Slack is added to every time limit, for busy machines.
	Slack time.Duration `json:"-"`
	// Restarts is how often the plugin is started and stopped to see what it leaves behind. Default 50, or as many as fit
	// into two seconds, but at least 3.
	Restarts int `json:"-"`

	// flood is how long a flood isn't read. Default a second; the kit's own tests have less time.
	flood time.Duration
}

// Call is an example of a call that the plugin must be able to serve. Its effects are real.
type Call struct {
	Tool      string          `json:"tool"`
	Namespace string          `json:"namespace,omitempty"`
	Arguments json.RawMessage `json:"arguments,omitempty"` // default {}
	Text      string          `json:"text,omitempty"`      // instead, for a freeform tool
	Does      Behaviour       `json:"does,omitempty"`      // default [Answers]
}

// Behaviour says what an example shows.
type Behaviour string

// The behaviours. One example for each that the plugin has lets all checks run.
const (
	// Answers: the call succeeds within ten seconds.
	Answers Behaviour = "answers"
	// Waits: the call runs until it is cancelled, for ten seconds at least, and has nothing lasting to do.
	Waits Behaviour = "waits"
	// Floods: the call writes output without end until it is cancelled.
	Floods Behaviour = "floods"
	// Crashes: the handler panics, or throws what nobody expected.
	Crashes Behaviour = "crashes"
	// Leaves: the call answers and names a session, which lasts until it is stopped.
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

// Validate says what is wrong with the configuration of the kit itself.
func (cfg Config) Validate() error {
	var errs []error
	if cfg.Path == "" {
		errs = append(errs, errors.New("no binary is named"))
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
			errs = append(errs, fmt.Errorf("example of tool %q: %q is none of answers, waits, floods and crashes", c.Tool, c.Does))
		}
		if c.Tool == "" {
			errs = append(errs, errors.New("an example without a tool"))
		}
		if c.Text != "" && len(c.Arguments) > 0 {
			errs = append(errs, fmt.Errorf("example of tool %q: text and arguments exclude each other", c.Tool))
		}
	}
	for _, dir := range cfg.Writes {
		if !filepath.IsAbs(dir) {
			errs = append(errs, fmt.Errorf("writes: %q is not absolute", dir))
		}
	}
	return errors.Join(errs...)
}

// ReadConfig reads a Config from a JSON file; a relative path in it is relative to the file's folder.
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

// Run runs every check that applies and reports. It starts the plugin a few dozen times, one process at a time, and has
// ended all of them when it returns. When ctx ends the remaining checks are left out and [Report.OK] is false.
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
		r.Checks = append(r.Checks, k.judge(ctx, c))
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
