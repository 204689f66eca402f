package server

//lint:file-ignore SA1019 most servers are of versions that have sampling, roots and logs

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/goleak"

	"github.com/gantry-agent/gantry/plugins/mcp/internal/auth"
	"github.com/gantry-agent/gantry/plugins/mcp/internal/transport"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// process is a server over pipes, like a process.
type process struct {
	stdin   *bufio.Reader
	stdout  *io.PipeWriter
	stop    context.Context // ends when the process is killed
	kill    func()
	started int // number of this process

	initialized, notified func(r *jsonrpc.Request) // nil: nothing is done
	more                  string                   // further capabilities, with a comma before each
}

func (p *process) print(format string, args ...any) {
	_, _ = fmt.Fprintf(p.stdout, format+"\n", args...)
}

// serve answers initialize and tools/list, and passes other calls on. Its end is that of the process.
func (p *process) serve(tools func() string, call func(r *jsonrpc.Request)) {
	for {
		line, err := p.stdin.ReadBytes('\n')
		if err != nil {
			return
		}
		m, err := jsonrpc.DecodeMessage(line)
		r, ok := m.(*jsonrpc.Request)
		switch {
		case err == nil && ok && !r.IsCall() && p.notified != nil:
			p.notified(r)
		case err != nil || !ok || !r.IsCall():
		case r.Method == "initialize":
			if p.initialized != nil {
				p.initialized(r)
			}
			p.print(`{"jsonrpc":"2.0","id":%v,"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{"listChanged":true}%s},"instructions":"use it\u202e","serverInfo":{"name":"raw","version":"1"}}}`, r.ID.Raw(), p.more)
		case r.Method == "tools/list":
			p.print(`{"jsonrpc":"2.0","id":%v,"result":{"tools":[%s]}}`, r.ID.Raw(), tools())
		default:
			call(r)
		}
	}
}

func (p *process) answer(r *jsonrpc.Request) {
	p.print(`{"jsonrpc":"2.0","id":%v,"result":{"content":[{"type":"text","text":"process %d"}]}}`, r.ID.Raw(), p.started)
}

func one() string { return `{"name":"a"}` }

// simple runs a server that answers each call at once.
func simple(p *process) { p.serve(one, p.answer) }

// bench is a server under test.
type bench struct {
	*Server
	starts  atomic.Int32
	running sync.WaitGroup
}

func newBench(t *testing.T, cfg Config, run func(p *process)) *bench {
	t.Helper()
	b := &bench{}
	cfg.Name, cfg.Client = "srv", &mcp.Implementation{Name: "gantry", Version: "1"}
	before := cfg.Open
	cfg.Open = func(ctx context.Context) (Link, error) {
		if before != nil {
			if l, err := before(ctx); err != nil {
				return l, err
			}
		}
		inR, inW := io.Pipe()
		outR, outW := io.Pipe()
		stop, cancel := context.WithCancel(context.Background())
		kill := func() {
			cancel()
			_, _, _, _ = inR.Close(), outW.Close(), inW.Close(), outR.Close()
		}
		p := &process{stdin: bufio.NewReader(inR), stdout: outW, stop: stop, kill: kill, started: int(b.starts.Add(1))}
		done := make(chan struct{})
		b.running.Go(func() {
			defer close(done)
			defer kill()
			run(p)
		})
		return Link{
			Transport: &transport.Stdio{In: inW, Out: outR},
			Close: func() {
				kill()
				<-done
			},
			Explain: func() string { return "it exited with code 3" },
		}, nil
	}
	b.Server = New(cfg)
	t.Cleanup(func() {
		b.Close()
		b.running.Wait()
	})
	return b
}

func (b *bench) call(ctx context.Context) (string, error) {
	raw, err := b.Call(ctx, "a", json.RawMessage(`{}`), Events{})
	return string(raw), err
}

func (b *bench) want(t *testing.T, process int) {
	t.Helper()
	got, err := b.call(t.Context())
	if err != nil || !strings.Contains(got, fmt.Sprintf("process %d", process)) {
		t.Fatalf("%s, %v; want an answer of process %d", got, err, process)
	}
}

