package tool

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

	"github.com/gantry-agent/gantry/sdk/contract"
	gantryv1 "github.com/gantry-agent/gantry/sdk/proto/gantry/v1"
	"github.com/gantry-agent/gantry/sdk/wire/convert"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// wire is an in-memory stream of a call. It records what the host sends, with the time; events are what the plugin sends.
type wire struct {
	began  time.Time
	events chan contract.CallEvent
	end    error // after the last event

	mu   sync.Mutex
	sent []string
}

func newWire() *wire {
	return &wire{began: time.Now(), events: make(chan contract.CallEvent, 16), end: io.EOF}
}

func (w *wire) Send(m *gantryv1.CallRequest) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	name := strings.TrimPrefix(fmt.Sprintf("%T", m.GetControl()), "*gantryv1.CallRequest_")
	if c := m.GetCancel(); c != nil {
		name += " " + c.GetReason()
	}
	w.sent = append(w.sent, fmt.Sprintf("%v %s", time.Since(w.began), name))
	return nil
}

func (w *wire) Recv() (*gantryv1.CallResponse, error) {
	ev, ok := <-w.events
	if !ok {
		return nil, w.end
	}
	return convert.CallEventToProto(ev), nil
}

func (w *wire) log() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.sent)
}

// steer runs control for a call with a deadline and returns the cause of its cancellation, or nil.
func steer(t *testing.T, w *wire, ctl Control, deadline time.Duration, script func()) (hard error) {
	t.Helper()
	ctx, end := context.WithCancelCause(t.Context())
	defer end(nil)
	finished, done := make(chan struct{}), make(chan struct{})
	go func() { // owned by the test: waited for below
		defer close(done)
		out := newOutbox(ctx, w)
		defer out.close()
		control(ctx, out, ctl, deadline.Milliseconds(), finished, end)
	}()
	script()
	synctest.Wait()
	hard = context.Cause(ctx)
	select {
	case <-done:
	default:
		close(finished)
		<-done
	}
	return hard
}

var errStop = errors.New("interrupted")

func reason(error) string { return "interrupted" }

func TestCancellationAfterTheGracePeriod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWire()
		soft, stop := context.WithCancelCause(t.Context())
		hard := steer(t, w, Control{Soft: soft, Reason: reason, Grace: 100 * time.Millisecond}, 0, func() {
			time.Sleep(time.Second)
			stop(errStop)
			time.Sleep(99 * time.Millisecond)
			if got := w.log(); len(got) != 1 || !strings.HasPrefix(got[0], "1s ") || !strings.HasSuffix(got[0], "interrupted") {
				t.Errorf("sent %q before the grace was over", got)
			}
			time.Sleep(2 * time.Millisecond)
		})
		if !errors.Is(hard, ErrGrace) || !errors.Is(hard, errStop) {
			t.Errorf("ended hard by %v, want the grace and its cause", hard)
		}
	})
}

func TestQuestionsSuspendTheDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWire()
		waits := make(chan bool)
		hard := steer(t, w, Control{Soft: t.Context(), Reason: reason, Grace: time.Second, Waits: waits}, 10*time.Second, func() {
			time.Sleep(4 * time.Second)
			waits <- true
			time.Sleep(time.Hour)
			waits <- false
			time.Sleep(5 * time.Second)
			if n := len(w.log()); n != 2 {
				t.Errorf("sent %q: the call has a second left", w.log())
			}
			time.Sleep(1500 * time.Millisecond)
			if got := w.log(); len(got) != 3 || !strings.Contains(got[2], "deadline") {
				t.Errorf("sent %q, want a cancel by the deadline", got)
			}
			time.Sleep(time.Second)
		})
		if !errors.Is(hard, ErrDeadline) {
			t.Errorf("ended hard by %v, want %v", hard, ErrDeadline)
		}
		got := w.log()
		for i, want := range []string{"4s ", "1h0m4s ", "1h0m10s "} {
			if !strings.HasPrefix(got[i], want) {
				t.Errorf("message %d at %q, want %q", i, got[i], want)
			}
		}
	})
}

