package e2e_test

import (
	"archive/zip"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/e2e/rig"
)

// newPython returns a rig with the Python plugin.
func newPython(t *testing.T, script string) *rig.Rig {
	t.Helper()
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("there is no Python on this machine")
	}
	r := rig.New(t, script)
	r.Config("plugin \"python\" {\n  source = \"builtin/python\"\n}\n")
	return r
}

// cell is a call of python, as a line of a script.
func cell(id, code string) string {
	return fmt.Sprintf("[[step]]\ndo = [{ call = \"python\", id = %q, args = { code = '''%s''' } }]\n", id, code)
}

const done = "[[step]]\ndo = [{ text = \"done\" }]\n"

// A kernel keeps its variables from cell to cell, after exceptions, timeouts, and its plugin's death; what it can't keep is said.
func TestPython(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"full-access", "workspace-write"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			r := newPython(t, cell("c1", "x = 41\nprint('hello')")+cell("c2", "x + 1")+cell("c3", "def f():\n    return 1/0\nf()")+
				"[[step]]\ndo = [{ call = \"python\", id = \"c4\", args = { code = \"import time; print('some'); time.sleep(600)\", timeout_ms = 200 } }]\n"+
				cell("c5", "open('table.csv', 'w').write('a,b')\nr = gantry.tools.exec_command(cmd='cat table.csv', login=False)\nr['output'], x")+
				cell("c6", "class P:\n    def _repr_png_(self): return b'\\x89PNG\\r\\n\\x1a\\n'\n    def __repr__(self): return 'a picture'\nP()")+
				cell("c7", "gantry.artifact(b'1' * 3_000_000, 'big.bin')['size']")+
				cell("c8", "try:\n    gantry.tools.nothing()\nexcept gantry.ToolError as e:\n    print(e)\ninput()")+
				cell("c9", "import os\nprint('before', flush=True)\nos.kill(os.getpid(), 9)")+cell("c10", "'x' in globals()")+done)
			res := r.OK("exec", "-c", fmt.Sprintf("sandbox.mode=%q", mode), "--events", "go")
			out := r.Last().Outputs()
			for id, want := range map[string][]string{
				"c1":  {"Wall time: ", "Output:\nhello\n"},
				"c2":  {"Output:\n42"},
				"c3":  {"ZeroDivisionError: division by zero", `File "<cell 3>", line 2, in f`, "return 1/0"},
				"c4":  {"did not end within 200ms and was interrupted. Variables are kept.", "some\n", "KeyboardInterrupt"},
				"c5":  {"('a,b', 41)"},
				"c6":  {"a picture"},
				"c7":  {"3000000"},
				"c8":  {`there is no tool "nothing"`, "RuntimeError: input() is not available"},
				"c9":  {"The kernel has ended during the call (it was ended by a signal (killed)). All variables are lost", "before\n"},
				"c10": {"Output:\nFalse"},
			} {
				for _, w := range want {
					if !strings.Contains(out[id], w) {
						t.Errorf("%s has no %q:\n%s", id, w, out[id])
					}
				}
			}
			if !strings.Contains(res.Stdout, "big.bin") {
				t.Error("the artifact is in no event")
			}
			r.NothingLeft()
		})
	}
}

