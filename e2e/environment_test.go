package e2e_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/e2e/rig"
)

// What commands of a model get of the environment, and what those get that the user names himself.
func TestEnvironmentOfCommands(t *testing.T) {
	t.Parallel()
	const script = `
[[step]]
do = [{ call = "exec_command", id = "env", args = { cmd = "env", login = false } }]
[[step]]
times = -1
do = [{ text = "finished" }]
`
	base := []string{"MY_API_KEY=key-of-mine-1", "GH_TOKEN=gh-token-of-mine-1", "FOO=foo", "PAGER=less", "TERM=xterm", "LANG=de_DE.UTF-8", "OPENAI_IDENTITY_TOKEN_FILE=/x"}
	for _, tc := range []struct {
		name, config string
		has, lacks   []string
	}{
		{"by itself", "", []string{"FOO=foo", "PAGER=cat", "GIT_PAGER=cat", "TERM=dumb", "LANG=C.UTF-8", "NO_COLOR=1", "GANTRY_CI=1", "GANTRY_THREAD_ID="},
			[]string{"MY_API_KEY", "GH_TOKEN", "OPENAI_IDENTITY_TOKEN_FILE"}},
		{"secrets kept", "environment {\n  default_excludes = false\n}\n", []string{"MY_API_KEY=", "GH_TOKEN="}, []string{"OPENAI_IDENTITY_TOKEN_FILE"}},
		{"core", "environment {\n  inherit = \"core\"\n}\n", []string{"PATH=", "HOME=", "PAGER=cat"}, []string{"FOO", "GH_TOKEN"}},
		{"none and set", "environment {\n  inherit = \"none\"\n  set {\n    PATH = env(\"PATH\")\n    X = \"1\"\n    GH_TOKEN = env(\"GH_TOKEN\")\n  }\n}\n",
			[]string{"X=1", "GH_TOKEN=", "TERM=dumb"}, []string{"FOO", "HOME=", "MY_API_KEY"}},
		{"exclude and include only", "environment {\n  exclude = [\"fo*\"]\n  include_only = [\"P*\", \"F*\"]\n}\n", []string{"PATH="}, []string{"FOO", "HOME="}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			r := rig.New(t, script)
			r.Env = append(r.Env, base...)
			r.Config(tc.config)
			r.OK("exec", "-c", "approval.policy=on-request", "go")
			seen := r.Last().Outputs()["env"]
			own := r.OK("sandbox", "--", "env").Stdout
			for _, want := range tc.has {
				if !strings.Contains(seen, "\n"+want) {
					t.Errorf("a model's command lacks %s:\n%s", want, seen)
				}
			}
			for _, not := range tc.lacks {
				if strings.Contains(seen, "\n"+not) || strings.Contains(own, "\n"+not) {
					t.Errorf("a command gets %s:\n%s\n%s", not, seen, own)
				}
			}
			if strings.Contains(seen, "of-mine-1") {
				t.Errorf("a model reads a secret:\n%s", seen)
			}
			r.NothingLeft()
		})
	}
}

// A secret that a command prints, however it comes, is neither in what the model reads nor in what is stored or shown.
func TestSecretsAreTakenOut(t *testing.T) {
	t.Parallel()
	const script = `
[[step]]
do = [
  { call = "exec_command", id = "whole", args = { cmd = "cat secret.txt; echo end", login = false } },
  { call = "exec_command", id = "split", args = { cmd = "printf 'a gh-token-'; sleep 0.2; printf 'of-mine-1 b'", login = false } },
  { call = "exec_command", id = "error", args = { cmd = "cat secret.txt >&2; exit 3", login = false } },
  { call = "exec_command", id = "looks", args = { cmd = "echo password=hunter2hunter2 Bearer abcdefghijklmnopqrst", login = false } },
  { call = "exec_command", id = "later", args = { cmd = "while [ ! -e go ]; do sleep 0.01; done; cat secret.txt", login = false, yield_time_ms = 250 } },
  { call = "exec_command", id = "other", args = { cmd = "echo 'token := parse(source)'", login = false } },
]
[[step]]
capture = [{ call = "later", pattern = 'session ID (?P<id>\d+)' }]
do = [{ call = "exec_command", id = "let", args = { cmd = "touch go", login = false } }]
[[step]]
do = [{ call = "write_stdin", id = "poll", raw = '{"session_id": ${id}, "chars": "", "yield_time_ms": 30000}' }]
[[step]]
times = -1
do = [{ text = "finished" }]
`
	r := rig.New(t, script)
	r.Env = append(r.Env, "GH_TOKEN=gh-token-of-mine-1")
	r.Write("secret.txt", "before gh-token-of-mine-1 after\n")
	res := r.OK("exec", "--json", "-c", "approval.policy=on-request", "go")
	out := r.Last().Outputs()
	for id, want := range map[string]string{
		"whole": "before [REDACTED_SECRET] after\nend", "split": "a [REDACTED_SECRET] b", "error": "before [REDACTED_SECRET] after",
		"looks": "password=[REDACTED_SECRET] Bearer [REDACTED_SECRET]", "other": "token := parse(source)", "poll": "before [REDACTED_SECRET] after",
	} {
		if !strings.Contains(out[id], want) {
			t.Errorf("%s: %q, want %q", id, out[id], want)
		}
	}
	if strings.Contains(res.Stdout+res.Stderr, "gh-token-of-mine-1") || !strings.Contains(res.Stdout, "[REDACTED_SECRET]") {
		t.Errorf("shown:\n%s\n%s", res.Stdout, res.Stderr)
	}
	var stored []byte
	for _, name := range []string{"threads.db", "threads.db-wal"} {
		if b, err := os.ReadFile(filepath.Join(r.Home, name)); err == nil {
			stored = append(stored, b...)
		}
	}
	if !bytes.Contains(stored, []byte("[REDACTED_SECRET]")) || bytes.Contains(stored, []byte("gh-token-of-mine-1")) {
		t.Errorf("what is stored holds the secret, or nothing of the output: %d bytes", len(stored))
	}
	r.NothingLeft()

	kept := rig.New(t, script)
	kept.Env = append(kept.Env, "GH_TOKEN=gh-token-of-mine-1")
	kept.Write("secret.txt", "before gh-token-of-mine-1 after\n")
	kept.OK("exec", "-c", "approval.policy=on-request", "-c", "secrets.redact=false", "go")
	if got := kept.Last().Outputs()["whole"]; !strings.Contains(got, "before gh-token-of-mine-1 after") {
		t.Errorf("switched off, the model reads %q", got)
	}
}
