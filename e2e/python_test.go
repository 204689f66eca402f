package e2e_test

import (
	"fmt"
	"os/exec"
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