// The kernel outlives its plugin.
func TestPythonOutlivesItsPlugin(t *testing.T) {
	t.Parallel()
	r := newPython(t, cell("c1", "x = 41")+
		"[[step]]\ndo = [{ call = \"wait_for\", id = \"w1\", args = { file = \"one\" } }]\n"+cell("c2", "x + 1")+
		"[[step]]\ndo = [{ call = \"wait_for\", id = \"w2\", args = { file = \"two\" } }]\n"+
		cell("c3", "import time\nopen('begun', 'w').close()\ntime.sleep(600)")+cell("c4", "x + 2")+done)
	addOdd(t, r, "waits", "waits", "")
	run := r.Start("exec", "go")
	plugin := func() []int { return rig.Processes(t, r.Home, "gantry-tool-python") }
	kill := func() {
		old := plugin()
		rig.Kill(t, old...)
		r.Until("the plugin is back", func() bool { now := plugin(); return len(now) == 1 && len(old) == 1 && now[0] != old[0] })
	}
	r.Until("the first barrier", func() bool { return exists(r.Dir, "one.waiting") })
	kill()
	r.Write("one", "")
	r.Until("the second barrier", func() bool { return exists(r.Dir, "two.waiting") })
	if res := r.OK("plugin", "reload", "python"); !strings.Contains(res.Stdout, "reloaded python") {
		t.Errorf("reload says:\n%s%s", res.Stdout, res.Stderr)
	}
	r.Write("two", "")
	r.Until("the cell runs", func() bool { return exists(r.Dir, "begun") })
	rig.Kill(t, plugin()...)
	if res := run.Wait(); res.Code != 0 {
		t.Fatalf("exit %d:\n%s", res.Code, res.Stderr)
	}
	out := r.Last().Outputs()
	for id, want := range map[string]string{"c2": "Output:\n42", "c3": "crashed during the call", "c4": "Output:\n43"} {
		if !strings.Contains(out[id], want) {
			t.Errorf("%s has no %q:\n%s", id, want, out[id])
		}
	}
	r.NothingLeft()
}

// Rules about commands neither ask about starting a kernel nor about what is in a cell.
func TestPythonUnderRules(t *testing.T) {
	t.Parallel()
	r := newPython(t, cell("c1", "def f(a):\n    return a + 1\nf(1)")+cell("c2", "for i in range(3):\n    print(f(i))")+done)
	r.Write(r.Home+"/rules/default.rules", "prefix_rule(pattern=[\"git\", \"push\"], decision=\"forbidden\")\n")
	r.OK("exec", "-c", `sandbox.mode="workspace-write"`, "go")
	out := r.Last().Outputs()
	if !strings.HasSuffix(out["c1"], "Output:\n2") || !strings.HasSuffix(out["c2"], "Output:\n1\n2\n3\n") {
		t.Errorf("%q", out)
	}
}

// Without Python, the model reads what was tried.
func TestPythonIsMissing(t *testing.T) {
	t.Parallel()
	r := rig.New(t, cell("c1", "1")+done)
	r.Config("plugin \"python\" {\n  source = \"builtin/python\"\n  config {\n    interpreter = \"/nonexistent/python\"\n  }\n}\n")
	r.OK("exec", "go")
	if out := r.Last().Outputs()["c1"]; !strings.Contains(out, "configured interpreter /nonexistent/python is not an executable program") {
		t.Errorf("%q", out)
	}
}

// The command setup makes an environment with the configured packages, in the sandbox and with the user's consent, by uv and without; status
// and doctor show it, cells use it, and the workspace's own environment comes first.
func TestPythonSetup(t *testing.T) {
	t.Parallel()
	for name, installers := range map[string][]string{"pip": {"pip"}, "uv, then pip": {"uv", "pip"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			testPythonSetup(t, installers)
		})
	}
}

