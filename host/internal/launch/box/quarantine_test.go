//go:build linux

package box_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/host/internal/launch"
	"github.com/gantry-agent/gantry/host/internal/launch/box"
)

// write writes a file in the workspace as the user.
func (w *world) write(path, text string) {
	w.t.Helper()
	p := filepath.Join(w.ws, path)
	if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
		w.t.Fatal(err)
	}
	if err := os.WriteFile(p, []byte(text), 0o755); err != nil {
		w.t.Fatal(err)
	}
}

// nestedAttacks are attempts to have something executed later by whoever works below the first level of the workspace. gone must
// not exist afterwards, kept must be unchanged.
var nestedAttacks = []struct {
	name, do   string
	says       string // of the output; empty: it may even seem to work
	gone, kept []string
}{
	{"a hook of a repository that was there", `echo evil > lib/.git/hooks/post-merge`, "Read-only file system", []string{"lib/.git/hooks/post-merge"}, nil},
	{"its settings", `echo '[core] fsmonitor = evil' >> lib/.git/config`, "Read-only file system", nil, []string{"lib/.git/config"}},
	{"its settings by another file", `cp lib/.git/config c && echo evil >> c && mv -f c lib/.git/config`, "busy", nil, []string{"lib/.git/config"}},
	{"its settings by another repository", `mv lib/.git lib/old; mkdir -p lib/.git/hooks lib/.git/objects lib/.git/refs; echo ref: refs/heads/x > lib/.git/HEAD; printf '[core]\n\tfsmonitor = evil\n' > lib/.git/config; echo evil > lib/.git/hooks/post-merge`, "",
		[]string{"lib/.git/hooks/post-merge"}, nil},
	{"a repository with a hook", `mkdir -p new/.git/hooks; echo evil > new/.git/hooks/post-checkout; chmod +x new/.git/hooks/post-checkout`, "", []string{"new/.git/hooks/post-checkout"}, nil},
	{"a hook that is a link", `mkdir -p new/.git/hooks; ln -s ../../../evil.sh new/.git/hooks/post-checkout`, "", []string{"new/.git/hooks/post-checkout"}, nil},
	{"a folder of hooks that is a link", `mkdir -p h new/.git; echo evil > h/post-checkout; ln -s ../../h new/.git/hooks`, "", []string{"new/.git/hooks"}, nil},
	{"a repository that lies elsewhere", `mkdir -p sub x/hooks; echo evil > x/hooks/post-checkout; echo "gitdir: ../x" > sub/.git`, "", []string{"x/hooks/post-checkout"}, nil},
	{"the same by a link", `mkdir -p sub x/hooks; echo evil > x/hooks/post-checkout; ln -s ../x sub/.git`, "", []string{"x/hooks/post-checkout"}, nil},
	{"a repository without files", `mkdir -p bare/objects bare/refs bare/hooks; echo ref: refs/heads/x > bare/HEAD; echo evil > bare/hooks/post-update`, "", []string{"bare/hooks/post-update"}, nil},
	{"one of a submodule", `mkdir -p new/.git/modules/m/objects new/.git/modules/m/refs new/.git/modules/m/hooks; echo x > new/.git/modules/m/HEAD; echo evil > new/.git/modules/m/hooks/post-checkout`, "",
		[]string{"new/.git/modules/m/hooks/post-checkout"}, nil},
	{"settings of an agent", `mkdir -p deep/er/.codex && echo evil > deep/er/.codex/config.toml`, "", []string{"deep/er/.codex"}, nil},
	{"settings of this one", `mkdir -p deep/.gantry && echo evil > deep/.gantry/gantry.hcl`, "", []string{"deep/.gantry"}, nil},
	{"a link to settings", `mkdir -p deep s && echo evil > s/x && ln -s ../s deep/.agents`, "", []string{"deep/.agents"}, nil},
	{"settings that were there", `echo evil > app/.codex/config.toml`, "Read-only file system", nil, []string{"app/.codex/config.toml"}},
	{"a new time for the folder", `mkdir -p a/b/.codex; touch -d 2001-01-01 a/b a`, "", []string{"a/b/.codex"}, nil},
	{"in a folder that was moved", `mkdir -p a/.codex && mv a b`, "", []string{"a/.codex", "b/.codex"}, nil},
	{"a repository that is the workspace", `mkdir objects refs hooks; echo ref: refs/heads/x > HEAD; echo evil > hooks/post-checkout`, "", []string{"hooks/post-checkout"}, nil},
	{"a repository whose parts are links", `mkdir -p s/objects s/refs bare/hooks; ln -s ../s/objects ../s/refs bare; ln -s ../s/h bare/HEAD; echo evil > bare/hooks/post-checkout`, "",
		[]string{"bare/hooks/post-checkout"}, nil},
	{"a repository that shares another's hooks", `mkdir -p sub x s/hooks; echo gitdir: ../x > sub/.git; echo ../s > x/commondir; echo evil > s/hooks/post-checkout`, "", []string{"s/hooks/post-checkout"}, nil},
	{"the same without files", `mkdir -p x s/hooks; echo ref: refs/heads/x > x/HEAD; echo ../s > x/commondir; echo evil > s/hooks/post-checkout`, "", []string{"s/hooks/post-checkout"}, nil},
	{"the same by an odd name", `mkdir -p x "x/ s/hooks"; echo ref: refs/heads/x > x/HEAD; printf ' s\000y\n' > x/commondir; echo evil > "x/ s/hooks/post-checkout"`, "", []string{"x/ s/hooks/post-checkout"}, nil},
	{"the same by way of a link", `mkdir -p x o/d o/s/hooks; ln -s ../o/d x/l; echo ref: refs/heads/x > x/HEAD; echo l/../s > x/commondir; echo evil > o/s/hooks/post-checkout`, "", []string{"o/s/hooks/post-checkout"}, nil},
	{"the same with the workspace", `mkdir -p sub/.git hooks; echo ../.. > sub/.git/commondir; echo evil > hooks/post-checkout`, "", []string{"hooks/post-checkout"}, nil},
	{"in a folder that can't be listed", `mkdir -p shut/r/.git/hooks; echo evil > shut/r/.git/hooks/post-checkout; chmod 311 shut`, "", []string{"shut/r/.git/hooks/post-checkout"}, nil},
	{"in hooks that can't be listed", `mkdir -p r/.git/hooks; echo evil > r/.git/hooks/post-checkout; chmod 311 r/.git/hooks`, "", []string{"r/.git/hooks/post-checkout"}, nil},
	{"in a folder that could not be listed", `mkdir closed/.codex 2>/dev/null; mkdir deep; mkdir deep/.codex`, "", []string{"closed/.codex", "deep/.codex"}, nil},
	{"settings of Mercurial", `mkdir -p hg/.hg; echo '[hooks]' > hg/.hg/hgrc`, "", []string{"hg/.hg/hgrc"}, nil},
	{"settings of Mercurial that were there", `echo evil >> old/.hg/hgrc`, "Read-only file system", nil, []string{"old/.hg/hgrc"}},
	{"settings at the top", `mkdir .codex && echo evil > .codex/config.toml; echo x > .agents; mkdir .aws; ln -s ../out .gantry`, "", []string{".codex", ".agents", ".aws", ".gantry"}, nil},
	{"a repository hidden in another", `mkdir -p new/.git/objects/x/objects new/.git/objects/x/refs new/.git/objects/x/hooks; echo ref: refs/heads/x > new/.git/objects/x/HEAD; echo evil > new/.git/objects/x/hooks/post-checkout`, "",
		[]string{"new/.git/objects/x/hooks/post-checkout"}, nil},
	{"settings of Sapling", `mkdir .sl s _darcs s/.sl _darcs/prefs; echo evil | tee .sl/config s/.sl/config > _darcs/prefs/defaults`, "", []string{".sl/config", "s/.sl/config", "_darcs/prefs/defaults"}, nil},
	{"programs of repo's", `mkdir -p .repo/repo; echo evil > .repo/repo/main.py`, "", []string{".repo/repo/main.py"}, nil},
	{"programs of repo's that were there", `echo evil > r/.repo/repo/main.py`, "Read-only file system", nil, []string{"r/.repo/repo/main.py"}},
	{"names that are odd", "mkdir -p \"$(printf 'a\\nb\\377')/.codex\"", "", []string{"a\nb\xff/.codex"}, nil},
}

