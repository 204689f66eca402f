package hub_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/hub"
)

// The process that runs a thread is killed at any moment. Two hubs notice, and continue with the thread, which one of them or another process
// runs then. Their followers see every stored event once and in order, and what was accepted before is in the log once.
func TestTheOwnerIsKilled(t *testing.T) {
	for seed := range uint64(6) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { killOwner(t, rand.New(rand.NewPCG(seed, 15))) })
	}
}

func killOwner(t *testing.T, rnd *rand.Rand) {
	home := newHome(t, recite)
	o := other(t, home, "")
	hubs := []*hub.Hub{open(t, configuration(home, binaries(t))), open(t, configuration(home, binaries(t)))}
	var watches []*hub.Changes
	for _, h := range hubs {
		watches = append(watches, h.Watch())
		t.Cleanup(watches[len(watches)-1].Close)
		change(t, watches[len(watches)-1], kind(o.id, hub.ThreadLoaded))
	}

	// Each hub submits tasks and follows, until the process is gone.
	killAfter := rnd.IntN(60) // events
	var kill sync.Once
	var mu sync.Mutex
	accepted := map[string]bool{}
	last := make([]uint64, len(hubs))
	var clients sync.WaitGroup
	var follows []*hub.Events
	threads := make([]*hub.Thread, len(hubs))
	for i, h := range hubs {
		var ok bool
		if threads[i], ok = h.Find(t.Context(), o.id); !ok {
			t.Fatal("not found")
		}
		follows = append(follows, follow(t, threads[i], 0))
	}
	for i, th := range threads {
		evs := follows[i]
		clients.Go(func() {
			for n := 0; ; n++ {
				task := fmt.Sprintf("task %d of %d", n, i)
				if _, err := th.Submit(t.Context(), hub.Submission{Input: text(task)}); err != nil {
					if code(err) != hub.Closed {
						t.Errorf("submit: %v (code %q)", err, code(err))
					}
					return
				}
				mu.Lock()
				accepted[task] = true
				mu.Unlock()
			}
		})
		clients.Go(func() {
			for seen := 0; ; seen++ {
				e, err := evs.Next(t.Context())
				if err != nil {
					if code(err) != hub.Closed {
						t.Errorf("follow: %v (code %q)", err, code(err))
					}
					return
				}
				if e.Seq != 0 && e.Seq != last[i]+1 {
					t.Errorf("event %d after %d", e.Seq, last[i])
				}
				last[i] = max(last[i], e.Seq)
				if seen >= killAfter {
					kill.Do(func() { _ = o.cmd.Process.Kill() })
				}
			}
		})
	}
	clients.Wait()
	for _, w := range watches {
		if c := change(t, w, kind(o.id, hub.ThreadClosed)); c.Status.State != hub.NotLoaded {
			t.Errorf("closed as %+v", c.Status)
		}
	}

	if rnd.IntN(2) == 0 {
		other(t, home, o.id)
	} else {
		hubs, threads, follows = hubs[:1], threads[:1], follows[:1] // hubs of one process don't reach each other
	}
	for i, h := range hubs {
		th, err := h.Resume(t.Context(), o.id, hub.ResumeParams{})
		if err != nil {
			t.Fatal(err)
		}
		if th.Remote() != (len(hubs) > 1) {
			t.Errorf("remote: %v", th.Remote())
		}
		threads[i], follows[i] = th, follow(t, th, last[i])
	}
	a := submit(t, threads[rnd.IntN(len(threads))], "the last task")
	for i, evs := range follows {
		until(t, evs, func(e event.Event) bool {
			if e.Seq != 0 && e.Seq != last[i]+1 {
				t.Errorf("after the resume: event %d after %d", e.Seq, last[i])
			}
			last[i] = max(last[i], e.Seq)
			return is[event.TurnEnded](e) && e.Turn == a.Turn
		})
	}
	if len(hubs) > 1 && last[0] != last[1] {
		t.Errorf("the last events are %d and %d", last[0], last[1])
	}
	said, log := map[string]int{}, ""
	for e, err := range hubs[0].Events(context.WithoutCancel(t.Context()), o.id, 0) {
		if err != nil {
			t.Fatal(err)
		}
		if b, ok := e.Body.(event.ItemCompleted); ok && b.Item.Type == event.ItemUserMessage {
			said[b.Item.Text]++
		}
		line, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		log += string(line)
	}
	for task := range accepted { // one that no turn has read is not yet a message
		if said[task] > 1 || !strings.Contains(log, `"`+task+`"`) {
			t.Errorf("%q was accepted and is in the log %d times", task, said[task])
		}
	}
}
