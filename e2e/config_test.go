package e2e_test

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/e2e/rig"
)

// An unlocked program is asked about on a terminal, before it is started; the answer holds for the next run.
func TestUnlockedPluginOnATerminal(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		answer string
		code   int
	}{{"n\n", 1}, {"\n", 1}, {"y\n", 0}} {
		t.Run(strings.TrimSpace(tc.answer), func(t *testing.T) {
			t.Parallel()
			r := rig.New(t, "[[step]]\ndo = [{ call = \"odd_fine\", id = \"c1\" }]\n[[step]]\ntimes = -1\ndo = [{ text = \"done\" }]\n")
			addOdd(t, r, "odd", "asked", "")
			unlock(t, r)
			run := r.Terminal("exec", "go")
			run.Sees("[y/N]")
			if strings.Contains(run.Output(), "hello from") || len(rig.Processes(t, r.Home, "gantry-provider")) > 0 {
				t.Errorf("something was started before the answer:\n%s", run.Output())
			}
			run.Type(tc.answer)
			res := run.Wait()
			if res.Code != tc.code {
				t.Fatalf("exit %d, want %d:\n%s", res.Code, tc.code, res.Stdout)
			}
			r.NothingLeft()
			if tc.code != 0 {
				return
			}
			if out := r.Last().Outputs()["c1"]; out != "hello from asked" {
				t.Errorf("the model reads %q", out)
			}
			r.OK("resume", "--last", "again") // nobody to ask, and no need
		})
	}
}

// A yes that was typed before the question is none.
func TestConsentIsNotTypedAhead(t *testing.T) {
	t.Parallel()
	r := rig.New(t, say)
	addOdd(t, r, "odd", "asked", "")
	unlock(t, r)
	run := r.Terminal("exec", "go")
	run.Type("y\ny")
	run.Sees("[y/N]")
	run.Type("\n")
	if res := run.Wait(); res.Code != 1 || !strings.Contains(res.Stdout, "is not locked") {
		t.Errorf("exit %d:\n%s", res.Code, res.Stdout)
	}
}

// Both transports carry a call.
func TestTransports(t *testing.T) {
	t.Parallel()
	for _, transport := range []string{"peercred", "mtls"} {
		t.Run(transport, func(t *testing.T) {
			t.Parallel()
			r := rig.New(t, "[[step]]\ndo = [{ call = \"odd_fine\", id = \"c1\" }]\n[[step]]\ndo = [{ text = \"done\" }]\n")
			addOdd(t, r, "odd", transport, "  transport = \""+transport+"\"\n")
			r.OK("exec", "go")
			if out := r.Last().Outputs()["c1"]; out != "hello from "+transport {
				t.Errorf("the model reads %q", out)
			}
			r.NothingLeft()
		})
	}
}

// A variable that is missing breaks the provider that reads it, and nothing else.
func TestMissingVariableBreaksItsProviderOnly(t *testing.T) {
	t.Parallel()
	r := rig.New(t, "[[step]]\ntimes = -1\ndo = [{ text = \"done\" }]\n")
	r.Config(`
provider "other" {
  source      = "builtin/scripted"
  script_text = env("GIVEN_TO_NOBODY")
}

model "other" {
  provider = "other"
  name     = "scripted"
}
`)
	r.OK("exec", "go")
	res := r.Gantry("exec", "--model", "other", "go")
	if res.Code != 1 || !strings.Contains(res.Stderr, "GIVEN_TO_NOBODY") || !strings.Contains(res.Stderr, "gantry.hcl:") {
		t.Errorf("exit %d:\n%s", res.Code, res.Stderr)
	}
	if v := r.Gantry("config", "validate"); v.Code != 0 || !strings.Contains(v.Stderr+v.Stdout, "GIVEN_TO_NOBODY") {
		t.Errorf("validate: exit %d, want a warning:\n%s%s", v.Code, v.Stdout, v.Stderr)
	}
	r.NothingLeft()
}

// What a provider reads with env() is its own: neither a command nor another plugin sees it, and nothing prints it.
func TestVariablesOfAProviderAreItsOwn(t *testing.T) {
	t.Parallel()
	const key = "sk-very-secret-0123456789"
	r := rig.New(t, `
[[step]]
do = [{ call = "exec_command", id = "c1", args = { cmd = "printenv; cat /proc/$PPID/environ | tr '\\0' '\\n'", login = false } }]
[[step]]
times = -1
do = [{ text = "done" }]
`)
	r.Env = append(r.Env, "PROVIDER_KEY="+key, "PLAIN_VARIABLE=plain")
	r.Config("\nprovider \"other\" {\n  source      = \"builtin/scripted\"\n  script_text = env(\"PROVIDER_KEY\")\n}\n")
	res := r.OK("exec", "--log", "trace", "go")
	out := r.Last().Outputs()["c1"]
	if !strings.Contains(out, "PLAIN_VARIABLE=plain") {
		t.Errorf("a command does not get the user's environment:\n%s", out)
	}
	show := r.OK("config", "show")
	for where, text := range map[string]string{
		"command": out, "log": res.Stderr, "last message": res.Stdout, "config show": show.Stdout + show.Stderr,
	} {
		if strings.Contains(text, key) {
			t.Errorf("the key is in the %s", where)
		}
	}
}

// Paths on a command line start where it was typed, also when the work is done elsewhere.
func TestConfigStartsWhereItWasTyped(t *testing.T) {
	t.Parallel()
	r := rig.New(t, say)
	r.Write("mine.hcl", "plugin \"shell\" {\n  enabled = false\n}\nagents {\n  tools = \"none\"\n}\ngoals {\n  enabled = false\n}\n")
	r.Write("elsewhere/file", "")
	r.OK("exec", "-C", "elsewhere", "--config", "mine.hcl", "go")
	if tools := r.Last().Offered(); slices.Contains(tools, "exec_command") {
		t.Errorf("the model was offered %v; --config did not count", tools)
	}
	res := r.Gantry("exec", "-C", "elsewhere", "--config", "none.hcl", "go")
	if want := filepath.Join(r.Dir, "none.hcl"); res.Code != 1 || !strings.Contains(res.Stderr, want) {
		t.Errorf("exit %d, want a message that names %s:\n%s", res.Code, want, res.Stderr)
	}
}
