// Package view shows sessions of a thread's plugins, such as terminals, to people, and lets them take over.
//
// It owns: the views that are open, who has control of a session, and that one frame at a time is on its way to a client. It does not
// know: how a client is connected, how frames are encoded for it, or what a session is. Nothing that is shown is stored.
//
// Start with [New], [Sessions.Open] and [View.Next].
package view

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/gantry-agent/gantry/config/hint"
	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/redact"
	"github.com/gantry-agent/gantry/sdk/contract"
)

const (
	// openTimeout is how long a plugin may take to open a view.
	openTimeout = 10 * time.Second
	// maxViews is the number of views of a thread.
	maxViews = 64
)

// Stream is a view as a plugin provides it. Recv returns [io.EOF] at the end. Close may be called while Recv waits.
type Stream interface {
	Send(contract.ViewRequest) error
	Recv() (contract.ViewEvent, error)
	Close()
}

// Config is what [Sessions] need of their thread. All fields but Redactor are required.
type Config struct {
	// Holder returns the plugin that has a session open. label may be empty if only one plugin has a session with this ID.
	Holder func(label, session string) (plugin string, err error)
	// Open opens a view, which lasts until it is closed or ctx ends.
	Open func(ctx context.Context, plugin string, o contract.ViewOpen) (Stream, contract.ViewOpened, error)
	// Publish publishes an event in the thread.
	Publish func(event.Body) error
	// Typed records what a person types into a session.
	Typed func(plugin, session, text string)
	// Redactor masks secrets in the output of terminals; nil: nothing is masked.
	Redactor *redact.Redactor
}

// Sessions are the sessions of a thread that people look at. Its methods may be called concurrently.
type Sessions struct {
	cfg  Config
	life context.Context // ends with End
	end  context.CancelFunc
	work sync.WaitGroup // of receivers

	changing sync.Mutex // held during a change of control, so that the changes are published in order

	mu struct {
		sync.Mutex
		ended   bool
		views   map[*View]bool
		control map[session]*View // who has control
		changed chan struct{}     // closed and replaced when control is given back
	}
}

// session identifies a session in its thread.
type session struct{ plugin, id string }

// New returns sessions without views.
func New(cfg Config) *Sessions {
	s := &Sessions{cfg: cfg}
	s.life, s.end = context.WithCancel(context.Background())
	s.mu.views, s.mu.control, s.mu.changed = map[*View]bool{}, map[session]*View{}, make(chan struct{})
	return s
}

// Control is who has control of a session.
type Control int

// Who has control.
const (
	Agent Control = iota
	Self          // the person who looks at this view
	Other         // another person
)

// State is what a session shows, and who has control of it.
type State struct {
	contract.ViewState
	Control Control
}

// Update is news of a view: exactly one field is set.
type Update struct {
	Frame  *contract.ViewFrame // the next one comes after [View.Ack]
	State  *State
	Closed *string // why the view has ended, for people; the last update
}

// View is one person's view of a session. Its methods may be called concurrently, except Next.
type View struct {
	sessions *Sessions
	session  session
	opened   contract.ViewOpened
	stream   Stream
	life     context.Context // ends with Close
	cancel   context.CancelFunc
	inbox    *Inbox
	output   terminal // of receive

	mu struct {
		sync.Mutex
		sent  uint64 // the last frame that the plugin has sent
		acked uint64
		state contract.ViewState
	}
}

// Open opens a view of a session. label names its plugin; it may be empty if only one plugin has a session with this ID.
func (s *Sessions) Open(ctx context.Context, label string, o contract.ViewOpen) (*View, error) {
	plugin, err := s.cfg.Holder(label, o.SessionID)
	if err != nil {
		return nil, err
	}
	life, cancel := context.WithCancel(s.life)
	v := &View{sessions: s, session: session{plugin, o.SessionID}, life: life, cancel: cancel, inbox: NewInbox(), output: terminal{mask: s.cfg.Redactor.Mask()}}
	if err := s.add(v); err != nil {
		cancel()
		return nil, err
	}
	ctx, done := context.WithTimeoutCause(ctx, openTimeout, hint.New(fmt.Sprintf("plugin %q did not open the view within %v", plugin, openTimeout), "try again"))
	defer done()
	stop := context.AfterFunc(ctx, cancel)
	v.stream, v.opened, err = s.cfg.Open(life, plugin, o)
	if !stop() && err == nil { // ctx has ended just now
		v.stream.Close()
		err = context.Cause(ctx)
	}
	if err != nil {
		s.remove(v)
		cancel()
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		return nil, err
	}
	v.mu.state = contract.ViewState{Title: v.opened.Title, Targets: v.opened.Targets, Size: v.opened.Size}
	if s.controller(v.session) != nil {
		v.changed(func() {})
	}
	s.work.Go(v.receive) // ends with the stream; End waits for it
	return v, nil
}

// add makes a view known, unless the thread has ended or has too many.
func (s *Sessions) add(v *View) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.mu.ended:
		return errors.New("the thread has ended")
	case len(s.mu.views) >= maxViews:
		return hint.New(fmt.Sprintf("the thread has %d views, the maximum", maxViews), "close another view")
	}
	s.mu.views[v] = true
	return nil
}

