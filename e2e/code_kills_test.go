package e2e_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/e2e/rig"
)

// shortCodeKills is how many processes of code every test of the module kills; the long form is scripts/soak.
const shortCodeKills = 6

// Kills of a kernel, of the process of a script, and of the Python plugin leave no process, descriptor or folder behind, and the next code
// runs. All are killed while code is in the middle of a call, in one thread of one process.
func TestKillsOfCodeLeaveNothing(t *testing.T) {
	t.Parallel()
	kills := shortCodeKills
	if s := os.Getenv("GANTRY_SOAK"); s != "" {
		n, err := strconv.Atoi(s)
		if err != nil {
			t.Fatalf("GANTRY_SOAK: %v", err)
		}
		kills = n
	}
	victims := []string{"worker", "script", "plugin"}
	var steps strings.Builder
	for i := range max(kills, len(victims)) {
		waits := fmt.Sprintf("echo > waiting-%[1]d; until [ -e go-%[1]d ]; do sleep 0.05; done; rm go-%[1]d", i)
		code := cell(fmt.Sprintf("c%d", i), "gantry.tools.exec_command(cmd='"+waits+"', login=False, yield_time_ms=30000)")
		if victims[i%3] == "script" {
			code = "[[step]]\ndo = [" + execCall(fmt.Sprintf("c%d", i), `await tools.exec_command({cmd: "`+waits+`", login: false, yield_time_ms: 30000})`) + "]\n"
		}
		next := fmt.Sprintf("[[step]]\ndo = [{ call = \"python\", id = \"n%d\", args = { code = \"6 * 7\" } }]\n[[step]]\ndo = [%s]\n", i, execCall(fmt.Sprintf("s%d", i), "text(6 * 7)"))
		steps.WriteString(code + next + done)
	}
	rest := strings.ReplaceAll(cell("rest", "6 * 7")+done, "[[step]]\n", "[[step]]\nwhen = { user = 'rest' }\n")
	r := newPython(t, rest+steps.String())
	r.Config(codemodeOn)
	c := r.AppServer("-c", `sandbox.mode="full-access"`)
	greet(t, c)
	// A thread of its own is not counted: what lives as long as the host is there after it.
	killCode(t, r, c, victims, len(victims))
	before := countLeft(t, r, c)
	killCode(t, r, c, victims, kills)
	nothingSince(t, r, c, before, fmt.Sprintf("%d kills have left nothing", kills))
	c.Close()
	r.NothingLeft()
}

// killCode kills processes of code in a thread, which it deletes afterwards, with its kernel and the output of its commands.
func killCode(t *testing.T, r *rig.Rig, c *rig.Client, victims []string, kills int) {
	t.Helper()
	thread := begin(t, c, map[string]any{})
	for i := range kills {
		submit(t, c, thread, "go")
		r.Until("the code waits", func() bool { return exists(r.Dir, fmt.Sprintf("waiting-%d", i)) })
		var running []int
		r.Until("one "+victims[i%3]+" runs", func() bool { // and none that was replaced
			running = codeProcesses(t, c.PID(), victims[i%3])
			return len(running) == 1
		})
		rig.Kill(t, running[0])
		c.Notified("turn/completed")
		r.Write(fmt.Sprintf("go-%d", i), "") // a command that is a session by now goes on without its caller
		out := r.Last().Outputs()
		for _, id := range []string{fmt.Sprintf("n%d", i), fmt.Sprintf("s%d", i)} {
			if !strings.Contains(out[id], "Output:\n42") {
				t.Fatalf("after kill %d, of the %s: %q", i+1, victims[i%3], out[id])
			}
		}
		if victims[i%3] == "plugin" {
			r.OK("plugin", "reload", "python") // which has crashed as often as it may
		}
		if err := os.Remove(filepath.Join(r.Dir, fmt.Sprintf("waiting-%d", i))); err != nil {
			t.Fatal(err)
		}
	}
	submit(t, c, thread, "rest") // in which a process of the plugin that was replaced hands its kernel over, and ends
	c.Notified("turn/completed")
	r.Until("the plugin has one process", func() bool { return len(codeProcesses(t, c.PID(), "plugin")) == 1 })
	c.Call("thread/delete", map[string]any{"threadId": thread}, nil)
	for i := range kills {
		if err := os.Remove(filepath.Join(r.Dir, fmt.Sprintf("go-%d", i))); err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
	}
}

// codeProcesses finds the processes of this kind.
func codeProcesses(t *testing.T, host int, victim string) (out []int) {
	t.Helper()
	parts := map[string]string{"worker": "exec(compile(f.read(int(f.readline()))", "script": "gantry-codemode", "plugin": "gantry-tool-python"}
	for pid := range rig.Descendants(t, host) {
		at := fmt.Sprintf("/proc/%d/", pid)
		cmdline, _ := os.ReadFile(at + "cmdline")
		comm, _ := os.ReadFile(at + "comm")
		if strings.Contains(string(cmdline), parts[victim]) && !strings.HasPrefix(string(comm), "gantry-launch") {
			out = append(out, pid)
		}
	}
	return out
}
