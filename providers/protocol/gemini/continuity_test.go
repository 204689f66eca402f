package gemini_test

import (
	"encoding/json"
	"testing"

	"github.com/gantry-agent/gantry/providers/protocol"
	"github.com/gantry-agent/gantry/providers/protocol/gemini"
	"github.com/gantry-agent/gantry/providers/protocoltest"
	"github.com/gantry-agent/gantry/sdk/llm"
)

// answered decodes an answer as the history keeps it, one block a message.
func answered(t *testing.T, r *protocol.Request, chunks ...string) []llm.Message {
	t.Helper()
	var fold llm.Fold
	for _, e := range protocoltest.Events(t, gemini.Protocol{}, r, stream(chunks...)) {
		fold.Add(e)
	}
	if !fold.Done() {
		t.Fatalf("the answer did not end: %v", fold.Err())
	}
	// It went through the journal.
	b, err := json.Marshal(fold.Message())
	if err != nil {
		t.Fatal(err)
	}
	var m llm.Message
	if err := json.Unmarshal(b, &m); err != nil {
		t.Fatal(err)
	}
	var out []llm.Message
	for _, p := range m.Parts {
		out = append(out, assistant(p))
	}
	return out
}

// Each signature goes back to the part that it came with, also where a note of the host came between.
func TestSignaturesGoBack(t *testing.T) {
	r := request()
	// A step with a thought and two parallel calls, of which the first is signed.
	r.Messages = append(r.Messages, answered(t, r,
		says(`{"text":"plan","thought":true}`), says(`{"text":"I look."}`),
		says(`{"functionCall":{"id":"a","name":"f","args":{"x":1}},"thoughtSignature":"sig/A+1=="},{"functionCall":{"id":"b","name":"g","args":{}}}`),
		ends("STOP"))...)
	r.Messages = append(r.Messages, result("a", "f", text("1")), update("note"), result("b", "g", text("2")))
	// Two steps one after the other, each with its own signature.
	r.Messages = append(r.Messages, answered(t, r, says(`{"functionCall":{"id":"c","name":"f","args":{}},"thoughtSignature":"sigB"}`), ends("STOP"))...)
	r.Messages = append(r.Messages, result("c", "f", text("3")))
	r.Messages = append(r.Messages, answered(t, r, says(`{"functionCall":{"id":"d","name":"f","args":{}},"thoughtSignature":"sigC"}`), ends("STOP"))...)
	r.Messages = append(r.Messages, result("d", "f", text("4")))
	// The end, signed after its text, and an empty part that is signed.
	r.Messages = append(r.Messages, answered(t, r, says(`{"text":"Do"}`), says(`{"text":"ne."}`), says(`{"text":"","thoughtSignature":"sigD"}`), ends("STOP"))...)
	r.Messages = append(r.Messages, user(text("more")))
	r.Messages = append(r.Messages, answered(t, r, says(`{"text":"hm","thought":true}`), says(`{"text":"","thoughtSignature":"sigE"}`), ends("STOP"))...)
	r.Messages = append(r.Messages, user(text("well?")))

	wantJSON(t, "contents", field(t, r, "contents"), `[
		{"role":"user","parts":[{"text":"hi"}]},
		{"role":"model","parts":[{"text":"I look."},{"functionCall":{"id":"a","name":"f","args":{"x":1}},"thoughtSignature":"sig/A+1=="},{"functionCall":{"id":"b","name":"g","args":{}}}]},
		{"role":"user","parts":[{"functionResponse":{"id":"a","name":"f","response":{"name":"f","content":"1"}}},{"functionResponse":{"id":"b","name":"g","response":{"name":"g","content":"2"}}}]},
		{"role":"user","parts":[{"text":"<system-update>\nnote\n</system-update>"}]},
		{"role":"model","parts":[{"functionCall":{"id":"c","name":"f","args":{}},"thoughtSignature":"sigB"}]},
		{"role":"user","parts":[{"functionResponse":{"id":"c","name":"f","response":{"name":"f","content":"3"}}}]},
		{"role":"model","parts":[{"functionCall":{"id":"d","name":"f","args":{}},"thoughtSignature":"sigC"}]},
		{"role":"user","parts":[{"functionResponse":{"id":"d","name":"f","response":{"name":"f","content":"4"}}}]},
		{"role":"model","parts":[{"text":"Done.","thoughtSignature":"sigD"}]},
		{"role":"user","parts":[{"text":"more"}]},
		{"role":"model","parts":[{"text":"","thoughtSignature":"sigE"}]},
		{"role":"user","parts":[{"text":"well?"}]}]`)
}

// What a hosted tool did goes back in the vendor's own form.
func TestHostedPartsGoBack(t *testing.T) {
	r := request()
	parts := `{"toolCall":{"toolType":"GOOGLE_SEARCH_WEB","args":{"queries":["a"]},"id":"g1"},"thoughtSignature":"s1"},` +
		`{"toolResponse":{"toolType":"GOOGLE_SEARCH_WEB","response":{"r":[1,2.50]},"id":"g1"},"thoughtSignature":"s2"},` +
		`{"executableCode":{"language":"PYTHON","code":"1"}},{"codeExecutionResult":{"outcome":"OUTCOME_OK","output":"1"}},{"text":"b"}`
	r.Messages = append(r.Messages, answered(t, r, says(parts), ends("STOP"))...)
	wantJSON(t, "contents", field(t, r, "contents"),
		`[{"role":"user","parts":[{"text":"hi"}]},{"role":"model","parts":[`+parts+`]}]`)
}

// A model behind another route did not sign for this one.
func TestForeignSignaturesStayAway(t *testing.T) {
	r := request()
	r.Messages = append(r.Messages, answered(t, r, says(`{"functionCall":{"id":"a","name":"f"},"thoughtSignature":"s"}`), ends("STOP"))...)
	r.Messages = append(r.Messages, result("a", "f", text("1")))
	r.Namespace = "vertex"
	wantJSON(t, "contents", field(t, r, "contents"), `[{"role":"user","parts":[{"text":"hi"}]},
		{"role":"model","parts":[{"functionCall":{"id":"a","name":"f","args":{}},"thoughtSignature":"skip_thought_signature_validator"}]},
		{"role":"user","parts":[{"functionResponse":{"id":"a","name":"f","response":{"name":"f","content":"1"}}}]}]`)
}
