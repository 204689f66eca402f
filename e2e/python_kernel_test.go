package e2e_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/gantry-agent/gantry/e2e/rig"
)

// pythonStatus is the output of the plugin's command status.
type pythonStatus struct {
	Interpreter struct{ Path, Version string }
	Kernels     []pythonKernel
}

type pythonKernel struct {
	Thread, Session, Python, Version, State string
	PID                                     int
	Memory                                  int64 `json:"memory_bytes"`
}

// People see the kernel of a thread and can end it: clients of the process that runs the thread, those of another one, and the command line.
func TestPythonStatusAndReset(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"full-access", "workspace-write"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			gone := "'x' in globals()"
			r := newPython(t, cell("c1", "x = 41")+done+cell("c2", "gantry.tools.wait_for(file='one')")+done+
				cell("c3", gone+"\nx = 1")+done+cell("c4", gone)+done+cell("c5", gone)+done)
			addOdd(t, r, "waits", "waits", "")
			c, other := r.AppServer("-c", fmt.Sprintf("sandbox.mode=%q", mode)), r.AppServer()
			greet(t, c)
			greet(t, other)
			thread := begin(t, c, object{})
			run := func(c *rig.Client, name string, confirmed bool, input object, output any) {
				t.Helper()
				var out struct{ Output any }
				out.Output = output
				c.Call("gantry/plugin/command", object{"threadId": thread, "plugin": "python", "name": name, "input": input, "confirmed": confirmed}, &out)
			}
			kernel := func(c *rig.Client) pythonKernel {
				t.Helper()
				var s pythonStatus
				run(c, "status", false, object{}, &s)
				if len(s.Kernels) != 1 || s.Kernels[0].Thread != thread || s.Interpreter.Path == "" || s.Interpreter.Version != s.Kernels[0].Version {
					t.Fatalf("%+v", s)
				}
				k := s.Kernels[0]
				if _, lives := rig.Descendants(t, c.PID())[k.PID]; c.PID() != other.PID() && !lives {
					t.Errorf("process %d of the kernel is none of the server", k.PID)
				}
				if k.Session == "" || k.Python == "" || runtime.GOOS == "linux" && (k.Memory < 1<<20 || k.Memory > 1<<30) {
					t.Errorf("%+v", k)
				}
				return k
			}
			turn := func() {
				t.Helper()
				submit(t, c, thread, "go")
				c.Notified("turn/completed")
			}
			turn()
			first := kernel(c)
			if there := kernel(other); first.State != "idle" || there.PID != first.PID {
				t.Errorf("%+v, for another server %+v", first, there)
			}
			if res := r.OK("plugin", "run", "--thread", thread, "python", "status"); !strings.Contains(res.Stdout, fmt.Sprintf(`"pid": %d`, first.PID)) {
				t.Errorf("the command line shows\n%s", res.Stdout)
			}
			r.OK("plugin", "reload", "python")
			submit(t, c, thread, "go")
			r.Until("the cell runs", func() bool { return exists(r.Dir, "one.waiting") })
			if k := kernel(c); k.State != "running" || k.PID != first.PID {
				t.Errorf("%+v", k)
			}
			r.Write("one", "")
			c.Notified("turn/completed")

			reset := object{"threadId": thread, "plugin": "python", "name": "reset", "input": object{"thread": thread}}
			if _, kind, _ := refusedAs(t, other, "gantry/plugin/command", reset); kind != "not_confirmed" || kernel(c).PID != first.PID {
				t.Errorf("not confirmed: %s", kind)
			}
			var ended struct{ Ended []string }
			if run(other, "reset", true, object{"thread": thread}, &ended); len(ended.Ended) != 1 || ended.Ended[0] != thread {
				t.Errorf("%+v", ended)
			}
			r.Until("the kernel has ended", func() bool { _, lives := rig.Descendants(t, c.PID())[first.PID]; return !lives })
			turn()
			if second := kernel(c); second.PID == first.PID || second.Session == first.Session {
				t.Errorf("%+v after %+v", second, first)
			}
			if res := r.Gantry("plugin", "run", "--thread", thread, "python", "reset"); res.Code != 1 || !strings.Contains(res.Stderr, "not confirmed") || !strings.Contains(res.Stderr, "--yes") {
				t.Errorf("not confirmed: exit %d\n%s", res.Code, res.Stderr)
			}
			if mode == "full-access" {
				asks := r.Terminal("plugin", "run", "--thread", thread, "python", "reset")
				asks.Sees("answer: ")
				if shown := asks.Output(); !strings.Contains(shown, "Ends the kernels of this gantry process") {
					t.Errorf("the question is\n%s", shown)
				}
				asks.Type("run\n")
				if res := asks.Wait(); res.Code != 0 || !strings.Contains(asks.Output(), thread) {
					t.Errorf("exit %d\n%s", res.Code, asks.Output())
				}
			} else if res := r.OK("plugin", "run", "--yes", "--thread", thread, "python", "reset"); !strings.Contains(res.Stdout, thread) {
				t.Errorf("%s", res.Stdout)
			}
			turn()
			turn()
			out := r.Last().Outputs()
			lost := "This is a new kernel, without earlier variables: the previous one is gone (the user has ended it)."
			for id, told := range map[string]bool{"c3": true, "c4": true, "c5": false} {
				if strings.Contains(out[id], lost) != told || id != "c3" && !strings.HasSuffix(out[id], "Output:\nFalse") {
					t.Errorf("%s: %s", id, out[id])
				}
			}
			other.Close()
			c.Close()
			if res := r.Gantry("plugin", "run", "--thread", thread, "python", "status"); res.Code != 1 || !strings.Contains(res.Stderr, "no process runs thread") || !strings.Contains(res.Stderr, "Next: ") {
				t.Errorf("without a process: exit %d\n%s", res.Code, res.Stderr)
			}
			r.NothingLeft()
		})
	}
}