func TestServerIsStartedOnceAndReused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, Config{Idle: time.Minute}, simple)
		if b.Status().State != Unknown || b.starts.Load() != 0 {
			t.Errorf("before the first call: %+v", b.Status())
		}
		var calls sync.WaitGroup
		for range 10 {
			calls.Go(func() { b.want(t, 1) })
		}
		calls.Wait()
		st := b.Status()
		if st.State != Ready || len(st.Tools) != 1 || st.Instructions != "use it" {
			t.Errorf("%+v", st)
		}
		time.Sleep(59 * time.Second)
		b.want(t, 1)
		time.Sleep(59 * time.Second)
		b.want(t, 1) // the time without calls counts
		time.Sleep(61 * time.Second)
		synctest.Wait()
		if b.Status().State != Ready {
			t.Errorf("an idle server: %+v", b.Status())
		}
		b.running.Wait() // it has been ended
		b.want(t, 2)
	})
}

func TestServerThatDies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, Config{}, func(p *process) {
			p.serve(one, func(*jsonrpc.Request) { p.kill() })
		})
		for i, want := range []string{
			`the server "srv" has ended during the call; it exited with code 3; the next call starts it again`,
			`the server "srv" has ended during the call`,
			"it is not started again for 2s",
		} {
			_, err := b.call(t.Context())
			synctest.Wait()
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("call %d: %v, want %q", i, err, want)
			}
		}
		for range 10 { // each time it takes longer, and then much longer
			time.Sleep(maxBackoff)
			_, _ = b.call(t.Context())
			synctest.Wait()
		}
		if n := b.starts.Load(); n != brokenAfter {
			t.Errorf("started %d times", n)
		}
		if st := b.Status(); st.State != Failed || !strings.Contains(st.Message, "has ended again") {
			t.Errorf("%+v", st)
		}
		time.Sleep(brokenTime)
		if _, _ = b.call(t.Context()); b.starts.Load() != brokenAfter+1 {
			t.Error("it is never started again")
		}
	})
}

func TestServerThatLivesLongIsNoFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, Config{}, func(p *process) {
			p.serve(one, func(r *jsonrpc.Request) {
				p.answer(r)
				time.Sleep(stable)
				p.kill()
			})
		})
		for i := range 8 {
			b.want(t, i+1)
			time.Sleep(stable + time.Second)
		}
	})
}

func TestServerThatDoesNotStart(t *testing.T) {
	for name, tc := range map[string]struct {
		run  func(p *process)
		want string
	}{
		"hangs": {func(p *process) { <-p.stop.Done() }, "was not ready within 30s"},
		"asks and does not read": {func(p *process) {
			for i := range 5 {
				p.print(`{"jsonrpc":"2.0","id":%d,"method":"ping"}`, i)
			}
			<-p.stop.Done()
		}, "was not ready within 30s"},
		"exits": {func(*process) {}, "does not start: "},
		"floods": {func(p *process) {
			for p.stop.Err() == nil {
				p.print("junk")
			}
		}, "was not ready within 30s"},
		"repeated cursor": {func(p *process) { p.serve(func() string { return `],"nextCursor":"x","x":[` }, p.answer) }, "does not end"}, // M7
		"too many requests": {func(p *process) {
			for i := 0; p.stop.Err() == nil; i++ {
				p.print(`{"jsonrpc":"2.0","id":%d,"method":"ping"}`, i)
			}
		}, "requests without waiting"},
	} {
		t.Run(name, func(t *testing.T) {
			if name == "floods" { // in a bubble, time stands still while it does
				t.Parallel()
				b := newBench(t, Config{StartupTimeout: time.Second / 2}, tc.run)
				if err := b.Start(t.Context()); err == nil || !strings.Contains(err.Error(), "was not ready within 500ms") {
					t.Errorf("error %v", err)
				}
				return
			}
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t, Config{}, tc.run)
				err := b.Start(t.Context())
				if err == nil || !strings.Contains(err.Error(), tc.want) || !strings.Contains(err.Error(), "it exited with code 3") {
					t.Errorf("error %v, want one with %q", err, tc.want)
				}
				if st := b.Status(); st.State != Failed || len(st.Tools) > 0 {
					t.Errorf("%+v", st)
				}
			})
		})
	}
}

