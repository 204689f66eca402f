package reach

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
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

func tree(t *testing.T) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func env(dir string) []string {
	return []string{"HOME=" + dir + "/home", "CLAUDE_PROJECT_DIR=" + dir, "PATH=/usr/bin:/bin"}
}

// Each way to write the line covers the script that would run, or says that it can't be followed.
func TestEveryFormOfALine(t *testing.T) {
	const guard = "#!/bin/sh\nexit 0\n"
	for line, more := range map[string]map[string]string{
		`hooks/guard.sh`:                                        nil,
		`./hooks/guard.sh --strict`:                             nil,
		`sh hooks/guard.sh`:                                     nil,
		`cd hooks && ./guard.sh`:                                nil,
		`(cd "$CLAUDE_PROJECT_DIR/hooks"; ./guard.sh)`:          nil,
		`cd "$CLAUDE_PROJECT_DIR"; cd hooks; sh guard.sh`:       nil,
		`sh < hooks/guard.sh`:                                   nil,
		`sh -c './hooks/guard.sh --strict'`:                     nil,
		`bash -lc "hooks/guard.sh"`:                             nil,
		`cat hooks/guard.sh | sh`:                               nil,
		`cat hooks/plain | sh`:                                  {"hooks/plain": "exit 0\n"},
		`D=hooks; "$D"/guard.sh`:                                nil,
		`export D=hooks && $D/guard.sh`:                         nil,
		`D=hooks; if true; then D=other; fi; $D/guard.sh`:       nil,
		`"$(pwd)"/hooks/guard.sh`:                               nil,
		`$(cd hooks && pwd)/guard.sh`:                           nil,
		`for f in hooks/*.sh; do $f; done`:                      nil,
		`for f in hooks/guard.sh; do sh "$f"; done`:             nil,
		`hooks/*.sh`:                                            nil,
		`run-parts hooks`:                                       nil,
		`find hooks -name '*.sh' -exec sh {} \;`:                nil,
		`ls hooks/*.sh | xargs -n1 sh`:                          nil,
		`env X=1 nice -n 5 hooks/guard.sh`:                      nil,
		`timeout 5s sudo -u bob hooks/guard.sh`:                 nil,
		`eval hooks/guard.sh`:                                   nil,
		`eval "$X"`:                                             nil,
		`$X`:                                                    nil,
		`"$X/guard.sh"`:                                         nil,
		`$(cat hooks/name)`:                                     nil,
		"`cat hooks/name`":                                      nil,
		`. hooks/guard.sh`:                                      nil,
		`source <(cat hooks/guard.sh)`:                          nil,
		`trap 'hooks/guard.sh' EXIT; true`:                      nil,
		`f() { hooks/guard.sh; }; f`:                            nil,
		`BASH_ENV=hooks/guard.sh bash -c :`:                     nil,
		`echo ok; true && { hooks/guard.sh & }`:                 nil,
		`git -c core.hooksPath=hooks hook run pre-commit`:       nil,
		`git hook run guard.sh`:                                 {".git/config": "[core]\n\thooksPath = hooks\n"},
		`hooks/run`:                                             {"hooks/run": "#!hooks/guard.sh\n"},
		`make`:                                                  {"Makefile": "all:\n\t./hooks/guard.sh\n"},
		`make -C hooks check`:                                   nil,
		`npm run lint`:                                          {"package.json": `{"scripts":{"lint":"./hooks/guard.sh"}}`},
		`npx eslint .`:                                          nil,
		`python3 -m guard`:                                      nil,
		`python3 -c "import json"`:                              nil,
		`python3 other/guard.py`:                                {"other/guard.py": "import subprocess\nsubprocess.run(['hooks/guard.sh'])\n"},
		`node other/guard.js`:                                   {"other/guard.js": "require('child_process').execSync('./hooks/guard.sh')\n"},
		`node -e 'require("./hooks/x")'`:                        nil,
		`./start`:                                               {"start": "#!/bin/sh\n. ./hooks/guard.sh\n"},
		`./other/start`:                                         {"other/start": "#!/bin/sh\nd=\"$(cd \"$(dirname \"$0\")\" && pwd)\"\n. \"$d/../hooks/guard.sh\"\n"},
		`sh <<<"hooks/guard.sh"`:                                nil,
		"sh <<E\nhooks/guard.sh\nE":                             nil,
		`awk 'BEGIN { system("hooks/guard.sh") }'`:              nil,
		`coproc hooks/guard.sh`:                                 nil,
		`select x in 1; do hooks/guard.sh; done`:                nil,
		`case x in *) hooks/guard.sh;; esac`:                    nil,
		`while read l; do hooks/guard.sh; done`:                 nil,
		`test -x hooks/guard.sh && exec hooks/guard.sh`:         nil,
		`"unclosed`:                                             nil,
		strings.Repeat("$((", 200_000):                          nil,
		strings.Repeat("a|", 60_000) + "hooks/guard.sh":         nil,
		`pushd hooks; ./guard.sh`:                               nil,
		`cd "$X"; ./guard.sh`:                                   nil,
		`cd hooks/../hooks; command ./guard.sh`:                 nil,
		`busybox sh hooks/guard.sh`:                             nil,
		`perl -e 'system "hooks/guard.sh"'`:                     nil,
		`sudo sh -c "cd hooks; ./guard.sh"`:                     nil,
		`uv run hooks/guard.sh`:                                 nil,
		`A=hooks B=guard.sh; x="$A/$B"; $x`:                     nil,
		`PATH=$PWD/hooks:$PATH; guard.sh`:                       nil,
		`PATH=hooks:$PATH guard.sh`:                             nil,
		`sh -c "$(cat hooks/guard.sh)"`:                         nil,
		`env -C hooks ./guard.sh`:                               nil,
		`sh /dev/fd/3 3< hooks/plain`:                           {"hooks/plain": "exit 0\n"},
		`cp hooks/plain /tmp/x; sh /tmp/x`:                      {"hooks/plain": "exit 0\n"},
		`cat hooks/plain > /tmp/x; sh /tmp/x`:                   {"hooks/plain": "exit 0\n"},
		`ENV=hooks/plain sh -i`:                                 {"hooks/plain": "exit 0\n"},
		`flock /tmp/l sh hooks/plain`:                           {"hooks/plain": "exit 0\n"},
		`su -c "sh hooks/plain"`:                                {"hooks/plain": "exit 0\n"},
		`watch sh hooks/plain`:                                  {"hooks/plain": "exit 0\n"},
		`hash -p hooks/plain g; g`:                              {"hooks/plain": "exit 0\n"},
		`printf %s hooks/plain | xargs sh`:                      {"hooks/plain": "exit 0\n"},
		`echo hooks/plain | while read f; do sh $f; done`:       {"hooks/plain": "exit 0\n"},
		`echo hooks | while read HOME; do sh $HOME/plain; done`: {"hooks/plain": "exit 0\n"},
		`CDPATH=hooks; cd hooks; ./guard.sh`:                    nil,
		`perl -Ihooks -MGuard -e 1`:                             nil,
		`tar cf x --checkpoint-action=exec=hooks/guard.sh .`:    nil,
		`socat - EXEC:hooks/guard.sh`:                           nil,
		`sqlite3 x '.shell hooks/guard.sh'`:                     nil,
		`mapfile -C hooks/guard.sh -c 1 < x`:                    {"x": "x\n"},
		`RUBYOPT=-rhooks/guard.sh ruby -e 1`:                    nil,
		`python3 hooks/guard.py`:                                {"hooks/guard.py": "import json\n"},
	} {
		t.Run(line[:min(len(line), 60)], func(t *testing.T) {
			dir := tree(t)
			write(t, dir, "hooks/guard.sh", guard, 0o755)
			for name, text := range more {
				write(t, dir, name, text, 0o755)
			}
			start := time.Now()
			s := Query{Dir: dir, Env: env(dir)}.Line(line)
			if took := time.Since(start); took > time.Minute {
				t.Errorf("took %v", took)
			}
			covered := slices.ContainsFunc(s.Held(), func(p string) bool {
				return contains(p, dir+"/hooks/guard.sh") || contains(p, dir+"/hooks/plain") && more["hooks/plain"] != "" || contains(p, dir+"/hooks/guard.py") && p == dir+"/hooks"
			})
			if !covered && len(s.Gaps) == 0 {
				t.Errorf("covers %v and calls that all", s.Held())
			}
		})
	}
}

