package tool_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	gantryv1 "github.com/gantry-agent/gantry/sdk/proto/gantry/v1"
	"github.com/gantry-agent/gantry/sdk/tool"
)

// threadStream is the Thread rpc as the host sees it.
type threadStream struct {
	gantryv1.ToolService_ThreadClient
	t *testing.T
}

func (p plugin) thread(t *testing.T, ctx context.Context, id string) threadStream {
	t.Helper()
	s, err := p.Thread(ctx, &gantryv1.ThreadRequest{ThreadId: id, Cwd: "/work", ThreadToken: "token"})
	if err != nil {
		t.Fatal(err)
	}
	return threadStream{s, t}
}

func (s threadStream) next() string {
	s.t.Helper()
	m, err := s.Recv()
	if err != nil {
		return "end: " + status.Convert(err).Message()
	}
	switch e := m.GetEvent().(type) {
	case *gantryv1.ThreadResponse_Context:
		return fmt.Sprintf("context %s=%q", e.Context.GetKey(), e.Context.GetText())
	case *gantryv1.ThreadResponse_SessionOpened:
		return fmt.Sprintf("opened %s by %s: %s", e.SessionOpened.GetSessionId(), e.SessionOpened.GetCallId(), e.SessionOpened.GetTitle())
	case *gantryv1.ThreadResponse_SessionOutput:
		return fmt.Sprintf("output %s@%d %q", e.SessionOutput.GetSessionId(), e.SessionOutput.GetOffset(), e.SessionOutput.GetData())
	case *gantryv1.ThreadResponse_SessionExited:
		return fmt.Sprintf("exited %s %d %d", e.SessionExited.GetSessionId(), e.SessionExited.GetEnd(), e.SessionExited.GetExitCode())
	}
	return "?"
}

func (s threadStream) expect(want ...string) {
	s.t.Helper()
	for _, w := range want {
		if got := s.next(); got != w {
			s.t.Errorf("got  %s\nwant %s", got, w)
		}
	}
}

// sessions is a plugin whose tool opens a session and hands it to the test.
func sessions(opened chan<- *tool.Session) tool.Plugin {
	return tool.Plugin{Tools: one("open", func(_ context.Context, c *tool.Call, _ struct{}) (*tool.Result, error) {
		s := c.Thread().OpenSession("s1", c.ID(), "a shell")
		opened <- s
		return &tool.Result{SessionID: s.ID()}, nil
	})}
}

func TestSessionOutlivesItsCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		opened := make(chan *tool.Session, 1)
		p := configured(t, sessions(opened), nil, "{}")
		th := p.thread(t, t.Context(), "thread-1")
		synctest.Wait()
		if r, _ := p.run(t, &gantryv1.CallStart{Tool: "open"}); r.GetSessionId() != "s1" {
			t.Errorf("result %v", r)
		}
		s := <-opened
		th.expect("opened s1 by call-1: a shell")
		for _, piece := range []string{"one ", "two", "\xe2\x82"} { // gathered; the beginning of a character waits
			if n, err := s.Write([]byte(piece)); n != len(piece) || err != nil {
				t.Errorf("write: %d, %v", n, err)
			}
		}
		th.expect(`output s1@0 "one two"`)
		_, _ = s.Write([]byte("\xac\xff"))
		th.expect(`output s1@7 "€"`, `output s1@10 "\xff"`)
		_, _ = s.Write([]byte("\xe2"))
		s.Exited(137)
		s.Lost() // only the first end counts
		th.expect(`output s1@11 "\xe2"`, "exited s1 1 137")
		if _, err := s.Write([]byte("x")); !errors.Is(err, tool.ErrSessionOver) {
			t.Errorf("error %v, want %v", err, tool.ErrSessionOver)
		}
	})
}

func TestThreadContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		threads := make(chan *tool.Thread, 1)
		p := configured(t, tool.Plugin{Thread: func(ctx context.Context, th *tool.Thread) error {
			threads <- th
			<-ctx.Done()
			return ctx.Err()
		}}, nil, "{}")
		ctx, leave := context.WithCancel(t.Context())
		host := p.thread(t, ctx, "t")
		th := <-threads
		if th.ID() != "t" || th.Cwd() != "/work" {
			t.Errorf("thread %q in %q", th.ID(), th.Cwd())
		}
		th.Context("a", "one")
		host.expect(`context a="one"`)
		th.Context("a", "one") // no news
		th.Context("b", "bad \xff")
		host.expect(`context b="bad �"`)
		th.Context("c", "gone before it was there")
		th.Context("c", "")
		th.Context("d", strings.Repeat("€", 10_000))
		th.Context("a", "")
		seen := map[string]string{}
		for range 3 {
			m, err := host.Recv()
			if err != nil {
				t.Fatal(err)
			}
			seen[m.GetContext().GetKey()] = m.GetContext().GetText()
			if m.GetContext().GetKey() == "a" {
				break
			}
		}
		if d := seen["d"]; len(d) != 16383 || seen["a"] != "" {
			t.Errorf("d has %d bytes, a is %q", len(d), seen["a"])
		}
		// A new stream receives all current context texts.
		leave()
		synctest.Wait()
		th.Context("a", "two")
		again := p.thread(t, t.Context(), "t")
		if th2 := <-threads; th2 != th {
			t.Error("another thread of the same id")
		}
		again.expect(`context a="two"`, `context b="bad �"`)
		if m, err := again.Recv(); err != nil || m.GetContext().GetKey() != "d" {
			t.Errorf("%v, %v", m, err)
		}
	})
}

func TestNewStreamReplacesTheOld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		opened := make(chan *tool.Session, 1)
		p := configured(t, sessions(opened), nil, "{}")
		old := p.thread(t, t.Context(), "thread-1")
		synctest.Wait()
		p.run(t, &gantryv1.CallStart{Tool: "open"})
		s := <-opened
		_, _ = s.Write([]byte("a"))
		old.expect("opened s1 by call-1: a shell", `output s1@0 "a"`)
		fresh := p.thread(t, t.Context(), "thread-1")
		old.expect("end: replaced by another stream for this thread")
		_, _ = s.Write([]byte("b"))
		fresh.expect(`output s1@1 "b"`)
	})
}

// A program in a session must not stall because there is no stream. The offsets show the gap.
func TestSessionWithoutAStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		opened := make(chan *tool.Session, 1)
		p := configured(t, sessions(opened), nil, "{}")
		p.run(t, &gantryv1.CallStart{Tool: "open"})
		s := <-opened
		chunk := []byte(strings.Repeat("x", 1000))
		for range 1000 {
			if n, err := s.Write(chunk); n != 1000 || err != nil {
				t.Fatalf("write: %d, %v", n, err)
			}
		}
		host := p.thread(t, t.Context(), "thread-1")
		host.expect("opened s1 by call-1: a shell")
		var total int64
		for total < 256<<10 {
			m, err := host.Recv()
			if err != nil {
				t.Fatal(err)
			}
			total += int64(len(m.GetSessionOutput().GetData()))
		}
		if total != 256<<10 {
			t.Errorf("%d bytes were kept", total)
		}
		_, _ = s.Write([]byte("after"))
		host.expect(`output s1@1000000 "after"`)
	})
}