func TestExecutedFilesAreQuarantined(t *testing.T) {
	t.Parallel()
	for _, a := range nestedAttacks {
		t.Run(a.name, func(t *testing.T) {
			t.Parallel()
			w := prepared(t)
			w.write("lib/.git/HEAD", "ref: refs/heads/main\n")
			w.write("lib/.git/config", "[core]\n\tbare = false\n")
			w.write("lib/.git/hooks/pre-commit", "as it was")
			w.write("app/.codex/config.toml", "as it was")
			w.write("old/.hg/hgrc", "as it was")
			w.write("r/.repo/repo/main.py", "as it was")
			w.write("closed/file", "as it was")
			if err := os.Chmod(filepath.Join(w.ws, "closed"), 0o311); err != nil {
				t.Fatal(err)
			}
			w.write("evil.sh", "evil")
			before := map[string]string{}
			for _, p := range a.kept {
				b, err := os.ReadFile(filepath.Join(w.ws, p))
				if err != nil {
					t.Fatal(err)
				}
				before[p] = string(b)
			}
			out, _ := w.sh(a.do)
			if !strings.Contains(out, a.says) {
				t.Errorf("said %q, want %q", out, a.says)
			}
			for _, p := range a.gone {
				if _, err := os.Lstat(filepath.Join(w.ws, p)); err == nil {
					t.Errorf("%s is there", p)
				}
			}
			for p, text := range before {
				if b, err := os.ReadFile(filepath.Join(w.ws, p)); err != nil || string(b) != text {
					t.Errorf("%s is %q (%v), was %q", p, b, err, text)
				}
			}
			if a.says == "" && len(w.moved()) == 0 {
				t.Error("nobody was told")
			}
			for _, m := range w.moved() {
				if _, err := os.Lstat(m.To); err != nil {
					t.Errorf("%s was moved to %s, which is not there: %v", m.From, m.To, err)
				}
			}
		})
	}
}

