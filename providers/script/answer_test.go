package script_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/gantry-agent/gantry/providers/script"
	"github.com/gantry-agent/gantry/sdk/llm"
)

// play compiles a one-off script and answers a request of an empty thread.
func play(t testing.TB, text string, in script.Input) *script.Answer {
	t.Helper()
	p, err := script.Load("test", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	if in.Request == nil {
		in.Request = &llm.Request{Model: "scripted"}
	}
	a, err := p.Play(in)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// render shows actions as a row of words: event names with their text, waits, halts.
func render(actions []script.Action) string {
	var out []string
	for _, a := range actions {
		switch a := a.(type) {
		case script.Wait:
			out = append(out, "wait:"+a.For.String())
		case script.Halt:
			out = append(out, "halt:"+a.How)
		case script.Emit:
			word := llm.EventName(a.Event)
			switch e := a.Event.(type) {
			case llm.BlockDelta:
				word += "(" + e.Text + ")"
			case llm.Attempt:
				word += fmt.Sprintf("(%d)", e.N)
			case *llm.Error:
				word += "(" + e.Code.String() + ")"
			}
			out = append(out, word)
		}
	}
	return strings.Join(out, " ")
}

func TestAnswers(t *testing.T) {
	t.Parallel()
	const finish = " step-finish finish"
	for _, tc := range []struct{ name, script, want string }{
		{"text", `[[step]]
			do = [{text = "hello"}]`, "step-start text-start text-delta(hello) text-end" + finish},
		{"empty text", `[[step]]
			do = [{text = ""}]`, "step-start text-start text-end" + finish},
		{"nothing", `[[step]]
			name = "x"`, "step-start" + finish},
		{"reasoning, call, hosted call", `[[step]]
			do = [{reasoning = "hm"}, {call = "a", args = {x = 1}}, {call = "b", freeform = "raw"}, {call = "c", result = "r"}]`,
			`step-start reasoning-start reasoning-delta(hm) reasoning-end tool-input-start tool-input-delta({"x":1}) tool-input-end tool-call ` +
				`tool-input-start tool-input-delta(raw) tool-input-end tool-call tool-input-start tool-input-delta({}) tool-input-end tool-call tool-result` + finish},
		{"chunks inherit", `[defaults]
			chunk = 2
			[[step]]
			do = [{text = "abcde"}, {text = "a b", chunk = "word"}]`,
			"step-start text-start text-delta(ab) text-delta(cd) text-delta(e) text-end text-start text-delta(a) text-delta( b) text-end" + finish},
		{"bytes never tear a character", `[[step]]
			do = [{text = "aä世", chunk = "byte"}]`, "step-start text-start text-delta(a) text-delta(ä) text-delta(世) text-end" + finish},
		{"delays", `[[step]]
			delay_ms = 5
			chunk = 1
			chunk_delay_ms = 0.5
			do = [{text = "ab"}]`,
			"wait:5ms step-start text-start wait:500µs text-delta(a) wait:500µs text-delta(b) text-end" + finish},
		{"error after some text", `[[step]]
			do = [{text = "a"}]
			error = {code = "overloaded"}`, "step-start text-start text-delta(a) text-end error(overloaded)"},
		{"error before anything", `[[step]]
			error = {code = "overloaded"}`, "error(overloaded)"},
		{"attempts then success", `[[step]]
			attempts = {failures = 2, delay_ms = 1}
			do = [{text = "a"}]`, "attempt(2) wait:1ms attempt(3) wait:1ms step-start text-start text-delta(a) text-end" + finish},
		{"attempts exhausted", `[[step]]
			attempts = {failures = 9}
			do = [{text = "a"}]`, "attempt(2) attempt(3) attempt(4) attempt(5) error(provider-internal)"},
		{"cut before the finish", `[[step]]
			do = [{text = "a"}]
			break = {}`, "step-start text-start text-delta(a) text-end error(incomplete-stream)"},
		{"silent from the start", `[[step]]
			break = {how = "hang"}`, "step-start halt:hang"},
		{"cut after bytes, inside of a delta and never inside of a character", `[[step]]
			do = [{text = "abc"}, {text = "dä"}]
			break = {after_bytes = 5}`, "step-start text-start text-delta(abc) text-end text-start text-delta(d) error(incomplete-stream)"},
		{"a count that is never reached still breaks", `[[step]]
			do = [{text = "abc"}]
			break = {after_bytes = 99, how = "panic"}`, "step-start text-start text-delta(abc) text-end halt:panic"},
		{"dying waits for what was sent", `[[step]]
			break = {how = "exit", code = 3}`, "step-start wait:20ms halt:exit"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			if got := render(play(t, tc.script, script.Input{}).Actions); got != tc.want {
				t.Errorf("got  %s\nwant %s", got, tc.want)
			}
		})
	}
}

func TestAttemptsRespectTheRequest(t *testing.T) {
	t.Parallel()
	text := `[[step]]
		attempts = {failures = 9}`
	for most, want := range map[int]string{1: "error(provider-internal)", 2: "attempt(2) error(provider-internal)"} {
		if got := render(play(t, text, script.Input{MaxAttempts: most}).Actions); got != want {
			t.Errorf("of %d attempts: %s, want %s", most, got, want)
		}
	}
}

func TestErrorsOfEveryCode(t *testing.T) {
	t.Parallel()
	for code := llm.ErrUnknown; code <= llm.ErrOverloaded; code++ {
		a := play(t, `[[step]]
			error = {code = "`+code.String()+`", retryable = true, retry_after_ms = 1500, status = 418, request_id = "r1", next = "wait", message = "no ${model}"}`, script.Input{})
		got := a.Actions[len(a.Actions)-1].(script.Emit).Event
		want := &llm.Error{Code: code, Message: "no scripted", Retryable: true, RetryAfter: 1500 * time.Millisecond, Status: 418, RequestID: "r1", Next: "wait"}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v", code, got)
		}
	}
}