func TestEndThread(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		opened := make(chan *tool.Session, 1)
		pl := sessions(opened)
		var log []string
		hookDone := make(chan struct{})
		pl.Thread = func(ctx context.Context, _ *tool.Thread) error { <-ctx.Done(); close(hookDone); return ctx.Err() }
		pl.EndThread = func(_ context.Context, id string) error { log = append(log, "end "+id); return nil }
		pl.StopSession = func(_ context.Context, id, session string) error {
			log = append(log, "stop "+id+" "+session)
			if session == "bad" {
				return errors.New("it resists")
			}
			return nil
		}
		p := configured(t, pl, nil, "{}")
		host := p.thread(t, t.Context(), "thread-1")
		synctest.Wait()
		p.run(t, &gantryv1.CallStart{Tool: "open"})
		s := <-opened
		_, _ = s.Write([]byte("last"))
		if _, err := p.StopSession(t.Context(), &gantryv1.StopSessionRequest{ThreadId: "thread-1", SessionId: "s1"}); err != nil {
			t.Error(err)
		}
		if _, err := p.StopSession(t.Context(), &gantryv1.StopSessionRequest{ThreadId: "thread-1", SessionId: "bad"}); status.Code(err) != codes.Internal || !strings.Contains(err.Error(), "it resists") {
			t.Errorf("error %v", err)
		}
		if _, err := p.EndThread(t.Context(), &gantryv1.EndThreadRequest{ThreadId: "thread-1"}); err != nil {
			t.Error(err)
		}
		if _, err := p.EndThread(t.Context(), &gantryv1.EndThreadRequest{ThreadId: "unknown"}); err != nil {
			t.Error(err)
		}
		host.expect("opened s1 by call-1: a shell", `output s1@0 "last"`)
		if _, err := host.Recv(); !errors.Is(err, io.EOF) {
			t.Errorf("the stream ends with %v", err)
		}
		<-hookDone
		<-s.Thread().Done()
		if _, err := s.Write([]byte("x")); !errors.Is(err, tool.ErrSessionOver) {
			t.Errorf("error %v, want %v", err, tool.ErrSessionOver)
		}
		s.Exited(0) // of a thread that is gone: nothing happens
		if want := "stop thread-1 s1, stop thread-1 bad, end thread-1, end unknown"; strings.Join(log, ", ") != want {
			t.Errorf("log %q, want %q", log, want)
		}
	})
}

func TestThreadHookFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := configured(t, tool.Plugin{Thread: func(_ context.Context, th *tool.Thread) error {
			if th.ID() == "returns" {
				return nil
			}
			panic("boom")
		}}, nil, "{}")
		p.thread(t, t.Context(), "t").expect(`end: plugin "test": thread t: thread crashed: boom`)
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		before := time.Now()
		_ = p.thread(t, ctx, "returns").next()
		if time.Since(before) != time.Hour {
			t.Error("the stream ended although the hook only had nothing more to do")
		}
		if err := func() error {
			s, err := serve(t, tool.Plugin{}).Thread(t.Context(), &gantryv1.ThreadRequest{})
			if err != nil {
				return err
			}
			_, err = s.Recv()
			return err
		}(); status.Code(err) != codes.FailedPrecondition {
			t.Errorf("before configure: %v", err)
		}
	})
}

// A thread knows for which one it works, the first of those above it, and what its agent is called, once the host has opened it.
func TestFamily(t *testing.T) {
	got := make(chan [3]string, 1)
	p := configured(t, tool.Plugin{Thread: func(ctx context.Context, th *tool.Thread) error {
		parent, root, err := th.Family(ctx)
		got <- [3]string{parent, root, th.Agent()}
		return err
	}}, nil, "")
	for _, tc := range []struct {
		parent, root, agent string
		want                [3]string
	}{{"p", "r", "/root/a", [3]string{"p", "r", "/root/a"}}, {"", "t", "", [3]string{"", "t", ""}}, {"", "", "", [3]string{"", "t", ""}}} {
		ctx, cancel := context.WithCancel(t.Context())
		if _, err := p.Thread(ctx, &gantryv1.ThreadRequest{ThreadId: "t", ParentThreadId: tc.parent, RootThreadId: tc.root, AgentPath: tc.agent}); err != nil {
			t.Fatal(err)
		}
		if f := <-got; f != tc.want {
			t.Errorf("%+v: %q", tc, f)
		}
		cancel()
	}
}
