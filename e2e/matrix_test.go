package e2e_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/e2e/rig"
	"github.com/gantry-agent/gantry/e2e/vendors"
)

// recording makes the cassettes that the tests of providers/cassette replay.
var recording = flag.Bool("record", false, "record the cassettes in providers/cassette/testdata anew")

// situations are what a wire format is held against. The vendors' services play them, so no key of anybody's is in the files.
var situations = map[string]struct {
	answers func(vendor string) []vendors.Answer
	args    []string // of exec; empty: a task
	again   bool     // a second turn follows
	fails   bool
	first   int // requests that are kept; 0: all
}{
	"text":      {answers: always(vendors.Answer{Text: "Hello, wörld. 你好 🙂"})},
	"tool-call": {answers: always(vendors.Answer{Calls: []vendors.Call{onDesk("lookup", "gantry")}}, vendors.Answer{Text: "A word."})},
	"tool-loop": {answers: always(vendors.Answer{Text: "First this.", Calls: []vendors.Call{onDesk("lookup", "a")}}, vendors.Answer{Calls: []vendors.Call{onDesk("lookup", "b")}}, vendors.Answer{Text: "Both."})},
	"parallel":  {answers: always(vendors.Answer{Calls: []vendors.Call{onDesk("lookup", "gantry"), onDesk("lookup", "crane"), onDesk("lookup", "hoist")}}, vendors.Answer{Text: "Three."})},
	"image":     {answers: always(vendors.Answer{Text: "A dot."}), args: []string{"-i", "dot.png", "what is on it?"}},
	"picture":   {answers: always(vendors.Answer{Calls: []vendors.Call{onDesk("picture", "crane")}}, vendors.Answer{Text: "A crane."})},
	"reasoning": {answers: always(vendors.Answer{Reasoning: "I should look.", Calls: []vendors.Call{onDesk("lookup", "gantry")}}, vendors.Answer{Reasoning: "So that is it.", Text: "A word."})},
	"cached":    {answers: always(vendors.Answer{Text: "Once."}, vendors.Answer{Text: "Twice."}), again: true},
	"malformed": {answers: func(vendor string) []vendors.Answer {
		return []vendors.Answer{malformed[vendor], {Text: "Again, then."}}
	}, first: 1, fails: true},
	"cut": {answers: always(vendors.Answer{Text: "Half of it, and then", Cut: true}, vendors.Answer{Text: "The whole."})},
	"rate-limit": {answers: func(vendor string) []vendors.Answer {
		return []vendors.Answer{vendors.Refuse(vendor, vendors.RateLimited), {Text: "Now."}}
	}},
	"overflow": {answers: func(vendor string) []vendors.Answer {
		full := vendors.Refuse(vendor, vendors.TooLong)
		full.Forever = true
		return []vendors.Answer{full}
	}, first: 1, fails: true},
}

func always(answers ...vendors.Answer) func(string) []vendors.Answer {
	return func(string) []vendors.Answer { return answers }
}

// malformed are answers with a call whose arguments are no JSON, as each vendor would write it.
var malformed = map[string]vendors.Answer{
	"openai-responses": events(
		`{"type":"response.created","sequence_number":0,"response":{"id":"resp_1","object":"response","status":"in_progress","model":"gpt-5.4","output":[]}}`,
		`{"type":"response.output_item.added","sequence_number":1,"output_index":0,"item":{"type":"function_call","id":"fc_1","call_id":"call_1","name":"lookup","arguments":"","status":"in_progress"}}`,
		`{"type":"response.function_call_arguments.delta","sequence_number":2,"item_id":"fc_1","output_index":0,"delta":"{\"word\": gan"}`,
		`{"type":"response.function_call_arguments.done","sequence_number":3,"item_id":"fc_1","output_index":0,"arguments":"{\"word\": gan"}`,
		`{"type":"response.output_item.done","sequence_number":4,"output_index":0,"item":{"type":"function_call","id":"fc_1","call_id":"call_1","name":"lookup","arguments":"{\"word\": gan","status":"completed"}}`,
		`{"type":"response.completed","sequence_number":5,"response":{"id":"resp_1","object":"response","status":"completed","model":"gpt-5.4","output":[],"usage":{"input_tokens":9,"output_tokens":4,"total_tokens":13}}}`,
	),
	"openai-chat": events(
		`{"id":"c1","object":"chat.completion.chunk","created":1700000000,"model":"own-model","choices":[{"index":0,"delta":{"role":"assistant","tool_calls":[{"index":0,"id":"call_1","type":"function","function":{"name":"lookup","arguments":"{\"word\": "}}]},"finish_reason":null}]}`,
		`{"id":"c1","object":"chat.completion.chunk","created":1700000000,"model":"own-model","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"gan"}}]},"finish_reason":"tool_calls"}]}`,
		`[DONE]`,
	),
	"anthropic": events(
		`{"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","model":"claude-opus-4-8","content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":9,"output_tokens":1}}}`,
		`{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"toolu_1","name":"lookup","input":{}}}`,
		`{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"{\"word\": gan"}}`,
		`{"type":"content_block_stop","index":0}`,
		`{"type":"message_delta","delta":{"stop_reason":"tool_use","stop_sequence":null},"usage":{"output_tokens":4}}`,
		`{"type":"message_stop"}`,
	),
	"gemini": events(
		`{"candidates":[{"index":0,"content":{"role":"model","parts":[{"text":""}]},"finishReason":"MALFORMED_FUNCTION_CALL","finishMessage":"Malformed function call: lookup(word=gan"}],"usageMetadata":{"promptTokenCount":9,"totalTokenCount":9},"modelVersion":"gemini-3.5-flash","responseId":"r1"}`,
	),
	"ollama": {Raw: &vendors.Raw{Type: "application/x-ndjson", Body: `{"model":"qwen3:8b","created_at":"2026-01-01T00:00:00Z","message":{"role":"assistant","content":"","tool_calls":[{"function":{"name":"lookup","arguments":"{\"word\": gan"}}]},"done":false}` + "\n" +
		`{"model":"qwen3:8b","created_at":"2026-01-01T00:00:00Z","message":{"role":"assistant","content":""},"done":true,"done_reason":"stop","prompt_eval_count":9,"eval_count":4}` + "\n"}},
}

