package command

import "testing"

// Words that a rule for the first words does not allow.
func TestReaches(t *testing.T) {
	for _, tc := range []struct {
		script string
		n      int
		want   bool
	}{
		{"git fetch origin", 2, false}, {"git fetch --upload-pack=x", 2, true}, {"git fetch --upload-pack x", 2, true}, {"git fetch --up=x", 2, true},
		{"git -c alias.x=!id x", 1, true}, {"git -calias.x=!id x", 1, true}, {"git switch -c new", 2, false}, {"git clone -c a=b u", 2, true}, {"git clone -u x u", 2, true},
		{"git push -u origin main", 2, false}, {"git rebase -x id", 2, true}, {"git clean -x", 2, false}, {"git grep -Ovi x", 2, true}, {"git pull ext::x", 2, true},
		{"git submodule foreach id", 2, true}, {"git bisect run id", 2, true}, {"git log --output=f", 2, true}, {"git log --oneline", 2, false}, {"git pull $x", 2, true},
		{"find . -name x", 1, false}, {"find . -exec id ;", 1, true}, {"find . -ok id ;", 2, true}, {"find . -delete", 2, true}, {"fd x -x id", 1, true}, {"fdfind x -X id", 1, true},
		{"tar -xf a", 1, false}, {"tar xf a", 1, false}, {"tar xIf id a", 1, true}, {"tar -I id -xf a", 1, true}, {"tar xf a --to-command=id", 1, true}, {"tar xf a --checkpoint-ac=exec=id", 1, true},
		{"rsync -a a b", 1, false}, {"rsync -ae id a b", 1, true}, {"rsync --rsh=id a b", 1, true}, {"ssh host ls", 2, false}, {"ssh host -oProxyCommand=id", 2, true}, {"scp -S id a b:", 1, true},
		{"awk -F, '{print}' f", 1, true}, {"awk -F, '{print}' f", 3, false}, {"awk -F, '{print}' -f x", 3, true}, {"sed -n 1p f", 1, true}, {"sed -n 1p f", 2, true}, {"sed -n 1p f", 3, false},
		{"sed -n 1p f --expr=1e", 3, true}, {"vim -c '!id' f", 1, true}, {"vim '+!id' f", 1, true}, {"vim f", 1, false}, {"/usr/bin/find . -exec id", 1, true}, {"sort --comp=id f", 1, true},
		{"go test -exec id", 2, true}, {"go test ./...", 2, false}, {"make -j2", 1, false}, {"ls -exec", 1, false}, {"find", 1, false}, {"rg --pre id x", 1, true},
	} {
		commands, ok := Plain(tc.script)
		if !ok {
			commands = Extract([]string{"bash", "-c", tc.script}).Commands[1:2]
		}
		if got := Reaches(commands[0], tc.n); got != tc.want {
			t.Errorf("%q behind %d: %v", tc.script, tc.n, got)
		}
	}
}

