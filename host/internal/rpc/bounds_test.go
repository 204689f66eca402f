package rpc

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"
)

func TestReadingStopsAtTheBoundOfRequests(t *testing.T) {
	stepwise(t, Config{MaxRequests: 3}, func(t *testing.T, p *peer, s *steps) {
		p.discard()
		p.write(call(0, Route{Key: "a"}), call(1, Route{Key: "a"}), call(2, Route{Key: "a"}))
		wrote := make(chan error, 1)
		go func() { wrote <- p.send(call(3, Route{})) }() // owned by the test; ends with the connection
		s.running(t, 0)
		select {
		case <-wrote: // the pipe has no buffer, and Lines has read the last line completely
			t.Fatal("read beyond the bound")
		default:
		}
		close(s.end[0])
		s.running(t, 1, 3)
		if err := <-wrote; err != nil {
			t.Fatal(err)
		}
	})
}

func TestReadingStopsAtTheBoundOfBytes(t *testing.T) {
	stepwise(t, Config{MaxRead: 100_000}, func(t *testing.T, p *peer, s *steps) {
		p.discard()
		large := call(0, Route{Key: strings.Repeat("a", 200_000)}) // one message may exceed it
		p.write(large)
		wrote := make(chan error, 1)
		go func() { wrote <- p.send(call(1, Route{})) }() // owned by the test; ends with the connection
		s.running(t, 0)
		select {
		case <-wrote:
			t.Fatal("read beyond the bound")
		default:
		}
		close(s.end[0])
		s.running(t, 1)
		if err := <-wrote; err != nil {
			t.Fatal(err)
		}
	})
}

func TestAReaderThatStops(t *testing.T) {
	var handled atomic.Int64
	p := &peer{}
	inBubble(t, Config{
		Route: route, MaxUnsent: 50_000, Stall: -1,
		Handle: func(ctx context.Context, r *Request) { handled.Add(1); r.Reply(strings.Repeat("x", 1000)) },
	}, func(t *testing.T, q *peer) {
		p = q
		var notified atomic.Int64
		ctx, cancel := context.WithCancel(t.Context())
		waited := make(chan error, 1)
		go func() { // owned by the test; ends with the connection
			for {
				if err := p.conn.Notify(ctx, Notification{Method: "delta", Params: strings.Repeat("y", 1000)}); err != nil {
					waited <- err
					return
				}
				notified.Add(1)
			}
		}()
		synctest.Wait()
		if n := notified.Load(); n < 20 || n > 60 {
			t.Errorf("queued %d notifications of 1 kB for a bound of 50 kB", n)
		}
		// Requests are read, but not started; urgent ones are.
		for i := range 100 {
			p.write(call(i, Route{}))
		}
		synctest.Wait()
		if n := handled.Load(); n != 0 {
			t.Errorf("handled %d requests", n)
		}
		wrote := make(chan struct{})
		go func() { // owned by the test; ends with the connection
			defer close(wrote)
			for i := range 1000 {
				if p.send(call(1000+i, Route{Urgent: true})) != nil {
					return
				}
			}
		}()
		synctest.Wait()
		if n := handled.Load(); n < 10 || n > 110 {
			t.Errorf("handled %d urgent requests with replies of 1 kB, for twice the bound of 50 kB", n)
		}
		cancel()
		if err := <-waited; !errors.Is(err, context.Canceled) {
			t.Errorf("Notify returned %v", err)
		}
		p.conn.Post("k", Notification{Method: "posted"}) // does not wait
		// The client reads again: nothing is lost.
		replies := 0
		for {
			msg, err := p.recv()
			if err != nil {
				t.Fatal(err)
			}
			if strings.HasPrefix(msg, `{"id":`) {
				replies++
			}
			if replies == 1100 {
				break
			}
		}
		<-wrote
	})
}

