package rpc

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
)

// step is what a random client does next.
type step struct {
	Request *randomRequest
	Send    string        // another message, as it is
	Wait    time.Duration // before sending
}

// randomRequest is a request whose handler does what the parameters say.
type randomRequest struct {
	Route
	Work     time.Duration
	Rest     time.Duration // after the answer
	Notify   int           // notifications before the answer
	After    int           // and after it
	Text     int           // length of the result
	Release  bool          // before the work
	Panic    bool
	NoAnswer bool
}

type randomRun struct {
	Steps      []step
	Pauses     []time.Duration // before reading each message, repeated
	Cut        int             // the client leaves after so many messages; 0: after it has all answers
	Cancel     bool            // the server ends the connection then, not the client
	Requests   int
	Unsent     int
	Concurrent int
}

func drawRun(t *rapid.T) randomRun {
	ms := func(most int) *rapid.Generator[time.Duration] {
		return rapid.Map(rapid.IntRange(0, most), func(n int) time.Duration { return time.Duration(n) * time.Millisecond })
	}
	steps := rapid.Custom(func(t *rapid.T) step {
		s := step{Wait: ms(3).Draw(t, "wait")}
		if rapid.IntRange(0, 5).Draw(t, "kind") == 0 {
			s.Send = rapid.SampledFrom([]string{`x`, `{"method":"n"}`, `{"id":"q","result":1}`, `[]`, ``}).Draw(t, "other")
			return s
		}
		s.Request = &randomRequest{
			Route: Route{
				Key:    rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "key"),
				Shared: rapid.Bool().Draw(t, "shared"),
				Urgent: rapid.IntRange(0, 5).Draw(t, "urgent") == 0,
			},
			Work:     ms(20).Draw(t, "work"),
			Rest:     ms(20).Draw(t, "rest"),
			Notify:   rapid.IntRange(0, 3).Draw(t, "notify"),
			After:    rapid.IntRange(0, 2).Draw(t, "after"),
			Text:     rapid.SampledFrom([]int{0, 10, 5000}).Draw(t, "text"),
			Release:  rapid.IntRange(0, 5).Draw(t, "release") == 0,
			Panic:    rapid.IntRange(0, 9).Draw(t, "panic") == 0,
			NoAnswer: rapid.IntRange(0, 9).Draw(t, "no answer") == 0,
		}
		return s
	})
	return randomRun{
		Steps:      rapid.SliceOfN(steps, 1, 40).Draw(t, "steps"),
		Pauses:     rapid.SliceOfN(ms(30), 1, 5).Draw(t, "pauses"),
		Cut:        rapid.SampledFrom([]int{0, 0, 1, 5, 20}).Draw(t, "cut"),
		Cancel:     rapid.Bool().Draw(t, "cancel"),
		Requests:   rapid.IntRange(1, 5).Draw(t, "requests"),
		Unsent:     rapid.SampledFrom([]int{1, 1000, 10_000}).Draw(t, "unsent"),
		Concurrent: rapid.IntRange(1, 3).Draw(t, "concurrent"),
	}
}

// TestRandomConnections lets random clients send and read at random times, with small bounds. Each request is answered once, and
// requests of a key run in order and not beside each other. A connection that waits for ever is a deadlock of the bubble.
func TestRandomConnections(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		run := drawRun(rt)
		var problems []string
		synctest.Test(t, func(t *testing.T) { problems = run.play(t) })
		if len(problems) > 0 {
			rt.Fatal(strings.Join(problems, "\n"))
		}
	})
}

