package rpc

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestRequestsAreAnswered(t *testing.T) {
	each(t, func(t *testing.T, transport string) {
		p := connect(t, transport, Config{Handle: func(ctx context.Context, r *Request) {
			switch r.Method {
			case "echo":
				r.Reply(r.Params)
			case "struct":
				r.Reply(struct {
					A string  `json:"a"`
					B *string `json:"b"`
				}{A: "<&>\n"})
			case "nil":
				r.Reply(nil)
			case "typed":
				r.Fail(fmt.Errorf("wrapped: %w", &Error{Code: InvalidParams, Message: "no \"x\"", Data: map[string]int{"n": 1}}))
			case "plain":
				r.Fail(errors.New("disk full"))
			case "unencodable":
				r.Reply(func() {})
			case "unencodable data":
				r.Fail(&Error{Code: 5, Message: "m", Data: func() {}})
			case "nothing":
			case "panic":
				panic("oh")
			case "twice":
				r.Reply(1)
				r.Fail(errors.New("2"))
				r.Reply(3)
			case "indented":
				r.Reply(json.RawMessage("{\n  \"a\": [ 1 ]\n}"))
			}
		}})
		for _, tt := range []struct{ send, want string }{
			{`{"jsonrpc":"2.0","id":1,"method":"echo","params":{"a": [1]}}`, `{"id":1,"result":{"a": [1]}}`},
			{`{"id":-7,"method":"echo"}`, `{"id":-7,"result":null}`},
			{`{"id":"é","method":"struct"}`, `{"id":"é","result":{"a":"<&>\n","b":null}}`},
			{`{"id":30,"method":"nil"}`, `{"id":30,"result":null}`},
			{`{"id":30,"method":"nil"}`, `{"id":30,"result":null}`},
			{`{"id":1,"method":"typed"}`, `{"id":1,"error":{"code":-32602,"message":"no \"x\"","data":{"n":1}}}`},
			{`{"id":1,"method":"plain"}`, `{"id":1,"error":{"code":-32603,"message":"disk full"}}`},
			{`{"id":1,"method":"unencodable"}`, `{"id":1,"error":{"code":-32603,"message":"internal error: cannot encode the result of unencodable"}}`},
			{`{"id":1,"method":"unencodable data"}`, `{"id":1,"error":{"code":5,"message":"m"}}`},
			{`{"id":1,"method":"nothing"}`, `{"id":1,"error":{"code":-32603,"message":"internal error: nothing returned without an answer"}}`},
			{`{"id":1,"method":"panic"}`, `{"id":1,"error":{"code":-32603,"message":"internal error in panic"}}`},
			{`{"id":1,"method":"twice"}`, `{"id":1,"result":1}`},
			{`{"id":1,"method":"indented"}`, `{"id":1,"result":{"a":[1]}}`},
		} {
			p.write(tt.send)
			p.expect(tt.want)
		}
	})
}

func TestWithoutHandlerNoMethodIsFound(t *testing.T) {
	p := connect(t, "lines", Config{})
	p.write(`{"method":"x"}`, `{"id":1,"result":{}}`, `{"id":1,"method":"x"}`)
	p.expect(`{"id":1,"error":{"code":-32601,"message":"method not found: x"}}`)
}

