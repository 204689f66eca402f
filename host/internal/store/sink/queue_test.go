package sink

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/store/database"
	"pgregory.net/rapid"
)

// world is a queue with a simulated writer and a simulated clock. It uses no goroutines.
type world struct {
	q       *queue
	now     time.Time
	flight  Batch
	flying  bool
	written map[event.ThreadID][]uint64
}

func newWorld() *world {
	return &world{
		q: newQueue(Config{
			BatchRows: 4, BatchDelay: 3 * time.Millisecond, QueueRows: 10, QueueBytes: 1 << 20, KeepRows: 20, KeepBytes: 1 << 21,
			Where: "/threads.db",
		}),
		now: time.Unix(1000, 0), written: map[event.ThreadID][]uint64{},
	}
}

func someEvent(thread event.ThreadID, seq uint64) Entry {
	return Entry{Thread: thread, Seq: seq, Size: 258}
}

func (w *world) append(thread event.ThreadID, seqs ...uint64) error {
	var entries []Entry
	for _, seq := range seqs {
		entries = append(entries, someEvent(thread, seq))
	}
	return w.q.accept(entries, w.now)
}

// each delivers events one by one.
func (w *world) each(thread event.ThreadID, seqs ...uint64) {
	for _, seq := range seqs {
		_ = w.append(thread, seq)
	}
}

// barrier requests a barrier and returns a function for its reply, which reports false while it waits.
func (w *world) barrier(thread event.ThreadID, seq uint64) func() (error, bool) {
	reply := make(chan error, 1)
	w.q.await(&waiter{thread: thread, sync: true, reply: reply}, seq)
	return w.told(reply)
}

func (w *world) told(reply chan error) func() (error, bool) {
	var err error
	done := false
	return func() (error, bool) {
		w.send()
		select {
		case err = <-reply:
			done = true
		default:
		}
		return err, done
	}
}

func (w *world) send() {
	for _, a := range w.q.answers {
		a.reply <- a.err
	}
	w.q.answers = nil
}

// begin lets the writer take a batch, if one is due.
func (w *world) begin() bool {
	b, ok := w.q.next(w.now)
	if ok {
		w.flight, w.flying = b, true
	}
	return ok
}

// end ends the write of the batch.
func (w *world) end(err error, conflicts map[event.ThreadID]error) (changed bool) {
	if err == nil {
		for _, e := range w.flight.Entries {
			if !e.isEvent() {
				continue
			}
			thread := e.Thread
			if conflicts[thread] == nil {
				w.written[thread] = append(w.written[thread], e.Seq)
			}
		}
	}
	w.flying = false
	return w.q.finish(w.flight, Outcome{Err: err, Conflicts: conflicts}, w.now)
}

func TestBatchByCountOrAge(t *testing.T) {
	w := newWorld()
	if w.begin() {
		t.Fatal("an empty queue has something to write")
	}
	_ = w.append("t", 1, 2, 3)
	if w.begin() {
		t.Error("three of four events go out at once")
	}
	if at, ok := w.q.wake(); !ok || !at.Equal(w.now.Add(3*time.Millisecond)) {
		t.Errorf("wake = %v, %v", at, ok)
	}
	w.each("t", 4, 5)
	if !w.begin() || len(w.flight.Entries) != 4 || w.flight.Sync {
		t.Fatalf("five events: batch %+v, want the first four, not synced", w.flight)
	}
	if w.begin() {
		t.Error("a second batch goes out while the first is under way")
	}
	w.end(nil, nil)
	if w.begin() {
		t.Error("the fifth goes out before its time")
	}
	w.now = w.now.Add(3 * time.Millisecond)
	if !w.begin() || len(w.flight.Entries) != 1 {
		t.Errorf("after 3 ms: batch %+v", w.flight)
	}
}

