//go:build linux

package box_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gantry-agent/gantry/host/internal/launch"
	"github.com/gantry-agent/gantry/host/internal/launch/box"
)

// configured returns a world with a repository, its settings, the user's settings, and the user's PATH.
func configured(t *testing.T, settings, users string, path ...string) *world {
	t.Helper()
	w := newWorld(t)
	w.make("userhome/")
	w.write(".git/HEAD", "ref: refs/heads/main\n")
	w.write(".git/config", "[core]\n\trepositoryformatversion = 0\n"+settings)
	w.write("../userhome/.gitconfig", users)
	for i, p := range path {
		path[i] = strings.ReplaceAll(p, "$WS", w.ws)
	}
	w.confined(t, box.New(box.Config{Home: w.home, UserHome: filepath.Join(filepath.Dir(w.ws), "userhome"), Moved: w.hear, Environ: []string{"PATH=" + strings.Join(append(path, "/usr/bin"), ":")}}))
	return w
}

// named are settings that make git execute something in the working tree, with its path.
var named = map[string]struct {
	settings, users string
	path            []string
	there           []string // what is there and has to stay
	missing         []string // what must not be there afterwards
}{
	"a folder of hooks":           {"[core]\n\thooksPath = .githooks\n", "", nil, []string{".githooks/pre-commit"}, []string{".githooks/pre-push"}},
	"the user's folder of hooks":  {"", "[core]\n\thooksPath = tools/hooks\n", nil, []string{"tools/hooks/pre-commit"}, []string{"tools/hooks/post-checkout"}},
	"husky":                       {"[core]\n\thooksPath = .husky/_\n", "", nil, []string{".husky/_/pre-commit", ".husky/_/h", ".husky/pre-commit"}, []string{".husky/pre-push", ".husky/_/post-merge"}},
	"a folder that is missing":    {"[core]\n\thooksPath = .githooks\n", "", nil, nil, []string{".githooks"}},
	"included settings":           {"[include]\n\tpath = ../.gitconfig\n", "", nil, []string{".gitconfig"}, nil},
	"included when missing":       {"[include]\n\tpath = ../team/gitconfig\n", "", nil, nil, []string{"team/gitconfig"}},
	"included for a branch":       {"[includeIf \"onbranch:evil\"]\n\tpath = ../.gitconfig\n", "", nil, []string{".gitconfig"}, nil},
	"included by the user's":      {"", "[includeIf \"gitdir:~/\"]\n\tpath = ../ws/conf\n", nil, []string{"conf"}, nil},
	"a filter":                    {"[filter \"x\"]\n\tclean = ./tools/clean.sh %f\n\tsmudge = sh tools/smudge\n", "", nil, []string{"tools/clean.sh", "tools/smudge"}, nil},
	"a filter's process":          {"[filter \"x\"]\n\tprocess = python3 tools/process.py\n", "", nil, []string{"tools/process.py"}, nil},
	"a filter that is missing":    {"[filter \"x\"]\n\tclean = ./tools/clean.sh %f\n", "", nil, nil, []string{"tools/clean.sh"}},
	"textconv":                    {"[diff \"x\"]\n\ttextconv = \"./tools/my conv\"\n\tcommand = tools/cmd\n", "", nil, []string{"tools/my conv", "tools/cmd"}, nil},
	"an external diff":            {"[diff]\n\texternal = $PWD/tools/diff\n", "", nil, []string{"tools/diff"}, nil},
	"a merge driver":              {"[merge \"x\"]\n\tdriver = $(git rev-parse --show-toplevel)/tools/merge %O %A\n", "", nil, []string{"tools/merge"}, nil},
	"fsmonitor":                   {"[core]\n\tfsmonitor = tools/monitor\n", "", nil, []string{"tools/monitor"}, nil},
	"an editor":                   {"[core]\n\teditor = env A=b ./tools/editor -w\n[sequence]\n\teditor = ./tools/sequence\n", "", nil, []string{"tools/editor", "tools/sequence"}, nil},
	"a pager":                     {"[core]\n\tpager = ./tools/pager\n[pager]\n\tlog = ./tools/log | less\n", "", nil, []string{"tools/pager", "tools/log"}, nil},
	"ssh":                         {"[core]\n\tsshCommand = ./tools/ssh -i x\n\taskPass = ./tools/ask\n", "", nil, []string{"tools/ssh", "tools/ask"}, nil},
	"gpg":                         {"[gpg]\n\tprogram = ./tools/gpg\n[gpg \"ssh\"]\n\tprogram = ./tools/gpgssh\n", "", nil, []string{"tools/gpg", "tools/gpgssh"}, nil},
	"credentials":                 {"[credential]\n\thelper = !cd tools && ./cred\n[credential \"https://x\"]\n\thelper = \"!f() { . tools/other; }; f\"\n", "", nil, []string{"tools/cred", "tools/other"}, nil},
	"an alias":                    {"[alias]\n\tci = !sh -c './tools/ci && make' -\n", "", nil, []string{"tools/ci"}, nil},
	"an alias of the user's":      {"", "[alias]\n\tci = \"!./tools/ci.py\"\n", nil, []string{"tools/ci.py"}, nil},
	"the other end of a remote":   {"[remote \"o\"]\n\turl = .\n\tuploadpack = ./tools/up\n", "", nil, []string{"tools/up"}, nil},
	"a transport":                 {"[remote \"o\"]\n\turl = ext::./tools/ext %S\n", "", nil, []string{"tools/ext"}, nil},
	"a template":                  {"[init]\n\ttemplateDir = template\n", "", nil, []string{"template/hooks/post-checkout"}, []string{"template/hooks/pre-commit"}},
	"a module":                    {"[core]\n\tfsmonitor = python3 -m tools.monitor\n", "", nil, []string{"tools/monitor.py", "tools/__init__.py"}, []string{"tools/new.py", "tools.py"}},
	"a module beside its option":  {"[core]\n\tfsmonitor = python3 -Bmmonitor\n", "", nil, []string{"monitor.py"}, []string{"monitor/__main__.py"}},
	"a module that is missing":    {"[filter \"x\"]\n\tclean = python3 -u -m cleaner %f\n", "", nil, nil, []string{"cleaner.py", "cleaner/__main__.py"}},
	"a module in an alias":        {"[alias]\n\tx = !python3 -m tool\n", "", nil, []string{"tool/__main__.py"}, []string{"tool.py"}},
	"make in a folder":            {"[filter \"x\"]\n\tclean = make -sC tools clean\n", "", nil, []string{"tools/Makefile"}, []string{"tools/GNUmakefile"}},
	"make in a folder behind -C":  {"[alias]\n\tx = !make -Ctools clean\n", "", nil, []string{"tools/Makefile"}, []string{"tools/makefile"}},
	"make in a folder by its =":   {"[filter \"x\"]\n\tclean = make --directory=tools clean\n", "", nil, []string{"tools/makefile"}, nil},
	"make after cd":               {"[filter \"x\"]\n\tclean = cd tools && make\n", "", nil, []string{"tools/Makefile"}, nil},
	"make":                        {"[filter \"x\"]\n\tclean = make -s x\n", "", nil, []string{"Makefile"}, []string{"GNUmakefile"}},
	"npm in a folder":             {"[filter \"x\"]\n\tclean = npm --prefix tools run -s x\n", "", nil, []string{"tools/package.json"}, nil},
	"go run":                      {"[diff \"x\"]\n\ttextconv = go run ./tools/conv\n", "", nil, []string{"tools/conv/main.go"}, []string{"tools/conv/more.go"}},
	"a folder of node":            {"[diff \"x\"]\n\ttextconv = node tools/conv\n", "", nil, []string{"tools/conv/index.js"}, []string{"tools/conv/package.json"}},
	"a folder of libraries":       {"[diff \"x\"]\n\ttextconv = ruby -Ilib tools/conv.rb\n", "", nil, []string{"tools/conv.rb", "lib/json.rb"}, []string{"lib/more.rb"}},
	"a folder of the user's PATH": {"", "", []string{"$WS/scripts"}, []string{"scripts/tool"}, []string{"scripts/ls"}},
	"a relative one":              {"", "", []string{"scripts"}, []string{"scripts/tool"}, []string{"scripts/ls"}},
	"one that is missing":         {"", "", []string{"$WS/scripts"}, nil, []string{"scripts"}},
}

