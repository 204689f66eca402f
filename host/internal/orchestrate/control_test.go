package orchestrate_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/orchestrate"
)

// control is a person who has control of session 7 from one second to another after the beginning.
func control(begin time.Time, from, to time.Duration) func(context.Context, string, string) (bool, error) {
	return func(ctx context.Context, plugin, session string) (bool, error) {
		if now := time.Since(begin); plugin != "p" || session != "7" || now < from || now >= to {
			return false, nil
		}
		select {
		case <-time.After(to - time.Since(begin)):
			return true, nil
		case <-ctx.Done():
			return true, context.Cause(ctx)
		}
	}
}

// While a person has control of a session, calls that type into it or read from it wait; others do not.
func TestCallsWaitForAPersonWithControl(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := typist{bench: &bench{}, began: time.Now(), control: control(time.Now(), 0, 5*time.Second)}
		p.typing(t, t.Context(), `{"session":"7","text":"x"}`, `{"session":"8","text":"x"}`, `{}`, `{"session":"7"}`)()
		want := `0s c2 begins
0s c3 begins
1s c2 ends
1s c3 ends
5s c1 begins
6s c1 ends
6s c4 begins
7s c4 ends`
		if got := sorted(p.ran()); got != sorted(want) {
			t.Errorf("calls:\n%s\nwant:\n%s", got, sorted(want))
		}
		shown := 0
		for _, b := range p.bodies {
			if _, ok := b.(event.ItemStarted); ok {
				shown++
			}
		}
		if shown != 4 {
			t.Errorf("%d items", shown)
		}
	})
}

func TestInterruptEndsTheWaitForAPerson(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := typist{bench: &bench{}, began: time.Now(), control: control(time.Now(), 0, time.Hour)}
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(2*time.Second, func() { cancel(orchestrate.ErrInterrupted) })
		out := p.typing(t, ctx, `{"session":"7","text":"x"}`)()
		if !slices.Equal(out, []event.Outcome{event.OutcomeAborted}) || time.Since(p.began) != 2*time.Second || p.ran() != "" {
			t.Errorf("%v after %v; ran %q", out, time.Since(p.began), p.ran())
		}
	})
}

// A call that a person completes, or whose line a person has begun, is decided on again.
func TestCallsAreDecidedOnAgainAfterAPerson(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tokens, asked := orchestrate.NewTokens(), 0
		p := typist{bench: &bench{}, began: time.Now(), decided: &[]string{}}
		p.control = func(context.Context, string, string) (bool, error) {
			if asked++; asked != 2 { // taken while the call was decided on
				return false, nil
			}
			tokens.Typed("p", "t", "7", "ls\nrm -r ")
			return true, nil
		}
		out := p.typingWith(t, t.Context(), tokens, `{"session":"7","text":"x\n"}`)()
		if !slices.Equal(out, []event.Outcome{event.OutcomeOK}) || !slices.Equal(*p.decided, []string{"", "rm -r "}) {
			t.Errorf("%v; decided behind %q", out, *p.decided)
		}
	})
}
