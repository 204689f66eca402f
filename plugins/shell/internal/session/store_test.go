package session

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestFullThreadEvictsTheOldest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := NewStore()
		defer end(t, st)
		var all []*Session
		for range 70 {
			time.Sleep(time.Millisecond) // in the bubble: gives each its own moment
			s := add(t, st, newProgram(), Info{})
			s.Open(&viewer{}) // its number is known, and not used again
			all = append(all, s)
		}
		for i, s := range all {
			_, err := st.Get("t", s.ID)
			if gone := err != nil; gone != (i < 6) {
				t.Errorf("session %d: %v", i, err)
			}
			if i < 6 && err != nil {
				if want := "Unknown process id "; !strings.HasPrefix(err.Error(), want) {
					t.Errorf("error = %q, want %q first", err, want)
				}
				if !s.Exited() {
					t.Errorf("session %d was not stopped", i)
				}
			}
		}
	})
}

func TestEvictionOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := NewStore()
		defer end(t, st)
		var all []*Session
		var programs []*program
		for range maxSessions {
			time.Sleep(time.Millisecond)
			p := newProgram()
			programs = append(programs, p)
			all = append(all, add(t, st, p, Info{}))
		}
		gone := func() []int {
			var out []int
			for i, s := range all {
				if now, _ := st.Get("t", s.ID); now != s {
					out = append(out, i)
				}
			}
			return out
		}
		more := func(n int) {
			for range n {
				time.Sleep(time.Millisecond)
				add(t, st, newProgram(), Info{})
			}
		}
		// One that has ended goes before older ones that run, but not while it is among those used last.
		programs[63].exit(0)
		synctest.Wait()
		more(1)
		if got := gone(); !slices.Equal(got, []int{0}) {
			t.Errorf("gone: %v, want 0", got)
		}
		programs[20].exit(0)
		synctest.Wait()
		more(1)
		if got := gone(); !slices.Equal(got, []int{0, 20}) {
			t.Errorf("gone: %v, want 0 and 20", got)
		}
		// Using one makes it young; one that is in use stays whatever its age.
		release, err := all[1].Acquire(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		release()
		release, err = all[2].Acquire(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		more(9)
		if got := gone(); slices.Contains(got, 1) || !slices.Contains(got, 3) || !slices.Contains(got, 63) {
			t.Errorf("gone: %v, want 3 and 63, and 1 not yet", got)
		}
		more(maxSessions)
		if got := gone(); len(got) != maxSessions-1 || slices.Contains(got, 2) {
			t.Errorf("gone: %v, want all but 2", got)
		}
		release()
	})
}

func TestUnknown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := NewStore()
		defer end(t, st)
		if _, err := st.Get("nowhere", 5); err == nil || err.Error() != "Unknown process id 5" {
			t.Errorf("error = %v", err)
		}
		var all []*Session
		for i := range maxEnded + 1 {
			p := newProgram()
			s := add(t, st, p, Info{})
			p.print("line\nlast line\n")
			p.exit(i)
			if _, _, err := s.Collect(t.Context(), "call", time.After(time.Minute)); err != nil {
				t.Fatal(err)
			}
			st.Finish("t", s)
			st.Finish("t", s) // once is enough
			all = append(all, s)
		}
		if _, err := st.Get("t", all[0].ID); err == nil || strings.Contains(err.Error(), "exited") {
			t.Errorf("forgotten: %v", err)
		}
		_, err := st.Get("t", all[3].ID)
		if err == nil || !strings.HasSuffix(err.Error(), " (it exited with code 3). Its output ended with:\nline\nlast line\n") {
			t.Errorf("remembered: %v", err)
		}
		if e, ok := errors.AsType[*UnknownError](err); !ok || e.Ended != all[3] {
			t.Errorf("error is %#v", err)
		}
	})
}

func TestStopAndEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := NewStore()
		defer end(t, st)
		a, b := add(t, st, newProgram(), Info{}), add(t, st, newProgram(), Info{})
		if err := st.Stop(t.Context(), "t", a.ID); err != nil || !a.Exited() || b.Exited() {
			t.Errorf("stop: %v, exited %v %v", err, a.Exited(), b.Exited())
		}
		if code, _ := a.Code(); code != 137 {
			t.Errorf("code = %d", code)
		}
		if err := st.Stop(t.Context(), "t", 1); err != nil {
			t.Errorf("stopping nothing: %v", err)
		}
		if err := st.End(t.Context(), "other"); err != nil {
			t.Errorf("ending nothing: %v", err)
		}
		if err := st.End(t.Context(), "t"); err != nil || !b.Exited() {
			t.Errorf("end: %v, exited %v", err, b.Exited())
		}
		if _, err := st.Get("t", b.ID); err == nil {
			t.Error("the session is still there")
		}
	})
}

func TestStopIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := NewStore()
		p := newProgram()
		p.stuck = true
		s := add(t, st, p, Info{})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := st.End(ctx, "t"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error = %v", err)
		}
		p.exit(0)
		st.release(s)
	})
}

func TestThreadEndsWhileAProcessStarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := NewStore()
		id, err := st.Reserve("t")
		if err != nil {
			t.Fatal(err)
		}
		if err := st.End(t.Context(), "t"); err != nil {
			t.Fatal(err)
		}
		p := newProgram()
		if _, err := st.Add(t.Context(), "t", id, Program{Process: p, Out: p.r}); !errors.Is(err, ErrThreadEnded) {
			t.Errorf("error = %v, want %v", err, ErrThreadEnded)
		}
		if p.code != 137 {
			t.Error("the process was not stopped")
		}
	})
}

func TestKnownIDsAreNotReused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := NewStore()
		defer end(t, st)
		for i, opened := range []bool{true, false} {
			p := newProgram()
			s := add(t, st, p, Info{})
			if opened {
				s.Open(&viewer{})
			}
			p.exit(0)
			synctest.Wait()
			st.Finish("t", s)
			st.mu.threads["t"].ended = nil // forgotten
			st.release(s)
			if got := st.mu.threads["t"].knowsLocked(s.ID); got != opened {
				t.Errorf("session %d: still known %v", i, got)
			}
		}
	})
}

func TestReservedIDsAreUnique(t *testing.T) {
	st := NewStore()
	seen := map[int]bool{}
	for range 500 {
		id, err := st.Reserve("t")
		if err != nil {
			t.Fatal(err)
		}
		if id < 1000 || id > 99999 || seen[id] {
			t.Fatalf("number %d, seen %v", id, seen[id])
		}
		seen[id] = true
	}
	for id := range seen {
		st.Cancel("t", id)
	}
	st.Cancel("other", 1)
	if n := len(st.mu.threads["t"].reserved); n != 0 {
		t.Errorf("%d numbers are still reserved", n)
	}
}

func TestYield(t *testing.T) {
	ms := func(n uint64) *uint64 { return &n }
	const huge = 1 << 63
	tests := []struct {
		name string
		got  time.Duration
		want time.Duration
	}{
		{"start", StartYield(nil), 10 * time.Second},
		{"start, short", StartYield(ms(1)), 250 * time.Millisecond},
		{"start, as asked", StartYield(ms(1234)), 1234 * time.Millisecond},
		{"start, long", StartYield(ms(31000)), 30 * time.Second},
		{"start, absurd", StartYield(ms(huge)), 30 * time.Second},
		{"input", InputYield(nil), 250 * time.Millisecond},
		{"input, nothing", InputYield(ms(0)), 250 * time.Millisecond},
		{"input, long", InputYield(ms(40000)), 30 * time.Second},
		{"poll", PollYield(nil, MaxPoll), 5 * time.Second},
		{"poll, short", PollYield(ms(1), MaxPoll), 5 * time.Second},
		{"poll, as asked", PollYield(ms(60000), MaxPoll), time.Minute},
		{"poll, long", PollYield(ms(400000), MaxPoll), 5 * time.Minute},
		{"poll, absurd", PollYield(ms(huge), MaxPoll), 5 * time.Minute},
		{"poll, bound below the least", PollYield(ms(60000), time.Second), 5 * time.Second},
	}
	for _, tt := range tests {
		if tt.got != tt.want {
			t.Errorf("%s: %v, want %v", tt.name, tt.got, tt.want)
		}
	}
}

// The resources of ended sessions are released, except those of the latest ones, and of sessions whose output is still open in other
// processes.
func TestEndedSessionsReleaseResources(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := NewStore()
		defer end(t, st)
		var programs []*program
		var all []*Session
		for i := range maxHeld + 6 {
			p := newProgram()
			s := add(t, st, p, Info{})
			p.print("x\n")
			if i == 1 {
				p.leave(0)
			} else {
				p.exit(0)
			}
			if _, _, err := s.Collect(t.Context(), "call", time.After(time.Minute)); err != nil {
				t.Fatal(err)
			}
			st.Finish("t", s)
			programs, all = append(programs, p), append(all, s)
		}
		st.releasing.Wait()
		for i, p := range programs {
			if want := i < 6 && i != 1; p.released != want {
				t.Errorf("session %d: let go %v, want %v", i, p.released, want)
			}
			if _, err := st.Get("t", all[i].ID); err == nil || !strings.Contains(err.Error(), "exited with code 0") || !strings.HasSuffix(err.Error(), "x\n") {
				t.Errorf("session %d is told as %v", i, err)
			}
		}
		programs[1].print("from the background\n")
	})
}
