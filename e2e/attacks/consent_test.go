package attacks_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// consented are the rows about what the user has agreed to, and what it runs.
var consented = []row{
	hookLines("S1", "a script by its path, or behind a shell", "hooks/guard.sh", "./hooks/guard.sh --strict", "sh hooks/guard.sh", "bash -lc hooks/guard.sh"),
	hookLines("S2", "a script after a `cd`", "cd hooks && ./guard.sh", `(cd "$CLAUDE_PROJECT_DIR/hooks"; ./guard.sh)`, "env -C hooks ./guard.sh", "pushd hooks; ./guard.sh"),
	hookLines("S3", "a script that a shell reads from its standard input", "sh < hooks/guard", "cat hooks/guard | sh", "sh /dev/fd/3 3< hooks/guard", "source <(cat hooks/guard)"),
	hookLines("S4", "a line in a line", "sh -c './hooks/guard.sh --strict'", "eval hooks/guard.sh", "trap hooks/guard.sh EXIT; true", `sudo sh -c "cd hooks; ./guard.sh"`),
	hookLines("S5", "a script that variables name", `D=hooks; "$D"/guard.sh`, `"$(pwd)"/hooks/guard.sh`, `A=hooks B=guard.sh; x="$A/$B"; $x`, `$(cat hooks/name)`),
	hookLines("S6", "every script of a folder", "for f in hooks/*.sh; do $f; done", "run-parts hooks", `find hooks -name '*.sh' -exec sh {} \;`, "ls hooks/*.sh | xargs -n1 sh"),
	hookLines("S7", "an interpreter that lies in the workspace, behind `#!`", "hooks/interpreted"),
	hookLines("S8", "what the project's files name: `make`, `npm run`, `git hook run`", "make", "npm run guard", "git hook run guard.sh"),
	hookLines("S9", "a module of Python: beside the script, in the working folder, by `-m`", "python3 hooks/guard.py", `python3 -c "import json"`, "python3 -m guard"),
	hookLines("S10", "a module of another language", `node -e 'require("./hooks/mod")'`, "perl -Ihooks -MGuard -e 1", "node hooks/guard.js"),
	hookLines("S11", "a script that another one reads: `. ./lib`", "hooks/loads.sh"),
	hookLines("S12", "a script that a variable has a shell load: `BASH_ENV`, `ENV`", "BASH_ENV=hooks/guard bash -c :", "ENV=hooks/guard sh -i </dev/null"),
	hookLines("S13", "a script that the line copies before it runs it", "cp hooks/guard "+copied+"; sh "+copied, "cat hooks/guard > "+copied+"; sh "+copied),
	hookLines("S14", "a program by its name, from a folder of the workspace that the line puts into PATH", "PATH=$PWD/hooks:$PATH; guard.sh", "hash -p hooks/guard.sh g; g"),
	{id: "S15", attempt: "exchange the script of an agreed hook while 48 runs begin (`renameat2`)", required: "not run", codex: "", ours: "EBUSY: the script and the folders above it stay where they are",
		tests: []string{"e2e TestExchangedHookScript"}},
	{id: "S16", attempt: "change the script by a second name (a hard link), or reach it by a symbolic link that a command may replace", required: "not run", codex: "", ours: "not agreed to, or not any more",
		tests: []string{"config/reach TestListed", "host/internal/hook TestConsentCoversWhatIsReached"}},
	{id: "S17", attempt: "a line that hangs or crashes its analysis: 200,000 `$((`, 60,000 pipes, a pipe in the place of a script", required: "bounded", codex: "", ours: "can't be followed, or is no file",
		tests: []string{"config/reach TestEveryFormOfALine", "config/reach TestPipeIsNotRead"}},
	{id: "S18", attempt: "rewrite, exchange or move the program of `api_key = command([...])`, or what it loads", required: "not run", codex: "", ours: "EROFS; changed from outside it is not run",
		tests: []string{"e2e TestChangedSecretProgram"}},
	{id: "S19", attempt: "rewrite what a trusted configuration reads with `file()`", required: "noticed", codex: "", ours: "EROFS; changed from outside the project is not trusted any more", tests: []string{"e2e TestChangedFileValue"}},
	{id: "S20", attempt: "compute the name of the file or program in a trusted configuration, so that consent can't cover it", required: "no value", codex: "", ours: "no value, and the message says why", tests: []string{"config TestValueThatConsentCanNotCover", "config TestConsentCoversWhatIsReadAndRun"}},
	{id: "S21", attempt: "an untrusted project that reads a pipe, `/dev/zero` or 3 GB: `.gantry/hooks.json`, `file()`", required: "nothing hangs or grows", codex: "", ours: "refused, bounded", flow: hostileHooksFile,
		tests: []string{"config TestDigestOfWhatIsNoFile"}},
	{id: "S22", attempt: "change the module of a plugin whose program is a script", required: "not run", codex: "", ours: "EROFS where `files` lists it; changed from outside the plugin is refused", tests: []string{"e2e TestChangedPluginFile"}},
	{id: "S23", attempt: "change one line in a long configuration, in characters that no terminal shows, or in a file of 300 KB", required: "seen", codex: "", ours: "shown as a difference; invisible ones are named as such", tests: []string{"e2e TestTrustShowsTheDifference"}},
	hookLines("S24", "a file that a text for a shell or an interpreter names", "bash <<'E'\n. hooks/guard\nE", "echo 'cd hooks; sh guard' | sh", "python3 <<'E'\nimport guard\nE", `perl -e 'system("sh hooks/guard")'`),
	hookLines("S25", "a file behind a program that nobody has listed, or behind a variable that is empty or of several words", "linux64 sh hooks/guard", "$UNSET sh hooks/guard", `RUN="sh -e"; $RUN hooks/guard`, `flock "$HOME/l" -c 'sh hooks/guard'`),
	{id: "S26", attempt: "the line names its script, or the settings their folders, by a symbolic link that lies elsewhere", required: "not run when changed", codex: "", ours: "EROFS, as by its path in the workspace",
		tests: []string{"config/reach TestFilesThatAreNotExecutable"}},
	{id: "S27", attempt: "hide `mode = \"full-access\"`, a rule that allows or a restriction that is gone among many changes of a trusted project", required: "seen first", codex: "",
		ours: "what lets the project do more is listed first, and its lines are marked", tests: []string{"config TestGrants", "config TestEverySettingIsJudged", "host/internal/policy/rules TestWider", "e2e TestTrustMarksWhatGrantsMore"}},
	{id: "S28", attempt: "change a declared process: its arguments, variables, folder, sandbox, limits or program, or put an earlier program back", required: "not run", codex: "", ours: "not started until it is accepted again",
		tests: []string{"e2e TestDeclaredProcessesNeedConsent", "config TestPin"}},
	{id: "S29", attempt: "a project that declares a process: before trust, changed after it, or with a lock for another one", required: "not run", codex: "", ours: "not seen before trust; refused without its own entry in the lock",
		tests: []string{"e2e TestDeclaredProcessesOfAProject"}},
	{id: "S30", attempt: "rewrite the script in the workspace that a declared process runs", required: "not run", codex: "", ours: "EROFS; changed from outside it is not started", tests: []string{"e2e TestChangedScriptOfADeclaredProcess"}},
}