// A server that needs a login is tried again whenever it is called, and by itself as soon as a person has logged in.
func TestServerThatNeedsALogin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		login := make(chan struct{})
		b := newBench(t, Config{
			Open: func(context.Context) (Link, error) {
				select {
				case <-login:
					return Link{}, nil
				default:
					return Link{}, &auth.LoginError{Server: "srv", Reason: "it has none"}
				}
			},
			AwaitLogin: func(ctx context.Context) error {
				select {
				case <-login:
					return nil
				case <-ctx.Done():
					return ctx.Err()
				}
			},
		}, simple)
		for range 2 * brokenAfter {
			if _, err := b.call(t.Context()); err == nil || !strings.Contains(err.Error(), "run `gantry mcp login srv`") || strings.Contains(err.Error(), "not started again") {
				t.Fatalf("error %v", err)
			}
		}
		if st := b.Status(); st.State != NeedsLogin || !strings.HasPrefix(st.Message, `the server "srv" needs a login`) {
			t.Errorf("%+v", st)
		}
		close(login)
		synctest.Wait()
		if st := b.Status(); st.State != Ready || len(st.Tools) != 1 || b.starts.Load() != 1 {
			t.Errorf("after the login: %+v, %d starts", st, b.starts.Load())
		}
		b.want(t, 1)
	})
}

func TestCallerThatDoesNotWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		b := newBench(t, Config{}, func(p *process) {
			<-release
			simple(p)
		})
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(errors.New("the user has interrupted it"))
		if _, err := b.call(ctx); err == nil || err.Error() != "the user has interrupted it" {
			t.Errorf("error %v", err)
		}
		close(release)
		synctest.Wait()
		if b.Status().State != Ready { // it has gone on
			t.Errorf("%+v", b.Status())
		}
		b.want(t, 1)
	})
}

func TestCallThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cancelled := make(chan string, 1)
		b := newBench(t, Config{}, func(p *process) {
			p.serve(one, func(r *jsonrpc.Request) {
				line, _ := p.stdin.ReadString('\n')
				cancelled <- line
				p.serve(one, func(*jsonrpc.Request) {
					_, _ = io.Copy(io.Discard, p.stdin) // a pipe of the system takes the notice that the call is cancelled
					<-p.stop.Done()
				})
			})
		})
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Minute, errors.New("too slow"))
		defer cancel()
		if _, err := b.call(ctx); err == nil || err.Error() != "too slow" {
			t.Errorf("error %v", err)
		}
		if line := <-cancelled; !strings.Contains(line, "notifications/cancelled") {
			t.Errorf("the server reads %q", line)
		}
		closed := make(chan struct{})
		go func() { // owned by the test; a call that hangs does not keep the server from being closed
			defer close(closed)
			time.Sleep(time.Second)
			began := time.Now()
			b.Close()
			if d := time.Since(began); d >= closeTime {
				t.Errorf("closing has taken %v", d)
			}
		}()
		if _, err := b.call(t.Context()); !errors.Is(err, ErrClosed) {
			t.Errorf("error %v", err)
		}
		if _, err := b.call(t.Context()); !errors.Is(err, ErrClosed) {
			t.Errorf("after Close: %v", err)
		}
		<-closed
	})
}

func TestChangedTools(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var lists, changes atomic.Int32
		b := newBench(t, Config{Changed: func() { changes.Add(1) }}, func(p *process) {
			p.serve(func() string { return fmt.Sprintf(`{"name":"v%d"}`, lists.Add(1)) }, func(r *jsonrpc.Request) {
				p.answer(r)
				go func() { // owned by the process; ends before the test, whose time is that of the bubble
					for range 3000 { // in three seconds
						p.print(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)
						time.Sleep(time.Millisecond)
					}
				}()
			})
		})
		b.want(t, 1)
		time.Sleep(4 * time.Second)
		synctest.Wait()
		if n := lists.Load(); n < 2 || n > 8 {
			t.Errorf("the tools were listed %d times", n)
		}
		if st := b.Status(); st.Tools[0].Name != fmt.Sprintf("v%d", lists.Load()) {
			t.Errorf("%+v after %d lists", st.Tools, lists.Load())
		}
		if n := changes.Load(); n < 2 || n > 10 {
			t.Errorf("%d changes", n)
		}
	})
}

