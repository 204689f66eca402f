//go:build linux

package box_test

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/gantry-agent/gantry/host/internal/launch"
)

// preparedAhead returns a world with something to attack and a prepared sandbox.
func preparedAhead(t *testing.T) *world {
	t.Helper()
	w := newWorldWith(t, launch.Config{PreparedTime: time.Hour})
	w.fill()
	w.makeAhead()
	return w
}

// makeAhead has a sandbox prepared for the next command.
func (w *world) makeAhead() {
	w.t.Helper()
	if out, exit := w.sh("echo first"); out != "first" || exit.Code != 0 {
		w.t.Fatalf("%q, %+v", out, exit)
	}
	if n := w.launcher.Ready(); n != 1 {
		w.t.Fatalf("%d boxes wait, want one", n)
	}
}

// next runs a script, and reports whether a prepared sandbox was used.
func (w *world) next(script string) (out string, exit launch.Exit, ahead bool) {
	w.t.Helper()
	p, err := w.spawn(script)
	if err != nil {
		w.t.Fatal(err)
	}
	out, exit = w.result(p)
	return out, exit, p.Prepared()
}

func TestOrdinaryProgramsWorkInPreparedSandbox(t *testing.T) {
	t.Parallel()
	w := preparedAhead(t)
	for _, a := range works {
		out, exit, ahead := w.next(a.do)
		if exit.Code != 0 || !strings.Contains(out, a.says) || !ahead {
			t.Errorf("%s: exit %d, %q, want %q; made ahead: %v", a.name, exit.Code, out, a.says, ahead)
		}
		w.launcher.Ready()
	}
}

// A prepared sandbox must not be used once the files that it was made for have changed.
func TestChangedFilesNeedANewSandbox(t *testing.T) {
	t.Parallel()
	do := func(err error) {
		t.Helper()
		if err != nil {
			t.Error(err)
		}
	}
	for _, tc := range []struct {
		name   string
		change func(w *world)
		do     string
		says   string // empty: nothing
	}{
		{"a repository moved away, and another in its place", func(w *world) {
			do(os.Rename(filepath.Join(w.ws, ".git"), filepath.Join(w.ws, "old")))
			do(os.MkdirAll(filepath.Join(w.ws, ".git/hooks"), 0o755))
		}, `echo evil > .git/hooks/post-checkout`, "Read-only"},
		{"a repository removed", func(w *world) {
			do(os.RemoveAll(filepath.Join(w.ws, ".git")))
		}, `rmdir .git`, "No such file"},
		{"settings that were missing", func(w *world) {
			do(os.Mkdir(filepath.Join(w.ws, ".agents"), 0o755))
		}, `echo evil > .agents/x`, "Read-only"},
		{"a repository further down", func(w *world) {
			do(os.MkdirAll(filepath.Join(w.ws, "lib/.git/hooks"), 0o755))
		}, `echo evil > lib/.git/hooks/post-merge`, "Read-only"},
		{"the workspace moved, and another in its place", func(w *world) {
			do(os.Rename(w.ws, w.ws+"-old"))
			do(os.Mkdir(w.ws, 0o755))
		}, `ls -A "$WS"; echo evil > "$WS-old/file"`, "Read-only"},
		{"a folder above it moved, and another in its place", func(w *world) {
			do(os.Rename(filepath.Dir(w.ws), filepath.Dir(w.ws)+"-old"))
			do(os.MkdirAll(w.ws, 0o755))
			for _, p := range []string{w.home, w.out, w.tmp} {
				do(os.MkdirAll(p, 0o755))
			}
			w.t.Cleanup(func() { os.RemoveAll(filepath.Dir(w.ws) + "-old") })
		}, `echo evil > "$(dirname "$WS")-old/ws/file"`, "Read-only"},
		{"a key that was written anew", func(w *world) {
			key := filepath.Join(filepath.Dir(w.ws), "userhome/.netrc")
			do(os.WriteFile(key+"~", []byte("SECRET"), 0o600))
			do(os.Rename(key+"~", key))
		}, `cat "$WS/../userhome/.netrc"`, ""},
		{"a folder of keys moved, and another in its place", func(w *world) {
			keys := filepath.Join(filepath.Dir(w.ws), "userhome/.ssh")
			do(os.Rename(keys, keys+"-old"))
			do(os.Mkdir(keys, 0o755))
			do(os.WriteFile(filepath.Join(keys, "id"), []byte("SECRET"), 0o644))
		}, `cat "$WS/../userhome/.ssh/id"`, ""},
		{"a new key", func(w *world) {
			do(os.WriteFile(filepath.Join(filepath.Dir(w.ws), "userhome/.pypirc"), []byte("SECRET"), 0o644))
		}, `cat "$WS/../userhome/.pypirc"`, ""},
		{"a file that is denied by a pattern", func(w *world) {
			do(os.WriteFile(filepath.Join(w.ws, "new.pem"), []byte("SECRET"), 0o644))
		}, `cat new.pem`, ""},
		{"a second name outside", func(w *world) {
			do(os.Link(filepath.Join(w.out, "file"), filepath.Join(w.ws, "linked")))
		}, `echo evil > linked`, "Read-only"},
		{"gantry's own folder moved, and another in its place", func(w *world) {
			do(os.Rename(w.home, w.home+"-old"))
			do(os.MkdirAll(filepath.Join(w.home, "secrets"), 0o755))
			do(os.WriteFile(filepath.Join(w.home, "secrets/key"), []byte("SECRET"), 0o644))
		}, `cat "$WS/../home/secrets/key"`, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			w := newWorldWith(t, launch.Config{PreparedTime: time.Hour})
			w.fill()
			w.change = func(g *launch.Grant) { g.DenyRead = []string{filepath.Join(w.ws, "**/*.pem")} }
			w.makeAhead()
			tc.change(w)
			out, exit, ahead := w.next(tc.do)
			if ahead {
				t.Error("the command got the box that was made before")
			}
			if exit.Code == 0 || strings.Contains(out, "SECRET") || !strings.Contains(out, tc.says) {
				t.Errorf("exit %d, %q, want %q", exit.Code, out, tc.says)
			}
		})
	}
}

