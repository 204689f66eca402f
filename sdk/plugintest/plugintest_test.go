//go:build unix

package plugintest

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/gantry-agent/gantry/sdk/contract"
	"github.com/gantry-agent/gantry/sdk/provider"
	"github.com/gantry-agent/gantry/sdk/tool"
)

// asPlugin makes the test binary be a plugin: "reference", "provider", or the name of a mutant.
const asPlugin = "GANTRY_PLUGINTEST_MUTANT"

func TestMain(m *testing.M) {
	if name := os.Getenv(asPlugin); name != "" {
		os.Exit(mainOf(name))
	}
	var err error
	if mutantsDir, err = os.MkdirTemp("", "mutants"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		_ = os.RemoveAll(mutantsDir)
		os.Exit(code)
	}))
}

func mainOf(name string) int {
	r := &reference{}
	switch name {
	case "reference":
		return r.main()
	case "provider":
		r.provider = true
		return r.main()
	case "sdk tool":
		tool.Main(r.plugin())
	case "sdk provider":
		provider.Main(provider.Plugin{Name: "greeter", Version: "1.0.0", Config: &settings{}, New: newGreeter, Commands: []provider.Command{{
			Name: "status", Description: "Says how it is.",
			Run: func(context.Context, provider.Env, json.RawMessage) (json.RawMessage, error) {
				return json.RawMessage(`"ready"`), nil
			},
		}}})
	}
	for _, m := range mutants() {
		if m.name() == name {
			if !strings.HasPrefix(m.check, "message.l") && m.check != "describe.flag" {
				r.announced = 256 << 10 // under the race detector large messages take most of the time of all mutants
			}
			m.change(r)
			return r.main()
		}
	}
	fmt.Fprintln(os.Stderr, "no such mutant:", name)
	return 2
}

// mutantsDir is where the mutants' binary is built under the race detector; made by TestMain.
var mutantsDir string

// pluginBinary is this test binary or, under the race detector, one without it: the mutants are started thousands of
// times, and what is looked for is in the kit.
var pluginBinary = sync.OnceValues(func() (string, error) {
	if !raceEnabled {
		return os.Executable()
	}
	path := filepath.Join(mutantsDir, "mutants")
	build := exec.Command("go", "test", "-c", "-trimpath", "-tags", "grpcnotrace", "-o", path, ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0") // as make builds, which has compiled most of it before
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the mutants: %w: %s", err, out)
	}
	return path, nil
})

// configOf is a run of the kit on a process of this test binary.
func configOf(tb testing.TB, name string) Config {
	tb.Helper()
	exe, err := pluginBinary()
	if err != nil {
		tb.Fatal(err)
	}
	// The machine may be busy with other tests; what breaks a limit on purpose breaks it by far.
	cfg := Config{
		Path: exe, Env: map[string]string{asPlugin: name}, Slack: 4 * time.Second, Restarts: 3, StartBudget: 10 * time.Second,
		Config: []byte(goodConfig), flood: 200 * time.Millisecond,
	}
	if dir := os.Getenv("GOCOVERDIR"); dir != "" {
		cfg.Env["GOCOVERDIR"] = dir
	}
	return cfg
}

func toolConfig(tb testing.TB, name string) Config {
	cfg := configOf(tb, name)
	cfg.Calls, cfg.Config = examples(), []byte(toolBlock)
	return cfg
}

func TestReferencePluginPassesEverything(t *testing.T) {
	tests := map[string]struct {
		cfg  Config
		kind contract.Kind
	}{
		"tools":        {toolConfig(t, "reference"), contract.KindTool},
		"provider":     {configOf(t, "provider"), contract.KindProvider},
		"sdk tool":     {toolConfig(t, "sdk tool"), contract.KindTool},
		"sdk provider": {configOf(t, "sdk provider"), contract.KindProvider},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			r := Run(t.Context(), tt.cfg)
			if r.Problem != "" {
				t.Fatal(r.Problem)
			}
			for i, c := range checks() {
				want := Pass
				if c.kind != contract.KindUnknown && c.kind != tt.kind || unconfinable(c.id) {
					want = Skip
				}
				if got := r.Checks[i]; got.ID != c.id || got.Status != want {
					t.Errorf("%s: %s, want %s %s: %s", got.ID, got.Status, want, c.id, got.Seen)
				}
			}
		})
	}
}

