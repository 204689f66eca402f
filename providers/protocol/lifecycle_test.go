package protocol_test

import (
	"encoding/json"
	"testing"

	"pgregory.net/rapid"

	"github.com/gantry-agent/gantry/providers/protocol"
	"github.com/gantry-agent/gantry/providers/protocoltest"
	"github.com/gantry-agent/gantry/sdk/llm"
)

const (
	text      = llm.BlockText
	reasoning = llm.BlockReasoning
)

func render(events []llm.Event) string { return protocoltest.Render("v", events) }

func TestLifecycle(t *testing.T) {
	t.Parallel()
	stop := llm.StepFinish{Reason: llm.FinishStop}
	for _, tc := range []struct {
		name string
		do   func(l *protocol.Lifecycle, dst []llm.Event) []llm.Event
		want string
	}{
		{"an answer without words", func(l *protocol.Lifecycle, dst []llm.Event) []llm.Event {
			return l.Finish(dst, stop, nil)
		}, `S+ SF(stop) F(stop)`},
		{"begins once, ends once", func(l *protocol.Lifecycle, dst []llm.Event) []llm.Event {
			l.Step = llm.StepStart{ServedModel: "m"}
			dst = l.Start(l.Start(dst))
			return l.Finish(l.Finish(dst, stop, nil), stop, nil)
		}, `S+(model=m) SF(stop) F(stop)`},
		{"a delta begins its block", func(l *protocol.Lifecycle, dst []llm.Event) []llm.Event {
			dst = l.Delta(dst, text, "a", "")
			dst = l.Delta(dst, text, "a", "x")
			return l.Close(l.Delta(dst, text, "a", "y"), text, "a", nil)
		}, `S+ T+a T~"x" T~"y" T-`},
		{"a block opens once and closes once", func(l *protocol.Lifecycle, dst []llm.Event) []llm.Event {
			dst = l.Open(dst, text, "a", protocol.Meta{"n": 1})
			dst = l.Open(dst, text, "a", protocol.Meta{"n": 2})
			dst = l.Close(dst, text, "a", nil)
			return l.Close(dst, text, "a", nil)
		}, `S+ T+a@{"n":1} T-@{"n":1}`},
		{"the end's metadata lies over the start's", func(l *protocol.Lifecycle, dst []llm.Event) []llm.Event {
			dst = l.Open(dst, reasoning, "a", protocol.Meta{"id": "r", "n": 1})
			return l.Close(dst, reasoning, "a", protocol.Meta{"n": 2, "sig": "<s>"})
		}, `S+ R+a@{"id":"r","n":1} R-@{"id":"r","n":2,"sig":"<s>"}`},
		{"the caller's metadata stays the caller's", func(l *protocol.Lifecycle, dst []llm.Event) []llm.Event {
			mine := protocol.Meta{"n": 1}
			dst = l.Close(l.Open(dst, text, "a", mine), text, "a", protocol.Meta{"n": 2})
			return l.Close(l.Open(dst, text, "b", mine), text, "b", nil)
		}, `S+ T+a@{"n":1} T-@{"n":2} T+b@{"n":1} T-@{"n":1}`},
		{"reasoning ends first, then text, then the answer", func(l *protocol.Lifecycle, dst []llm.Event) []llm.Event {
			dst = l.Delta(dst, text, "t", "x")
			dst = l.Delta(dst, reasoning, "r1", "y")
			dst = l.Delta(dst, reasoning, "r2", "z")
			return l.Finish(dst, stop, protocol.Meta{"id": 1})
		}, `S+ T+t T~"x" R+r1 R~"y" R+r2 R~"z" R-r1 R- T- SF(stop) F(stop)@{"id":1}`},
		{"the same id for text and reasoning", func(l *protocol.Lifecycle, dst []llm.Event) []llm.Event {
			dst = l.Delta(dst, text, "0", "x")
			dst = l.Delta(dst, reasoning, "0", "y")
			return l.CloseAll(dst, text)
		}, `S+ T+0 T~"x" R+0 R~"y" T-`},
		{"an id that comes again is another block", func(l *protocol.Lifecycle, dst []llm.Event) []llm.Event {
			for range 3 {
				dst = l.Close(l.Delta(dst, text, "a", "x"), text, "a", nil)
			}
			return dst
		}, `S+ T+a T~"x" T- T+a#2 T~"x" T- T+a#3 T~"x" T-`},
		{"a vendor that counts so itself", func(l *protocol.Lifecycle, dst []llm.Event) []llm.Event {
			for _, id := range []string{"a#2", "a", "a", "a#2"} {
				dst = l.Close(l.Open(dst, text, id, nil), text, id, nil)
			}
			return dst
		}, `S+ T+a#2 T- T+a T- T+a#3 T- T+a#2#2 T-`},
		{"nothing follows the end", func(l *protocol.Lifecycle, dst []llm.Event) []llm.Event {
			dst = l.Finish(dst, stop, nil)
			dst = l.Start(dst)
			dst = l.Open(dst, text, "a", nil)
			dst = l.Delta(dst, text, "a", "x")
			dst = l.Close(dst, text, "a", nil)
			return l.CloseAll(dst, text)
		}, `S+ SF(stop) F(stop)`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			l := &protocol.Lifecycle{Namespace: "v"}
			if got := render(tc.do(l, nil)); got != tc.want {
				t.Errorf("got  %s\nwant %s", got, tc.want)
			}
		})
	}
}

