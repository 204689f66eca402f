package llm

import (
	"errors"
	"reflect"
	"strings"
	"testing"
)

// script turns a line such as "S+ T+a T~a:Hi T- SF F" into events. Notation: S+ step-start; T/R/I blocks of text,
// reasoning and tool input with +id start, ~id:text delta, -id end; I!id voided; C id call; X id result; A n attempt;
// SF(reason) and F(reason); E error.
func script(t *testing.T, s string) []Event {
	t.Helper()
	reason := func(w string) FinishReason {
		_, r, ok := strings.Cut(strings.TrimSuffix(w, ")"), "(")
		if !ok {
			return FinishStop
		}
		var f FinishReason
		if err := f.UnmarshalText([]byte(r)); err != nil {
			t.Fatal(err)
		}
		return f
	}
	kinds := map[byte]BlockKind{'T': BlockText, 'R': BlockReasoning, 'I': BlockToolInput}
	var out []Event
	for w := range strings.FieldsSeq(s) {
		switch {
		case w == "S+":
			out = append(out, StepStart{})
		case w == "~":
			out = append(out, Alive{})
		case w == "E":
			out = append(out, &Error{Code: ErrOverloaded, Message: "busy"})
		case strings.HasPrefix(w, "SF"):
			out = append(out, StepFinish{Reason: reason(w)})
		case strings.HasPrefix(w, "F"):
			out = append(out, Finish{Reason: reason(w)})
		case strings.HasPrefix(w, "A"):
			out = append(out, Attempt{N: int(w[1] - '0')})
		case strings.HasPrefix(w, "C"):
			out = append(out, ToolCallDone{Call: ToolCall{ID: w[1:], Name: "look", Input: "{}"}})
		case strings.HasPrefix(w, "X"):
			out = append(out, ToolResultDone{Result: ToolResult{ID: w[1:]}})
		case strings.HasPrefix(w, "I!"):
			out = append(out, ToolInputError{ID: w[2:], Name: "look"})
		default:
			id, text, _ := strings.Cut(w[2:], ":")
			switch k := kinds[w[0]]; w[1] {
			case '+':
				e := BlockStart{Kind: k, ID: id}
				if k == BlockToolInput {
					e.Name = "look"
				}
				out = append(out, e)
			case '~':
				out = append(out, BlockDelta{Kind: k, ID: id, Text: text})
			case '-':
				out = append(out, BlockEnd{Kind: k, ID: id})
			default:
				t.Fatalf("what is %q?", w)
			}
		}
	}
	return out
}

