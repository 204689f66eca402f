package e2e_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gantry-agent/gantry/e2e/rig"
)

// BenchmarkLong measures turns of ten calls of `true` on threads of 10, 1,000 and 10,000 items, of which the model sees all, or
// what a compaction has left: the time from an answer to the next request, the size of a request, and the memory of all processes.
func BenchmarkLong(b *testing.B) {
	for _, items := range []int{10, 1_000, 10_000} {
		for _, compacted := range []bool{false, true} {
			name := map[bool]string{false: "all", true: "compacted"}[compacted]
			b.Run(fmt.Sprintf("items=%d/seen=%s", items, name), func(b *testing.B) { benchLong(b, items, compacted) })
		}
	}
}

func benchLong(b *testing.B, items int, compacted bool) {
	v := &caller{}
	a := startAnswerer(b, v.answer)
	v.read = &a.read
	r := rig.New(b, "")
	useVendor(r, "openai-responses", "http://"+a.Addr().String())
	id := longThread(b, r, v, items)
	if compacted {
		v.begin(0)
		r.OK("compact", id)
	}
	var peak int64
	const calls = 10
	for b.Loop() {
		v.begin(calls)
		run := r.Start("resume", id, "go on")
		done := make(chan struct{})
		go func() { // owned by this iteration: waited for below
			defer close(done)
			run.Wait()
		}()
		for running := true; running; {
			select {
			case <-done:
				running = false
			default:
				peak = max(peak, pss(run.Cmd.Process.Pid))
			}
		}
		if res := run.Wait(); res.Code != 0 {
			b.Fatalf("exit %d:\n%s", res.Code, res.Stderr)
		}
	}
	report(b, v.took, "answer-to-request")
	b.ReportMetric(float64(v.size)/1024, "KiB/request")
	b.ReportMetric(float64(peak)/(1<<20), "MiB-PSS-peak")
}

// caller is a vendor whose model makes so many calls of `true`, and then is done.
type caller struct {
	read *atomic.Int64

	mu       sync.Mutex
	calls    int // that are left
	made     int // in all, for their ids
	answered time.Time
	took     []time.Duration
	size     int64 // of the last request
}

func (v *caller) begin(calls int) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.calls, v.answered = calls, time.Time{}
}

func (v *caller) answer(conn io.Writer, _ int) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if !v.answered.IsZero() {
		v.took = append(v.took, time.Since(v.answered))
	}
	if v.read != nil {
		v.size = v.read.Load()
	}
	answer := responsesBegin
	if v.calls > 0 {
		v.calls--
		v.made++
		answer += responsesEnd(fmt.Sprintf(`{"id":"fc_%d","type":"function_call","status":"completed","call_id":"call_%[1]d",`+
			`"name":"exec_command","arguments":%q}`, v.made, `{"cmd":"true","login":false}`))
	} else {
		answer = wireShapes["openai-responses"].after("done")
	}
	_, _ = conn.Write(slices.Concat([]byte(answerHead), chunked(answer), []byte(answerEnd)))
	v.answered = time.Now()
}

// longThread makes a thread of so many items: a real one of two turns, of which the second is repeated.
func longThread(b *testing.B, r *rig.Rig, v *caller, items int) string {
	b.Helper()
	v.begin(1)
	r.OK("exec", "begin")
	v.begin(1)
	r.OK("resume", "--last", strings.Repeat("this is what has to be done next. ", 60))
	id := threads(b, r)[0].ID
	var head, turn []map[string]any
	turns := 0
	for line := range strings.Lines(r.OK("threads", "export", id).Stdout) {
		var e map[string]any
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			b.Fatal(err)
		}
		if e["kind"] == "turn.started" {
			turns++
		}
		switch {
		case e["kind"] == "export.ended":
		case turns < 2:
			head = append(head, e)
		default:
			turn = append(turn, e)
		}
	}
	var out bytes.Buffer
	n := 0
	write := func(e map[string]any, k int) {
		n++
		e["seq"] = n
		line, err := json.Marshal(e)
		if err != nil {
			b.Fatal(err)
		}
		text := string(line)
		if k > 0 { // another turn, with items and calls of its own
			own := fmt.Sprintf("%06x", k)
			text = strings.ReplaceAll(text, "call_2", "call_2_"+own)
			text = strings.ReplaceAll(text, `"turn":"`, `"turn":"`+own)
			text = strings.ReplaceAll(text, `"id":"`, `"id":"`+own)
		}
		out.WriteString(text + "\n")
	}
	for _, e := range head {
		write(e, 0)
	}
	const perTurn = 4 // what the user says, a call, its output, an answer
	for k := range max(items/perTurn-1, 1) {
		for _, e := range turn {
			write(e, k)
		}
	}
	path := filepath.Join(r.Home, "long.jsonl")
	r.Write(path, out.String())
	r.OK("threads", "delete", id)
	return strings.TrimSpace(r.OK("threads", "import", "--partial", path).Stdout)
}
