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

// A call evaluates to its structured result, or else to what the model would read, uncut; a failure is an error with that text.
func TestValue(t *testing.T) {
	text := func(s string) *contract.TextPart { return &contract.TextPart{Text: s} }
	for name, tc := range map[string]struct {
		result contract.Result
		value  string
		err    string
	}{
		"text":               {contract.Result{Parts: []contract.Part{text("a"), text("b")}}, `"ab"`, ""},
		"structured":         {contract.Result{Parts: []contract.Part{text("a")}, Structured: json.RawMessage(`{"n":1}`)}, `{"n":1}`, ""},
		"nothing":            {contract.Result{}, `""`, ""},
		"for people":         {contract.Result{Parts: []contract.Part{&contract.TextPart{Text: "a", Audience: contract.AudienceUser}, text("b")}}, `"b"`, ""},
		"JSON":               {contract.Result{Parts: []contract.Part{&contract.JSONPart{JSON: json.RawMessage(`[1]`)}}}, `"[1]"`, ""},
		"error":              {contract.Result{Parts: []contract.Part{text("boom")}, IsError: true, Structured: json.RawMessage(`1`)}, "", "boom"},
		"error that is mute": {contract.Result{IsError: true}, "", "Tool call failed"},
		"aborted":            {contract.Result{Aborted: true}, "", "Tool call failed"},
	} {
		got, err := value(&tc.result)
		if string(got) != tc.value || (err != nil) != (tc.err != "") || err != nil && err.Error() != tc.err {
			t.Errorf("%s: %s, %v", name, got, err)
		}
	}
}
