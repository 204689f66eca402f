package e2e_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gantry-agent/gantry/e2e/rig"
)

// BenchmarkScript is BenchmarkTurn with calls of exec that run text("hi"): of a model that thinks until a process for the script waits,
// and of one that answers at once.
func BenchmarkScript(b *testing.B) {
	for name, thinks := range map[string]time.Duration{"thinks": 100 * time.Millisecond, "at-once": 0} {
		b.Run(name, func(b *testing.B) {
			benchCalls(b, manyCalls, func(n int) (begun, done string) {
				return fmt.Sprintf(`{"id":"ctc_%d","type":"custom_tool_call","status":"in_progress","call_id":"call_%[1]d","name":"exec","input":""}`, n),
					fmt.Sprintf(`{"id":"ctc_%d","type":"custom_tool_call","status":"completed","call_id":"call_%[1]d","name":"exec","input":%q}`, n, `text("hi")`)
			}, codemodeOn, "", thinks, 0, "exec", "go")
		})
	}
}

// BenchmarkScriptCalls measures what calls of tools take as a script sees them: a read-only tool of a plugin, true with full access, and a
// hundred of the read-only ones at once.
func BenchmarkScriptCalls(b *testing.B) {
	r := rig.New(b, `
[[step]]
do = [`+execCall("e1", `
const took = async (n, f) => {
  await f()
  const begun = Date.now()
  for (let i = 0; i < n; i++) await f()
  return (Date.now() - begun) / n
}
const look = () => tools.lookup({word: "x"})
text(JSON.stringify({
  "read-only": await took(200, look),
  "true": await took(20, () => tools.exec_command({cmd: "true", login: false})),
  "100-at-once": await took(5, () => Promise.all(Array(100).fill(0).map(look))),
}))
`)+`]
[[step]]
do = [{ text = "done" }]
`)
	r.Config(codemodeOn)
	addOdd(b, r, "desk", "desk", "")
	took := map[string][]time.Duration{}
	for b.Loop() {
		r.OK("exec", "go")
		_, text, _ := strings.Cut(r.Last().Outputs()["e1"], "Output:\n")
		var ms map[string]float64
		if err := json.Unmarshal([]byte(text), &ms); err != nil {
			b.Fatalf("%v: %s", err, text)
		}
		for what, t := range ms {
			took[what] = append(took[what], time.Duration(t*float64(time.Millisecond)))
		}
	}
	for what, list := range took {
		report(b, list, what)
	}
	b.ReportMetric(float64(shell(b))/1e6, "ms/bare-true")
}

// BenchmarkScriptBomb is a script that takes memory until its limit, compared with one that outputs a word: the memory of the host, and
// the time until the model has the error.
func BenchmarkScriptBomb(b *testing.B) {
	for name, code := range map[string]string{"word": `text("hi")`, "bomb": `const a = []; for (;;) a.push(new Array(1000).fill(0))`} {
		b.Run(name, func(b *testing.B) {
			r := rig.New(b, "[[step]]\ndo = ["+execCall("e1", code)+"]\n[[step]]\ndo = [{ text = \"done\" }]\n")
			r.Config(codemodeOn)
			var peak int64
			var took []time.Duration
			for b.Loop() {
				run := r.Start("exec", "go")
				// The peak only grows; the processors are for the script.
				sample(run, time.Millisecond, func() { peak = max(peak, peakRSS(run.Cmd.Process.Pid)) })
				requests := r.Requests()
				took = append(took, time.Duration(requests[len(requests)-1].Monotonic-requests[len(requests)-2].Monotonic))
			}
			report(b, took, "request-to-request")
			b.ReportMetric(float64(peak)/(1<<20), "MiB-host-peak")
		})
	}
}

// peakRSS is the most memory that a process has had; 0: it is gone.
func peakRSS(pid int) int64 {
	status, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "status"))
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(status), "VmHWM:")
	kib, _ := strconv.ParseInt(strings.Fields(rest + " 0")[0], 10, 64)
	return kib << 10
}
