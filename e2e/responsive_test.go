package e2e_test

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// demanding are commands that want all they can get, for as long as they are let: with limits, whose loops begin anew what the
// limits end, and without.
var demanding = []struct{ name, cmd string }{
	{"nothing", `sleep 1000`},
	{"forks", `for i in $(seq 1000); do sleep 1000 & done; wait`},
	{"spins", `for i in $(seq 1000); do (while :; do :; done) & done; wait`},
	{"sessions", `for i in $(seq 100); do setsid sh -c 'while :; do :; done' & done; wait`},
	{"starts", `while :; do /bin/true; done & while :; do /bin/true; done & wait`},
	{"floods", `while :; do head -c 1G /dev/zero; done`},
	{"speaks", `while :; do echo y; done`},
	{"writes", `while :; do head -c 256M /dev/zero >big; rm big; done`},
	{"eats", `while :; do head -c 1G /dev/zero | tail -c 900M >/dev/null; done`},
	{"deaf", `trap '' TERM INT HUP; while :; do :; done`},
}

// BenchmarkResponsive measures, while a command takes what it can get, how long the host takes to answer a call that does
// nothing, from another process.
func BenchmarkResponsive(b *testing.B) {
	for _, mode := range []string{"workspace-write", "full-access"} {
		for _, c := range demanding {
			b.Run(mode+"/"+c.name, func(b *testing.B) { benchResponsive(b, mode, c.cmd) })
		}
	}
}

func benchResponsive(b *testing.B, mode, cmd string) {
	const pings, every = 400, 5 * time.Millisecond
	var took []time.Duration
	for b.Loop() {
		r := boxed(b, fmt.Sprintf(`
[[step]]
do = [{ call = "exec_command", id = "c1", args = { cmd = %q, login = false, yield_time_ms = 30000 } }]
[[step]]
do = [{ text = "done" }]
`, "touch there; "+cmd))
		run := r.Start("exec", "-c", fmt.Sprintf("sandbox.mode=%q", mode), "go")
		r.Until("the command runs", func() bool { return exists(r.Dir, "there") })
		sockets, err := filepath.Glob(filepath.Join(r.Home, "run", "*.sock"))
		if err != nil || len(sockets) != 1 {
			b.Fatalf("sockets of the thread: %v, %v", sockets, err)
		}
		conn, err := net.Dial("unix", sockets[0])
		if err != nil {
			b.Fatal(err)
		}
		in := bufio.NewReader(conn)
		next := time.NewTimer(every)
		for i := range pings {
			<-next.C // so that the command is what runs, not this
			began := time.Now()
			if _, err := fmt.Fprintf(conn, `{"id":%d,"method":"gantry/thread/ping"}`+"\n", i); err != nil {
				b.Fatal(err)
			}
			answer, err := in.ReadString('\n')
			took = append(took, time.Since(began))
			if err != nil || !strings.Contains(answer, fmt.Sprintf(`"id":%d`, i)) || strings.Contains(answer, `"error"`) {
				b.Fatalf("answer %q, %v", answer, err)
			}
			next.Reset(every)
		}
		conn.Close()
		run.Signal(os.Interrupt)
		run.Wait()
		r.NothingLeft()
	}
	slices.Sort(took)
	for _, f := range []struct {
		name string
		at   int
	}{{"p50", len(took) / 2}, {"p99", len(took) * 99 / 100}, {"worst", len(took) - 1}} {
		b.ReportMetric(float64(took[f.at])/1e6, "ms/ping-"+f.name)
	}
	b.ReportMetric(0, "ns/op")
}
