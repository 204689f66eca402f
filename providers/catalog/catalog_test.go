package catalog

import (
	"bytes"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"
)

func TestFind(t *testing.T) {
	p := &Provider{Models: []Model{{ID: "gpt-5"}, {ID: "gpt-5.4"}, {ID: "acme/own"}}}
	tests := []struct {
		ask, want string
		how       Match
	}{
		{"gpt-5", "gpt-5", MatchExact},
		{"gpt-5.4-mini", "gpt-5.4", MatchPrefix},
		{"acme/gpt-5.4", "gpt-5.4", MatchExact},
		{"acme/gpt-5.4-2026-01-01", "gpt-5.4", MatchPrefix},
		{"acme/own", "acme/own", MatchExact},
		{"a/b/gpt-5", "", MatchNone},
		{"ac me/gpt-5", "", MatchNone},
		{"/gpt-5", "", MatchNone},
		{"gpt-4", "", MatchNone},
		{"", "", MatchNone},
	}
	for _, tt := range tests {
		if m, how := p.Find(tt.ask); m.ID != tt.want || how != tt.how {
			t.Errorf("Find(%q) = %q, %v, want %q, %v", tt.ask, m.ID, how, tt.want, tt.how)
		}
	}
	var none *Provider
	if _, how := none.Find("gpt-5"); how != MatchNone {
		t.Error("found a model of nobody")
	}
}

// TestEmbedded reads the whole snapshot: each vendor can be used, and is written as it would be written anew.
func TestEmbedded(t *testing.T) {
	vendors := Vendors()
	for _, want := range []string{"openai", "anthropic", "google", "deepseek", "openrouter", "groq", "xai", "mistral"} {
		if !slices.Contains(vendors, want) {
			t.Errorf("the snapshot lacks %s", want)
		}
	}
	for _, v := range vendors {
		p, ok := Embedded(v)
		if !ok || p.ID != v || len(p.Models) == 0 {
			t.Fatalf("%s: %v, %+v", v, ok, p)
		}
		windows := 0
		for _, m := range p.Models {
			if m.Limit.Window() > 0 {
				windows++
			}
			if m.Cost != nil && m.Cost.Prices().IsZero() {
				t.Errorf("%s: %s has a cost that says nothing", v, m.ID)
			}
		}
		if windows == 0 {
			t.Errorf("%s: no model has a window", v)
		}
		again, err := p.Write()
		if err != nil {
			t.Fatal(err)
		}
		if b, err := os.ReadFile(filepath.Join("snapshot", v+".json")); err != nil || !bytes.Equal(b, again) {
			t.Errorf("%s is not as cmd/snapshot writes it: %v", v, err)
		}
	}
	if _, ok := Embedded("nobody"); ok {
		t.Error("found a vendor that is not there")
	}
}

