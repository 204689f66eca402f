package e2e_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
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

// wireShapes are how two vendors write an answer of one text: what comes before its first delta, a delta, and the end.
var wireShapes = map[string]struct {
	before string
	delta  func(n int, text string) string
	after  func(text string) string
}{
	"openai-chat": {
		before: chatChunk(`{"role":"assistant","content":"","refusal":null}`, "null"),
		delta: func(_ int, text string) string {
			return chatChunk(`{"content":`+strconv.Quote(text)+`}`, "null")
		},
		after: func(string) string { return chatChunk(`{}`, `"stop"`) + "data: [DONE]\n\n" },
	},
	"openai-responses": {
		before: responsesFrame("response.created", `"response":{"id":"resp_0","object":"response","status":"in_progress","model":"gpt-5.4","output":[]}`) +
			responsesFrame("response.output_item.added",
				`"output_index":0,"item":{"id":"msg_0","type":"message","status":"in_progress","role":"assistant","content":[]}`),
		delta: func(n int, text string) string {
			return responsesFrame("response.output_text.delta", fmt.Sprintf(
				`"sequence_number":%d,"item_id":"msg_0","output_index":0,"content_index":0,"delta":%s,"logprobs":[],"obfuscation":"xk3Pq"`,
				n, strconv.Quote(text)))
		},
		after: func(text string) string {
			item := `{"id":"msg_0","type":"message","status":"completed","role":"assistant","content":[{"type":"output_text","text":` +
				strconv.Quote(text) + `,"annotations":[]}]}`
			return responsesFrame("response.output_item.done", `"output_index":0,"item":`+item) +
				responsesFrame("response.completed", `"response":{"id":"resp_0","object":"response","status":"completed","model":"gpt-5.4","output":[`+
					item+`],"usage":{"input_tokens":10,"output_tokens":10,"total_tokens":20}}`)
		},
	},
}

func chatChunk(delta, finish string) string {
	return `data: {"id":"chatcmpl-B9MHDbslfkBeAs8l4bebGdFOJ6PeG","object":"chat.completion.chunk","created":1741570283,` +
		`"model":"own-model","service_tier":"default","system_fingerprint":"fp_fc9f1d7035","choices":[{"index":0,"delta":` + delta +
		`,"logprobs":null,"finish_reason":` + finish + `}],"usage":null,"obfuscation":"V1Pc"}` + "\n\n"
}

func responsesFrame(kind, fields string) string {
	return fmt.Sprintf("event: %s\ndata: {\"type\":%q,%s}\n\n", kind, kind, fields)
}

// words are what the deltas say, over and over: short as tokens are, some with what JSON has to escape.
var words = []string{" the", " lantern", " was", " not", " lit", ",", " so", " nobody", " saw", " \"it\"", ".", "\n", " café", " and", " then"}

// answerer is a vendor on loopback that does as little as it can: its answers are bytes made before, each event in an HTTP
// chunk of its own as vendors send them.
type answerer struct {
	net.Listener
	answer func(conn io.Writer) // begins when a request was read
}

func startAnswerer(b *testing.B, answer func(io.Writer)) *answerer {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	a := &answerer{l, answer}
	done := make(chan struct{})
	go func() { // owned by the benchmark: its clean-up waits for it
		defer close(done)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			a.serve(conn)
		}
	}()
	b.Cleanup(func() {
		l.Close()
		<-done
	})
	return a
}

// serve answers one request: the benchmarks ask once for each run.
func (a *answerer) serve(conn net.Conn) {
	defer conn.Close()
	in := bufio.NewReader(conn)
	for {
		req, err := http.ReadRequest(in)
		if err != nil {
			return
		}
		if _, err := io.Copy(io.Discard, req.Body); err != nil {
			return
		}
		if req.Method == http.MethodPost {
			break
		}
		if _, err := io.WriteString(conn, "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"); err != nil {
			return
		}
	}
	a.answer(conn)
}

const answerHead = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n"

// chunked puts each event into an HTTP chunk.
func chunked(events string) []byte {
	var b bytes.Buffer
	for e := range strings.SplitAfterSeq(events, "\n\n") {
		if e != "" {
			fmt.Fprintf(&b, "%x\r\n%s\r\n", len(e), e)
		}
	}
	return b.Bytes()
}

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
			a := startAnswerer(b, func(conn io.Writer) {
				_, _ = io.WriteString(conn, answerHead)
				began <- struct{}{}
				<-began
				_, _ = conn.Write(stream)
				<-seen
				_, _ = conn.Write(append(last, "0\r\n\r\n"...))
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
	a := startAnswerer(b, func(conn io.Writer) { _, _ = conn.Write(stream) })
	for b.Loop() {
		conn, err := net.Dial("tcp", a.Addr().String())
		if err != nil {
			b.Fatal(err)
		}
		fmt.Fprintf(conn, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n")
		if n, err := io.Copy(io.Discard, conn); err != nil || n != int64(len(stream)) {
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
			a := startAnswerer(b, func(conn io.Writer) {
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
				_, _ = conn.Write(append(chunked(shape.after(strings.Repeat(" lantern", 1+lone))), "0\r\n\r\n"...))
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