func testPythonSetup(t *testing.T, installers []string) {
	r := newPython(t, cell("c1", "import sample\nsample.VALUE")+done)
	home, err := os.MkdirTemp("/var/tmp", "gantry-test-") // plugins see another /tmp
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(home) })
	r.Env = append(r.Env, "HOME="+home, "XDG_DATA_HOME=")
	paths := installerPaths(t, home)
	if paths[installers[0]] == "" {
		t.Skip("there is no uv on this machine; `make test` installs one")
	}
	r.Env = append(r.Env, "PATH="+paths[installers[0]])
	wheel := sampleWheel(t, home)
	if res := r.Gantry("plugin", "run", "--yes", "python", "setup"); res.Code != 1 || !strings.Contains(res.Stderr, "names no packages") {
		t.Errorf("without packages: exit %d\n%s", res.Code, res.Stderr)
	}
	conf, err := os.ReadFile(filepath.Join(r.Home, "gantry.hcl"))
	if err != nil {
		t.Fatal(err)
	}
	r.Write(filepath.Join(r.Home, "gantry.hcl"), strings.Replace(string(conf), "builtin/python\"\n", fmt.Sprintf("builtin/python\"\n  config {\n    packages = [%q]\n  }\n", wheel), 1))
	if res := r.Gantry("plugin", "run", "python", "setup"); res.Code != 1 || !strings.Contains(res.Stderr, "not confirmed") {
		t.Errorf("without consent: exit %d\n%s", res.Code, res.Stderr)
	}
	if res := r.OK("plugin", "run", "python", "status"); !strings.Contains(res.Stdout, `"own": false`) || !strings.Contains(res.Stdout, `"kernels": []`) {
		t.Errorf("before setup:\n%s", res.Stdout)
	}
	own := filepath.Join(home, ".local/share/gantry/python/environment/bin/python")
	for _, installer := range installers {
		r.Env = append(r.Env, "PATH="+paths[installer])
		for range 2 { // the second time, only the packages are installed
			res := r.Gantry("plugin", "run", "--yes", "python", "setup")
			if res.Code != 0 && strings.Contains(res.Stderr, "ensurepip") {
				t.Skip("this machine's Python makes no environments")
			}
			if res.Code != 0 || !strings.Contains(res.Stdout, fmt.Sprintf(`"installer": %q`, installer)) {
				t.Fatalf("by %s: exit %d\n%s%s", installer, res.Code, res.Stdout, res.Stderr)
			}
		}
		if res := r.OK("plugin", "run", "python", "status"); !strings.Contains(res.Stdout, `"own": true`) || !strings.Contains(res.Stdout, own) {
			t.Errorf("after setup by %s:\n%s", installer, res.Stdout)
		}
		r.OK("exec", "-c", `sandbox.mode="workspace-write"`, "go")
		if out := r.Last().Outputs()["c1"]; !strings.Contains(out, "'from a wheel'") {
			t.Errorf("by %s: %q", installer, out)
		}
	}
	if res := r.Gantry("doctor"); !strings.Contains(res.Stdout, "✓ plugin python: Python 3.") || !strings.Contains(res.Stdout, own) {
		t.Errorf("doctor says\n%s", res.Stdout)
	}
	r.Write(".venv/bin/python", "#!/bin/sh\necho no such library >&2\nexit 127\n")
	if err := os.Chmod(filepath.Join(r.Dir, ".venv/bin/python"), 0o755); err != nil {
		t.Fatal(err)
	}
	if res := r.Gantry("doctor"); res.Code != 1 || !strings.Contains(res.Stdout, ".venv/bin/python doesn't start") || !strings.Contains(res.Stdout, "no such library") {
		t.Errorf("with a broken environment, doctor says\n%s", res.Stdout)
	}
}

// installerPaths returns a PATH for each installer: with uv, "" if there is none, and without.
func installerPaths(t *testing.T, home string) map[string]string {
	t.Helper()
	var without []string
	for _, dir := range filepath.SplitList(os.Getenv("PATH")) {
		if !exists(dir, "uv") {
			without = append(without, dir)
		}
	}
	out := map[string]string{"pip": strings.Join(without, string(os.PathListSeparator))}
	uv, err := exec.LookPath("uv")
	if python := os.Getenv("GANTRY_PYTHON"); err != nil && python != "" { // beside it, `make test` installs uv
		uv, err = exec.LookPath(filepath.Join(filepath.Dir(python), "uv"))
	}
	if err != nil {
		return out
	}
	dir := filepath.Join(home, "uv")
	if err := errors.Join(os.Mkdir(dir, 0o755), os.Symlink(uv, filepath.Join(dir, "uv"))); err != nil {
		t.Fatal(err)
	}
	out["uv"] = dir + string(os.PathListSeparator) + out["pip"]
	return out
}

// sampleWheel makes a package that can be installed without a network.
func sampleWheel(t *testing.T, dir string) string {
	t.Helper()
	wheel := filepath.Join(dir, "sample-1.0-py3-none-any.whl")
	f, err := os.Create(wheel)
	if err != nil {
		t.Fatal(err)
	}
	z := zip.NewWriter(f)
	for name, text := range map[string]string{
		"sample.py": "VALUE = 'from a wheel'\n", "sample-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: sample\nVersion: 1.0\n",
		"sample-1.0.dist-info/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n", "sample-1.0.dist-info/RECORD": "",
	} {
		w, err := z.Create(name)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, text); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(z.Close(), f.Close()); err != nil {
		t.Fatal(err)
	}
	return wheel
}

