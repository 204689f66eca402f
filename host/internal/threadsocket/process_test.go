package threadsocket_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/runsocket"
	"github.com/gantry-agent/gantry/host/internal/store"
	"github.com/gantry-agent/gantry/host/internal/threadsocket"
	"github.com/hashicorp/go-hclog"
	"go.uber.org/goleak"
	"pgregory.net/rapid"
)

// relative is the environment variable that makes this program a process that the tested one has started; see TestFamilyMayOnlyLook.
const relative = "GANTRY_SOCKET_TEST_PATH"

func TestMain(m *testing.M) {
	if path := os.Getenv(relative); path != "" {
		tryAll(path)
		return
	}
	goleak.VerifyTestMain(m)
}

func files(t *testing.T, dir string) (out []string) {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join(dir, "run"))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out
}

// All threads of a process are reached over its one socket, and over one connection to it. Each ends for itself.
func TestOneSocketForAllThreads(t *testing.T) {
	dir := home(t)
	s := process(t, threadsocket.Config{Home: dir})
	path, first, endFirst := run(t, s, dir, nil, nil)
	_, second, endSecond := run(t, s, dir, nil, nil)
	if got := files(t, dir); len(got) != 3 || !strings.HasSuffix(slices.MinFunc(got, func(a, b string) int { return len(a) - len(b) }), ".process") {
		t.Errorf("two threads have the files %q", got)
	}
	info, err := os.Stat(path) // of the socket that the link leads to
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	p, err := threadsocket.Connect(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	a, b := p.Thread(first.ID()), p.Thread(second.ID())
	for _, c := range []*threadsocket.Client{a, b} {
		if _, err := c.Subscribe(t.Context(), threadsocket.SubscribeParams{}); err != nil {
			t.Fatal(err)
		}
		started, err := c.Start(t.Context(), threadsocket.StartParams{Text: "hello"})
		if err != nil {
			t.Fatal(err)
		}
		until(t, c, started.Turn)
	}
	endFirst()
	if _, err := a.Next(t.Context()); !errors.Is(err, threadsocket.ErrGone) {
		t.Errorf("the first thread has ended: %v", err)
	}
	if err := a.Interrupt(t.Context(), threadsocket.InterruptParams{}); err == nil {
		t.Error("a thread that has ended took a request")
	} else if e, ok := errors.AsType[*threadsocket.Error](err); !ok || e.Code != threadsocket.Closed {
		t.Errorf("a request to a thread that has ended: %v", err)
	}
	started, err := b.Start(t.Context(), threadsocket.StartParams{Text: "still here"})
	if err != nil {
		t.Fatal(err)
	}
	until(t, b, started.Turn)
	endSecond()
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if got := files(t, dir); len(got) != 0 {
		t.Errorf("left behind: %q", got)
	}
}

// A reader that does not read is in nobody's way, and misses nothing.
func TestSlowReaderBesideOthers(t *testing.T) {
	const turns = 150 // with more events than may wait
	dir := home(t)
	s := process(t, threadsocket.Config{Home: dir})
	path, th, _ := run(t, s, dir, nil, nil)
	p, err := threadsocket.Connect(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	slow, quick := p.Thread(th.ID()), p.Thread(th.ID())
	for _, c := range []*threadsocket.Client{slow, quick} {
		if _, err := c.Subscribe(t.Context(), threadsocket.SubscribeParams{Merge: true}); err != nil {
			t.Fatal(err)
		}
	}
	var last event.TurnID
	var want []uint64
	for range turns {
		started, err := quick.Start(t.Context(), threadsocket.StartParams{Text: "hello"})
		if err != nil {
			t.Fatal(err)
		}
		seqs, _ := until(t, quick, started.Turn)
		want, last = append(want, seqs...), started.Turn
	}
	if len(want) <= threadsocket.Window {
		t.Fatalf("%d events are too few for this test", len(want))
	}
	var got []uint64
	for end := false; !end; {
		e, err := slow.Next(t.Context())
		if err != nil {
			t.Fatalf("after %d events: %v", len(got), err)
		}
		if e.Seq > 0 {
			got = append(got, e.Seq)
		}
		_, end = e.Body.(event.TurnEnded)
		end = end && e.Turn == last
	}
	if !slices.Equal(got, want) {
		t.Errorf("the slow reader got %d events, the quick one %d", len(got), len(want))
	}
}

// A thread that ends doesn't wait for a reader that doesn't read, and tells it all the same.
func TestEndBesideAReaderThatDoesNotRead(t *testing.T) {
	dir := home(t)
	s := process(t, threadsocket.Config{Home: dir})
	path, th, end := run(t, s, dir, nil, nil)
	c := dial(t, path)
	p, err := threadsocket.Connect(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	idle := p.Thread(th.ID())
	if _, err := idle.Subscribe(t.Context(), threadsocket.SubscribeParams{}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Subscribe(t.Context(), threadsocket.SubscribeParams{}); err != nil {
		t.Fatal(err)
	}
	for seen := 0; seen <= threadsocket.Window; {
		a, err := c.Start(t.Context(), threadsocket.StartParams{Text: "x"})
		if err != nil {
			t.Fatal(err)
		}
		seqs, _ := until(t, c, a.Turn)
		seen += len(seqs)
	}
	end()
	events := 0
	for ; err == nil; events++ {
		_, err = idle.Next(t.Context())
	}
	if !errors.Is(err, threadsocket.ErrGone) || events < threadsocket.Window {
		t.Errorf("after %d events: %v", events, err)
	}
}

// Whoever subscribes when, to whichever part: each reader gets every stored event after its number once and in order, up to the end.
func TestSubscriptionsHaveNoGaps(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		dir := home(t)
		s := threadsocket.NewServer(threadsocket.Config{Home: dir})
		path, th, end := run(t, s, dir, nil, nil)
		p, err := threadsocket.Connect(t.Context(), path)
		if err != nil {
			rt.Fatal(err)
		}
		type reader struct {
			c    *threadsocket.Client
			last uint64
		}
		var readers []*reader
		read := func(r *reader, most int) bool {
			for i := 0; i < most; i++ {
				e, err := r.c.Next(t.Context())
				if errors.Is(err, threadsocket.ErrGone) {
					return false
				}
				if err != nil {
					rt.Fatal(err)
				}
				if e.Seq != 0 && e.Seq != r.last+1 {
					rt.Fatalf("event %d after %d", e.Seq, r.last)
				}
				r.last = max(r.last, e.Seq)
			}
			return true
		}
		driver := p.Thread(th.ID())
		if _, err := driver.Subscribe(t.Context(), threadsocket.SubscribeParams{}); err != nil {
			rt.Fatal(err)
		}
		var newest uint64
		for _, op := range rapid.SliceOfN(rapid.SampledFrom([]string{"turn", "turn", "subscribe", "read", "leave"}), 1, 30).Draw(rt, "ops") {
			switch op {
			case "turn":
				a, err := driver.Start(t.Context(), threadsocket.StartParams{Text: "x"})
				if err != nil {
					rt.Fatal(err)
				}
				seqs, _ := until(t, driver, a.Turn)
				newest = seqs[len(seqs)-1]
			case "subscribe":
				r := &reader{p.Thread(th.ID()), rapid.Uint64Range(0, newest).Draw(rt, "after")}
				if _, err := r.c.Subscribe(t.Context(), threadsocket.SubscribeParams{After: r.last, Merge: rapid.Bool().Draw(rt, "merge")}); err != nil {
					rt.Fatal(err)
				}
				readers = append(readers, r)
			case "read":
				for _, r := range readers {
					if r.last < newest {
						read(r, 1)
					}
				}
			case "leave":
				if len(readers) > 0 {
					_ = readers[0].c.Close()
					readers = readers[1:]
				}
			}
		}
		end()
		for _, r := range readers {
			for read(r, 1) {
			}
			if r.last < newest {
				rt.Errorf("the last event is %d, of %d", r.last, newest)
			}
		}
		p.Close()
		if err := s.Close(); err != nil {
			rt.Error(err)
		}
	})
}

// Who speaks the app server's protocol is served by a front end; who speaks neither is told so.
func TestOtherProtocols(t *testing.T) {
	dir := home(t)
	s := process(t, threadsocket.Config{Home: dir, Serve: func(_ context.Context, conn net.Conn, launched bool) {
		line, err := bufio.NewReader(conn).ReadString('\n')
		fmt.Fprintf(conn, "front end: %q %v %v\n", line, launched, err)
	}})
	path, th, _ := run(t, s, dir, nil, nil)
	for first, want := range map[string]string{
		`{"id":1,"method":"initialize","params":{}}`: `front end: "{\"id\":1,\"method\":\"initialize\",\"params\":{}}\n" false <nil>`,
		"GET / HTTP/1.1":                                       `front end: "GET / HTTP/1.1\n" false <nil>`,
		`{"id":1,"method":"gantry/thread/ping"}`:               `{"id":1,"result":{}}`,
		`{"jsonrpc":"2.0","id":1,"method":"thread/subscribe"}`: `another version`,
		`{"id":1,"method":"gantry/thread/dance","params":{"threadId":"` + string(th.ID()) + `"}}`: `has no method \"gantry/thread/dance\"`,
		`{"id":1,"method":"gantry/thread/settings","params":{"threadId":"x"}}`:                    `"code":"closed"`,
		`{"id":1,"method":"gantry/thread/settings","params":5}`:                                   `-32602`,
		`hello`: `-32700`,
	} {
		conn, err := net.Dial("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(conn, first+"\n"); err != nil {
			t.Fatal(err)
		}
		got, err := bufio.NewReader(conn).ReadString('\n')
		if err != nil || !strings.Contains(got, want) {
			t.Errorf("%s: %q, %v, want %q", first, got, err, want)
		}
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
	}
}

// A process of an older version has a socket for each thread and other methods: the error says which process to restart.
func TestOlderHost(t *testing.T) {
	path := filepath.Join(home(t), string(event.NewThreadID())+".sock")
	ln, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	answered := make(chan struct{})
	go func() { // ends with the connection
		defer close(answered)
		conn, err := ln.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		if _, err := bufio.NewReader(conn).ReadString('\n'); err == nil {
			_, _ = io.WriteString(conn, `{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"no method"}}`+"\n")
		}
	}()
	_, err = threadsocket.Dial(t.Context(), path)
	older, ok := errors.AsType[*threadsocket.OlderError](err)
	if !ok || older.PID != os.Getpid() || !strings.Contains(err.Error(), fmt.Sprintf("end process %d", os.Getpid())) {
		t.Errorf("error %v", err)
	}
	<-answered
	_ = ln.Close()
}

// What killed processes have left is removed; what belongs to others stays.
func TestSweep(t *testing.T) {
	dir := home(t)
	s := process(t, threadsocket.Config{Home: dir})
	path, th, _ := run(t, s, dir, nil, nil)
	threads, err := store.Open(t.Context(), store.Config{Path: filepath.Join(dir, "threads.db")})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = threads.Close(t.Context()) }()
	lock, err := threads.LockThread(t.Context(), th.ID())
	if err != nil {
		t.Fatal(err)
	}
	run := filepath.Dir(path)
	dead, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(run, "1-00.process"), Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	dead.SetUnlinkOnClose(false)
	_ = dead.Close()
	stale, err := runsocket.Path(dir, event.NewThreadID())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("1-00.process", stale); err != nil {
		t.Fatal(err)
	}
	if _, err := threadsocket.Dial(t.Context(), stale); !errors.Is(err, threadsocket.ErrGone) {
		t.Errorf("a link to a dead process: %v", err)
	}
	threadsocket.Sweep(t.Context(), dir, threads, hclog.NewNullLogger())
	if got := files(t, dir); len(got) != 2 || !slices.Contains(got, filepath.Base(path)) {
		t.Errorf("left: %q", got)
	}
	dial(t, path)
	if err := lock.Release(); err != nil {
		t.Error(err)
	}
}

// requests are all that change something, and what a process that only looks may ask.
var requests = []string{
	"start", "steer", "interrupt", "answer", "compact", "configure", "shell", "review", "reloadPlugin", "mail", "fork", "revert", "rollback", "archive",
	"unarchive", "rename", "stopSession", "view", "view/act", "undoFiles", "subscribe attend", "subscribe tools", "subscribe", "settings", "plugins", "ping",
}

// tryAll is a process that the host has started. It prints which requests are refused to it.
func tryAll(path string) {
	conn, err := net.Dial("unix", path)
	if err != nil {
		fmt.Println(err)
		return
	}
	in := bufio.NewReader(conn)
	for i, method := range requests {
		name, as, _ := strings.Cut(method, " ")
		fmt.Fprintf(conn, `{"id":%d,"method":"gantry/thread/%s","params":{"threadId":%q,"subscription":%d,"only":"none","attend":%v,"tools":%v}}`+"\n",
			i, name, strings.TrimSuffix(filepath.Base(path), ".sock"), i, as == "attend", as == "tools")
		line, err := in.ReadBytes('\n')
		var answer struct {
			Error *struct{ Data struct{ Code string } }
		}
		switch {
		case err != nil:
			fmt.Println(method, err)
			return
		case json.Unmarshal(line, &answer) != nil || answer.Error == nil:
			fmt.Println(method, "ok")
		default:
			fmt.Println(method, answer.Error.Data.Code)
		}
	}
}

// A process that the host has started, such as a command of an agent, may only look: it must not approve itself.
func TestFamilyMayOnlyLook(t *testing.T) {
	path, _, _ := serve(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self)
	cmd.Env = append(os.Environ(), relative+"="+path)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	var want strings.Builder
	for i, method := range requests {
		verdict := "foreign"
		if i >= len(requests)-4 {
			verdict = "ok"
		}
		fmt.Fprintln(&want, method, verdict)
	}
	if string(out) != want.String() {
		t.Errorf("got\n%swant\n%s", out, want.String())
	}
}
