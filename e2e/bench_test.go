package e2e_test

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gantry-agent/gantry/e2e/rig"
	"golang.org/x/sys/unix"
)

// twenty is a turn of twenty calls of `true` by a model that answers at once.
const twenty = `
[[step]]
when  = { since_user = "<20" }
times = -1
do    = [{ call = "exec_command", args = { cmd = "true", login = false } }]

[[step]]
when  = { since_user = 20 }
times = -1
do    = [{ text = "done" }]
`

// monotonic is the clock that the scripted provider stamps requests with.
func monotonic(b *testing.B) int64 {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		b.Fatal(err)
	}
	return ts.Nano()
}

// BenchmarkStart measures from the start of the command until the provider has the first request: median and worst.
func BenchmarkStart(b *testing.B) {
	r := rig.New(b, say)
	r.OK("exec", "warm up")
	var took []time.Duration
	for b.Loop() {
		b.StopTimer()
		if err := os.Remove(r.Log); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
		began := monotonic(b)
		r.OK("exec", "go")
		took = append(took, time.Duration(r.Requests()[0].Monotonic-began))
	}
	report(b, took, "first-request")
}

// BenchmarkTurn measures what the host adds to a turn of twenty calls of `true`: from the end of an answer that makes one
// until the vendor has the next request. The vendor answers at once.
func BenchmarkTurn(b *testing.B) {
	benchTurn(b, manyCalls, `{"cmd":"true","login":false}`, "", 0, 0, "exec", "go")
}

// BenchmarkSandboxedTurn is BenchmarkTurn in the sandbox, with a model that thinks for as long as it takes to make the next box.
func BenchmarkSandboxedTurn(b *testing.B) {
	benchTurn(b, manyCalls, `{"cmd":"true","login":false}`, "", 100*time.Millisecond, 0, "exec", "--sandbox", "workspace-write", "go")
}

// BenchmarkSandboxedAtOnce is BenchmarkSandboxedTurn with a model that answers at once.
func BenchmarkSandboxedAtOnce(b *testing.B) {
	benchTurn(b, manyCalls, `{"cmd":"true","login":false}`, "", 0, 0, "exec", "--sandbox", "workspace-write", "go")
}

// BenchmarkSandboxedTree is BenchmarkSandboxedTurn in an empty folder and in one with 1,000,000 files in 100,000 folders, which is what it
// was for the run before; and the first command of a model that thinks for half a second there. $GANTRY_BIG_TREE keeps the folder.
func BenchmarkSandboxedTree(b *testing.B) {
	top := os.Getenv("GANTRY_BIG_TREE")
	if top == "" {
		top = b.TempDir()
	}
	growTree(b, top, 100_000, 10)
	for name, dir := range map[string]string{"empty": b.TempDir(), "big": top} {
		for _, calls := range []int{manyCalls, 1} {
			b.Run(fmt.Sprintf("%s/calls=%d", name, calls), func(b *testing.B) {
				benchTurn(b, calls, `{"cmd":"true","login":false}`, "", 500*time.Millisecond, 0, "exec", "--sandbox", "workspace-write", "-C", dir, "go")
			})
		}
	}
}

// growTree makes folders with empty files in them, unless they are there.
func growTree(b *testing.B, top string, folders, files int) {
	whole := filepath.Join(top, "whole")
	if _, err := os.Stat(whole); err == nil {
		return
	}
	for i := range folders {
		dir := filepath.Join(top, fmt.Sprintf("a%d/b%d/c%d", i/1000, i/100%10, i%100))
		if err := os.MkdirAll(dir, 0o755); err != nil {
			b.Fatal(err)
		}
		for j := range files {
			if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("file%d", j)), nil, 0o644); err != nil {
				b.Fatal(err)
			}
		}
	}
	if err := os.WriteFile(whole, nil, 0o644); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkSandboxedFirst is the first command of a turn in the sandbox, of a model that writes its name and then for as long as
// it takes to make a box; of one that thinks before that and writes all of it at once; and of one that answers at once.
func BenchmarkSandboxedFirst(b *testing.B) {
	for name, how := range map[string]struct{ thinks, writes time.Duration }{
		"thought": {thinks: 500 * time.Millisecond}, "written": {writes: 100 * time.Millisecond}, "at-once": {},
	} {
		b.Run(name, func(b *testing.B) {
			benchTurn(b, 1, `{"cmd":"true","login":false}`, "", how.thinks, how.writes, "exec", "--sandbox", "workspace-write", "go")
		})
	}
}

