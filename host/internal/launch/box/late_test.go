//go:build linux

package box_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/gantry-agent/gantry/config/glob"
	"github.com/gantry-agent/gantry/host/internal/launch"
	"github.com/gantry-agent/gantry/host/internal/launch/box"
	"github.com/gantry-agent/gantry/host/internal/launch/box/pluginbox"
	"github.com/gantry-agent/gantry/host/internal/launch/control"
)

// lateKeys are ways in which a key appears while a process is running. make creates it in the home folder; hidden is a shell test
// that succeeds once it can't be read, and path is what is read then.
var lateKeys = []struct {
	name         string
	before, make string
	hidden, path string
}{
	{"a file", ``, `echo SECRET > .netrc`, `[ -c .netrc ]`, `.netrc`},
	{"a file that is written later", ``, `: > .netrc; echo SECRET >> .netrc`, `[ -c .netrc ]`, `.netrc`},
	{"a file that is replaced", `echo old > .npmrc`, `echo SECRET > .npmrc.tmp; mv .npmrc.tmp .npmrc; : > done`, `[ -e done ] && [ -c .npmrc ]`, `.npmrc`},
	{"a file that is replaced again and again", `echo old > .npmrc`, `for i in 1 2 3 4 5 6 7 8 9; do echo SECRET > t$i; mv t$i .npmrc; done; : > done`, `[ -e done ] && [ -c .npmrc ]`, `.npmrc`},
	{"a hard link", ``, `echo SECRET > there; ln there .git-credentials; rm there`, `[ -c .git-credentials ]`, `.git-credentials`},
	{"a file by a link", `mkdir dots; ln -s dots/pgpass .pgpass`, `echo SECRET > dots/pgpass`, `[ -c dots/pgpass ]`, `.pgpass dots/pgpass`},
	{"a link", ``, `mkdir dots; echo SECRET > dots/n; ln -s dots/n .npmrc`, `[ -c dots/n ]`, `.npmrc dots/n`},
	{"a folder", ``, `mkdir .kube; echo SECRET > .kube/config`, `[ -d .kube ] && ! ls .kube`, `.kube/config`},
	{"a folder that comes with its content", ``, `mkdir t; echo SECRET > t/config.json; mv t .docker`, `[ -d .docker ] && ! ls .docker`, `.docker/config.json`},
	{"a folder that is replaced", `mkdir .aws; echo old > .aws/credentials`, `mkdir t; echo SECRET > t/credentials; mv .aws .aws.old; mv t .aws; : > done`, `[ -e done ] && ! ls .aws`, `.aws/credentials .aws.old/credentials`},
	{"a file in folders that were missing", ``, `mkdir -p .config/git; echo SECRET > .config/git/credentials`, `[ -c .config/git/credentials ]`, `.config/git/credentials`},
	{"folders moved there", ``, `mkdir -p t/gh; echo SECRET > t/gh/hosts.yml; mv t .config`, `[ -d .config/gh ] && ! ls .config/gh`, `.config/gh/hosts.yml`},
	{"a file that the configuration names", ``, `echo SECRET > key`, `[ -c key ]`, `key`},
	{"what deny_read names", ``, `echo SECRET > denied`, `[ -c denied ]`, `denied`},
}

// A running process can't go on reading a key that is created or replaced after its start.
func TestLateKeysAreHidden(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{box.WorkspaceWrite, box.ReadOnly, "limited", "writable home"} {
		for _, k := range lateKeys {
			if mode == "writable home" && !strings.Contains(k.name, "replaced") { // what is missing there is moved aside
				continue
			}
			t.Run(mode+"/"+k.name, func(t *testing.T) {
				t.Parallel()
				w := lateWorld(t, mode)
				w.atHome(k.before)
				w.while(`until `+k.hidden+` 2> /dev/null; do n=$((n + 1)); [ $n -lt 2000 ] || break; sleep 0.01; done; cat `+k.path+`; echo ends`, func() { w.atHome(k.make) })
				if out, _ := w.sh("cd " + w.user() + "; cat " + k.path); strings.Contains(out, "SECRET") {
					t.Errorf("the next command reads %q", out)
				}
			})
		}
	}
}

