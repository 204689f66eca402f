package view

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gantry-agent/gantry/config/hint"
	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/sdk/contract"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// stream is a plugin's view in the hands of a test.
type stream struct {
	events chan contract.ViewEvent
	closed chan struct{}
	once   sync.Once

	mu   sync.Mutex
	sent []string
}

func (s *stream) Send(r contract.ViewRequest) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sent = append(s.sent, fmt.Sprintf("%T%v", r, r))
	return nil
}

func (s *stream) Recv() (contract.ViewEvent, error) {
	select {
	case e, ok := <-s.events:
		if !ok {
			return nil, errors.New("it crashed")
		}
		return e, nil
	case <-s.closed:
		return nil, io.EOF
	}
}

func (s *stream) Close() { s.once.Do(func() { close(s.closed) }) }

func (s *stream) said() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.sent)
}

// rig has the sessions of a thread, whose plugin the test is.
type rig struct {
	*Sessions
	opened  contract.ViewOpened
	openErr error

	mu      sync.Mutex
	streams []*stream
	events  []string
	typed   string
}

func newRig(t *testing.T) *rig {
	r := &rig{opened: contract.ViewOpened{Kind: contract.ViewTerminal, Title: "cat"}}
	r.Sessions = New(Config{
		Holder: func(_, id string) (string, error) {
			if id == "none" {
				return "", errors.New("no such session")
			}
			return "shell", nil
		},
		Open: func(ctx context.Context, _ string, o contract.ViewOpen) (Stream, contract.ViewOpened, error) {
			if o.SessionID == "hangs" {
				<-ctx.Done()
				return nil, contract.ViewOpened{}, ctx.Err()
			}
			if r.openErr != nil {
				return nil, contract.ViewOpened{}, r.openErr
			}
			s := &stream{events: make(chan contract.ViewEvent), closed: make(chan struct{})}
			context.AfterFunc(ctx, s.Close)
			r.mu.Lock()
			defer r.mu.Unlock()
			r.streams = append(r.streams, s)
			return s, r.opened, nil
		},
		Publish: func(b event.Body) error {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.events = append(r.events, fmt.Sprintf("%v", b))
			return nil
		},
		Typed: func(plugin, session, text string) { r.typed += plugin + session + ":" + text },
	})
	t.Cleanup(r.End)
	return r
}

func (r *rig) open(t *testing.T) (*View, *stream) {
	t.Helper()
	v, err := r.Open(t.Context(), "", contract.ViewOpen{SessionID: "1"})
	if err != nil {
		t.Fatal(err)
	}
	return v, r.streams[len(r.streams)-1]
}

func (v *View) next(t *testing.T) Update {
	t.Helper()
	u, err := v.Next(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return u
}

func output(n uint64, text string) contract.ViewFrame {
	return contract.ViewFrame{Number: n, Output: &contract.ViewOutput{Data: []byte(text)}}
}

func TestFramesAndState(t *testing.T) {
	r := newRig(t)
	v, s := r.open(t)
	s.events <- output(1, "one")
	if u := v.next(t); u.Frame == nil || u.Frame.Number != 1 {
		t.Errorf("first update %+v", u)
	}
	for _, n := range []uint64{0, 2, 1, 1} { // only that of the last frame counts, once
		if err := v.Ack(n); err != nil {
			t.Error(err)
		}
	}
	s.events <- contract.ViewState{Title: "one"}
	s.events <- contract.ViewState{Title: "two"}
	s.events <- output(2, "two") // both states have been received
	if u := v.next(t); u.State == nil || u.State.Title != "two" || u.State.Control != Agent {
		t.Errorf("state %+v, want the newest", u.State)
	}
	if u := v.next(t); u.Frame == nil || u.Frame.Number != 2 {
		t.Errorf("second frame %+v", u)
	}
	s.events <- contract.ViewClosed{Reason: "the program has exited"}
	if u := v.next(t); u.Closed == nil || *u.Closed != "the program has exited" {
		t.Errorf("end %+v", u)
	}
	if _, err := v.Next(t.Context()); !errors.Is(err, io.EOF) {
		t.Errorf("after the end: %v", err)
	}
	if got := s.said(); !slices.Equal(got, []string{"contract.ViewAck{1}"}) {
		t.Errorf("the plugin got %v", got)
	}
}

func TestPluginOutOfOrder(t *testing.T) {
	for want, events := range map[string][]contract.ViewEvent{
		"frame 2 before frame 1 was acknowledged": {output(1, "x"), output(2, "x")},
		"frame 2 after frame 0":                   {output(2, "x")},
		"not of the kind terminal":                {contract.ViewFrame{Number: 1, Picture: &contract.ViewPicture{}}},
		"it crashed":                              nil,
	} {
		r := newRig(t)
		v, s := r.open(t)
		for _, e := range events {
			s.events <- e
		}
		if events == nil {
			close(s.events)
		}
		for u := v.next(t); ; u = v.next(t) {
			if u.Closed != nil {
				if !strings.Contains(*u.Closed, want) {
					t.Errorf("closed because %q, want %q", *u.Closed, want)
				}
				break
			}
		}
	}
}

func TestControl(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		defer r.End()
		one, s := r.open(t)
		two, _ := r.open(t)
		for range 2 { // the second time has no effect
			if err := one.Take(); err != nil {
				t.Fatal(err)
			}
		}
		if a, b := one.next(t), two.next(t); a.State.Control != Self || b.State.Control != Other {
			t.Errorf("control %d and %d", a.State.Control, b.State.Control)
		}
		late, _ := r.open(t)
		if u := late.next(t); u.State.Control != Other {
			t.Errorf("who comes later sees %d", u.State.Control)
		}
		for what, err := range map[string]error{
			"take": two.Take(), "input": two.Input(contract.ViewText{Text: "x"}), "resize": two.Resize(contract.ViewSize{Width: 1, Height: 1}),
		} {
			if text, next := hint.Split(err); !strings.Contains(text, "another person has control") || next == "" {
				t.Errorf("%s while another person has control: %v", what, err)
			}
		}
		if err := two.Release(); err != nil {
			t.Error(err)
		}

		waited := make(chan bool)
		go func() { // ends when control is given back
			w, err := r.Wait(context.Background(), "shell", "1")
			waited <- w && err == nil
		}()
		interrupted, cancel := context.WithCancel(t.Context())
		cancel()
		if w, err := r.Wait(interrupted, "shell", "1"); !w || !errors.Is(err, context.Canceled) {
			t.Errorf("interrupted: %v, %v", w, err)
		}
		if w, err := r.Wait(t.Context(), "shell", "2"); w || err != nil {
			t.Errorf("another session: %v, %v", w, err)
		}
		synctest.Wait()
		select {
		case <-waited:
			t.Fatal("a call did not wait")
		default:
		}
		if err := one.Input(contract.ViewBytes{Data: []byte("by hand")}); err != nil {
			t.Error(err)
		}
		if err := one.Release(); err != nil {
			t.Error(err)
		}
		if !<-waited {
			t.Error("Wait did not say that it waited")
		}
		if r.typed != "shell1:by hand" {
			t.Errorf("typed %q", r.typed)
		}
		want := []string{"contract.ViewControl{true}", "contract.ViewInput{{[98 121 32 104 97 110 100]}}", "contract.ViewControl{false}"}
		if got := s.said(); !slices.Equal(got, want) {
			t.Errorf("the plugin got %v", got)
		}

		if err := two.Take(); err != nil {
			t.Error(err)
		}
		two.Close() // gives it back
		if w, err := r.Wait(t.Context(), "shell", "1"); w || err != nil {
			t.Errorf("after close: %v, %v", w, err)
		}
		if _, next := hint.Split(two.Take()); next == "" {
			t.Error("a closed view takes control")
		}
		<-two.Done()
		events := []string{"{1 shell true}", "{1 shell false}", "{1 shell true}", "{1 shell false}"}
		if !slices.Equal(r.events, events) {
			t.Errorf("events %v", r.events)
		}
	})
}

