package event

import (
	"bytes"
	"encoding/json"
	"reflect"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// plainly is the JSON of an event as encoding/json makes it from a struct.
func plainly(t rapid.TB, e Event) string {
	body, err := json.Marshal(e.Body)
	if err != nil {
		t.Fatal(err)
	}
	b, err := json.Marshal(eventJSON{e.Seq, e.Thread, e.Turn, e.Time, e.Body.Kind(), body})
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestAppendJSONEqualsMarshal(t *testing.T) {
	at := time.Date(2026, 7, 1, 12, 30, 0, 120_000_000, time.FixedZone("", 5400))
	for _, empty := range everyBody() {
		v := reflect.New(reflect.TypeOf(empty))
		fill(t, v.Elem(), empty.Kind())
		for _, e := range []Event{
			{Seq: 7, Thread: "th", Turn: "tu", Time: at, Body: v.Elem().Interface().(Body)}, {Time: at.UTC(), Body: empty},
		} {
			got, err := e.AppendJSON([]byte("x"))
			if err != nil || string(got) != "x"+plainly(t, e) {
				t.Errorf("%s: %v\n got %s\nwant x%s", empty.Kind(), err, got, plainly(t, e))
			}
		}
	}
	if _, err := (Event{Time: time.Date(10_000, 1, 1, 0, 0, 0, 0, time.UTC), Body: ItemDelta{}}).AppendJSON(nil); err == nil {
		t.Error("a time that JSON does not have was written")
	}
}

// drawText draws what JSON escapes, what is no UTF-8, and what is plain.
var drawText = rapid.Custom(func(t *rapid.T) string {
	return rapid.SampledFrom([]func() string{
		func() string { return rapid.String().Draw(t, "text") },
		func() string { return string(rapid.SliceOf(rapid.Byte()).Draw(t, "bytes")) },
		func() string {
			return rapid.StringMatching(`[a-z<>&"\\/\n\x00\x7f\x{2028}\x{2029}\x{fffd}é世]*`).Draw(t, "odd")
		},
	}).Draw(t, "kind")()
})

func TestDeltasAreWrittenAsMarshalDoes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := Event{
			Seq: rapid.Uint64().Draw(t, "seq"), Thread: ThreadID(drawText.Draw(t, "thread")), Turn: TurnID(drawText.Draw(t, "turn")),
			Time: time.Unix(rapid.Int64Range(0, 1<<34).Draw(t, "s"), rapid.Int64Range(0, 999_999_999).Draw(t, "ns")).UTC(),
			Body: ItemDelta{
				Item: ItemID(drawText.Draw(t, "item")), Delta: DeltaKind(drawText.Draw(t, "delta")),
				Offset: rapid.Int64().Draw(t, "offset"), Text: drawText.Draw(t, "body"),
			},
		}
		got, err := e.AppendJSON(nil)
		if err != nil || string(got) != plainly(t, e) {
			t.Fatalf("%v\n got %s\nwant %s", err, got, plainly(t, e))
		}
	})
}

// BenchmarkDelta writes a delta as a line.
func BenchmarkDelta(b *testing.B) {
	e := Event{
		Thread: NewThreadID(), Turn: NewTurnID(), Time: time.Now().UTC(),
		Body: ItemDelta{Item: NewItemID(), Delta: DeltaText, Offset: 4711, Text: " lantern"},
	}
	b.Run("append", func(b *testing.B) {
		b.ReportAllocs()
		var line []byte
		var err error
		for b.Loop() {
			if line, err = e.AppendJSON(line[:0]); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("encoder", func(b *testing.B) {
		b.ReportAllocs()
		var out bytes.Buffer
		enc := json.NewEncoder(&out)
		for b.Loop() {
			out.Reset()
			if err := enc.Encode(e); err != nil {
				b.Fatal(err)
			}
		}
	})
}