// Whatever a vendor does in whatever order, the events keep theirs.
func TestLifecycleAndCallsKeepTheOrder(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		l := &protocol.Lifecycle{Namespace: "v"}
		c := &protocol.Calls{Life: l}
		var order llm.Checker
		checked := 0
		ids := rapid.SampledFrom([]string{"a", "b", "a#2", "b#2#2"})
		kinds := rapid.SampledFrom([]llm.BlockKind{text, reasoning})
		inputs := rapid.SampledFrom([]string{"", "{}", `{"a"`, ":1}", "x"})
		var events []llm.Event
		for range rapid.IntRange(0, 30).Draw(t, "steps") {
			var err error
			id := ids.Draw(t, "id")
			switch rapid.IntRange(0, 10).Draw(t, "what") {
			case 0:
				events = l.Start(events)
			case 1:
				events = l.Open(events, kinds.Draw(t, "kind"), id, nil)
			case 2:
				events = l.Delta(events, kinds.Draw(t, "kind"), id, inputs.Draw(t, "text"))
			case 3:
				events = l.Close(events, kinds.Draw(t, "kind"), id, nil)
			case 4:
				events = l.CloseAll(events, kinds.Draw(t, "kind"))
			case 5:
				call := llm.ToolCall{ID: ids.Draw(t, "call"), Name: "f", Freeform: rapid.Bool().Draw(t, "freeform")}
				events = c.Start(events, id, call, nil)
			case 6:
				events, _ = c.Append(events, id, inputs.Draw(t, "input"))
			case 7:
				events = c.Settle(events, id, inputs.Draw(t, "input"))
			case 8:
				events, err = c.Finish(events, id, nil)
			case 9:
				events = c.Whole(events, llm.ToolCall{ID: ids.Draw(t, "call"), Name: "f"}, nil)
			case 10:
				if rapid.IntRange(0, 5).Draw(t, "end") == 0 {
					if events, err = c.FinishAll(events); err == nil {
						events = l.Finish(events, llm.StepFinish{Reason: llm.FinishStop}, nil)
					}
				}
			}
			if err != nil {
				t.Fatalf("calls of ours have no error: %v", err)
			}
			for _, e := range events[checked:] {
				if err := order.Check(e); err != nil {
					t.Fatalf("%v\n%s", err, render(events))
				}
				checked++
			}
		}
	})
}

func TestMeta(t *testing.T) {
	t.Parallel()
	if md := (protocol.Meta{}).Under("v"); md != nil {
		t.Errorf("nothing is kept as %s", md)
	}
	if md := (protocol.Meta{"a": 1}).Under(""); md != nil {
		t.Errorf("without a namespace there is %s", md)
	}
	raw := json.RawMessage(`[{"text":"<b>&\u2028"}]`)
	md := protocol.Meta{"details": raw, "id": "x"}.Under("v")
	if got, want := string(md["v"]), `{"details":[{"text":"<b>&\u2028"}],"id":"x"}`; got != want {
		t.Errorf("metadata is %s, want %s", got, want)
	}
	var back struct {
		ID      string
		Details json.RawMessage
	}
	if !protocol.MetaOf(md, "v", &back) || back.ID != "x" || string(back.Details) != string(raw) {
		t.Errorf("read back: %+v", back)
	}
	if protocol.MetaOf(md, "w", &back) || protocol.MetaOf(llm.Metadata{"w": json.RawMessage("{")}, "w", &back) {
		t.Error("what is missing or malformed was read")
	}
}
