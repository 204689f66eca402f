package e2e_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gantry-agent/gantry/e2e/rig"
)

// deltas is how many pieces the answer of BenchmarkDeltas has.
const deltas = 50_000

// words are what the deltas say, over and over: short as tokens are, some with what JSON has to escape.
var words = []string{" the", " lantern", " was", " not", " lit", ",", " so", " nobody", " saw", " \"it\"", ".", "\n", " café", " and", " then"}

// deltaRun is a `gantry exec --events` whose output is read while it comes.
type deltaRun struct {
	cmd *exec.Cmd
	out *bufio.Reader
}

func startDeltaRun(b *testing.B, r *rig.Rig) *deltaRun {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	b.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, filepath.Join(r.Bin, "gantry"), "exec", "--events", "go")
	cmd.Dir, cmd.Env, cmd.Stderr = r.Dir, r.Env, os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	return &deltaRun{cmd, bufio.NewReaderSize(out, 256<<10)}
}

var deltaMark = []byte(`"kind":"item.delta"`)

// next reads up to the next delta.
func (r *deltaRun) next(b *testing.B) {
	for {
		line, err := r.out.ReadSlice('\n')
		if err != nil {
			b.Fatalf("the output ended before the last delta: %v", err)
		}
		if bytes.Contains(line, deltaMark) {
			return
		}
	}
}

// end reads the rest and checks that the turn was completed.
func (r *deltaRun) end(b *testing.B) {
	rest, err := io.ReadAll(r.out)
	if err != nil {
		b.Fatal(err)
	}
	if err := r.cmd.Wait(); err != nil || !bytes.Contains(rest, []byte(`"status":"completed"`)) || bytes.Contains(rest, deltaMark) {
		b.Fatalf("gantry exec: %v\n%.2000s", err, rest)
	}
}

// BenchmarkDeltas sends an answer of 50,000 deltas through the provider, the host and `--events`, and measures from the
// first byte of it that the vendor writes until the last delta was read from standard output: deltas a second, and the
// time on the processors that host, provider, and vendor and reader together took for one.
func BenchmarkDeltas(b *testing.B) {
	for _, vendor := range []string{"openai-chat", "openai-responses"} {
		b.Run(vendor, func(b *testing.B) {
			shape := wireShapes[vendor]
			var text, events strings.Builder
			events.WriteString(shape.before)
			for i := range deltas {
				w := words[i%len(words)]
				text.WriteString(w)
				events.WriteString(shape.delta(i, w))
			}
			stream, last := chunked(events.String()), chunked(shape.after(text.String()))
			began, seen := make(chan struct{}), make(chan struct{})
			a := startAnswerer(b, func(conn io.Writer, _ int) {
				_, _ = io.WriteString(conn, answerHead)
				began <- struct{}{}
				<-began
				_, _ = conn.Write(stream)
				<-seen
				_, _ = conn.Write(append(last, answerEnd...))
			})
			r := rig.New(b, "")
			useVendor(r, vendor, "http://"+a.Addr().String())
			var took time.Duration
			var spent cpu
			for b.Loop() {
				run := startDeltaRun(b, r)
				<-began
				before := spentBy(run.cmd.Process.Pid)
				start := time.Now()
				began <- struct{}{}
				for range deltas {
					run.next(b)
				}
				took += time.Since(start)
				spent = spent.add(spentBy(run.cmd.Process.Pid).sub(before))
				seen <- struct{}{}
				run.end(b)
			}
			all := float64(b.N) * deltas
			b.ReportMetric(all/took.Seconds(), "deltas/s")
			b.ReportMetric(float64(spent.host+spent.plugins+spent.bench)/1e9/float64(b.N), "cpu-s/50k")
			b.ReportMetric(float64(spent.host)/all, "host-cpu-ns/delta")
			b.ReportMetric(float64(spent.plugins)/all, "provider-cpu-ns/delta")
			b.ReportMetric(float64(spent.bench)/all, "bench-cpu-ns/delta")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// cpu is time on the processors, in nanoseconds.
type cpu struct{ host, plugins, bench int64 }

func (c cpu) add(d cpu) cpu { return cpu{c.host + d.host, c.plugins + d.plugins, c.bench + d.bench} }
func (c cpu) sub(d cpu) cpu { return cpu{c.host - d.host, c.plugins - d.plugins, c.bench - d.bench} }

// spentBy is what gantry, what it started, and this process have spent so far.
func spentBy(pid int) (c cpu) {
	for i, p := range family(pid) {
		if i == 0 {
			c.host = ranFor(p)
		} else {
			c.plugins += ranFor(p)
		}
	}
	var self syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &self); err == nil {
		c.bench = self.Utime.Nano() + self.Stime.Nano()
	}
	return c
}

// ranFor sums what the threads of a process have run.
func ranFor(pid int) (ns int64) {
	threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
	for _, t := range threads {
		b, _ := os.ReadFile(t)
		first, _, _ := strings.Cut(string(b), " ")
		n, _ := strconv.ParseInt(first, 10, 64)
		ns += n
	}
	return ns
}

// BenchmarkVendorAlone is how fast the vendor of BenchmarkDeltas is when its answer is read and thrown away.
func BenchmarkVendorAlone(b *testing.B) {
	stream := chunked(strings.Repeat(wireShapes["openai-chat"].delta(0, " lantern"), deltas))
	a := startAnswerer(b, func(conn io.Writer, _ int) { _, _ = conn.Write(stream) })
	for b.Loop() {
		conn, err := net.Dial("tcp", a.Addr().String())
		if err != nil {
			b.Fatal(err)
		}
		fmt.Fprintf(conn, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n")
		if n, err := io.CopyN(io.Discard, conn, int64(len(stream))); err != nil {
			b.Fatal(n, err)
		}
		conn.Close()
	}
	b.ReportMetric(float64(b.N)*deltas/b.Elapsed().Seconds(), "deltas/s")
}

// BenchmarkFirstToken measures from the vendor's write of a delta until its event was read from standard output, while
// nothing else happens: the first one of an answer, and those that follow it one by one.
func BenchmarkFirstToken(b *testing.B) {
	const lone = 20
	const quiet = 3 * time.Millisecond
	for _, vendor := range []string{"openai-chat", "openai-responses"} {
		b.Run(vendor, func(b *testing.B) {
			shape := wireShapes[vendor]
			sent, seen := make(chan time.Time), make(chan struct{})
			a := startAnswerer(b, func(conn io.Writer, _ int) {
				_, _ = io.WriteString(conn, answerHead)
				_, _ = conn.Write(chunked(shape.before))
				for i := range 1 + lone {
					piece := chunked(shape.delta(i, " lantern"))
					<-time.After(quiet) // everybody waits by then
					now := time.Now()
					_, _ = conn.Write(piece)
					sent <- now
					<-seen
				}
				_, _ = conn.Write(append(chunked(shape.after(strings.Repeat(" lantern", 1+lone))), answerEnd...))
			})
			r := rig.New(b, "")
			useVendor(r, vendor, "http://"+a.Addr().String())
			var first, later []time.Duration
			for b.Loop() {
				run := startDeltaRun(b, r)
				for i := range 1 + lone {
					run.next(b)
					now := time.Now()
					took := now.Sub(<-sent)
					if i == 0 {
						first = append(first, took)
					} else {
						later = append(later, took)
					}
					seen <- struct{}{}
				}
				run.end(b)
			}
			report(b, first, "first-token")
			slices.Sort(later)
			b.ReportMetric(float64(later[len(later)/2])/1e6, "ms/lone-delta-p50")
		})
	}
}