func TestFinish(t *testing.T) {
	t.Parallel()
	n := func(i int64) *int64 { return &i }
	for _, tc := range []struct {
		name, script string
		want         llm.StepFinish
	}{
		{"stop", `do = [{text = "abcd"}]
			usage = "none"`, llm.StepFinish{Reason: llm.FinishStop, RawReason: "stop"}},
		{"calls", `do = [{call = "a"}]
			usage = "none"`, llm.StepFinish{Reason: llm.FinishToolCalls, RawReason: "tool-calls"}},
		{"hosted calls need nobody", `do = [{call = "a", result = ""}]
			usage = "none"`, llm.StepFinish{Reason: llm.FinishStop, RawReason: "stop"}},
		{"chosen", `finish = "length"
			again = true
			usage = "none"`, llm.StepFinish{Reason: llm.FinishLength, RawReason: "length", Again: true}},
		{"usage", `usage = {input = 10, output = 5, cache_read = 4, cache_write = 3, reasoning = 2}`,
			llm.StepFinish{Reason: llm.FinishStop, RawReason: "stop", Usage: llm.Usage{Input: n(10), Output: n(5), Total: n(15), CacheRead: n(4), CacheWrite: n(3), Reasoning: n(2)}}},
		{"estimate", `do = [{text = "12345"}]`,
			llm.StepFinish{Reason: llm.FinishStop, RawReason: "stop", Usage: llm.Usage{Input: n(2), Output: n(2), Total: n(4)}}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			req := &llm.Request{Model: "m", System: []string{"12345678"}}
			a := play(t, "[[step]]\n"+tc.script, script.Input{Request: req})
			got := a.Actions[len(a.Actions)-2].(script.Emit).Event
			if !reflect.DeepEqual(got, tc.want) {
				t.Errorf("got %+v, want %+v", got, tc.want)
			}
			if fin := a.Actions[len(a.Actions)-1].(script.Emit).Event.(llm.Finish); fin.Reason != tc.want.Reason || !reflect.DeepEqual(fin.Usage, tc.want.Usage) {
				t.Errorf("finish %+v", fin)
			}
			if !a.Whole {
				t.Error("a finished answer is not called whole")
			}
		})
	}
}

