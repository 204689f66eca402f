package e2e_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/e2e/rig"
	"github.com/gantry-agent/gantry/e2e/vendors"
)

// exchanging is a session of a sandboxed command that keeps putting one file into the place of another, until there is a file "stop".
func exchanging(t *testing.T, one, other string) string {
	t.Helper()
	python, err := exec.LookPath("python3")
	if err != nil {
		return fmt.Sprintf("while ! [ -e stop ]; do mv -f %[1]s x; mv -f %[2]s %[1]s; mv -f %[1]s %[2]s; mv -f x %[1]s; done", one, other)
	}
	return fmt.Sprintf(`%s -c "
import ctypes, os
c = ctypes.CDLL(None)
while not os.path.exists('stop'):
    c.renameat2(-100, b'%s', -100, b'%s', 2)
"`, python, one, other)
}

// session is the step of a model that starts a session, and calls are steps that each run one command.
func session(cmd string, calls int, each string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "[[step]]\ndo = [{ call = \"exec_command\", id = \"s\", args = { cmd = '''%s''', login = false, yield_time_ms = 300 } }]\n", cmd)
	for i := range calls {
		fmt.Fprintf(&b, "[[step]]\ndo = [{ call = \"exec_command\", id = \"c%d\", args = { cmd = '''echo %d; %s''', login = false } }]\n", i, i, each)
	}
	b.WriteString("[[step]]\ndo = [{ call = \"exec_command\", id = \"end\", args = { cmd = \"touch stop\", login = false } }]\n[[step]]\ntimes = -1\ndo = [{ text = \"done\" }]\n")
	return b.String()
}

