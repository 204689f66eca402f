package tool

import (
	"bytes"
	"context"
	"fmt"
	"testing"
	"time"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/gantry-agent/gantry/sdk/contract"
	gantryv1 "github.com/gantry-agent/gantry/sdk/proto/gantry/v1"
)

// Whatever a handler does, whenever: the host sees its events in its order, the output complete up to the cap, in deltas
// that are not too large.
func TestOutboxKeepsTheOrder(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		maxOutput := rapid.SampledFrom([]int64{10, 1000, 1 << 20}).Draw(r, "cap")
		steps := rapid.SliceOfN(rapid.Custom(drawStep), 0, 30).Draw(r, "steps")
		stall := rapid.SampledFrom([]time.Duration{0, time.Millisecond, 50 * time.Millisecond}).Draw(r, "host takes")
		rapid.SyncTest(r, func(t *rapid.T) {
			out := newOutbox(maxOutput, 1<<20, false)
			var got []*gantryv1.CallResponse
			done := make(chan error, 1)
			go func() { // owned by the test
				done <- out.run(t.Context(), func(m *gantryv1.CallResponse) error {
					time.Sleep(stall)
					got = append(got, m)
					return nil
				})
			}()
			var want model
			want.cap = maxOutput
			for _, s := range steps {
				s.do(t, out, &want)
			}
			if !out.end(&gantryv1.CallResult{SessionId: "end"}) || out.end(&gantryv1.CallResult{}) {
				t.Error("the first result must count, and only the first")
			}
			if err := <-done; err != nil {
				t.Fatal(err)
			}
			want.compare(t, got, out.dropped.Load())
		})
	})
}

// step is something that a handler does.
type step struct {
	output []byte
	event  bool
	pause  time.Duration
}

// GoString keeps what a failure prints readable.
func (s step) GoString() string {
	switch {
	case s.event:
		return "event"
	case s.output != nil:
		return fmt.Sprintf("%d bytes %.10q…", len(s.output), s.output)
	}
	return s.pause.String()
}

func drawStep(r *rapid.T) step {
	switch rapid.IntRange(0, 3).Draw(r, "kind") {
	case 0:
		return step{event: true}
	case 1:
		return step{pause: rapid.SampledFrom([]time.Duration{1, flushAfter - 1, flushAfter, time.Second}).Draw(r, "pause")}
	}
	piece := rapid.SampledFrom([]string{"a", "é", "\xe2", "\x82", "\xac", "\xff", "line\n", "€uro"}).Draw(r, "piece")
	return step{output: bytes.Repeat([]byte(piece), rapid.SampledFrom([]int{1, 2, 3, 100, 5000}).Draw(r, "times"))}
}

func (s step) do(t *rapid.T, out *outbox, want *model) {
	var err error
	switch {
	case s.event:
		want.notes++
		want.before = append(want.before, len(want.output))
		err = out.event(context.Background(), contract.Note{Text: fmt.Sprint(want.notes)})
	case s.output != nil:
		keep := min(int64(len(s.output)), want.cap-int64(len(want.output)))
		want.dropped += int64(len(s.output)) - keep
		want.output = append(want.output, s.output[:keep]...)
		err = out.output(context.Background(), s.output)
	default:
		time.Sleep(s.pause) // in the bubble
	}
	if err != nil {
		t.Error(err)
	}
}

// model is what the host must have seen.
type model struct {
	cap     int64
	output  []byte
	dropped int64
	notes   int
	before  []int // bytes of output before each note
}

func (m *model) compare(t *rapid.T, got []*gantryv1.CallResponse, dropped int64) {
	var output []byte
	notes, deltas := 0, 0
	for i, e := range got {
		switch e := e.GetEvent().(type) {
		case *gantryv1.CallResponse_Started:
			if i != 0 {
				t.Errorf("started is event %d", i)
			}
		case *gantryv1.CallResponse_Output:
			d := e.Output.GetData()
			if e.Output.GetOffset() != int64(len(output)) || len(d) == 0 || len(d) > maxDelta || !utf8.Valid(d) && len(d) != 1 {
				t.Errorf("delta of %d bytes at %d, expected at %d", len(d), e.Output.GetOffset(), len(output))
			}
			output = append(output, d...)
			deltas++
		case *gantryv1.CallResponse_Note:
			if i == len(got)-2 && dropped > 0 {
				continue // says how much was dropped
			}
			notes++
			if e.Note.GetText() != fmt.Sprint(notes) {
				t.Errorf("note %s where %d was due", e.Note.GetText(), notes)
			}
			// The beginning of a character may come after the note that followed it, its rest is not there yet.
			if at := m.before[notes-1]; deltas < maxDeltas && (len(output) > at || len(output) < at-(utf8.UTFMax-1)) {
				t.Errorf("note %d after %d bytes of output, was put after %d", notes, len(output), at)
			}
		case *gantryv1.CallResponse_Result:
			if i != len(got)-1 || e.Result.GetSessionId() != "end" {
				t.Errorf("result %v is event %d of %d", e.Result, i, len(got))
			}
		}
	}
	if notes != m.notes || got[0].GetStarted() == nil || got[len(got)-1].GetResult() == nil {
		t.Errorf("%d notes of %d in %d events", notes, m.notes, len(got))
	}
	if !bytes.HasPrefix(m.output, output) || dropped != m.dropped+int64(len(m.output)-len(output)) || deltas < maxDeltas && len(output) != len(m.output) {
		t.Errorf("%d bytes of %d arrived in %d deltas, %d dropped instead of %d", len(output), len(m.output), deltas, dropped, m.dropped)
	}
}