// A crash between two transactions must not tear what somebody handed over as one.
func TestDeliveryIsCommittedTogether(t *testing.T) {
	w := newWorld()
	_ = w.append("t", 1, 2, 3)
	_ = w.append("t", 4, 5, 6)
	_ = w.append("t", 7)
	for _, want := range []int{6, 1} { // the fourth, which fills the batch, brings its company
		w.now = w.now.Add(3 * time.Millisecond)
		if !w.begin() || len(w.flight.Entries) != want {
			t.Fatalf("batch of %d events, want %d", len(w.flight.Entries), want)
		}
		w.end(nil, nil)
	}
}

func TestBarrierCommitsImmediatelyAndSyncs(t *testing.T) {
	w := newWorld()
	_ = w.append("t", 1, 2)
	told := w.barrier("t", 2)
	if _, done := told(); done {
		t.Fatal("answered before anything was written")
	}
	if !w.begin() || !w.flight.Sync || len(w.flight.Entries) != 2 {
		t.Fatalf("batch %+v", w.flight)
	}
	w.end(nil, nil)
	if err, done := told(); !done || err != nil {
		t.Errorf("told %v, %v", err, done)
	}
	// What is behind a sync needs no other.
	if err, done := w.barrier("t", 1)(); !done || err != nil {
		t.Errorf("an earlier event: told %v, %v", err, done)
	}
	if w.begin() {
		t.Error("something is written although everything is synced")
	}
}

func TestBarrierAfterUnsyncedCommit(t *testing.T) {
	w := newWorld()
	_ = w.append("t", 1, 2, 3, 4)
	w.begin()
	told := w.barrier("t", 4) // while a batch without sync is under way
	w.end(nil, nil)
	if _, done := told(); done {
		t.Fatal("a plain commit answers a barrier")
	}
	if !w.begin() || !w.flight.Sync || len(w.flight.Entries) != 0 {
		t.Fatalf("batch %+v, want an empty one with sync", w.flight)
	}
	w.end(nil, nil)
	if err, done := told(); !done || err != nil {
		t.Errorf("told %v, %v", err, done)
	}
}

func TestBarriersShareACommit(t *testing.T) {
	w := newWorld()
	_ = w.append("a", 1)
	_ = w.append("b", 1)
	told := []func() (error, bool){w.barrier("a", 1), w.barrier("b", 1), w.barrier("a", 1)}
	w.begin()
	w.end(nil, nil)
	for i, told := range told {
		if err, done := told(); !done || err != nil {
			t.Errorf("barrier %d: told %v, %v", i, err, done)
		}
	}
}

func TestBarrierBeyondLastEvent(t *testing.T) {
	w := newWorld()
	_ = w.append("t", 1)
	if err, done := w.barrier("t", 2)(); !done || !errors.As(err, new(*OrderError)) {
		t.Errorf("told %v, %v", err, done)
	}
}

func TestOrder(t *testing.T) {
	for _, test := range []struct {
		name string
		seqs []uint64
		want uint64 // of the refusal; 0: none
	}{
		{"first ones", []uint64{1, 2, 3}, 0},
		{"a gap", []uint64{1, 3}, 2},
		{"twice", []uint64{1, 1}, 2},
		{"back", []uint64{2, 1}, 3},
		{"goes on in a resumed thread", []uint64{7, 8}, 0},
	} {
		w := newWorld()
		err := w.append("t", test.seqs...)
		if test.want == 0 {
			if err != nil {
				t.Errorf("%s: %v", test.name, err)
			}
			continue
		}
		if o, ok := errors.AsType[*OrderError](err); !ok || o.Want != test.want {
			t.Errorf("%s: %v, want an order error that wants %d", test.name, err, test.want)
		}
		if len(w.q.entries) != 0 {
			t.Errorf("%s: a part was taken", test.name)
		}
	}
}