// The acceptance run: a CSV, a figure, a command, a patch, the kernel's death and the plugin's, and the host's; then the thread goes on.
func TestPythonRun(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"full-access", "workspace-write"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			waits := func(id, file string) string {
				return fmt.Sprintf("[[step]]\ndo = [{ call = \"wait_for\", id = %q, args = { file = %q } }]\n", id, file)
			}
			patch := `*** Begin Patch\n*** Update File: notes.txt\n@@\n-before\n+after\n*** End Patch`
			// A stand-in for matplotlib's pyplot: what the worker uses of it is the same.
			plot := "import sys, types\nclass Figure:\n    def savefig(self, file, **how): file.write(b'\\x89PNG\\r\\n\\x1a\\n' + bytes(total))\n" +
				"plt = types.ModuleType('matplotlib.pyplot')\nplt.open = [1]\nplt.get_fignums = lambda: list(plt.open)\n" +
				"plt.figure = lambda n: Figure()\nplt.close = lambda which: plt.open.clear()\nsys.modules['matplotlib.pyplot'] = plt\n"
			r := newPython(t, cell("c1", "import csv\nrows = list(csv.DictReader(open('table.csv')))\ntotal = sum(int(r['n']) for r in rows)\ntotal")+
				cell("c2", plot+"gantry.output(total, 'sum')\nprint('to stderr', file=sys.stderr)\nNone")+
				cell("c3", "r = gantry.tools.exec_command(cmd='wc -l < table.csv', login=False)\nr['output'].strip()")+
				cell("c4", "gantry.tools.apply_patch('"+patch+"')\nopen('notes.txt').read()")+
				cell("c5", "import os\nos.kill(os.getpid(), 9)")+cell("c6", "total = 8\n'rows' in globals()")+
				waits("w1", "one")+cell("c7", "total + 1")+
				cell("c8", "gantry.tools.exec_command(cmd='echo x >> times; touch ran; sleep 600', login=False, yield_time_ms=30000)")+
				cell("c9", "'total' in globals()")+cell("c10", "2")+done)
			r.Write("table.csv", "name,n\na,3\nb,4\n")
			r.Write("notes.txt", "before\n")
			addOdd(t, r, "waits", "waits", "")
			access := fmt.Sprintf("sandbox.mode=%q", mode)
			run := r.Start("exec", "-c", access, "--events", "go")
			r.Until("the barrier", func() bool { return exists(r.Dir, "one.waiting") })
			old := rig.Processes(t, r.Home, "gantry-tool-python")
			rig.Kill(t, old...)
			r.Until("the plugin is back", func() bool {
				now := rig.Processes(t, r.Home, "gantry-tool-python")
				return len(now) == 1 && len(old) == 1 && now[0] != old[0]
			})
			r.Write("one", "")
			r.Until("the nested command runs", func() bool { return exists(r.Dir, "ran") })
			run.Signal(os.Kill)
			run.Wait()
			res := r.OK("exec", "-c", access, "resume", "--last", "go on")
			out := r.Last().Outputs()
			for id, want := range map[string][]string{
				"c1": {"Output:\n7"}, "c2": {"to stderr"}, "c3": {"'3'"}, "c4": {`'after\n'`},
				"c5":  {"The kernel has ended during the call (it was ended by a signal (killed)). All variables are lost"},
				"c6":  {"Output:\nFalse"},
				"c7":  {"Output:\n9"},
				"c8":  {"outcome unknown: the call had started when the host stopped"},
				"c9":  {"This is a new kernel, without earlier variables: the previous one is gone (it ended with an earlier process", "Output:\nFalse"},
				"c10": {"Output:\n2"},
			} {
				for _, w := range want {
					if !strings.Contains(out[id], w) {
						t.Errorf("%s has no %q:\n%s", id, w, out[id])
					}
				}
			}
			if strings.Contains(out["c10"], "new kernel") || strings.Contains(out["c6"], "earlier process") {
				t.Errorf("a loss is told twice:\n%s\n%s", out["c6"], out["c10"])
			}
			if r.Read("times") != "x\n" || r.Read("notes.txt") != "after\n" {
				t.Errorf("the command ran again: %q, or the patch is missing: %q", r.Read("times"), r.Read("notes.txt"))
			}
			if strings.Contains(res.Stdout, "\x00") {
				t.Error("a marker is shown")
			}
			r.NothingLeft()
		})
	}
}