// Another grant needs another sandbox.
func TestPreparedSandboxBelongsToAGrant(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*world, *launch.Grant){
		"another root":  func(w *world, g *launch.Grant) { g.WritableRoots = append(g.WritableRoots, w.out) },
		"read-only":     func(_ *world, g *launch.Grant) { g.Mode = "read-only" },
		"the network":   func(_ *world, g *launch.Grant) { g.Network = true },
		"another /tmp":  func(w *world, g *launch.Grant) { g.Tmp = w.out },
		"fewer to read": func(w *world, g *launch.Grant) { g.ReadableRoots = []string{w.ws} },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := preparedAhead(t)
			w.change = func(g *launch.Grant) { change(w, g) }
			if out, exit, ahead := w.next("echo done"); out != "done" || exit.Code != 0 || ahead {
				t.Errorf("%q, %+v, made ahead: %v", out, exit, ahead)
			}
		})
	}
}

// A prepared sandbox leaves the workspace as it is, whether it is used or discarded.
func TestPreparedSandboxLeavesNoTrace(t *testing.T) {
	t.Parallel()
	for name, give := range map[string]func(*world){
		"a rest": func(w *world) { w.launcher.DropPrepared("thread") },
		"the end of the thread": func(w *world) {
			if err := w.launcher.EndThread(w.t.Context(), "thread"); err != nil {
				w.t.Error(err)
			}
		},
		"a command with full access": func(w *world) {
			w.mode = launch.FullAccess
			if out, exit, _ := w.next("ls -A"); exit.Code != 0 || strings.Contains(out, ".agents") {
				w.t.Errorf("%q, %+v", out, exit)
			}
		},
		"what opens a file that is protected": func(w *world) {
			w.change = func(g *launch.Grant) { g.Opened = []string{filepath.Join(w.ws, ".agents/x")} }
			if out, exit, _ := w.next("mkdir .agents && echo x > .agents/x && rm -r .agents"); exit.Code != 0 {
				w.t.Errorf("%q, %+v", out, exit)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := preparedAhead(t)
			w.clean()
			give(w)
			w.clean()
		})
	}
}

func TestPreparedSandboxExpires(t *testing.T) {
	t.Parallel()
	w := newWorldWith(t, launch.Config{PreparedTime: time.Nanosecond})
	w.fill()
	if out, exit := w.sh("echo first"); out != "first" || exit.Code != 0 {
		t.Fatalf("%q, %+v", out, exit)
	}
	for w.launcher.Ready() > 0 { // until its time, which has come, is noticed
		runtime.Gosched()
	}
	if out, exit, ahead := w.next("echo done"); out != "done" || exit.Code != 0 || ahead {
		t.Errorf("%q, %+v, made ahead: %v", out, exit, ahead)
	}
}