func TestFullQueue(t *testing.T) {
	w := newWorld()
	for seq := range uint64(10) {
		if w.q.full() {
			t.Fatalf("full with %d of 10", seq)
		}
		_ = w.append("t", seq+1)
	}
	if !w.q.full() {
		t.Error("not full with 10 of 10")
	}
	w.begin()
	w.end(nil, nil)
	if w.q.full() {
		t.Error("full after four were written")
	}
	w = newWorld()
	_ = w.q.accept([]Entry{{Thread: "t", Seq: 1, Size: 1 << 20}}, w.now)
	if !w.q.full() {
		t.Error("not full with 1 MiB of 1 MiB")
	}
}

var errDisk = errors.New("disk")

func TestDegradedKeepsEventsAndFailsBarriers(t *testing.T) {
	w := newWorld()
	_ = w.append("t", 1, 2)
	told := w.barrier("t", 2)
	op := &Operation{reply: make(chan error, 1)}
	_ = w.q.accept([]Entry{{op: op}}, w.now)
	opTold := w.told(op.reply)
	w.begin()
	if !w.end(errDisk, nil) {
		t.Error("the first error is no change")
	}
	if err, done := told(); !done || !errors.As(err, new(*DegradedError)) || !errors.Is(err, errDisk) {
		t.Errorf("the barrier was told %v, %v", err, done)
	}
	if err, done := opTold(); !done || !errors.Is(err, errDisk) {
		t.Errorf("the operation behind was told %v, %v", err, done)
	}
	if err, done := w.barrier("t", 2)(); !done || !errors.As(err, new(*DegradedError)) {
		t.Errorf("a new barrier was told %v, %v", err, done)
	}
	if err := w.q.accept([]Entry{{op: op}}, w.now); !errors.As(err, new(*DegradedError)) {
		t.Errorf("a new operation: %v", err)
	}
	if w.begin() {
		t.Error("it is tried again at once")
	}

	// It takes events past the bound of a healthy queue, up to its own, and then says no and loses nothing.
	var seq uint64 = 2
	for w.append("t", seq+1) == nil {
		if seq++; seq > 100 {
			t.Fatal("there is no bound")
		}
	}
	if err := w.append("t", seq+1); !errors.As(err, new(*FullError)) || !errors.Is(err, errDisk) {
		t.Errorf("append = %v", err)
	}
	if w.q.full() {
		t.Error("a degraded queue lets publishers wait")
	}

	// Tries come, rarer and rarer, and none of them is news.
	for range 8 {
		at, ok := w.q.wake()
		if !ok || at.Sub(w.now) < firstRetry || at.Sub(w.now) > lastRetry {
			t.Fatalf("wake in %v, %v", at.Sub(w.now), ok)
		}
		w.now = at
		if !w.begin() {
			t.Fatal("it is not tried again")
		}
		if w.end(errDisk, nil) {
			t.Error("a second error is a change")
		}
	}
	since := time.Unix(1000, 0)
	if !w.q.failed.Since.Equal(since) {
		t.Errorf("degraded since %v, want %v", w.q.failed.Since, since)
	}

	w.now, _ = w.q.wake()
	w.begin()
	if !w.end(nil, nil) || w.q.failed != nil {
		t.Error("a write that works is no change")
	}
	if err := w.append("t", seq+1); err != nil {
		t.Errorf("the event that was refused: %v", err)
	}
	told = w.barrier("t", seq+1)
	for w.begin() {
		w.end(nil, nil)
	}
	if err, done := told(); !done || err != nil {
		t.Errorf("a barrier after recovery was told %v, %v", err, done)
	}
	for i, got := range w.written["t"] {
		if got != uint64(i+1) {
			t.Fatalf("written: %v", w.written["t"])
		}
	}
	if got := uint64(len(w.written["t"])); got != seq+1 {
		t.Errorf("%d events were written, want %d", got, seq+1)
	}
}

func TestIdleDegradedQueueRecovers(t *testing.T) {
	w := newWorld()
	_ = w.append("t", 1, 2, 3, 4)
	w.begin()
	w.end(nil, nil)
	w.barrier("t", 4)
	w.begin()
	w.end(errDisk, nil) // the sync failed; no events wait
	w.now, _ = w.q.wake()
	if !w.begin() || len(w.flight.Entries) != 0 {
		t.Fatalf("batch %+v, want an empty one", w.flight)
	}
	if !w.end(nil, nil) || w.q.failed != nil {
		t.Error("still degraded")
	}
}

