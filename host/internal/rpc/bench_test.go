package rpc

import (
	"context"
	"encoding/json"
	"io"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
)

// benchPeer is like connect.
func benchPeer(b *testing.B, transport string, cfg Config) *peer {
	var p *peer
	var s Stream
	if transport == "lines" {
		ours, theirs := socketPair(b)
		p, s = linePeer(theirs), Lines(ours, ours, ours)
	} else {
		p, s = webPeer(b)
	}
	cfg.Logger = hclog.NewNullLogger()
	p.serve(b, s, cfg)
	return p
}

var delta = json.RawMessage(`{"threadId":"019ac5d8-4b1f-7d3e-9d55-0f5b9e8e2a11","turnId":"019ac5d8-4b1f-7d3e-9d55-0f5b9e8e2a12","itemId":"msg_1","delta":"some words of it"}`)

// BenchmarkNotify sends notifications to a client that reads them.
func BenchmarkNotify(b *testing.B) {
	for _, transport := range transports {
		b.Run(transport, func(b *testing.B) {
			p := benchPeer(b, transport, Config{})
			b.ReportAllocs()
			b.ResetTimer()
			go func() { // owned by the benchmark, which reads all that it sends
				for i := range b.N {
					_ = p.conn.Notify(context.Background(), Notification{Method: "item/agentMessage/delta", Params: delta, Seq: uint64(i + 1), EmittedAtMs: 1700000000123})
				}
			}()
			for range b.N {
				if err := skip(p); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkNotifyDiscarded is the cost without a client.
func BenchmarkNotifyDiscarded(b *testing.B) {
	r, w := io.Pipe()
	c := New(Lines(r, io.Discard, r), Config{})
	served := make(chan error)
	go func() { served <- c.Serve(b.Context()) }() // owned by the benchmark, which waits for it
	b.ReportAllocs()
	for i := range b.N {
		_ = c.Notify(context.Background(), Notification{Method: "item/agentMessage/delta", Params: delta, Seq: uint64(i + 1), EmittedAtMs: 1700000000123})
	}
	_ = w.Close()
	<-served
}

// BenchmarkPipelined sends 2,000 requests at once, with an urgent one after them, and waits for all answers. It reports after how long
// the urgent one was handled.
func BenchmarkPipelined(b *testing.B) {
	for _, transport := range transports {
		b.Run(transport, func(b *testing.B) {
			urgent := make(chan time.Time, 1)
			p := benchPeer(b, transport, Config{
				Route: func(method string, params json.RawMessage) Route {
					return Route{Key: "t", Urgent: method == "turn/interrupt"}
				},
				Handle: func(_ context.Context, r *Request) {
					if r.route.Urgent {
						urgent <- time.Now()
					}
					r.Reply(struct{}{})
				},
			})
			b.ReportAllocs()
			var overtook time.Duration
			for b.Loop() {
				began := time.Now()
				go func() { // owned by the benchmark, which reads all that it sends
					for range 2000 {
						_ = p.send(`{"id":1,"method":"thread/read","params":{"threadId":"019ac5d8-4b1f-7d3e-9d55-0f5b9e8e2a11","includeTurns":false}}`)
					}
					_ = p.send(`{"id":2,"method":"turn/interrupt","params":{}}`)
				}()
				for range 2001 {
					if err := skip(p); err != nil {
						b.Fatal(err)
					}
				}
				overtook += (<-urgent).Sub(began)
			}
			b.ReportMetric(float64(overtook.Microseconds())/1000/float64(b.N), "ms/interrupt")
		})
	}
}

func BenchmarkDecode(b *testing.B) {
	msg := []byte(`{"id":1,"method":"thread/read","params":{"threadId":"019ac5d8-4b1f-7d3e-9d55-0f5b9e8e2a11","includeTurns":false}}`)
	b.ReportAllocs()
	b.SetBytes(int64(len(msg)))
	for b.Loop() {
		if decode(msg).kind != request {
			b.Fatal("not a request")
		}
	}
}

func skip(p *peer) error {
	_, err := p.recv()
	return err
}