// A sandbox is prepared as soon as a command is expected; a command that comes at once waits for it.
func TestFirstCommandIsExpected(t *testing.T) {
	t.Parallel()
	for name, wait := range map[string]bool{"later": true, "at once": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorldWith(t, launch.Config{PreparedTime: time.Hour})
			w.fill()
			w.expect()
			if wait && w.launcher.Ready() != 1 {
				t.Error("no box waits")
			}
			if out, exit, ahead := w.next("echo done"); out != "done" || exit.Code != 0 || !ahead {
				t.Errorf("%q, %+v, made ahead: %v", out, exit, ahead)
			}
		})
	}
}

// A sandbox is prepared while the model thinks; a command that is named at once does not wait for the end of the thinking.
func TestFirstCommandIsPrepared(t *testing.T) {
	t.Parallel()
	for name, expect := range map[string]bool{"thought": false, "at once": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorldWith(t, launch.Config{PreparedTime: time.Hour})
			w.fill()
			w.launcher.DropPrepared("thread") // the turn before
			grant := w.spec("").Grant
			w.launcher.PrepareSoon("thread", func() (launch.Grant, error) { return grant, nil })
			if expect {
				w.expect()
			} else if w.launcher.Ready() != 1 {
				t.Error("no box waits")
			}
			if out, exit, ahead := w.next("echo done"); out != "done" || exit.Code != 0 || !ahead {
				t.Errorf("%q, %+v, made ahead: %v", out, exit, ahead)
			}
		})
	}
}

// A turn that ends before its model has thought for long prepares no sandbox.
func TestShortTurnPreparesNoSandbox(t *testing.T) {
	t.Parallel()
	w := newWorldWith(t, launch.Config{PreparedTime: time.Hour})
	w.fill()
	w.launcher.PrepareSoon("thread", func() (launch.Grant, error) {
		t.Error("a box is made")
		return launch.Grant{}, os.ErrInvalid
	})
	w.launcher.DropPrepared("thread")
	if n := w.launcher.Ready(); n != 0 {
		t.Errorf("%d boxes wait", n)
	}
}

// expect announces a command.
func (w *world) expect() {
	grant := w.spec("").Grant
	w.launcher.PrepareNow("thread", func() (launch.Grant, error) { return grant, nil })
}

// A sandbox that was prepared for a command that does not come, or differs, leaves nothing behind.
func TestExpectedCommandNeverStarts(t *testing.T) {
	t.Parallel()
	for name, then := range map[string]func(*world){
		"a rest": func(w *world) { w.launcher.DropPrepared("thread") },
		"the end of the thread": func(w *world) {
			if err := w.launcher.EndThread(w.t.Context(), "thread"); err != nil {
				w.t.Error(err)
			}
		},
		"another grant": func(w *world) {
			w.change = func(g *launch.Grant) { g.Network = true }
			if out, exit, ahead := w.next("echo done"); out != "done" || exit.Code != 0 || ahead {
				w.t.Errorf("%q, %+v, made ahead: %v", out, exit, ahead)
			}
			w.launcher.DropPrepared("thread")
		},
		"no grant": func(w *world) {
			w.launcher.DropPrepared("thread")
			w.launcher.PrepareNow("thread", func() (launch.Grant, error) { return launch.Grant{}, os.ErrInvalid })
		},
		"full access": func(w *world) {
			w.launcher.DropPrepared("thread")
			w.launcher.PrepareNow("thread", func() (launch.Grant, error) { return launch.Grant{Mode: launch.FullAccess}, nil })
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorldWith(t, launch.Config{PreparedTime: time.Hour})
			w.fill()
			w.expect()
			then(w)
			if n := w.launcher.Ready(); n != 0 {
				t.Errorf("%d boxes wait", n)
			}
			w.clean()
		})
	}
}

// clean checks that the workspace has no protected names that it did not have before.
func (w *world) clean() {
	w.t.Helper()
	for _, name := range []string{".agents", ".codex", ".gantry", ".aws"} {
		if _, err := os.Lstat(filepath.Join(w.ws, name)); err == nil {
			w.t.Errorf("%s is there", name)
		}
	}
}

// Processes that a turn has left may end at any time; no sandbox is prepared for them between turns.
func TestIdleThreadPreparesNoSandbox(t *testing.T) {
	t.Parallel()
	w := newWorldWith(t, launch.Config{PreparedTime: time.Hour})
	w.fill()
	p, err := w.spawn("sleep 1000")
	if err != nil {
		t.Fatal(err)
	}
	w.launcher.DropPrepared("thread")
	if err := p.KillTree(t.Context()); err != nil {
		t.Error(err)
	}
	if n := w.launcher.Ready(); n != 0 {
		t.Errorf("%d boxes wait", n)
	}
	w.makeAhead() // until it goes on
}
