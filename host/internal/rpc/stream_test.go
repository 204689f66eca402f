package rpc

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/gorilla/websocket"
	"github.com/hashicorp/go-hclog"
)

func TestLines(t *testing.T) {
	long := strings.Repeat("l", 3*bufferSize)
	for _, tt := range []struct {
		name, in string
		limit    int
		want     []string
	}{
		{"lines", "a\nbc\n", 0, []string{"a\n", "bc\n"}},
		{"no newline at the end", "a\nbc", 0, []string{"a\n", "bc"}},
		{"empty lines", "\n\r\n  \na\n\n", 0, []string{"a\n"}},
		{"longer than the buffer", long + "\n" + long, 0, []string{long + "\n", long}},
		{"at the limit", "12345\nab\n", 5, []string{"12345\n", "ab\n"}},
		{"over the limit", "1234567\nab\n1234567\n", 5, []string{"large 1234567\n", "ab\n", "large 1234567\n"}},
		{"over the limit, not ended", "1234567", 5, []string{"large 1234567"}},
		{"far over the limit", long + "\nab\n", 100_000, []string{"large " + long[:headSize], "ab\n"}},
	} {
		for _, r := range []io.Reader{strings.NewReader(tt.in), iotest.OneByteReader(strings.NewReader(tt.in))} {
			s := Lines(r, io.Discard, nil)
			s.(*lines).limit = tt.limit
			var got []string
			for {
				b, err := s.Read()
				if large, ok := errors.AsType[*TooLargeError](err); ok {
					got = append(got, "large "+string(large.Head))
				} else if err == io.EOF {
					break
				} else if err != nil {
					t.Fatalf("%s: %v", tt.name, err)
				} else {
					got = append(got, string(b))
				}
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("%s: got %.100q, want %.100q", tt.name, got, tt.want)
			}
		}
	}
}

func TestAMessageOverTheLimitIsSkipped(t *testing.T) {
	each(t, func(t *testing.T, transport string) {
		p := connect(t, transport, Config{Handle: echo, MaxMessage: 10_000})
		large := strings.Repeat("x", 100_000)
		p.write(`{"id":1,"method":"x","params":"`+large+`"}`, `{"id":2,"method":"x","params":2}`)
		p.expect(`{"id":1,"error":{"code":-32600,"message":"invalid request: message exceeds 10000 bytes","data":`+
			`{"kind":"invalidRequest","next":"send less in one message; refer to large files by path"}}}`, `{"id":2,"result":2}`)
	})
}

func TestBinaryMessagesAreIgnoredAndPingsAnswered(t *testing.T) {
	p, s := webPeer(t)
	var log bytes.Buffer
	p.serve(t, s, Config{Handle: echo, Logger: hclog.New(&hclog.LoggerOptions{Output: &log})})
	pongs := make(chan string, 1)
	c := p.client
	c.SetPongHandler(func(s string) error { pongs <- s; return nil })
	for range 2 {
		if err := c.WriteMessage(websocket.BinaryMessage, []byte(`{"id":1,"method":"x"}`)); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.WriteMessage(websocket.PingMessage, []byte("are you there")); err != nil {
		t.Fatal(err)
	}
	p.write("", `{"id":2,"method":"x","params":{}}`)
	p.expect(`{"id":2,"result":{}}`)
	if got := <-pongs; got != "are you there" {
		t.Errorf("pong %q", got)
	}
	p.leave()
	if err := p.ended(); err != nil {
		t.Error(err)
	}
	if n := strings.Count(log.String(), "binary"); n != 1 {
		t.Errorf("logged %d times:\n%s", n, log.String())
	}
}

func TestAFragmentedMessageIsRead(t *testing.T) {
	p, s := webPeer(t)
	p.serve(t, s, Config{Handle: echo})
	w, err := p.client.NextWriter(websocket.TextMessage)
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Repeat("é", 10_000) // cut in the middle of a character, at the client's buffer of 4 kB
	if _, err := io.WriteString(w, `{"id":1,"method":"x","params":"`+text+`"}`); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	p.expect(`{"id":1,"result":"` + text + `"}`)
}

func TestACleanCloseIsAnswered(t *testing.T) {
	p, s := webPeer(t)
	p.serve(t, s, Config{Handle: echo})
	if err := p.client.WriteMessage(websocket.CloseMessage, websocket.FormatCloseMessage(websocket.CloseNormalClosure, "")); err != nil {
		t.Fatal(err)
	}
	if _, err := p.recv(); !websocket.IsCloseError(err, websocket.CloseNormalClosure) {
		t.Errorf("received %v", err)
	}
	if err := p.ended(); err != nil {
		t.Error(err)
	}
}

// heap returns the bytes in use.
func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// endless is a line of n bytes that is made up while it is read.
type endless struct {
	n     int
	after string
	peak  int64
}

func (e *endless) Read(p []byte) (int, error) {
	if e.n > 0 {
		n := min(len(p), e.n)
		for i := range p[:n] {
			p[i] = 'x'
		}
		if e.n>>23 != (e.n-n)>>23 { // every 8 MiB
			e.peak = max(e.peak, heap())
		}
		e.n -= n
		return n, nil
	}
	if e.after == "" {
		return 0, io.EOF
	}
	n := copy(p, e.after)
	e.after = e.after[n:]
	return n, nil
}

func TestALineOf100MB(t *testing.T) {
	for _, tt := range []struct {
		name   string
		limit  int
		memory int64
		code   int
	}{
		{"over the limit", 1 << 20, 4 << 20, InvalidRequest},
		{"below the limit", 0, 260 << 20, ParseError},
	} {
		t.Run(tt.name, func(t *testing.T) {
			before := heap()
			in := &endless{n: 100_000_000, after: "\n" + `{"id":1,"method":"x","params":1}` + "\n"}
			var out bytes.Buffer
			c := New(Lines(in, &out, nil), Config{Handle: echo, MaxMessage: tt.limit})
			if err := c.Serve(t.Context()); err != nil {
				t.Fatal(err)
			}
			lines := strings.Split(out.String(), "\n")
			if len(lines) != 3 || !strings.HasPrefix(lines[0], fmt.Sprintf(`{"id":null,"error":{"code":%d,`, tt.code)) || lines[1] != `{"id":1,"result":1}` {
				t.Errorf("got %.300q", lines)
			}
			if used := in.peak - before; used > tt.memory {
				t.Errorf("used %d MiB", used>>20)
			}
			if left := heap() - before; left > 4<<20 {
				t.Errorf("%d MiB are still in use", left>>20)
			}
		})
	}
}

func TestAnErrorOfTheStreamEndsTheConnection(t *testing.T) {
	broken := errors.New("input/output error")
	c := New(Lines(iotest.ErrReader(broken), io.Discard, nil), Config{})
	if err := c.Serve(t.Context()); err != broken {
		t.Errorf("Serve returned %v", err)
	}
}
