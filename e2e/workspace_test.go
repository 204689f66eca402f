package e2e_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/e2e/rig"
	"github.com/gantry-agent/gantry/sdk/llm"
)

// modes lets commands write the workspace, with nobody to be asked.
const modes = "approval {\n  policy = \"never\"\n}\nsandbox {\n  mode = \"workspace-write\"\n}\n"

// byHand runs a program as the user does, beside gantry.
func byHand(t *testing.T, dir string, argv ...string) {
	t.Helper()
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOFLAGS=-mod=mod", "GOWORK=off", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@b", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@b")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%q: %v\n%s", argv, err, out)
	}
}

// cloned makes a repository with one file beside the workspace.
func cloned(t *testing.T, r *rig.Rig) string {
	t.Helper()
	from := filepath.Join(filepath.Dir(r.Dir), "from")
	byHand(t, filepath.Dir(r.Dir), "git", "init", "-q", from)
	r.Write(filepath.Join(from, "file"), "content")
	byHand(t, from, "git", "add", "file")
	byHand(t, from, "git", "commit", "-q", "-m", "x")
	return from
}

// buildCache is the folder of Go's build cache, which spares the compiler most of its work. Where there is none, as for a user without a
// home, the test is skipped: it would compile the standard library.
func buildCache(t *testing.T) string {
	t.Helper()
	out, err := exec.Command("go", "env", "GOCACHE").Output()
	if err != nil {
		t.Fatal(err)
	}
	dir := strings.TrimSpace(string(out))
	if _, err := os.Stat(dir); err != nil {
		t.Skip(err)
	}
	return dir
}

// A folder in which an agent works is like any other: what begins a repository in it works, and so does what looks for one.
func TestRepositoriesAreBegunInTheWorkspace(t *testing.T) {
	t.Parallel()
	for name, cmd := range map[string]string{
		"build": `printf 'module m\n\ngo 1.20\n' > go.mod; printf 'package main\n\nfunc main() {}\n' > main.go; GOWORK=off GOFLAGS=-mod=mod GOCACHE=$CACHE go build -buildvcs=auto -o x .`,
		"init":  `git init -q . && echo x > x && git add x && git -c user.name=a -c user.email=a@b commit -qm x`,
		"clone": `git -c safe.directory='*' clone -q "file://$FROM" . && cat file`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cache := ""
			if name == "build" {
				cache = buildCache(t)
			}
			r := boxed(t, "")
			from := cloned(t, r)
			r.Write(filepath.Join(r.Home, "script.toml"), fmt.Sprintf(`
[[step]]
do = [{ call = "exec_command", id = "do", args = { cmd = '''FROM=%s CACHE=%s; %s
echo "status $?"; ls -A''', login = false, yield_time_ms = 30000 } }]
[[step]]
times = -1
do = [{ text = "finished" }]
`, from, cache, cmd))
			r.Write("../modes.hcl", modes)
			res := r.OK("exec", "--config", "../modes.hcl", "go")
			out := r.Last().Outputs()["do"]
			if !strings.Contains(out, "status 0\n") || strings.Contains(out, ".codex") {
				t.Errorf("%s", out)
			}
			if strings.Contains(res.Stderr, "quarantined") {
				t.Errorf("something was moved aside:\n%s", res.Stderr)
			}
		})
	}
}

