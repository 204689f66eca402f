package tool

import (
	"context"
	"errors"
	"sync"

	"github.com/gantry-agent/gantry/host/internal/plugin"
	gantryv1 "github.com/gantry-agent/gantry/sdk/proto/gantry/v1"
)

// maxIdleStreams bounds the streams that wait for another call. Each occupies a goroutine of the plugin.
const maxIdleStreams = 4

// stream is a stream for calls, one at a time. It is not a call's: to create one, and to end it, takes longer than to send a call on it.
type stream struct {
	gantryv1.ToolService_CallClient
	generation uint64
	cancel     context.CancelFunc

	used  bool // it was taken for an earlier call
	begun bool // the plugin has answered the current call
	kept  bool // the plugin accepts another call on it
}

// Recv receives a message of the current call.
func (s *stream) Recv() (*gantryv1.CallResponse, error) {
	m, err := s.ToolService_CallClient.Recv()
	if err == nil && !s.begun {
		s.begun, s.kept = true, m.GetStarted().GetKeepStream()
	}
	return m, err
}

// endedBetweenCalls reports whether a call had no effect because the plugin had ended the stream after an earlier call.
func (s *stream) endedBetweenCalls(err error) bool {
	return s.used && !s.begun && errors.Is(err, errNoResult)
}

// end ends the stream in order, as far as messages were sent.
func (s *stream) end() {
	_ = s.CloseSend() // a broken stream was reported by its receiver
	s.cancel()
}

// streams are the streams of one plugin that wait for another call. They end with the process that they lead to. The zero value is empty.
type streams struct {
	mu   sync.Mutex
	idle []*stream // the one that was used last is the last
}

// take returns a stream to the process of a lease.
func (ss *streams) take(ctx context.Context, lease *plugin.Lease) (*stream, error) {
	if s := ss.waiting(lease.Generation); s != nil {
		return s, nil
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx)) // it may outlive the call
	client, err := gantryv1.NewToolServiceClient(lease.Conn).Call(ctx)
	if err != nil {
		cancel()
		return nil, err
	}
	return &stream{ToolService_CallClient: client, generation: lease.Generation, cancel: cancel}, nil
}

// waiting takes a stream that leads to this process; nil: there is none. It ends those that lead to earlier ones.
func (ss *streams) waiting(generation uint64) *stream {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	for n := len(ss.idle); n > 0; n = len(ss.idle) {
		s := ss.idle[n-1]
		ss.idle = ss.idle[:n-1]
		if s.generation == generation {
			s.used, s.begun, s.kept = true, false, false
			return s
		}
		s.end()
	}
	return nil
}

// put keeps a stream whose call has ended for another one, or ends it.
func (ss *streams) put(s *stream) {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	if len(ss.idle) >= maxIdleStreams {
		s.end()
		return
	}
	ss.idle = append(ss.idle, s)
}