func TestChecker(t *testing.T) {
	tests := []struct {
		name, events string
		want         string // of the complaint; empty: none
		code         ErrorCode
	}{
		{name: "text", events: "S+ T+a T~a:Hel T~a:lo T-a SF F"},
		{name: "call in pieces", events: "S+ I+c I~c:{ I~c:} I-c Cc SF(tool-calls) F(tool-calls)"},
		{name: "whole call", events: "S+ Cc SF(tool-calls) F(tool-calls)"},
		{name: "text and reasoning interleave", events: "S+ R+r R~r:a T+t T~t:b R~r:c R-r T-t SF F"},
		{name: "same id for text and reasoning", events: "S+ R+0 R-0 T+0 T-0 SF F"},
		{name: "two calls side by side", events: "S+ I+a I+b I~b:{} I-b Cb I~a:{} I-a Ca SF(tool-calls) F(tool-calls)"},
		{name: "hosted", events: "S+ Cw Xw T+a T-a SF F"},
		{name: "broken arguments", events: "S+ I+c I~c:{ I!c SF(tool-calls) F(tool-calls)"},
		{name: "broken arguments after their end", events: "S+ I+c I~c:{ I-c I!c SF(tool-calls) F(tool-calls)"},
		{name: "call cut off by length", events: "S+ I+c I~c:{ SF(length) F(length)"},
		{name: "retries first", events: "A2 A3 S+ T+a T-a SF F"},
		{name: "retries from the middle", events: "A4 A5 S+ SF F"},
		{name: "nothing to say", events: "S+ SF F"},
		{name: "signs of life", events: "~ A2 ~ S+ ~ T+a ~ T-a SF ~ F"},
		{name: "f: life after the end", events: "S+ SF F ~", want: "after the terminal event", code: ErrInvalidOutput},
		{name: "error at once", events: "E"},
		{name: "error after retries", events: "A2 E"},
		{name: "error in the middle of a block", events: "S+ T+a T~a:x E"},
		{name: "error after step-finish", events: "S+ SF E"},

		{name: "a: text first", events: "T+a", want: "before step-start", code: ErrInvalidOutput},
		{name: "a: finish first", events: "F", want: "before step-start", code: ErrInvalidOutput},
		{name: "a: step-start twice", events: "S+ S+", want: "twice", code: ErrInvalidOutput},
		{name: "a: attempt later", events: "S+ A2", want: "attempt after step-start", code: ErrInvalidOutput},
		{name: "attempt 1", events: "A1", want: "count up from 2", code: ErrInvalidOutput},
		{name: "attempt left out", events: "A2 A4", want: "count up from 2", code: ErrInvalidOutput},
		{name: "b: delta before its start", events: "S+ T~a:x", want: "not open", code: ErrInvalidOutput},
		{name: "b: delta of another kind", events: "S+ T+a R~a:x", want: "not open", code: ErrInvalidOutput},
		{name: "b: delta after its end", events: "S+ T+a T-a T~a:x", want: "not open", code: ErrInvalidOutput},
		{name: "c: two starts", events: "S+ T+a T+a", want: "second time", code: ErrInvalidOutput},
		{name: "c: id used again", events: "S+ T+a T-a T+a", want: "second time", code: ErrInvalidOutput},
		{name: "c: two ends", events: "S+ T+a T-a T-a", want: "not open", code: ErrInvalidOutput},
		{name: "c: no end", events: "S+ T+a SF", want: "is open", code: ErrInvalidOutput},
		{name: "c: text without end at length", events: "S+ T+a SF(length)", want: "is open", code: ErrInvalidOutput},
		{name: "c: input without end", events: "S+ I+c SF(tool-calls)", want: "is open", code: ErrInvalidOutput},
		{name: "c: voided without input", events: "S+ I!c", want: "no input", code: ErrInvalidOutput},
		{name: "d: call before its end", events: "S+ I+c Cc", want: "before the end of its input", code: ErrInvalidOutput},
		{name: "d: voided call", events: "S+ I+c I!c Cc", want: "discarded", code: ErrInvalidOutput},
		{name: "d: call twice", events: "S+ I+c I-c Cc Cc", want: "second time", code: ErrInvalidOutput},
		{name: "d: input after the whole call", events: "S+ Cc I+c", want: "published already", code: ErrInvalidOutput},
		{name: "d: call never published", events: "S+ I+c I-c SF(tool-calls)", want: "without tool-call", code: ErrInvalidOutput},
		{name: "result of no call", events: "S+ Xw", want: "was not made", code: ErrInvalidOutput},
		{name: "e: finish alone", events: "S+ F", want: "without step-finish", code: ErrInvalidOutput},
		{name: "e: text between", events: "S+ SF T+a", want: "between step-finish and finish", code: ErrInvalidOutput},
		{name: "e: step-finish twice", events: "S+ SF SF", want: "between step-finish and finish", code: ErrInvalidOutput},
		{name: "f: text after the end", events: "S+ SF F T+a", want: "emitted text-start after the terminal event finish", code: ErrInvalidOutput},
		{name: "f: finish twice", events: "S+ SF F F", want: "after the terminal event", code: ErrInvalidOutput},
		{name: "f: error twice", events: "E E", want: "after the terminal event error", code: ErrInvalidOutput},
		{name: "g: nothing at all", events: "", want: "before it was complete", code: ErrIncompleteStream},
		{name: "g: cut in a block", events: "S+ T+a T~a:x", want: "before it was complete", code: ErrIncompleteStream},
		{name: "g: cut before finish", events: "S+ SF", want: "before it was complete", code: ErrIncompleteStream},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var c Checker
			events := script(t, tt.events)
			var err error
			for i, e := range events {
				if err = c.Check(e); err != nil {
					if i != len(events)-1 {
						t.Fatalf("event %d: %v", i, err)
					}
					break
				}
			}
			if err == nil {
				err = c.Done()
			}
			if tt.want == "" {
				if err != nil {
					t.Fatal(err)
				}
				return
			}
			e, ok := errors.AsType[*Error](err)
			if !ok || e.Code != tt.code || !strings.Contains(e.Message, tt.want) {
				t.Fatalf("error = %v, want %v with %q", err, tt.code, tt.want)
			}
			if e.Retryable != (tt.code == ErrIncompleteStream) {
				t.Errorf("retryable = %v", e.Retryable)
			}
		})
	}
}

func TestCheckerRequiresNames(t *testing.T) {
	for _, e := range []Event{
		BlockStart{ID: "a"}, BlockStart{Kind: BlockToolInput, ID: "c"}, BlockStart{Kind: BlockToolInput, Name: "look"},
		ToolCallDone{Call: ToolCall{Name: "look"}}, ToolCallDone{Call: ToolCall{ID: "c"}}, nil,
	} {
		var c Checker
		if err := c.Check(StepStart{}); err != nil {
			t.Fatal(err)
		}
		if c.Check(e) == nil {
			t.Errorf("accepted %#v", e)
		}
	}
}