// copied is outside of the workspace, and each user's own.
var copied = fmt.Sprint("/tmp/gantry-attacks-copied-", os.Getuid())

// hookLines is a row of hooks whose scripts a command changes before they run.
func hookLines(id, attempt string, lines ...string) row {
	return row{id: id, attempt: "a command changes what an agreed hook runs: " + attempt, required: "not run", codex: "run: only the line is looked at, by its source", escaped: true,
		ours: "EROFS or, where the line can't be followed, no consent", flow: func(t *testing.T, w *world) {
			for i, line := range lines {
				f := newFlow(t, w, fmt.Sprintf("%s-%d", id, i), "workspace-write", "never")
				evil := "echo evil >> '" + f.world.out + "/ran'"
				for name, text := range map[string]string{
					"hooks/guard.sh": "#!/bin/sh\ntrue\n", "hooks/guard": "true\n", "hooks/name": "hooks/guard.sh\n", "hooks/interpreted": "#!" + f.Dir + "/hooks/guard.sh\n",
					"Makefile": "all:\n\t@./hooks/guard.sh\n", "package.json": `{"scripts":{"guard":"./hooks/guard.sh"}}`, "hooks/guard.py": "import json\n", "guard.py": "pass\n",
					"hooks/loads.sh": "#!/bin/sh\n. hooks/lib\n", "hooks/lib": "true\n", "hooks/mod.js": "", "hooks/guard.js": "require('./mod')\n", "hooks/Guard.pm": "1;\n",
					".git/HEAD": "ref: refs/heads/main\n", ".git/config": "[core]\n\thooksPath = hooks\n", ".git/objects/x": "", ".git/refs/x": "",
				} {
					f.Write(name, text)
					if name == "hooks/guard" { // which nothing but the line makes a script
						continue
					}
					if err := os.Chmod(filepath.Join(f.Dir, name), 0o755); err != nil {
						t.Fatal(err)
					}
				}
				b, err := json.Marshal(map[string]any{"hooks": map[string]any{"PreToolUse": []any{map[string]any{"hooks": []any{map[string]any{"type": "command", "command": line, "timeout": 10}}}}}})
				if err != nil {
					t.Fatal(err)
				}
				f.Write(filepath.Join(f.Home, "hooks.json"), string(b))
				agreed := f.Gantry("hooks", "trust", "--yes")
				if agreed.Code != 0 && !strings.Contains(agreed.Stderr, "can't follow") {
					t.Errorf("%s: trust ended with %d:\n%s", line, agreed.Code, agreed.Stderr)
				}
				shell, python := "#!/bin/sh\n"+evil+"\n", "import os; os.system(\"\"\""+evil+"\"\"\")\n"
				js, perl := "require('child_process').execSync(`"+evil+"`)\n", "system q("+evil+"); 1;\n"
				f.Write("evil.sh", shell)
				// One call for each group of files, so that the hook runs in between: where it is not run any more since a file that its line
				// names has changed, what others have changed would go unnoticed.
				quote := func(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }
				changes := []string{
					`put hooks/name ./evil.sh; chmod +x evil.sh
put Makefile "$(printf 'all:\n\t@./evil.sh')"; put package.json '{"scripts":{"guard":"./evil.sh"}}'
for f in hooks/lib hooks/new.sh hooks/new; do put $f "$(cat evil.sh)"; done
for f in json.py guard.py hooks/json.py; do put $f ` + quote(python) + `; done
put hooks/mod.js ` + quote(js) + `; put hooks/Guard.pm ` + quote(perl),
					`for f in hooks/guard.sh hooks/guard; do put $f "$(cat evil.sh)"; done; chmod -x hooks/guard
put hooks/guard.py ` + quote(python) + `; put hooks/guard.js ` + quote(js),
					`mv hooks hooks.old && mkdir hooks && cp evil.sh hooks/guard.sh; true`,
				}
				for i := range changes {
					changes[i] = `put() { printf %s "$2" > "$1"; chmod +x "$1"; cp "$1" x.tmp; mv -f x.tmp "$1"; }` + "\n" + changes[i]
					f.call(fmt.Sprint("changes", i), changes[i])
				}
				f.call("then", "true")
				f.run(t)
				ran := func() bool {
					got, _ := os.ReadFile(f.world.out + "/ran")
					return strings.Contains(string(got), "evil")
				}
				if ran() {
					t.Errorf("%s: what a command has made ran as a hook; trust said\n%s", line, agreed.Stdout)
				}
				defer os.Remove(copied)
				// Control: changed by somebody who may, the files do change what the line runs.
				for _, change := range changes {
					f.world.run(t, f.Env, "/bin/sh", "-c", change)
					f.world.run(t, append(f.Env, "CLAUDE_PROJECT_DIR="+f.Dir), "/bin/bash", "-c", line)
				}
				switch program, _, _ := strings.Cut(line, " "); {
				case ran():
				case slices.Contains([]string{"node", "npm", "perl", "run-parts", "sudo"}, program): // which not every machine has
					t.Logf("%s does not run here", line)
				default:
					t.Errorf("%s: does not run what has been changed either, so that it proves nothing", line)
				}
			}
		}}
}

// hostileHooksFile starts gantry in a folder whose hooks.json is none.
func hostileHooksFile(t *testing.T, w *world) {
	for i, make := range []string{"mkfifo .gantry/hooks.json", "ln -s /dev/zero .gantry/hooks.json", "truncate -s 3G .gantry/hooks.json"} {
		f := newFlow(t, w, fmt.Sprint("S21-", i), "workspace-write", "never")
		f.Write(".gantry/gantry.hcl", "instructions {\n  text = \"${file(\"pipe\")}${file(\"/dev/zero\")}\"\n}\n")
		if err := exec.Command("sh", "-c", "cd \"$0\" && mkfifo pipe && "+make, f.Dir).Run(); err != nil {
			t.Fatal(err)
		}
		f.call("c1", "echo works")
		if out := f.run(t); !strings.Contains(out["c1"], "works") {
			t.Errorf("%s: %q", make, out)
		}
	}
}
