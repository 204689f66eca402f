package queue

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/sdk/llm"
	"pgregory.net/rapid"
)

func entry(id event.ItemID, text string) *Entry {
	return &Entry{ID: id, ClientID: "m-" + string(id), Parts: llm.Parts{&llm.Text{Text: text}}}
}

// show writes a queue as ids and texts.
func show(entries []Entry) (out []string) {
	for _, e := range entries {
		out = append(out, string(e.ID)+"="+llm.Message{Parts: e.Parts}.Text())
	}
	return out
}

func TestDecide(t *testing.T) {
	state, err := json.Marshal([]Entry{*entry("a", "1"), *entry("b", "2"), *entry("c", "3")})
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name   string
		change Change
		want   []string
		err    string
	}{
		{"add", Change{Op: Add, Entry: entry("d", "4")}, []string{"a=1", "b=2", "c=3", "d=4"}, ""},
		{"add twice", Change{Op: Add, Entry: entry("a", "4")}, nil, "queued submission a is in the queue already"},
		{"add nothing", Change{Op: Add}, nil, "input must not be empty"},
		{"add blanks", Change{Op: Add, Entry: entry("d", " ")}, nil, "input must not be empty"},
		{"update", Change{Op: Update, Entry: entry("b", "two")}, []string{"a=1", "b=two", "c=3"}, ""},
		{"update to nothing", Change{Op: Update, Entry: entry("b", "")}, nil, "input must not be empty"},
		{"update what is gone", Change{Op: Update, Entry: entry("x", "two")}, nil, "queued submission not found: x"},
		{"delete", Change{Op: Delete, ID: "a"}, []string{"b=2", "c=3"}, ""},
		{"delete what is gone", Change{Op: Delete, ID: "x"}, nil, "queued submission not found: x"},
		{"order", Change{Op: Order, Order: []event.ItemID{"c", "a", "b"}}, []string{"c=3", "a=1", "b=2"}, ""},
		{"order of some", Change{Op: Order, Order: []event.ItemID{"c", "a"}}, nil, "the order names 2 of 3 queued submissions"},
		{"order with one twice", Change{Op: Order, Order: []event.ItemID{"c", "a", "c"}}, nil, "queued submission c is named twice"},
		{"order of what is gone", Change{Op: Order, Order: []event.ItemID{"c", "a", "x"}}, nil, "queued submission not found: x"},
		{"unknown", Change{Op: "swap"}, nil, `unknown change "swap" of a queue`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			after, data, err := Decide(state, tc.change)
			if tc.err != "" {
				if err == nil || err.Error() != tc.err || data != nil {
					t.Errorf("error %v, want %s", err, tc.err)
				}
				return
			}
			if err != nil || !slices.Equal(show(after), tc.want) {
				t.Errorf("%q, %v, want %q", show(after), err, tc.want)
			}
			next, err := EntriesOf(Feature{}.Apply(state, event.Event{Body: event.FeatureChanged{Feature: ID, Data: data}}))
			if err != nil || !slices.Equal(show(next), tc.want) {
				t.Errorf("applied: %q, %v", show(next), err)
			}
		})
	}
	var full []Entry
	for i := range MaxEntries {
		full = append(full, *entry(event.ItemID(fmt.Sprint(i)), "x"))
	}
	if state, err = json.Marshal(full); err != nil {
		t.Fatal(err)
	}
	if _, _, err := Decide(state, Change{Op: Add, Entry: entry("one more", "x")}); err == nil {
		t.Error("a full queue takes another entry")
	} else if e, ok := errors.AsType[*InvalidError](err); !ok || e.NextStep() == "" {
		t.Errorf("a full queue: %v", err)
	}
}

