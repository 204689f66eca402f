package render

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/host/internal/event"
)

// pieces keeps what is written, write by write.
type pieces []string

func (p *pieces) Write(b []byte) (int, error) {
	*p = append(*p, string(b))
	return len(b), nil
}

func TestEventsAreWrittenWhenNothingMoreWaits(t *testing.T) {
	var got pieces
	v := &eventsView{out: &got}
	delta := event.Event{Body: event.ItemDelta{Text: "x"}}
	show := func(e event.Event, more bool) {
		t.Helper()
		if err := v.Event(e, more); err != nil {
			t.Fatal(err)
		}
	}
	show(delta, false)
	if len(got) != 1 {
		t.Fatalf("a lone event was held back: %q", got)
	}
	for _, more := range []bool{true, true, false} {
		show(delta, more)
	}
	if len(got) != 2 || strings.Count(got[1], "\n") != 3 {
		t.Errorf("three that came together were written as %q", got[1:])
	}
	for range maxUnwritten {
		show(delta, true)
	}
	for _, piece := range got {
		if len(piece) > 2*maxUnwritten || !strings.HasSuffix(piece, "}\n") {
			t.Errorf("a piece of %d bytes ends with %q", len(piece), piece[max(0, len(piece)-10):])
		}
	}
	show(event.Event{Body: event.TurnEnded{}}, true) // of the next turn something waits already
	if err := v.Ended(event.TurnEnded{}); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSuffix(strings.Join(got, ""), "\n"), "\n")
	if want := 1 + 3 + maxUnwritten + 1; len(lines) != want {
		t.Errorf("%d lines, want %d", len(lines), want)
	}
	for _, l := range lines {
		if !json.Valid([]byte(l)) {
			t.Fatalf("no JSON: %q", l)
		}
	}
	if !strings.Contains(lines[len(lines)-1], "turn.ended") {
		t.Errorf("the last line is %s", lines[len(lines)-1])
	}
}

type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("disk full") }

func TestEventsThatAreNotWrittenAreAnError(t *testing.T) {
	v := &eventsView{out: full{}}
	if err := v.Event(event.Event{Body: event.ItemDelta{}}, false); err == nil {
		t.Error("nobody hears that the output is lost")
	}
}
