package threadsocket_test

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/rpc"
	"github.com/gantry-agent/gantry/host/internal/threadsocket"
)

// stopped is the other end of a process that was stopped: the kernel takes what is sent, and nobody answers.
func stopped(t *testing.T) *threadsocket.Client {
	t.Helper()
	ours, theirs := net.Pipe()
	go func() { _, _ = io.Copy(io.Discard, theirs) }() // owned by the test: ends with the connection
	c := threadsocket.NewClient(t.Context(), ours, 4711)
	t.Cleanup(func() { _ = c.Close(); _ = theirs.Close() })
	return c
}

// A host that answers nothing is given up within a bound, whatever is waited for.
func TestSilentHost(t *testing.T) {
	for name, wait := range map[string]func(context.Context, *threadsocket.Client) error{
		"a request": func(ctx context.Context, c *threadsocket.Client) error { _, err := c.Plugins(ctx); return err },
		"an event":  func(ctx context.Context, c *threadsocket.Client) error { _, err := c.Next(ctx); return err },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, began := stopped(t), time.Now()
				err := wait(t.Context(), c)
				silent, ok := errors.AsType[*threadsocket.SilentError](err)
				if !ok || silent.PID != 4711 {
					t.Fatalf("error = %v, want that the host is silent", err)
				}
				if took := time.Since(began); took > 15*time.Second {
					t.Errorf("it took %v", took)
				}
				for _, want := range []string{"pid 4711", "kill -CONT 4711", "; next: "} {
					if !strings.Contains(err.Error(), want) {
						t.Errorf("%q does not say %q", err, want)
					}
				}
			})
		})
	}
}

// host answers every request but one that reloads, which takes its time, and sends a number of events.
func host(t *testing.T, events int) *threadsocket.Client {
	t.Helper()
	ours, theirs := net.Pipe()
	conn := rpc.New(rpc.Lines(theirs, theirs, theirs), rpc.Config{Handle: func(ctx context.Context, r *rpc.Request) {
		if r.Method == "gantry/thread/reloadPlugin" {
			select {
			case <-time.After(10 * time.Minute):
			case <-ctx.Done():
			}
		}
		r.Reply(struct{}{})
	}, Stall: -1})
	var serving sync.WaitGroup
	serving.Go(func() { _ = conn.Serve(context.WithoutCancel(t.Context())) }) // ends with the connection
	c := threadsocket.NewClient(t.Context(), ours, 1)
	for i := range events {
		err := conn.Notify(t.Context(), rpc.Notification{Method: "gantry/thread/event", Params: map[string]any{
			"subscription": 1, "event": event.Event{Seq: uint64(i + 1), Body: event.ThreadNamed{Name: "x"}},
		}})
		if err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		_ = c.Close()
		serving.Wait()
	})
	return c
}

// What takes long is no silence.
func TestSlowAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := host(t, 0)
		if err := c.Reload(t.Context(), threadsocket.ReloadParams{Plugin: "slow"}); err != nil {
			t.Errorf("a reload of ten minutes: %v", err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		if _, err := c.Next(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("an hour without events: %v", err)
		}
	})
}

// A reader that takes a break leaves events and answers unread; that is not the host's silence.
func TestSlowReader(t *testing.T) {
	const events = threadsocket.Window
	synctest.Test(t, func(t *testing.T) {
		c := host(t, events)
		<-time.After(time.Hour)
		for i := range events {
			e, err := c.Next(t.Context())
			if err != nil || e.Seq != uint64(i+1) {
				t.Fatalf("event %d: %d, %v", i+1, e.Seq, err)
			}
		}
	})
}