// Only the user may create setuid programs.
func TestSetuidBitIsRemoved(t *testing.T) {
	t.Parallel()
	w := prepared(t)
	w.write("old", "#!/bin/sh\n")
	w.write("changed", "#!/bin/sh\n")
	for _, name := range []string{"old", "changed"} {
		if err := os.Chmod(filepath.Join(w.ws, name), 0o755|os.ModeSetuid); err != nil {
			t.Fatal(err)
		}
	}
	w.write("plain", "#!/bin/sh\n")
	if out, _ := w.sh(`chmod 4755 plain`); !strings.Contains(out, "Operation not permitted") {
		t.Errorf("said %q", out)
	}
	w.sh(`mkdir bin shared; python3 -c 'import os; os.open("bin/mine", os.O_CREAT|os.O_WRONLY, 0o4755)'; ln bin/mine other; cp /bin/true group; chmod 2755 group; chmod 2775 shared; chmod 2711 changed`)
	const special = os.ModeSetuid | os.ModeSetgid
	for name, want := range map[string]os.FileMode{
		"old": 0o755 | os.ModeSetuid, "changed": 0o711, "plain": 0o755, "bin/mine": 0o755, "other": 0o755, "group": 0o755, "shared": os.ModeDir | os.ModeSetgid | 0o775,
	} {
		if info, err := os.Stat(filepath.Join(w.ws, name)); err != nil || info.Mode()&(special|os.ModeDir|0o777) != want {
			t.Errorf("%s is %v (%v), want %v", name, info.Mode(), err, want)
		}
	}
	told := map[string]bool{}
	for _, m := range w.moved() {
		told[filepath.Base(m.From)] = m.Changed && m.Why != ""
	}
	if !told["mine"] || !told["group"] || !told["changed"] || told["old"] || told["shared"] {
		t.Errorf("told of %v", w.moved())
	}
}

