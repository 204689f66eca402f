package tool_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gantry-agent/gantry/sdk/contract"
	gantryv1 "github.com/gantry-agent/gantry/sdk/proto/gantry/v1"
	"github.com/gantry-agent/gantry/sdk/tool"
	"github.com/gantry-agent/gantry/sdk/wire/convert"
)

// view is a view as the host sees it.
type view struct {
	gantryv1.ToolService_ViewClient
	t *testing.T
}

func (p plugin) view(t *testing.T, open contract.ViewOpen) view {
	t.Helper()
	stream, err := p.View(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	v := view{stream, t}
	if open.ThreadID == "" {
		open.ThreadID, open.SessionID = "thread-1", "s1"
	}
	if open.Kinds == nil {
		open.Kinds = []contract.ViewKind{contract.ViewTerminal}
	}
	v.send(open)
	return v
}

func (v view) send(r contract.ViewRequest) {
	v.t.Helper()
	if err := v.Send(convert.ViewRequestToProto(r)); err != nil && !errors.Is(err, io.EOF) {
		v.t.Fatal(err)
	}
}

func (v view) next() contract.ViewEvent {
	v.t.Helper()
	m, err := v.Recv()
	if err != nil {
		v.t.Fatal(err)
	}
	e, _ := convert.ViewEventFromProto(m)
	return e
}

// frame receives a frame and acknowledges it.
func (v view) frame() contract.ViewFrame {
	v.t.Helper()
	f, ok := v.next().(contract.ViewFrame)
	if !ok {
		v.t.Fatal("no frame")
	}
	v.send(contract.ViewAck{Number: f.Number})
	return f
}

// viewing is a plugin whose views run a function.
func viewing(t *testing.T, f func(ctx context.Context, v *tool.View) (string, error)) plugin {
	return configured(t, tool.Plugin{View: f}, nil, "{}")
}

func TestView(t *testing.T) {
	p := viewing(t, func(ctx context.Context, v *tool.View) (string, error) {
		if o := v.Open(); o.SessionID != "s1" || o.ThreadID != "thread-1" || !v.Accepts(contract.ViewTerminal) || v.Accepts(contract.ViewScreen) {
			t.Errorf("opened with %+v", o)
		}
		v.Output(5, []byte("early")) // must not overtake what the view is
		v.Opened(contract.ViewOpened{Kind: contract.ViewTerminal, Title: "cat"})
		at := int64(10)
		for {
			select {
			case r := <-v.Requests():
				switch r := r.(type) {
				case contract.ViewResize:
					v.State(contract.ViewState{Size: r.Size})
				case contract.ViewInput:
					b := r.Act.(contract.ViewBytes).Data
					if string(b) == "exit" {
						v.Output(at, []byte("bye"))
						return "the program has exited", nil
					}
					v.Output(at, b)
					at += int64(len(b))
				}
			case <-ctx.Done():
				return "", context.Cause(ctx)
			}
		}
	})
	v := p.view(t, contract.ViewOpen{})
	if o, ok := v.next().(contract.ViewOpened); !ok || o.Title != "cat" {
		t.Errorf("first: %+v", o)
	}
	if f := v.frame(); f.Number != 1 || f.Output.Offset != 5 || string(f.Output.Data) != "early" {
		t.Errorf("frame %+v, %+v", f, f.Output)
	}
	v.send(contract.ViewResize{Size: contract.ViewSize{Width: 3, Height: 4}})
	if s, ok := v.next().(contract.ViewState); !ok || s.Size.Height != 4 {
		t.Errorf("state %+v", s)
	}
	v.send(contract.ViewInput{Act: contract.ViewBytes{Data: []byte("typed")}})
	if f := v.frame(); f.Number != 2 || f.Output.Offset != 10 || string(f.Output.Data) != "typed" {
		t.Errorf("frame %+v, %+v", f, f.Output)
	}
	v.send(contract.ViewInput{Act: contract.ViewBytes{Data: []byte("exit")}})
	if f := v.frame(); string(f.Output.Data) != "bye" {
		t.Errorf("last frame %+v", f.Output)
	}
	if c, ok := v.next().(contract.ViewClosed); !ok || c.Reason != "the program has exited" {
		t.Errorf("closed %+v", c)
	}
	if _, err := v.Recv(); !errors.Is(err, io.EOF) {
		t.Errorf("after closed: %v", err)
	}
}

// While a frame is not acknowledged, output is collected up to a bound, and pictures replace each other.
func TestViewOfASlowClient(t *testing.T) {
	const all = 300 << 10
	shown := make(chan struct{})
	p := viewing(t, func(ctx context.Context, v *tool.View) (string, error) {
		v.Opened(contract.ViewOpened{})
		if v.Accepts(contract.ViewScreen) {
			for i := range 3 {
				v.Picture(contract.ViewPicture{Data: []byte{byte(i)}})
				<-v.Requests()
			}
		} else {
			v.Output(0, []byte("x"))
			<-v.Requests()
			for i := range int64(all / 1024) {
				v.Output(1+i*1024, bytes.Repeat([]byte{byte(i)}, 1024))
			}
			v.Output(2*all, []byte("after a gap")) // drops what waits
			shown <- struct{}{}
			<-shown
			for i := range int64(all / 1024) {
				v.Output(3*all+i*1024, bytes.Repeat([]byte{byte(i)}, 1024))
			}
			shown <- struct{}{}
		}
		<-ctx.Done()
		return "", nil
	})
	v := p.view(t, contract.ViewOpen{Kinds: []contract.ViewKind{contract.ViewScreen}})
	v.next()
	if f := v.next().(contract.ViewFrame); f.Picture.Data[0] != 0 {
		t.Errorf("first picture %v", f.Picture.Data)
	}
	v.send(contract.ViewControl{Take: true})
	v.send(contract.ViewControl{})
	v.send(contract.ViewControl{Take: true}) // the third picture has been shown
	v.send(contract.ViewAck{Number: 1})
	if f := v.frame(); f.Number != 2 || f.Picture.Data[0] == 0 {
		t.Errorf("second: %d %v", f.Number, f.Picture.Data)
	}

	v = p.view(t, contract.ViewOpen{})
	v.next()
	f := v.next().(contract.ViewFrame)
	v.send(contract.ViewControl{Take: true})
	<-shown
	v.send(contract.ViewAck{Number: f.Number})
	if f := v.next().(contract.ViewFrame); f.Number != 2 || string(f.Output.Data) != "after a gap" || f.Output.Offset != 2*all {
		t.Errorf("after a gap: %d %d %.20q", f.Number, f.Output.Offset, f.Output.Data)
	}
	shown <- struct{}{}
	<-shown
	v.send(contract.ViewAck{Number: 2})
	const most = 256 << 10
	for at := int64(4*all - most); at < 4*all; {
		f := v.frame()
		if f.Output.Offset != at || len(f.Output.Data) > contract.MaxViewOutput {
			t.Fatalf("offset %d with %d bytes, want %d", f.Output.Offset, len(f.Output.Data), at)
		}
		at += int64(len(f.Output.Data))
	}
}

// A view with a largest rate gets no more frames, however fast it acknowledges them.
func TestViewRate(t *testing.T) {
	p := viewing(t, func(ctx context.Context, v *tool.View) (string, error) {
		v.Opened(contract.ViewOpened{})
		v.Output(0, make([]byte, 4*contract.MaxViewOutput))
		<-ctx.Done()
		return "", nil
	})
	v := p.view(t, contract.ViewOpen{MaxRate: 20})
	v.next()
	begin := time.Now() // the first frame may have been sent before
	for range 4 {
		v.frame()
	}
	if d := time.Since(begin); d < 100*time.Millisecond {
		t.Errorf("4 frames within %v at 20 frames per second", d)
	}
}

func TestViewEnds(t *testing.T) {
	ended := make(chan error, 1)
	p := viewing(t, func(ctx context.Context, v *tool.View) (string, error) {
		v.Opened(contract.ViewOpened{})
		<-ctx.Done()
		ended <- context.Cause(ctx)
		return "", nil
	})
	for name, end := range map[string]func(v view){
		"close":      func(v view) { v.send(contract.ViewClose{}) },
		"half close": func(v view) { _ = v.CloseSend() },
	} {
		v := p.view(t, contract.ViewOpen{})
		v.next()
		end(v)
		if _, err := v.Recv(); !errors.Is(err, io.EOF) {
			t.Errorf("%s: %v", name, err)
		}
		if err := <-ended; !errors.Is(err, tool.ErrViewClosed) {
			t.Errorf("%s: the plugin got %v", name, err)
		}
	}
	v := p.view(t, contract.ViewOpen{})
	v.next()
	if err := p.server.Close(context.Background()); err != nil {
		t.Error(err)
	}
	if c, ok := v.next().(contract.ViewClosed); !ok || c.Reason != "the plugin ends" {
		t.Errorf("at the end of the plugin: %+v", c)
	}
	<-ended
}

func TestViewRefused(t *testing.T) {
	fail := map[string]error{"unknown": tool.ErrNoSession, "wrong": tool.ErrNoViewKind, "broken": errors.New("it broke")}
	p := viewing(t, func(_ context.Context, v *tool.View) (string, error) {
		if v.Open().SessionID == "panics" {
			panic("at once")
		}
		return "", fail[v.Open().SessionID]
	})
	for id, want := range map[string]codes.Code{
		"unknown": codes.NotFound, "wrong": codes.FailedPrecondition, "broken": codes.Internal, "panics": codes.Internal, "silent": codes.Internal,
	} {
		_, err := p.view(t, contract.ViewOpen{ThreadID: "t", SessionID: id}).Recv()
		if status.Code(err) != want || !strings.Contains(err.Error(), id) {
			t.Errorf("%s: %v, want %v", id, err, want)
		}
	}
	stream, err := p.View(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	_ = stream.Send(convert.ViewRequestToProto(contract.ViewAck{}))
	if _, err := stream.Recv(); status.Code(err) != codes.InvalidArgument {
		t.Errorf("without open: %v", err)
	}
	if _, err := configured(t, tool.Plugin{}, nil, "{}").view(t, contract.ViewOpen{}).Recv(); status.Code(err) != codes.Unimplemented {
		t.Errorf("without views: %v", err)
	}
	if _, err := serve(t, tool.Plugin{View: func(context.Context, *tool.View) (string, error) { return "", nil }}).view(t, contract.ViewOpen{}).Recv(); status.Code(err) != codes.FailedPrecondition {
		t.Errorf("without a configuration: %v", err)
	}
}
