package e2e_test

import (
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gantry-agent/gantry/e2e/rig"
	_ "github.com/glebarez/go-sqlite"
	"github.com/gorilla/websocket"
)

// percentiles reports the median and the 95th percentile, in milliseconds.
func percentiles(b *testing.B, took []time.Duration, what string) {
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2])/1e6, "ms/"+what+"-p50")
	b.ReportMetric(float64(took[len(took)*95/100])/1e6, "ms/"+what+"-p95")
	b.ReportMetric(0, "ns/op")
}

// BenchmarkAppServerStart measures from the start of gantry app-server until initialize is answered.
func BenchmarkAppServerStart(b *testing.B) {
	r := rig.New(b, answers)
	r.OK("exec", "warm up")
	var took []time.Duration
	for b.Loop() {
		began := time.Now()
		c := r.AppServer()
		greet(b, c)
		took = append(took, time.Since(began))
		c.Close()
	}
	percentiles(b, took, "initialized")
}

// BenchmarkAppServerThreads measures thread/start next to 1,000 loaded threads, and what each of these costs: proportional memory of all
// processes, and descriptors of the server.
func BenchmarkAppServerThreads(b *testing.B) {
	const loaded = 1000
	r := rig.New(b, answers)
	server := r.Serve("unix")
	c := server.Connect()
	greet(b, c)
	thread := begin(b, c, object{}) // the first one loads the configuration and starts plugins
	submit(b, c, thread, "hi")
	c.Notified("turn/completed")
	pid := server.Cmd.Process.Pid
	memory, descriptors := pss(pid), len(rig.Descriptors(b, pid))
	for range loaded {
		begin(b, c, object{})
	}
	memory, descriptors = pss(pid)-memory, len(rig.Descriptors(b, pid))-descriptors
	var took []time.Duration
	for b.Loop() {
		began := time.Now()
		c.Call("thread/start", object{}, nil)
		took = append(took, time.Since(began))
		c.Notified("thread/started")
	}
	percentiles(b, took, "thread-start")
	b.ReportMetric(float64(memory)/loaded/(1<<20), "MiB-PSS/thread")
	b.ReportMetric(float64(descriptors)/loaded, "descriptors/thread")
}

// BenchmarkAppServerTurn measures from turn/start until its response, and until the end of the turn.
func BenchmarkAppServerTurn(b *testing.B) {
	r := rig.New(b, answers)
	c := r.AppServerOn("unix")
	greet(b, c)
	thread := begin(b, c, object{})
	var response, whole []time.Duration
	turn := func() {
		began := time.Now()
		submit(b, c, thread, "hi")
		response = append(response, time.Since(began))
		c.Notified("turn/completed")
		whole = append(whole, time.Since(began))
	}
	turn()
	response, whole = nil, nil
	for b.Loop() {
		turn()
	}
	percentiles(b, response, "turn-response")
	percentiles(b, whole, "turn-completed")
}

// manyDeltas is a model whose answer has 5,000 deltas.
var manyDeltas = "[[step]]\ntimes = -1\ndo = [{ text = \"" + strings.Repeat("word ", 5000) + "\", chunk = 5 }]\n"

// BenchmarkAppServerDeltas measures a turn whose answer has 5,000 deltas, from turn/start until its end.
func BenchmarkAppServerDeltas(b *testing.B) {
	r := rig.New(b, manyDeltas)
	c := r.AppServerOn("unix")
	greet(b, c)
	thread := begin(b, c, object{})
	var took []time.Duration
	for b.Loop() {
		began := time.Now()
		submit(b, c, thread, "hi")
		c.Notified("turn/completed")
		took = append(took, time.Since(began))
		c.All = nil
	}
	percentiles(b, took, "5000-deltas")
}

