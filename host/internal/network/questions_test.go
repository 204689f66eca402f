package network_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/gantry-agent/gantry/host/internal/network"
)

func TestQuestionsAreShared(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var a network.Questions
		var put atomic.Int32
		var asking sync.WaitGroup
		defer asking.Wait()
		answer := make(chan bool)
		ask := func(ctx context.Context) network.Answer {
			put.Add(1)
			select {
			case yes := <-answer:
				return network.Answer{Allow: yes, Denied: !yes}
			case <-ctx.Done():
				return network.Answer{Allow: true} // what is answered to nobody does not count
			}
		}
		got := make(chan bool, 10)
		first, leave := context.WithCancel(t.Context())
		asking.Go(func() { got <- a.Do(first, "k", ask).Allow })
		for range 3 {
			asking.Go(func() { got <- a.Do(t.Context(), "k", ask).Allow })
		}
		asking.Go(func() {
			got <- a.Do(t.Context(), "other", func(context.Context) network.Answer { return network.Answer{} }).Allow
		})
		synctest.Wait()
		if put.Load() != 1 {
			t.Errorf("asked %d times", put.Load())
		}
		if <-got {
			t.Error("another question's answer was taken")
		}
		leave() // who put the question leaves; the others wait on
		synctest.Wait()
		if <-got {
			t.Error("who left got a yes")
		}
		answer <- true
		for range 3 {
			if !<-got {
				t.Error("a no, and the answer was yes")
			}
		}
		// An answer is for those who waited.
		alone, leave := context.WithCancel(t.Context())
		asking.Go(func() { got <- a.Do(alone, "k", ask).Allow })
		synctest.Wait()
		leave()
		if <-got {
			t.Error("who left got a yes")
		}
		if put.Load() != 2 {
			t.Errorf("asked %d times", put.Load())
		}
	})
}