func (s *Sessions) remove(v *View) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.mu.views, v)
}

// End closes all views.
func (s *Sessions) End() {
	s.mu.Lock()
	s.mu.ended = true
	s.mu.Unlock()
	s.end()
	s.work.Wait()
}

// Opened says what is shown.
func (v *View) Opened() contract.ViewOpened { return v.opened }

// Done is closed when the view is closed.
func (v *View) Done() <-chan struct{} { return v.life.Done() }

// Next returns the next update: the newest frame, the newest state, or the end. After that, it returns [io.EOF].
func (v *View) Next(ctx context.Context) (Update, error) {
	u, err := v.inbox.Next(ctx)
	if u.State != nil {
		u.State.Control = v.control()
	}
	return u, err
}

// changed says that the state, or who has control, has changed.
func (v *View) changed(f func()) {
	v.mu.Lock()
	defer v.mu.Unlock()
	f()
	v.inbox.Put(Update{State: &State{ViewState: v.mu.state}})
}

// receive takes over what the plugin sends, until the view ends.
func (v *View) receive() {
	reason := v.relay()
	v.Close()
	v.inbox.Put(Update{Closed: &reason})
}

// relay returns why the view has ended.
func (v *View) relay() string {
	for {
		e, err := v.stream.Recv()
		switch {
		case v.sessions.life.Err() != nil:
			return "the thread has ended"
		case errors.Is(err, io.EOF) || err != nil && v.life.Err() != nil:
			return "the view was closed"
		case err != nil:
			return "the view broke: " + err.Error()
		}
		switch e := e.(type) {
		case contract.ViewClosed:
			return e.Reason
		case contract.ViewState:
			v.changed(func() { v.mu.state = e })
		case contract.ViewFrame:
			if err := v.frame(e); err != nil {
				return "the view broke: " + err.Error()
			}
		}
	}
}

// frame accepts a frame. A plugin that does not keep to the order of frames would fill the memory of slow clients.
func (v *View) frame(f contract.ViewFrame) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	switch {
	case v.mu.acked < v.mu.sent:
		return fmt.Errorf("the plugin sent frame %d before frame %d was acknowledged", f.Number, v.mu.sent)
	case f.Number != v.mu.sent+1:
		return fmt.Errorf("the plugin sent frame %d after frame %d", f.Number, v.mu.sent)
	case (f.Output != nil) != (v.opened.Kind == contract.ViewTerminal) || (f.Picture != nil) != (v.opened.Kind == contract.ViewScreen):
		return fmt.Errorf("frame %d is not of the kind %s", f.Number, v.opened.Kind)
	}
	if f.Output != nil {
		f.Output = v.output.shown(*f.Output)
	}
	v.mu.sent = f.Number
	v.inbox.Put(Update{Frame: &f})
	return nil
}

// Ack says that the client has shown a frame. Other numbers than that of the last frame that Next has returned are ignored.
func (v *View) Ack(number uint64) error {
	v.mu.Lock()
	ok := number > v.mu.acked && number == v.inbox.Taken()
	if ok {
		v.mu.acked = number
	}
	v.mu.Unlock()
	if !ok {
		return nil
	}
	return v.stream.Send(contract.ViewAck{Number: number})
}

// Input does what a person does. While another person has control, it is refused.
func (v *View) Input(act contract.ViewAct) error {
	var text string
	terminal := v.opened.Kind == contract.ViewTerminal
	switch a := act.(type) {
	case contract.ViewBytes:
		if !terminal {
			return hint.New("a screen takes no bytes", "send pointer, wheel, key, text or paste")
		}
		text = string(a.Data)
	case contract.ViewText:
		text = a.Text
	case contract.ViewPaste:
		text = a.Text
	default:
		if terminal {
			return hint.New("a terminal takes only bytes, text and paste", "send what a key produces as bytes")
		}
	}
	if v.opened.ReadOnly {
		return hint.New(fmt.Sprintf("session %q takes no input: it has no terminal", v.session.id), "commands that run on a terminal take input")
	}
	if err := v.mine(); err != nil {
		return err
	}
	if terminal {
		v.sessions.cfg.Typed(v.session.plugin, v.session.id, text)
	}
	return v.stream.Send(contract.ViewInput{Act: act})
}

// Resize changes the size of the session. While another person has control, it is refused.
func (v *View) Resize(size contract.ViewSize) error {
	const most = 1 << 15
	if size.Width == 0 || size.Height == 0 || size.Width > most || size.Height > most {
		return hint.New(fmt.Sprintf("a view can't have the size %d×%d", size.Width, size.Height), fmt.Sprintf("use a width and a height from 1 to %d", most))
	}
	if err := v.mine(); err != nil {
		return err
	}
	return v.stream.Send(contract.ViewResize{Size: size})
}

// Close closes the view, and gives back control. The session continues. It may be called more than once.
func (v *View) Close() {
	v.stream.Close()
	v.cancel()
	v.sessions.remove(v) // first, so that it can't take control any more
	_ = v.Release()      // the thread may have ended
}