// BenchmarkAppServerRelay measures how much later than at a client of the process that runs a thread a delta arrives at a client of another
// process, which relays it. The deltas come 2 ms apart, so that each is measured alone.
func BenchmarkAppServerRelay(b *testing.B) {
	r := rig.New(b, "[[step]]\ntimes = -1\nchunk_delay_ms = 2\ndo = [{ text = \""+strings.Repeat("word ", 200)+"\", chunk = 5 }]\n")
	direct, relayed := r.Serve("unix").Connect(), r.Serve("ws").Connect()
	greet(b, direct)
	thread := begin(b, direct, object{})
	submit(b, direct, thread, "hi")
	direct.Notified("turn/completed")
	greet(b, relayed)
	relayed.Call("thread/resume", object{"threadId": thread}, nil)
	// arrivals returns when each length of the answer was reached. Deltas that were merged are missing.
	arrivals := func(c *rig.Client) map[int]time.Time {
		at, length := map[int]time.Time{}, 0
		c.Until(func(m rig.Message) bool {
			if m.Method == "item/agentMessage/delta" {
				var p struct{ Delta string }
				m.Into(b, &p)
				length += len(p.Delta)
				at[length] = m.Arrived
			}
			return m.Method == "turn/completed"
		})
		c.All = nil
		return at
	}
	var added []time.Duration
	for b.Loop() {
		submit(b, direct, thread, "hi")
		first := arrivals(direct)
		for length, at := range arrivals(relayed) {
			if before, ok := first[length]; ok {
				added = append(added, at.Sub(before))
			}
		}
	}
	percentiles(b, added, "delta-added")
}

// BenchmarkAppServerResume measures thread/resume of a thread of ten turns that is loaded, and of one that is not.
func BenchmarkAppServerResume(b *testing.B) {
	r := rig.New(b, answers)
	c := r.AppServerOn("unix")
	greet(b, c)
	thread := begin(b, c, object{})
	for range 10 {
		submit(b, c, thread, "hi")
		c.Notified("turn/completed")
	}
	var loaded, cold []time.Duration
	resume := func() time.Duration {
		began := time.Now()
		c.Call("thread/resume", object{"threadId": thread}, nil)
		return time.Since(began)
	}
	for b.Loop() {
		loaded = append(loaded, resume())
		c.Call("thread/archive", object{"threadId": thread}, nil) // which unloads it
		c.Call("thread/unarchive", object{"threadId": thread}, nil)
		cold = append(cold, resume())
	}
	percentiles(b, loaded, "resume-loaded")
	percentiles(b, cold, "resume-cold")
}

// BenchmarkAppServerList measures a page of thread/list of 10,000 threads.
func BenchmarkAppServerList(b *testing.B) {
	r := rig.New(b, answers)
	r.OK("exec", "hi")
	db, err := sql.Open("sqlite", filepath.Join(r.Home, "threads.db"))
	if err != nil {
		b.Fatal(err)
	}
	tx, err := db.Begin()
	if err != nil {
		b.Fatal(err)
	}
	do := func(query string, args ...any) {
		if _, err := tx.Exec(query, args...); err != nil {
			b.Fatal(err)
		}
	}
	do("CREATE TEMP TABLE one AS SELECT * FROM threads LIMIT 1")
	for i := range 9999 {
		do("UPDATE one SET id = ?, created_at = created_at + 1000000, updated_at = created_at + 1000000", fmt.Sprintf("01a20e55-eea7-7bf0-b27f-%012d", i))
		do("INSERT INTO threads SELECT * FROM one")
	}
	if err := tx.Commit(); err != nil {
		b.Fatal(err)
	}
	if err := db.Close(); err != nil {
		b.Fatal(err)
	}
	c := r.AppServerOn("unix")
	greet(b, c)
	var took []time.Duration
	var page struct {
		Data       []any
		NextCursor *string
	}
	c.Call("thread/list", object{"sourceKinds": []string{"exec"}}, &page)
	if len(page.Data) != 25 || page.NextCursor == nil {
		b.Fatalf("%d threads", len(page.Data))
	}
	for b.Loop() {
		began := time.Now()
		c.Call("thread/list", object{"sourceKinds": []string{"exec"}}, nil)
		took = append(took, time.Since(began))
	}
	percentiles(b, took, "thread-list")
}