// The behaviour that people know from notebooks, on a real kernel, in the sandbox and outside.
func TestPythonCells(t *testing.T) {
	t.Parallel()
	timed := func(id, code string, ms int) string {
		return fmt.Sprintf("[[step]]\ndo = [{ call = \"python\", id = %q, args = { code = '''%s''', timeout_ms = %d } }]\n", id, code, ms)
	}
	png := "class P:\n    def _repr_png_(self): return b'\\x89PNG\\r\\n\\x1a\\n'\n    def __repr__(self): return 'a picture'\n"
	type row struct{ id, step, want, not string }
	is := func(id, code, want, not string) row { return row{id, cell(id, code), want, not} }
	rows := []row{
		is("p1a", "x = 41", "Output:\n$", ""), is("p1b", "x + 1", "Output:\n42$", ""), is("p1c", "None", "Output:\n$", ""), is("p1d", "5;", "Output:\n$", ""),
		is("p2", "import sys, types\nclass F:\n    def savefig(self, file, **how): file.write(b'\\x89PNG\\r\\n\\x1a\\n')\n    def __repr__(self): return 'a figure'\n"+
			"plt = types.ModuleType('matplotlib.pyplot')\nplt.open = [1]\nplt.get_fignums = lambda: list(plt.open)\nplt.figure = lambda n: F()\n"+
			"plt.close = lambda which: plt.open.clear()\nsys.modules['matplotlib.pyplot'] = plt", "", ""),
		is("p2b", "plt.open", "Output:\n[]$", ""),
		is("p3", "y = 1\n1/0", "File \"<cell 7>\", line 2", "<worker>"),
		{"p4", timed("p4", png+"import time; time.sleep(60)", 200), "was interrupted. Variables are kept.", ""}, is("p4b", "x", "Output:\n41$", ""),
		// Two pools, one in the other, outlive both interrupts.
		{"p5", timed("p5", "from concurrent.futures import ThreadPoolExecutor\nprint('some')\ngantry.show(P())\nwith ThreadPoolExecutor() as a, ThreadPoolExecutor() as b:\n    a.submit(time.sleep, 600)\n    b.submit(time.sleep, 600).result()", 1000),
			"The code did not end within 1s and could not be interrupted, so the kernel was killed. All variables are lost; the next call has a new kernel.\nOutput:\nsome\n$", ""},
		is("p5b", "1+1", "Output:\n2$", "new kernel"), is("p5c", "'x' in globals()", "Output:\nFalse$", ""),
		// The second interrupt ends the wait for the threads of one pool.
		{"p5one", timed("p5one", "import time\nx = 41\nfrom concurrent.futures import ThreadPoolExecutor\nwith ThreadPoolExecutor() as pool:\n    list(pool.map(time.sleep, [600]))", 1000),
			"was interrupted. Variables are kept.", ""},
		is("p5two", "x", "Output:\n41$", ""),
		{"p5ignores", timed("p5ignores", "while True:\n    try:\n        time.sleep(600)\n    except BaseException:\n        print('no')", 1000),
			"could not be interrupted, so the kernel was killed. All variables are lost; the next call has a new kernel.\nOutput:\nno\nno\n$", ""},
		is("p5after", "'x' in globals()", "Output:\nFalse$", "new kernel"),
		{"p5sum", timed("p5sum", "print('some', flush=True)\nsum(range(10**12))", 1000), "could not be interrupted, so the kernel was killed. All variables are lost", ""},
		is("p5d", "1+1", "Output:\n2$", "earlier process"),
		is("p6", "import os, subprocess\nos.write(1, b'{\"op\":\"done\",\"id\":1}\\n')\nsubprocess.run(['echo', 'child'])\nNone", "Output:\n{\"op\":\"done\",\"id\":1}\nchild\n$", ""),
		is("p7", "input()", "input() is not available", ""),
		is("p8", "import asyncio\nawait asyncio.sleep(0)\nprint('x' * 10_000_000)", "bytes omitted", ""), is("p8b", "3", "Output:\n3$", ""),
		is("p9", png+"display(P())\nraise ValueError('after the image')", "ValueError: after the image", ""),
		is("fork", "import warnings\nwarnings.simplefilter('ignore')\npid = os.fork()\nif pid == 0:\n    os._exit(0)\nos.waitpid(pid, 0)[1]", "Output:\n0$", ""),
		is("closed", "import sys\nos.close(1); os.close(2); sys.stdout = None", "", ""), is("closed2", "print('again')", "Output:\nagain\n$", ""),
		is("surrogate", "'\\ud800'", "\\ud800", ""),
		is("exit", "print('before', flush=True)\nos._exit(3)", "it exited with code 3", ""),
		is("pipes", "import os\nos.closerange(0, 256)", "All variables are lost", ""),
		is("last", "4", "Output:\n4$", ""),
	}
	var script strings.Builder
	for _, c := range rows {
		script.WriteString(c.step)
	}
	for _, mode := range []string{"full-access", "workspace-write"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			r := newPython(t, script.String()+done)
			res := r.OK("exec", "-c", fmt.Sprintf("sandbox.mode=%q", mode), "--events", "go")
			out := r.Last().Outputs()
			for _, c := range rows {
				want, whole := strings.CutSuffix(c.want, "$")
				if got := out[c.id]; !strings.Contains(got, want) || whole && !strings.HasSuffix(got, want) || c.not != "" && strings.Contains(got, c.not) {
					t.Errorf("%s, want %q, not %q:\n%.1000s", c.id, c.want, c.not, got)
				}
			}
			images := map[string]int{}
			for _, e := range rig.Events(t, res.Stdout) {
				var b struct{ Call string }
				if e.Kind == "call.ended" {
					e.Into(t, &b)
					images[b.Call] = strings.Count(string(e.Body), "image")
				}
			}
			if images["p2"] == 0 || images["p5"] == 0 || images["p9"] == 0 || images["p2b"] != 0 {
				t.Errorf("images %v", images)
			}
			r.NothingLeft()
		})
	}
}