func TestMessagesDuringACall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var answer string
		b := newBench(t, Config{}, func(p *process) {
			p.serve(one, func(r *jsonrpc.Request) {
				var params struct {
					Meta map[string]any `json:"_meta"`
				}
				_ = json.Unmarshal(r.Params, &params)
				p.print(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%v,"progress":1,"total":2,"message":"half\n%v"}}`, params.Meta["progressToken"], params.Meta["callId"])
				p.print(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":99,"progress":5}}`)
				p.print(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":{"a":1}}}`)
				p.print(`{"jsonrpc":"2.0","id":"q","method":"elicitation/create","params":{"message":"sure?","requestedSchema":{"type":"object","properties":{"ok":{"type":"boolean"}}}}}`)
				p.print(`{"jsonrpc":"2.0","id":"r","method":"roots/list"}`)
				for range 2 {
					line, _ := p.stdin.ReadString('\n')
					answer += line
				}
				p.answer(r)
			})
		})
		var progress []string
		raw, err := b.Call(t.Context(), "a", nil, Events{
			Progress: func(m string, done, total float64) { progress = append(progress, fmt.Sprint(m, done, total)) },
			Elicit: func(_ context.Context, p *mcp.ElicitParams) (*mcp.ElicitResult, error) {
				return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"ok": p.Message == "sure?"}}, nil
			},
			Meta: map[string]any{"callId": "c1"},
		})
		if err != nil || !strings.Contains(string(raw), "process 1") {
			t.Fatalf("%s, %v", raw, err)
		}
		if fmt.Sprint(progress) != "[half c11 2]" {
			t.Errorf("progress %q", progress)
		}
		if !strings.Contains(answer, `"content":{"ok":true}`) || !strings.Contains(answer, `"id":"r"`) || !strings.Contains(answer, `"error"`) && !strings.Contains(answer, `"roots"`) {
			t.Errorf("answers %s", answer)
		}
		if raw, err := b.Call(t.Context(), "a", nil, Events{}); err != nil || !strings.Contains(answer, `"action":"decline"`) {
			t.Errorf("a question that no one can answer: %s, %s, %v", raw, answer, err)
		}
	})
}

// A question ends with the call in whose name it was asked.
func TestQuestionOfACallThatEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, Config{}, func(p *process) {
			p.serve(one, func(r *jsonrpc.Request) {
				p.print(`{"jsonrpc":"2.0","id":"q","method":"elicitation/create","params":{"message":"sure?","requestedSchema":{"type":"object"}}}`)
				_, _ = io.Copy(io.Discard, p.stdin)
			})
		})
		ctx, cancel := context.WithCancelCause(t.Context())
		ended := make(chan struct{})
		_, err := b.Call(ctx, "a", nil, Events{Elicit: func(ctx context.Context, _ *mcp.ElicitParams) (*mcp.ElicitResult, error) {
			cancel(errors.New("the user has interrupted it"))
			<-ctx.Done()
			close(ended)
			return nil, ctx.Err()
		}})
		if err == nil || err.Error() != "the user has interrupted it" {
			t.Errorf("error %v", err)
		}
		<-ended
	})
}

func TestKnownToolsStartNothing(t *testing.T) {
	first := newBench(t, Config{}, simple)
	if err := first.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	b := newBench(t, Config{Tools: first.Status().Tools, Instructions: "i"}, simple)
	if st := b.Status(); st.State != Ready || len(st.Tools) != 1 || st.Instructions != "i" || b.starts.Load() != 0 {
		t.Errorf("%+v", st)
	}
	b.want(t, 1)
}

