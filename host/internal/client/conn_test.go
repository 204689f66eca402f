package client

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"testing"
	"testing/synctest"

	"github.com/gantry-agent/gantry/host/internal/protocol"
	"github.com/gantry-agent/gantry/host/internal/rpc"
)

// server is the other end of a connection.
type server struct {
	conn   *rpc.Conn
	stream rpc.Stream
	asked  chan json.RawMessage // answers to questions
}

type closers []io.Closer

func (c closers) Close() error {
	for _, x := range c {
		_ = x.Close()
	}
	return nil
}

func serveOne(handle func(r *rpc.Request)) (*server, rpc.Stream) {
	toServer, fromClient := io.Pipe()
	toClient, fromServer := io.Pipe()
	all := closers{toServer, fromClient, toClient, fromServer}
	s := &server{stream: rpc.Lines(toServer, fromServer, all), asked: make(chan json.RawMessage, 8)}
	s.conn = rpc.New(s.stream, rpc.Config{
		Handle: func(_ context.Context, r *rpc.Request) {
			if r.Method == protocol.MethodInitialize.Name {
				r.Reply(protocol.InitializeResponse{CodexHome: "home"})
				return
			}
			handle(r)
		},
		Answered: func(_ rpc.ID, result json.RawMessage, err *rpc.Error) {
			if err == nil {
				s.asked <- result
			}
		},
	})
	return s, rpc.Lines(toClient, fromClient, all)
}

// A connection that is lost is established again, calls wait for that, and questions reach whoever answers.
func TestReconnects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		servers := make(chan *server, 8)
		events := make(chan Event, 64)
		dials := 0
		c := New(Config{
			Dial: func(context.Context) (rpc.Stream, error) {
				if dials++; dials == 2 {
					return nil, errors.New("not yet")
				}
				s, stream := serveOne(func(r *rpc.Request) { r.Reply(map[string]int{"dial": dials}) })
				go func() { _ = s.conn.Serve(t.Context()) }() // ends with its stream
				servers <- s
				return stream, nil
			},
			Methods: Questions(),
			Event:   func(e Event) { events <- e },
		})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- c.Run(ctx) }() // ends with ctx
		var got struct{ Dial int }
		if err := c.Call(ctx, "x", nil, &got); err != nil || got.Dial != 1 {
			t.Fatal(got, err)
		}
		if e, ok := (<-events).(Connected); !ok || e.Server.CodexHome != "home" {
			t.Fatalf("%+v", e)
		}
		first := <-servers
		ask := func(s *server, id string) {
			params := protocol.FileChangeRequestApprovalParams{ThreadID: "t", TurnID: "u", ItemID: "i"}
			if err := s.conn.Request(ctx, rpc.StringID(id), protocol.RequestFileChangeApproval.Name, params); err != nil {
				t.Fatal(err)
			}
		}
		ask(first, "q1")
		if e, ok := (<-events).(Asked); !ok || e.Question.ID != "q1" || e.Question.Item != "i" || e.Question.Thread != "t" {
			t.Fatalf("%+v", e)
		}
		if err := c.Answer("q1", protocol.FileChangeRequestApprovalResponse{Decision: protocol.FileChangeAccept}); err != nil {
			t.Fatal(err)
		}
		if got := string(<-first.asked); got != `{"decision":"accept"}` {
			t.Error(got)
		}
		if err := c.Answer("q1", nil); !errors.Is(err, ErrGone) {
			t.Errorf("a second answer: %v", err)
		}
		ask(first, "q2")
		<-events
		resolved := protocol.ServerRequestResolvedNotification{ThreadID: "t", RequestID: "q2"}
		if err := first.conn.Notify(ctx, rpc.Notification{Method: protocol.NotifyServerRequestResolved.Name, Params: resolved}); err != nil {
			t.Fatal(err)
		}
		if _, ok := (<-events).(Notified); !ok {
			t.Error("the notification did not arrive")
		}
		if err := c.Answer("q2", nil); !errors.Is(err, ErrGone) {
			t.Errorf("an answer after somebody else's: %v", err)
		}

		_ = first.stream.Close()
		for range 2 { // the connection was lost, and the next attempt failed
			if e, ok := (<-events).(Disconnected); !ok || e.Err == nil {
				t.Fatalf("%+v", e)
			}
		}
		if err := c.Call(ctx, "x", nil, &got); err != nil || got.Dial != 3 {
			t.Error(got, err)
		}
		if _, ok := (<-events).(Connected); !ok {
			t.Error("not connected again")
		}
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
}

// A server that never answers is not tried for ever.
func TestGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broken := errors.New("broken")
		attempts := 0
		c := New(Config{
			Dial:  func(context.Context) (rpc.Stream, error) { attempts++; return nil, broken },
			Event: func(Event) {},
		})
		if err := c.Run(t.Context()); !errors.Is(err, broken) || attempts != maxFailures {
			t.Errorf("%v after %d attempts", err, attempts)
		}
	})
}
