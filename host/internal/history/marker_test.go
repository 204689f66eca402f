package history

import (
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/sdk/llm"
)

// opened are the elements that a host's notes stand in: what opens one and what closes it.
var opened = func() [][2]string {
	out := [][2]string{
		{"# AGENTS.md instructions\n\n<INSTRUCTIONS>", "</INSTRUCTIONS>"}, {"# AGENTS.md instructions for /a b\n\n<INSTRUCTIONS>", "</INSTRUCTIONS>"},
		{`<hook_prompt hook_run_id="7">`, "</hook_prompt>"}, {"<external_ticket>", "</external_ticket>"}, {"<external_Ünï>", "</external_Ünï>"},
	}
	for _, name := range markers {
		out = append(out, [2]string{"<" + name + ">", "</" + name + ">"})
	}
	return out
}()

// Every element is known by both of its ends, however they are written and whatever stands in it; half of one is a person's.
func TestMarkers(t *testing.T) {
	for _, m := range opened {
		for _, inner := range []string{"", "x", "\nline\nline\n", strings.Repeat("long ", 100), "ÄÖÜ", "</other>"} {
			whole := m[0] + inner + m[1]
			for _, text := range []string{whole, " \n" + whole + "\t\n", strings.ToUpper(m[0]) + inner + strings.ToLower(m[1])} {
				if FromUser(user(text)) {
					t.Errorf("taken for a person's: %q", text)
				}
			}
			for _, text := range []string{m[0] + inner, inner + "x" + m[1], "see " + whole, whole + " see"} {
				if !FromUser(user(text)) {
					t.Errorf("taken for the host's: %q", text)
				}
			}
		}
	}
}

func FuzzMarkers(f *testing.F) {
	for _, m := range opened {
		f.Add(m[0]+"x"+m[1], 0)
		f.Add(m[1]+"x"+m[0], 1)
	}
	f.Add("<external_", 2)
	f.Add("<external_>", 3)
	f.Add("<\u212Aill>x</s\u212Aill>", 4)
	f.Add("# agents.md instructions\xff", 5)
	f.Fuzz(func(t *testing.T, text string, n int) {
		whole := FromUser(user(text))
		if trimmed := strings.TrimSpace(text); whole != FromUser(user("\n"+trimmed+" ")) {
			t.Errorf("space around %q counts", text)
		}
		if head := strings.TrimSpace(text); !whole && !strings.HasPrefix(head, "<") && !strings.HasPrefix(head, "#") {
			t.Errorf("%q is taken for the host's", text)
		}
		m := opened[int(uint(n)%uint(len(opened)))]
		if FromUser(user(m[0] + text + m[1])) {
			t.Errorf("%q inside of %s is taken for a person's", text, m[0])
		}
		if FromUser(llm.Message{Role: llm.RoleSystem, Parts: []llm.Part{&llm.Text{Text: text}}}) {
			t.Error("a system message is a person's")
		}
	})
}