// A file that is neither executable nor called like a script is covered by every line that has a shell or an interpreter run it.
func TestFilesThatAreNotExecutable(t *testing.T) {
	for _, line := range []string{
		"bash <<'E'\n. hooks/plain\nE", "bash <<'E'\ncd hooks; sh plain\nE", `sh <<< 'sh hooks/plain'`, `echo 'cd hooks; sh plain' | sh`,
		`$SUDO sh hooks/plain`, `X=; $X sh hooks/plain`, `${DRY:+echo} sh hooks/plain`, `RUN="sh -e"; $RUN hooks/plain`, `RUN="sh hooks/plain"; $RUN`,
		`sh() { command sh "$@"; }; sh hooks/plain`, `f() { cd "$1"; }; f hooks; sh plain`, `eval cd hooks; sh plain`, `A=hooks; B=A; sh ${!B}/plain`, `cd "$(foo)"; . ./plain`,
		`ssh-agent sh hooks/plain`, `linux64 sh hooks/plain`, `choom -n 5 -- sh hooks/plain`, `unknown --option sh hooks/plain`, `unknown 'sh hooks/plain'`,
		`env -Chooks sh plain`, `env -u A -C hooks sh plain`, `flock /tmp/l -c 'sh hooks/plain'`, `xargs -ahooks/plain sh`, `xargs --arg-file=hooks/plain sh`,
		`git rebase -x 'sh hooks/plain' main`, `git rebase --exec='sh hooks/plain' main`, `git -c core.editor='sh hooks/plain' commit`, `git config alias.x '!sh hooks/plain' && git x`,
		`git -c include.path="$PWD/hooks/plain" x`, `GIT_CONFIG_SYSTEM=hooks/plain git x`, `LD_AUDIT=hooks/plain true`, `read BASH_ENV; export BASH_ENV; bash -c :`,
		`gcc -o /tmp/x hooks/plain && /tmp/x`, `sed 1d hooks/plain > /tmp/x; sh /tmp/x`, `cat hooks/plain &> /tmp/x; . /tmp/x`, `split hooks/plain /tmp/x; sh /tmp/xaa`, `tar --extract --file=hooks/plain -C /tmp; sh /tmp/x`,
		`cp hooks/plain ~; cd; sh plain`, `sed --file=hooks/plain x`, `sed -nf hooks/plain x`, `awk -fhooks/plain`, `awk -v a=1 -f hooks/plain`, `awk "$(cat hooks/plain)"`, `awk '{ system($0) }' hooks/plain`,
		`awk 'BEGIN { system("sh hooks/plain") }'`, `sed 's/.*/sh &/e' hooks/plain`, `perl -e 'system("sh hooks/plain")'`, "perl -e '`sh hooks/plain`'", `perl -e 'do "./hooks/plain"'`,
		`python3 -Ic 'exec(open("hooks/plain").read())'`, `python3 -Ic 'import subprocess; subprocess.run(["sh", "hooks/plain"])'`, `node -e 'eval(fs.readFileSync("hooks/plain", "utf8"))'`,
		"python3 <<'E'\nimport guard\nE", `echo 'import guard' | python3`, `python3 -c '__import__("guard")'`, `node --eval='require("./guard")'`, "node <<'E'\nrequire('./guard')\nE",
		`python3 -Ic 'import sys; sys.path.insert(0, "hooks"); import guard'`, `python3 hooks/imports.py`, `PERL5OPT="-Ihooks -MGuard" perl -e 1`, `ex -S hooks/plain`, `pylint x`,
		`sh $LINK/hooks/plain`, `cd $LINK/hooks && sh plain`, `. "$LINK"/hooks/plain`,
	} {
		t.Run(line[:min(len(line), 60)], func(t *testing.T) {
			dir := tree(t)
			write(t, dir, "hooks/plain", "exit 0\n", 0o644)
			write(t, dir, "hooks/imports.py", "__import__('guard')\n", 0o644)
			link := filepath.Join(tree(t), "link") // where no command changes it
			if err := os.Symlink(dir, link); err != nil {
				t.Fatal(err)
			}
			s := Query{Dir: dir, Env: append(env(dir), "LINK="+link, "HOME="+filepath.Dir(link))}.Line(line)
			if !slices.ContainsFunc(s.Held(), func(p string) bool { return contains(p, dir+"/hooks/plain") }) && len(s.Gaps) == 0 {
				t.Errorf("covers %v and calls that all", s.Held())
			}
		})
	}
	// In the folder that settings name by a link, too.
	dir := tree(t)
	write(t, dir, "hooks/plain", "exit 0\n", 0o644)
	link := filepath.Join(tree(t), "link")
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	if s := (Query{Dir: dir, Roots: []string{link}}).Line("sh hooks/plain"); !slices.Equal(s.Held(), []string{dir + "/hooks/plain"}) {
		t.Errorf("%v %v", s.Held(), s.Gaps)
	}
}

