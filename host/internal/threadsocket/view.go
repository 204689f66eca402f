package threadsocket

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/gantry-agent/gantry/config/hint"
	"github.com/gantry-agent/gantry/host/internal/rpc"
	"github.com/gantry-agent/gantry/host/internal/view"
	"github.com/gantry-agent/gantry/sdk/contract"
	"github.com/gantry-agent/gantry/sdk/wire/convert"
)

// Methods of views. Their messages are those of the contract, in protobuf. A client that opens a view has a connection for it alone, so
// that frames are not in the way of events.
const (
	methodView    = prefix + "view"
	methodViewAct = prefix + "view/act"

	noteView = prefix + "view/update"
)

// ViewParams open a view of a session.
type ViewParams struct {
	OfThread
	// Subscription is chosen by the client, as in [SubscribeParams]. The notification gantry/thread/unsubscribe closes the view.
	Subscription uint64 `json:"subscription"`
	Plugin       string `json:"plugin,omitempty"` // of the session; empty: the only one with a session of this ID
	Open         []byte `json:"open"`             // a [contract.ViewOpen]
}

// ViewResult says what is shown.
type ViewResult struct {
	Opened []byte `json:"opened"` // a [contract.ViewOpened]
}

// ViewActParams are what a person does in a view, or the acknowledgement of a frame.
type ViewActParams struct {
	OfThread
	Subscription uint64 `json:"subscription"`
	Request      []byte `json:"request"` // a [contract.ViewRequest], but not [contract.ViewOpen]
}

// viewNote is an update of a view.
type viewNote struct {
	Subscription uint64       `json:"subscription"`
	Event        []byte       `json:"event"`             // a [contract.ViewFrame], [contract.ViewState] or [contract.ViewClosed]
	Control      view.Control `json:"control,omitempty"` // with a state
}

// view opens a view, which ends with the connection, with the thread, or when the client says so.
func (s *session) view(ctx context.Context, t *served, p ViewParams) (r ViewResult, err error) {
	m, err := convert.UnmarshalViewRequest(p.Open)
	if err != nil {
		return r, rpc.Errorf(rpc.InvalidParams, "%s: %v", methodView, err)
	}
	o, ok := m.(contract.ViewOpen)
	if !ok {
		return r, rpc.Errorf(rpc.InvalidParams, "%s: open is a %T", methodView, m)
	}
	unuse, err := s.server.use(t.ID())
	if err != nil {
		return r, err
	}
	v, err := t.Library.OpenView(ctx, t.ID(), p.Plugin, o)
	if err != nil {
		unuse()
		return r, err
	}
	if r.Opened, err = convert.MarshalViewEvent(v.Opened()); err == nil {
		err = s.show(p.Subscription, v, unuse)
	}
	if err != nil {
		v.Close()
		unuse()
	}
	return r, err
}

// show sends the updates of a view, and calls ended at its end.
func (s *session) show(id uint64, v *view.View, ended func()) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.mu.closed:
		return errLeft
	case s.mu.views[id] != nil:
		return errSubscribed
	}
	s.mu.views[id] = v
	s.work.Go(func() { // ends with the view
		defer ended()
		for {
			u, err := v.Next(context.Background())
			if err != nil {
				break
			}
			if err := s.update(id, u); err != nil {
				s.server.log.Debug("view closed", "err", err)
				v.Close()
			}
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.mu.views, id)
	})
	return nil
}

// update sends an update. It waits while the client reads nothing, until the connection ends.
func (s *session) update(id uint64, u view.Update) (err error) {
	n := viewNote{Subscription: id}
	var e contract.ViewEvent
	switch {
	case u.Frame != nil:
		e = *u.Frame
	case u.State != nil:
		e, n.Control = u.State.ViewState, u.State.Control
	default:
		e = contract.ViewClosed{Reason: *u.Closed}
	}
	if n.Event, err = convert.MarshalViewEvent(e); err != nil {
		return err
	}
	return s.conn.Notify(context.Background(), rpc.Notification{Method: noteView, Params: n})
}

// act passes on what a person does in a view.
func (s *session) act(_ context.Context, p ViewActParams) (struct{}, error) {
	m, err := convert.UnmarshalViewRequest(p.Request)
	if err != nil {
		return struct{}{}, rpc.Errorf(rpc.InvalidParams, "%s: %v", methodViewAct, err)
	}
	s.mu.Lock()
	v := s.mu.views[p.Subscription]
	s.mu.Unlock()
	if v == nil {
		return struct{}{}, errViewClosed
	}
	switch m := m.(type) {
	case contract.ViewAck:
		err = v.Ack(m.Number)
	case contract.ViewResize:
		err = v.Resize(m.Size)
	case contract.ViewInput:
		err = v.Input(m.Act)
	case contract.ViewControl:
		if m.Take {
			err = v.Take()
		} else {
			err = v.Release()
		}
	default:
		err = rpc.Errorf(rpc.InvalidParams, "%s: request is a %T", methodViewAct, m)
	}
	return struct{}{}, err
}

