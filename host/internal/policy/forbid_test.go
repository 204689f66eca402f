package policy

import "testing"

// forbiddenForms are lines that start `factor 13` in a way that depends on the syntax of a program.
var forbiddenForms = []string{
	// builtins that treat words as variables or arithmetic evaluate quoted subscripts
	`let 'a[$(factor 13 >&2)]'`, `[[ 'a[$(factor 13 >&2)]' -eq 1 ]]`, `[[ -v 'a[$(factor 13 >&2)]' ]]`, `printf -v 'a[$(factor 13 >&2)]' x`, `test -v 'a[$(factor 13 >&2)]'`,
	`[ -v 'a[$(factor 13 >&2)]' ]`, `read 'a[$(factor 13 >&2)]' <<<x`, `unset 'a[$(factor 13 >&2)]'`, `declare 'a[$(factor 13 >&2)]=1'`, "test -v 'a[`factor 13 >&2`]'",
	`x='a[$(factor 13 >&2)]'; echo $((x))`, `export x='a[$(factor 13 >&2)]'; (( x ))`, `x='a["$(factor 13 >&2)"]'; echo $((x))`,
	// other programs that start one
	"setpriv --nnp factor 13", "setpriv --reuid 0 factor 13", "prlimit --nofile=64 factor 13", "prlimit -n64 factor 13", "fakeroot factor 13", "fakeroot -- factor 13", "/lib64/ld-linux-x86-64.so.2 /usr/bin/factor 13",
	"ld.so /usr/bin/factor 13", "valgrind -q factor 13", "uv run factor 13", "npx -y factor 13", "xvfb-run factor 13", "ssh-agent factor 13", "tmux new-session factor 13", "faketime x factor 13",
	// a script named by a descriptor
	". /dev/stdin <<< 'factor 13'", "source /dev/stdin <<< 'factor 13'", "sh /dev/stdin <<< 'factor 13'", "bash /dev/fd/0 <<E\nfactor 13\nE", "source <(echo factor 13)", "bash <(echo factor 13)",
	"sh /dev/fd/3 3<<< 'factor 13'", "echo factor 13 | . /dev/stdin", "echo factor 13 | bash /proc/self/fd/0",
	// builtins and variables
	"mapfile -C 'factor 13 #' -c 1 a < f", "mapfile -C'factor 13 #' -c1 a < f", "readarray -tC 'factor 13 #' -c 1 < f", `PS4='$(factor 13 >&2)'; set -x; :`, `PS4='$(factor 13 >&2)' bash -xc :`,
	"hash -p /usr/bin/factor f; f 13", "BASH_ENV=f bash -c :", "env BASH_ENV=f bash -c :", "export BASH_ENV=f; bash -c :", "ENV=f sh -i", "PROMPT_COMMAND='factor 13' bash -i", "enable -f ./x.so x", "compgen -C 'factor 13' x",
	"zsh -c 'repeat 1 factor 13'", "GIT_SSH_COMMAND='factor 13' git fetch", "PAGER='factor 13' git log", "LESSOPEN='|factor 13' less f",
	// options that are commands
	"git -c alias.x='!factor 13' x", "git -calias.x='!factor 13' x", "git -c core.pager='factor 13' log", "git config alias.x '!factor 13'", "git rebase -x 'factor 13' HEAD", "git submodule foreach factor 13",
	"git submodule foreach 'factor 13'", "git bisect run factor 13", "git difftool -yx 'factor 13'", "git pull --upload-pack='factor 13'", "git pull --upload-p='factor 13'", "git fetch 'ext::factor 13'",
	"git filter-branch --tree-filter 'factor 13'", "git grep -O'factor 13' x", "tar -cf a f --checkpoint=1 --checkpoint-action='exec=factor 13'", "tar -cf a f --checkpoint-action exec='factor 13'", "tar -xf a --to-command='factor 13'",
	"tar -I 'factor 13' -cf a f", "tar -cI'factor 13' -f a f", "awk 'BEGIN { system(\"factor 13\") }'", "awk 'BEGIN { \"factor 13\" | getline x }'", "awk 'BEGIN { system(\"fac\" \"tor 13\") }'", "awk -F, -e 'BEGIN{system(\"factor 13\")}'",
	"sed '1e factor 13' f", "sed -n '1efactor 13' f", "sed -e '1e factor 13' f", "sed -ne 'p;1e factor 13' f", "sed 's/.*/factor 13/e' f", "sed 's/.*/factor 13/ge' f", "sed '/x/e factor 13' f", "sed '$!{e factor 13\n}' f",
	"sed --expression='1e factor 13' f", "sed 's;.*;factor 13;e' f", "make --eval='$(shell factor 13)'", "make --eval '$(shell factor 13)'", "make SHELL='factor 13'", "make X='$(shell factor 13)'", "make -E '$(shell factor 13)'",
	"ssh -o ProxyCommand='factor 13' h", "ssh -oProxyCommand='factor 13' h", "ssh -o 'LocalCommand factor 13' h", "scp -S 'factor 13' a h:", "rsync -e 'factor 13' a h:", "rsync -ae 'factor 13' a h:", "rsync --rsh='factor 13' a h:",
	"split --filter='factor 13' f", "sort --compress-program='factor 13' f", "rg --pre='factor 13' x", "zip -T -TT 'factor 13' a f", "vim -c '!factor 13'", "vim '+!factor 13'", "less '+!factor 13' f", "gdb -ex 'shell factor 13'",
	"sqlite3 x '.shell factor 13'", "socat - EXEC:'factor 13'", "man -P 'factor 13' x", "go test -exec 'factor 13'", "go build -toolexec='factor 13'", "nix-shell --run 'factor 13'",
	// input from the line, variables, other syntax
	"Y='!factor 13' git --config-env alias.x=Y x", "git --config-e=alias.x=Y x", `GIT_CONFIG_PARAMETERS="'alias.x=!factor 13'" git x`, "GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=alias.x GIT_CONFIG_VALUE_0='!factor 13' git x",
	"echo 13 | xargs -I{} sh -c 'factor {}'", "echo 13 | xargs -IX sh -c 'factor X'", "echo 13 | xargs --replace=X sh -c 'factor X'", `x='$(factor 13 >&2)'; echo ${x@P}`, "ed <<< '!factor 13'", "gcc -wrapper factor,13 f.c",
	"sed -f - f <<< '1e factor 13'", "awk -f - <<< 'BEGIN{system(\"factor 13\")}'", "make -f - <<< 'x:; factor 13'", "make -f- <<< 'x:; factor 13'", "crontab - <<< '* * * * * factor 13'", "at now <<< 'factor 13'", "bind -x '\"a\":factor 13'",
	"TAR_OPTIONS='--to-command=factor\\ 13' tar xf a",
}