func TestReceive(t *testing.T) {
	out := func(s string) contract.CallEvent { return contract.Output{Data: []byte(s)} }
	for _, tc := range []struct {
		name   string
		events []contract.CallEvent
		caps   contract.CallCaps
		want   string // what the sink got
		text   string // of the result
		err    string
	}{
		{"in order", []contract.CallEvent{contract.Started{}, out("a"), contract.Note{Text: "n"}, contract.Text("done")}, contract.CallCaps{}, "started a n", "done", ""},
		{"started once", []contract.CallEvent{contract.Started{}, contract.Started{}, contract.Text("done")}, contract.CallCaps{}, "started", "done", ""},
		{"more output than allowed", []contract.CallEvent{out("aaaa"), out("bb"), contract.Text("done")}, contract.CallCaps{MaxOutputBytes: 5}, "aaaa", "done", ""},
		{"nothing counts behind the result", []contract.CallEvent{contract.Text("done"), out("late")}, contract.CallCaps{}, "", "done", ""},
		{"no result", []contract.CallEvent{out("a")}, contract.CallCaps{}, "a", "", "without a result"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newWire()
			for _, ev := range tc.events {
				w.events <- ev
			}
			close(w.events)
			var got []string
			res, err := receive(w, tc.caps, func(ev contract.CallEvent) {
				switch ev := ev.(type) {
				case contract.Started:
					got = append(got, "started")
				case contract.Output:
					got = append(got, string(ev.Data))
				case contract.Note:
					got = append(got, ev.Text)
				}
			})
			if strings.Join(got, " ") != tc.want {
				t.Errorf("sink got %q, want %q", got, tc.want)
			}
			if tc.err != "" {
				if err == nil || !strings.Contains(err.Error(), tc.err) {
					t.Errorf("error = %v, want one with %q", err, tc.err)
				}
				return
			}
			if err != nil || res.Parts[0].(*contract.TextPart).Text != tc.text {
				t.Errorf("result = %+v, %v", res, err)
			}
		})
	}
}

func TestCallsQueueBelowThePluginsLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := New(nil)
		first, err := c.queue(t.Context(), 1, false)
		if err != nil {
			t.Fatal(err)
		}
		soft, stop := context.WithCancelCause(t.Context())
		refused := make(chan error, 1)
		taken := make(chan func(), 1)
		go func() { // owned by the test: received below
			_, err := c.queue(soft, 1, false)
			refused <- err
		}()
		go func() { // owned by the test: received below
			done, _ := c.queue(t.Context(), 1, false)
			taken <- done
		}()
		synctest.Wait()
		if _, err := c.queue(t.Context(), 1, true); err == nil || !strings.Contains(err.Error(), "nested in one of them") {
			t.Errorf("a call that would wait for the one it was made from: %v", err)
		}
		stop(errStop)
		if err := <-refused; !errors.Is(err, errStop) {
			t.Errorf("a waiting call that was interrupted: %v", err)
		}
		select {
		case <-taken:
			t.Fatal("two calls at once where the plugin takes one")
		default:
		}
		first()
		(<-taken)()
		if done, err := c.queue(t.Context(), 0, false); err != nil {
			t.Errorf("without a limit: %v", err)
		} else {
			done()
		}
	})
}

// Concurrent questions are one pause, which ends with the last answer.
func TestDeadlineIsSuspendedUntilTheLastAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWire()
		waits := make(chan bool)
		hard := steer(t, w, Control{Soft: t.Context(), Reason: reason, Grace: time.Second, Waits: waits}, 10*time.Second, func() {
			waits <- true
			waits <- true
			time.Sleep(time.Minute)
			waits <- false
			time.Sleep(time.Minute) // the other question is still open
			waits <- false
			time.Sleep(9 * time.Second)
		})
		if hard != nil {
			t.Errorf("ended by %v though a second was left", hard)
		}
		if got := w.log(); len(got) != 2 || !strings.HasSuffix(got[0], "Pause") || !strings.HasSuffix(got[1], "Resume") {
			t.Errorf("sent %q, want one pause and one resume", got)
		}
	})
}

// deafWire is the stream of a plugin that does not read: Send waits for the end of the stream.
type deafWire struct {
	*wire
	ctx context.Context
}

func (w deafWire) Send(*gantryv1.CallRequest) error { <-w.ctx.Done(); return io.EOF }

func TestDeadlineOfAPluginThatDoesNotRead(t *testing.T) {
	for _, tc := range []struct {
		name     string
		deadline time.Duration
		stop     bool
		want     error
	}{{"interrupt", 0, true, ErrGrace}, {"deadline", 5 * time.Second, false, ErrDeadline}} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, end := context.WithCancelCause(t.Context())
				defer end(nil)
				soft, stop := context.WithCancelCause(t.Context())
				defer stop(nil)
				out, finished := newOutbox(ctx, deafWire{newWire(), ctx}), make(chan struct{})
				out.put(&gantryv1.CallRequest{})
				var work sync.WaitGroup
				work.Go(func() {
					defer out.close()
					control(ctx, out, Control{Soft: soft, Reason: reason, Grace: 100 * time.Millisecond}, tc.deadline.Milliseconds(), finished, end)
				})
				synctest.Wait()
				if tc.stop {
					stop(errStop)
				}
				work.Wait() // would wait for ever if a send held it
				if err := context.Cause(ctx); !errors.Is(err, tc.want) {
					t.Errorf("ended by %v, want %v", err, tc.want)
				}
			})
		})
	}
}