// For each listed program: options in every spelling, values that are programs or paths, and unknown options.
func TestReachesFurther(t *testing.T) {
	for _, tc := range []struct {
		n       int
		scripts []string
	}{
		{2, []string{"go build -toolexec=./x", "go build -toolexec ./x", "go build --toolexec=./x", "go vet -vettool=./x ./...", "go test -exec=./x", "go test --exec=./x ./...", "go build -o /etc/x", "go build -ldflags=-extld=./x",
			"go test -coverprofile=/x", "go build -overlay=x", "go build -C /x", "go env -w GOFLAGS=x", "go build -pkgdir=x", "go build -unknown"}},
		{1, []string{"printf -v 'a[$(id)]' x", "printf '-va[$(id)]' x", "test -v 'a[$(id)]'", "[ -v 'a[$(id)]' ]", "read 'a[$(id)]'", "unset 'a[$(id)]'", "test 'a[`id`]' -eq 1"}},
		{1, []string{"sort -o /x f", "sort -no/x f", "sort --output=/x f", "sort --out /x f", "sort -T /x f", "sort --compress-program=id f", "sort --unknown f"}},
		{1, []string{"uniq a b", "uniq -c a b", "uniq -f 1 a b", "split -l 5 f /etc/x", "split --filter=id f", "split --fil id f"}},
		{3, []string{"sed -n 1p -i f", "sed -n 1p -i.bak f", "sed -n 1p --in-place f", "sed -n 1p -e 1e f", "sed -n 1p -ni f", "sed -n 1p --in f"}},
		{2, []string{"tar -xf a -C /etc", "tar -xf a --directory=/etc", "tar -xf a -P", "tar -xf a --to-command=id", "tar -xf a --checkpoint-action=exec=id", "tar -xf a --transform=x", "tar -xf a --one-top-level=/x", "tar -xf a -T x"}},
		{1, []string{"tar xCf /etc a", "tar -xC/etc -f a"}},
		{1, []string{"curl -o /x u", "curl -so/x u", "curl -O u", "curl -K x", "curl --config=x u", "curl --output x u", "curl --out x u", "curl --output-dir /x u", "curl -D x u", "curl -c x u", "curl --trace x u", "curl -w '%output{x}' u"}},
		{1, []string{"wget -O /x u", "wget -qO/x u", "wget -P /x u", "wget --directory-prefix=/x u", "wget -e x=y u", "wget -a x u", "wget --warc-file=x u"}},
		{2, []string{"git format-patch -o /x HEAD", "git format-patch -o/x HEAD", "git format-patch --output-directory=/x", "git init /x", "git init --template=x", "git clone u /x", "git difftool --tool=x", "git difftool -t x",
			"git difftool -x id", "git difftool --extcmd=id", "git archive -o x HEAD", "git merge -s x", "git rebase --exec id", "git log --output=x", "git log --unknown", "git worktree add /x", "git grep -O",
			"git daemon --access-hook=x", "git filter-branch --tree-filter id", "git unknown-thing --x", "git push --receive-pack=x", "git pull --upload-p=x"}},
		{1, []string{"git -c core.pager=id log", "git -C /x status", "git --git-dir=/x status", "git filter-branch x", "git daemon", "git --exec-path=x log", "git -p log"}},
		{2, []string{"openssl x509 -engine x", "openssl req -out x", "openssl enc -provider-path x", "openssl req -config x"}},
		{1, []string{"gcc -wrapper id,x f.c", "gcc -B. f.c", "gcc -specs=x f.c", "gcc -fplugin=x f.c", "gcc @x", "gcc -Wl,-x f.c", "gcc -o /x f.c", "gcc-13 -wrapper id f.c", "cc -wrapper id f.c", "clang -Xclang x f.c"}},
		{1, []string{"pytest -p x", "pytest -px", "pytest -vpx", "pytest -c x", "pytest --rootdir=/x", "pytest --junitxml=/x", "pytest --unknown", "pytest -o x=y"}},
		{1, []string{"make SHELL=./x", "make CC=./x", "make --eval=x", "make --ev x", "make -f x", "make -fx", "make -C /x", "make 'SHELL:=./x'", "make MAKEFLAGS=x", "make -kE x"}},
		{1, []string{"less '+!id' f", "less -o/x f", "less --log-file=x f", "sqlite3 db '.shell id'", "sqlite3 db 'select 1'", "sqlite3 -cmd '.shell id' db", "sqlite3 -init x db"}},
		{2, []string{"python3 -V -c x", "python3 -B x.py", "node -v -e x", "perl -w -e x", "python3.12 -V x"}},
		{2, []string{"ssh host -o ProxyCommand=id", "ssh host -oProxyCommand=id", "ssh host -D 80", "ssh host -L x", "find . -fprint /x", "find . -unknown", "find . -execdir id", "awk -F, -f x", "fd x -Hx id", "rg x --pre=id", "rsync -a a b -e id",
			"rsync -a --log-file=x a b", "cargo build --config=x", "cargo build --target-dir=/x", "cargo build -Zx", "npm test --script-shell=x", "npm test --prefix /x", "npm install -g", "cargo build --unknown=x"}},
		// A `--` that is the value of an option does not end the options.
		{2, []string{"go test -run -args -exec ./x .", "go test --run -args -exec=./x ./...", "go vet -tags -args -vettool=./x ./...", "go build -tags -args -toolexec=./x ./..."}},
		{1, []string{"gcc -M -MT x -MF /x f.c", "gcc -MD -MF/x f.c", "gcc -aux-info /x f.c", "gcc '-fmodule-mapper=|./x' f.c", "gcc -fopt-info-all=/x f.c", "gcc -fprofile-note=/x f.c", "clang -fpass-plugin=x f.c",
			"clang -mllvm -load=x f.c", "clang -cc1 -load x f.c", "clang -MJ /x f.c", "clang -serialize-diagnostics /x f.c", "clang -fmodules-cache-path=/x f.c", "cpp -wrapper id f.c", "gfortran -wrapper id f.f",
			"x86_64-linux-gnu-gcc -wrapper id f.c", "arm-none-eabi-gcc-12 -fplugin=x f.c", "ld -plugin x f.o", "nm --plugin x f.o", "ar --plugin=x t f.a"}},
		{2, []string{"git apply --unsafe-paths --directory=/etc f", "git apply --build-fake-ancestor=/x f", "git config --file /x alias.x '!id'", "kubectl get pods --kubeconfig x", "kubectl get --kubeconfig=x pods",
			"helm list --kubeconfig x", "helm template --post-renderer ./x .", "hg log --config extensions.x=x.py", "hg status -R x", "svn diff --diff-cmd ./x", "jj log --config ui.pager=x", "jj diff --tool ./x",
			"tmux ls -F '#(id)'", `tmux ls \; run-shell id`, "tmux display-message -p '#(id)'", "tmux send-keys -t x id Enter", "pip list --python ./x", "pip3 show --python=./x y", "apt-get update -o APT::Update::Pre-Invoke::=id",
			"apt list -c x", "dpkg -l --status-logger=./x", "rpm -q --pipe id x", "rpm -q --eval '%(id)'", "gpg --verify --agent-program ./x f", "ssh-keygen -l -D ./x.so", "ssh-add -l -s ./x.so", "xxd -r f /x"}},
		{1, []string{"psql -d db -c '\\! id'", "psql -f x db", "mysql -e '\\! id' db", "mysql --pager=./x db", "pandoc --filter ./x f", "pandoc --lua-filter=x f", "pandoc -o /x f", "pandoc -t x.lua f", "pdflatex -shell-escape f",
			"latexmk -e 'system(1)'", "latexmk -pdflatex=./x f", "tcpdump -z ./x -w f", "ag --pager ./x y", "bat --pager=./x f", "fzf --preview id", "fzf --bind 'start:execute(id)'", "tree -o /x", "shuf -o /x f", "yq -i .a=1 /x",
			"unzip -d /x f", "ctags --options=x .", "cloc --extract-with=x f", "gs -sOutputFile=%pipe%id f", "dc -e '!id'"}},
	} {
		for _, script := range tc.scripts {
			if c := first(t, script); !Reaches(c, tc.n) {
				t.Errorf("%q behind %d counts as harmless", script, tc.n)
			}
		}
	}
}