// play returns what went wrong.
func (run randomRun) play(t *testing.T) (problems []string) {
	var mu sync.Mutex
	note := func(format string, args ...any) {
		mu.Lock()
		defer mu.Unlock()
		problems = append(problems, fmt.Sprintf(format, args...))
	}
	running := map[string][]*randomRequest{}
	last := map[string]int64{}      // that has started, by key
	exclusive := map[string]int64{} // last one that is not shared: shared ones start together, in any order
	begin := func(id int64, q *randomRequest) (end func()) {
		mu.Lock()
		defer mu.Unlock()
		key := q.Key
		if key == "" || q.Urgent {
			return func() {}
		}
		previous := exclusive[key]
		if !q.Shared {
			previous, exclusive[key] = last[key], id
		}
		if previous > id {
			problems = append(problems, fmt.Sprintf("request %d of key %q runs after %d", id, key, previous))
		}
		last[key] = max(last[key], id)
		if !q.Shared && len(running[key]) > 0 || slices.ContainsFunc(running[key], func(o *randomRequest) bool { return !o.Shared }) {
			problems = append(problems, fmt.Sprintf("request %d of key %q runs beside others", id, key))
		}
		running[key] = append(running[key], q)
		return func() {
			mu.Lock()
			defer mu.Unlock()
			running[key] = slices.DeleteFunc(running[key], func(o *randomRequest) bool { return o == q })
		}
	}

	ours, theirs := net.Pipe()
	var c *Conn
	c = New(Lines(ours, ours, ours), Config{
		Route: func(_ string, params json.RawMessage) Route {
			var q randomRequest
			_ = json.Unmarshal(params, &q)
			return q.Route
		},
		Handle: func(ctx context.Context, r *Request) {
			var q randomRequest
			_ = json.Unmarshal(r.Params, &q)
			end := sync.OnceFunc(begin(r.ID.num, &q))
			defer end()
			if q.Release {
				end()
				r.Release()
			}
			for range q.Notify {
				_ = c.Notify(ctx, Notification{Method: "n", Params: strings.Repeat("n", 100)})
			}
			c.Post(q.Key, Notification{Method: "s"})
			select {
			case <-time.After(q.Work):
			case <-ctx.Done():
			}
			if q.Panic {
				panic("oh")
			}
			if q.NoAnswer {
				return
			}
			r.Reply(strings.Repeat("x", q.Text))
			for range q.After {
				_ = c.Notify(ctx, Notification{Method: "after"})
			}
			select {
			case <-time.After(q.Rest):
			case <-ctx.Done():
			}
		},
		MaxRequests: run.Requests, MaxUnsent: run.Unsent, MaxConcurrent: run.Concurrent,
	})
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	served := make(chan error, 1)
	go func() { served <- c.Serve(ctx) }() // owned by the test, which waits for it

	p := linePeer(theirs)
	sent := make(chan struct{})
	requests := 0
	for _, s := range run.Steps {
		if s.Request != nil {
			requests++
		}
	}
	go func() { // owned by the test, which waits for it
		defer close(sent)
		for i, s := range run.Steps {
			time.Sleep(s.Wait) // in the bubble
			msg := s.Send
			if s.Request != nil {
				params, _ := json.Marshal(s.Request)
				msg = fmt.Sprintf(`{"id":%d,"method":"x","params":%s}`, i, params)
			}
			if p.send(msg) != nil {
				return
			}
		}
	}()

	answers := map[int64]int{}
	read := 0
	for answered := 0; (run.Cut == 0 || read < run.Cut) && answered < requests; read++ {
		time.Sleep(run.Pauses[read%len(run.Pauses)]) // in the bubble
		msg, err := p.recv()
		if err != nil {
			note("receive: %v, with %d of %d answers", err, answered, requests)
			break
		}
		var m struct {
			ID     *int64
			Method string
		}
		if err := json.Unmarshal([]byte(msg), &m); err != nil {
			note("%s: %v", msg, err)
		}
		if m.ID != nil && m.Method == "" {
			answered++
			if answers[*m.ID]++; answers[*m.ID] > 1 {
				note("%d was answered twice", *m.ID)
			}
		}
	}
	stop := errors.New("stop")
	if run.Cancel {
		cancel(stop)
	} else {
		p.leave()
	}
	err := <-served
	if run.Cancel && err != stop || !run.Cancel && err != nil {
		note("Serve returned %v", err)
	}
	p.leave()
	<-sent
	return problems
}