// What people have in their hooks.json needs no list of files, and holds little.
func TestOrdinaryLines(t *testing.T) {
	dir := tree(t)
	write(t, dir, ".gantry/hooks/guard.sh", "#!/bin/bash\nset -eu\ninput=$(cat)\ncmd=$(echo \"$input\" | jq -r .tool_input.command)\nif grep -q 'rm -rf' <<<\"$cmd\"; then echo no >&2; exit 2; fi\n", 0o755)
	write(t, dir, "hooks/check.py", "import json, sys\njson.load(sys.stdin)\n", 0o644)
	write(t, dir, "top.sh", "#!/bin/sh\nFILE=$(jq -r .file)\ngofmt -w \"$FILE\"\n", 0o755)
	write(t, dir, "data.json", "{}", 0o644)
	write(t, dir, "hook.log", "", 0o644)
	write(t, dir, ".claude/hooks/fmt.sh", "#!/bin/sh\ncd \"$(dirname \"$0\")/../..\"\n. \"$(dirname \"$0\")/lib.sh\"\n", 0o755)
	write(t, dir, ".claude/hooks/lib.sh", "x=1\n", 0o644)
	for line, want := range map[string]string{
		".gantry/hooks/guard.sh":                                 ".gantry/hooks/guard.sh",
		`"$CLAUDE_PROJECT_DIR"/.gantry/hooks/guard.sh --flag`:    ".gantry/hooks/guard.sh",
		"./hooks/check.py --flag":                                "hooks",
		"python3 hooks/check.py":                                 "hooks",
		"python3 -I hooks/check.py < data.json":                  "hooks/check.py",
		`jq -r '.tool_input.file_path' | xargs gofmt -w`:         "",
		`jq -r .x >> hook.log`:                                   "",
		`cat >> hook.log`:                                        "",
		`echo done; date >> hook.log`:                            "",
		`f=$(jq -r .tool_input.file_path); gofmt -w "$f"`:        "",
		`f=$(jq -r .x); [ -z "$f" ] || ruff format "$f"; exit 0`: "",
		"./top.sh":     "top.sh",
		"go vet ./...": "",
		`notify-send "gantry" "it waits for you"`:                        "",
		"git diff --stat":                                                "",
		"osascript -e 'display notification \"x\"'":                      "",
		`"$CLAUDE_PROJECT_DIR/.claude/hooks/fmt.sh"`:                     ".claude/hooks/fmt.sh .claude/hooks/lib.sh",
		"python3 -c 'print(1)'":                                          "",
		`printf '%s' "$(jq -r .x)" | tee -a hook.log`:                    "",
		"curl -s -d @- http://localhost:1":                               "",
		`cat data.json`:                                                  "",
		`jq -r '.a | .b' data.json`:                                      "",
		`sed -n "s/$A/b/p" data.json | head -1`:                          "",
		`grep -c sh data.json; which python3`:                            "",
		`python3 -Ic 'import json; print(json.load(open("data.json")))'`: "",
		`awk '{ print $1 }' data.json | sort`:                            "",
		`git commit -qm "sh is fixed"`:                                   "",
	} {
		s := Query{Dir: dir, Env: env(dir)}.Line(line)
		var got []string
		for _, p := range s.Held() {
			rel, _ := filepath.Rel(dir, p)
			got = append(got, rel)
		}
		if slices.Sort(got); strings.Join(got, " ") != want || len(s.Gaps) > 0 {
			t.Errorf("%s: %q, want %q; %v", line, got, want, s.Gaps)
		}
	}
}