// BenchmarkLogin is BenchmarkTurn for a model that wants a login shell, as is the default, and a user whose profile starts forty
// programs.
func BenchmarkLogin(b *testing.B) {
	benchTurn(b, manyCalls, `{"cmd":"true"}`, "for i in {1..40}; do /bin/true; done; export EDITOR=vi; greet() { echo hello; }\n", 0, 0, "exec", "go")
}

const manyCalls = 20

// benchTurn is a turn with calls of a command. The model thinks before each answer, and writes its arguments for a while.
func benchTurn(b *testing.B, calls int, arguments, profile string, thinks, writes time.Duration, command ...string) {
	benchCalls(b, calls, func(n int) (begun, done string) {
		return fmt.Sprintf(`{"id":"fc_%d","type":"function_call","status":"in_progress","call_id":"call_%[1]d","name":"exec_command","arguments":""}`, n),
			fmt.Sprintf(`{"id":"fc_%d","type":"function_call","status":"completed","call_id":"call_%[1]d","name":"exec_command","arguments":%q}`, n, arguments)
	}, "", profile, thinks, writes, command...)
	b.ReportMetric(float64(shell(b))/1e6, "ms/bare-true")
}

// benchCalls is a turn with calls, which item returns in the vendor's form: when the model begins to write one, and complete. hcl is
// further configuration.
func benchCalls(b *testing.B, calls int, item func(n int) (begun, done string), hcl, profile string, thinks, writes time.Duration, command ...string) {
	var mu sync.Mutex // each run has a connection of its own
	var answered time.Time
	var took []time.Duration
	a := startAnswerer(b, func(conn io.Writer, n int) {
		mu.Lock()
		defer mu.Unlock()
		if n > 0 {
			took = append(took, time.Since(answered))
		}
		if thinks > 0 {
			<-time.After(thinks)
		}
		begin, answer := responsesBegin, ""
		if n < calls {
			begun, done := item(n)
			begin += responsesFrame("response.output_item.added", `"output_index":0,"item":`+begun)
			answer = responsesEnd(done)
		} else {
			answer = wireShapes["openai-responses"].after("done")
		}
		if writes > 0 && n < calls {
			_, _ = conn.Write(slices.Concat([]byte(answerHead), chunked(begin)))
			<-time.After(writes)
			_, _ = conn.Write(slices.Concat(chunked(answer), []byte(answerEnd)))
		} else {
			_, _ = conn.Write(slices.Concat([]byte(answerHead), chunked(begin+answer), []byte(answerEnd)))
		}
		answered = time.Now()
	})
	r := rig.New(b, "")
	useVendor(r, "openai-responses", "http://"+a.Addr().String())
	r.Config(hcl)
	user := filepath.Join(r.Home, "user")
	if err := os.MkdirAll(user, 0o700); err != nil {
		b.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(user, ".bash_profile"), []byte(profile), 0o600); err != nil {
		b.Fatal(err)
	}
	if slices.Contains(command, "-C") { // the folder was worked in before
		r.OK(command...)
		took = nil
	}
	for b.Loop() {
		r.OK(command...)
	}
	if len(took) != b.N*calls {
		b.Fatalf("%d requests after a call, want %d", len(took), b.N*calls)
	}
	report(b, took, "answer-to-request")
}

// shell is what the command itself costs without gantry: the part of a turn that is not the host's.
func shell(b *testing.B) time.Duration {
	var took []time.Duration
	for range 20 {
		began := time.Now()
		if err := exec.Command("bash", "-c", "true").Run(); err != nil {
			b.Fatal(err)
		}
		took = append(took, time.Since(began))
	}
	slices.Sort(took)
	return took[len(took)/2]
}

func report(b *testing.B, took []time.Duration, what string) {
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2])/1e6, "ms/"+what+"-p50")
	b.ReportMetric(float64(took[len(took)*9/10])/1e6, "ms/"+what+"-p90")
	b.ReportMetric(0, "ns/op")
}

// BenchmarkMemory samples the proportional memory of gantry and all that it started, over a run of twenty calls.
func BenchmarkMemory(b *testing.B) {
	r := rig.New(b, twenty)
	var peak int64
	for b.Loop() {
		run := r.Start("exec", "go")
		sample(run, 0, func() { peak = max(peak, pss(run.Cmd.Process.Pid)) })
	}
	b.ReportMetric(float64(peak)/(1<<20), "MiB-PSS-peak")
	b.ReportMetric(0, "ns/op")
}

// sample calls f again and again, with a pause in between, until a run has ended.
func sample(run *rig.Run, pause time.Duration, f func()) {
	done := make(chan struct{})
	go func() { // ends with the run, which is waited for below
		defer close(done)
		run.Wait()
	}()
	for {
		select {
		case <-done:
			return
		case <-time.After(pause):
			f()
		}
	}
}