func TestServerOverHTTP(t *testing.T) {
	for _, tc := range []struct {
		name string
		fail map[string][]int
		want string // the methods of all requests with their sessions, but for those of the stream
		err  string
	}{
		{"nothing fails", nil, "initialize. notifications/initialized.s1 tools/list.s1 tools/call.s1", ""},
		{"M8: the session is forgotten", map[string][]int{"tools/call": {404}},
			"initialize. notifications/initialized.s1 tools/list.s1 tools/call.s1 initialize. notifications/initialized.s2 tools/list.s2 tools/call.s2", ""},
		{"it is forgotten again", map[string][]int{"tools/call": {404, 404}},
			"initialize. notifications/initialized.s1 tools/list.s1 tools/call.s1 initialize. notifications/initialized.s2 tools/list.s2 tools/call.s2", "HTTP 404"},
		{"start and list fail twice", map[string][]int{"initialize": {503, 429}, "tools/list": {500, 504}},
			"initialize. initialize. initialize. notifications/initialized.s1 tools/list.s1 tools/list.s1 tools/list.s1 tools/call.s1", ""},
		{"start fails three times", map[string][]int{"initialize": {503, 503, 503}}, "initialize. initialize. initialize.", "HTTP 503"},
		{"start fails for good", map[string][]int{"initialize": {403}}, "initialize.", "HTTP 403"},
		{"the list is refused", map[string][]int{"tools/list": {403}}, "initialize. notifications/initialized.s1 tools/list.s1", "HTTP 403"},
		{"a call fails", map[string][]int{"tools/call": {500}}, "initialize. notifications/initialized.s1 tools/list.s1 tools/call.s1", "HTTP 500"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			var mu sync.Mutex
			var seen []string
			deleted := map[string]bool{}
			sessions := 0
			fail := tc.fail
			web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				m, _ := jsonrpc.DecodeMessage(body)
				mu.Lock()
				defer mu.Unlock()
				if r.Method == http.MethodDelete {
					deleted[r.Header.Get("Mcp-Session-Id")] = true
				}
				q, ok := m.(*jsonrpc.Request)
				if r.Method != http.MethodPost || !ok {
					w.WriteHeader(http.StatusMethodNotAllowed)
					return
				}
				seen = append(seen, q.Method+"."+r.Header.Get("Mcp-Session-Id"))
				if next := fail[q.Method]; len(next) > 0 {
					fail[q.Method] = next[1:]
					w.WriteHeader(next[0])
					return
				}
				result := `{"content":[{"type":"text","text":"hi"}]}`
				switch q.Method {
				case "initialize":
					sessions++
					w.Header().Set("Mcp-Session-Id", fmt.Sprint("s", sessions))
					result = `{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"raw","version":"1"}}`
				case "tools/list":
					result = `{"tools":[{"name":"a"}]}`
				case "notifications/initialized":
					w.WriteHeader(http.StatusAccepted)
					return
				}
				w.Header().Set("Content-Type", "application/json")
				_, _ = fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%v,"result":%s}`, q.ID.Raw(), result)
			}))
			defer web.Close()
			s := New(Config{Name: "srv", Client: &mcp.Implementation{Name: "gantry", Version: "1"}, Open: func(context.Context) (Link, error) {
				own := &http.Transport{}
				tr, err := transport.HTTP{URL: web.URL, Transport: own}.New()
				return Link{Transport: tr, Retry: true, Close: own.CloseIdleConnections}, err
			}})
			raw, err := s.Call(t.Context(), "a", nil, Events{})
			if tc.err == "" && (err != nil || !strings.Contains(string(raw), "hi")) || tc.err != "" && (err == nil || !strings.Contains(err.Error(), tc.err)) {
				t.Errorf("%s, %v", raw, err)
			}
			s.Close()
			mu.Lock()
			defer mu.Unlock()
			if got := strings.Join(seen, " "); got != tc.want {
				t.Errorf("requests\n%s\nwant\n%s", got, tc.want)
			}
			for i := range sessions {
				if !deleted[fmt.Sprint("s", i+1)] {
					t.Errorf("the session s%d is not deleted", i+1)
				}
			}
		})
	}
}

// A server that may ask for a model's answer gets one of the newest call, and none without a call.
func TestSamplingBelongsToACall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, announced := range []bool{false, true} {
			var answer string
			var initialized atomic.Value
			b := newBench(t, Config{Sampling: announced}, func(p *process) {
				p.initialized = func(r *jsonrpc.Request) { initialized.Store(string(r.Params)) }
				p.serve(one, func(r *jsonrpc.Request) {
					p.print(`{"jsonrpc":"2.0","id":"s","method":"sampling/createMessage","params":{"maxTokens":1,"messages":[{"role":"user","content":{"type":"text","text":"hi"}}]}}`)
					answer, _ = p.stdin.ReadString('\n')
					p.answer(r)
				})
			})
			_, err := b.Call(t.Context(), "a", nil, Events{Sample: func(_ context.Context, p *mcp.CreateMessageWithToolsParams) (*mcp.CreateMessageWithToolsResult, error) {
				return &mcp.CreateMessageWithToolsResult{Role: "assistant", Model: "m", Content: []mcp.Content{&mcp.TextContent{Text: fmt.Sprint(len(p.Messages))}}}, nil
			}})
			if err != nil || strings.Contains(answer, `"text":"1"`) != announced || strings.Contains(initialized.Load().(string), `"sampling"`) != announced {
				t.Errorf("announced %v: %s, %v after %s", announced, answer, err, initialized.Load())
			}
			if _, err := b.Call(t.Context(), "a", nil, Events{}); err != nil || announced && !strings.Contains(answer, "only while a tool of this server is being called") {
				t.Errorf("without a call: %s, %v", answer, err)
			}
		}
	})
}

// More than a few requests at a time are refused, so that a server can't open any number of questions and streams.
func TestSamplingIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		refused := 0
		b := newBench(t, Config{Sampling: true}, func(p *process) {
			p.serve(one, func(r *jsonrpc.Request) {
				for i := range 3 * maxSampling {
					p.print(`{"jsonrpc":"2.0","id":"s%d","method":"sampling/createMessage","params":{"maxTokens":1,"messages":[]}}`, i)
				}
				for range 2 * maxSampling {
					if line, _ := p.stdin.ReadString('\n'); strings.Contains(line, "which is the maximum") {
						refused++
					}
				}
				p.answer(r)
			})
		})
		_, err := b.Call(t.Context(), "a", nil, Events{Sample: func(ctx context.Context, _ *mcp.CreateMessageWithToolsParams) (*mcp.CreateMessageWithToolsResult, error) {
			<-ctx.Done() // the call has ended
			return nil, ctx.Err()
		}})
		if err != nil || refused != 2*maxSampling {
			t.Errorf("%d refused, %v", refused, err)
		}
	})
}

// A server gets the folders of its callers before a call, and is told when they change.
func TestRoots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, announced := range []bool{false, true} {
			var answer string
			changes := make(chan struct{}, 10)
			var initialized atomic.Value
			b := newBench(t, Config{Roots: announced}, func(p *process) {
				p.initialized = func(r *jsonrpc.Request) { initialized.Store(string(r.Params)) }
				p.notified = func(r *jsonrpc.Request) {
					if r.Method == "notifications/roots/list_changed" {
						changes <- struct{}{}
					}
				}
				p.serve(one, func(r *jsonrpc.Request) {
					p.print(`{"jsonrpc":"2.0","id":"r","method":"roots/list"}`)
					answer, _ = p.stdin.ReadString('\n')
					p.answer(r)
				})
			})
			b.SetRoots([]*mcp.Root{{Name: "a", URI: "file:///a"}})
			b.want(t, 1)
			if got := strings.Contains(answer, `"roots":[{"name":"a","uri":"file:///a"}]`); got != announced || strings.Contains(initialized.Load().(string), `"roots":{"listChanged":true}`) != announced {
				t.Errorf("announced %v: %s after %s", announced, answer, initialized.Load())
			}
			b.SetRoots([]*mcp.Root{{Name: "b", URI: "file:///b"}})
			b.want(t, 1)
			if announced && (len(changes) == 0 || !strings.Contains(answer, `"roots":[{"name":"b","uri":"file:///b"}]`)) {
				t.Errorf("%d notices; then %s", len(changes), answer)
			}
			if !announced && len(changes) > 0 {
				t.Error("a server that was promised nothing is told of changes")
			}
			for len(changes) > 0 {
				<-changes
			}
			b.SetRoots(nil)
			synctest.Wait()
			if announced != (len(changes) == 1) {
				t.Errorf("announced %v: %d notices of the end", announced, len(changes))
			}
		}
	})
}

// What a server reads of the handshake and of calls: the version, what gantry can do, and a running number for progress.
func TestHandshake(t *testing.T) {
	for protocol, want := range map[string]string{"": "2025-06-18", "2024-11-05": "2024-11-05"} {
		synctest.Test(t, func(t *testing.T) {
			var lines []string
			b := newBench(t, Config{Protocol: protocol}, func(p *process) {
				for {
					line, err := p.stdin.ReadBytes('\n')
					if err != nil {
						return
					}
					m, err := jsonrpc.DecodeMessage(line)
					if err != nil {
						t.Error(err)
						return
					}
					r := m.(*jsonrpc.Request)
					lines = append(lines, r.Method+" "+string(r.Params))
					switch r.Method {
					case "initialize":
						p.print(`{"jsonrpc":"2.0","id":%v,"result":{"protocolVersion":%q,"capabilities":{"tools":{}},"serverInfo":{"name":"raw","version":"1"}}}`, r.ID.Raw(), want)
					case "tools/list":
						p.print(`{"jsonrpc":"2.0","id":%v,"result":{"tools":[{"name":"a"}]}}`, r.ID.Raw())
					case "tools/call":
						p.answer(r)
					}
				}
			})
			b.want(t, 1)
			b.want(t, 1)
			for i, want := range []string{
				`initialize {"clientInfo":{"name":"gantry","version":"1"},"protocolVersion":"` + want + `","capabilities":{"elicitation":{"form":{},"url":{}}}}`,
				"notifications/initialized {}", "tools/list {}",
				`tools/call {"_meta":{"progressToken":1},"name":"a","arguments":{}}`, `tools/call {"_meta":{"progressToken":2},"name":"a","arguments":{}}`,
			} {
				if i >= len(lines) || lines[i] != want {
					t.Errorf("line %d of %q, want %s", i, lines, want)
				}
			}
		})
	}
}

// over starts a server over HTTP whose requests are answered by serve, or else as a server with the tool "a" answers them. sessions counts
// its sessions.
func over(t *testing.T, serve func(w http.ResponseWriter, r *http.Request, q *jsonrpc.Request) bool) *Server {
	t.Helper()
	var sessions atomic.Int32
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		m, _ := jsonrpc.DecodeMessage(body)
		q, ok := m.(*jsonrpc.Request)
		if serve(w, r, q) {
			return
		}
		result := `{"content":[{"type":"text","text":"hi"}]}`
		switch {
		case !ok:
			w.WriteHeader(http.StatusMethodNotAllowed)
			return
		case q.Method == "initialize":
			w.Header().Set("Mcp-Session-Id", fmt.Sprint("s", sessions.Add(1)))
			result = `{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"raw","version":"1"}}`
		case q.Method == "tools/list":
			result = `{"tools":[{"name":"a"}]}`
		case !q.IsCall():
			w.WriteHeader(http.StatusAccepted)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%v,"result":%s}`, q.ID.Raw(), result)
	}))
	t.Cleanup(web.Close)
	own := &http.Transport{}
	s := New(Config{Name: "srv", Client: &mcp.Implementation{Name: "gantry", Version: "1"}, Open: func(context.Context) (Link, error) {
		tr, err := transport.HTTP{URL: web.URL, Transport: own, UserAgent: "gantry/1"}.New()
		return Link{Transport: tr, Retry: true, Close: own.CloseIdleConnections}, err
	}})
	t.Cleanup(s.Close)
	return s
}