func TestReferencedFilesAreReadOnly(t *testing.T) {
	t.Parallel()
	for name, tc := range named {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := configured(t, tc.settings, tc.users, tc.path...)
			var do strings.Builder
			for _, p := range tc.there {
				w.write(p, "as it was")
				do.WriteString("echo evil > '" + p + "'; cp file new; mv -f new '" + p + "'; rm -f '" + p + "'\n")
			}
			for _, p := range tc.missing {
				do.WriteString("mkdir -p $(dirname " + p + "); echo evil > " + p + "\n")
			}
			w.write("file", "evil")
			w.sh(do.String())
			for _, p := range tc.there {
				if b, err := os.ReadFile(filepath.Join(w.ws, p)); err != nil || string(b) != "as it was" {
					t.Errorf("%s is %q, %v", p, b, err)
				}
			}
			for _, p := range tc.missing {
				if b, err := os.ReadFile(filepath.Join(w.ws, p)); err == nil && len(b) > 0 {
					t.Errorf("%s is %q", p, b)
				}
			}
			// By way of a folder above, which is no mount.
			if len(tc.there) > 0 {
				p := tc.there[0]
				w.sh("cd " + w.ws + "; d=$(dirname '" + p + "'); [ $d = . ] || { mv $d moved && mkdir -p $d && echo evil > '" + p + "'; }")
				if b, err := os.ReadFile(filepath.Join(w.ws, p)); err == nil && strings.Contains(string(b), "evil") {
					t.Errorf("%s is %q", p, b)
				}
			}
			// The user's own file is none of a command's.
			for _, m := range w.moved() {
				if b, err := os.ReadFile(m.To); err == nil && string(b) == "as it was" {
					t.Errorf("moved %+v", m)
				}
			}
		})
	}
}

