package e2e_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

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