// A kernel keeps the permissions of its start; if they don't let matplotlib write its folder, it gets another. The model is told once when those of a call differ, and what to do.
func TestPythonPermissionsChange(t *testing.T) {
	t.Parallel()
	r := newPython(t, "")
	outside, err := os.MkdirTemp("/var/tmp", "gantry-test-")
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(outside) })
	write := func(name string) string { return fmt.Sprintf("open(%q, 'w').write('x')", filepath.Join(outside, name)) }
	r.Write(filepath.Join(r.Home, "script.toml"), cell("c1", "import os\nx = 41\nprint(os.environ.get('MPLCONFIGDIR'))\n"+write("one"))+done+cell("c2", "x")+cell("c3", write("three"))+
		"[[step]]\ndo = [{ call = \"python_reset\", id = \"r\", args = {} }]\n"+cell("c4", "import os\nprint(os.environ.get('MPLCONFIGDIR'))\n"+write("four"))+done)
	c := r.AppServer("-c", `sandbox.mode="workspace-write"`)
	greet(t, c)
	thread := begin(t, c, object{})
	for _, policy := range []object{nil, {"type": "dangerFullAccess"}} {
		params := object{"threadId": thread, "input": []any{object{"type": "text", "text": "go"}}}
		if policy != nil {
			params["sandboxPolicy"] = policy
		}
		c.Call("turn/start", params, nil)
		c.Notified("turn/completed")
	}
	out := r.Last().Outputs()
	line := "The kernel keeps the permissions that it was started with, which have changed since. python_reset starts one with the current permissions"
	for id, want := range map[string]struct {
		told bool
		text string
	}{"c1": {false, "The sandbox has probably blocked this."}, "c2": {true, "Output:\n41"}, "c3": {false, "Read-only file system"}, "c4": {false, "\n1"}} {
		if strings.Contains(out[id], line) != want.told || !strings.Contains(out[id], want.text) {
			t.Errorf("%s: %s", id, out[id])
		}
	}
	if runtime.GOOS == "linux" && (!strings.Contains(out["c1"], "/tmp/matplotlib\n") || !strings.Contains(out["c4"], "None\n")) {
		t.Errorf("the folder of matplotlib: %s\n%s", out["c1"], out["c4"])
	}
	if exists(outside, "one") || exists(outside, "three") || !exists(outside, "four") {
		t.Error("a kernel did not have the permissions of its start")
	}
	c.Close()
	r.NothingLeft()
}