// A person who makes the whole home folder writable has not meant the startup files in it.
func TestStartupFilesStay(t *testing.T) {
	t.Parallel()
	w := prepared(t)
	home := filepath.Join(filepath.Dir(w.ws), "userhome")
	w.change = func(g *launch.Grant) { g.WritableRoots = append(g.WritableRoots, home) }
	for name, text := range map[string]string{".bashrc": "as it was", ".config/git/config": "as it was", "dotfiles/zshrc": "as it was", ".config/other/x": "as it was"} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(home, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(home, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("dotfiles/zshrc", filepath.Join(home, ".zshrc")); err != nil {
		t.Fatal(err)
	}
	out, _ := w.sh(`cd ../userhome; for f in .bashrc .config/git/config .config/git/hook .zshrc .profile .gitconfig .config/fish/config.fish .config/other/x; do mkdir -p $(dirname $f); echo evil >> $f; done
mv .bashrc b; rm -f .zshrc; ln -s b .zshenv`)
	if strings.Count(out, "Read-only file system") != 4 {
		t.Errorf("said %q", out)
	}
	for name, want := range map[string]string{".bashrc": "as it was", ".config/git/config": "as it was", "dotfiles/zshrc": "as it was", ".config/other/x": "as it wasevil\n"} {
		if b, err := os.ReadFile(filepath.Join(home, name)); err != nil || string(b) != want {
			t.Errorf("%s is %q, %v", name, b, err)
		}
	}
	for _, name := range []string{".config/git/hook", ".profile", ".gitconfig", ".config/fish", ".zshenv"} {
		if _, err := os.Lstat(filepath.Join(home, name)); err == nil {
			t.Errorf("%s is there", name)
		}
	}
	if len(w.moved()) != 4 {
		t.Errorf("moved %+v", w.moved())
	}
}

// Every startup file is read-only if it exists, and does not exist afterwards if it did not.
func TestStartupFilesAreReadOnly(t *testing.T) {
	t.Parallel()
	names := []string{
		".ssh/config", ".ssh/authorized_keys", ".ssh/rc", ".docker/config.json", ".docker/cli-plugins/x", ".kube/config", ".npmrc", ".cargo/env", ".cargo/bin/x", ".cargo/config.toml",
		".nvm/nvm.sh", ".oh-my-zsh/oh-my-zsh.sh", ".pyenv/shims/python", "usercustomize.py", ".local/lib/python3.11/site-packages/usercustomize.py", ".bashrc", ".gitconfig", ".local/bin/ls",
		".config/Code/User/tasks.json", ".claude/settings.json", ".vim/plugin/x.vim", ".config/fish/config.fish", ".gradle/init.gradle", ".gnupg/gpg-agent.conf", ".config/gh/config.yml",
	}
	for _, root := range []string{"userhome", "."} {
		for _, there := range []bool{true, false} {
			w := newWorld(t)
			home := filepath.Join(filepath.Dir(w.ws), "userhome")
			w.make("userhome/work")
			w.change = func(g *launch.Grant) {
				g.WritableRoots = append(g.WritableRoots, filepath.Join(filepath.Dir(w.ws), root))
			}
			if root == "." {
				w.change = func(g *launch.Grant) { g.WritableRoots = []string{home} }
			}
			var do strings.Builder
			for _, name := range names {
				if there {
					w.write("../userhome/"+name, "as it was")
				}
				do.WriteString("mkdir -p $(dirname " + name + "); echo evil > " + name + "; echo evil > new; mv -f new " + name + "\n")
			}
			w.sh("cd " + home + "\n" + do.String())
			for _, name := range names {
				b, err := os.ReadFile(filepath.Join(home, name))
				if there && string(b) != "as it was" || !there && err == nil {
					t.Errorf("%s in %s, there before %v: %q, %v", name, root, there, b, err)
				}
			}
		}
	}
}

func TestHarmlessSettingsStay(t *testing.T) {
	t.Parallel()
	w := prepared(t)
	w.sh(`mkdir -p n/.git; printf '[core]\n\tbare = false\n\tworktree = '$OUT'\n\tworktree = ../../..\n\tworktree = ..\n\tfsmonitor = evil\n[alias]\n\tst = !evil\n[user]\n\tname = A B\n' > n/.git/config`)
	b, err := os.ReadFile(filepath.Join(w.ws, "n/.git/config"))
	if want := "[core]\n\tbare = false\n\tworktree = ..\n[user]\n\tname = A B\n"; err != nil || string(b) != want {
		t.Errorf("settings are %q (%v), want %q", b, err, want)
	}
	if m := w.moved(); len(m) != 1 || m[0].To != m[0].From+".quarantined" || m[0].Why == "" {
		t.Errorf("moved %+v", m)
	}
}

// What git itself creates when a repository is cloned, initialised or split stays.
func TestOrdinaryRepositoriesStay(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("git is missing")
	}
	w := prepared(t)
	out, exit := w.sh(`set -e; export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b
git init -q one; cd one; git config user.name "A B"; echo x > x; git add x; git commit -qm x; git branch other; cd ..
git clone -q one two; cd two; git checkout -qb mine; git worktree add -q ../three; cd ..; git clone -q --bare one four.git`)
	if exit.Code != 0 || len(w.moved()) > 0 {
		t.Fatalf("exit %d, %q, moved %+v", exit.Code, out, w.moved())
	}
	if out, exit := w.sh(`cd two && echo y > y && git add y && git -c user.name=a -c user.email=a@b commit -qm y && git push -q origin mine && git log --oneline | wc -l`); exit.Code != 0 || out != "2" {
		t.Errorf("exit %d, %q", exit.Code, out)
	}
}

// Existing repositories stay, wherever they are moved.
func TestExistingRepositoriesStay(t *testing.T) {
	t.Parallel()
	w := prepared(t)
	w.write("lib/.git/HEAD", "ref: refs/heads/main\n")
	w.write("lib/.git/config", "[alias]\n\tx = !ls\n")
	w.write("lib/.git/hooks/pre-commit", "as it was")
	w.write("app/.codex/config.toml", "as it was")
	if out, exit := w.sh(`mv lib lib2 && mv app app2 && echo done`); out != "done" || exit.Code != 0 {
		t.Fatalf("exit %d, %q", exit.Code, out)
	}
	for _, p := range []string{"lib2/.git/config", "lib2/.git/hooks/pre-commit", "app2/.codex/config.toml"} {
		if _, err := os.Lstat(filepath.Join(w.ws, p)); err != nil {
			t.Error(err)
		}
	}
	if m := w.moved(); len(m) > 0 {
		t.Errorf("moved %+v", m)
	}
}

// moved returns what was moved aside so far.
func (w *world) moved() []box.Moved {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.aside)
}