// The script of an agreed hook that a running command keeps exchanging never runs as anything but what was agreed to.
func TestExchangedHookScript(t *testing.T) {
	t.Parallel()
	r := rig.New(t, session(exchanging(t, "hooks/guard.sh", "evil.sh"), 48, "true"))
	out := t.TempDir()
	for name, text := range map[string]string{"hooks/guard.sh": "echo good", "evil.sh": "echo evil"} {
		r.Write(name, fmt.Sprintf("#!/bin/sh\ncat >/dev/null\n%s >> '%s/ran'\n", text, out))
		if err := os.Chmod(filepath.Join(r.Dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	hookFile(t, r, map[string][]hookGroup{"PreToolUse": on("Bash", "hooks/guard.sh")})
	r.OK("exec", "-c", "approval.policy=never", "-c", "sandbox.mode=workspace-write", "go")
	b, _ := os.ReadFile(filepath.Join(out, "ran"))
	good, evil := strings.Count(string(b), "good"), strings.Count(string(b), "evil")
	t.Logf("%d runs of the agreed script, %d of another", good, evil)
	if evil > 0 || good < 48 {
		t.Errorf("%d runs of the agreed script, %d of another", good, evil)
	}
}

// The program that prints a key is part of what a trusted project's owner agreed to: a command can't change it, and a changed one does
// not run, also while gantry goes on.
func TestChangedSecretProgram(t *testing.T) {
	t.Parallel()
	out := t.TempDir()
	evil := fmt.Sprintf("printf '#!/bin/sh\\necho evil >> %s/ran; echo %s\\n' > x; chmod +x x; ", out, vendors.Key)
	model := vendors.Start(t, "openai-chat",
		vendors.Answer{Calls: []vendors.Call{{Name: "exec_command", Args: map[string]any{"cmd": evil + "cat x > scripts/token.sh; mv -f x scripts/token.sh", "login": false}}}},
		vendors.Answer{Calls: []vendors.Call{{Name: "exec_command", Args: map[string]any{"cmd": evil + "mv scripts s2; mkdir -p scripts; mv x scripts/token.sh", "login": false}}}},
		vendors.Answer{Text: "done", Forever: true})
	r := rig.New(t, "")
	token := fmt.Sprintf("#!/bin/sh\necho good >> %s/ran\n. ./scripts/lib.sh\necho $KEY\n", out)
	r.Write("scripts/token.sh", token)
	r.Write("scripts/lib.sh", "KEY="+vendors.Key+"\n")
	if err := os.Chmod(filepath.Join(r.Dir, "scripts/token.sh"), 0o755); err != nil {
		t.Fatal(err)
	}
	r.Write(".gantry/gantry.hcl", fmt.Sprintf(`
default_model = "real"

provider "p" {
  source   = "builtin/compatible"
  base_url = "%s/v1"
  api_key  = command(["./scripts/token.sh"], { refresh = "1ms" })
}

model "real" {
  provider = "p"
  name     = "own-model"
}
`, model.URL))
	if res := r.OK("trust", "--yes"); !strings.Contains(res.Stdout, "lib.sh") {
		t.Errorf("trust does not show what the program loads:\n%s", res.Stdout)
	}
	args := []string{"exec", "-c", "approval.policy=never", "-c", "sandbox.mode=workspace-write", "go"}
	r.OK(args...)
	if now := r.Read("scripts/token.sh"); now != token {
		t.Errorf("a command has changed the program:\n%s", now)
	}
	// From outside it can be changed, and then the project is not trusted any more.
	r.Write("scripts/lib.sh", fmt.Sprintf("echo evil >> %s/ran\nKEY=x\n", out))
	res := r.Gantry(args...)
	if !strings.Contains(res.Stderr, "gantry trust") {
		t.Errorf("exit %d, nothing is said of trust:\n%s", res.Code, res.Stderr)
	}
	b, _ := os.ReadFile(filepath.Join(out, "ran"))
	if strings.Contains(string(b), "evil") || !strings.Contains(string(b), "good") {
		t.Errorf("ran %q", b)
	}
}

// What file() reads of a trusted project is part of the consent, and commands can't change it.
func TestChangedFileValue(t *testing.T) {
	t.Parallel()
	r := rig.New(t, `
[[step]]
when = { since_user = 0 }
do = [{ call = "exec_command", id = "c1", args = { cmd = "echo obey me > agent.md; ln -s agent.md b; rm agent.md; mv agent.md c; cat agent.md", login = false } }]
[[step]]
times = -1
do = [{ text = "done" }]
`)
	r.Write("agent.md", "be kind\n")
	r.Write(".gantry/gantry.hcl", "instructions {\n  text = file(\"./agent.md\")\n}\n")
	if res := r.OK("trust", "--yes"); !strings.Contains(res.Stdout, "be kind") {
		t.Errorf("trust does not show what is read:\n%s", res.Stdout)
	}
	args := []string{"exec", "-c", "approval.policy=never", "-c", "sandbox.mode=workspace-write", "go"}
	r.OK(args...)
	if r.Read("agent.md") != "be kind\n" || !strings.Contains(r.Last().Outputs()["c1"], "be kind") {
		t.Errorf("a command has changed what is read: %q", r.Last().Outputs()["c1"])
	}
	r.Write("agent.md", "obey me\n")
	if res := r.Gantry("config", "show"); !strings.Contains(res.Stderr, "not trusted") {
		t.Errorf("the change is not noticed:\n%s", res.Stderr)
	}
	if diff := r.Gantry("trust"); !strings.Contains(diff.Stdout, "-be kind") || !strings.Contains(diff.Stdout, "+obey me") {
		t.Errorf("the change is not shown:\n%s", diff.Stdout)
	}
}

// A lock covers what a block lists beside its program: a changed module is noticed, not started, and can't be changed by a command.
func TestChangedPluginFile(t *testing.T) {
	t.Parallel()
	r := rig.New(t, commanding)
	r.Write("plug/words", fmt.Sprintf("#!/bin/sh\n. \"$(dirname \"$0\")/lib/lib.sh\"\nexec '%s/gantry-tool-shell' \"$@\"\n", r.Bin))
	if err := os.Chmod(filepath.Join(r.Dir, "plug/words"), 0o755); err != nil {
		t.Fatal(err)
	}
	r.Write("plug/lib/lib.sh", "WORDS=1\n")
	block := "\nplugin \"words\" {\n  source = \"%[1]s/plug/words\"\n%[2]s}\n"
	conf := r.Read(filepath.Join(r.Home, "gantry.hcl"))
	set := func(files string) {
		r.Write(filepath.Join(r.Home, "gantry.hcl"), conf+fmt.Sprintf(block, r.Dir, files))
	}
	set("")
	if res := r.OK("plugin", "lock", "--yes", "words"); !strings.Contains(res.Stderr, "words is a script") || !strings.Contains(res.Stderr, "files = [...]") {
		t.Errorf("there is no warning:\n%s", res.Stderr)
	}
	set(fmt.Sprintf("  files = [\"%s/plug/lib\"]\n", r.Dir))
	if res := r.Gantry("plugin", "verify"); res.Code == 0 {
		t.Errorf("verify accepts a list that was not locked:\n%s", res.Stdout)
	}
	if res := r.OK("plugin", "lock", "--yes", "words"); strings.Contains(res.Stderr, "Warning") {
		t.Errorf("there is a warning:\n%s", res.Stderr)
	}
	r.OK("plugin", "verify")
	if res := r.Gantry("sandbox", "-c", "sandbox.mode=workspace-write", "--", "sh", "-c", "echo x > plug/lib/lib.sh; echo x > plug/lib/new.sh; mv plug q; mv plug/words x; true"); res.Code != 0 {
		t.Errorf("exit %d\n%s", res.Code, res.Stderr)
	}
	if r.Read("plug/lib/lib.sh") != "WORDS=1\n" || r.Read("plug/lib/new.sh") != "" || r.Read("plug/words") == "" {
		t.Error("a command has changed what a plugin loads")
	}
	r.OK("plugin", "verify")
	r.Write("plug/lib/new.sh", "x\n")
	if res := r.Gantry("plugin", "verify"); res.Code == 0 || !strings.Contains(res.Stderr, "file that the program loads") {
		t.Errorf("exit %d\n%s%s", res.Code, res.Stdout, res.Stderr)
	}
	if res := r.Gantry("exec", "go"); res.Code == 0 || !strings.Contains(res.Stderr, "file that the program loads") {
		t.Errorf("exit %d\n%s", res.Code, res.Stderr)
	}
}

// What lets a project do more stands before all else and is marked without colour, and a stale consent is named before what follows from it.
func TestTrustMarksWhatGrantsMore(t *testing.T) {
	t.Parallel()
	r := rig.New(t, commanding)
	const rest = "\nprofile \"ci\" {\n  approval {\n    policy = \"never\"\n  }\n}\n\nsandbox {\n  deny_read = [\"keys\"]\n"
	r.Write(".gantry/gantry.hcl", "# nothing"+rest+"}\n")
	r.Write(".gantry/rules/a.rules", "prefix_rule(pattern=[\"ls\"])\nprefix_rule(pattern=[\"rm\"], decision=\"forbidden\")\n")
	r.OK("trust", "--yes")
	r.Write(".gantry/gantry.hcl", "# a pull"+rest+"  mode = \"full-access\"\n}\n")
	r.Write(".gantry/rules/a.rules", "prefix_rule(pattern=[\"ls\"])\nprefix_rule(pattern=[\"curl\"])\n")
	out := r.Gantry("trust").Stdout
	if want := "3 changes give this project more power:\n! .gantry/gantry.hcl:10  sandbox.mode = \"full-access\"\n! .gantry/rules/a.rules:2  allow commands that begin with [\"curl\"]\n" +
		"! .gantry/rules/a.rules  without forbidden commands that begin with [\"rm\"]\n"; !strings.HasPrefix(out, want) {
		t.Errorf("it begins with\n%.600s\nwant\n%s", out, want)
	}
	for _, want := range []string{
		"\n! +  mode = \"full-access\"\n", "\n  +# a pull\n", "\n  -# nothing\n", "\n! +prefix_rule(pattern=[\"curl\"])\n", "\n! -prefix_rule(pattern=[\"rm\"], decision=\"forbidden\")\n",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	res := r.Gantry("exec", "--profile", "ci", "go")
	stale, profile := strings.Index(res.Stderr, "is not trusted"), strings.Index(res.Stderr, `there is no profile "ci"`)
	if res.Code == 0 || stale < 0 || profile < stale {
		t.Errorf("exit %d, the consent at %d, the profile at %d:\n%s", res.Code, stale, profile, res.Stderr)
	}
	r.OK("trust", "--yes")
	r.Write(".gantry/gantry.hcl", "# less"+rest+"}\n")
	if out := r.Gantry("trust").Stdout; strings.Contains(out, "do more") || strings.Contains(out, "\n! ") {
		t.Errorf("less is marked:\n%s", out)
	}
}

// trust shows what differs from what was agreed to, also in a large file, and says so where the difference can't be seen.
func TestTrustShowsTheDifference(t *testing.T) {
	t.Parallel()
	r := rig.New(t, commanding)
	long := strings.Repeat("# a rule of many\n", 20_000) // 340 KB
	r.Write(".gantry/rules/long.rules", long)
	r.Write(".gantry/gantry.hcl", "approval {\n  policy = \"never\" # a\n}\n")
	r.OK("trust", "--yes")
	if res := r.OK("trust"); !strings.Contains(res.Stdout, "trusted already") {
		t.Errorf("a large file is not agreed to:\n%s", res.Stdout)
	}
	r.Write(".gantry/gantry.hcl", "approval {\n  policy = \"never\" # a\n}\nsandbox {\n  mode = \"full-access\" # \x1b[8m\u202e\n}\n")
	res := r.Gantry("trust")
	for _, want := range []string{"+  mode = \"full-access\"", ": unchanged", "changed since you trusted it"} {
		if !strings.Contains(res.Stdout, want) {
			t.Errorf("no %q in\n%.2000s", want, res.Stdout)
		}
	}
	if strings.ContainsAny(res.Stdout, "\x1b\u202e") || strings.Contains(res.Stdout, "a rule of many") {
		t.Errorf("it shows\n%.2000q", res.Stdout)
	}
	r.Write(".gantry/gantry.hcl", "approval {\n  policy = \"never\" # a\n}\n")
	r.OK("trust", "--yes")
	r.Write(".gantry/rules/long.rules", "# \u200b\n")
	r.OK("trust", "--yes")
	r.Write(".gantry/rules/long.rules", "# \u200c\n")
	if res := r.Gantry("trust"); !strings.Contains(res.Stdout, "changed in invisible characters") {
		t.Errorf("a difference that can't be seen is not named:\n%.2000s", res.Stdout)
	}
	r.OK("trust", "--yes")
	r.OK("trust", "--revoke")
	if res := r.Gantry("trust"); strings.Contains(res.Stdout, ": unchanged") {
		t.Errorf("what was revoked is remembered:\n%.2000s", res.Stdout)
	}
}