// A process that would exceed the memory limit gets an exception, and the kernel lives on. If all of its processes together exceed it, it is
// ended, and the next cell has a new one.
func TestPythonMemory(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("the limit is one of Linux")
	}
	for _, mode := range []string{"full-access", "workspace-write"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			r := rig.New(t, cell("c1", "x = 41\nb = bytearray(1 << 30)")+cell("c2", "x")+
				cell("c3", "import os, time\nprint('before', flush=True)\nfor _ in range(4):\n    if os.fork() == 0:\n        b = b'x' * (100 << 20)\n        time.sleep(600)\ntime.sleep(600)")+
				cell("c4", "'x' in globals()")+done)
			if _, err := exec.LookPath("python3"); err != nil {
				t.Skip("there is no Python on this machine")
			}
			r.Config("plugin \"python\" {\n  source = \"builtin/python\"\n  config {\n    memory = \"256MiB\"\n  }\n}\n")
			r.OK("exec", "-c", fmt.Sprintf("sandbox.mode=%q", mode), "go")
			out := r.Last().Outputs()
			for id, want := range map[string][]string{
				"c1": {"MemoryError", "may use at most 256MiB of memory (`memory` in the plugin's block)"},
				"c2": {"Output:\n41"},
				"c3": {"The kernel has ended during the call (it was ended by its memory limit). All variables are lost; the next call has a new kernel.", "before\n"},
				"c4": {"Output:\nFalse"},
			} {
				for _, w := range want {
					if !strings.Contains(out[id], w) {
						t.Errorf("%s has no %q:\n%s", id, w, out[id])
					}
				}
			}
			r.NothingLeft()
		})
	}
}

// Without a Python that can run cells, the model reads what was tried and what to do next, doctor says the same, and nothing is left running.
func TestPythonDoesNotStart(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		python string // the program .venv/bin/python; empty: there is none
		link   bool   // it is a link to a file that is missing
		want   []string
		doctor string
	}{
		"too old": {
			python: "#!/bin/sh\ncase $* in *loads*) ;; *print*) echo 3.8.18; exit;; esac\necho '{\"op\":\"old\",\"version\":\"3.8.18\"}'\nexec cat >/dev/null\n",
			want:   []string{"/.venv/bin/python could not be started: Python 3.8.18 is too old", "Next: install Python 3.9 or later, or set `interpreter` in the plugin's block to one."},
			doctor: "/.venv/bin/python is Python 3.8.18, which is too old",
		},
		"far too old": {
			python: "#!/bin/sh\necho 'Unknown option: -I' >&2\nexit 2\n",
			want:   []string{"/.venv/bin/python could not be started: it ended with exit code 2 and printed:\nUnknown option: -I", "Next: repair that environment, or set `interpreter`"},
			doctor: "/.venv/bin/python doesn't start",
		},
		"a broken environment": {
			link:   true,
			want:   []string{"the interpreter ", "/.venv/bin/python is a link to a file that is missing", "make that environment again, remove it, or set `interpreter` in the plugin's block"},
			doctor: "/.venv/bin/python is a link to a file that is missing",
		},
		"none": {
			want:   []string{"no Python was found (tried ", "/.venv/bin/python, ", "python3, python); install Python 3.9 or later, or set `interpreter`"},
			doctor: "no Python was found",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := rig.New(t, cell("c1", "1")+done)
			r.Config("plugin \"python\" {\n  source = \"builtin/python\"\n}\n")
			r.Env = append(r.Env, "VIRTUAL_ENV=", "PATH="+programs(t, "sh", "cat", "true", "bwrap", "git"))
			python := filepath.Join(r.Dir, ".venv/bin/python")
			if c.python != "" {
				r.Write(python, c.python)
				if err := os.Chmod(python, 0o755); err != nil {
					t.Fatal(err)
				}
			}
			if c.link {
				r.Write(filepath.Join(r.Dir, ".venv/pyvenv.cfg"), "home = /nonexistent\n")
				if err := os.MkdirAll(filepath.Dir(python), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.Symlink("/nonexistent/python3", python); err != nil {
					t.Fatal(err)
				}
			}
			r.OK("exec", "-c", `sandbox.mode="workspace-write"`, "go")
			out := r.Last().Outputs()["c1"]
			for _, w := range c.want {
				if !strings.Contains(out, w) {
					t.Errorf("no %q in\n%s", w, out)
				}
			}
			if res := r.Gantry("doctor"); res.Code != 1 || !strings.Contains(res.Stdout, c.doctor) {
				t.Errorf("doctor: exit %d, no %q in\n%s", res.Code, c.doctor, res.Stdout)
			}
			r.NothingLeft()
		})
	}
}

