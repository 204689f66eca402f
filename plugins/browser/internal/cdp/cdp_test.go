package cdp

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	protocol "github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/page"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// browser is the other end of a connection.
type browser struct {
	t   *testing.T
	in  *bufio.Reader
	out io.WriteCloser
}

func connect(t *testing.T, o Options) (*Conn, *browser) {
	t.Helper()
	r, out := io.Pipe()
	in, w := io.Pipe()
	c := New(r, w, o)
	t.Cleanup(c.Close)
	return c, &browser{t, bufio.NewReader(in), out}
}

func (b *browser) read() (m map[string]any) {
	b.t.Helper()
	line, err := b.in.ReadBytes(0)
	if err != nil {
		b.t.Error(err)
		return nil
	}
	_ = json.Unmarshal(line[:len(line)-1], &m) // nil: not JSON
	return m
}

func (b *browser) say(v any) {
	b.t.Helper()
	line, err := json.Marshal(v)
	if err == nil {
		_, err = b.out.Write(append(line, 0))
	}
	if err != nil {
		b.t.Error(err)
	}
}

type object = map[string]any

func TestCommandsAreAnsweredInAnyOrder(t *testing.T) {
	c, b := connect(t, Options{})
	// Owned by the test: it ends with its last message.
	go func() {
		first, second := b.read(), b.read()
		for _, m := range []object{second, first} {
			url, _ := m["params"].(object)["url"].(string)
			b.say(object{"id": m["id"], "result": object{"frameId": m["sessionId"].(string) + url}})
		}
	}()
	results := make(chan string, 2)
	for _, s := range []string{"a", "b"} {
		// Owned by the test: it ends with its last message.
		go func() {
			r, err := protocol.Call(context.Background(), c.Session(s), page.Navigate, page.NavigateParams{URL: "/" + s})
			if err != nil {
				t.Error(err)
			}
			results <- s + ":" + string(r.FrameID)
		}()
	}
	for range 2 {
		if r := <-results; r != "a:a/a" && r != "b:b/b" {
			t.Error(r)
		}
	}
}

func TestRefusalsAndDeadlines(t *testing.T) {
	c, b := connect(t, Options{Deadline: time.Millisecond})
	err := c.Root().Call(context.Background(), "X.y", protocol.Empty{}, &protocol.Empty{})
	if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "X.y: the browser has not answered within 1ms") {
		t.Error(err)
	}
	late := b.read()
	c.o.Deadline = time.Minute
	// Owned by the test: it ends with its last message.
	go func() {
		b.say(object{"id": late["id"], "result": object{}}) // nobody waits for it
		b.say(object{"id": b.read()["id"], "error": object{"code": -32000, "message": "no"}})
	}()
	err = c.Root().Call(context.Background(), "X.z", protocol.Empty{}, &protocol.Empty{})
	if e, ok := errors.AsType[*Error](err); !ok || e.Code != -32000 || err.Error() != "X.z: no (-32000)" {
		t.Error(err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.mu.calls) != 0 {
		t.Errorf("%d commands are still expected to be answered", len(c.mu.calls))
	}
}

