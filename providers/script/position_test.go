package script_test

import (
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/providers/script"
	"github.com/gantry-agent/gantry/sdk/llm"
)

func TestPositionNeverGoesBack(t *testing.T) {
	t.Parallel()
	p, err := script.Load("x", []byte("[[step]]\ndo=[{text=\"one\"}]\n[[step]]\ndo=[{text=\"two\"}]\n[[step]]\ndo=[{text=\"three\"}]\n[[step]]\ndo=[{text=\"four\"}]"))
	if err != nil {
		t.Fatal(err)
	}
	h := newHost(t, p)
	h.turn("a")
	kept := len(h.req.Messages)
	h.turn("b")
	h.turn("c")
	// The host rolls back two turns; who remembers the thread goes on, as a server with canned answers would.
	h.req.Messages = h.req.Messages[:kept]
	if got := h.turn("d"); got != "four" {
		t.Errorf("remembered: %q", got)
	}
	// Who does not remember it goes by the conversation.
	h.req.Messages, h.forget = h.req.Messages[:kept], true
	if got := h.turn("e"); got != "two" {
		t.Errorf("derived: %q", got)
	}
}

func TestPositionOfAnotherScriptIsIgnored(t *testing.T) {
	t.Parallel()
	load := func(text string) *script.Player {
		p, err := script.Load("x", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	h := newHost(t, load("[[step]]\ndo=[{text=\"one\"}]\n[[step]]\ndo=[{text=\"two\"}]"))
	h.turn("a")
	// The script was edited: its second answer is new. One assistant message is there, so one step is behind us.
	h.player = load("[[step]]\ndo=[{text=\"one\"}]\n[[step]]\ndo=[{text=\"other\"}]")
	if got := h.turn("b"); got != "other" {
		t.Errorf("got %q, %v", got, h.last)
	}
}

func TestReplayPassesOverStepsThatLeaveNothing(t *testing.T) {
	t.Parallel()
	p, err := script.Load("x", []byte(`
		[[step]]
		error = {code = "rate-limit"}
		[[step]]
		capture = [{from = "conversation", pattern = 'user: (?P<what>\w+)'}]
		do = [{text = "one"}]
		[[step]]
		do = [{text = "two ${what}"}]`))
	if err != nil {
		t.Fatal(err)
	}
	req := &llm.Request{Messages: []llm.Message{
		{Role: llm.RoleUser, Parts: llm.Parts{&llm.Text{Text: "apples"}}},
		{Role: llm.RoleAssistant, Parts: llm.Parts{&llm.Text{Text: "one"}}},
		{Role: llm.RoleUser, Parts: llm.Parts{&llm.Text{Text: "pears"}}},
	}}
	a, err := p.Play(script.Input{Request: req})
	if err != nil {
		t.Fatal(err)
	}
	if got := render(a.Actions); !strings.Contains(got, "two apples") || a.Position.Request != 3 {
		t.Errorf("request %d: %s", a.Position.Request, got)
	}
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, script string
		want         []string
	}{
		{"used up", "[[step]]\ndo=[{text=\"a\"}]", []string{"script x: no step answers request 2; all 1 steps are used up", "the conversation is: D X U A U"}},
		{"nothing matches", "[[step]]\ntimes=-1\nwhen={answers=0}\ndo=[{text=\"a\"}]\n[[step]]\nname=\"sum\"\nwhen={user=\"sum\"}", []string{
			"no step answers request 2", "step 1 does not match:\n  - answers: wanted to be 0\n  + answers: 1", "step 2 \"sum\" does not match:\n  - user: wanted to match /sum/\n  + user: question"}},
		{"expectation", "[[step]]\n[[step]]\nexpect=[{user=\"sum\", message=\"sums only\"}]", []string{"script x, step 2: request 2 is not as expected (sums only)\n- user: wanted to match /sum/\n+ user: question"}},
		{"capture", "[[step]]\n[[step]]\ncapture=[{from=\"conversation\",pattern='(?P<n>\\d+)'}]", []string{"script x, step 2: capture 1: /(?P<n>\\d+)/ does not match the conversation: base: base⏎"}},
		{"capture of a call", "[[step]]\n[[step]]\ncapture=[{call=\"c7\",pattern='(?P<n>\\d+)'}]", []string{"the result of c7, which is not there"}},
		{"variable", "[[step]]\n[[step]]\ndo=[{text=\"${n}\"}]\n[[step]]\ncapture=[{pattern='(?P<n>\\d+)'}]", []string{"step 2: do 1: ${n} is not set yet"}},
		{"length", "[[step]]\n[[step]]\ndo=[{text=\"" + strings.Repeat("x", 1<<20) + "\",chunk=1}]", []string{"the answer is longer than"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			p, err := script.Load("x", []byte(tc.script))
			if err != nil {
				t.Fatal(err)
			}
			h := newHost(t, p)
			h.turn("question")
			h.turn("question")
			if h.last == nil || h.last.Code != llm.ErrInvalidRequest || h.last.Retryable || h.last.Next == "" {
				t.Fatalf("error %#v", h.last)
			}
			for _, w := range tc.want {
				if !strings.Contains(h.last.Message, w) {
					t.Errorf("got  %s\nwant %s", h.last.Message, w)
				}
			}
		})
	}
}

// Hosts differ in how many messages they make of an answer; conditions count answers all the same.
func TestAnswersAreCountedNotMessages(t *testing.T) {
	t.Parallel()
	p, err := script.Load("x", []byte(`
		[[step]]
		again = true
		do = [{reasoning = "hm"}, {text = "one "}, {text = "two"}]
		[[step]]
		expect = [{answers = 1, since_user = 1}]
		do = [{text = "three"}, {call = "a"}, {call = "b"}]
		[[step]]
		expect = [{answers = 2, since_user = 2, output = '^a\nb$'}]
		do = [{text = "four"}]
		[[step]]
		expect = [{answers = 3, since_user = 0}]
		do = [{text = "five"}]`))
	if err != nil {
		t.Fatal(err)
	}
	for _, split := range []bool{false, true} {
		for _, forget := range []bool{false, true} {
			h := newHost(t, p)
			h.split, h.forget = split, forget
			h.tool = func(c *llm.ToolCall) (string, bool) { return c.Name, true }
			if got := h.turn("go"); got != "four" {
				t.Errorf("split %t, forget %t: turn 1: %q, %v", split, forget, got, h.last)
			}
			if got := h.turn("go"); got != "five" {
				t.Errorf("split %t, forget %t: turn 2: %q, %v", split, forget, got, h.last)
			}
		}
	}
}