func TestGarbageIsAnswered(t *testing.T) {
	each(t, func(t *testing.T, transport string) {
		p := connect(t, transport, Config{Handle: echo})
		for _, tt := range []struct{ send, want string }{
			{`{"id":25,`, `{"id":null,"error":{"code":-32700,"message":"parse error: unexpected end of JSON input at byte 9",` +
				`"data":{"kind":"parseError","next":"send one JSON object per message, without newlines inside it"}}}`},
			{`[{"id":1,"method":"x"}]`, `{"id":null,"error":{"code":-32600,"message":"invalid request: batches are not supported",` +
				`"data":{"kind":"invalidRequest","next":"send each request as a message of its own"}}}`},
			{`42`, `{"id":null,"error":{"code":-32600,"message":"invalid request: not an object",` +
				`"data":{"kind":"invalidRequest","next":"send an object with \"id\" and \"method\""}}}`},
			{`{"id":null,"method":"x"}`, `{"id":null,"error":{"code":-32600,` +
				`"message":"invalid request: invalid id: expected a string or an integer of 64 bits",` +
				`"data":{"kind":"invalidRequest","next":"send a string or an integer as the id, or none for a notification"}}}`},
			{`{"id":"a","method":[]}`, `{"id":"a","error":{"code":-32600,"message":"invalid request: method is not a string",` +
				`"data":{"kind":"invalidRequest","next":"send the name of the method as a string"}}}`},
		} {
			p.write("", " \t", tt.send)
			p.expect(tt.want)
		}
		p.write(`{"id":26,"method":"x","params":1}`) // the line after the broken one is not swallowed
		p.expect(`{"id":26,"result":1}`)
	})
}

func TestRepeatedGarbageClosesTheConnection(t *testing.T) {
	each(t, func(t *testing.T, transport string) {
		p := connect(t, transport, Config{Handle: echo, MaxGarbage: 10})
		count := func(n int) {
			t.Helper()
			for range n {
				if got, err := p.recv(); err != nil || !strings.HasPrefix(got, `{"id":null,"error":`) {
					t.Fatalf("got %s, %v", got, err)
				}
			}
		}
		for range 9 {
			p.write("x")
		}
		count(9)
		p.write(`{"method":"good"}`)
		for range 10 {
			p.write("x")
		}
		count(10)
		if got, err := p.recv(); err == nil {
			t.Errorf("received %s", got)
		}
		if err := p.ended(); err != ErrGarbage {
			t.Errorf("Serve returned %v", err)
		}
	})
}

func TestNotificationsAndAnswersOfTheClientArriveInOrder(t *testing.T) {
	each(t, func(t *testing.T, transport string) {
		var got []string // on the goroutine that reads, and after it
		p := connect(t, transport, Config{
			Notified: func(_ context.Context, method string, params json.RawMessage) {
				got = append(got, fmt.Sprintf("%s %s", method, params))
				if method == "panic" {
					panic("oh")
				}
			},
			Answered: func(id ID, result json.RawMessage, err *Error) {
				if err != nil {
					got = append(got, fmt.Sprintf("%v failed %d %s %s", id, err.Code, err.Message, err.Data))
					return
				}
				got = append(got, fmt.Sprintf("%v answered %s", id, result))
			},
		})
		p.write(`{"method":"initialized"}`, `{"id":"q1","result":{"decision":"accept"}}`, `{"method":"panic","params":1}`,
			`{"id":99,"error":{"code":-32000,"message":"no","data":{"a":1}}}`, `{"id":1,"method":"x"}`)
		p.expect(`{"id":1,"error":{"code":-32601,"message":"method not found: x"}}`)
		want := []string{"initialized ", `"q1" answered {"decision":"accept"}`, "panic 1", `99 failed -32000 no {"a":1}`}
		if !slices.Equal(got, want) {
			t.Errorf("got %q\nwant %q", got, want)
		}
	})
}

func TestWhatOneGoroutineSendsStaysInOrder(t *testing.T) {
	each(t, func(t *testing.T, transport string) {
		var p *peer
		ready := make(chan struct{})
		p = connect(t, transport, Config{Handle: func(ctx context.Context, r *Request) {
			<-ready
			for _, err := range []error{
				p.conn.Notify(ctx, Notification{Method: "before", Params: json.RawMessage(`{"pre": true}`), Seq: 7, Part: 2, EmittedAtMs: 1700000000123}),
				p.conn.Request(ctx, StringID("q-1"), "ask", map[string]int{"n": 1}),
			} {
				if err != nil {
					t.Error(err)
				}
			}
			r.Reply(struct{}{})
			p.conn.Post("status", Notification{Method: "status", Params: "idle"})
			if err := p.conn.Notify(ctx, Notification{Method: "after"}); err != nil {
				t.Error(err)
			}
			if err := p.conn.Notify(ctx, Notification{Method: "bad", Params: func() {}}); err == nil ||
				!strings.Contains(err.Error(), "encode the parameters of bad: json: unsupported type") {
				t.Error(err)
			}
		}})
		close(ready)
		p.write(`{"id":1,"method":"x"}`)
		p.expect(
			`{"method":"before","params":{"pre": true},"seq":7,"part":2,"emittedAtMs":1700000000123}`,
			`{"id":"q-1","method":"ask","params":{"n":1}}`,
			`{"id":1,"result":{}}`,
			`{"method":"status","params":"idle"}`,
			`{"method":"after"}`)
	})
}