// Requests over HTTP have the headers of the protocol; a stream is asked for, and the session is deleted.
func TestHeadersOfRequests(t *testing.T) {
	var mu sync.Mutex
	var seen []string
	var once sync.Once
	stream := make(chan struct{})
	s := over(t, func(_ http.ResponseWriter, r *http.Request, q *jsonrpc.Request) bool {
		what := r.Method
		if q != nil {
			what = q.Method
		}
		h := r.Header
		mu.Lock()
		defer mu.Unlock()
		seen = append(seen, fmt.Sprintf("%s: %s|%s|%s|%s", what, h.Get("User-Agent"), h.Get("Mcp-Protocol-Version"), h.Get("Mcp-Session-Id"), h.Get("Accept")))
		if r.Method == http.MethodGet {
			once.Do(func() { close(stream) })
		}
		return false
	})
	if _, err := s.Call(t.Context(), "a", nil, Events{}); err != nil {
		t.Fatal(err)
	}
	<-stream
	s.Close()
	mu.Lock()
	defer mu.Unlock()
	all := strings.Join(seen, "\n")
	for _, want := range []string{
		"initialize: gantry/1|||application/json, text/event-stream", "notifications/initialized: gantry/1|2025-06-18|s1|application/json, text/event-stream",
		"tools/list: gantry/1|2025-06-18|s1|application/json, text/event-stream", "tools/call: gantry/1|2025-06-18|s1|application/json, text/event-stream",
		"GET: gantry/1|2025-06-18|s1|text/event-stream", "DELETE: gantry/1|2025-06-18|s1|",
	} {
		if !strings.Contains(all+"\n", want+"\n") {
			t.Errorf("no request %q in\n%s", want, all)
		}
	}
}