// A kernel that is not used ends, which the model is told once; 1 GiB of output is counted, and costs nothing else.
func TestPythonIdle(t *testing.T) {
	t.Parallel()
	r := rig.New(t, cell("c1", "import os\nx = 1\nchunk = b'x' * (1 << 20)\nfor _ in range(1024):\n    os.write(1, chunk)")+
		"[[step]]\ndo = [{ call = \"wait_for\", id = \"w1\", args = { file = \"one\" } }]\n"+cell("c2", "'x' in globals()")+done)
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("there is no Python on this machine")
	}
	r.Config("plugin \"python\" {\n  source = \"builtin/python\"\n  config {\n    idle = \"50ms\"\n  }\n}\n")
	addOdd(t, r, "waits", "waits", "")
	run := r.Start("exec", "-c", `sandbox.mode="workspace-write"`, "--events", "go")
	run.Sees(`"session.exited"`)
	r.Write("one", "")
	if res := run.Wait(); res.Code != 0 {
		t.Fatalf("exit %d:\n%s", res.Code, res.Stderr)
	}
	out := r.Last().Outputs()
	// 1 GiB, of which the beginning and the end are kept.
	if !strings.Contains(out["c1"], "... 10726932") {
		t.Errorf("%.300s", out["c1"])
	}
	if want := "the previous one is gone (it was not used for 50ms)"; !strings.Contains(out["c2"], want) || !strings.HasSuffix(out["c2"], "Output:\nFalse") {
		t.Errorf("%s, want %q", out["c2"], want)
	}
	r.NothingLeft()
}