func TestFold(t *testing.T) {
	n := func(i int64) *int64 { return &i }
	start, end := Metadata{"v": []byte(`"start"`)}, Metadata{"v": []byte(`"end"`)}
	look := ToolCall{ID: "c", Name: "look", Input: `{"q":1}`, Metadata: end}
	hosted := ToolCall{ID: "w", Name: "web_search", ProviderExecuted: true}
	found := ToolResult{ID: "w", ProviderExecuted: true, Content: Parts{&Text{Text: "found"}}}
	var f Fold
	for _, e := range []Event{
		Attempt{N: 2},
		StepStart{ServedModel: "m-1", ResponseID: "r1"},
		BlockStart{Kind: BlockReasoning, ID: "0", Metadata: start},
		BlockStart{Kind: BlockText, ID: "0", Metadata: start},
		BlockDelta{Kind: BlockText, ID: "0", Text: "Hel"},
		BlockDelta{Kind: BlockReasoning, ID: "0", Text: "hm"},
		BlockDelta{Kind: BlockText, ID: "0", Text: "lo"},
		BlockEnd{Kind: BlockReasoning, ID: "0", Metadata: end},
		BlockEnd{Kind: BlockText, ID: "0"},
		BlockDelta{Kind: BlockText, ID: "0", Text: "late"},
		BlockStart{Kind: BlockText, ID: "empty"},
		BlockEnd{Kind: BlockText, ID: "empty"},
		BlockStart{Kind: BlockToolInput, ID: "c", Name: "look"},
		BlockDelta{Kind: BlockToolInput, ID: "c", Text: `{"q"`},
		BlockEnd{Kind: BlockToolInput, ID: "c"},
		ToolCallDone{Call: look},
		BlockStart{Kind: BlockToolInput, ID: "d", Name: "look"},
		ToolInputError{ID: "d", Name: "look", Raw: "{"},
		ToolCallDone{Call: hosted},
		ToolResultDone{Result: found},
		StepFinish{Reason: FinishToolCalls, RawReason: "tool_use", Usage: Usage{Input: n(1)}, Again: true},
	} {
		f.Add(e)
	}
	if f.Done() {
		t.Error("done before finish")
	}
	f.Add(Finish{Reason: FinishToolCalls, Usage: Usage{Input: n(2)}, Metadata: start})
	want := &Message{Role: RoleAssistant, Metadata: start, Parts: []Part{
		&Reasoning{Text: "hm", Metadata: end}, &Text{Text: "Hello", Metadata: start}, &look, &hosted, &found,
	}}
	if got := f.Message(); !reflect.DeepEqual(got, want) {
		t.Errorf("message = %+v", got)
	}
	if got := f.Ended(); !reflect.DeepEqual(got, want) {
		t.Errorf("ended = %+v", got)
	}
	if got := f.Calls(); !reflect.DeepEqual(got, []*ToolCall{&look}) {
		t.Errorf("calls = %+v", got)
	}
	if got := f.End(); got.RawReason != "tool_use" || !got.Again || *got.Usage.Input != 2 || got.Reason != FinishToolCalls {
		t.Errorf("end = %+v", got)
	}
	if !f.Done() || f.Err() != nil || f.Step().ServedModel != "m-1" || len(f.Pending()) != 0 {
		t.Errorf("done %v, err %v, step %+v, pending %v", f.Done(), f.Err(), f.Step(), f.Pending())
	}
}

func TestFoldOfABrokenStream(t *testing.T) {
	var f Fold
	for _, e := range script(t, "S+ R+r R~r:why R-r T+a T~a:one T-a T+b T~b:tw I+c I~c:{\"q E") {
		f.Add(e)
	}
	texts := func(m *Message) string {
		var out []string
		for _, p := range m.Parts {
			switch p := p.(type) {
			case *Text:
				out = append(out, p.Text)
			case *Reasoning:
				out = append(out, "("+p.Text+")")
			}
		}
		return strings.Join(out, " ")
	}
	if got := texts(f.Message()); got != "(why) one tw" {
		t.Errorf("message so far: %q", got)
	}
	if got := texts(f.Ended()); got != "(why) one" {
		t.Errorf("what ended: %q", got)
	}
	if p := f.Pending(); len(p) != 1 || p[0].Input != `{"q` || p[0].Name != "look" {
		t.Errorf("pending: %v", p)
	}
	if f.Err() == nil || f.Err().Code != ErrOverloaded || f.Done() || len(f.Calls()) != 0 {
		t.Errorf("err %v, done %v, calls %v", f.Err(), f.Done(), f.Calls())
	}
}

func TestFoldMessagesAreCopies(t *testing.T) {
	var f Fold
	for _, e := range script(t, "S+ T+a T~a:x Cc SF F") {
		f.Add(e)
	}
	m := f.Message()
	m.Parts[0].(*Text).Text = "changed"
	m.Parts[1].(*ToolCall).Name = "changed"
	f.Calls()[0].Name = "changed"
	if again := f.Message(); again.Text() != "x" || again.Parts[1].(*ToolCall).Name != "look" {
		t.Errorf("a change of one message is in the next: %+v", again)
	}
}
