package appserver

import (
	"strings"
	"testing"
)

// What was queued for a slow client and dropped is sent from the log: the client has the events before it only.
func TestADroppedQueue(t *testing.T) {
	s := &subscription{client: &client{}, wake: make(chan struct{}, 1), last: 4}
	large := strings.Repeat("x", maxQueued/2)
	for seq := range uint64(3) {
		s.push(&outgoing{method: "item/completed", params: large, seq: 5 + seq})
	}
	if !s.behind || s.last != 4 || len(s.queue) != 0 {
		t.Errorf("behind: %v, after event %d, %d messages wait", s.behind, s.last, len(s.queue))
	}
}
