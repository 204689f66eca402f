package session

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gantry-agent/gantry/sdk/process"
)

// watcher collects what it is shown.
type watcher struct {
	mu    sync.Mutex
	begin int64
	shown []byte
	wrong string // output that does not follow
	more  chan struct{}
}

func newWatcher() *watcher { return &watcher{begin: -1, more: make(chan struct{}, 1)} }

func (w *watcher) Resized(process.Size) {}

func (w *watcher) Output(offset int64, p []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.begin < 0 {
		w.begin = offset
	}
	if end := w.begin + int64(len(w.shown)); offset != end {
		w.wrong = fmt.Sprintf("output at %d, want %d", offset, end)
	}
	w.shown = append(w.shown, p...)
	select {
	case w.more <- struct{}{}:
	default:
	}
}

// until waits until the output up to an offset was shown, and returns it.
func (w *watcher) until(t *testing.T, offset int) (begin int, shown string) {
	t.Helper()
	for {
		w.mu.Lock()
		begin, shown, wrong := int(w.begin), string(w.shown), w.wrong
		w.mu.Unlock()
		if wrong != "" {
			t.Fatal(wrong)
		}
		if begin+len(shown) >= offset {
			return begin, shown
		}
		select {
		case <-w.more:
		case <-t.Context().Done():
			t.Fatal("the test is over")
		}
	}
}

// Who begins to watch sees the last 64 KiB, then what follows. When the model has read the end, less is remembered.
func TestWatchedLate(t *testing.T) {
	st := NewStore()
	defer end(t, st)
	p := newProgram()
	s := add(t, st, p, Info{})
	first := newWatcher()
	defer s.Watch(first)()
	var all strings.Builder
	for i := range 12_000 {
		fmt.Fprintf(&all, "line %05d\n", i)
	}
	p.print(all.String())
	if begin, shown := first.until(t, all.Len()); begin != 0 || shown != all.String() {
		t.Errorf("the first watcher saw %d bytes from %d", len(shown), begin)
	}
	late := newWatcher()
	defer s.Watch(late)()
	p.print("more")
	if begin, shown := late.until(t, all.Len()+4); begin != all.Len()-viewBytes || shown != all.String()[begin:]+"more" {
		t.Errorf("a late watcher saw %d bytes from %d, want %d from %d", len(shown), begin, viewBytes+4, all.Len()-viewBytes)
	}
	p.exit(0)
	if _, ended, err := s.Collect(context.Background(), "", time.After(time.Minute)); !ended || err != nil {
		t.Fatalf("ended %v, %v", ended, err)
	}
	st.Finish("t", s)
	s.mu.Lock()
	defer s.mu.Unlock()
	if got, want := string(s.mu.tail.Bytes()), (all.String() + "more")[all.Len()+4-tailBytes:]; got != want {
		t.Errorf("%d bytes are remembered, want %d", len(got), len(want))
	}
}

// Output that arrives while a person begins to watch is shown once, at its offset.
func TestWatchedWhileOutputArrives(t *testing.T) {
	st := NewStore()
	defer end(t, st)
	p := newProgram()
	s := add(t, st, p, Info{})
	const pieces = 20_000
	var printing sync.WaitGroup
	printing.Go(func() {
		for range pieces {
			p.print("0123456789")
		}
	})
	var watchers []*watcher
	for all := newWatcher(); ; {
		w := newWatcher()
		defer s.Watch(w)()
		if watchers = append(watchers, w); len(watchers) == 50 {
			break
		}
		if len(watchers) == 1 {
			all = w
		}
		all.until(t, len(watchers)*pieces*10/60)
	}
	printing.Wait()
	for _, w := range watchers {
		w.until(t, pieces*10)
	}
}