// An entry leaves the queue with the event with which a turn gets it, and a copy of the thread has no queue.
func TestAnEntryLeaves(t *testing.T) {
	f := Feature{}
	state := json.RawMessage(nil)
	for _, id := range []event.ItemID{"a", "b", "c"} {
		_, data, err := Decide(state, Change{Op: Add, Entry: entry(id, string(id))})
		if err != nil {
			t.Fatal(err)
		}
		state = f.Apply(state, event.Event{Body: event.FeatureChanged{Feature: ID, Data: data}})
	}
	if in, ok := f.NextInput(state, ""); !ok || in.Item != "a" || in.ClientID != "m-a" {
		t.Errorf("the first: %+v", in)
	}
	if in, ok := f.NextInput(state, "c"); !ok || in.Item != "c" {
		t.Errorf("the last: %+v", in)
	}
	if _, ok := f.NextInput(state, "x"); ok {
		t.Error("one that is not there is found")
	}
	state = f.Apply(state, event.Event{Body: event.InputAccepted{Item: "b"}})
	state = f.Apply(state, event.Event{Body: event.InputAccepted{Item: "x"}})
	state = f.Apply(state, event.Event{Body: event.FeatureChanged{Feature: "other", Data: json.RawMessage(`{"op":"delete","id":"a"}`)}})
	if got, _ := EntriesOf(state); !slices.Equal(show(got), []string{"a=a", "c=c"}) {
		t.Errorf("%q", show(got))
	}
	if got := f.Apply(state, event.Event{Body: event.ThreadForked{}}); got != nil {
		t.Errorf("the copy has %s", got)
	}
	state = f.Apply(f.Apply(state, event.Event{Body: event.ItemCompleted{Item: event.Item{ID: "a"}}}), event.Event{Body: event.InputAccepted{Item: "c"}})
	if state != nil {
		t.Errorf("an empty queue is %s", state)
	}
}

// Whatever clients do, the log has the same queue as they were told, with each entry once.
func TestTheLogHasTheQueue(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		state := json.RawMessage(nil)
		ids := rapid.SampledFrom([]event.ItemID{"a", "b", "c", "d"})
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			c := Change{
				Op: rapid.SampledFrom([]Op{Add, Update, Delete, Order}).Draw(t, "op"), ID: ids.Draw(t, "id"),
				Entry: entry(ids.Draw(t, "entry"), rapid.SampledFrom([]string{"1", "2", ""}).Draw(t, "text")),
				Order: rapid.Permutation([]event.ItemID{"a", "b", "c", "d"}).Draw(t, "order"),
			}
			before := slices.Clone(state)
			after, data, err := Decide(state, c)
			if !slices.Equal(before, state) {
				t.Fatal("the state was changed in place")
			}
			if err != nil {
				continue
			}
			state = Feature{}.Apply(state, event.Event{Body: event.FeatureChanged{Feature: ID, Data: data}})
			logged, err := EntriesOf(state)
			if err != nil || !slices.Equal(show(logged), show(after)) {
				t.Fatalf("%q, %v, told %q", show(logged), err, show(after))
			}
			seen := map[event.ItemID]bool{}
			for _, e := range logged {
				if seen[e.ID] {
					t.Fatalf("%s is there twice", e.ID)
				}
				seen[e.ID] = true
			}
		}
	})
}

// No state and no change of another version can stop a thread.
func FuzzApply(f *testing.F) {
	f.Add([]byte(`[{"id":"a","parts":[]}]`), []byte(`{"op":"add","entry":{"id":"b","parts":null}}`))
	f.Add([]byte(`[]`), []byte(`{"op":"order","order":["a","a"]}`))
	f.Add([]byte(`{`), []byte(`null`))
	f.Fuzz(func(t *testing.T, state, data []byte) {
		next := Feature{}.Apply(state, event.Event{Body: event.FeatureChanged{Feature: ID, Data: data}})
		Feature{}.NextInput(next, "")
		var c Change
		if json.Unmarshal(data, &c) == nil {
			_, _, _ = Decide(next, c)
		}
	})
}
