package route

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/gantry-agent/gantry/sdk/llm"
)

// chaos is how one answer is played: raw HTTP, up to where it is cut, with silences and wrong bytes on the way.
type chaos struct {
	raw     string
	ends    []int // where the bytes of each delta have all been sent
	cut     int   // the connection is closed there; len(raw): it stays open
	stalls  map[int]time.Duration
	garbled bool
}

const chaosIdle = 3 * time.Second

// drawChaos makes an answer of a few deltas and what happens to it.
func drawChaos(t *rapid.T, label string) chaos {
	var c chaos
	var raw strings.Builder
	raw.WriteString("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
	add := func(s string) {
		for len(s) > 0 { // chunks end anywhere
			n := rapid.IntRange(1, len(s)).Draw(t, label+" chunk")
			fmt.Fprintf(&raw, "%x\r\n%s\r\n", n, s[:n])
			s = s[n:]
		}
	}
	for i := range rapid.IntRange(0, 5).Draw(t, label+" deltas") {
		if rapid.Bool().Draw(t, label+" comment") {
			add(": still here\n")
		}
		add(fmt.Sprintf("data: {\"text\":\"%d,\"}\r\n\r\n", i))
		c.ends = append(c.ends, raw.Len())
	}
	add("data: [DONE]\n\n")
	raw.WriteString("0\r\n\r\n")
	c.raw = raw.String()
	c.cut = len(c.raw)
	at := rapid.IntRange(0, len(c.raw)-1)
	if rapid.IntRange(0, 2).Draw(t, label+" cuts") == 0 {
		c.cut = at.Draw(t, label+" cut")
	}
	c.stalls = map[int]time.Duration{}
	for range rapid.IntRange(0, 2).Draw(t, label+" stalls") {
		c.stalls[at.Draw(t, label+" stall")] = rapid.SampledFrom([]time.Duration{time.Second, time.Minute}).Draw(t, label+" silence")
	}
	if rapid.IntRange(0, 2).Draw(t, label+" garbles") == 0 {
		b := []byte(c.raw)
		b[at.Draw(t, label+" garbled")] = rapid.Byte().Draw(t, label+" byte")
		c.garbled = string(b) != c.raw
		c.raw = string(b)
	}
	return c
}

// whole is how many deltas have arrived when the connection ends or falls silent for too long.
func (c chaos) whole() int {
	stop := c.cut
	for at, d := range c.stalls {
		if d > chaosIdle {
			stop = min(stop, at)
		}
	}
	n := 0
	for _, end := range c.ends {
		if end <= stop {
			n++
		}
	}
	return n
}

func (c chaos) play(conn net.Conn) {
	for i := 0; i < c.cut; i++ {
		if d := c.stalls[i]; d > 0 {
			time.Sleep(d) // in the bubble
		}
		if _, err := io.WriteString(conn, c.raw[i:i+1]); err != nil {
			return
		}
	}
}

// TestChaos plays broken answers, byte for byte. Whatever happens, Stream returns in bounded time, events are in order, and
// all that arrived whole was told.
func TestChaos(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		answers := []chaos{drawChaos(t, "first"), drawChaos(t, "second")}
		tries := rapid.IntRange(1, 3).Draw(t, "tries")
		rapid.SyncTest(t, func(t *rapid.T) {
			l := &pipes{conns: make(chan net.Conn), closed: make(chan struct{})}
			var wg sync.WaitGroup
			asked := 0
			wg.Go(func() {
				for {
					conn, err := l.Accept()
					if err != nil {
						return
					}
					c := answers[min(asked, len(answers)-1)]
					asked++
					wg.Go(func() {
						defer conn.Close()
						req, err := http.ReadRequest(bufio.NewReader(conn))
						if err != nil {
							return
						}
						if _, err := io.Copy(io.Discard, req.Body); err != nil {
							return
						}
						c.play(conn)
					})
				}
			})
			r, err := New(Config{
				Protocol: sse, Namespace: "toy", BaseURL: "http://vendor.test",
				Transport: Transport{Proxy: "none", HeaderTimeout: 4 * time.Second, IdleTimeout: chaosIdle, MaxDelay: 5 * time.Second},
			})
			if err != nil {
				t.Fatal(err)
			}
			r.transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) { return l.dial(ctx) }
			defer func() {
				_ = l.Close()
				_ = r.Close()
				wg.Wait()
			}()

			var got told
			start := time.Now()
			err = r.Stream(t.Context(), request("m"), tries, got.emit)
			if d := time.Since(start); d > 3*time.Minute {
				t.Errorf("took %v", d)
			}
			var c llm.Checker
			for _, e := range got.events {
				if err := c.Check(e); err != nil {
					t.Errorf("%v", err)
				}
			}
			if end := c.Done(); (err == nil) != (end == nil) {
				t.Errorf("error = %v after %d events", err, len(got.events))
			}
			if f, ok := errors.AsType[*Fault](err); err != nil && (!ok || f.Err.Message == "") {
				t.Errorf("error = %T %v", err, err)
			}
			last := answers[min(max(asked, 1), len(answers))-1]
			if last.garbled {
				return
			}
			var all strings.Builder
			for i := range last.ends {
				fmt.Fprintf(&all, "%d,", i)
			}
			if text := got.text(); !strings.HasPrefix(all.String(), text) || len(text) < 2*last.whole() {
				t.Errorf("told %q of %q, of which %d arrived: %v", text, all.String(), last.whole(), err)
			}
		})
	})
}