func TestHalfALineThenEOF(t *testing.T) {
	for _, tt := range []struct{ name, send, want string }{
		{"half a message", `{"id":1,"method":"x","params":1}` + "\n" + `{"id":2,"meth`, `{"id":1,"result":1}
{"id":null,"error":{"code":-32700,"message":"parse error: unexpected end of JSON input at byte 13","data":{"kind":"parseError","next":"send one JSON object per message, without newlines inside it"}}}
`},
		{"a message without its newline", `{"id":1,"method":"x","params":1}`, `{"id":1,"result":1}` + "\n"},
		{"nothing", ``, ``},
		{"empty lines", "\r\n\n  \n", ``},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var out bytes.Buffer
			c := New(Lines(strings.NewReader(tt.send), &out, nil), Config{Handle: func(ctx context.Context, r *Request) { echo(ctx, r) }})
			if err := c.Serve(t.Context()); err != nil {
				t.Error(err)
			}
			got := strings.Split(out.String(), "\n")
			want := strings.Split(tt.want, "\n")
			slices.Sort(got) // the answer to garbage does not wait for the handler
			slices.Sort(want)
			if !slices.Equal(got, want) {
				t.Errorf("got %q\nwant %q", got, want)
			}
		})
	}
}

func TestRequestsCompleteAfterTheEndOfInput(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var in, out bytes.Buffer
		for i := range 5 {
			in.WriteString(call(i, Route{Key: "a"}) + "\n")
		}
		c := New(Lines(&in, &out, nil), Config{Route: route, Handle: func(ctx context.Context, r *Request) {
			if r.ID == IntID(3) {
				<-ctx.Done()
				r.Fail(context.Cause(ctx))
				return
			}
			time.Sleep(10 * time.Millisecond)
			r.Reply(ctx.Err() == nil)
		}})
		if err := c.Serve(t.Context()); err != nil {
			t.Error(err)
		}
		want := `{"id":0,"result":true}
{"id":1,"result":true}
{"id":2,"result":true}
{"id":4,"error":{"code":-32603,"message":"connection closed","data":{"kind":"closed","next":"connect again and repeat the request"}}}
{"id":3,"error":{"code":-32603,"message":"connection closed"}}
`
		sorted := func(s string) []string { return slices.Sorted(strings.Lines(s)) } // 3 and 4 end at the same time
		if !slices.Equal(sorted(out.String()), sorted(want)) {
			t.Errorf("got %s\nwant %s", out.String(), want)
		}
	})
}

func TestAClientLeaves(t *testing.T) {
	each(t, func(t *testing.T, transport string) {
		cause := make(chan error, 1)
		started, done := make(chan struct{}), make(chan (<-chan struct{}), 1)
		p := connect(t, transport, Config{Linger: -1, Handle: func(ctx context.Context, r *Request) {
			close(started)
			<-ctx.Done()
			<-<-done // closed before handlers are waited for
			cause <- context.Cause(ctx)
			r.Reply(strings.Repeat("x", 1<<20)) // to nobody
		}})
		p.write(`{"id":1,"method":"x"}`)
		<-started
		done <- p.conn.Done()
		p.leave()
		if err := p.ended(); err != nil {
			t.Errorf("Serve returned %v", err)
		}
		if err := <-cause; err != ErrClosed {
			t.Errorf("the handler's context ended with %v", err)
		}
		if err := p.conn.Notify(t.Context(), Notification{Method: "x"}); err != ErrClosed {
			t.Errorf("Notify returned %v", err)
		}
		if err := p.conn.Request(t.Context(), IntID(1), "x", nil); err != ErrClosed {
			t.Errorf("Request returned %v", err)
		}
		p.conn.Post("k", Notification{Method: "x"})
	})
}

