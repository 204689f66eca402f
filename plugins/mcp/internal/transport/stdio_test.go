package transport

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// peer is the other end of a Stdio, which writes what it likes.
type peer struct {
	in   *bufio.Reader // what the client writes
	out  *os.File
	junk chan string
}

// hostile connects a client to a peer that is served by serve, in its own goroutine.
func hostile(t *testing.T, serve func(p *peer)) *Stdio {
	t.Helper()
	inR, inW, err1 := os.Pipe()
	outR, outW, err2 := os.Pipe()
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	p := &peer{bufio.NewReader(inR), outW, make(chan string, 100)}
	done := make(chan struct{})
	go func() { // owned by the test, whose cleanup waits for it
		defer close(done)
		defer func() { _ = outW.Close() }()
		serve(p)
	}()
	t.Cleanup(func() {
		_ = inW.Close()
		<-done
		_, _ = inR.Close(), outR.Close()
	})
	return &Stdio{In: inW, Out: outR, Junk: func(line string, size int64) { p.junk <- fmt.Sprintf("%d %s", size, line) }}
}

// request reads what the client sends next; nil: it has closed its end.
func (p *peer) request() *jsonrpc.Request {
	for {
		line, err := p.in.ReadBytes('\n')
		if err != nil {
			return nil
		}
		m, err := jsonrpc.DecodeMessage(line)
		if r, ok := m.(*jsonrpc.Request); err == nil && ok {
			return r
		}
	}
}

func (p *peer) print(format string, args ...any) { _, _ = fmt.Fprintf(p.out, format+"\n", args...) }

// serve answers initialize, and passes other calls on.
func (p *peer) serve(call func(r *jsonrpc.Request)) {
	for r := p.request(); r != nil; r = p.request() {
		switch {
		case r.Method == "initialize":
			p.print(`{"jsonrpc":"2.0","id":%v,"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"raw","version":"1"}}}`, r.ID.Raw())
		case r.IsCall():
			call(r)
		}
	}
}

func TestJunkIsDropped(t *testing.T) { // M14
	var p *peer
	tr := hostile(t, func(started *peer) {
		p = started
		p.print("npm WARN deprecated\n{\"level\":\"info\",\"msg\":\"starting\"}\n\n{\"jsonrpc\":\"2.0\",\"id\":1,\"resu\n[1]\n5\x00\xff")
		_, _ = p.out.Write(append(bytes.Repeat([]byte("x"), 3*pieceBytes), '\n'))
		p.serve(func(r *jsonrpc.Request) {
			p.print(`{"jsonrpc":"2.0","id":%v,"result":%s}`, r.ID.Raw(), result)
			p.print("junk %d", r.ID.Raw())
		})
	})
	s, err := connect(t, tr)
	if err != nil {
		t.Fatal(err)
	}
	for range 12 {
		if got, err := callRaw(t, s, "x"); err != nil || got != result {
			t.Fatalf("%s, %v", got, err)
		}
	}
	var first []string
	for range 6 {
		first = append(first, <-p.junk)
	}
	if first[0] != "19 npm WARN deprecated" || !strings.HasPrefix(first[5], "196609 xxx") {
		t.Errorf("dropped %.80q", first)
	}
	if n := len(first) + len(p.junk); n > maxLoggedJunk {
		t.Errorf("%d lines are logged", n)
	}
}

func TestLineThatIsTooLong(t *testing.T) {
	long := strings.Repeat("x", MaxFrame)
	for _, tc := range []struct {
		name, line string // with the ID
		err        string // of the call
		over       bool   // the connection
	}{
		{"ID first", `{"jsonrpc":"2.0","id":%v,"result":{"content":"` + long + `"}}`, "the maximum is 16777216", false},
		{"ID last", `{"result":{"content":"` + long + `"},"jsonrpc":"2.0","id":%v}`, "the maximum is 16777216", false},
		{"ID before the version", `{"result":{"content":"` + long + `","id":7},"id":%v,"jsonrpc":"2.0"}`, "the maximum is 16777216", false},
		{"no ID", `{"result":{"content":"` + long + `"},"jsonrpc":"2.0"%.0s}`, "which is for no known call", true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var p *peer
			tr := hostile(t, func(started *peer) {
				p = started
				p.serve(func(r *jsonrpc.Request) {
					var params struct{ Name string }
					_ = json.Unmarshal(r.Params, &params)
					if params.Name == "long" {
						p.print(`{"jsonrpc":"2.0","method":"notifications/message","params":{"data":%q}}`, long) // for nobody
						p.print(tc.line, r.ID.Raw())
						return
					}
					p.print(`{"jsonrpc":"2.0","id":%v,"result":%s}`, r.ID.Raw(), result)
				})
			})
			s, err := connect(t, tr)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := callRaw(t, s, "long"); err == nil || !strings.Contains(err.Error(), tc.err) {
				t.Errorf("error %v, want one with %q", err, tc.err)
			}
			if got, err := callRaw(t, s, "short"); !tc.over && (err != nil || got != result) || tc.over && err == nil {
				t.Errorf("afterwards: %.80s, %v", got, err)
			}
			if junk := <-p.junk; !strings.Contains(junk, "notifications/message") {
				t.Errorf("dropped %.80q", junk)
			}
		})
	}
}