var errViewClosed = hint.New("the view is closed", "open the view again")

// View is a view of a session in the process that runs the thread. Its methods may be called concurrently, except Next.
type View struct {
	client *Client
	opened contract.ViewOpened
	inbox  *view.Inbox
	done   chan struct{}
}

// OpenView shows a session of the thread. plugin may be empty if only one plugin has a session with this ID. The client must not be used
// for anything else; the end of the view closes it.
func (c *Client) OpenView(ctx context.Context, plugin string, o contract.ViewOpen) (*View, error) {
	open, err := convert.MarshalViewRequest(o)
	if err != nil {
		return nil, err
	}
	v := &View{client: c, inbox: view.NewInbox(), done: make(chan struct{})}
	c.process.mu.Lock()
	c.view = v.inbox
	c.process.mu.Unlock()
	var r ViewResult
	if err := c.call(ctx, methodView, ViewParams{c.target(), c.id, plugin, open}, &r); err != nil {
		return nil, err
	}
	e, err := convert.UnmarshalViewEvent(r.Opened)
	if err != nil {
		return nil, err
	}
	opened, ok := e.(contract.ViewOpened)
	if !ok {
		return nil, fmt.Errorf("%s was answered with a %T", methodView, e)
	}
	v.opened = opened
	go func() { // ends with the view; Close waits for it
		defer close(v.done)
		<-c.ended
		why := c.err.Error()
		if errors.Is(c.err, ErrGone) {
			why = "the process that runs the thread has ended"
		}
		v.inbox.Put(view.Update{Closed: &why})
		_ = c.Close()
	}()
	return v, nil
}

// errViewLeft ends a view that this process has closed.
var errViewLeft = errors.New("the view was closed")

// updated receives an update of a view. It does not wait.
func (c *Client) updated(params json.RawMessage) {
	var n viewNote
	if json.Unmarshal(params, &n) != nil || c.view == nil {
		return
	}
	e, err := convert.UnmarshalViewEvent(n.Event)
	if err != nil {
		return // of a later version
	}
	switch e := e.(type) {
	case contract.ViewFrame:
		c.view.Put(view.Update{Frame: &e})
	case contract.ViewState:
		c.view.Put(view.Update{State: &view.State{ViewState: e, Control: n.Control}})
	case contract.ViewClosed:
		c.view.Put(view.Update{Closed: &e.Reason})
		c.end(errViewLeft)
	}
}

// Opened says what is shown.
func (v *View) Opened() contract.ViewOpened { return v.opened }

// Done is closed when the view is closed.
func (v *View) Done() <-chan struct{} { return v.done }

// Next returns the next update, as [view.View.Next] does.
func (v *View) Next(ctx context.Context) (view.Update, error) { return v.inbox.Next(ctx) }

// Ack says that the client has shown a frame, as [view.View.Ack] does. It does not wait.
func (v *View) Ack(number uint64) error {
	if number != v.inbox.Taken() {
		return nil
	}
	p, err := v.act(contract.ViewAck{Number: number})
	if err != nil {
		return err
	}
	return v.client.process.rpc.Start(context.Background(), methodViewAct, p, func(json.RawMessage, error) {}) // ends with the connection
}

func (v *View) act(r contract.ViewRequest) (ViewActParams, error) {
	b, err := convert.MarshalViewRequest(r)
	return ViewActParams{v.client.target(), v.client.id, b}, err
}

// do waits for the answer to what a person does.
func (v *View) do(r contract.ViewRequest) error {
	p, err := v.act(r)
	if err != nil {
		return err
	}
	err = v.client.call(context.Background(), methodViewAct, p, nil) // ends with the connection
	if errors.Is(err, ErrGone) {
		return errViewClosed
	}
	return err
}

// Input does what a person does. While another person has control, it is refused.
func (v *View) Input(act contract.ViewAct) error { return v.do(contract.ViewInput{Act: act}) }

// Resize changes the size of the session. While another person has control, it is refused.
func (v *View) Resize(size contract.ViewSize) error { return v.do(contract.ViewResize{Size: size}) }

// Take gives the person control of the session, as [view.View.Take] does.
func (v *View) Take() error { return v.do(contract.ViewControl{Take: true}) }

// Release gives back control, if the person has it.
func (v *View) Release() error { return v.do(contract.ViewControl{}) }

// Close closes the view, gives back control, and waits. The session continues. It may be called more than once.
func (v *View) Close() {
	v.client.end(errViewLeft)
	<-v.done
}
