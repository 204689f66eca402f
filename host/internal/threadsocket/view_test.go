package threadsocket_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/gantry-agent/gantry/config/hint"
	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/threadsocket"
	"github.com/gantry-agent/gantry/host/internal/view"
	"github.com/gantry-agent/gantry/sdk/contract"
)

// sessions are the sessions of a thread, which are shown by a plugin that the test is.
type sessions struct {
	threadsocket.Library
	views  *view.Sessions
	opened contract.ViewOpened
	events chan contract.ViewEvent
	got    chan string // what the plugin has received
}

func newSessions(t *testing.T) *sessions {
	s := &sessions{
		opened: contract.ViewOpened{Kind: contract.ViewTerminal, Title: "cat", Size: contract.ViewSize{Width: 80, Height: 24}},
		events: make(chan contract.ViewEvent), got: make(chan string, 100),
	}
	s.views = view.New(view.Config{
		Holder: func(label, id string) (string, error) {
			if id != "1" {
				return "", hint.New("no session "+id, "choose 1")
			}
			return "shell" + label, nil
		},
		Open: func(ctx context.Context, _ string, o contract.ViewOpen) (view.Stream, contract.ViewOpened, error) {
			s.got <- fmt.Sprintf("open %v %v", o.Kinds, o.Size)
			ctx, stop := context.WithCancel(ctx)
			return &stream{s, ctx, stop}, s.opened, nil
		},
		Publish: func(b event.Body) error { s.got <- fmt.Sprintf("event %v", b); return nil },
		Typed:   func(plugin, id, text string) {},
	})
	t.Cleanup(s.views.End)
	return s
}

func (s *sessions) OpenView(ctx context.Context, _ event.ThreadID, plugin string, o contract.ViewOpen) (*view.View, error) {
	return s.views.Open(ctx, plugin, o)
}

// stream is a view of the plugin.
type stream struct {
	*sessions
	ctx  context.Context
	stop context.CancelFunc
}

func (s *stream) Send(r contract.ViewRequest) error {
	s.got <- fmt.Sprintf("%T %v", r, r)
	return nil
}

func (s *stream) Recv() (contract.ViewEvent, error) {
	select {
	case e := <-s.events:
		return e, nil
	case <-s.ctx.Done():
		return nil, io.EOF
	}
}

func (s *stream) Close() {
	s.stop()
}