// While a command of an agent's runs, and when gantry is killed, the user finds in the folder what is in it.
func TestTheUserWorksInTheSameFolder(t *testing.T) {
	t.Parallel()
	for name, do := range map[string]func(t *testing.T, r *rig.Rig, from string){
		"build": func(t *testing.T, r *rig.Rig, _ string) {
			r.Write("go.mod", "module m\n\ngo 1.20\n")
			r.Write("main.go", "package main\n\nfunc main() {}\n")
			byHand(t, r.Dir, "go", "build", "-buildvcs=auto", "-o", "x", ".")
		},
		"init": func(t *testing.T, r *rig.Rig, _ string) { byHand(t, r.Dir, "git", "init", "-q", ".") },
		"clone": func(t *testing.T, r *rig.Rig, from string) {
			byHand(t, r.Dir, "git", "clone", "-q", "file://"+from, ".")
		},
	} {
		for _, kill := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, killed %v", name, kill), func(t *testing.T) {
				t.Parallel()
				if name == "build" {
					buildCache(t)
				}
				r := boxed(t, "")
				from := cloned(t, r)
				fifos := []string{filepath.Join(filepath.Dir(r.Dir), "out", "a"), filepath.Join(filepath.Dir(r.Dir), "out", "b")}
				byHand(t, r.Dir, append([]string{"mkfifo"}, fifos...)...)
				r.Write(filepath.Join(r.Home, "script.toml"), fmt.Sprintf(`
[[step]]
do = [{ call = "exec_command", id = "do", args = { cmd = "cat %s %s", login = false, yield_time_ms = 30000 } }]
[[step]]
times = -1
do = [{ text = "finished" }]
`, fifos[0], fifos[1]))
				r.Write("../modes.hcl", modes)
				run := r.Start("exec", "--config", "../modes.hcl", "go")
				reached := func(fifo string) {
					f, err := os.OpenFile(fifo, os.O_WRONLY, 0) // until the command opens it
					if err != nil {
						t.Fatal(err)
					}
					f.Close()
				}
				reached(fifos[0])
				if kill {
					run.Signal(os.Kill)
					run.Wait()
				}
				entries, err := os.ReadDir(r.Dir)
				if err != nil || slices.ContainsFunc(entries, func(e os.DirEntry) bool { return strings.HasPrefix(e.Name(), ".") }) {
					t.Errorf("in the folder are %v, %v", entries, err)
				}
				do(t, r, from)
				if !kill {
					reached(fifos[1])
					if res := run.Wait(); res.Code != 0 || strings.Contains(res.Stderr, "quarantined") {
						t.Errorf("exit %d\n%s", res.Code, res.Stderr)
					}
				}
			})
		}
	}
}

// A repository with husky is worked in as ever. What git executes of it stays as it is, the model reads why, and a patch is asked about.
func TestARepositoryWithHusky(t *testing.T) {
	t.Parallel()
	r := boxed(t, `
[[step]]
do = [{ call = "exec_command", id = "work", args = { cmd = "echo x > src.js && echo made", login = false } }]
[[step]]
do = [{ call = "exec_command", id = "commit", args = { cmd = "git add src.js", login = false } }]
[[step]]
do = [{ call = "exec_command", id = "hook", args = { cmd = "echo evil >> .husky/pre-commit", login = false } }]
[[step]]
do = [{ call = "apply_patch", id = "patch", freeform = """*** Begin Patch
*** Update File: .husky/pre-commit
@@
-npm test
+npm run check
*** End Patch""" }]
[[step]]
times = -1
do = [{ text = "finished" }]
`)
	byHand(t, r.Dir, "git", "init", "-q", ".")
	byHand(t, r.Dir, "git", "config", "core.hooksPath", ".husky/_")
	r.Write(".husky/_/pre-commit", "#!/usr/bin/env sh\n. \"$(dirname \"$0\")/h\"\n")
	r.Write(".husky/pre-commit", "npm test\n")
	r.Write("../modes.hcl", strings.Replace(modes, "never", "on-request", 1))
	run := r.Terminal("exec", "--config", "../modes.hcl", "go")
	run.Sees("answer: ")
	if hook := r.Read(".husky/pre-commit"); hook != "npm test\n" {
		t.Errorf("the hook is %q", hook)
	}
	run.Type("y\n")
	if res := run.Wait(); res.Code != 0 || strings.Count(res.Stdout, "answer: ") != 1 {
		t.Fatalf("exit %d:\n%s", res.Code, res.Stdout)
	}
	if hook := r.Read(".husky/pre-commit"); hook != "npm run check\n" {
		t.Errorf("after an approval the hook is %q: %q", hook, r.Last().Outputs()["patch"])
	}
	if out := r.Last().Outputs()["work"]; !strings.Contains(out, "made") {
		t.Errorf("%q", out)
	}
	read := strings.Join(r.Last().Texts(llm.RoleSystem), "\n")
	for _, want := range []string{
		fmt.Sprintf("does not let commands write %q. It is kept read-only: files there are executed later", filepath.Join(r.Dir, ".git/index.lock")),
		fmt.Sprintf("does not let commands write %q. It is kept read-only: git would execute it, because of core.hookspath in %s/.git/config. If the task needs it, ask", filepath.Join(r.Dir, ".husky/pre-commit"), r.Dir),
	} {
		if !strings.Contains(read, want) {
			t.Errorf("the model does not read %q:\n%s", want, read)
		}
	}
}