// Typical uses of allowed commands.
func TestReachesNothingElse(t *testing.T) {
	for _, tc := range []struct {
		n       int
		scripts []string
	}{
		{2, []string{"go test ./... -run TestX -v -race -count=1 -short -timeout 5m", "go test -run=X -bench=. -benchmem ./...", "go build -trimpath ./...", "go vet ./...", "go mod tidy -v", "go list -m -json all", "go test ./x -args -exec=y", "go test -v -args -exec=y", "go test -run=x ./... -args x", "kubectl get pods -n x -o json", "helm list -A", "hg log -l 5 -p", "svn diff -r 5", "pip list --outdated", "apt list --installed",
			"rpm -qa", "tmux capture-pane -p -t main -S -100", "gpg --verify f.sig f", "dpkg -l x"}},
		{1, []string{"gcc -Wall -Wextra -O2 -g -std=c11 -fPIC -fsanitize=address -fvisibility=hidden -MMD -MP -I. -DX=1 -c f.c", "clang -fcolor-diagnostics -fno-exceptions -E f.c", "nm -D f.o", "xxd -l 16 f", "tree -L 2 -a", "unzip -l f", "yq .a f",
			"x86_64-linux-gnu-gcc -c f.c", "pandoc --version", "psql -l", "pdflatex f.tex", "latexmk -pdf f.tex"}},
		{1, []string{"sort -u f", "sort -k2,2 -t: -n f", "sort -rn", "sort --parallel=4 f", "uniq -c", "uniq -c f", "uniq -f 2 f", "split -l 100 f", "test -f x", "[ -n x ]", "printf '%s' x"}},
		{1, []string{"find . -name '[a]' -type f -mtime -5 -size +10k -not -path x -print0", "rg -n --hidden -g x y", "rg -tgo -C3 x", "fd -e go -t f x", "tar -tzf a", "tar xzf a", "tar -czf a b --exclude=x"}},
		{1, []string{"curl -fsSL u", "curl -X POST -H a:b -d '{}' u", "curl -sS --max-time 5 u", "wget -q u", "wget -c --tries=3 u"}},
		{2, []string{"git log --oneline -n 5 --graph", "git log -5", "git push -u origin main", "git push --force-with-lease origin x", "git commit -m x --no-verify", "git commit -am x", "git status --short --branch", "git diff --stat HEAD~1",
			"git fetch --all --prune --tags", "git pull --rebase origin main", "git pull --ff-only", "git clone --depth 1 u", "git rebase --continue", "git rebase --autostash main", "git checkout -b x", "git switch -c x", "git branch -D x",
			"git stash push -m x", "git tag -a v1 -m x", "git add -A", "git add --patch", "git show --stat", "git remote -v", "git blame -L 1,5 f", "git rev-parse --abbrev-ref HEAD", "git merge --no-ff x", "git worktree list", "git reset --soft HEAD~1",
			"git restore --staged x", "git submodule update --init --recursive", "git cherry-pick -x abc", "git log -p --follow f", "git log -S x"}},
		{1, []string{"make -j8 test", "make -k check V=1", "make install DEBUG=true", "make -n", "gcc -O2 -Wall -c f.c", "pytest -x -q -k name tests", "pytest --maxfail=1 --tb=short -n 4", "pytest --cov=x --cov-report=term", "less -N f"}},
		{2, []string{"cargo build --release", "cargo test -p x -- --nocapture --test-threads=1", "cargo clippy --all-targets -- -D warnings", "npm test -- --watch=false --config=x", "npm install --save-dev x", "npm run build --if-present",
			"pnpm install --frozen-lockfile", "yarn add -D x", "python3 x.py -c --foo", "python3 x.py --output=/x", "ssh host ls -la", "ssh host -p 22 ls", "rsync -avz --delete a b", "openssl x509 -in c -noout -text", "node x.js -e 1"}},
		{3, []string{"python3 -m pytest -p x", "python3 -m x", "sed -n 1p f", "awk -F, '{print}' f", "awk -F: '{print}' -v a=b f"}},
	} {
		for _, script := range tc.scripts {
			if c := first(t, script); Reaches(c, tc.n) {
				t.Errorf("%q behind %d reaches", script, tc.n)
			}
		}
	}
}

// first is the first command of a script.
func first(t *testing.T, script string) Command {
	t.Helper()
	commands, ok := Plain(script)
	if !ok {
		t.Fatalf("%q is not plain", script)
	}
	return commands[0]
}
