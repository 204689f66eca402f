package protocol_test

import (
	"testing"

	"github.com/gantry-agent/gantry/providers/protocol"
	"github.com/gantry-agent/gantry/sdk/llm"
)

func look(id string) llm.ToolCall { return llm.ToolCall{ID: id, Name: "look"} }

func TestCalls(t *testing.T) {
	t.Parallel()
	type doing func(c *protocol.Calls, dst []llm.Event) []llm.Event
	// finish ends a call that must not be an error.
	finish := func(c *protocol.Calls, dst []llm.Event, key string, meta protocol.Meta) []llm.Event {
		dst, err := c.Finish(dst, key, meta)
		if err != nil {
			t.Error(err)
		}
		return dst
	}
	add := func(c *protocol.Calls, dst []llm.Event, key, s string) []llm.Event {
		dst, ok := c.Append(dst, key, s)
		if !ok {
			t.Errorf("no call at %s", key)
		}
		return dst
	}
	for _, tc := range []struct {
		name  string
		do    doing
		want  string
		local bool
	}{
		{"in pieces", func(c *protocol.Calls, dst []llm.Event) []llm.Event {
			dst = c.Start(dst, "0", look("c1"), nil)
			dst = add(c, dst, "0", `{"q":`)
			dst = add(c, dst, "0", "")
			dst = add(c, dst, "0", `"x"}`)
			return finish(c, dst, "0", nil)
		}, `S+ I+c1 look I~"{\"q\":" I~"\"x\"}" I- C c1 look {"q":"x"}`, true},
		{"without input", func(c *protocol.Calls, dst []llm.Event) []llm.Event {
			return finish(c, c.Start(dst, "0", look("c1"), nil), "0", nil)
		}, `S+ I+c1 look I- C c1 look {}`, true},
		{"no JSON", func(c *protocol.Calls, dst []llm.Event) []llm.Event {
			dst = add(c, c.Start(dst, "0", look("c1"), nil), "0", `{"q":`)
			return finish(c, dst, "0", nil)
		}, `S+ I+c1 look I~"{\"q\":" I!c1 "{\"q\":"`, true},
		{"raw text", func(c *protocol.Calls, dst []llm.Event) []llm.Event {
			call := look("c1")
			call.Freeform = true
			return finish(c, add(c, c.Start(dst, "0", call, nil), "0", `{"q":`), "0", nil)
		}, `S+ I+c1 look(freeform) I~"{\"q\":" I- C c1 look(freeform) "{\"q\":"`, true},
		{"raw text that is empty", func(c *protocol.Calls, dst []llm.Event) []llm.Event {
			call := look("c1")
			call.Freeform = true
			return finish(c, c.Start(dst, "0", call, nil), "0", nil)
		}, `S+ I+c1 look(freeform) I- C c1 look(freeform) ""`, true},
		{"the vendor's own call", func(c *protocol.Calls, dst []llm.Event) []llm.Event {
			call := look("c1")
			call.ProviderExecuted = true
			return finish(c, c.Start(dst, "0", call, nil), "0", nil)
		}, `S+ I+c1 look(hosted) I- C c1 look(hosted) {}`, false},
		{"the final input goes on where the pieces ended", func(c *protocol.Calls, dst []llm.Event) []llm.Event {
			dst = add(c, c.Start(dst, "0", look("c1"), nil), "0", `{"a"`)
			return finish(c, c.Settle(dst, "0", `{"a":1}`), "0", nil)
		}, `S+ I+c1 look I~"{\"a\"" I~":1}" I- C c1 look {"a":1}`, true},
		{"the final input is another one", func(c *protocol.Calls, dst []llm.Event) []llm.Event {
			dst = add(c, c.Start(dst, "0", look("c1"), nil), "0", `{"b"`)
			return finish(c, c.Settle(dst, "0", `{"a":1}`), "0", nil)
		}, `S+ I+c1 look I~"{\"b\"" I- C c1 look {"a":1}`, true},
		{"input that came with the start", func(c *protocol.Calls, dst []llm.Event) []llm.Event {
			call := look("c1")
			call.Input = `{"a":1}`
			return finish(c, c.Start(dst, "0", call, nil), "0", nil)
		}, `S+ I+c1 look I- C c1 look {"a":1}`, true},
		{"metadata of start and end", func(c *protocol.Calls, dst []llm.Event) []llm.Event {
			dst = c.Start(dst, "0", look("c1"), protocol.Meta{"id": "i", "n": 1})
			return finish(c, dst, "0", protocol.Meta{"n": 2})
		}, `S+ I+c1 look I-@{"id":"i","n":2} C c1 look {}@{"id":"i","n":2}`, true},
		{"two at a time, ended in the order of their start", func(c *protocol.Calls, dst []llm.Event) []llm.Event {
			dst = c.Start(dst, "1", look("b"), nil)
			dst = c.Start(dst, "0", look("a"), nil)
			dst = add(c, dst, "1", "{}")
			if p := c.Pending(); len(p) != 2 || p[0] != "1" || p[1] != "0" {
				t.Errorf("pending are %v", p)
			}
			dst, err := c.FinishAll(dst)
			if err != nil {
				t.Error(err)
			}
			return dst
		}, `S+ I+b look I+a look I~b"{}" I-b C b look {} I- C a look {}`, true},
		{"an open place begins nothing new", func(c *protocol.Calls, dst []llm.Event) []llm.Event {
			dst = c.Start(dst, "0", look("c1"), nil)
			return c.Start(dst, "0", look("c2"), nil)
		}, `S+ I+c1 look`, false},
		{"an id is used once", func(c *protocol.Calls, dst []llm.Event) []llm.Event {
			dst = finish(c, c.Start(dst, "0", look("c1"), nil), "0", nil)
			dst = c.Whole(dst, look("c1"), nil)
			dst = c.Start(dst, "1", look("c1"), nil)
			if c.Open("1") || !c.Used("c1") || c.Used("c2") {
				t.Error("the second call is there")
			}
			return finish(c, dst, "1", nil)
		}, `S+ I+c1 look I- C c1 look {}`, true},
		{"a place without a call", func(c *protocol.Calls, dst []llm.Event) []llm.Event {
			if _, ok := c.Append(dst, "7", "x"); ok {
				t.Error("input was added to nothing")
			}
			return finish(c, c.Settle(dst, "7", "{}"), "7", nil)
		}, ``, false},
		{"whole", func(c *protocol.Calls, dst []llm.Event) []llm.Event {
			return c.Whole(dst, look("c1"), protocol.Meta{"sig": "s"})
		}, `S+ C c1 look {}@{"sig":"s"}`, true},
		{"whole, of the vendor", func(c *protocol.Calls, dst []llm.Event) []llm.Event {
			return c.Whole(dst, llm.ToolCall{ID: "c1", Name: "search", Input: `{"q":1}`, ProviderExecuted: true}, nil)
		}, `S+ C c1 search(hosted) {"q":1}`, false},
		{"cut off", func(c *protocol.Calls, dst []llm.Event) []llm.Event {
			dst = add(c, c.Start(dst, "0", look("c1"), nil), "0", `{"q":`)
			c.Discard()
			return finish(c, dst, "0", nil)
		}, `S+ I+c1 look I~"{\"q\":"`, false},
		{"after the end", func(c *protocol.Calls, dst []llm.Event) []llm.Event {
			dst = c.Life.Finish(dst, llm.StepFinish{Reason: llm.FinishStop}, nil)
			return c.Whole(c.Start(dst, "0", look("c1"), nil), look("c2"), nil)
		}, `S+ SF(stop) F(stop)`, false},
		{"names of the wire", func(c *protocol.Calls, dst []llm.Event) []llm.Event {
			c.Names = protocol.NewNames([]llm.Tool{{Namespace: "db", Name: "query"}})
			dst = c.Start(dst, "0", llm.ToolCall{ID: "c1", Name: "db__query"}, nil)
			return c.Whole(finish(c, dst, "0", nil), llm.ToolCall{ID: "c2", Name: "db__query"}, nil)
		}, `S+ I+c1 db.query I- C c1 db.query {} C c2 db.query {}`, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			c := &protocol.Calls{Life: &protocol.Lifecycle{Namespace: "v"}}
			if got := render(tc.do(c, nil)); got != tc.want {
				t.Errorf("got  %s\nwant %s", got, tc.want)
			}
			if c.Local() != tc.local {
				t.Errorf("local is %v", c.Local())
			}
		})
	}
}

func TestBadInputOfAHostedCallIsAnError(t *testing.T) {
	t.Parallel()
	c := &protocol.Calls{Life: &protocol.Lifecycle{}}
	call := look("c1")
	call.ProviderExecuted, call.Input = true, "{"
	dst := c.Start(nil, "0", call, nil)
	dst, err := c.FinishAll(dst)
	e, ok := err.(*llm.Error)
	if !ok || e.Code != llm.ErrInvalidOutput || render(dst) != "S+ I+c1 look(hosted)" {
		t.Errorf("%s, %v", render(dst), err)
	}
}