// A process that adopts a browser gets the end of a frame that the earlier one has begun to read, and continues a command that it has
// begun to write.
func TestAdoption(t *testing.T) {
	c, b := connect(t, Options{Adopted: true})
	// Owned by the test: it ends with its last message.
	go func() {
		if first, err := b.in.ReadBytes(0); err != nil || len(first) != 1 {
			t.Errorf("%q, %v", first, err)
		}
		_, _ = io.WriteString(b.out, `"id":1,"result":{}}`+"\x00")
		b.say(object{"id": b.read()["id"], "result": object{"frameId": "f"}})
	}()
	r, err := protocol.Call(context.Background(), c.Root(), page.Navigate, page.NavigateParams{})
	if err != nil || r.FrameID != "f" {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestEvents(t *testing.T) {
	seen := make(chan Event, maxBuffered*2)
	c, b := connect(t, Options{OnEvent: func(e Event) { seen <- e }})
	events, cancel := c.Session("s").Subscribe("Page.loadEventFired")
	defer cancel()
	for i := range maxBuffered + 10 { // nobody reads the subscription: what it has no room for is dropped, nothing blocks
		b.say(object{"method": "Page.loadEventFired", "sessionId": "s", "params": object{"timestamp": i}})
	}
	b.say(object{"method": "Page.loadEventFired", "sessionId": "other"})
	for range maxBuffered + 11 {
		<-seen
	}
	if len(events) != maxBuffered || string(<-events) != `{"timestamp":0}` {
		t.Errorf("%d events", len(events))
	}
	// Half of a surrogate pair, as pages can write it.
	if _, err := b.out.Write([]byte(`{"method":"M","params":{"title":"\ud800"}}` + "\x00")); err != nil {
		t.Fatal(err)
	}
	var p struct{ Title string }
	if err := (<-seen).Decode(&p); err != nil {
		t.Error(err)
	}
}

func TestEndOfTheBrowser(t *testing.T) {
	c, b := connect(t, Options{})
	events, cancel := c.Root().Subscribe("X")
	defer cancel()
	// Owned by the test: it ends with its last message.
	go func() {
		b.read()
		_ = b.out.Close()
	}()
	if err := c.Root().Call(context.Background(), "X.y", protocol.Empty{}, &protocol.Empty{}); !errors.Is(err, ErrClosed) || !errors.Is(err, io.EOF) {
		t.Error(err)
	}
	if _, open := <-events; open {
		t.Error("the subscription is open")
	}
	if _, open := <-c.Done(); open {
		t.Error("the connection is open")
	}
	late, _ := c.Root().Subscribe("X")
	if _, open := <-late; open {
		t.Error("a late subscription is open")
	}
}

// A browser that owes an answer and is silent is asked whether it is still there. One that answers is waited for; one that does not is gone.
func TestPing(t *testing.T) {
	c, b := connect(t, Options{PingAfter: time.Millisecond, PingDeadline: time.Minute})
	slow := make(chan error, 1)
	// Owned by the test: it ends with the answer.
	go func() { slow <- c.Root().Call(context.Background(), "X.slow", protocol.Empty{}, &struct{}{}) }()
	first := b.read()
	for range 3 {
		ping := b.read()
		if ping["method"] != "Browser.getVersion" {
			t.Fatalf("%v", ping)
		}
		b.say(object{"id": ping["id"], "result": object{}})
	}
	// Owned by the test: it ends with the connection. What is still asked has to be read.
	go func() { _, _ = io.Copy(io.Discard, b.in) }()
	b.say(object{"id": first["id"], "result": object{}})
	if err := <-slow; err != nil {
		t.Error(err)
	}

	silent, deaf := connect(t, Options{PingAfter: time.Millisecond, PingDeadline: time.Millisecond})
	// Owned by the test: it ends with the connection.
	go func() { _, _ = io.Copy(io.Discard, deaf.in) }()
	if err := silent.Root().Call(context.Background(), "X.never", protocol.Empty{}, &struct{}{}); !errors.Is(err, ErrSilent) || !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
	if _, open := <-silent.Done(); open {
		t.Error("the connection is open")
	}
}

// The latest events are kept, in their order, and subscriptions are bounded.
func TestBounds(t *testing.T) {
	seen := make(chan Event)
	c, b := connect(t, Options{OnEvent: func(e Event) { seen <- e }})
	for i := range maxKept + 50 {
		b.say(object{"method": fmt.Sprint("M", i), "sessionId": "s", "params": object{}})
		<-seen
	}
	b.say(object{"method": "Last"})
	<-seen // the one before it has been kept
	kept := c.Recent()
	if n := len(kept); n < maxKept-1 || n > maxKept || kept[0].Session != "s" || kept[0].Size != 2 {
		t.Fatalf("%d events, %+v", n, kept[0])
	}
	for i := range kept[1:] {
		var x, y int
		if _, err := fmt.Sscanf(kept[i].Method+" "+kept[i+1].Method, "M%d M%d", &x, &y); err == nil && y != x+1 {
			t.Fatalf("%d is followed by %d", x, y)
		}
	}
	for range maxSubscriptions {
		_, cancel := c.Root().Subscribe("X")
		defer cancel()
	}
	if events, _ := c.Root().Subscribe("X"); len(events) != 0 {
		t.Error("an event")
	} else if _, open := <-events; open {
		t.Error("there are more subscriptions than the maximum")
	}
}

func TestPostNeverBlocks(t *testing.T) {
	c, _ := connect(t, Options{})
	var err error
	for range maxQueued + 2 {
		err = errors.Join(err, c.Root().Post("X.y", protocol.Empty{}))
	}
	if !errors.Is(err, ErrBusy) {
		t.Error(err)
	}
}

func FuzzFrames(f *testing.F) {
	f.Add([]byte("a\x00bc\x00\x00d"), 16, false)
	f.Add([]byte("end\x00{}\x00"), 3, true)
	f.Fuzz(func(t *testing.T, data []byte, most int, skip bool) {
		most = 2 + max(most, -most, 0)%64
		var want [][]byte
		all := bytes.Split(data, []byte{0})
		for i, x := range all[:len(all)-1] {
			if len(x) > 0 && len(x)+1 <= most && (i > 0 || !skip) {
				want = append(want, x)
			}
		}
		r := frames{r: bufio.NewReaderSize(bytes.NewReader(data), 16), most: most, skip: skip}
		for i := 0; ; i++ {
			got, err := r.next()
			if err != nil {
				if i != len(want) || !errors.Is(err, io.EOF) {
					t.Fatalf("%d frames, %v; want %d", i, err, len(want))
				}
				return
			}
			if i >= len(want) || !bytes.Equal(got, want[i]) {
				t.Fatalf("frame %d is %q", i, got)
			}
		}
	})
}