func TestTargetsOfLinkedHooksAreReadOnly(t *testing.T) {
	t.Parallel()
	w := configured(t, "", "")
	w.write("scripts/pre-commit", "as it was")
	w.write("shared/post-merge", "as it was")
	w.write("lib/.git/HEAD", "ref: refs/heads/main\n")
	for link, to := range map[string]string{".git/hooks/pre-commit": "../../scripts/pre-commit", ".git/hooks/pre-push": "../../scripts/missing", "lib/.git/hooks": "../../shared"} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(w.ws, link)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(to, filepath.Join(w.ws, link)); err != nil {
			t.Fatal(err)
		}
	}
	w.sh(`echo evil > scripts/pre-commit; echo evil > scripts/missing; echo evil > shared/post-merge; echo evil > shared/new`)
	for _, p := range []string{"scripts/pre-commit", "shared/post-merge"} {
		if b, err := os.ReadFile(filepath.Join(w.ws, p)); err != nil || string(b) != "as it was" {
			t.Errorf("%s is %q, %v", p, b, err)
		}
	}
	for _, p := range []string{"scripts/missing", "shared/new"} {
		if _, err := os.Lstat(filepath.Join(w.ws, p)); err == nil {
			t.Errorf("%s is there", p)
		}
	}
}

// What settings name through a link is elsewhere when the link is replaced, however old the new target is.
func TestLinkToReferencedFile(t *testing.T) {
	t.Parallel()
	for name, settings := range map[string]string{"a folder": "[core]\n\thooksPath = tools/hooks\n", "a program": "[core]\n\tfsmonitor = tools/hooks/pre-commit\n", "the link itself": "[core]\n\thooksPath = tools\n"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := configured(t, settings, "")
			w.write("real/hooks/pre-commit", "as it was")
			w.write("real/pre-commit", "as it was")
			if err := os.Symlink("real", filepath.Join(w.ws, "tools")); err != nil {
				t.Fatal(err)
			}
			w.sh(`mkdir -p evil/hooks && echo evil | tee evil/hooks/pre-commit > evil/pre-commit`)
			for began := time.Now(); time.Since(began) < 100*time.Millisecond; { // until that is old
				w.sh("true")
			}
			w.sh(`rm tools; mv evil tools`)
			path := "tools/hooks/pre-commit"
			if name == "the link itself" {
				path = "tools/pre-commit"
			}
			if b, err := os.ReadFile(filepath.Join(w.ws, path)); err == nil && strings.Contains(string(b), "evil") {
				t.Errorf("%s is %q", path, b)
			}
		})
	}
}

// A repository that a command creates references nothing: its settings are judged themselves.
func TestNewSettingsReferenceNothing(t *testing.T) {
	t.Parallel()
	w := configured(t, "", "")
	w.sh(`mkdir -p r/.git; echo ref: refs/heads/x > r/.git/HEAD; mkdir r/.git/objects r/.git/refs; echo work > r/work.sh; printf '[core]\n\tfsmonitor = ./work.sh\n\thooksPath = .\n' > r/.git/config`)
	if b, err := os.ReadFile(filepath.Join(w.ws, "r/work.sh")); err != nil || string(b) != "work\n" {
		t.Errorf("%q, %v, moved %+v", b, err, w.moved())
	}
}

