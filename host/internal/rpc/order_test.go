package rpc

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"
)

func TestRequestsOfAKeyRunOneAtATime(t *testing.T) {
	stepwise(t, Config{}, func(t *testing.T, p *peer, s *steps) {
		p.discard()
		p.write(call(0, Route{Key: "a"}), call(1, Route{Key: "a"}), call(2, Route{Key: "b"}), call(3, Route{}), call(4, Route{}), call(5, Route{Key: "a"}))
		s.running(t, 0, 2, 3, 4)
		close(s.end[0])
		s.running(t, 1)
		close(s.end[1])
		s.running(t, 5)
	})
}

func TestSharedRequestsRunTogether(t *testing.T) {
	stepwise(t, Config{}, func(t *testing.T, p *peer, s *steps) {
		p.discard()
		reader, writer := Route{Key: "config", Shared: true}, Route{Key: "config"}
		p.write(call(0, reader), call(1, reader), call(2, writer), call(3, reader), call(4, reader), call(5, writer))
		s.running(t, 0, 1)
		close(s.end[1])
		s.running(t)
		close(s.end[0])
		s.running(t, 2)
		close(s.end[2])
		s.running(t, 3, 4)
		close(s.end[3])
		close(s.end[4])
		s.running(t, 5)
	})
}

func TestUrgentRequestsAndAnswersOvertake(t *testing.T) {
	var answered ID
	cfg := Config{MaxConcurrent: 1, Answered: func(id ID, _ json.RawMessage, _ *Error) { answered = id }}
	stepwise(t, cfg, func(t *testing.T, p *peer, s *steps) {
		p.discard()
		p.write(call(0, Route{Key: "a"}), call(1, Route{Key: "a"}), call(2, Route{}), call(3, Route{Key: "a", Urgent: true}), `{"id":"q","result":{}}`)
		s.running(t, 0, 3)
		if answered != StringID("q") {
			t.Errorf("answered %v", answered)
		}
	})
}

func TestReleaseLetsTheNextRequestStart(t *testing.T) {
	release := make(chan struct{})
	started := make(chan ID, 3)
	p := connect(t, "lines", Config{Route: route, MaxConcurrent: 1, Handle: func(ctx context.Context, r *Request) {
		started <- r.ID
		if r.ID == IntID(0) {
			<-release
			r.Release()
			r.Release()
			<-ctx.Done()
		}
		r.Reply(nil)
	}})
	p.write(call(0, Route{Key: "a"}), call(1, Route{Key: "a"}))
	if id := <-started; id != IntID(0) {
		t.Fatalf("started %v", id)
	}
	close(release)
	p.expect(`{"id":1,"result":null}`)
	p.write(call(2, Route{}))
	p.expect(`{"id":2,"result":null}`)
}

func TestAPanicOfRouteFailsTheRequest(t *testing.T) {
	p := connect(t, "lines", Config{Route: route, Handle: echo})
	p.write(`{"id":1,"method":"panic"}`, `{"id":2,"method":"x","params":{}}`)
	p.expect(`{"id":1,"error":{"code":-32603,"message":"internal error in panic"}}`, `{"id":2,"result":{}}`)
}

func TestEveryPipelinedRequestIsAnswered(t *testing.T) {
	const n = 10_000
	each(t, func(t *testing.T, transport string) {
		p := connect(t, transport, Config{Route: route, Handle: echo})
		sent := make(chan error, 1)
		go func() { // owned by the test, which waits for it
			for i := range n {
				r := Route{Key: fmt.Sprint(i % 7), Shared: i%3 == 0, Urgent: i%1000 == 999}
				if i%5 == 0 {
					r = Route{}
				}
				if err := p.send(call(i, r)); err != nil {
					sent <- err
					return
				}
			}
			sent <- nil
		}()
		seen := make([]bool, n)
		for range n {
			msg, err := p.recv()
			if err != nil {
				t.Fatal(err)
			}
			var reply struct {
				ID     int
				Result *json.RawMessage
			}
			if err := json.Unmarshal([]byte(msg), &reply); err != nil || reply.Result == nil || seen[reply.ID] {
				t.Fatalf("%s: %v", msg, err)
			}
			seen[reply.ID] = true
		}
		if err := <-sent; err != nil {
			t.Fatal(err)
		}
	})
}

func TestAnUrgentRequestBehind2000IsHandledAtOnce(t *testing.T) {
	each(t, func(t *testing.T, transport string) {
		gate, urgent := make(chan struct{}), make(chan time.Time, 1)
		p := connect(t, transport, Config{Route: route, Handle: func(_ context.Context, r *Request) {
			if r.route.Urgent {
				urgent <- time.Now()
			} else {
				<-gate
			}
			r.Reply(nil)
		}})
		for i := range 2000 {
			p.write(call(i, Route{Key: "thread"}))
		}
		began := time.Now()
		p.write(call(2000, Route{Key: "thread", Urgent: true}))
		if took := (<-urgent).Sub(began); took > 500*time.Millisecond { // 50 ms on a machine that is not busy; the benchmark measures it
			t.Errorf("took %v", took)
		}
		p.expect(`{"id":2000,"result":null}`)
		close(gate)
		for range 2000 {
			if _, err := p.recv(); err != nil {
				t.Fatal(err)
			}
		}
	})
}