// BenchmarkAppServerPipelined sends 2,000 requests during a turn, and turn/interrupt after them: until that is answered, and until all are.
func BenchmarkAppServerPipelined(b *testing.B) {
	const requests = 2000
	r := rig.New(b, commandScript("touch running; sleep 60"))
	c := r.AppServerOn("unix")
	greet(b, c)
	thread := begin(b, c, object{})
	var interrupted, all []time.Duration
	for b.Loop() {
		b.StopTimer()
		turn := submit(b, c, thread, "hi")
		r.Until("the command runs", func() bool { return exists(r.Dir, "running") })
		if err := os.Remove(filepath.Join(r.Dir, "running")); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
		for range requests {
			c.Request("thread/read", object{"threadId": thread})
		}
		began := time.Now()
		interrupt := c.Request("turn/interrupt", object{"threadId": thread, "turnId": turn})
		for answered := 0; answered <= requests; {
			m := c.Next()
			if m.Method != "" {
				continue
			}
			answered++
			if m.Error != nil {
				b.Fatalf("%s", m.Raw)
			}
			if string(m.ID) == interrupt {
				interrupted = append(interrupted, time.Since(began))
			}
		}
		all = append(all, time.Since(began))
		c.All = nil
	}
	percentiles(b, interrupted, "interrupt")
	percentiles(b, all, "2000-answers")
}

// BenchmarkAppServerStalled measures a turn of 5,000 deltas alone, and next to a client that has subscribed and does not read, with the
// memory that this client costs the server: the median after each turn, less that of a server without the client after the same turns.
func BenchmarkAppServerStalled(b *testing.B) {
	type subject struct {
		*rig.Server
		c      *rig.Client
		thread string
		took   []time.Duration
		memory []int64
	}
	turn := func(s *subject) {
		began := time.Now()
		submit(b, s.c, s.thread, "hi")
		s.c.Notified("turn/completed")
		s.c.All = nil
		s.took, s.memory = append(s.took, time.Since(began)), append(s.memory, resident(b, s.Cmd.Process.Pid))
	}
	var alone, beside subject
	for _, s := range []*subject{&alone, &beside} {
		s.Server = rig.New(b, manyDeltas).Serve("unix")
		s.c = s.Connect()
		greet(b, s.c)
		s.thread = begin(b, s.c, object{})
		turn(s)
	}
	conn := beside.Open()
	for _, s := range []string{
		`{"id":1,"method":"initialize","params":{"clientInfo":{"name":"stalled","version":"1"}}}`,
		`{"id":2,"method":"thread/resume","params":{"threadId":` + strconv.Quote(beside.thread) + `}}`,
	} {
		if err := conn.WriteMessage(websocket.TextMessage, []byte(s)); err != nil {
			b.Fatal(err)
		}
	}
	for b.Loop() {
		turn(&alone)
		turn(&beside)
	}
	percentiles(b, alone.took[1:], "alone")
	percentiles(b, beside.took[1:], "beside")
	median := func(list []int64) int64 {
		slices.Sort(list)
		return list[len(list)/2]
	}
	b.ReportMetric(float64(median(beside.memory[1:])-median(alone.memory[1:]))/(1<<20), "MiB")
}

// resident returns the proportional memory of one process.
func resident(b *testing.B, pid int) int64 {
	rollup, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
	if err != nil {
		b.Fatal(err)
	}
	for line := range strings.Lines(string(rollup)) {
		if f := strings.Fields(line); len(f) > 1 && f[0] == "Pss:" {
			kib, _ := strconv.ParseInt(f[1], 10, 64)
			return kib << 10
		}
	}
	return 0
}
