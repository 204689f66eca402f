package e2e_test

import (
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/e2e/rig"
	"github.com/gantry-agent/gantry/e2e/vendors"
)

// windows are what the events of a run say of the model's window, and the warnings.
func windows(t *testing.T, stdout string) (window, usable int64, warnings []string) {
	t.Helper()
	for _, e := range rig.Events(t, stdout) {
		var b struct {
			ContextWindow int64
			Level, Text   string
		}
		switch e.Kind {
		case "turn.started":
			e.Into(t, &b)
			window = b.ContextWindow
		case "usage.reported":
			e.Into(t, &b)
			usable = b.ContextWindow
		case "notice":
			e.Into(t, &b)
			warnings = append(warnings, b.Level+": "+b.Text)
		}
	}
	return window, usable, warnings
}

// A window beyond the model's largest does not count: what is shown and when the thread is compacted go by the model's own,
// and the user is told once.
func TestTheWindowIsHeldToTheModels(t *testing.T) {
	t.Parallel()
	r := rig.New(t, `
[[step]]
usage = { input = 240000, output = 20 }
do    = [{ call = "exec_command", id = "c1", args = { cmd = "seq 1 2000" } }]
[[step]]
usage = { input = 244790, output = 20 }
do    = [{ call = "exec_command", id = "c2", args = { cmd = "echo two" } }]
[[step]]
usage = { input = 244900, output = 20 }
do    = [{ text = "so far" }]
[[step]]
times = -1
usage = { input = 900, output = 5 }
do    = [{ text = "done" }]
`)
	settings := []string{"-c", "provider.scripted.context_window=272000", "-c", "model.default.context_window=400000"}
	res := r.OK(append(settings, "exec", "--events", "go")...)
	window, usable, warnings := windows(t, res.Stdout)
	if window != 272_000 || usable != 258_400 {
		t.Errorf("the window is %d, of which %d can be used; want 272000 and 258400", window, usable)
	}
	const told = `warning: context_window of model "default" is 400000, which exceeds the maximum of scripted, 272000; using 272000`
	if len(warnings) != 1 || warnings[0] != told {
		t.Errorf("people are told %q, want %q", warnings, told)
	}
	wantLayouts(t, r, "context go", "context go call-c1 output-c1", "context go call-c1 output-c1 call-c2 output-c2 question", "context go account(so far)")

	if res := r.OK(append(settings, "resume", "--last", "again")...); !strings.Contains(res.Stdout+res.Stderr, "exceeds the maximum of scripted, 272000") {
		t.Errorf("another process does not say it:\n%s%s", res.Stdout, res.Stderr)
	}
	if _, _, warnings := windows(t, r.OK("-c", "provider.scripted.context_window=272000", "-c", "model.default.context_window=100000", "exec", "--events", "go").Stdout); len(warnings) > 0 {
		t.Errorf("less than the model takes: people are told %q", warnings)
	}
}

// The catalogue knows the largest window of a vendor's model. The provider's block is held by it too, and may know better.
func TestTheWindowIsHeldToTheCatalogues(t *testing.T) {
	t.Parallel()
	const vendor = "openai-responses"
	for name, tc := range map[string]struct {
		block, setting string // of the provider's block and of the model's
		window         int64
		told           string // begins so; empty: nothing
		listed         string
	}{
		"nothing is said":         {"", "", 272_000, "", "272k"},
		"the model's block":       {"", "400000", 272_000, `warning: context_window of model "real" is 400000, which exceeds the maximum of gpt-5.2, 272000`, "272k"},
		"the provider's block":    {"context_window = 400000", "", 272_000, `warning: context_window of model "gpt-5.2" in the provider's block is 400000`, "272k (config)"},
		"the provider's own most": {"max_context_window = 400000", "350000", 350_000, "", "272k"},
		"less in both":            {"context_window = 200000", "100000", 100_000, "", "200k (config)"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := vendors.Start(t, vendor, vendors.Answer{Text: "Well."})
			r := rig.New(t, "")
			useVendor(r, vendor, s.URL, "  model \"gpt-5.2\" {\n    "+tc.block+"\n  }\n")
			settings := []string{"-c", "model.real.name=gpt-5.2"}
			if tc.setting != "" {
				settings = append(settings, "-c", "model.real.context_window="+tc.setting)
			}
			window, _, warnings := windows(t, r.OK(append(settings, "exec", "--events", "go")...).Stdout)
			if window != tc.window {
				t.Errorf("the window is %d, want %d", window, tc.window)
			}
			if told := strings.Join(warnings, "; "); !strings.HasPrefix(told, tc.told) || tc.told == "" && told != "" || len(warnings) > 1 {
				t.Errorf("people are told %q, want %q", told, tc.told)
			}
			res := r.OK("models", "vendor")
			found := ""
			for line := range strings.Lines(res.Stdout) {
				if f := strings.Fields(line); len(f) > 2 && f[1] == "gpt-5.2" {
					found = strings.TrimSpace(line)
				}
			}
			if !strings.Contains(found, " "+tc.listed+"  ") {
				t.Errorf("models lists\n%s\nwant %s", found, tc.listed)
			}
			if held := strings.Contains(res.Stderr, "max_context_window"); held != strings.Contains(tc.told, "provider's") {
				t.Errorf("models says:\n%s", res.Stderr)
			}
		})
	}
}