// endless is a reader of a line of the given size.
type endless struct{ first, left int }

func (e *endless) Read(p []byte) (int, error) {
	if e.left == 0 {
		return 0, io.EOF
	}
	n := min(len(p), e.left)
	for i := range p[:n] {
		p[i] = 'x'
	}
	if e.first > 0 {
		p[0], e.first = '{', 0
	}
	if e.left -= n; e.left == 0 {
		p[n-1] = '\n'
	}
	return n, nil
}

func TestLongLineTakesLittleMemory(t *testing.T) {
	for _, first := range []int{0, 1} { // junk, and what could be a message
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, long, err := lines{bufio.NewReaderSize(&endless{first, 256 << 20}, pieceBytes)}.next()
		runtime.ReadMemStats(&after)
		if err != nil || long == nil || long.size != 256<<20 || len(long.head) != glimpseBytes || len(long.tail) != glimpseBytes {
			t.Fatalf("%+v, %v", long, err)
		}
		if n := after.TotalAlloc - before.TotalAlloc; n > MaxFrame+1<<20 {
			t.Errorf("a line of 256 MiB has allocated %d bytes", n)
		}
	}
}

func TestServerThatDoesNotRead(t *testing.T) {
	release := make(chan struct{})
	tr := hostile(t, func(p *peer) {
		<-release
		_, _ = io.Copy(io.Discard, p.in)
	})
	c, err := tr.Connect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	large := &jsonrpc.Request{Method: "x", Params: json.RawMessage(`"` + strings.Repeat("x", 1<<20) + `"`)}
	ctx, cancel := context.WithCancel(t.Context())
	written := make(chan error)
	for range 2 { // one is being written, the other waits
		go func() { written <- c.Write(ctx, large) }() // owned by the test, which waits for its result
	}
	cancel()
	for range 2 {
		if err := <-written; !errors.Is(err, context.Canceled) {
			t.Errorf("error %v", err)
		}
	}
	close(release)
	if err := c.Write(within(t), large); err != nil {
		t.Errorf("after the server has read: %v", err)
	}
	_ = c.Close()
	if err := c.Write(within(t), large); err == nil {
		t.Error("a closed connection takes messages")
	}
}

func TestServerThatFloodsRequests(t *testing.T) {
	tr := hostile(t, func(p *peer) {
		for i := range 10_000 {
			if _, err := fmt.Fprintf(p.out, `{"jsonrpc":"2.0","id":%d,"method":"ping"}`+"\n", i); err != nil {
				return
			}
		}
		_, _ = io.Copy(io.Discard, p.in)
	})
	c, err := tr.Connect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	n := 0
	for ; err == nil; n++ {
		_, err = c.Read(within(t))
	}
	if n != maxUnanswered+1 || !strings.Contains(err.Error(), "more than 64 requests") {
		t.Errorf("%d requests, %v", n, err)
	}
}

// Requests that are answered make room for more.
func TestServerThatWaitsForAnswers(t *testing.T) {
	answers := 0
	tr := hostile(t, func(p *peer) {
		p.serve(func(r *jsonrpc.Request) {
			for i := range 3 * maxUnanswered {
				p.print(`{"jsonrpc":"2.0","id":%d,"method":"ping"}`, i)
				if line, err := p.in.ReadString('\n'); err == nil && strings.Contains(line, `"result"`) {
					answers++
				}
			}
			p.print(`{"jsonrpc":"2.0","id":%v,"result":%s}`, r.ID.Raw(), result)
		})
	})
	s, err := connect(t, tr)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := callRaw(t, s, "x"); err != nil || got != result || answers != 3*maxUnanswered {
		t.Errorf("%s, %v after %d answers", got, err, answers)
	}
}