// Settings of a repository apply below the top of its working tree as well.
func TestSettingsOfTheRepositoryAround(t *testing.T) {
	t.Parallel()
	w := configured(t, "[core]\n\thooksPath = sub/hooks\n[filter \"x\"]\n\tclean = sub/f.sh\n", "")
	w.write("sub/hooks/pre-commit", "as it was")
	w.write("sub/f.sh", "as it was")
	sub := filepath.Join(w.ws, "sub")
	w.change = func(g *launch.Grant) { g.WritableRoots = []string{sub} }
	if out, _ := w.sh(`cd sub; echo evil > hooks/pre-commit; echo evil > hooks/new; echo evil > f.sh; echo x > file && echo done`); strings.Count(out, "Read-only") != 3 || !strings.HasSuffix(out, "done") {
		t.Errorf("%q", out)
	}
}

// Changing files that are not programs, and files that a package manager installs, is everyday work.
func TestOrdinaryFilesAreWritten(t *testing.T) {
	t.Parallel()
	w := configured(t, "[alias]\n\tx = !git add package.json src && make && npm test && python3 -m src && go run ./src\n\tst = status\n[remote \"o\"]\n\turl = ./file\n[user]\n\tname = file\n[core]\n\tpager = less -F\n[blame]\n\tignoreRevsFile = file\n[branch \"m\"]\n\tmerge = src/a.go\n",
		"", "$WS/node_modules/.bin", "$WS/.venv/bin", "$WS", ".", "node_modules/.bin")
	for _, p := range []string{"package.json", "Makefile", "src/a.go", "src/a.py", "file", "less", "status", ".venv/pyvenv.cfg", ".venv/bin/activate", "node_modules/.bin/tsc"} {
		w.write(p, "x")
		if err := os.Chmod(filepath.Join(w.ws, p), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	out, exit := w.sh(`for f in package.json Makefile src/a.go src/a.py file less status .venv/bin/activate .venv/bin/new node_modules/.bin/tsc node_modules/.bin/new new.sh; do echo y > $f && cp $f $f~ && mv $f~ $f || exit 1; done; echo done`)
	if exit.Code != 0 || out != "done" {
		t.Errorf("exit %d, %q", exit.Code, out)
	}
	for _, m := range w.moved() {
		if m.To != "" {
			t.Errorf("moved %+v", m)
		}
	}
}

// A folder of PATH does not count as a virtual environment because of files that a command creates next to it.
func TestFoldersOfPATHAreReadOnly(t *testing.T) {
	t.Parallel()
	w := configured(t, "", "", "$WS/tools/bin")
	w.write("tools/bin/tool", "as it was")
	w.sh(`touch tools/pyvenv.cfg`)
	if out, _ := w.sh(`echo evil > tools/bin/ls`); !strings.Contains(out, "Read-only") {
		t.Errorf("%q", out)
	}
}

// Settings that are written outside while a command is running do not make older files suspicious.
func TestLaterSettings(t *testing.T) {
	t.Parallel()
	w := configured(t, "", "")
	w.write(".githooks/pre-commit", "as it was")
	w.write("tools/f.sh", "as it was")
	for made := time.Now(); time.Since(made) < 100*time.Millisecond; { // until it is older than the clock of files is coarse
		w.sh("true")
	}
	w.between(func() error {
		w.write(".git/config", "[core]\n\thooksPath = .githooks\n[filter \"x\"]\n\tclean = tools/f.sh\n\tsmudge = tools/g.sh\n")
		return nil
	}, "echo evil > tools/g.sh")
	m := w.moved()
	if len(m) != 1 || m[0].From != filepath.Join(w.ws, "tools/g.sh") {
		t.Errorf("moved %+v", m)
	}
}

func TestTooManySettings(t *testing.T) {
	t.Parallel()
	w := configured(t, strings.Repeat("[include]\n\tpath = x\n", 1)+"[include]\n\tpath = deep\n", "")
	w.write(".git/deep", "[include]\n\tpath = deep1\n")
	for i := range 12 {
		w.write(".git/deep"+string(rune('a'+i)), "[include]\n\tpath = deep"+string(rune('b'+i))+"\n")
	}
	w.write(".git/deep1", "[include]\n\tpath = deepa\n")
	if _, err := w.spawn("true"); err == nil || !strings.Contains(err.Error(), "include") {
		t.Errorf("%v", err)
	}
}

// The read-only files are those that git starts: each of these settings runs its file when git does something ordinary.
func TestGitExecutesReadOnlyFiles(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("git is missing")
	}
	for name, tc := range map[string]struct{ settings, file, git string }{
		"a hook":     {"[core]\n\thooksPath = .githooks\n", ".githooks/pre-commit", "commit -q --allow-empty -m x"},
		"an include": {"[include]\n\tpath = ../.gitconfig\n", ".gitconfig", "x"},
		"a monitor":  {"[core]\n\tfsmonitor = ./tools/monitor.sh\n", "tools/monitor.sh", "status"},
		"an alias":   {"[alias]\n\tx = !./tools/x\n", "tools/x", "x"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := configured(t, tc.settings, "")
			if out, err := exec.Command("git", "init", "-q", w.ws).CombinedOutput(); err != nil {
				t.Fatal(string(out))
			}
			content := "#!/bin/sh\ntouch " + w.out + "/ran\n"
			if name == "an include" {
				content = "[alias]\n\tx = !touch " + w.out + "/ran\n"
			}
			run := func() bool {
				cmd := exec.Command("git", append([]string{"-C", w.ws, "-c", "user.name=a", "-c", "user.email=a@b"}, strings.Fields(tc.git)...)...)
				_ = cmd.Run()
				_, err := os.Lstat(filepath.Join(w.out, "ran"))
				return err == nil
			}
			w.write(tc.file, "# nothing\n")
			w.write("evil", content)
			w.sh("cp evil " + tc.file + "; mv evil " + tc.file)
			if run() {
				t.Error("git executes what a command has made")
			}
			w.write(tc.file, content) // as the user, which proves that it would
			if !run() {
				t.Error("git does not execute it at all")
			}
		})
	}
}

