package tool

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gantry-agent/gantry/sdk/contract"
	gantryv1 "github.com/gantry-agent/gantry/sdk/proto/gantry/v1"
	"github.com/gantry-agent/gantry/sdk/wire/convert"
)

const (
	// maxViewPending is the maximum amount of output that waits for a slow viewer. Beyond it, the oldest output is dropped.
	maxViewPending = 256 << 10
	// maxViewRequests is the number of requests that wait for the plugin. Beyond it, the host has to wait.
	maxViewRequests = 64
	// lastFrames is the time for sending the last output after [Plugin.View] has returned.
	lastFrames = 2 * time.Second
)

// Errors of [Plugin.View] that the host understands.
var (
	ErrNoSession  = errors.New("no such session")
	ErrNoViewKind = errors.New("the session can't be shown in a requested kind")
	ErrViewClosed = errors.New("tool: the view is closed") // the cause of the end of its context
)

// View shows a session to one person. It is safe for concurrent use. Nothing blocks while the person's client is slow: the
// next picture replaces one that was not sent, and output of a terminal is collected and, in the end, dropped.
type View struct {
	open     contract.ViewOpen
	requests chan contract.ViewRequest
	wake     chan struct{} // has one token when the sender should check what is pending

	mu struct {
		sync.Mutex
		opened  *contract.ViewOpened
		state   *contract.ViewState
		picture *contract.ViewPicture
		output  []byte
		offset  int64  // of output
		acked   uint64 // the last frame that was shown
		ended   bool   // the plugin's function has returned
	}

	// Owned by run.
	begun bool      // opened was sent
	sent  uint64    // the last frame
	at    time.Time // when it was sent
}

// Open is what the host has asked for.
func (v *View) Open() contract.ViewOpen { return v.open }

// Accepts reports whether a kind can be shown.
func (v *View) Accepts(kind contract.ViewKind) bool { return slices.Contains(v.open.Kinds, kind) }

// Requests receives what the person does: [contract.ViewResize], [contract.ViewInput] and [contract.ViewControl].
func (v *View) Requests() <-chan contract.ViewRequest { return v.requests }

// Opened says what is shown. Nothing is sent before it.
func (v *View) Opened(o contract.ViewOpened) {
	v.change(func() { v.mu.opened = &o })
}

// Output shows output of a terminal. offset is the number of bytes of output before p; if it does not follow what was shown
// before, there is a gap.
func (v *View) Output(offset int64, p []byte) {
	v.change(func() {
		if len(v.mu.output) == 0 || v.mu.offset+int64(len(v.mu.output)) != offset {
			v.mu.output, v.mu.offset = nil, offset
		}
		v.mu.output = append(v.mu.output, p...)
		if over := len(v.mu.output) - maxViewPending; over > 0 {
			v.mu.output = append([]byte(nil), v.mu.output[over:]...)
			v.mu.offset += int64(over)
		}
	})
}

// Picture shows a picture. It replaces one that was not sent yet. The view keeps p.Data.
func (v *View) Picture(p contract.ViewPicture) {
	v.change(func() { v.mu.picture = &p })
}

// State says what the session shows. It replaces a state that was not sent yet.
func (v *View) State(s contract.ViewState) {
	v.change(func() { v.mu.state = &s })
}

func (v *View) change(f func()) {
	v.mu.Lock()
	f()
	v.mu.Unlock()
	select {
	case v.wake <- struct{}{}:
	default:
	}
}

// next removes and returns the next event. Without one, over says that there will be none, and wait is the time after which next
// should be called again; 0: when wake has a token.
func (v *View) next() (e contract.ViewEvent, over bool, wait time.Duration) {
	v.mu.Lock()
	defer v.mu.Unlock()
	switch {
	case v.mu.opened != nil && !v.begun:
		v.begun = true
		return *v.mu.opened, false, 0
	case !v.begun:
		return nil, v.mu.ended, 0
	case v.mu.state != nil:
		e, v.mu.state = *v.mu.state, nil
		return e, false, 0
	case len(v.mu.output) == 0 && v.mu.picture == nil:
		return nil, v.mu.ended, 0
	case v.mu.acked < v.sent:
		return nil, false, 0
	}
	if wait := v.pace(); wait > 0 {
		return nil, false, wait
	}
	v.sent++
	v.at = time.Now()
	f := contract.ViewFrame{Number: v.sent}
	if f.Picture = v.mu.picture; f.Picture != nil {
		v.mu.picture = nil
		return f, false, 0
	}
	n := min(len(v.mu.output), contract.MaxViewOutput)
	f.Output = &contract.ViewOutput{Offset: v.mu.offset, Data: v.mu.output[:n:n]}
	v.mu.output, v.mu.offset = v.mu.output[n:], v.mu.offset+int64(n)
	return f, false, 0
}