// M8: when a server has forgotten a session, calls that it still works on are not disturbed, and the old session is deleted after them.
func TestForgottenSessionDuringACall(t *testing.T) {
	var first, deleted atomic.Bool
	held, release, gone := make(chan struct{}), make(chan struct{}), make(chan struct{})
	s := over(t, func(w http.ResponseWriter, r *http.Request, q *jsonrpc.Request) bool {
		old := r.Header.Get("Mcp-Session-Id") == "s1"
		switch {
		case r.Method == http.MethodDelete && old:
			if !deleted.Swap(true) {
				close(gone)
			}
		case q != nil && q.Method == "tools/call" && old && !first.Swap(true):
			close(held)
			<-release
		case q != nil && q.Method == "tools/call" && old:
			w.WriteHeader(http.StatusNotFound)
			return true
		}
		return false
	})
	early := make(chan error)
	go func() { // owned by the test, which waits for it
		_, err := s.Call(t.Context(), "a", nil, Events{})
		early <- err
	}()
	<-held
	if raw, err := s.Call(t.Context(), "a", nil, Events{}); err != nil || !strings.Contains(string(raw), "hi") {
		t.Errorf("the call of the forgotten session: %s, %v", raw, err)
	}
	if deleted.Load() {
		t.Error("the session was deleted during a call")
	}
	close(release)
	if err := <-early; err != nil {
		t.Errorf("the call that was running: %v", err)
	}
	<-gone
}

