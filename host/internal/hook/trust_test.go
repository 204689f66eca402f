package hook

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func write(t *testing.T, dir, name, text string, mode os.FileMode) {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
}

// Which files a command runs, as far as its line says.
func TestScripts(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"guard.sh", "lib/check.py", "my file.sh", "tool", "data.json", "hook.log", "rules.jq"} {
		write(t, dir, name, "x", 0o644)
	}
	write(t, dir, "bin/helper", "x", 0o755)
	write(t, dir, "runner", "x", 0o755)
	env := []string{"HOME=" + dir, "CLAUDE_PROJECT_DIR=" + dir, "PATH=/usr/bin:" + dir + "/bin"}
	for line, want := range map[string]string{
		"./guard.sh":                                "guard.sh",
		"sh guard.sh --strict":                      "guard.sh",
		"bash -eu ./guard.sh":                       "guard.sh",
		`"$CLAUDE_PROJECT_DIR"/guard.sh`:            "guard.sh",
		"$CLAUDE_PROJECT_DIR/lib/check.py":          "lib/check.py",
		"~/guard.sh":                                "guard.sh",
		"python3 lib/check.py < data.json":          "lib/check.py",
		"uv run lib/check.py":                       "lib/check.py",
		"env X=1 python3.12 lib/check.py":           "lib/check.py",
		"timeout 5 ./runner":                        "runner",
		"sh 'my file.sh'":                           "my file.sh",
		"cat >> hook.log":                           "",
		"tee -a hook.log":                           "",
		"jq -f rules.jq data.json":                  "rules.jq",
		"cd lib && sh ../guard.sh || ./runner":      "runner", // what a line does to its folder is not followed
		"sh tool":                                   "tool",
		"helper --x":                                "bin/helper",
		"if true; then ./runner; fi; (sh guard.sh)": "runner guard.sh",
		"$(cat data.json) guard.sh":                 "guard.sh",
		`"$NOT_SET"/guard.sh`:                       "",
		"unclosed '":                                "",
		"/bin/echo hello":                           "",
		". ./tool":                                  "tool",
	} {
		var got []string
		for _, s := range scripts(line, dir, env, statFile) {
			rel, err := filepath.Rel(dir, s.path)
			if err != nil || !filepath.IsLocal(rel) {
				rel = s.path
			}
			got = append(got, rel)
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: %q, want %q", line, got, want)
		}
	}
}

// Consent is bound to all that a hook does.
func TestDigest(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "guard.sh", "one", 0o644)
	base := Definition{Key: "k", Event: PreToolUse, Command: "sh guard.sh", Scope: User}
	digest := func(d Definition) string {
		t.Helper()
		s, files, err := d.Digest(dir, nil)
		if err != nil || len(files.Files) != 1 {
			t.Fatal(files, err)
		}
		return s
	}
	was := digest(base)
	agreed := map[string]string{"k": was}
	if st := base.Trust(agreed, dir, nil); st != Trusted {
		t.Errorf("standing = %s", st)
	}
	if st := base.Trust(nil, dir, nil); st != Untrusted {
		t.Errorf("standing = %s", st)
	}
	yes := true
	limit := int64(1)
	for name, change := range map[string]func(*Definition){
		"event":   func(d *Definition) { d.Event = PostToolUse },
		"matcher": func(d *Definition) { d.Matcher = "Bash" },
		"command": func(d *Definition) { d.Command = "sh guard.sh x" },
		"timeout": func(d *Definition) { d.Timeout = minTimeout },
		"async":   func(d *Definition) { d.Async = true },
		"block":   func(d *Definition) { d.Block = &yes },
		"limit":   func(d *Definition) { d.ContextTokens = &limit },
	} {
		d := base
		change(&d)
		if digest(d) == was || d.Trust(agreed, dir, nil) != Modified {
			t.Errorf("another %s is the same hook", name)
		}
	}
	write(t, dir, "guard.sh", "two", 0o644)
	if digest(base) == was || base.Trust(agreed, dir, nil) != Modified {
		t.Error("another script is the same hook")
	}
	if err := os.Remove(filepath.Join(dir, "guard.sh")); err != nil {
		t.Fatal(err)
	}
	if st := base.Trust(agreed, dir, nil); st != Modified {
		t.Errorf("standing without its script = %s", st)
	}
	managed := base
	managed.Scope = Managed
	if st := managed.Trust(nil, dir, nil); st != TrustManaged {
		t.Errorf("standing = %s", st)
	}
}

// Consent to a command that can't be followed is refused until its owner lists what it runs; what happens to a script without a change
// of its content counts as a change.
func TestConsentCoversWhatIsReached(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "hooks/guard.sh", "#!/bin/sh\n. hooks/lib.sh\n", 0o755)
	write(t, dir, "hooks/lib.sh", "true\n", 0o644)
	d := Definition{Key: "k", Event: PreToolUse, Command: "cd hooks/.. && hooks/guard.sh", Scope: User}
	was, set, err := d.Digest(dir, nil)
	if err != nil || len(set.Files) != 2 || len(set.Held()) != 2 {
		t.Fatal(set, err)
	}
	agreed := map[string]string{"k": was}
	write(t, dir, "hooks/lib.sh", "false\n", 0o644)
	if st := d.Trust(agreed, dir, nil); st != Modified {
		t.Errorf("with another library it is %s", st)
	}
	write(t, dir, "hooks/lib.sh", "true\n", 0o644)
	if st := d.Trust(agreed, dir, nil); st != Trusted {
		t.Errorf("as it was it is %s", st)
	}
	if err := os.Link(filepath.Join(dir, "hooks/guard.sh"), filepath.Join(dir, "other")); err != nil {
		t.Fatal(err)
	}
	if st := d.Trust(agreed, dir, nil); st != Modified {
		t.Errorf("with a second name it is %s", st)
	}
	d = Definition{Key: "k", Event: PreToolUse, Command: "make check", Scope: User}
	if _, _, err := d.Digest(dir, nil); err == nil || !strings.Contains(err.Error(), "can't follow `make check`") || !strings.Contains(err.Error(), "files") {
		t.Errorf("make: %v", err)
	}
	d.Files = []string{"hooks/lib.sh"}
	if _, set, err := d.Digest(dir, nil); err != nil || len(set.Files) != 1 {
		t.Errorf("make with a list: %v %v", set, err)
	}
}