// pace returns the time until the next frame may be sent.
func (v *View) pace() time.Duration {
	if v.open.MaxRate <= 0 || v.sent == 0 {
		return 0
	}
	return time.Until(v.at.Add(time.Duration(float64(time.Second) / v.open.MaxRate)))
}

// run sends events until there will be no more, or ctx ends.
func (v *View) run(ctx context.Context, send func(contract.ViewEvent) error) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		e, over, wait := v.next()
		switch {
		case over:
			return nil
		case e != nil:
			if err := send(e); err != nil {
				return err
			}
			continue
		}
		var due <-chan time.Time
		if wait > 0 {
			timer.Reset(wait)
			due = timer.C
		}
		select {
		case <-v.wake:
		case <-due:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// receive passes on the host's messages until the host closes the view, or its stream ends.
func (v *View) receive(ctx context.Context, recv func() (*gantryv1.ViewRequest, error)) {
	for {
		msg, err := recv()
		if err != nil {
			return
		}
		r, ok := convert.ViewRequestFromProto(msg)
		if !ok {
			continue // of a later version
		}
		switch r := r.(type) {
		case contract.ViewClose:
			return
		case contract.ViewOpen:
		case contract.ViewAck:
			v.change(func() { v.mu.acked = max(v.mu.acked, r.Number) })
		default:
			select {
			case v.requests <- r:
			case <-ctx.Done():
				return
			}
		}
	}
}

// View implements ToolService.
func (s *Server) View(stream grpc.BidiStreamingServer[gantryv1.ViewRequest, gantryv1.ViewResponse]) error {
	if s.plugin.View == nil {
		return status.Errorf(codes.Unimplemented, "plugin %q has no views", s.plugin.Name)
	}
	first, err := stream.Recv()
	if err != nil {
		return err
	}
	r, _ := convert.ViewRequestFromProto(first)
	open, ok := r.(contract.ViewOpen)
	if !ok {
		return status.Error(codes.InvalidArgument, "the first message of a view must be open")
	}
	env := s.env()
	if env == nil {
		return status.Errorf(codes.FailedPrecondition, "plugin %q is not configured: Configure must succeed first", s.plugin.Name)
	}
	s.adoptSessions(stream.Context(), env, s.threads.get(open.ThreadID, env))
	ctx, cancel := context.WithCancelCause(stream.Context())
	defer cancel(nil)
	defer context.AfterFunc(s.closing, func() { cancel(context.Cause(s.closing)) })()
	v := &View{open: open, requests: make(chan contract.ViewRequest, maxViewRequests), wake: make(chan struct{}, 1)}

	// Owned by this RPC: ends when the host closes its side of the stream, at the latest with the RPC.
	go func() {
		v.receive(ctx, stream.Recv)
		cancel(ErrViewClosed)
	}()
	shown, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var hook sync.WaitGroup
	var reason string
	hook.Go(func() {
		if err = s.guard("view", func() (err error) { reason, err = s.plugin.View(ctx, v); return err }); err != nil {
			stop(err)
		}
		v.change(func() { v.mu.ended = true })
		last := time.AfterFunc(lastFrames, func() { stop(nil) })
		context.AfterFunc(shown, func() { last.Stop() })
	})
	sending := v.run(shown, func(e contract.ViewEvent) error { return stream.Send(convert.ViewEventToProto(e)) })
	cancel(sending)
	hook.Wait()
	switch {
	case context.Cause(ctx) == ErrViewClosed || stream.Context().Err() != nil:
		return nil
	case errors.Is(err, ErrNoSession):
		return status.Errorf(codes.NotFound, "plugin %q: session %q: %v", s.plugin.Name, open.SessionID, err)
	case errors.Is(err, ErrNoViewKind):
		return status.Errorf(codes.FailedPrecondition, "plugin %q: session %q: %v", s.plugin.Name, open.SessionID, err)
	case err != nil && s.closing.Err() == nil:
		return status.Errorf(codes.Internal, "plugin %q: view of session %q: %v", s.plugin.Name, open.SessionID, err)
	case s.closing.Err() != nil:
		reason = "the plugin ends"
	}
	if !v.begun {
		return status.Errorf(codes.Internal, "plugin %q: the view of session %q ended before it was opened", s.plugin.Name, open.SessionID)
	}
	return stream.Send(convert.ViewEventToProto(contract.ViewClosed{Reason: reason}))
}
