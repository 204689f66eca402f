package e2e_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gantry-agent/gantry/e2e/rig"
)

// benchServers are blocks of programs that are rows of hostileMCP.
func benchServers(b *testing.B, r *rig.Rig, row string, n int, more string) string {
	b.Helper()
	self, err := os.Executable()
	if err != nil {
		b.Fatal(err)
	}
	program := filepath.Join(filepath.Dir(r.Dir), "server")
	rig.CopyProgram(b, self, program, 0o755)
	<-time.After(2100 * time.Millisecond) // the digest of a file that was just changed is not remembered, as it would be of an installed one
	var blocks strings.Builder
	for i := range n {
		fmt.Fprintf(&blocks, "server \"s%d\" {\n  command = %q\n  args = [%q]\n  env = { %s = \"1\" }\n  approval = \"approve\"\n%s\n}\n", i, program, row, hostileMCPMode, more)
	}
	return blocks.String()
}

// BenchmarkMCPStart is BenchmarkStart without the plugin, with ten servers whose tools are known, and with 10,000 tools of five. None of
// the servers is started, and the plugin is awaited only if the servers are required. The request has the same size in all cases, but for the tools that list resources and search.
func BenchmarkMCPStart(b *testing.B) {
	for _, tc := range []struct {
		name, row, more string
		servers         int
	}{
		{name: "none"},
		{"ten-servers", "answers_twice", "", 10},
		{"ten-required-servers", "answers_twice", "  required = true", 10},
		{"ten-thousand-tools", "has_two_thousand_tools", "  required = true", 5},
	} {
		b.Run(tc.name, func(b *testing.B) {
			r := boxed(b, finished)
			if tc.servers > 0 {
				addMCP(b, r, benchServers(b, r, tc.row, tc.servers, tc.more))
			}
			for i := 0; ; i++ { // a run may end before the tools of optional servers are known
				r.OK("exec", "warm up")
				known, _ := os.ReadDir(filepath.Join(r.Home, "cache", "mcp"))
				if len(known) == tc.servers {
					break
				}
				if i == 20 {
					b.Fatalf("the tools of %d servers of %d are known", len(known), tc.servers)
				}
			}
			var took []time.Duration
			size := 0
			for b.Loop() {
				if err := os.Remove(r.Log); err != nil {
					b.Fatal(err)
				}
				began := monotonic(b)
				run := r.Start("exec", "go")
				if res := run.Wait(); res.Code != 0 {
					b.Fatal(res.Stderr)
				}
				took = append(took, time.Duration(r.Requests()[0].Monotonic-began))
				info, err := os.Stat(r.Log)
				if err != nil {
					b.Fatal(err)
				}
				size = int(info.Size())
			}
			report(b, took, "first-request")
			b.ReportMetric(float64(size), "bytes-request")
		})
	}
}

// BenchmarkMCPCall is the time between two requests of a model that answers at once: with a call of a tool of an MCP server in between, and
// with one of a tool of a plugin.
func BenchmarkMCPCall(b *testing.B) {
	for _, name := range []string{"server", "plugin"} {
		b.Run(name, func(b *testing.B) {
			var script strings.Builder
			for i := range manyCalls {
				if name == "server" {
					script.WriteString(mcpCall(fmt.Sprintf("c%d", i), "mcp__s0", "t", ""))
				} else {
					fmt.Fprintf(&script, "[[step]]\ndo = [{ call = \"lookup\", id = \"c%d\", args = { word = \"x\" } }]\n", i)
				}
			}
			r := boxed(b, script.String()+finished)
			if name == "server" {
				addMCP(b, r, benchServers(b, r, "answers_twice", 1, "  required = true"))
			} else {
				addOdd(b, r, "desk", "desk", "")
			}
			var took []time.Duration
			for b.Loop() {
				if err := os.Remove(r.Log); err != nil && !os.IsNotExist(err) {
					b.Fatal(err)
				}
				r.OK("exec", "go")
				requests := r.Requests()
				for i := 2; i < len(requests); i++ { // the first call may start the server
					took = append(took, time.Duration(requests[i].Monotonic-requests[i-1].Monotonic))
				}
			}
			report(b, took, "request-to-request")
		})
	}
}

// BenchmarkMCPIdle is the proportional memory of the plugin with ten connections that nobody uses, right after their last calls and when the
// plugin is at rest.
func BenchmarkMCPIdle(b *testing.B) {
	var script strings.Builder
	for i := range 10 {
		script.WriteString(mcpCall(fmt.Sprintf("c%d", i), fmt.Sprintf("mcp__s%d", i), "t", ""))
	}
	r := boxed(b, script.String()+done)
	addMCP(b, r, benchServers(b, r, "answers_twice", 10, "  required = true"))
	var most, rest int64
	for b.Loop() {
		c := r.AppServer()
		greet(b, c)
		thread := begin(b, c, map[string]any{})
		submit(b, c, thread, "go")
		c.Notified("turn/completed")
		for id, out := range r.Last().Outputs() {
			if !strings.Contains(out, "Output:fine") {
				b.Fatalf("%s: %s", id, out)
			}
		}
		for _, pid := range mcpProcesses(b, c.PID(), "gantry-tool-mcp") {
			most = max(most, pss(pid))
			<-time.After(7 * time.Second) // after 5, memory is given back
			rest = max(rest, pss(pid))
		}
		c.Close()
	}
	b.ReportMetric(float64(most)/(1<<20), "MiB-PSS-after-calls")
	b.ReportMetric(float64(rest)/(1<<20), "MiB-PSS-plugin")
	b.ReportMetric(0, "ns/op")
}

// BenchmarkMCPLarge is a call whose answer has 100 MB: the time until its error, and the most memory that the plugin has had.
func BenchmarkMCPLarge(b *testing.B) {
	r := boxed(b, mcpCall("c1", "mcp__s0", "t", "")+finished)
	addMCP(b, r, benchServers(b, r, "answers_with_a_hundred_megabytes", 1, "  required = true"))
	var took []time.Duration
	var peak int64
	for b.Loop() {
		run := r.Start("exec", "go")
		sample(run, 10*time.Millisecond, func() {
			for _, pid := range rig.Processes(b, r.Home, "gantry-tool-mcp") {
				peak = max(peak, peakRSS(pid))
			}
		})
		out := r.Last().Outputs()["c1"]
		var seconds float64
		if _, err := fmt.Sscanf(out, "Wall time: %f seconds", &seconds); err != nil || !strings.Contains(out, "is too large") {
			b.Fatalf("%v: %.500s", err, out)
		}
		took = append(took, time.Duration(seconds*float64(time.Second)))
	}
	report(b, took, "error")
	b.ReportMetric(float64(peak)/(1<<20), "MiB-plugin-peak")
}
