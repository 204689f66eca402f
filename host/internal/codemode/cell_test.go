package codemode

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/sdk/codemode/frame"
	"github.com/gantry-agent/gantry/sdk/contract"
)

// However much a script outputs, notes and stores, the host keeps a bounded part, and says so; the next answer begins anew.
func TestCellIsBounded(t *testing.T) {
	c := &cell{thread: New(Config{}, nil), id: "7"}
	emit := func(kind string, v any) {
		raw, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		c.Emit(frame.Emit{Kind: kind, Value: raw})
	}
	for i := range 2 * maxOutput / itemBytes {
		c.Log("")
		if i%1000 == 0 {
			emit("notify", strings.Repeat("n", 1000))
			emit("store", map[string]any{"key": fmt.Sprint(i), "value": `"` + strings.Repeat("s", 10_000) + `"`})
		}
	}
	if n, most := len(c.items), maxOutput/itemBytes; n != most {
		t.Errorf("%d items, want %d", n, most)
	}
	if n := len(c.thread.notes); n == 0 || n > maxNotes/1000 {
		t.Errorf("%d notes of 1000 bytes", n)
	}
	if n := len(c.stored); n == 0 || n > maxStored/10_000 {
		t.Errorf("%d values of 10,000 bytes", n)
	}
	items := c.take()
	if last := items[len(items)-1].(*contract.TextPart).Text; !strings.HasPrefix(last, "[output beyond 8 MiB") {
		t.Errorf("the last item is %q", last)
	}
	c.thread.TakeNotes()
	var shown []string
	c.observed(&observer{progress: func(text string) { shown = append(shown, text) }}, catalogue{})
	c.Log("more")
	emit("notify", "again")
	notes := c.thread.TakeNotes()
	if items := c.take(); len(items) != 1 || len(notes) != 1 || notes[0] != "Note of the script in exec cell 7: again" {
		t.Errorf("%d items and the notes %q after an answer, want one of each", len(items), notes)
	}
	if len(shown) != 1 || shown[0] != "again" {
		t.Errorf("people were shown %q", shown)
	}
	emit("store", map[string]any{"key": "0", "value": nil})
	if v, ok := c.stored["0"]; !ok || v != nil {
		t.Errorf("a deleted value is %s, %v", v, ok)
	}
}
