package thread

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/gantry-agent/gantry/sdk/llm"
)

// Messages that a client adds follow the running turn, are there when the host has died, and are read with the next input.
func TestInject(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var seen []string
		sink := &memory{}
		hold := make(chan struct{})
		th, stop := startThread(t, parrot(&seen, func(n int) <-chan struct{} {
			if n == 1 {
				return hold
			}
			return nil
		}), sink)
		defer stop()
		said := func(role llm.Role, text string) llm.Message {
			return llm.Message{Role: role, Parts: []llm.Part{&llm.Text{Text: text}}}
		}
		submitOrFail(t, th, input("go"))
		synctest.Wait()
		var adding sync.WaitGroup
		adding.Go(func() {
			if err := th.Inject(t.Context(), said(llm.RoleUser, "U"), said(llm.RoleAssistant, "V")); err != nil {
				t.Error(err)
			}
		})
		gone, leave := context.WithCancel(t.Context())
		adding.Go(func() {
			if err := th.Inject(gone, said(llm.RoleUser, "X")); err == nil {
				t.Error("messages of a client that has left are added")
			}
		})
		synctest.Wait()
		leave()
		synctest.Wait()
		close(hold)
		adding.Wait()
		s, err := Rebuild(seq(sink.all()))
		if err != nil {
			t.Fatal(err)
		}
		if n := len(s.Messages); n != 4 || s.Messages[3].Text() != "V" {
			t.Errorf("stored: %+v", s.Messages)
		}
		submitOrFail(t, th, input("on"))
		synctest.Wait()
		if want := []string{"go", "go|A1|U|V|on"}; !slices.Equal(seen, want) {
			t.Errorf("%q, want %q", seen, want)
		}
		if err := th.Archive(t.Context(), true); err != nil {
			t.Fatal(err)
		}
		if err := th.Inject(t.Context(), said(llm.RoleUser, "Y")); err == nil {
			t.Error("messages are added to an archived thread")
		}
	})
}
