package transport

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/gantry-agent/gantry/host/internal/rpc"
	"github.com/gorilla/websocket"
)

// serveRPC answers each request with its parameters, and says goodbye when the server stops.
func serveRPC(ctx context.Context, s rpc.Stream, _ Peer) {
	_ = rpc.New(s, rpc.Config{Handle: func(_ context.Context, r *rpc.Request) { r.Reply(r.Params) }}).Serve(ctx)
}

// A connection of package rpc works over each transport: a large message, answers to all requests, and the end of the server.
func TestRPC(t *testing.T) {
	t.Parallel()
	const requests = 500
	check := func(t *testing.T, write func(string) error, read func() (string, error), large string) {
		t.Helper()
		for i := range requests {
			if err := write(fmt.Sprintf(`{"id":%d,"method":"m","params":[%d]}`, i, i)); err != nil {
				t.Fatal(err)
			}
		}
		if err := write(fmt.Sprintf(`{"id":"large","method":"m","params":[%q]}`, large)); err != nil {
			t.Fatal(err)
		}
		seen := map[string]bool{}
		for len(seen) <= requests {
			line, err := read()
			if err != nil {
				t.Fatalf("after %d answers: %v", len(seen), err)
			}
			var m struct {
				ID     any
				Result []any
			}
			if err := json.Unmarshal([]byte(line), &m); err != nil || len(m.Result) != 1 || m.ID == "large" && m.Result[0] != large || m.ID != "large" && m.Result[0] != m.ID {
				t.Fatalf("%.100s, %v", line, err)
			}
			seen[fmt.Sprint(m.ID)] = true
		}
	}
	large := strings.Repeat("x", 3<<20)
	addresses(t, func(t *testing.T, cfg Config) {
		r := start(t, cfg, serveRPC)
		c := r.client()
		check(t, func(m string) error { return c.WriteMessage(websocket.TextMessage, []byte(m)) }, func() (string, error) {
			_, b, err := c.ReadMessage()
			return string(b), err
		}, large)
		r.signals <- syscall.SIGTERM
		r.ends(nil)
		if _, _, err := c.ReadMessage(); !websocket.IsCloseError(err, websocket.CloseNormalClosure) {
			t.Errorf("%v, want a close frame", err)
		}
	})
	t.Run("stdio", func(t *testing.T) {
		t.Parallel()
		c := startStdio(t, Config{}, serveRPC)
		lines := make(chan string, requests+1)
		go func() { // ends with the answers
			defer close(lines)
			r := bufio.NewReader(c.out)
			for range requests + 1 {
				line, err := r.ReadString('\n')
				if err != nil {
					return
				}
				lines <- line
			}
		}()
		check(t, func(m string) error { _, err := c.in.Write([]byte(m + "\n")); return err }, func() (string, error) { return await(t, lines, "an answer"), nil }, large)
		c.signals <- syscall.SIGTERM
		c.ends(nil)
	})
}