func (w *world) hear(owner launch.Owner, moved []box.Moved, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.aside = append(w.aside, moved...)
	if len(moved) > 0 {
		select {
		case w.heard <- struct{}{}:
		default:
		}
	}
	switch {
	case err != nil && w.lenient:
		w.failed = append(w.failed, err)
	case err != nil:
		w.t.Error(owner, err)
	}
}

// What a person allowed by name can be created, and nothing else.
func TestOpenedFilesCanBeCreated(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ opened, root, beside string }{
		{".agents/x", ".", ""},
		{".git/hooks/x", ".git/hooks", ".git/config"},
		{".git/x", ".git", ".codex/x"},
		{"lib/.git/hooks/x", "lib/.git/hooks", "lib/.git/config"},
		{"deep/.codex/x", "deep", "deep/.gantry/x"},
		{"app/.codex/x", "app/.codex", "app/.agents/x"},
	} {
		t.Run(tc.opened, func(t *testing.T) {
			t.Parallel()
			w := prepared(t)
			w.write("lib/.git/HEAD", "ref: refs/heads/main\n")
			w.write("lib/.git/config", "[core]\n")
			w.write("lib/.git/hooks/pre-commit", "as it was")
			w.write("app/.codex/config.toml", "as it was")
			w.write("deep/file", "")
			spec := w.spec(`mkdir -p $(dirname "$1") && echo x > "$1"; test -z "$2" || { mkdir -p $(dirname "$2"); echo evil >> "$2"; }; exit 0`)
			spec.Argv = append(spec.Argv, "sh", tc.opened, tc.beside)
			spec.Grant.WritableRoots = append(spec.Grant.WritableRoots, filepath.Join(w.ws, tc.root))
			spec.Grant.Opened = []string{filepath.Join(w.ws, tc.opened)}
			p, err := w.launcher.Spawn(t.Context(), spec)
			if err != nil {
				t.Fatal(err)
			}
			<-p.Gone()
			if b, err := os.ReadFile(filepath.Join(w.ws, tc.opened)); err != nil || string(b) != "x\n" {
				t.Errorf("it is %q: %v", b, err)
			}
			if b, err := os.ReadFile(filepath.Join(w.ws, tc.beside)); err == nil && strings.Contains(string(b), "evil") {
				t.Errorf("%s is there", tc.beside)
			}
		})
	}
}
