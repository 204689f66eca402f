package e2e_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/e2e/rig"
)

// shortMCPKills is how many processes every test of the module kills in the middle of a call of an MCP server; the long form is scripts/soak.
const shortMCPKills = 6

func mcpKills(t *testing.T) int {
	t.Helper()
	s := os.Getenv("GANTRY_SOAK")
	if s == "" {
		return shortMCPKills
	}
	n, err := strconv.Atoi(s)
	if err != nil {
		t.Fatalf("GANTRY_SOAK: %v", err)
	}
	return n
}

// Kills of servers and of their plugin leave no process, descriptor or folder, and the next call starts what is missing.
func TestKillsOfMCPLeaveNothing(t *testing.T) {
	t.Parallel()
	victims := []string{"mcp-server", "gantry-tool-mcp"}
	kills := mcpKills(t)
	var steps strings.Builder
	for i := range max(kills, len(victims)) {
		steps.WriteString(mcpCall(fmt.Sprintf("h%d", i), "mcp__srv", "hang", "") + mcpCall(fmt.Sprintf("n%d", i), "mcp__srv", "say_it", fmt.Sprintf("i = %d", i)) + done)
	}
	r := boxed(t, steps.String())
	addMCP(t, r, mcpServer(t, "srv", r.Dir, fmt.Sprintf("approval = \"approve\"\nsandbox {\n  writable_roots = [%q]\n}", r.Dir)))
	c := r.AppServer("-c", `sandbox.mode="full-access"`)
	greet(t, c)
	run := func(kills int) { // in a thread of its own, which runs the script from its beginning
		thread := begin(t, c, map[string]any{})
		for i := range kills {
			victim := victims[i%len(victims)]
			submit(t, c, thread, "go")
			r.Until("the call hangs", func() bool { return exists(r.Dir, "hangs") })
			if err := os.Remove(filepath.Join(r.Dir, "hangs")); err != nil {
				t.Fatal(err)
			}
			var running []int
			r.Until(victim+" runs", func() bool { // twice if a plugin that was replaced has not ended yet
				running = mcpProcesses(t, c.PID(), victim)
				return len(running) > 0
			})
			slices.Sort(running) // the newest one, which has the call, is the last
			rig.Kill(t, running...)
			c.Notified("turn/completed")
			out := r.Last().Outputs()
			want := map[string]string{"mcp-server": "was ended by the signal 9 (killed)", "gantry-tool-mcp": "crashed during the call"}[victim]
			if got := out[fmt.Sprintf("h%d", i)]; !strings.Contains(got, want) {
				t.Fatalf("kill %d, of %s: %q, want %q", i+1, victim, got, want)
			}
			if got := out[fmt.Sprintf("n%d", i)]; !strings.Contains(got, fmt.Sprintf(`says {"i":%d}`, i)) {
				t.Fatalf("after kill %d, of %s: %q", i+1, victim, got)
			}
			if victim == "gantry-tool-mcp" {
				r.OK("plugin", "reload", "mcp") // which has crashed as often as it may
			}
		}
		c.Call("thread/delete", map[string]any{"threadId": thread}, nil)
		r.Until("the plugin that was replaced has ended, and its server", func() bool {
			return len(mcpProcesses(t, c.PID(), "gantry-tool-mcp")) == 1 && len(mcpProcesses(t, c.PID(), "mcp-server")) == 0
		})
	}
	run(len(victims)) // what lives as long as the host is there after it
	before := countLeft(t, r, c)
	run(kills)
	nothingSince(t, r, c, before, fmt.Sprintf("%d kills have left nothing", kills))
	c.Close()
	r.NothingLeft()
}

// mcpProcesses finds the processes below a host whose command line has a text, but for those that start others.
func mcpProcesses(t testing.TB, host int, text string) (out []int) {
	t.Helper()
	for pid := range rig.Descendants(t, host) {
		at := fmt.Sprintf("/proc/%d/", pid)
		cmdline, _ := os.ReadFile(at + "cmdline")
		comm, _ := os.ReadFile(at + "comm")
		if strings.Contains(string(cmdline), text) && !strings.HasPrefix(string(comm), "gantry-launch") {
			out = append(out, pid)
		}
	}
	return out
}

// No server survives a host that is killed, and another host goes on.
func TestMCPServersEndWithTheirHost(t *testing.T) {
	t.Parallel()
	r := boxed(t, mcpCall("h", "mcp__srv", "hang", "")+finished)
	addMCP(t, r, mcpServer(t, "srv", r.Dir, fmt.Sprintf("approval = \"approve\"\nsandbox {\n  writable_roots = [%q]\n}", r.Dir)))
	for range (mcpKills(t) + 2) / 3 {
		run := r.Start("exec", "go")
		r.Until("the call hangs", func() bool { return exists(r.Dir, "hangs") })
		below := rig.Descendants(t, run.Cmd.Process.Pid)
		if len(mcpProcesses(t, run.Cmd.Process.Pid, "mcp-server")) == 0 {
			t.Fatal("the server does not run")
		}
		run.Signal(os.Kill)
		run.Wait()
		r.Until("all that the host had started has ended", func() bool { return len(rig.Alive(below)) == 0 })
		if err := os.Remove(filepath.Join(r.Dir, "hangs")); err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
	}
	r.OK("resume", "--last", "go on")
	if out := r.Last().Outputs()["h"]; !strings.Contains(out, "outcome unknown") {
		t.Errorf("the model reads %q", out)
	}
	r.NothingLeft()
}

// An idle server is ended step by step: its input is closed, it is asked to terminate, and killed if it does not.
func TestMCPServerIsEndedStepByStep(t *testing.T) {
	t.Parallel()
	r := boxed(t, mcpCall("c", "mcp__srv", "t", "")+finished)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(filepath.Dir(r.Dir), "server")
	rig.CopyProgram(t, self, program, 0o755)
	addMCP(t, r, fmt.Sprintf("server \"srv\" {\n  required = true\n  command = %q\n  args = [\"notes_its_end\", %q]\n  env = { %s = \"1\" }\n  approval = \"approve\"\n  idle = \"100ms\"\n  sandbox {\n    writable_roots = [%q]\n  }\n}\n",
		program, r.Dir, hostileMCPMode, r.Dir))
	c := r.AppServer()
	greet(t, c)
	submit(t, c, begin(t, c, map[string]any{}), "go")
	c.Notified("turn/completed")
	wantOutputs(t, r.Last().Outputs(), map[string][]string{"c": {"Output:fine"}})
	r.Until("the idle server has ended", func() bool { return len(mcpProcesses(t, c.PID(), program)) == 0 })
	if got := r.Read("end"); !strings.HasPrefix(got, "input TERM ") {
		t.Errorf("the end was %q", got)
	}
	c.Close()
	r.NothingLeft()
}
