package history

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/sdk/llm"
)

// messages reads a line such as "U C1 O1": user, assistant, calls, freeform calls (F), searches for tools (T) and outputs; V1 is what a
// search of the vendor's has found.
func messages(s string) []llm.Message {
	var out []llm.Message
	for w := range strings.FieldsSeq(s) {
		switch w[0] {
		case 'U':
			out = append(out, user(w))
		case 'A':
			out = append(out, says(w))
		case 'C', 'F':
			out = append(out, llm.Message{Role: llm.RoleAssistant, Parts: []llm.Part{&llm.ToolCall{ID: w[1:], Name: "t", Freeform: w[0] == 'F'}}})
		case 'T':
			out = append(out, llm.Message{Role: llm.RoleAssistant, Parts: []llm.Part{&llm.ToolCall{ID: w[1:], Name: "t", Search: true}}})
		case 'V':
			out = append(out, llm.Message{Role: llm.RoleAssistant, Parts: []llm.Part{&llm.ToolResult{
				ID: w[1:], Name: "t", Search: true, ProviderExecuted: true, Metadata: llm.Metadata{"v": json.RawMessage(`{}`)}, Content: llm.Parts{&llm.Text{Text: "ok"}},
			}}})
		case 'O':
			r := &llm.ToolResult{ID: w[1:], Name: "t", Content: llm.Parts{&llm.Text{Text: "ok"}}}
			out = append(out, llm.Message{Role: llm.RoleTool, Parts: []llm.Part{r}})
		}
	}
	return out
}

func line(ms []llm.Message) string {
	var out []string
	for _, m := range ms {
		for _, p := range m.Parts {
			switch p := p.(type) {
			case *llm.Text:
				out = append(out, p.Text)
			case *llm.ToolCall:
				letter := "C"
				if p.Freeform {
					letter = "F"
				} else if p.Search {
					letter = "T"
				}
				out = append(out, letter+p.ID)
			case *llm.ToolResult:
				s := "O" + p.ID
				if p.ProviderExecuted {
					s = "V" + p.ID
				}
				if p.Search && !p.ProviderExecuted {
					out = append(out, fmt.Sprintf("%s(found %d)", s, len(p.Tools)))
					continue
				}
				if text := (llm.Message{Parts: p.Content}).Text(); text != "ok" {
					s += fmt.Sprintf("(%s %v)", text, p.Freeform)
				}
				out = append(out, s)
			}
		}
	}
	return strings.Join(out, " ")
}

func TestPairing(t *testing.T) {
	for _, tc := range []struct{ in, want string }{
		{"C1", "C1 O1(aborted false)"},
		{"C1 C2 O2", "C1 O1(aborted false) C2 O2"},
		{"O1", ""},
		{"C1 U O1", "C1 U O1"},
		{"F1", "F1 O1(aborted true)"},
		{"T1", "T1 O1(found 0)"},
		{"V1", "V1"},
		{"U V1 A", "U V1 A"},
		{"U C1 O1 A C1", "U C1 O1 A C1 O1(aborted false)"}, // ids that are used again
	} {
		h := New(messages(tc.in))
		first := h.ForPrompt(Traits{Namespace: "v"})
		if got := line(first); got != tc.want {
			t.Errorf("%s: %q, want %q", tc.in, got, tc.want)
		}
		if !reflect.DeepEqual(first, h.ForPrompt(Traits{Namespace: "v"})) {
			t.Errorf("%s: built twice, it differs", tc.in)
		}
		if got := line(h.Messages()); got != tc.in && tc.in != "O1" {
			t.Errorf("%s: what is stored became %q", tc.in, got)
		}
	}
}

func TestDropOldest(t *testing.T) {
	for _, tc := range []struct{ in, want string }{
		{"C1 O1 U", "U"},
		{"U C1 O1", "C1 O1"},
		{"C1 C2 O1 O2 A", "C2 O2 A"},
		{"C1 U O1 A", "U A"},
		{"C1 O1 C1 O1", "C1 O1"},
		{"", ""},
	} {
		rest, dropped := DropOldest(messages(tc.in), 1)
		if got := line(rest); got != tc.want || dropped != min(len(tc.in), 1) {
			t.Errorf("%s: %q without %d, want %q", tc.in, got, dropped, tc.want)
		}
	}
	both := []llm.Message{
		{Role: llm.RoleAssistant, Parts: []llm.Part{&llm.ToolCall{ID: "1"}}},
		{Role: llm.RoleTool, Parts: []llm.Part{&llm.ToolResult{ID: "1"}, &llm.ToolResult{ID: "2", Content: llm.Parts{&llm.Text{Text: "ok"}}}}},
	}
	rest, _ := DropOldest(both, 1)
	if got := line(rest); got != "O2" {
		t.Errorf("of a message with two outputs %q is left", got)
	}
	if len(both[1].Parts) != 2 {
		t.Error("the messages themselves were changed")
	}
	if rest, dropped := DropOldest(messages("C1 C2 O1 O2 A U"), 3); line(rest) != "U" || dropped != 3 {
		t.Errorf("without three: %q, dropped %d", line(rest), dropped)
	}
}