// A notice names a few files and says how to see all; one that it did not name is named when it changes again.
func TestEveryFileThatOthersExecuteIsListed(t *testing.T) {
	t.Parallel()
	r := boxed(t, `
[[step]]
do = [{ call = "exec_command", id = "noise", args = { cmd = "mkdir -p .husky .vscode .claude/commands .venv/bin sub/.codex; for f in AGENTS.md AGENTS.override.md CLAUDE.md GEMINI.md Justfile Makefile Rakefile conftest.py noxfile.py setup.py package.json pyproject.toml .vscode/tasks.json .claude/commands/x.md .venv/bin/activate; do echo x > $f; done", login = false } }]
[[step]]
do = [{ call = "exec_command", id = "quiet", args = { cmd = "echo evil > setup.py; echo evil > AGENTS.md", login = false } }]
[[step]]
do = [{ call = "exec_command", id = "below", args = { cmd = "mkdir -p a/b/.vscode a/.claude/hooks; echo x | tee a/b/.envrc a/b/.vscode/tasks.json a/.claude/hooks/h.sh a/b/package.json > a/CLAUDE.md", login = false } }]
[[step]]
times = -1
do = [{ text = "finished" }]
`)
	r.Write("../modes.hcl", modes)
	res := r.OK("exec", "--config", "../modes.hcl", "go")
	for text, want := range map[string]int{
		"and 10 more, which `gantry diff --executable` lists": 1, filepath.Join(r.Dir, "setup.py") + `"`: 1, filepath.Join(r.Dir, ".claude/commands/x.md") + `"`: 1,
	} {
		if n := strings.Count(res.Stderr, text); n != want {
			t.Errorf("%q is there %d times, want %d:\n%s", text, n, want, res.Stderr)
		}
	}
	list := r.OK("diff", "--executable").Stdout
	for _, want := range []string{
		"changed      " + r.Dir + "/AGENTS.md\n", "/AGENTS.override.md\n", "ws/CLAUDE.md\n", "/GEMINI.md\n", "/Justfile\n", "/Makefile\n", "/Rakefile\n", "/conftest.py\n", "/noxfile.py\n", "/setup.py\n",
		"ws/package.json\n", "/pyproject.toml\n", "/a/b/.envrc\n", "/a/b/.vscode/tasks.json\n", "/a/.claude/hooks/h.sh\n", "/a/CLAUDE.md\n", "ws/.vscode/tasks.json\n", "/.claude/commands/x.md\n", "/.venv/bin/activate\n",
		"quarantined  " + r.Dir + "/sub/.codex → " + r.Dir + "/sub/.codex.quarantined (it would say what agents may do)\n",
	} {
		if strings.Count(list, want) != 1 {
			t.Errorf("%q is not listed once:\n%s", want, list)
		}
	}
	if js := r.OK("diff", "--executable", "--json").Stdout; !strings.Contains(js, `"movedTo": "`+r.Dir+`/sub/.codex.quarantined"`) || strings.Count(js, `"path"`) != 20 {
		t.Errorf("%s", js)
	}
}