func TestModelsThatAlwaysThink(t *testing.T) {
	for _, tt := range []struct {
		name string
		r    Reasoning
		want bool
	}{
		{"one that does not think", Reasoning{}, false},
		{"nothing else is said", Reasoning{Supported: true}, true},
		{"efforts alone", Reasoning{Supported: true, Effort: []string{"low", "high"}}, true},
		{"an effort for it", Reasoning{Supported: true, Effort: []string{"none", "high"}}, false},
		{"a switch", Reasoning{Supported: true, Toggle: true, Effort: []string{"low"}}, false},
		{"a budget from nothing on", Reasoning{Supported: true, Budget: &Budget{Max: 100}}, false},
		{"a budget with a least", Reasoning{Supported: true, Budget: &Budget{Min: 128}}, true},
	} {
		if got := tt.r.Always(); got != tt.want {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
}

const published = `{
	"acme": {"id": "acme", "name": "Acme", "models": {
		"b": {"id": "b", "name": "B", "reasoning": true, "tool_call": true, "interleaved": {"field": "reasoning_content"},
			"reasoning_options": [{"type": "effort", "values": ["high", null, "none", "weird", "low"]}, {"type": "budget_tokens", "min": 128},
				{"type": "toggle"}, {"type": "a-new-kind"}],
			"modalities": {"input": ["text", "smell"], "output": ["text"]}, "limit": {"context": 400, "input": 300, "output": 100},
			"cost": {"input": 1, "output": 2, "context_over_200k": {"input": 2, "output": 4}}},
		"a": {"name": "A", "interleaved": true, "modalities": {"output": ["text"]}, "limit": {"context": 10},
			"cost": {"input": 1, "output": 2, "tiers": [
				{"input": 9, "tier": {"type": "context", "size": 200}}, {"input": 3, "tier": {"type": "context", "size": 100}},
				{"input": 5, "tier": {"type": "phase-of-the-moon", "size": 1}}]}},
		"picture": {"id": "picture", "modalities": {"output": ["image"]}},
		"acme-embed-2": {"id": "acme-embed-2", "modalities": {"output": ["text"]}}
	}},
	"other": {"models": "not wanted, and broken"}
}`

func TestReadUpstream(t *testing.T) {
	ps, err := ReadUpstream([]byte(published), []string{"acme", "missing"})
	if err != nil {
		t.Fatal(err)
	}
	if len(ps) != 1 || ps[0].Name != "Acme" || len(ps[0].Models) != 2 {
		t.Fatalf("got %+v", ps)
	}
	a, b := ps[0].Models[0], ps[0].Models[1]
	if a.ID != "a" || len(a.API) != 0 || a.Limit.Window() != 10 {
		t.Errorf("a = %+v", a)
	}
	if c := a.Cost; len(c.Tiers) != 2 || c.Tiers[0].Size != 100 || *c.Tiers[0].Input != 3 || c.Tiers[1].Size != 200 {
		t.Errorf("tiers of a = %+v", c.Tiers)
	}
	want := Reasoning{Supported: true, Toggle: true, Effort: []string{"none", "low", "high", "weird"}, Budget: &Budget{Min: 128}}
	if !reflect.DeepEqual(b.Capabilities.Reasoning, want) {
		t.Errorf("reasoning of b = %+v", b.Capabilities.Reasoning)
	}
	if b.Limit.Window() != 300 || string(b.API["chat-completions"].Compatibility) != `{"reasoning_field":"reasoning_content"}` {
		t.Errorf("b = %+v", b)
	}
	if c := b.Cost; len(c.Tiers) != 1 || c.Tiers[0].Size != 200_000 || *c.Tiers[0].Output != 4 {
		t.Errorf("tiers of b = %+v", c.Tiers)
	}
	for _, bad := range []string{``, `[]`, `{}`, `{"acme": 1}`, `{"acme": {"models": {}}}`} {
		if _, err := ReadUpstream([]byte(bad), []string{"acme"}); err == nil {
			t.Errorf("accepted %q", bad)
		}
	}
}

func TestSystemUpdates(t *testing.T) {
	for id, want := range map[string]bool{
		"claude-opus-4-8": true, "claude-opus-4-7": false, "claude-opus-4-8-20260528": true, "claude-opus-5": true, "claude-opus-5-5": true,
		"claude-sonnet-4-6": false, "claude-sonnet-4-8": false, "claude-sonnet-5": true, "claude-haiku-4-5-20251001": false,
		"claude-fable-5-1": true, "claude-opus-4-20250514": false, "claude-3-5-sonnet": false, "gpt-5": false,
	} {
		if got := systemUpdates(id); got != want {
			t.Errorf("systemUpdates(%q) = %v", id, got)
		}
	}
}

func FuzzReadUpstream(f *testing.F) {
	f.Add([]byte(published))
	f.Fuzz(func(t *testing.T, b []byte) {
		ps, err := ReadUpstream(b, nil)
		if err != nil {
			return
		}
		for _, p := range ps {
			text, err := p.Write()
			if err != nil {
				t.Fatal(err)
			}
			again, err := Read(text)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range again.Models {
				if _, how := again.Find(m.ID); how != MatchExact {
					t.Fatalf("%q is not found by its own name", m.ID)
				}
			}
		}
	})
}