// events is an answer of server-sent events; one with a type has it as its name, too.
func events(data ...string) vendors.Answer {
	typed := regexp.MustCompile(`^\{"type":"([^"]*)"`)
	var b strings.Builder
	for _, d := range data {
		if m := typed.FindStringSubmatch(d); m != nil {
			b.WriteString("event: " + m[1] + "\n")
		}
		b.WriteString("data: " + d + "\n\n")
	}
	return vendors.Answer{Raw: &vendors.Raw{Type: "text/event-stream", Body: b.String()}}
}

// TestRecordSituations writes providers/cassette/testdata/VENDOR/SITUATION.json. The files are what gantry itself records;
// what is of this machine and this day is replaced.
func TestRecordSituations(t *testing.T) {
	if !*recording {
		t.Skip("-record makes the cassettes anew; they are committed")
	}
	for _, vendor := range []string{"openai-responses", "openai-chat", "anthropic", "gemini", "ollama"} {
		t.Run(vendor, func(t *testing.T) {
			for name, s := range situations {
				t.Run(name, func(t *testing.T) {
					service := vendors.New(t, vendor, s.answers(vendor)...)
					h := httptest.NewServer(service)
					t.Cleanup(func() { h.CloseClientConnections(); h.Close() })
					r := rig.New(t, "[[step]]\ndo = [{ text = \"nothing\" }]\n")
					tape := filepath.Join(r.Home, name+".json")
					// The name of the service stands in the files, its port does not: it is asked as a proxy is.
					useVendor(r, vendor, "http://vendor.test", "  proxy = \""+h.URL+"\"", "  record = \""+tape+"\"", "  retries = 1")
					onlyDesk(t, r)
					r.Write("dot.png", pixelFile(t))
					args := s.args
					if args == nil {
						args = []string{"look words up"}
					}
					if res := r.Gantry(append([]string{"exec"}, args...)...); res.Code != 0 && !s.fails {
						t.Fatalf("exit %d\n%s", res.Code, res.Stderr)
					}
					if s.again {
						r.OK("resume", "--last", "and once more")
					}
					text, err := os.ReadFile(tape)
					if err != nil {
						t.Fatal(err)
					}
					out := filepath.Join("..", "providers", "cassette", "testdata", vendor, name+".json")
					if err := os.MkdirAll(filepath.Dir(out), 0o755); err != nil {
						t.Fatal(err)
					}
					if err := os.WriteFile(out, []byte(anywhere(t, r, string(text), s.first)), 0o644); err != nil {
						t.Fatal(err)
					}
				})
			}
		})
	}
}

// anywhere is a cassette without what is of this machine, this day or this version of the host's own texts, and of its
// conversation only the first requests (0: all).
func anywhere(t *testing.T, r *rig.Rig, text string, first int) string {
	t.Helper()
	for _, own := range ownTexts(t, r) {
		text = strings.ReplaceAll(text, own.text, own.name)
	}
	text = threadID.ReplaceAllString(text, "01900000-0000-7000-8000-000000000000")
	text = regexp.MustCompile(`gantry/[0-9][^"]*`).ReplaceAllString(text, "gantry/0.0.0")
	text = regexp.MustCompile(`"recordedAt": "[^"]*"`).ReplaceAllString(text, `"recordedAt": "2026-01-01T00:00:00Z"`)
	if strings.Contains(text, r.Dir) || strings.Contains(text, r.Home) || strings.Contains(text, vendors.Key) {
		t.Errorf("something of this machine is left:\n%s", text)
	}
	if first == 0 {
		return text
	}
	var tape struct {
		Version      int               `json:"version"`
		Metadata     json.RawMessage   `json:"metadata"`
		Interactions []json.RawMessage `json:"interactions"`
	}
	if err := json.Unmarshal([]byte(text), &tape); err != nil {
		t.Fatal(err)
	}
	conversation := regexp.MustCompile(`"url": "[^"]*/(responses|completions|messages|chat|[^"/]*:streamGenerateContent[^"/]*)"`)
	for i, in := range tape.Interactions {
		if conversation.Match(in) {
			if first--; first == 0 {
				tape.Interactions = tape.Interactions[:i+1]
				break
			}
		}
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(tape); err != nil {
		t.Fatal(err)
	}
	return b.String()
}
