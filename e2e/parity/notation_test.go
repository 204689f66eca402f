package parity_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// A request is written as one word for each item of its input:
//
//	D   what the host says: permissions, plugins' instructions
//	M   the instructions of the model that goes on with the thread
//	X   what the host tells of the surroundings in the user's name: AGENTS.md, environment, what clients say beside their users
//	T   the mark of a turn that was stopped
//	L1  mail of another agent
//	U1  a user's words
//	A1  the model's words; R1 its thoughts; C1 its call and O1 the output of that
//	S1  an account that takes the place of a conversation
//	P   the question for one
//
// What is alike has the same number, which is that of its first appearance in the scenario. Instructions that have a field of
// their own are left out.
type notation struct{ seen map[string][]string }

// item is what the notation needs of an input item.
type item struct {
	Type    string          `json:"type"`
	Role    string          `json:"role"`
	ID      string          `json:"id"`
	CallID  string          `json:"call_id"`
	Content json.RawMessage `json:"content"`
	Output  json.RawMessage `json:"output"`
}

// accountQuestion is what the scenarios ask for an account with.
const accountQuestion = "Write the account."

// markers tell the parts of a message that are nobody's own words. codex-compatible but for the account.
var markers = []struct{ begin, end, letter string }{
	{"<environment_context>", "</environment_context>", "X"},
	{"# AGENTS.md instructions", "</INSTRUCTIONS>", "X"},
	{"<external_", ">", "X"},
	{"<permissions instructions>", "</permissions instructions>", "D"},
	{"<plugins_instructions>", "</plugins_instructions>", "D"},
	{"<model_switch>", "</model_switch>", "M"},
	{"<turn_aborted>", "</turn_aborted>", "T"},
	{"<context_summary>", "</context_summary>", "S"},
	{"<agent_message>", "</agent_message>", "L"},
}

// layout writes a request.
func (n *notation) layout(input []json.RawMessage) string {
	var words []string
	for _, raw := range input {
		words = append(words, n.word(raw))
	}
	return strings.Join(words, " ")
}

func (n *notation) word(raw json.RawMessage) string {
	it := itemOf(raw)
	switch it.Type {
	case "", "message":
	case "reasoning":
		return n.number("R", it.ID)
	case "function_call", "custom_tool_call":
		return n.number("C", it.CallID)
	case "function_call_output", "custom_tool_call_output":
		return strings.Replace(n.number("C", it.CallID), "C", "O", 1)
	default:
		return "?" + it.Type
	}
	parts := textsOf(it.Content)
	whole := strings.Join(parts, "\n")
	letters := lettersOf(parts)
	switch {
	case it.Role == "assistant":
		return n.number("A", whole)
	case len(letters) > 1: // in one message stands what does not belong together
		return "?" + strings.Join(letters, "+")
	case len(letters) == 1 && letters[0] == "S":
		return n.number("S", whole)
	case len(letters) == 1 && letters[0] == "L" && it.Role == "user":
		return n.number("L", whole)
	case len(letters) == 1 && (it.Role == "developer") == strings.Contains("DM", letters[0]):
		return letters[0]
	case it.Role == "user" && whole == accountQuestion:
		return "P"
	case it.Role == "user" && len(letters) == 0:
		return n.number("U", whole)
	}
	return fmt.Sprintf("?%s(%.40q)", it.Role, whole)
}

// number names something by what it is.
func (n *notation) number(letter, key string) string {
	if n.seen == nil {
		n.seen = map[string][]string{}
	}
	at := slices.Index(n.seen[letter], key)
	if at < 0 {
		at = len(n.seen[letter])
		n.seen[letter] = append(n.seen[letter], key)
	}
	return fmt.Sprint(letter, at+1)
}

// lettersOf are the kinds of markers that the parts of a message stand in.
func lettersOf(parts []string) []string {
	var out []string
	for _, p := range parts {
		p = strings.TrimSpace(p)
		for _, m := range markers {
			if strings.HasPrefix(p, m.begin) && strings.HasSuffix(p, m.end) && !slices.Contains(out, m.letter) {
				out = append(out, m.letter)
			}
		}
	}
	return out
}

func itemOf(raw json.RawMessage) item {
	var it item
	if err := json.Unmarshal(raw, &it); err != nil {
		panic(err) // the service has checked the request
	}
	return it
}

// textsOf are the texts of a content or output, which may be one.
func textsOf(raw json.RawMessage) []string {
	var one string
	if json.Unmarshal(raw, &one) == nil {
		return []string{one}
	}
	var parts []struct {
		Text string `json:"text"`
	}
	if err := json.Unmarshal(raw, &parts); err != nil {
		return nil
	}
	var out []string
	for _, p := range parts {
		out = append(out, p.Text)
	}
	return out
}

func TestNotation(t *testing.T) {
	t.Parallel()
	const env = `<environment_context>\n  <cwd>/w</cwd>\n</environment_context>`
	for _, c := range []struct{ name, input, want string }{
		{"a first turn", `[
			{"role": "developer", "content": [{"type": "input_text", "text": "<permissions instructions>\nx\n</permissions instructions>"}]},
			{"role": "user", "content": [{"type": "input_text", "text": "# AGENTS.md instructions for /w\n\n<INSTRUCTIONS>\nx\n</INSTRUCTIONS>"}, {"type": "input_text", "text": "` + env + `"}]},
			{"role": "user", "content": [{"type": "input_text", "text": "go"}]}]`, "D X U1"},
		{"calls and their outputs", `[{"role": "user", "content": "go"}, {"type": "reasoning", "id": "rs_1"},
			{"type": "function_call", "call_id": "b"}, {"type": "function_call", "call_id": "a"},
			{"type": "function_call_output", "call_id": "b", "output": "x"}, {"type": "custom_tool_call_output", "call_id": "a", "output": "x"}]`,
			"U1 R1 C1 C2 O1 O2"},
		{"the same words", `[{"role": "user", "content": "go"}, {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "ok"}]},
			{"role": "user", "content": "on"}, {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "ok"}]},
			{"role": "user", "content": "go"}]`, "U1 A1 U2 A1 U1"},
		{"a question and an account", `[{"role": "user", "content": "<context_summary>\nx\n</context_summary>"}, {"role": "user", "content": "` + accountQuestion + `"}]`, "S1 P"},
		{"a marker that does not end", `[{"role": "user", "content": "<environment_context> is what?"}]`, "U1"},
		{"what belongs to the host in the user's name", `[{"role": "user", "content": "<permissions instructions>\nx\n</permissions instructions>"}]`,
			`?user("<permissions instructions>\nx\n</permissio")`},
		{"two kinds in one message", `[{"role": "user", "content": [{"type": "input_text", "text": "` + env + `"}, {"type": "input_text", "text": "<turn_aborted>x</turn_aborted>"}]}]`, "?X+T"},
		{"an item that nobody knows", `[{"type": "web_search_call"}]`, "?web_search_call"},
	} {
		var input []json.RawMessage
		if err := json.Unmarshal([]byte(c.input), &input); err != nil {
			t.Fatal(c.name, err)
		}
		if got := new(notation).layout(input); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}