func watch(t *testing.T, path string) *threadsocket.View {
	t.Helper()
	v, err := dial(t, path).OpenView(t.Context(), "", contract.ViewOpen{SessionID: "1", Kinds: []contract.ViewKind{contract.ViewTerminal}, Size: contract.ViewSize{Width: 5, Height: 6}})
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func next(t *testing.T, v *threadsocket.View) view.Update {
	t.Helper()
	u, err := v.Next(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return u
}

func (s *sessions) receives(t *testing.T, want string) {
	t.Helper()
	select {
	case got := <-s.got:
		if got != want {
			t.Errorf("the plugin or the thread got %q, want %q", got, want)
		}
	case <-t.Context().Done():
		t.Fatal("the test is over")
	}
}

// A view has over the socket all that it has in the process that runs the thread.
func TestViewOverTheSocket(t *testing.T) {
	dir, s := home(t), newSessions(t)
	used, unused := 0, make(chan struct{}, 10)
	path, _, _ := run(t, process(t, threadsocket.Config{Home: dir, Use: func(event.ThreadID) (func(), error) {
		used++ // requests come one after the other
		return func() { unused <- struct{}{} }, nil
	}}), dir, &plugins{}, s)
	c := dial(t, path)
	if _, err := c.OpenView(t.Context(), "", contract.ViewOpen{SessionID: "2"}); err == nil || err.Error() != "no session 2; next: choose 1" {
		t.Errorf("an unknown session: %v", err)
	}
	v := watch(t, path)
	defer v.Close()
	s.receives(t, "open [terminal] {5 6}")
	if o := v.Opened(); o.Title != "cat" || o.Size != s.opened.Size {
		t.Errorf("opened %+v", o)
	}
	s.events <- contract.ViewFrame{Number: 1, Output: &contract.ViewOutput{Offset: 7, Data: []byte("\x1b[1mone")}}
	if u := next(t, v); u.Frame == nil || u.Frame.Output.Offset != 7 || string(u.Frame.Output.Data) != "\x1b[1mone" {
		t.Fatalf("first update %+v", u)
	}
	for _, n := range []uint64{0, 2, 1} {
		if err := v.Ack(n); err != nil {
			t.Error(err)
		}
	}
	s.receives(t, "contract.ViewAck {1}")
	s.events <- contract.ViewState{Title: "two", Dialog: &contract.ViewDialog{Kind: "alert"}}
	if u := next(t, v); u.State == nil || u.State.Title != "two" || u.State.Dialog.Kind != "alert" || u.State.Control != view.Agent {
		t.Errorf("state %+v", u)
	}
	for _, do := range []struct {
		err  error
		want []string
	}{
		{v.Input(contract.ViewText{Text: "x"}), []string{"contract.ViewInput {{x}}"}},
		{v.Resize(contract.ViewSize{Width: 1, Height: 2}), []string{"contract.ViewResize {{1 2}}"}},
		{v.Take(), []string{"event {1 shell true}", "contract.ViewControl {true}"}},
		{v.Release(), []string{"event {1 shell false}", "contract.ViewControl {false}"}},
		{v.Take(), []string{"event {1 shell true}", "contract.ViewControl {true}"}},
	} {
		if do.err != nil {
			t.Error(do.err)
		}
		for _, w := range do.want {
			s.receives(t, w)
		}
	}
	for u := next(t, v); u.State == nil || u.State.Control != view.Self; u = next(t, v) {
	}
	if err := v.Input(contract.ViewKey{Key: "a"}); err == nil || !strings.Contains(err.Error(), "only bytes") || hintOf(err) == "" {
		t.Errorf("what a terminal does not take: %v", err)
	}
	other := watch(t, path)
	s.receives(t, "open [terminal] {5 6}")
	if u := next(t, other); u.State == nil || u.State.Control != view.Other {
		t.Errorf("another view: %+v", u)
	}
	if err := other.Take(); err == nil || hintOf(err) == "" {
		t.Errorf("taken from another person: %v", err)
	}
	other.Close()
	other.Close()
	if u := next(t, other); u.Closed == nil || *u.Closed != "the view was closed" {
		t.Errorf("after close: %+v", u)
	}
	if _, err := other.Next(t.Context()); !errors.Is(err, io.EOF) {
		t.Errorf("after the end: %v", err)
	}
	if err := other.Take(); err == nil || hintOf(err) == "" {
		t.Errorf("control of a closed view: %v", err)
	}
	s.events <- contract.ViewClosed{Reason: "the program has exited"}
	end := next(t, v)
	for end.State != nil { // the changes of control that were not read above
		end = next(t, v)
	}
	if end.Closed == nil || *end.Closed != "the program has exited" {
		t.Errorf("end: %+v", end)
	}
	<-v.Done()
	s.receives(t, "event {1 shell false}")
	for range used { // the thread can be unloaded again
		<-unused
	}
	if used != 3 {
		t.Errorf("the thread was kept %d times, want once for each request", used)
	}
}

func hintOf(err error) string {
	_, next := hint.Split(err)
	return next
}

// Whatever ends, control is given back and the view is closed, with a reason.
func TestEndOfAViewOverTheSocket(t *testing.T) {
	for name, tt := range map[string]struct {
		end  func(v *threadsocket.View, s *sessions, owner *threadsocket.Server) error
		want []string
	}{
		"the client": {func(v *threadsocket.View, _ *sessions, _ *threadsocket.Server) error { v.Close(); return nil }, []string{"the view was closed"}},
		"the thread": {func(_ *threadsocket.View, s *sessions, _ *threadsocket.Server) error { s.views.End(); return nil }, []string{"the thread has ended"}},
		"the process": {
			func(_ *threadsocket.View, _ *sessions, owner *threadsocket.Server) error { return owner.Close() },
			[]string{"the process that runs the thread has ended", "the view was closed"}, // which closes the view first
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir, s := home(t), newSessions(t)
			owner := process(t, threadsocket.Config{Home: dir})
			path, _, _ := run(t, owner, dir, &plugins{}, s)
			v := watch(t, path)
			s.receives(t, "open [terminal] {5 6}")
			if err := v.Take(); err != nil {
				t.Fatal(err)
			}
			s.receives(t, "event {1 shell true}")
			s.receives(t, "contract.ViewControl {true}")
			var ending sync.WaitGroup
			ending.Go(func() {
				if err := tt.end(v, s, owner); err != nil {
					t.Error(err)
				}
			})
			u := next(t, v)
			for u.Closed == nil {
				u = next(t, v)
			}
			if !slices.Contains(tt.want, *u.Closed) {
				t.Errorf("closed because %q, want one of %q", *u.Closed, tt.want)
			}
			<-v.Done()
			s.receives(t, "event {1 shell false}")
			ending.Wait()
		})
	}
}