// A plugin's process, which lives as long as gantry, can't read such a key either.
func TestLateKeysAreHiddenFromPlugins(t *testing.T) {
	t.Parallel()
	for _, confined := range []bool{true, false} {
		for _, k := range lateKeys {
			if k.path == "denied" || !confined && strings.HasPrefix(k.path, ".aws") { // watched for commands; a vendor's, which providers read
				continue
			}
			t.Run(fmt.Sprintf("%t/%s", confined, k.name), func(t *testing.T) {
				t.Parallel()
				w := lateWorld(t, box.WorkspaceWrite)
				w.make("home/data/own/")
				w.atHome(k.before)
				cfg := pluginbox.Config{Home: w.home, UserHome: w.user(), Own: []string{filepath.Join(w.home, "data/own")}, Confined: confined, Denied: []string{filepath.Join(w.user(), "key")}}
				w.late = w.box.Late("plugin", func() (pluginbox.Config, error) { return cfg, nil })
				own := cfg.Own[0]
				go func() { // ends with the script
					maker := exec.CommandContext(t.Context(), "/bin/sh", "-c", `n=0; until [ -e "$0/runs" ]; do n=$((n + 1)); [ $n -lt 2000 ] || exit; sleep 0.01; done; `+k.make, own)
					maker.Dir = w.user()
					_ = maker.Run()
				}()
				said := w.caged(cfg, true, `cd "$HOME"; n=0; : > `+own+`/runs; until { `+k.hidden+`; } > /dev/null 2> /dev/null; do n=$((n + 1)); [ $n -lt 2000 ] || break; sleep 0.01; done; cat `+k.path+`; echo ends $n`)
				if strings.Contains(said, "SECRET") || !strings.Contains(said, "ends") || strings.Contains(said, "ends 2000") {
					t.Errorf("it reads %q", said)
				}
			})
		}
	}
}

// lateWorld returns a world whose commands have limits, so that sandboxes are made for one process each.
func lateWorld(t *testing.T, mode string) *world {
	t.Helper()
	w := newWorld(t)
	if mode == box.ReadOnly {
		w.mode = mode
	}
	w.box = box.New(box.Config{Home: w.home, UserHome: w.user(), KeyFiles: func() []string { return []string{filepath.Join(w.user(), "key")} }, Moved: w.hear})
	w.confined(t, w.box)
	w.change = func(g *launch.Grant) {
		g.DenyRead = []string{glob.Quote(filepath.Join(w.user(), "denied"))}
		switch mode {
		case "limited":
			g.Limits.CPUSeconds = 60
		case "writable home":
			g.WritableRoots = append(g.WritableRoots, w.user())
		}
	}
	if err := os.MkdirAll(w.user(), 0o755); err != nil {
		t.Fatal(err)
	}
	return w
}

func (w *world) user() string { return filepath.Join(filepath.Dir(w.ws), "userhome") }

// atHome runs a script in the user's home folder, unconfined.
func (w *world) atHome(script string) {
	w.t.Helper()
	cmd := exec.CommandContext(w.t.Context(), "/bin/sh", "-c", script)
	cmd.Dir = w.user()
	if out, err := cmd.CombinedOutput(); err != nil {
		w.t.Errorf("%s: %v, %s", script, err, out)
	}
}

// while starts a sandboxed script in the user's home folder, calls do once it is running, and checks that it has not read a secret.
func (w *world) while(script string, do func()) {
	w.t.Helper()
	p, err := w.spawn("cd " + w.user() + "; echo runs; n=0; " + script)
	if err != nil {
		w.t.Fatal(err)
	}
	var out strings.Builder
	once := sync.OnceFunc(do)
	if _, err := p.Attach(w.t.Context(), nil, func(o launch.Output) error {
		if out.Write(o.Data); strings.HasPrefix(out.String(), "runs\n") {
			once()
		}
		return nil
	}); err != nil {
		w.t.Fatal(err)
	}
	if text := out.String(); strings.Contains(text, "SECRET") || !strings.HasSuffix(text, "ends\n") {
		w.t.Errorf("it reads %q", text)
	}
	<-p.Gone()
}

// hiding is a sandbox in which covers can be applied.
type hiding struct {
	*box.Sandbox
	hide func([]control.Cover) error
}

func (h *hiding) Confine(ctx context.Context, g launch.Grant, readOnly bool, c *launch.Confinement) (func(), error) {
	h.hide = c.Hide
	return h.Sandbox.Confine(ctx, g, readOnly, c)
}