// programs returns a folder with links to programs of this machine, for a PATH without others.
func programs(t *testing.T, names ...string) string {
	t.Helper()
	dir, err := os.MkdirTemp("/var/tmp", "gantry-test-") // plugins see another /tmp
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	for _, name := range names {
		path, err := exec.LookPath(name)
		if err != nil {
			t.Skip(err)
		}
		if err := os.Symlink(path, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// An interrupt of the turn ends a cell and the calls that it has made within the grace: by Ctrl-C, and by a client. A cell that ignores it
// makes no more calls, and its kernel is killed.
func TestPythonIsInterrupted(t *testing.T) {
	t.Parallel()
	const command = "exec_command(cmd='echo > began-%d; sleep 61234' % n, login=False, yield_time_ms=30000)"
	together := "import asyncio\nawait asyncio.gather(*[gantry.tools.aio." + command + " for n in range(3)])"
	// A KeyboardInterrupt could be raised between two calls, where nothing catches it.
	ignores := "import signal\nsignal.signal(signal.SIGINT, lambda *_: None)\nn = 0\nwhile True:\n    try:\n        gantry.tools." + command + "\n    except BaseException:\n        n = 1"
	sleeping := func(r *rig.Rig) int { return len(rig.Processes(t, r.Dir, "61234")) }
	began := func(r *rig.Rig) func() bool {
		return func() bool { return exists(r.Dir, "began-0") && sleeping(r) > 0 }
	}
	for name, code := range map[string]string{"together": together, "ignores it": ignores} {
		t.Run("Ctrl-C/"+name, func(t *testing.T) {
			t.Parallel()
			r := newPython(t, cell("c1", "x = 41")+cell("c2", code)+cell("c3", "'x' in globals()")+done)
			run := r.Start("exec", "-c", `sandbox.mode="workspace-write"`, "--events", "go")
			r.Until("a command of the cell runs", began(r))
			run.Signal(os.Interrupt)
			if res := run.Wait(); res.Code != 1 {
				t.Errorf("exit %d:\n%s", res.Code, res.Stderr)
			}
			r.NothingLeft()
			if exists(r.Dir, "began-1") && name == "ignores it" {
				t.Error("a call after the interrupt was made")
			}
			r.OK("exec", "-c", `sandbox.mode="workspace-write"`, "resume", "--last", "go on")
			out := r.Last().Outputs()
			if !strings.Contains(out["c2"], "aborted by user") && !strings.Contains(out["c2"], "KeyboardInterrupt") && !strings.Contains(out["c2"], "CancelledError") {
				t.Errorf("%s", out["c2"])
			}
			if !strings.Contains(out["c3"], "it ended with an earlier process") || !strings.HasSuffix(out["c3"], "Output:\nFalse") {
				t.Errorf("%s", out["c3"])
			}
		})
		t.Run("turn-interrupt/"+name, func(t *testing.T) {
			t.Parallel()
			// The turn's end does not wait for a kernel that must be killed: a cell that comes before gets an error.
			r := newPython(t, cell("c1", "x = 41")+cell("c2", code)+cell("c3", "globals().get('x')")+cell("c4", "'x' in globals()")+cell("c5", "1")+done)
			c := r.AppServer("-c", `sandbox.mode="workspace-write"`)
			greet(t, c)
			thread := begin(t, c, object{})
			turn := submit(t, c, thread, "go")
			r.Until("a command of the cell runs", began(r))
			begun := time.Now()
			c.Call("turn/interrupt", object{"threadId": thread, "turnId": turn}, nil)
			c.Notified("turn/completed")
			t.Logf("the turn has ended after %v", time.Since(begun))
			r.Until("the processes of nested calls have ended", func() bool { return sleeping(r) == 0 })
			submit(t, c, thread, "go on")
			c.Notified("turn/completed")
			if exists(r.Dir, "began-1") && name == "ignores it" {
				t.Error("a call after the interrupt was made")
			}
			out := r.Last().Outputs()
			if name == "ignores it" {
				// The next cell waits for the end of the kernel, unless it has ended before.
				gone := "the previous one is gone (it was ended by a signal ("
				first := out["c3"]
				if strings.Contains(first, "the kernel has ended; call it again") {
					first = out["c4"]
				}
				if !strings.Contains(first, gone) || strings.Count(out["c3"]+out["c4"], gone) != 1 {
					t.Errorf("%s\n%s", out["c3"], out["c4"])
				}
			} else if !strings.HasSuffix(out["c3"], "Output:\n41") || !strings.HasSuffix(out["c4"], "Output:\nTrue") {
				t.Errorf("%s\n%s", out["c3"], out["c4"])
			}
			if strings.Contains(out["c5"], "new kernel") {
				t.Errorf("a loss is told twice: %s", out["c5"])
			}
			c.Close()
			r.NothingLeft()
		})
	}
}
