//go:build linux

package box_test

import (
	"os/exec"
	"testing"
)

const makesRepository = `repo() { mkdir -p $1/objects $1/refs $1/hooks; echo ref: refs/heads/x > $1/HEAD; echo evil > $1/hooks/post-checkout; chmod +x $1/hooks/post-checkout; }; `

// hidden are attempts to have a file overlooked: commands of one thread, and a shell test for the file afterwards.
var hidden = []struct {
	name  string
	do    []string
	found string
}{
	{"in a folder without any right, given back by the next command", []string{makesRepository + `mkdir s; chmod 000 s; chmod 700 s; mkdir s/r; repo s/r/.git; chmod 000 s`, `chmod 755 s`}, `ls s/r/.git/hooks/post-checkout`},
	{"the same, some commands later", []string{makesRepository + `mkdir -p s/r; repo s/r/.git; chmod 000 s`, `true`, `chmod 755 s`, `true`}, `ls s/r/.git/hooks/post-checkout`},
	{"in a folder that can be listed and not entered", []string{makesRepository + `mkdir -p s/r; repo s/r/.git; chmod 444 s`, `chmod 755 s`}, `ls s/r/.git/hooks/post-checkout`},
	{"in a repository without any right", []string{makesRepository + `mkdir -p s/r; repo s/r/.git; chmod 0 s/r/.git`}, `chmod 755 s/r/.git; ls s/r/.git/hooks/post-checkout`},
	{"in hooks without any right", []string{makesRepository + `mkdir -p s/r; repo s/r/.git; chmod 0 s/r/.git/hooks`}, `chmod 755 s/r/.git/hooks; ls s/r/.git/hooks/post-checkout`},
	{"in hooks that can be listed and not entered", []string{makesRepository + `mkdir -p s/r; repo s/r/.git; chmod 444 s/r/.git/hooks`}, `chmod 755 s/r/.git/hooks; ls s/r/.git/hooks/post-checkout`},
	{"in a repository without files, without any right", []string{makesRepository + `repo b; chmod 0 b`, `chmod 755 b`}, `ls b/hooks/post-checkout`},
	{"Mercurial's folder as a link", []string{`mkdir -p s x; echo evil > x/hgrc; ln -s ../x s/.hg`}, `ls s/.hg/hgrc`},
	{"Sapling's folder as a link", []string{`mkdir -p s x; echo evil > x/config; ln -s ../x s/.sl`}, `ls s/.sl/config`},
	{"repo's folder as a link", []string{`mkdir -p s x/repo; echo evil > x/repo/main.py; ln -s ../x s/.repo`}, `ls s/.repo/repo/main.py`},
	{"a link in the folder of Darcs", []string{`mkdir -p s/_darcs x; echo evil > x/defaults; ln -s ../../x s/_darcs/prefs`}, `ls s/_darcs/prefs/defaults`},
	{"a link in the folder of Jujutsu", []string{`mkdir -p s/.jj x; echo evil > x/config.toml; ln -s ../../x s/.jj/repo`}, `ls s/.jj/repo/config.toml`},
	{"a file that says where Jujutsu's repository lies", []string{`mkdir -p s/.jj x/store; echo evil > x/config.toml; printf ../../x > s/.jj/repo`}, `[ -f s/.jj/repo ] && [ -f x/config.toml ]`},
	{"a link in the folder of Bazaar", []string{`mkdir -p s/.bzr x; echo evil > x/branch.conf; ln -s ../../x s/.bzr/branch`}, `ls s/.bzr/branch/branch.conf`},
	{"Mercurial's folder as a link at the top", []string{`mkdir -p x; echo evil > x/hgrc; ln -s x .hg`}, `ls .hg/hgrc`},
	{"a hook at a path that is longer than any may be", []string{makesRepository + `d=$(printf 'd%.0s' $(seq 200)); for i in $(seq 20); do mkdir $d; cd $d; done; while :; do p=$(pwd -P); l=${#p}; [ $l -lt 4075 ] || break; mkdir e; cd e; done; repo .git; pwd | wc -c`}, `find . -path '*/hooks/post-checkout' -execdir [ -e ../HEAD ] \; -print | grep .`},
	{"a repository at a path that is nearly as long", []string{makesRepository + `d=$(printf 'd%.0s' $(seq 200)); for i in $(seq 25); do mkdir $d; cd $d; done; repo .git; repo bare; mkdir .codex`}, `find . -path '*/hooks/post-checkout' -execdir [ -e ../HEAD ] \; -print | grep .`},
	{"a program with its owner's rights in what is moved aside", []string{`mkdir -p d/.codex; python3 -c 'import os;os.umask(0);os.open("d/.codex/p",os.O_CREAT|os.O_WRONLY,0o6755)'`, `true`}, `find d -perm /6000 -type f | grep .`},
	{"a program with its owner's rights in Mercurial's folder", []string{`mkdir -p d/.hg/store; python3 -c 'import os;os.umask(0);os.open("d/.hg/store/p",os.O_CREAT|os.O_WRONLY,0o6755)'`, `true`}, `find d -perm /6000 -type f | grep .`},
	{"a repository in Mercurial's folder", []string{makesRepository + `mkdir -p d/.hg; repo d/.hg/r`}, `ls d/.hg/r/hooks/post-checkout`},
	{"the git repository of one of Jujutsu's", []string{makesRepository + `mkdir -p d/.jj/repo/store; repo d/.jj/repo/store/git; printf '[core]\n\tfsmonitor = evil\n' > d/.jj/repo/store/git/config`}, `ls d/.jj/repo/store/git/hooks/post-checkout`},
	{"a repository in the folder of Darcs", []string{makesRepository + `mkdir -p d/_darcs; repo d/_darcs/r/.git`}, `ls d/_darcs/r/.git/hooks/post-checkout`},
	{"settings of an agent in Mercurial's folder", []string{`mkdir -p d/.hg/x/.codex; echo evil > d/.hg/x/.codex/c`}, `ls d/.hg/x/.codex/c`},
	{"a repository in settings that are moved aside", []string{makesRepository + `mkdir -p d/.codex/.agents/.codex; repo d/.codex/.agents/.codex/r`}, `find d -name post-checkout | grep .`},
	{"the same at a long path", []string{makesRepository + `d=$(printf 'd%.0s' $(seq 200)); for i in $(seq 19); do mkdir $d; cd $d; done; repo .git; repo bare`}, `find . -path '*/hooks/post-checkout' -execdir [ -e ../HEAD ] \; -print | grep .`},
}

func TestHiddenFilesAreQuarantined(t *testing.T) {
	t.Parallel()
	for _, a := range hidden {
		t.Run(a.name, func(t *testing.T) {
			t.Parallel()
			w := bare(t)
			w.removable()
			for _, do := range a.do {
				w.sh(do)
			}
			look := exec.CommandContext(t.Context(), "/bin/sh", "-c", a.found)
			look.Dir = w.ws
			if out, err := look.CombinedOutput(); err == nil {
				t.Errorf("it is there: %.300s", out)
			}
			if len(w.moved()) == 0 {
				t.Error("it was not said")
			}
			w.runsOn()
		})
	}
}

// The second workspace of a Jujutsu repository leads to the folder of the first.
func TestJujutsuWorkspacesStay(t *testing.T) {
	t.Parallel()
	w := bare(t)
	if out, exit := w.sh(`mkdir -p a/.jj/repo/store b/.jj; printf ../../a/.jj/repo > b/.jj/repo`); exit.Code != 0 {
		t.Fatalf("%d, %q", exit.Code, out)
	}
	if m := w.moved(); len(m) > 0 {
		t.Errorf("moved %+v", m)
	}
}