func TestBatch(t *testing.T) {
	tr := hostile(t, func(p *peer) {
		p.print(`[{"jsonrpc":"2.0","method":"a"},{"jsonrpc":"2.0","id":1,"result":{}}]`)
		p.print(`[]`)
		p.print(`{"jsonrpc":"2.0","method":"b"}`)
		_, _ = io.Copy(io.Discard, p.in)
	})
	c, err := tr.Connect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	var got []string
	for range 3 {
		m, err := c.Read(within(t))
		if err != nil {
			t.Fatal(err)
		}
		if r, ok := m.(*jsonrpc.Request); ok {
			got = append(got, r.Method)
		} else {
			got = append(got, "response")
		}
	}
	if strings.Join(got, " ") != "a response b" {
		t.Error(got)
	}
}

func TestServerOfTheSDK(t *testing.T) {
	server := mcp.NewServer(&mcp.Implementation{Name: "s", Version: "1"}, nil)
	mcp.AddTool(server, &mcp.Tool{Name: "echo"}, func(context.Context, *mcp.CallToolRequest, map[string]any) (*mcp.CallToolResult, any, error) {
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "hi"}}}, nil, nil
	})
	tr := hostile(t, func(p *peer) {
		_ = server.Run(context.Background(), &mcp.IOTransport{Reader: io.NopCloser(p.in), Writer: p.out})
	})
	s, err := connect(t, tr)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := callRaw(t, s, "echo"); err != nil || !strings.Contains(got, `"text":"hi"`) {
		t.Errorf("%s, %v", got, err)
	}
	list, err := s.ListTools(within(t), nil)
	if err != nil {
		t.Fatal(err)
	}
	if raw, ok := Raw(list.Meta); !ok || !strings.Contains(string(raw), `"name":"echo"`) {
		t.Errorf("%s", raw)
	}
}

func TestTail(t *testing.T) {
	var tail Tail
	for i := range 5000 {
		_, _ = fmt.Fprintf(&tail, "line %d\n", i)
	}
	if s := tail.String(); len(s) != tailBytes || !strings.HasSuffix(s, "line 4998\nline 4999\n") {
		t.Errorf("%d bytes, %q", len(s), s[len(s)-20:])
	}
	_, _ = tail.Write(bytes.Repeat([]byte("y"), 2*tailBytes))
	if s := tail.String(); s != strings.Repeat("y", tailBytes) {
		t.Errorf("%d bytes", len(s))
	}
}

func FuzzStdio(f *testing.F) {
	f.Add([]byte("junk\n{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":" + result + "}\n"))
	f.Add([]byte("[{\"jsonrpc\":\"2.0\",\"method\":\"x\"},5]\n{\"jsonrpc\":\"2.0\",\"id\":{},\"result\":1}\r\n\xff\x00{"))
	f.Add([]byte(`{"result":{},"id":5}` + strings.Repeat("\n{\"jsonrpc\":\"2.0\",\"id\":\"x\",\"method\":\"m\"}", 3)))
	f.Fuzz(func(t *testing.T, output []byte) {
		const last = "\n{\"jsonrpc\":\"2.0\",\"method\":\"last\"}\n"
		s := &Stdio{In: nopWriter{}, Out: io.MultiReader(bytes.NewReader(output), strings.NewReader(last))}
		c, err := s.Connect(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = c.Close() }()
		for {
			m, err := c.Read(t.Context())
			if err != nil {
				if !strings.Contains(err.Error(), "requests without waiting") {
					t.Fatalf("the last message did not arrive: %v", err)
				}
				return
			}
			if r, ok := m.(*jsonrpc.Request); ok && r.Method == "last" {
				return
			}
		}
	})
}

type nopWriter struct{}

func (nopWriter) Write(p []byte) (int, error) { return len(p), nil }
func (nopWriter) Close() error                { return nil }

func FuzzLongLine(f *testing.F) {
	f.Add([]byte(`{"jsonrpc":"2.0","id":5,"result":{`), []byte(`}}`))
	f.Add([]byte(`{"result":{`), []byte(`"id":3},"jsonrpc":"2.0","id":"a\"b"}`))
	f.Add([]byte(`{"id":1,"method":"x","params":{`), []byte(`}}`))
	f.Fuzz(func(t *testing.T, head, tail []byte) {
		l := &longLine{head: head, tail: tail}
		if id, request, ok := l.id(); ok && (request || !id.IsValid()) {
			t.Fatalf("%q … %q is an answer to %v", head, tail, id.Raw())
		}
	})
}