// coverOf returns a cover for a file as it is now.
func coverOf(t *testing.T, path string) control.Cover {
	t.Helper()
	var in, of syscall.Stat_t
	if err := errors.Join(syscall.Stat(filepath.Dir(path), &in), syscall.Lstat(path, &of)); err != nil {
		t.Fatal(err)
	}
	return control.Cover{Path: path, Dev: uint64(in.Dev), Ino: in.Ino, WasDev: uint64(of.Dev), WasInode: of.Ino, Folder: of.Mode&syscall.S_IFMT == syscall.S_IFDIR}
}

// A cover applies to the file that it was made for, wherever a command moves it, once, and only inside the sandbox.
func TestCoverAppliesToTheSameFile(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	h := &hiding{Sandbox: w.box}
	w.confined(t, h)
	for _, p := range []string{"a", "b", "d/f", "e/f", "r/f"} {
		w.write(p, "content of "+p+"\n")
	}
	covers := []control.Cover{coverOf(t, filepath.Join(w.ws, "a")), coverOf(t, filepath.Join(w.ws, "b")), coverOf(t, filepath.Join(w.ws, "d/f")), coverOf(t, filepath.Join(w.ws, "e/f")), coverOf(t, filepath.Join(w.ws, "r"))}
	p, lines := w.session(`ln -s d l; mv e e.moved; mv d d.moved; mkdir d; echo other > d/f; echo ready; await go
cat a; [ -c b ] && echo covered; cat d/f; cat d.moved/f; cat e.moved/f; ls r 2>&1 | grep -c f; grep -c "$WS/b " /proc/self/mountinfo
umount b 2> /dev/null; rm -f b 2> /dev/null; mv b c 2> /dev/null; mv r r2 2> /dev/null; [ -c b ] && echo still covered; chmod 700 r 2> /dev/null; cat r/f 2> /dev/null; echo end`)
	covers[0].WasInode = covers[1].WasInode // another file lies there
	link := covers[3]
	link.Path = filepath.Join(w.ws, "l/f") // another folder does
	missing := covers[1]
	missing.Path = filepath.Join(w.ws, "none/none")
	until(t, lines, "ready")
	for range 3 {
		if err := h.hide(append(slices.Clone(covers), link, missing)); err != nil {
			t.Error(err)
		}
	}
	w.step("go")
	var got []string
	for line := range lines {
		got = append(got, line)
	}
	want := []string{"content of a", "covered", "other", "content of d/f", "content of e/f", "0", "1", "still covered", "end"}
	if got = slices.DeleteFunc(got, func(s string) bool { return s == "" }); !slices.Equal(got, want) {
		t.Errorf("it says %q, want %q", got, want)
	}
	<-p.Gone()
	if b, err := os.ReadFile("/proc/self/mountinfo"); err != nil || strings.Contains(string(b), w.ws) {
		t.Errorf("it is mounted here: %v", err)
	}
	if b, err := os.ReadFile(filepath.Join(w.ws, "b")); err != nil || string(b) != "content of b\n" {
		t.Errorf("b is %q, %v", b, err)
	}
	if err := h.hide(covers); err != nil {
		t.Errorf("after the end: %v", err)
	}
}

// Nothing that a command does to itself prevents covers: becoming an unreadable program, closing all descriptors, stopping all
// processes, using up its limits.
func TestCoverCannotBePrevented(t *testing.T) {
	t.Parallel()
	const waits = `n=0; until [ -c .netrc ]; do n=$((n + 1)); [ $n -lt 500 ] || break; sleep 0.01; done; cat .netrc; echo ends`
	for name, does := range map[string]string{
		"an unreadable program":        `cp /bin/sh "$WS/sh"; chmod 111 "$WS/sh"; exec "$WS/sh" -c '` + waits + `'`,
		"another session and no files": `exec setsid -w sh -c '` + waits + `' 0<&- 2>&-`,
		"signals to everything":        `kill -STOP -1; kill -9 -1; ` + waits,
		"no more processes":            `i=0; while [ $i -lt 200 ]; do sleep 60 > /dev/null 2>&1 & i=$((i + 1)); done; ` + waits,
		"the folder as its own":        `cd /proc/self/cwd; ` + waits,
	} {
		for _, mode := range []string{box.WorkspaceWrite, "limited"} {
			t.Run(mode+"/"+name, func(t *testing.T) {
				t.Parallel()
				w := lateWorld(t, mode)
				w.while(does, func() { w.atHome(`echo SECRET > .netrc`) })
			})
		}
	}
}
