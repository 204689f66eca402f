package rpc

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestSchedulerProperties compares the scheduler with what it promises, over random arrivals and ends.
func TestSchedulerProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var s scheduler
		waiting := map[string][]*Request{} // by key, in the order of arrival
		running := map[string][]*Request{}
		var turns []string // keys that have started a request since the last arrival or end
		n := int64(0)
		may := func(key string) bool {
			if len(waiting[key]) == 0 {
				return false
			}
			all := append(slices.Clone(running[key]), waiting[key][0])
			return len(all) == 1 || !slices.ContainsFunc(all, func(r *Request) bool { return !r.shared() })
		}
		keys := []string{"", "a", "b", "c"}
		t.Repeat(map[string]func(*rapid.T){
			"arrive": func(t *rapid.T) {
				r := &Request{ID: IntID(n), route: Route{Key: rapid.SampledFrom(keys).Draw(t, "key"), Shared: rapid.Bool().Draw(t, "shared")}}
				n++
				waiting[r.route.Key] = append(waiting[r.route.Key], r)
				s.add(r)
				turns = nil
			},
			"start": func(t *rapid.T) {
				r := s.next()
				if r == nil {
					if i := slices.IndexFunc(keys, may); i >= 0 {
						t.Fatalf("nothing starts, but the first request of key %q may", keys[i])
					}
					return
				}
				key := r.route.Key
				if !may(key) {
					t.Fatalf("request %v of key %q starts beside %d others", r.ID, key, len(running[key]))
				}
				if r != waiting[key][0] {
					t.Fatalf("request %v starts before %v", r.ID, waiting[key][0].ID)
				}
				// A key does not start twice while another one waits that could.
				if i := slices.Index(turns, key); i >= 0 {
					for _, other := range keys {
						if other != key && may(other) && !slices.Contains(turns[i:], other) {
							t.Fatalf("key %q starts again before key %q", key, other)
						}
					}
				}
				turns = append(turns, key)
				waiting[key] = waiting[key][1:]
				running[key] = append(running[key], r)
			},
			"end": func(t *rapid.T) {
				var all []*Request
				for _, key := range keys {
					all = append(all, running[key]...)
				}
				if len(all) == 0 {
					t.Skip("nothing runs")
				}
				r := rapid.SampledFrom(all).Draw(t, "request")
				running[r.route.Key] = slices.DeleteFunc(running[r.route.Key], func(o *Request) bool { return o == r })
				s.done(r)
				turns = nil
			},
			"drop": func(t *rapid.T) {
				if rapid.IntRange(0, 20).Draw(t, "rarely") > 0 {
					t.Skip("rarely")
				}
				dropped := map[string][]*Request{}
				for _, r := range s.drop() {
					dropped[r.route.Key] = append(dropped[r.route.Key], r)
				}
				for _, key := range keys {
					if !slices.Equal(dropped[key], waiting[key]) {
						t.Fatalf("dropped %d of key %q, want %d", len(dropped[key]), key, len(waiting[key]))
					}
					waiting[key] = nil
				}
			},
			"": func(t *rapid.T) {
				count, busy := 0, 0
				for _, key := range keys {
					count += len(waiting[key])
					if len(waiting[key])+len(running[key]) > 0 {
						busy++
					}
				}
				if s.waiting != count || len(s.lanes) != busy {
					t.Fatalf("counts %d that wait and %d keys, want %d and %d", s.waiting, len(s.lanes), count, busy)
				}
			},
		})
	})
}

func TestKeysTakeTurns(t *testing.T) {
	var s scheduler
	for i := range 3 {
		s.add(&Request{ID: IntID(int64(i)), route: Route{}})
	}
	s.add(&Request{ID: IntID(3), route: Route{Key: "a"}})
	s.add(&Request{ID: IntID(4), route: Route{Key: "b", Shared: true}})
	s.add(&Request{ID: IntID(5), route: Route{Key: "b", Shared: true}})
	var got []int64
	for r := s.next(); r != nil; r = s.next() {
		got = append(got, r.ID.num)
	}
	if want := "[0 3 4 1 5 2]"; fmt.Sprint(got) != want {
		t.Errorf("order %v, want %s", got, want)
	}
}