// unconfinable tells that a check has to confine the plugin, and can't on this machine.
func unconfinable(check string) bool {
	switch check {
	case "permissions.network":
		return restrictionSupported(restriction{offline: true}) != nil
	case "permissions.write":
		return restrictionSupported(restriction{readOnly: true}) != nil
	}
	return false
}

// mutantsAtOnce is more than there are processors: most of the time is waiting for what a mutant doesn't do.
const mutantsAtOnce = 12

func TestEachMutantFailsExactlyItsCheck(t *testing.T) {
	all := slices.DeleteFunc(mutants(), func(m mutant) bool { return unconfinable(m.check) })
	if testing.Short() { // the first one of each check
		seen := map[string]bool{}
		all = slices.DeleteFunc(all, func(m mutant) bool {
			defer func() { seen[m.check] = true }()
			return seen[m.check]
		})
	}
	reports := make([]*Report, len(all))
	free := make(chan struct{}, mutantsAtOnce)
	var wg sync.WaitGroup
	for i, m := range all {
		cfg := toolConfig(t, m.name())
		if isProvider(m) {
			cfg.Calls, cfg.Config = nil, []byte(goodConfig)
		}
		if m.prepare != nil {
			m.prepare(&cfg)
		}
		wg.Go(func() {
			free <- struct{}{}
			defer func() { <-free }()
			reports[i] = Run(t.Context(), cfg)
		})
	}
	wg.Wait()
	for i, m := range all {
		t.Run(m.name(), func(t *testing.T) {
			r := reports[i]
			t.Logf("%d ms", r.Figures.DurationMS)
			if r.Problem != "" {
				t.Fatal(r.Problem)
			}
			var ids []string
			for _, f := range r.Failed() {
				ids = append(ids, f.ID)
				if f.Seen == "" || f.Next == "" {
					t.Errorf("%s: seen %q, next %q: both are needed", f.ID, f.Seen, f.Next)
				}
				t.Logf("%s: %s", f.ID, f.Seen)
			}
			if !slices.Equal(ids, []string{m.check}) {
				t.Errorf("failed: %v, want only %s", ids, m.check)
			}
		})
	}
}

func isProvider(m mutant) bool {
	if m.change == nil {
		return false
	}
	r := &reference{}
	m.change(r)
	return r.provider
}

func TestEachCheckHasAMutant(t *testing.T) {
	seen := map[string]bool{}
	names := map[string]bool{}
	for _, m := range mutants() {
		seen[m.check] = true
		if names[m.name()] {
			t.Errorf("two mutants are called %s", m.name())
		}
		names[m.name()] = true
	}
	for _, c := range checks() {
		if !seen[c.id] {
			t.Errorf("no mutant shows that %s can fail", c.id)
		}
		delete(seen, c.id)
	}
	for id := range seen {
		t.Errorf("mutant of the unknown check %s", id)
	}
}

func TestChecksAreWellFormed(t *testing.T) {
	before := map[string]bool{}
	for _, c := range checks() {
		if before[c.id] {
			t.Errorf("%s appears twice", c.id)
		}
		if !strings.HasSuffix(c.why, ".") || strings.Count(c.why, ". ") > 0 {
			t.Errorf("%s: %q is not one sentence", c.id, c.why)
		}
		for _, n := range c.needs {
			if !before[n] {
				t.Errorf("%s needs %s, which doesn't come before it", c.id, n)
			}
		}
		before[c.id] = true
	}
}