// Each malformation is caught by the checker of the contract: a script that is wrong on purpose must be wrong.
func TestMalformationsAreCaught(t *testing.T) {
	t.Parallel()
	for _, name := range script.Malformations() {
		a := play(t, `[[step]]
			malformed = "`+name+`"
			do = [{text = "abc"}, {call = "a"}]`, script.Input{})
		var check llm.Checker
		var first error
		for _, action := range a.Actions {
			if e, ok := action.(script.Emit); ok && first == nil {
				first = check.Check(e.Event)
			}
		}
		if first == nil {
			first = check.Done()
		}
		if first == nil {
			t.Errorf("%s: nothing is wrong with it: %s", name, render(a.Actions))
		}
	}
}

// However an answer is cut into deltas, it folds to the same message.
func TestChunkingNeverChangesTheMessage(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.String().Draw(t, "text")
		args := rapid.MapOf(rapid.StringMatching(`[a-z]{1,5}`), rapid.String()).Draw(t, "args")
		patch := rapid.StringN(1, 40, -1).Draw(t, "freeform")
		part := func(key, s string) map[string]any { return map[string]any{key: strings.ReplaceAll(s, "${", "$${")} }
		escaped := map[string]string{}
		for k, v := range args {
			escaped[k] = strings.ReplaceAll(v, "${", "$${")
		}
		free := part("freeform", patch)
		free["call"] = "apply_patch"
		do := []any{part("reasoning", text), part("text", text), map[string]any{"call": "exec_command", "args": escaped}, free}
		fold := func(chunk any) (*llm.Message, int) {
			body, err := json.Marshal(map[string]any{"step": []any{map[string]any{"do": do, "chunk": chunk}}})
			if err != nil {
				t.Fatal(err)
			}
			p, err := script.Load("test", body)
			if err != nil {
				t.Fatal(err)
			}
			a, err := p.Play(script.Input{Request: &llm.Request{}})
			if err != nil {
				t.Fatal(err)
			}
			var f llm.Fold
			var check llm.Checker
			n := 0
			for _, action := range a.Actions {
				e := action.(script.Emit).Event
				if err := check.Check(e); err != nil {
					t.Fatal(err)
				}
				f.Add(e)
				n++
			}
			m := f.Message()
			// The position belongs to the script, and each chunking is a script of its own.
			return stripped(m), n
		}
		whole, _ := fold("whole")
		for _, chunk := range []any{"byte", "word", rapid.IntRange(1, 7).Draw(t, "size")} {
			got, n := fold(chunk)
			if !reflect.DeepEqual(got, whole) {
				t.Fatalf("chunk %v: %d events fold to\n%#v, not\n%#v", chunk, n, got, whole)
			}
		}
	})
}

func TestMetadataCarriesThePosition(t *testing.T) {
	t.Parallel()
	a := play(t, `[[step]]
		do = [{text = "a"}, {text = "b"}]`, script.Input{})
	starts := 0
	for _, action := range a.Actions {
		s, ok := action.(script.Emit).Event.(llm.BlockStart)
		if !ok {
			continue
		}
		starts++
		_, has := s.Metadata[script.Namespace]
		if has != (starts == 1) {
			t.Errorf("block %d carries the position: %t", starts, has)
		}
	}
	var pos script.Position
	fin := a.Actions[len(a.Actions)-1].(script.Emit).Event.(llm.Finish)
	if err := json.Unmarshal(fin.Metadata[script.Namespace], &pos); err != nil || pos.Request != 1 || !reflect.DeepEqual(pos, a.Position) {
		t.Errorf("finish carries %+v (%v), want %+v", pos, err, a.Position)
	}
}