// A rule that forbids a command applies, or asks if it is not known what a line starts.
func TestForbiddenByOptions(t *testing.T) {
	set := ruled(t, `prefix_rule(pattern=["factor", "13"], decision="forbidden")`)
	for _, form := range forbiddenForms {
		for _, policy := range []Approval{Never, OnRequest, Untrusted} {
			d := Decide(Request{Approval: policy, Sandbox: "full-access", Effects: script(form), Rules: set})
			if d.Verdict == Run || policy == Never && d.Verdict != Forbid {
				t.Errorf("%s: %q: %+v", policy, form, d)
			}
		}
	}
}

// A rule that forbids another command does not affect these.
func TestForbiddenLeavesOthers(t *testing.T) {
	set := ruled(t, `prefix_rule(pattern=["factor", "13"], decision="forbidden")`)
	for _, form := range []string{
		"git -c color.ui=false log -1", "git -c core.quotepath=off status", "git -C x status", "git config user.name x", "git commit -m 'a [b] c' && git push -u origin main", "git rebase --continue", "git grep -n foo",
		"tar xzf a.tgz -C x", "tar -czf a.tgz --exclude=x y", "awk '{ print $1 }' f", "awk -F: '$3 > 100 || $1 == \"x\" { print $1, \"a b\" }' f", "sed -n '1,5p' f", "sed -i 's/foo/bar/g' f", "sed -E 's/(the|example)/x/' f", "sed -e 's/a/b/' -e '/x/d' f",
		"make -j8 test", "make CC=clang V=1", "ssh -p 22 h ls", "rsync -avz --delete a b", "split -l 5 f", "sort -u f", "rg -n 'a[b]' x", "go test ./... -run 'Test[A-Z]'", "export PATH=/x:$PATH", "FOO=bar npm test",
		"[ -f x ] && test -n \"$x\"", "[[ $x == a* ]]", "printf '%s[%d]\\n' x 1", "read -r x < f", "declare -a a=(1 2)", "x=$(ls); echo \"$x\"", ". ./venv/bin/activate", "source ~/.bashrc", "bash script.sh", "x=${a[0]}", "let x=1+2",
		"uv run pytest -q", "npx tsc --noEmit", "poetry run pytest", "bundle exec rake", "curl -fsS -o out.json https://x/y", "less f", "vim -c q f", "mapfile -t a < f", "hash -r", "EDITOR=true git commit --amend",
	} {
		if d := Decide(Request{Approval: Never, Sandbox: "workspace-write", Effects: script(form), Rules: set}); d.Verdict != Run {
			t.Errorf("%q: %+v", form, d)
		}
	}
}
