package parity_test

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/gantry-agent/gantry/e2e/vendors"
)

// said is one item of an answer.
type said struct{ kind, text, name string }

// text is a message of the model's, thought a reasoning item, call a call whose arguments are args, JSON or not.
func text(s string) said          { return said{kind: "message", text: s} }
func thought(s string) said       { return said{kind: "reasoning", text: s} }
func call(name, args string) said { return said{kind: "function_call", name: name, text: args} }

// remark is a message that is not the answer, but said on the way to it.
func remark(s string) said { return said{kind: "message", text: s, name: "commentary"} }

// command is a call that runs a command.
func command(cmd string) said {
	args, err := json.Marshal(map[string]any{"cmd": cmd, "login": false, "yield_time_ms": 30_000})
	if err != nil {
		panic(err) // a literal of ours
	}
	return call("exec_command", string(args))
}

// answer is what the service says to one request: some items, and how it ends.
type answer struct {
	items   []said
	tokens  int // that the request and its answer count as
	cut     bool
	goesOn  bool
	failure string // code of the error that ends it
	hold    *hold
	spare   bool         // nobody minds if it is not asked for
	refusal *vendors.Raw // in the place of all else
}

// few is what a request counts as where the scenario does not care.
const few = 120

func reply(items ...said) answer { return answer{items: items, tokens: few} }

// counting says how many tokens the answer reports.
func (a answer) counting(tokens int) answer { a.tokens = tokens; return a }

// cutOff ends the stream behind the items, without the event that completes an answer.
func (a answer) cutOff() answer { a.cut = true; return a }

// unfinished says that the model wants to go on with its answer.
func (a answer) unfinished() answer { a.goesOn = true; return a }

// sparing is an answer that need not be asked for. It is the last one.
func (a answer) sparing() answer { a.spare = true; return a }

// failing ends the stream with an error of the service's.
func failing(code string) answer { return answer{failure: code} }

// refusing is an answer with this status.
func refusing(status int, code, message string, headers ...string) answer {
	raw := &vendors.Raw{Status: status, Type: "application/json", Header: map[string]string{}}
	for i := 0; i < len(headers); i += 2 {
		raw.Header[headers[i]] = headers[i+1]
	}
	raw.Body = string(wire(map[string]any{"error": map[string]any{"message": message, "type": code, "code": code, "param": nil}}))
	return answer{refusal: raw}
}

// hold stops an answer behind one of its items, or inside it, until it is let go.
type hold struct {
	reached, letGo chan struct{}
	item           int // from 0
	inside         bool
}

func newHold() *hold { return &hold{reached: make(chan struct{}), letGo: make(chan struct{})} }

func (a answer) holding(h *hold) answer { a.hold = h; return a }

func (h *hold) stop() {
	close(h.reached)
	<-h.letGo
}

// patience is how long a scenario waits for what must happen before it counts as hung.
const patience = time.Minute

// wait waits until the answer is held.
func (h *hold) wait(t *testing.T) {
	t.Helper()
	select {
	case <-h.reached:
	case <-time.After(patience):
		t.Fatal("the answer that is to be held was not asked for")
	}
}

// play turns the script into answers of a vendor's service.
func play(script []answer) []vendors.Answer {
	var out []vendors.Answer
	for _, a := range script {
		if a.refusal != nil {
			out = append(out, vendors.Answer{Raw: a.refusal})
			continue
		}
		v := vendors.Answer{Play: a.write, Forever: a.spare}
		for _, s := range a.items {
			if s.kind == "reasoning" {
				v.Reasoning = s.text // the service wants it back
			}
		}
		out = append(out, v)
	}
	return out
}

// write is the answer as OpenAI's server-sent events, as number n.
func (a answer) write(w io.Writer, n int) {
	send := func(typ string, fields map[string]any) {
		event := map[string]any{"type": typ}
		maps.Copy(event, fields)
		fmt.Fprintf(w, "event: %s\ndata: %s\n\n", typ, wire(event)) // whoever left is told by what follows
	}
	response := map[string]any{"id": fmt.Sprintf("resp_%d", n), "object": "response", "model": "gpt-5.4", "status": "in_progress", "output": []any{}}
	send("response.created", map[string]any{"response": response})
	var output []any
	for i, s := range a.items {
		item := s.item(n, i)
		send("response.output_item.added", map[string]any{"output_index": i, "item": s.announced(n, i)})
		if s.kind == "message" {
			send("response.output_text.delta", map[string]any{"item_id": item["id"], "output_index": i, "content_index": 0, "delta": s.text})
		}
		held := a.hold != nil && a.hold.item == i
		if held && a.hold.inside {
			a.hold.stop()
		}
		send("response.output_item.done", map[string]any{"output_index": i, "item": item})
		if held && !a.hold.inside {
			a.hold.stop()
		}
		output = append(output, item)
	}
	if a.cut {
		return
	}
	final := maps.Clone(response)
	if a.failure != "" {
		final["status"], final["error"] = "failed", map[string]any{"code": a.failure, "message": "the service says no"}
		send("response.failed", map[string]any{"response": final})
		return
	}
	final["status"], final["output"] = "completed", append([]any{}, output...)
	if a.goesOn {
		final["end_turn"] = false
	}
	const spoken = 20
	final["usage"] = map[string]any{
		"input_tokens": a.tokens - spoken, "input_tokens_details": map[string]any{"cached_tokens": 0}, "output_tokens": spoken,
		"output_tokens_details": map[string]any{"reasoning_tokens": 0}, "total_tokens": a.tokens,
	}
	send("response.completed", map[string]any{"response": final})
}

// item is item i of answer n.
func (s said) item(n, i int) map[string]any {
	place := fmt.Sprintf("%d_%d", n, i)
	switch s.kind {
	case "message":
		item := map[string]any{
			"type": "message", "id": "msg_" + place, "role": "assistant", "status": "completed",
			"content": []any{map[string]any{"type": "output_text", "text": s.text, "annotations": []any{}}},
		}
		if s.name != "" {
			item["phase"] = s.name
		}
		return item
	case "reasoning":
		return map[string]any{
			"type": "reasoning", "id": "rs_" + place, "summary": []any{map[string]any{"type": "summary_text", "text": s.text}},
			"encrypted_content": vendors.Sealed(n),
		}
	}
	return map[string]any{
		"type": "function_call", "id": "fc_" + place, "call_id": "call_" + place, "name": s.name, "arguments": s.text, "status": "completed",
	}
}

// announced is the item as it begins.
func (s said) announced(n, i int) map[string]any {
	item := s.item(n, i)
	item["status"] = "in_progress"
	switch s.kind {
	case "message":
		item["content"] = []any{}
	case "reasoning":
		delete(item, "status")
		delete(item, "encrypted_content")
		item["summary"] = []any{}
	default:
		item["arguments"] = ""
	}
	return item
}

func wire(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // literals of this package
	}
	return b
}

// long is a text that is worth an account.
var long = strings.Repeat(" lorem ipsum dolor", 300)