func TestAPostReplacesAnUnsentOne(t *testing.T) {
	inBubble(t, Config{}, func(t *testing.T, p *peer) {
		notify := func(s string) {
			if err := p.conn.Notify(t.Context(), Notification{Method: s}); err != nil {
				t.Error(err)
			}
		}
		status := func(key, s string) { p.conn.Post(key, Notification{Method: "status", Params: s}) }
		notify("first")
		synctest.Wait() // it is being written, to a pipe without a buffer
		status("t1", "active")
		notify("second")
		status("t2", "active")
		status("t1", strings.Repeat("i", 1000))
		status("t1", "idle")
		notify("third")
		p.expect(`{"method":"first"}`, `{"method":"status","params":"idle"}`, `{"method":"second"}`, `{"method":"status","params":"active"}`, `{"method":"third"}`)
		status("t1", "active") // the one before was sent
		p.expect(`{"method":"status","params":"active"}`)
	})
}

func TestAStalledConnectionIsClosed(t *testing.T) {
	inBubble(t, Config{MaxUnsent: 100_000, Stall: time.Minute}, func(t *testing.T, p *peer) {
		began := time.Now()
		for i := range 1000 {
			p.conn.Post(fmt.Sprint(i), Notification{Method: "x", Params: strings.Repeat("y", 1000)})
		}
		failed := make(chan error, 1)
		go func() { failed <- p.conn.Notify(t.Context(), Notification{Method: "x"}) }() // owned by the test; ends with the connection
		// Progress starts the time anew, also when it leaves the queue above its bound: a batch every 50 s.
		for range 3 {
			time.Sleep(50 * time.Second) // in the bubble
			for range batchBytes / 1000 {
				if _, err := p.recv(); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := <-failed; err != ErrClosed {
			t.Errorf("Notify returned %v", err)
		}
		if err := p.ended(); err != ErrStalled {
			t.Errorf("Serve returned %v", err)
		}
		if took := time.Since(began); took != 210*time.Second {
			t.Errorf("closed after %v", took)
		}
	})
}

func TestAQueueBelowItsBoundDoesNotStall(t *testing.T) {
	inBubble(t, Config{Stall: time.Minute}, func(t *testing.T, p *peer) {
		if err := p.conn.Notify(t.Context(), Notification{Method: "x"}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour) // in the bubble
		p.expect(`{"method":"x"}`)
	})
}

func TestAReaderThatStopsCostsAtMost8MiB(t *testing.T) {
	each(t, func(t *testing.T, transport string) {
		handled := make(chan struct{}, 1000)
		p := connect(t, transport, Config{Route: route, Logger: hclog.NewNullLogger(), Handle: func(_ context.Context, r *Request) {
			r.Reply(json.RawMessage(`"0123456789"`))
			select {
			case handled <- struct{}{}:
			default:
			}
		}})
		before := heap()
		ctx, cancel := context.WithCancel(t.Context())
		blocked := make(chan error, 1)
		go func() { // owned by the test; ends with the connection
			for {
				if err := p.conn.Notify(ctx, Notification{Method: "d", Params: json.RawMessage(`"0123456789"`), Seq: 1}); err != nil {
					blocked <- err
					return
				}
			}
		}()
		// The notifications fill the queue to its bound, and urgent requests to twice that. Then the client cannot write either.
		stuck := make(chan struct{})
		go func() { // owned by the test; ends with the connection
			defer close(stuck)
			msg := call(1, Route{Urgent: true})
			for p.send(msg) == nil {
			}
		}()
		p.conn.awaitFull(urgentFactor)
		if used := heap() - before; used > 10<<20 {
			t.Errorf("uses %.1f MiB", float64(used)/(1<<20))
		} else {
			t.Logf("uses %.1f MiB", float64(used)/(1<<20))
		}
		cancel()
		if err := <-blocked; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		p.leave()
		<-stuck
	})
}

// awaitFull waits until the outgoing queue has reached n times its bound, and no handler adds to it.
func (c *Conn) awaitFull(n int) {
	busy := func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.running+c.runningUrgent > 0
	}
	for !c.out.above(n) || busy() {
		runtime.Gosched()
	}
}
