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
	c := &cell{}
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
	if n := len(c.notes); n == 0 || n > maxNotes/1000 {
		t.Errorf("%d notes of 1000 bytes", n)
	}
	if n := len(c.stored); n == 0 || n > maxStored/10_000 {
		t.Errorf("%d values of 10,000 bytes", n)
	}
	items, _ := c.take()
	if last := items[len(items)-1].(*contract.TextPart).Text; !strings.HasPrefix(last, "[output beyond 8 MiB") {
		t.Errorf("the last item is %q", last)
	}
	c.Log("more")
	emit("notify", "again")
	if items, notes := c.take(); len(items) != 1 || len(notes) != 1 {
		t.Errorf("%d items and %d notes after an answer, want one of each", len(items), len(notes))
	}
	emit("store", map[string]any{"key": "0", "value": nil})
	if v, ok := c.stored["0"]; !ok || v != nil {
		t.Errorf("a deleted value is %s, %v", v, ok)
	}
}
