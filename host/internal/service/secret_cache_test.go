package service

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// printer is a program whose runs take a second and print one key after the other.
type printer struct {
	mu      sync.Mutex
	runs    int
	stopped int
	fail    error
}

func (p *printer) run(ctx context.Context, what Program) (string, error) {
	p.mu.Lock()
	p.runs++
	value := fmt.Sprintf("%s-%d", what.Argv[0], p.runs)
	p.mu.Unlock()
	select {
	case <-time.After(time.Second):
		p.mu.Lock()
		defer p.mu.Unlock()
		return value, p.fail
	case <-ctx.Done():
		p.mu.Lock()
		defer p.mu.Unlock()
		p.stopped++
		return "", ctx.Err()
	}
}

// passes lets time go by.
func passes(d time.Duration) { time.Sleep(d) } // in the bubble

func inPrinter(t *testing.T, story func(t *testing.T, p *printer, s *programs)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		p := &printer{}
		story(t, p, &programs{run: p.run})
	})
}

// asks lets several ask at once and returns what all of them got.
func asks(t *testing.T, s *programs, p Program, n int, renew bool) string {
	t.Helper()
	var asking sync.WaitGroup
	got := make([]string, n)
	for i := range n {
		asking.Go(func() {
			var err error
			if got[i], err = s.value(t.Context(), p, renew); err != nil {
				t.Error(err)
			}
		})
	}
	asking.Wait()
	for _, g := range got {
		if g != got[0] {
			t.Errorf("some got %s, some %s", got[0], g)
		}
	}
	return got[0]
}

// Those who ask at the same time share a run, and what it printed is good for a while; then it is run again, and also when
// it was refused.
func TestProgramsRunOnce(t *testing.T) {
	inPrinter(t, func(t *testing.T, p *printer, s *programs) {
		key := Program{Argv: []string{"a"}, Refresh: 5 * time.Minute}
		for _, step := range []struct {
			after time.Duration
			renew bool
			want  string
		}{
			{0, false, "a-1"},
			{4 * time.Minute, false, "a-1"},
			{time.Minute, false, "a-2"},
			{time.Second, true, "a-3"},
			{5*time.Minute - time.Second, false, "a-3"},
			{time.Second, false, "a-4"},
		} {
			passes(step.after)
			if got := asks(t, s, key, 3, step.renew); got != step.want {
				t.Errorf("after %v: %s, want %s", step.after, got, step.want)
			}
		}
		lasting := Program{Argv: []string{"b"}}
		first := asks(t, s, lasting, 3, false)
		passes(1000 * time.Hour)
		if again := asks(t, s, lasting, 3, false); again != first {
			t.Errorf("%s became %s although nobody refused it", first, again)
		}
		if renewed := asks(t, s, lasting, 3, true); renewed == first {
			t.Error("it was refused and is the same")
		}
		if s.of(Program{Argv: []string{"a", "b"}}) == s.of(Program{Argv: []string{"a b"}}) || s.of(key) == s.of(Program{Argv: []string{"a"}, Dir: "x"}) {
			t.Error("different programs are one")
		}
	})
}

// A run that fails is told to all who wait for it and to who asks right behind them; later it is run again.
func TestProgramsThatFail(t *testing.T) {
	inPrinter(t, func(t *testing.T, p *printer, s *programs) {
		key := Program{Argv: []string{"a"}}
		p.fail = errors.New("locked")
		var asking sync.WaitGroup
		for range 3 {
			asking.Go(func() {
				if _, err := s.value(t.Context(), key, false); !errors.Is(err, p.fail) {
					t.Error(err)
				}
			})
		}
		asking.Wait()
		passes(failTime - time.Second)
		for _, renew := range []bool{false, true} {
			if _, err := s.value(t.Context(), key, renew); !errors.Is(err, p.fail) {
				t.Error(err)
			}
		}
		if p.runs != 1 {
			t.Errorf("%d runs", p.runs)
		}
		p.fail = nil
		passes(time.Second)
		if got := asks(t, s, key, 1, false); got != "a-2" {
			t.Error(got)
		}
		// What is there stays good when getting a new one fails.
		p.fail = errors.New("locked again")
		if _, err := s.value(t.Context(), key, true); err == nil {
			t.Error("no error")
		}
		if got, err := s.value(t.Context(), key, false); got != "a-2" || err != nil {
			t.Errorf("%s, %v", got, err)
		}
	})
}

// One who gives up does not end the run for the others; the last one does, and who comes then gets another.
func TestProgramsThatAreGivenUp(t *testing.T) {
	inPrinter(t, func(t *testing.T, p *printer, s *programs) {
		key := Program{Argv: []string{"a"}}
		why := errors.New("enough")
		patience := []time.Duration{100 * time.Millisecond, 300 * time.Millisecond, time.Minute}
		var asking sync.WaitGroup
		for _, d := range patience {
			asking.Go(func() {
				ctx, cancel := context.WithTimeoutCause(t.Context(), d, why)
				defer cancel()
				got, err := s.value(ctx, key, false)
				if d < time.Second && !errors.Is(err, why) || d > time.Second && got != "a-1" {
					t.Errorf("patience of %v: %s, %v", d, got, err)
				}
			})
		}
		asking.Wait()
		if p.runs != 1 || p.stopped != 0 {
			t.Errorf("%d runs, %d stopped", p.runs, p.stopped)
		}
		ctx, cancel := context.WithTimeoutCause(t.Context(), 100*time.Millisecond, why)
		defer cancel()
		began := time.Now()
		if _, err := s.value(ctx, key, true); !errors.Is(err, why) || time.Since(began) != 100*time.Millisecond {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		if p.stopped != 1 {
			t.Error("nobody waits, and the run goes on")
		}
		if got := asks(t, s, key, 1, true); got != "a-3" {
			t.Error(got)
		}
	})
}

func TestSecretsPrintAsNothing(t *testing.T) {
	s := Secret{Value: "sk-1"}
	if got := fmt.Sprintf("%v %+v %#v %s %q", s, s, &s, s, s); strings.Contains(got, "sk-1") {
		t.Error(got)
	}
}