// pss sums the proportional set sizes of a process and its descendants.
func pss(root int) int64 {
	var sum int64
	for _, pid := range family(root) {
		rollup, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "smaps_rollup"))
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(rollup)) {
			if f := strings.Fields(line); len(f) > 1 && f[0] == "Pss:" {
				kib, _ := strconv.ParseInt(f[1], 10, 64)
				sum += kib << 10
			}
		}
	}
	return sum
}

// family is a process and its descendants, itself first.
func family(root int) []int {
	pids := []int{root}
	for i := 0; i < len(pids); i++ {
		tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pids[i]))
		for _, t := range tasks {
			children, _ := os.ReadFile(t) // of a thread that is gone: none
			for c := range strings.FieldsSeq(string(children)) {
				if pid, err := strconv.Atoi(c); err == nil {
					pids = append(pids, pid)
				}
			}
		}
	}
	return pids
}

// BenchmarkFlood is a command that writes 1 GiB: from the program, through the pipe and the plugin, to the result. What of it is
// shown while it runs is bounded, and so is what is kept.
func BenchmarkFlood(b *testing.B) {
	const size = 1 << 30
	r := rig.New(b, fmt.Sprintf(`
[[step]]
do = [{ call = "exec_command", id = "c1", args = { cmd = "head -c %d /dev/zero", login = false, yield_time_ms = 30000 } }]
[[step]]
do = [{ text = "done" }]
`, size))
	b.SetBytes(size)
	for b.Loop() {
		r.OK("exec", "go")
		if out := r.Last().Outputs()["c1"]; !strings.Contains(out, fmt.Sprintf("Original token count: %d\n", size/4)) {
			b.Fatalf("the output is not complete: %.200q", out)
		}
	}
}

// BenchmarkPython is a kernel in the sandbox with Debian's Python: the call that starts it, a call that finds it, and its memory; and, for
// machines that are not idle, the interpreter alone in a sandbox of bwrap's.
func BenchmarkPython(b *testing.B) {
	if _, err := os.Stat("/usr/bin/python3"); err != nil {
		b.Skip("there is no /usr/bin/python3")
	}
	var script strings.Builder
	for i := range manyCalls {
		fmt.Fprintf(&script, "[[step]]\ndo = [{ call = \"python\", id = \"c%d\", args = { code = 'x = 1' } }]\n", i)
	}
	script.WriteString("[[step]]\ndo = [{ call = \"python\", id = \"memory\", args = { code = '''open('/proc/self/status').read().split('VmRSS:')[1].split()[0]''' } }]\n")
	script.WriteString(done)
	r := rig.New(b, script.String())
	r.Config("plugin \"python\" {\n  source = \"builtin/python\"\n  config {\n    interpreter = \"/usr/bin/python3\"\n  }\n}\n")
	var first, next, bare []time.Duration
	for b.Loop() {
		begun := time.Now()
		bwrap := exec.Command("bwrap", "--unshare-all", "--die-with-parent", "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--",
			"/usr/bin/python3", "-I", "-S", "-c", "1")
		if err := bwrap.Run(); err != nil {
			b.Fatal(err)
		}
		bare = append(bare, time.Since(begun))
		began := map[string]time.Time{}
		res := r.OK("exec", "--sandbox", "workspace-write", "--events", "go")
		for line := range strings.Lines(res.Stdout) {
			var e struct {
				Kind string
				Time time.Time
				Body struct{ Call string }
			}
			if json.Unmarshal([]byte(line), &e) != nil {
				continue
			}
			switch e.Kind {
			case "call.started":
				began[e.Body.Call] = e.Time
			case "call.ended":
				if took := e.Time.Sub(began[e.Body.Call]); e.Body.Call == "c0" {
					first = append(first, took)
				} else if e.Body.Call != "memory" {
					next = append(next, took)
				}
			}
		}
	}
	slices.Sort(first)
	slices.Sort(next)
	slices.Sort(bare)
	b.ReportMetric(float64(first[len(first)/2])/1e6, "ms/first-p50")
	b.ReportMetric(float64(bare[len(bare)/2])/1e6, "ms/bare-p50")
	b.ReportMetric(float64(next[len(next)/2])/1e6, "ms/cell-p50")
	_, rss, _ := strings.Cut(r.Last().Outputs()["memory"], "'")
	kib, err := strconv.Atoi(strings.Trim(rss, "'\n"))
	if err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(kib)/1024, "MiB-RSS")
	b.ReportMetric(0, "ns/op")
}