// A listed file closes a gap; a link or a second name does not close.
func TestListed(t *testing.T) {
	dir := tree(t)
	write(t, dir, "Makefile", "all:\n\ttrue\n", 0o644)
	write(t, dir, "scripts/a.sh", "true\n", 0o644)
	if s := (Query{Dir: dir}).Line("make"); len(s.Gaps) == 0 {
		t.Error("make is complete")
	}
	s := Query{Dir: dir, Listed: []string{"scripts"}, Complete: true}.Line("make")
	if len(s.Gaps) > 0 || !slices.Equal(s.Held(), []string{dir + "/scripts", dir + "/Makefile"}) {
		t.Errorf("%v %v", s.Held(), s.Gaps)
	}
	before, err := s.Digest()
	if err != nil {
		t.Fatal(err)
	}
	write(t, dir, "scripts/b.sh", "true\n", 0o644)
	if after, _ := (Query{Dir: dir, Listed: []string{"scripts"}, Complete: true}).Line("make").Digest(); after == before {
		t.Error("another file in the folder is the same")
	}
	if err := os.Symlink("scripts", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	if err := os.Link(filepath.Join(dir, "scripts/a.sh"), filepath.Join(dir, "second")); err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{"link/b.sh", "sh scripts/a.sh", "sh missing.sh"} {
		listed := []string{}
		if line == "sh missing.sh" {
			listed = []string{"missing.sh"}
		}
		if s := (Query{Dir: dir, Listed: listed, Complete: true}).Line(line); len(s.Gaps) == 0 {
			t.Errorf("%s is complete: %v", line, s.Held())
		}
	}
}

// A link in a folder that is listed counts by what it leads to, also where no sandboxed command may write.
func TestListedElsewhere(t *testing.T) {
	dir, lib := tree(t), tree(t)
	write(t, lib, "shared/mod.py", "one\n", 0o644)
	write(t, lib, "tool/main.py", "import mod\n", 0o644)
	if err := os.Symlink("../shared/mod.py", filepath.Join(lib, "tool/mod.py")); err != nil {
		t.Fatal(err)
	}
	digest := func() string {
		s := Query{Dir: dir, Listed: []string{filepath.Join(lib, "tool")}, Complete: true}.Names()
		sum, err := s.Digest()
		if err != nil || len(s.Gaps) > 0 {
			t.Fatal(err, s.Gaps)
		}
		return sum
	}
	before := digest()
	write(t, lib, "shared/mod.py", "two\n", 0o644)
	if digest() == before {
		t.Error("the file that a link leads to is not covered")
	}
}

// Whatever is followed, it ends.
func FuzzLine(f *testing.F) {
	f.Add("cd hooks && ./guard.sh")
	f.Add("for f in {1..9}; do $f; done")
	f.Add("x=$(cd a && pwd); eval \"$x\" | sh -c 'y'")
	f.Fuzz(func(t *testing.T, line string) {
		Query{Dir: t.TempDir()}.Line(line)
	})
}