// Any number of repositories in a folder is accepted.
func TestManyRepositories(t *testing.T) {
	t.Parallel()
	w := bare(t)
	w.sh(`for i in $(seq 300); do echo m/r$i/.git/objects m/r$i/.git/refs; done | xargs mkdir -p; for i in $(seq 300); do echo ref: refs/heads/x > m/r$i/.git/HEAD; done`)
	w.runsOn()
}

// A relative path in the user's settings names one file in each repository, however many there are.
func TestRelativeHooksOfManyRepositories(t *testing.T) {
	t.Parallel()
	w := configured(t, "", "[core]\n\thooksPath = tools/hooks\n")
	for i := range 300 {
		repository := fmt.Sprintf("m/r%d/", i)
		w.make("ws/"+repository+".git/objects/", "ws/"+repository+".git/refs/")
		w.write(repository+".git/HEAD", "ref: refs/heads/x\n")
		if i%2 == 1 {
			w.write(repository+"tools/hooks/pre-commit", "as it was")
		}
	}
	if out, exit := w.sh(`echo evil > m/r7/tools/hooks/pre-commit; echo evil > m/r299/tools/hooks/new; mkdir -p m/r8/tools/hooks; echo evil > m/r8/tools/hooks/pre-push; echo done`); !strings.HasSuffix(out, "done") || strings.Count(out, "Read-only") != 2 {
		t.Errorf("%d, %q", exit.Code, out)
	}
	if _, err := os.Lstat(filepath.Join(w.ws, "m/r8/tools/hooks")); err == nil {
		t.Error("hooks that were made stay")
	}
	if m := w.moved(); len(m) != 1 {
		t.Errorf("moved %+v", m)
	}
}

// References to more files than can be protected are refused with a next step.
func TestTooManyPrograms(t *testing.T) {
	t.Parallel()
	var settings strings.Builder
	for i := range 300 {
		fmt.Fprintf(&settings, "[filter \"%d\"]\n\tclean = ./tools/%d\n", i, i)
	}
	w := configured(t, settings.String(), "")
	for i := range 300 {
		w.write(fmt.Sprintf("tools/%d", i), "")
	}
	if _, err := w.spawn("true"); err == nil || !strings.Contains(err.Error(), "let the settings name a folder") {
		t.Errorf("%v", err)
	}
}
