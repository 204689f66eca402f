package messages

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/providers/protocol"
	"github.com/gantry-agent/gantry/providers/protocol/claude"
	"github.com/gantry-agent/gantry/sdk/llm"
)

// thinkingModel decides by itself how long it thinks.
func thinkingModel(r *protocol.Request, effort string) {
	r.Model.Reasons, r.Model.Efforts = true, []string{"low", "medium", "high", "xhigh", "max"}
	r.ReasoningEffort = effort
}

// budgetModel is told how many tokens it may think.
func budgetModel(r *protocol.Request, effort string) {
	r.Model.Reasons, r.Model.BudgetMin = true, 1024
	r.ReasoningEffort = effort
}

func signed(text, signature string) *llm.Reasoning {
	raw, err := json.Marshal(map[string]string{"signature": signature})
	if err != nil {
		panic(err)
	}
	return &llm.Reasoning{Text: text, Metadata: llm.Metadata{Namespace: raw}}
}

func TestThinking(t *testing.T) {
	most := func(n int64) func(*protocol.Request) {
		return func(r *protocol.Request) { r.Generation.MaxTokens = &n }
	}
	tests := []struct {
		name     string
		model    func(*protocol.Request, string)
		effort   string
		change   func(*protocol.Request)
		thinking string // "": none is sent
		effortTo string
		warns    string
	}{
		{"nothing asked, nothing said", thinkingModel, "", nil, "", "", ""},
		{"an effort", thinkingModel, "high", nil, `{"type":"adaptive"}`, "high", ""},
		{"none", thinkingModel, "none", nil, `{"type":"disabled"}`, "", ""},
		{"none where it can't be", thinkingModel, "none", func(r *protocol.Request) { r.Model.AlwaysThinks = true }, "", "low", `"none"`},
		{"a call that is required of a model that always thinks", thinkingModel, "", func(r *protocol.Request) {
			r.Model.AlwaysThinks = true
			r.Tools, r.ToolChoice.Mode = []llm.Tool{{Name: "f"}}, "required"
		}, "", "", ""},
		{"a weaker effort than there is", thinkingModel, "minimal", nil, `{"type":"adaptive"}`, "low", `"minimal"`},
		{"a stronger effort than there is", thinkingModel, "ultra", nil, `{"type":"adaptive"}`, "max", `"ultra"`},
		{"an effort between", thinkingModel, "xhigh", func(r *protocol.Request) { r.Model.Efforts = []string{"low", "high", "max"} }, `{"type":"adaptive"}`, "high", `"xhigh"`},
		{"the row's word for an effort", thinkingModel, "high", func(r *protocol.Request) { r.Model.Compat.EffortMap = map[string]string{"high": "deep"} }, `{"type":"adaptive"}`, "deep", ""},
		{"an effort of the model's own", thinkingModel, "deep", func(r *protocol.Request) { r.Model.Efforts = []string{"deep"} }, `{"type":"adaptive"}`, "deep", ""},
		{"a model that does not think", func(r *protocol.Request, e string) { r.ReasoningEffort = e }, "high", nil, "", "", "does not think"},

		{"budget: nothing asked", budgetModel, "", nil, "", "", ""},
		{"budget: none", budgetModel, "none", nil, "", "", ""},
		{"budget: none of a model that also takes efforts", budgetModel, "none", func(r *protocol.Request) {
			r.Model.AlwaysThinks, r.Model.Efforts = true, []string{"low", "medium", "high"}
		}, "", "", ""},
		{"budget: minimal", budgetModel, "minimal", nil, `{"type":"enabled","budget_tokens":1024}`, "", ""},
		{"budget: low", budgetModel, "low", nil, `{"type":"enabled","budget_tokens":4096}`, "", ""},
		{"budget: medium", budgetModel, "medium", nil, `{"type":"enabled","budget_tokens":10240}`, "", ""},
		{"budget: high", budgetModel, "high", nil, `{"type":"enabled","budget_tokens":16384}`, "", ""},
		{"budget: a quarter stays for the answer", budgetModel, "max", nil, `{"type":"enabled","budget_tokens":24000}`, "", ""},
		{"budget: max where there is room", budgetModel, "max", most(128_000), `{"type":"enabled","budget_tokens":32768}`, "", ""},
		{"budget: of a short answer", budgetModel, "high", most(2000), `{"type":"enabled","budget_tokens":1500}`, "", ""},
		{"budget: the least", budgetModel, "high", most(1025), `{"type":"enabled","budget_tokens":1024}`, "", ""},
		{"budget: no room", budgetModel, "high", most(1024), "", "", "no room"},
		{"budget: the model's least", budgetModel, "minimal", func(r *protocol.Request) { r.Model.BudgetMin = 2048 }, `{"type":"enabled","budget_tokens":2048}`, "", ""},
		{"budget: the model's most", budgetModel, "max", func(r *protocol.Request) { r.Model.BudgetMax = 9000 }, `{"type":"enabled","budget_tokens":9000}`, "", ""},
		{"budget: and efforts for the answer's length", budgetModel, "high", func(r *protocol.Request) { r.Model.Efforts = []string{"low", "medium", "high"} },
			`{"type":"enabled","budget_tokens":16384}`, "high", ""},
		{"a model that counts but decides by itself", budgetModel, "max", func(r *protocol.Request) { r.Model.Efforts = []string{"low", "medium", "high", "max"} },
			`{"type":"adaptive"}`, "max", ""},

		{"options win", thinkingModel, "high", func(r *protocol.Request) {
			r.ProviderOptions = options(`{"thinking":{"type":"enabled","budget_tokens":5000}}`)
		}, `{"type":"enabled","budget_tokens":5000}`, "high", ""},
		{"options are fitted", budgetModel, "", func(r *protocol.Request) {
			r.ProviderOptions = options(`{"thinking":{"type":"enabled","budget_tokens":1}}`)
		}, `{"type":"enabled","budget_tokens":1024}`, "", ""},
		{"options only say how it is shown", thinkingModel, "low", func(r *protocol.Request) {
			r.ProviderOptions = options(`{"thinking":{"display":"summarized"}}`)
		}, `{"type":"adaptive","display":"summarized"}`, "low", ""},
		{"nothing is shown of no thinking", thinkingModel, "high", func(r *protocol.Request) {
			r.ProviderOptions = options(`{"thinking":{"type":"disabled","display":"summarized"}}`)
		}, `{"type":"disabled"}`, "high", ""},
		{"without thinking the strongest efforts are refused", thinkingModel, "max", func(r *protocol.Request) {
			r.ProviderOptions = options(`{"thinking":{"type":"disabled"}}`)
		}, `{"type":"disabled"}`, "high", ""},
		{"a call that is required", thinkingModel, "max", func(r *protocol.Request) { r.Tools, r.ToolChoice.Mode = []llm.Tool{{Name: "f"}}, "required" },
			`{"type":"disabled"}`, "high", "required tool call"},
		{"a call that is required, where thinking may be the vendor's own way", thinkingModel, "", func(r *protocol.Request) {
			r.Tools, r.ToolChoice = []llm.Tool{{Name: "f"}}, llm.ToolChoice{Mode: "tool", Name: "f"}
		}, `{"type":"disabled"}`, "", ""},
		{"budget: a call that is required", budgetModel, "high", func(r *protocol.Request) { r.Tools, r.ToolChoice.Mode = []llm.Tool{{Name: "f"}}, "required" },
			"", "", "required tool call"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := request(func(r *protocol.Request) {
				tt.model(r, tt.effort)
				if tt.change != nil {
					tt.change(r)
				}
			})
			var warned []string
			r.Warn = func(s string) { warned = append(warned, s) }
			b := lowered(t, r)
			if got := b.fields["thinking"]; tt.thinking == "" && got != nil || tt.thinking != "" && (got == nil || !sameJSON(t, got, tt.thinking)) {
				t.Errorf("thinking is %s, want %s", got, tt.thinking)
			}
			var config struct {
				Effort string `json:"effort"`
			}
			if raw := b.fields["output_config"]; raw != nil {
				if err := json.Unmarshal(raw, &config); err != nil {
					t.Fatal(err)
				}
			}
			if config.Effort != tt.effortTo {
				t.Errorf("effort %q, want %q", config.Effort, tt.effortTo)
			}
			if all := strings.Join(warned, "\n"); !strings.Contains(all, tt.warns) || tt.warns == "" && all != "" {
				t.Errorf("warnings %q, want one of %q", all, tt.warns)
			}
		})
	}
}