func TestConflictAffectsOnlyItsThread(t *testing.T) {
	w := newWorld()
	_ = w.append("good", 1)
	w.each("bad", 1, 2, 3, 4, 5)
	_ = w.append("good", 2)
	bad, good := w.barrier("bad", 5), w.barrier("good", 2)
	w.begin()
	errConflict := errors.New("conflict")
	w.end(nil, map[event.ThreadID]error{"bad": errConflict})
	if err, done := bad(); !done || err != errConflict {
		t.Errorf("its barrier was told %v, %v", err, done)
	}
	for w.begin() {
		w.end(nil, nil)
	}
	if err, done := good(); !done || err != nil {
		t.Errorf("the other's barrier was told %v, %v", err, done)
	}
	if err := w.append("bad", 6); err != errConflict {
		t.Errorf("append = %v", err)
	}
	if err, done := w.barrier("bad", 5)(); !done || err != errConflict {
		t.Errorf("a later barrier was told %v, %v", err, done)
	}
	if got := fmt.Sprint(w.written); got != "map[good:[1 2]]" {
		t.Errorf("written: %s", got)
	}
	if len(w.q.entries) != 0 || w.q.bytes != 0 {
		t.Errorf("%d entries of %d bytes are left", len(w.q.entries), w.q.bytes)
	}
}

func TestOperationHasItsOwnBatch(t *testing.T) {
	w := newWorld()
	op := &Operation{reply: make(chan error, 1), forget: "t"}
	_ = w.append("t", 1)
	_ = w.q.accept([]Entry{{op: op}}, w.now)
	_ = w.append("t", 2)
	var sizes []int
	for w.begin() {
		sizes = append(sizes, len(w.flight.Entries))
		w.end(nil, nil)
	}
	if fmt.Sprint(sizes) != "[1 1]" {
		t.Errorf("batches of %v entries, want the event before and the operation", sizes)
	}
	if _, known := w.q.heads["t"]; known {
		t.Error("the thread is remembered")
	}
}

func TestClosingWritesEverythingSynced(t *testing.T) {
	w := newWorld()
	w.each("t", 1, 2, 3, 4, 5, 6)
	w.q.closing = true
	if err := w.append("t", 7); err != database.ErrClosed {
		t.Errorf("append = %v", err)
	}
	var syncs []bool
	for w.begin() {
		syncs = append(syncs, w.flight.Sync)
		w.end(nil, nil)
	}
	if fmt.Sprint(syncs) != "[false true]" || len(w.written["t"]) != 6 {
		t.Errorf("synced %v, written %v", syncs, w.written)
	}
}

func TestIdleThreadsAreForgotten(t *testing.T) {
	w := newWorld()
	w.q.maxRows, w.q.batchRows = 1<<20, 1<<20
	for n := range maxHeads {
		_ = w.append(event.ThreadID(fmt.Sprint("t", n)), 1)
	}
	w.barrier("t0", 1)
	w.begin()
	w.end(nil, nil)
	_ = w.append("another", 1)
	if n := len(w.q.heads); n != 1 {
		t.Errorf("%d threads are remembered, want the one that is not written", n)
	}
}