func TestInputIsChecked(t *testing.T) {
	for name, tt := range map[string]struct {
		opened contract.ViewOpened
		act    contract.ViewAct
		want   string
	}{
		"pointer for a terminal": {contract.ViewOpened{Kind: contract.ViewTerminal}, contract.ViewPointer{}, "only bytes, text and paste"},
		"nothing":                {contract.ViewOpened{Kind: contract.ViewTerminal}, nil, "only bytes"},
		"bytes for a screen":     {contract.ViewOpened{Kind: contract.ViewScreen}, contract.ViewBytes{}, "no bytes"},
		"read-only":              {contract.ViewOpened{Kind: contract.ViewTerminal, ReadOnly: true}, contract.ViewBytes{}, "takes no input"},
		"pointer for a screen":   {contract.ViewOpened{Kind: contract.ViewScreen}, contract.ViewPointer{}, ""},
	} {
		r := newRig(t)
		r.opened = tt.opened
		v, _ := r.open(t)
		text, next := hint.Split(cmpErr(v.Input(tt.act)))
		if !strings.Contains(text, tt.want) || (tt.want == "") != (text == "") || (next == "") != (text == "") {
			t.Errorf("%s: %q, next %q", name, text, next)
		}
	}
	r := newRig(t)
	v, _ := r.open(t)
	for _, size := range []contract.ViewSize{{}, {Width: 80}, {Height: 24}, {Width: 1 << 20, Height: 24}} {
		if _, next := hint.Split(v.Resize(size)); next == "" {
			t.Errorf("size %v is accepted", size)
		}
	}
}

// cmpErr makes nil an empty error, which hint.Split takes.
func cmpErr(err error) error {
	if err == nil {
		return errors.New("")
	}
	return err
}

func TestOpenFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		defer r.End()
		if _, err := r.Open(t.Context(), "", contract.ViewOpen{SessionID: "none"}); err == nil {
			t.Error("an unknown session is opened")
		}
		begin := time.Now()
		if _, err := r.Open(t.Context(), "", contract.ViewOpen{SessionID: "hangs"}); err == nil || time.Since(begin) != openTimeout {
			t.Errorf("a plugin that hangs: %v after %v", err, time.Since(begin))
		}
		r.openErr = errors.New("not that one")
		if _, err := r.Open(t.Context(), "", contract.ViewOpen{SessionID: "1"}); !errors.Is(err, r.openErr) {
			t.Errorf("refused by the plugin: %v", err)
		}
		r.openErr = nil
		var last *View
		for range maxViews {
			last, _ = r.open(t)
		}
		if _, err := r.Open(t.Context(), "", contract.ViewOpen{SessionID: "1"}); err == nil {
			t.Error("more views than allowed")
		}
		last.Close()
		r.open(t)
		r.End()
		if u := last.next(t); u.Closed == nil {
			t.Errorf("at the end: %+v", u)
		}
		if _, err := r.Open(t.Context(), "", contract.ViewOpen{SessionID: "1"}); err == nil {
			t.Error("opened after the end")
		}
	})
}