// TestLostThinking asks with thinking while a tool's results are pending.
func TestLostThinking(t *testing.T) {
	call := func(id string) *llm.ToolCall { return &llm.ToolCall{ID: id, Name: "f", Input: "{}"} }
	unsigned := &llm.Reasoning{Text: "t"}
	foreign := &llm.Reasoning{Text: "t", Metadata: llm.Metadata{"openai": json.RawMessage(`{"itemId":"rs_1"}`)}}
	family := &llm.Reasoning{Text: "t", Metadata: llm.Metadata{Namespace: json.RawMessage(`{"signature":"s","model":"claude-other"}`)}}
	text := &llm.Text{Text: "a"}
	tests := []struct {
		name             string
		messages         []llm.Message
		adaptive, budget bool // still thinks
	}{
		{"signed", []llm.Message{modelSays(signed("t", "s"), call("1")), toolSays("1", "ok")}, true, true},
		{"signed, in messages of their own", []llm.Message{modelSays(signed("t", "s")), modelSays(text), modelSays(call("1")), toolSays("1", "ok")}, true, true},
		{"unsigned", []llm.Message{modelSays(unsigned, call("1")), toolSays("1", "ok")}, false, false},
		{"another vendor's", []llm.Message{modelSays(foreign, call("1")), toolSays("1", "ok")}, false, false},
		{"another family's", []llm.Message{modelSays(family, call("1")), toolSays("1", "ok")}, false, false},
		{"never thought", []llm.Message{modelSays(call("1")), toolSays("1", "ok")}, true, false},
		{"text before thinking", []llm.Message{modelSays(text, signed("t", "s"), call("1")), toolSays("1", "ok")}, true, false},
		{"thought before the first of two answers", []llm.Message{
			modelSays(signed("t", "s"), call("1")), toolSays("1", "ok"), modelSays(call("2")), toolSays("2", "ok")}, true, true},
		{"thought before the second of two answers", []llm.Message{
			modelSays(call("1")), toolSays("1", "ok"), modelSays(signed("t", "s"), call("2")), toolSays("2", "ok")}, true, false},
		{"lost in the second of two answers", []llm.Message{
			modelSays(signed("t", "s"), call("1")), toolSays("1", "ok"), modelSays(unsigned, call("2")), toolSays("2", "ok")}, false, false},
		{"lost before the user spoke", []llm.Message{
			modelSays(unsigned, call("1")), toolSays("1", "ok"), userSays("x"), modelSays(signed("t", "s"), call("2")), toolSays("2", "ok")}, true, true},
		{"lost, and nothing is pending", []llm.Message{modelSays(unsigned, text), userSays("x")}, true, true},
		{"lost, with a note of the host between", []llm.Message{modelSays(unsigned, call("1")), toolSays("1", "ok"), hostSays("n")}, false, false},
		{"lost, and the user speaks along", []llm.Message{modelSays(unsigned, call("1")), toolSays("1", "ok"), userSays("x")}, false, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for _, m := range []struct {
				model func(*protocol.Request, string)
				want  bool
			}{{thinkingModel, tt.adaptive}, {budgetModel, tt.budget}} {
				r := request(func(r *protocol.Request) {
					r.Model.ID = "claude-this"
					m.model(r, "high")
					r.Messages = append(r.Messages, tt.messages...)
				})
				warned := false
				r.Warn = func(s string) { warned = warned || strings.Contains(s, "without thinking") }
				_, got := lowered(t, r).fields["thinking"]
				if got != m.want || warned == got {
					t.Errorf("efforts %v: thinks %v, want %v; warned %v", r.Model.Efforts, got, m.want, warned)
				}
			}
		})
	}
}

func TestStripThinking(t *testing.T) {
	r := request(func(r *protocol.Request) {
		thinkingModel(r, "high")
		r.Messages = append(r.Messages, modelSays(signed("t", "s"), &llm.Text{Text: "a"}, &llm.ToolCall{ID: "1", Name: "f", Input: "{}"}), toolSays("1", "ok"))
	})
	before := encoded(t, lowered(t, r).Messages)
	stripped, ok := claude.Strip(r)
	if !ok {
		t.Fatal("nothing was stripped")
	}
	b := lowered(t, stripped)
	want := `[{"type":"text","text":"a"},{"type":"tool_use","id":"1","name":"f","input":{}}]`
	if got := b.Messages[1]["content"]; !sameJSON(t, got, want) {
		t.Errorf("the answer goes back as %s, want %s", encoded(t, got), want)
	}
	if got := b.fields["thinking"]; got != nil {
		t.Errorf("thinking is %s although the pending call has lost its own", got)
	}
	if again, ok := claude.Strip(stripped); ok {
		t.Errorf("stripped twice: %v", again.Messages)
	}
	if after := encoded(t, lowered(t, r).Messages); after != before {
		t.Errorf("the request itself changed: %s", after)
	}
}