// Regardless of the order of operations: the written events of a thread are a prefix of the accepted ones, a barrier only succeeds
// after a sync, every waiter gets exactly one reply, and in the end nothing is left in the queue.
func TestQueueProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld()
		next := map[event.ThreadID]uint64{}
		synced := map[event.ThreadID]uint64{}
		type asked struct {
			thread event.ThreadID
			seq    uint64
			told   func() (error, bool)
			done   bool
		}
		var barriers []*asked
		conflicted := map[event.ThreadID]bool{}
		settle := func() {
			for _, b := range barriers {
				if b.done {
					continue
				}
				err, done := b.told()
				if !done {
					continue
				}
				b.done = true
				if err == nil && synced[b.thread] < b.seq {
					t.Fatalf("a barrier at %d of %s was told nil, synced is %d", b.seq, b.thread, synced[b.thread])
				}
			}
		}
		check := func() {
			if w.q.synced > w.q.committed || w.q.committed > w.q.accepted() {
				t.Fatalf("synced %d, committed %d, accepted %d", w.q.synced, w.q.committed, w.q.accepted())
			}
			if n := len(w.flight.Entries); w.flying && n > 0 && w.flight.Entries[n-1].more {
				t.Fatal("a batch ends in the middle of what was handed over together")
			}
			bytes := 0
			for _, e := range w.q.entries {
				bytes += e.size()
			}
			if bytes != w.q.bytes {
				t.Fatalf("bytes = %d, the entries have %d", w.q.bytes, bytes)
			}
			for thread, seqs := range w.written {
				for i, seq := range seqs {
					if seq != uint64(i+1) {
						t.Fatalf("written of %s: %v", thread, seqs)
					}
				}
			}
		}
		end := func(t *rapid.T) {
			fails := rapid.IntRange(0, 9).Draw(t, "fails")
			var err error
			var conflicts map[event.ThreadID]error
			switch {
			case fails < 3:
				err = errDisk
			case fails == 3 && len(w.flight.Entries) > 0 && w.flight.Entries[0].isEvent():
				thread := w.flight.Entries[0].Thread
				conflicts = map[event.ThreadID]error{thread: errors.New("conflict")}
				conflicted[thread] = true
			}
			sync := w.flight.Sync
			w.end(err, conflicts)
			if err == nil && sync {
				for thread, seqs := range w.written {
					synced[thread] = uint64(len(seqs))
				}
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"append": func(t *rapid.T) {
				thread := event.ThreadID(rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "thread"))
				if w.q.full() {
					t.Skip("publishers wait")
				}
				var seqs []uint64
				for n := range rapid.IntRange(1, 6).Draw(t, "events") {
					seqs = append(seqs, next[thread]+uint64(n)+1)
				}
				err := w.append(thread, seqs...)
				if conflicted[thread] != (err != nil && !errors.As(err, new(*FullError))) {
					t.Fatalf("append = %v, conflict %v", err, conflicted[thread])
				}
				if err == nil {
					next[thread] += uint64(len(seqs))
				}
			},
			"barrier": func(t *rapid.T) {
				thread := event.ThreadID(rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "thread"))
				b := &asked{thread: thread, seq: next[thread], told: w.barrier(thread, next[thread])}
				barriers = append(barriers, b)
			},
			"begin": func(t *rapid.T) {
				if !w.begin() {
					t.Skip("nothing is due")
				}
			},
			"end": func(t *rapid.T) {
				if !w.flying {
					t.Skip("nothing is under way")
				}
				end(t)
			},
			"time passes": func(t *rapid.T) {
				w.now = w.now.Add(time.Duration(rapid.IntRange(1, 2000).Draw(t, "ms")) * time.Millisecond)
			},
			"": func(*rapid.T) { settle(); check() },
		})
		// In the end writing works, and everything goes out.
		if w.flying {
			sync := w.flight.Sync
			w.end(nil, nil)
			if sync {
				for thread, seqs := range w.written {
					synced[thread] = uint64(len(seqs))
				}
			}
		}
		w.now = w.now.Add(time.Hour)
		w.q.closing = true
		for w.begin() {
			w.end(nil, nil)
		}
		for thread, seqs := range w.written {
			synced[thread] = uint64(len(seqs))
			if !conflicted[thread] && uint64(len(seqs)) != next[thread] {
				t.Fatalf("%d of %d events of %s were written", len(seqs), next[thread], thread)
			}
		}
		settle()
		check()
		for _, b := range barriers {
			if !b.done {
				t.Fatalf("a barrier at %d of %s was told nothing", b.seq, b.thread)
			}
		}
	})
}
