package appserver

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"io"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gantry-agent/gantry/host/internal/hub"
	"github.com/gantry-agent/gantry/host/internal/protocol"
	"github.com/gantry-agent/gantry/sdk/contract"
	"github.com/hashicorp/go-hclog"
)

// The token of a view is valid once, and not for a process that the host has started, which does not use it up either.
func TestFramesOnce(t *testing.T) {
	s := &Server{log: hclog.NewNullLogger()}
	s.mu.frames = map[string]*shown{"token": {}}
	for i, step := range []struct {
		token    string
		launched bool
		ok       bool
	}{{"other", false, false}, {"", false, false}, {"token", true, false}, {"token", false, true}, {"token", false, false}} {
		if _, ok := s.Frames(step.token, step.launched); ok != step.ok {
			t.Errorf("step %d: %v", i, ok)
		}
	}
}

// watched is a view in the hands of a test.
type watched struct {
	hub.View
	updates chan hub.ViewUpdate
	done    chan struct{}
	once    sync.Once
}

func newWatched(updates ...hub.ViewUpdate) *watched {
	w := &watched{updates: make(chan hub.ViewUpdate, len(updates)), done: make(chan struct{})}
	for _, u := range updates {
		w.updates <- u
	}
	return w
}

func (w *watched) Done() <-chan struct{} { return w.done }
func (w *watched) Close()                { w.once.Do(func() { close(w.done) }) }

func (w *watched) Next(context.Context) (hub.ViewUpdate, error) {
	select {
	case u := <-w.updates:
		return u, nil
	default:
	}
	<-w.done
	return hub.ViewUpdate{}, io.EOF
}

// A client that acknowledges frames without having read them, or that reads nothing, keeps neither its view nor its connection alive.
func TestFramesThatAreNotRead(t *testing.T) {
	frame := func(n uint64) hub.ViewUpdate {
		return hub.ViewUpdate{Frame: &contract.ViewFrame{Number: n, Output: &contract.ViewOutput{}}}
	}
	synctest.Test(t, func(t *testing.T) {
		sh := &shown{client: &client{}, view: newWatched(frame(1), frame(2), frame(3)), frames: make(chan *contract.ViewFrame, 1)}
		var pumping sync.WaitGroup
		pumping.Go(sh.pump)
		synctest.Wait()
		sh.view.Close()
		pumping.Wait()
		if f := <-sh.frames; f.Number != 1 {
			t.Errorf("frame %d is the first", f.Number)
		}
		for range sh.frames {
		}
	})
	synctest.Test(t, func(t *testing.T) {
		sh := &shown{client: &client{}, view: newWatched(frame(1)), frames: make(chan *contract.ViewFrame, 1)}
		stream := &deaf{closed: make(chan struct{})}
		var serving sync.WaitGroup
		serving.Go(sh.pump)
		serving.Go(func() { sh.serve(t.Context(), stream) })
		synctest.Wait()
		begin := time.Now()
		sh.view.Close()
		serving.Wait()
		if took := time.Since(begin); took != lastFrame {
			t.Errorf("the connection ended after %v, want %v", took, lastFrame)
		}
	})
}

// deaf is the connection of a client that neither reads nor writes.
type deaf struct {
	closed chan struct{}
	once   sync.Once
}

func (d *deaf) Read() ([]byte, error) { <-d.closed; return nil, io.EOF }
func (d *deaf) Write([]byte) error    { <-d.closed; return io.EOF }
func (d *deaf) Close() error          { d.once.Do(func() { close(d.closed) }); return nil }

func TestBinaryFrame(t *testing.T) {
	for name, f := range map[string]*contract.ViewFrame{
		"output":  {Number: 7, Output: &contract.ViewOutput{Offset: 1 << 40, Data: []byte("\x00text\n")}},
		"nothing": {Number: 1, Output: &contract.ViewOutput{}},
		"picture": {Number: 8, Picture: &contract.ViewPicture{MediaType: "image/png", Data: []byte{1, 2}, Viewport: contract.ViewSize{Width: 3, Height: 4}}},
	} {
		b := binaryFrame(f)
		n := 4 + binary.BigEndian.Uint32(b)
		var head protocol.GantryViewFrame
		if err := json.Unmarshal(b[4:n], &head); err != nil || head.Number != f.Number {
			t.Errorf("%s: %v, %s", name, err, b[4:n])
		}
		switch data := string(b[n:]); {
		case f.Output != nil:
			if data != string(f.Output.Data) || head.Offset == nil || int64(*head.Offset) != f.Output.Offset || head.MediaType != nil {
				t.Errorf("%s: %s %q", name, b[4:n], data)
			}
		default:
			if data != string(f.Picture.Data) || head.Offset != nil || *head.MediaType != "image/png" || head.Viewport.Height != 4 || *head.Scale != 1 {
				t.Errorf("%s: %s %q", name, b[4:n], data)
			}
		}
	}
}
