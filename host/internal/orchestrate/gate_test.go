package orchestrate

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"

	"pgregory.net/rapid"
)

func open(t *Ticket) bool {
	select {
	case <-t.admitted:
		return true
	default:
		return false
	}
}

func TestGateOrder(t *testing.T) {
	for _, tc := range []struct {
		name  string
		calls []struct {
			shared bool
			group  string
		}
		open []bool
	}{
		{"shared run together", []struct {
			shared bool
			group  string
		}{{true, ""}, {true, ""}}, []bool{true, true}},
		{"an exclusive one waits for all before it", []struct {
			shared bool
			group  string
		}{{true, ""}, {false, ""}, {true, ""}}, []bool{true, false, false}},
		{"a group goes one by one, others pass", []struct {
			shared bool
			group  string
		}{{true, "g"}, {true, "g"}, {true, "h"}, {true, ""}}, []bool{true, false, true, true}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var g Gate
			for i, c := range tc.calls {
				if got := open(g.Enter(c.shared, c.group)); got != tc.open[i] {
					t.Errorf("call %d admitted = %v, want %v", i, got, tc.open[i])
				}
			}
		})
	}
}

func cleared(t *Ticket) bool {
	select {
	case <-t.cleared:
		return true
	default:
		return false
	}
}

// claim claims without waiting.
func claim(t *Ticket, sessions ...string) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_ = t.Claim(ctx, sessions...) // whether it may is seen by cleared
}

func TestGateClearsSessionsInOrder(t *testing.T) {
	var g Gate
	var calls []*Ticket
	for range 4 {
		calls = append(calls, g.Enter(true, ""))
	}
	check := func(when string, want ...bool) {
		t.Helper()
		for i, c := range calls {
			if cleared(c) != want[i] {
				t.Errorf("%s: call %d clear = %v, want %v", when, i, !want[i], want[i])
			}
		}
	}
	claim(calls[1], "s")
	claim(calls[3])
	check("the first has not said what it works on", false, false, false, false)
	claim(calls[0], "s", "r")
	check("the first has the session", true, false, false, false)
	calls[0].Begun()
	check("the third has not said what it works on", true, false, false, false)
	claim(calls[2], "r")
	check("who waits for a session holds nobody up", true, false, false, true)
	calls[0].Leave()
	check("the first has left", true, true, false, true)
	calls[1].Begun()
	check("the second has begun", true, true, true, true)
}

func TestGateWaitEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g Gate
		first := g.Enter(false, "")
		second := g.Enter(false, "")
		ctx, cancel := context.WithCancelCause(t.Context())
		done := make(chan error, 1)
		go func() { done <- second.Wait(ctx) }() // owned by the test
		synctest.Wait()
		cancel(ErrInterrupted)
		if err := <-done; !errors.Is(err, ErrInterrupted) {
			t.Errorf("Wait = %v, want %v", err, ErrInterrupted)
		}
		second.Leave()
		third := g.Enter(true, "")
		first.Leave()
		if !open(third) {
			t.Error("a place that was given up still blocks")
		}
	})
}

// In any order of calls, no two that exclude each other run concurrently, and none waits without a call to wait for.
func TestGateProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var g Gate
		var live []*Ticket
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			through := map[*Ticket]bool{}
			for _, l := range live {
				through[l] = cleared(l)
			}
			if len(live) > 0 && rapid.Bool().Draw(t, "leave") {
				i := rapid.IntRange(0, len(live)-1).Draw(t, "who")
				live[i].Leave()
				live[i].Leave()
				live = append(live[:i], live[i+1:]...)
			} else if i := slices.IndexFunc(live, func(t *Ticket) bool { return open(t) && !t.claimed }); i >= 0 && rapid.Bool().Draw(t, "claim") {
				claim(live[i], rapid.SliceOfN(rapid.SampledFrom([]string{"s", "r"}), 0, 2).Draw(t, "sessions")...)
			} else if i := slices.IndexFunc(live, func(t *Ticket) bool { return cleared(t) && !t.begun }); i >= 0 && rapid.Bool().Draw(t, "begin") {
				live[i].Begun()
			} else {
				live = append(live, g.Enter(rapid.Bool().Draw(t, "shared"), rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "group")))
			}
			for i, a := range live {
				for _, b := range live[:i] {
					if open(a) && open(b) && a.waitsFor(b) {
						t.Fatal("two calls that exclude each other run at once")
					}
					if cleared(a) && a.follows(b) {
						t.Fatal("a call passed one that may be of the same session")
					}
					// A call that could not begin when a passed it may begin later.
					if cleared(a) && !through[a] && !cleared(b) && open(b) && !b.claimed {
						t.Fatal("a call passed one that may begin, too")
					}
				}
			}
			if len(live) > 0 && (!open(live[0]) || live[0].claimed && !cleared(live[0])) {
				t.Fatal("the first in the queue waits")
			}
		}
	})
}