func TestAClientLeavesMidAnswer(t *testing.T) {
	each(t, func(t *testing.T, transport string) {
		p := connect(t, transport, Config{Linger: -1, Handle: func(ctx context.Context, r *Request) {
			r.Reply(strings.Repeat("x", 2<<20)) // more than a socket takes
		}})
		p.write(`{"id":1,"method":"x"}`, `{"id":2,"method":"x"}`)
		p.begin() // the answer is on its way
		p.leave()
		if err := p.ended(); err != nil {
			t.Errorf("Serve returned %v", err)
		}
	})
}

func TestTheServerEndsAConnection(t *testing.T) {
	each(t, func(t *testing.T, transport string) {
		stop := errors.New("stop")
		started := make(chan struct{})
		p := connect(t, transport, Config{Route: route, Handle: func(ctx context.Context, r *Request) {
			close(started)
			<-ctx.Done()
			r.Fail(context.Cause(ctx))
		}})
		p.write(call(1, Route{Key: "a"}), call(2, Route{Key: "a"}), `x`)
		<-started
		p.expect(`{"id":null,"error":{"code":-32700,"message":"parse error: invalid character 'x' looking for beginning of value at byte 1","data":` +
			`{"kind":"parseError","next":"send one JSON object per message, without newlines inside it"}}}`)
		p.cancel(stop)
		got := map[string]bool{}
		for range 2 {
			msg, err := p.recv()
			if err != nil {
				t.Fatal(err)
			}
			got[msg] = true
		}
		for _, want := range []string{
			`{"id":1,"error":{"code":-32603,"message":"stop"}}`,
			`{"id":2,"error":{"code":-32603,"message":"connection closed","data":{"kind":"closed","next":"connect again and repeat the request"}}}`,
		} {
			if !got[want] {
				t.Errorf("missing %s in %v", want, got)
			}
		}
		if err := p.ended(); err != stop {
			t.Errorf("Serve returned %v", err)
		}
		if _, err := p.recv(); err == nil {
			t.Error("the connection is still open")
		}
	})
}

// TestAFileThatCannotBeClosed has a stream whose Close does not end Read, as standard input does.
func TestAFileThatCannotBeClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, w := io.Pipe()
		defer w.Close()
		c := New(Lines(r, io.Discard, nil), Config{})
		ctx, cancel := context.WithCancel(t.Context())
		served := make(chan error, 1)
		began := time.Now()
		go func() { served <- c.Serve(ctx) }() // owned by the test, which waits for it
		synctest.Wait()                        // until it reads
		cancel()
		if err := <-served; !errors.Is(err, context.Canceled) {
			t.Errorf("Serve returned %v", err)
		}
		if took := time.Since(began); took != closeTimeout {
			t.Errorf("waited %v for the reader", took)
		}
	})
}

// Every message has the member "jsonrpc" for a client that requires it.
func TestVersioned(t *testing.T) {
	p := connect(t, "lines", Config{Versioned: true, Handle: func(ctx context.Context, r *Request) {
		c := r.conn
		if err := errors.Join(c.Notify(ctx, Notification{Method: "n"}), c.Request(ctx, StringID("q"), "ask", nil)); err != nil {
			t.Error(err)
		}
		c.Post("key", Notification{Method: "p"})
		r.Reply(1)
	}})
	p.write(`{"jsonrpc":"2.0","id":1,"method":"x"}`)
	p.expect(`{"jsonrpc":"2.0","method":"n"}`, `{"jsonrpc":"2.0","id":"q","method":"ask"}`, `{"jsonrpc":"2.0","method":"p"}`, `{"jsonrpc":"2.0","id":1,"result":1}`)
	p.write(`{`)
	if got, err := p.recv(); err != nil || !strings.HasPrefix(got, `{"jsonrpc":"2.0","id":null,"error":`) {
		t.Error(got, err)
	}
}