// Prompts are listed after the tools, again when the server says so, and not if the server has none. A failure ends nothing.
func TestPrompts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var lists atomic.Int32
		var flooded atomic.Bool
		b := newBench(t, Config{}, func(p *process) {
			p.more = `,"prompts":{"listChanged":true},"resources":{}`
			p.serve(one, func(r *jsonrpc.Request) {
				switch {
				case r.Method != "prompts/list":
					p.answer(r)
				case lists.Add(1) == 3:
					p.print(`{"jsonrpc":"2.0","id":%v,"error":{"code":-32603,"message":"kaput"}}`, r.ID.Raw())
				default:
					p.print(`{"jsonrpc":"2.0","id":%v,"result":{"prompts":[{"name":"p%d","_meta":5}]}}`, r.ID.Raw(), lists.Load())
				}
				if r.Method == "tools/call" && !flooded.Swap(true) {
					go func() { // owned by the process; ends before the test, whose time is that of the bubble
						for range 1000 { // in a second
							p.print(`{"jsonrpc":"2.0","method":"notifications/prompts/list_changed"}`)
							time.Sleep(time.Millisecond)
						}
					}()
				}
			})
		})
		b.want(t, 1)
		synctest.Wait()
		if st := b.Status(); !st.Resources || len(st.Prompts) != 1 || st.Prompts[0].Name != "p1" {
			t.Errorf("%+v", st)
		}
		time.Sleep(3 * time.Second)
		synctest.Wait()
		if st := b.Status(); st.State != Ready || lists.Load() < 3 || lists.Load() > 4 || lists.Load() == 3 && st.Prompts != nil || lists.Load() == 4 && st.Prompts[0].Name != "p4" {
			t.Errorf("%+v after %d lists", st, lists.Load())
		}
		b.want(t, 1)
	})
}

// The end of a connection that still lists its prompts is no news.
func TestPromptsThatAreNotNeeded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out strings.Builder
		b := newBench(t, Config{Logger: hclog.New(&hclog.LoggerOptions{Output: &out})}, func(p *process) {
			p.more = `,"prompts":{}`
			p.serve(one, func(r *jsonrpc.Request) {
				if r.Method != "prompts/list" { // which is never answered
					p.answer(r)
				}
			})
		})
		b.want(t, 1)
		synctest.Wait()
		b.Close()
		if out.Len() > 0 {
			t.Errorf("logged: %s", out.String())
		}
	})
}

// The end of a server that is starting is no failure: others would be told that it has failed.
func TestCloseDuringAStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, Config{}, func(p *process) { <-p.stop.Done() })
		b.Begin()
		synctest.Wait()
		b.Close()
		if st := b.Status(); st.State != Starting || st.Message != "" {
			t.Errorf("%v %s", st.State, st.Message)
		}
	})
}

// A server that can log is told to. Its lines are cleaned and bounded, in length and number.
func TestServersLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out strings.Builder
		var level atomic.Value
		b := newBench(t, Config{Logger: hclog.New(&hclog.LoggerOptions{Output: &out, Level: hclog.Debug})}, func(p *process) {
			p.more = `,"logging":{}`
			p.serve(one, func(r *jsonrpc.Request) {
				if r.Method == "logging/setLevel" {
					level.Store(string(r.Params))
					p.print(`{"jsonrpc":"2.0","id":%v,"result":{}}`, r.ID.Raw())
					return
				}
				for i := range 3 * maxLogLines {
					p.print(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"line %d \u001b[2J\u202e%s"}}`, i, strings.Repeat("x", 10000))
				}
				p.answer(r)
			})
		})
		b.want(t, 1)
		synctest.Wait()
		if got, _ := level.Load().(string); !strings.Contains(got, `"level":"info"`) {
			t.Errorf("level %q", got)
		}
		b.Close()
		if n := strings.Count(out.String(), "a server's log"); n != maxLogLines || strings.ContainsAny(out.String(), "\x1b\u202e") || out.Len() > maxLogLines*1000 {
			t.Errorf("%d lines, %d bytes", n, out.Len())
		}
	})
}
