package gemini_test

import (
	"encoding/json"
	"testing"

	"github.com/gantry-agent/gantry/providers/protocol"
	"github.com/gantry-agent/gantry/sdk/llm"
)

func TestThinking(t *testing.T) {
	pro3 := protocol.Model{ID: "gemini-3-pro-preview", Reasons: true, Efforts: []string{"low", "high"}}
	flash3 := protocol.Model{ID: "gemini-3-flash", Reasons: true, Efforts: []string{"minimal", "low", "medium", "high"}}
	unknown3 := protocol.Model{ID: "gemini-flash-latest", Reasons: true}
	flash25 := protocol.Model{ID: "gemini-2.5-flash", Reasons: true, BudgetMax: 24576, MaxOutputTokens: 65536}
	pro25 := protocol.Model{ID: "gemini-2.5-pro", Reasons: true, BudgetMin: 128, BudgetMax: 32768, MaxOutputTokens: 65536}
	bare25 := protocol.Model{ID: "gemini-2.5-flash", Reasons: true}
	gemma := protocol.Model{ID: "gemma-4-31b-it", Reasons: true}
	plain := protocol.Model{ID: "gemini-2.0-flash"}
	always := bare25
	always.AlwaysThinks = true
	mapped := pro3
	mapped.Compat.EffortMap = map[string]string{"max": "extreme"}
	mapped25 := bare25
	mapped25.Compat.EffortMap = map[string]string{"max": "-1"}

	tests := []struct {
		name      string
		model     protocol.Model
		effort    string
		maxTokens int64 // 0: not asked
		options   string
		want      string // of the thinkingConfig; empty: none
	}{
		{"thoughts are asked for", pro3, "", 0, "", `{"includeThoughts":true}`},
		{"a model that does not think", plain, "", 0, "", ""},
		{"an effort of a model that does not think", plain, "high", 0, "", ""},

		{"a level", pro3, "low", 0, "", `{"thinkingLevel":"low","includeThoughts":true}`},
		{"the nearest weaker level", pro3, "medium", 0, "", `{"thinkingLevel":"low","includeThoughts":true}`},
		{"none is the weakest", pro3, "none", 0, "", `{"thinkingLevel":"low","includeThoughts":true}`},
		{"none where there is less", flash3, "none", 0, "", `{"thinkingLevel":"minimal","includeThoughts":true}`},
		{"more than there is", flash3, "xhigh", 0, "", `{"thinkingLevel":"high","includeThoughts":true}`},
		{"a model whose levels are unknown", unknown3, "minimal", 0, "", `{"thinkingLevel":"low","includeThoughts":true}`},
		{"the vendor's own word", mapped, "max", 0, "", `{"thinkingLevel":"extreme","includeThoughts":true}`},
		{"a model that takes no level", gemma, "high", 0, "", `{"includeThoughts":true}`},

		{"a budget", flash25, "low", 0, "", `{"thinkingBudget":1024,"includeThoughts":true}`},
		{"medium", flash25, "medium", 0, "", `{"thinkingBudget":8192,"includeThoughts":true}`},
		{"high", flash25, "high", 0, "", `{"thinkingBudget":16000,"includeThoughts":true}`},
		{"as much as the model takes", flash25, "max", 0, "", `{"thinkingBudget":24576,"includeThoughts":true}`},
		{"off", flash25, "none", 0, "", `{"thinkingBudget":0}`},
		{"off where the row says that it can't be", always, "none", 0, "", `{"thinkingBudget":128,"includeThoughts":true}`},
		{"off where it can't be", pro25, "none", 0, "", `{"thinkingBudget":128,"includeThoughts":true}`},
		{"half of the output stays", bare25, "max", 32000, "", `{"thinkingBudget":16000,"includeThoughts":true}`},
		{"a budget that fits", bare25, "", 32000, `{"thinkingBudget":8000}`, `{"thinkingBudget":8000,"includeThoughts":true}`},
		{"at least so much", bare25, "medium", 1000, "", `{"thinkingBudget":512,"includeThoughts":true}`},
		{"an unbounded output", bare25, "max", 0, "", `{"thinkingBudget":32768,"includeThoughts":true}`},
		{"as the model likes", bare25, "low", 1000, `{"thinkingBudget":-1}`, `{"thinkingBudget":-1,"includeThoughts":true}`},
		{"a number for an effort", mapped25, "max", 0, "", `{"thinkingBudget":-1,"includeThoughts":true}`},

		{"an option wins", pro3, "low", 0, `{"thinkingLevel":"high"}`, `{"thinkingLevel":"high","includeThoughts":true}`},
		{"an option of the other kind too", pro3, "low", 0, `{"thinkingBudget":2000}`, `{"thinkingBudget":2000,"includeThoughts":true}`},
		{"no thoughts", pro3, "low", 0, `{"includeThoughts":false}`, `{"thinkingLevel":"low","includeThoughts":false}`},
		{"options alone", plain, "", 0, `{"thinkingBudget":0}`, `{"thinkingBudget":0}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := of("", user(text("hi")))
			r.Model, r.ReasoningEffort = tt.model, tt.effort
			if tt.maxTokens > 0 {
				r.Generation.MaxTokens = &tt.maxTokens
			}
			if tt.options != "" {
				r.ProviderOptions = map[string]json.RawMessage{"google": json.RawMessage(`{"thinkingConfig":` + tt.options + `}`)}
			}
			var config struct{ ThinkingConfig json.RawMessage }
			if raw := field(t, r, "generationConfig"); raw != "" {
				if err := json.Unmarshal([]byte(raw), &config); err != nil {
					t.Fatal(err)
				}
			}
			wantJSON(t, "thinkingConfig", string(config.ThinkingConfig), tt.want)
		})
	}
}

func TestUnknownEfforts(t *testing.T) {
	for _, m := range []protocol.Model{
		{ID: "gemini-3-pro", Reasons: true, Efforts: []string{"low", "high"}}, {ID: "gemini-2.5-pro", Reasons: true},
	} {
		r := of("", llm.Message{Role: llm.RoleUser, Parts: []llm.Part{text("hi")}})
		r.Model, r.ReasoningEffort = m, "heroic"
		wantInvalid(t, r, `no reasoning effort "heroic"`)
	}
}
