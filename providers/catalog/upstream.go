package catalog

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/gantry-agent/gantry/providers/protocol"
)

// URL is the address of the published catalog.
const URL = "https://models.dev/api.json"

// upstreamProvider and upstreamModel are the parts of version 1 of the published catalog that are used here.
type upstreamProvider struct {
	ID     string                   `json:"id"`
	Name   string                   `json:"name"`
	Models map[string]upstreamModel `json:"models"`
}

type upstreamModel struct {
	ID               string             `json:"id"`
	Name             string             `json:"name"`
	Family           string             `json:"family"`
	Status           string             `json:"status"`
	ReleaseDate      string             `json:"release_date"`
	Reasoning        bool               `json:"reasoning"`
	ReasoningOptions []upstreamThinking `json:"reasoning_options"`
	ToolCall         bool               `json:"tool_call"`
	StructuredOutput bool               `json:"structured_output"`
	Temperature      *bool              `json:"temperature"`
	Interleaved      json.RawMessage    `json:"interleaved"`
	Modalities       Modalities         `json:"modalities"`
	Limit            Limit              `json:"limit"`
	Cost             *upstreamCost      `json:"cost"`
}

type upstreamThinking struct {
	Type   string    `json:"type"`
	Values []*string `json:"values"`
	Min    int64     `json:"min"`
	Max    int64     `json:"max"`
}

type upstreamCost struct {
	Cost
	Tiers []struct {
		Cost
		Tier struct {
			Type string `json:"type"`
			Size int64  `json:"size"`
		} `json:"tier"`
	} `json:"tiers"`
	Over200k *Cost `json:"context_over_200k"`
}

// mute are words in the names of models that do not chat, although the catalog lists text output for them.
var mute = []string{"embed", "rerank", "moderation", "whisper", "transcribe", "-tts", "-ocr"}

// ReadUpstream reads the vendors in wanted, or all vendors if it is empty, from the published catalog. It omits models without
// text output.
func ReadUpstream(b []byte, wanted []string) ([]*Provider, error) {
	var all map[string]json.RawMessage
	if err := json.Unmarshal(b, &all); err != nil {
		return nil, fmt.Errorf("read published catalog: %w", err)
	}
	var out []*Provider
	for id, raw := range all {
		if len(wanted) > 0 && !slices.Contains(wanted, id) {
			continue
		}
		var up upstreamProvider
		if err := json.Unmarshal(raw, &up); err != nil {
			return nil, fmt.Errorf("read published catalog: %s: %w", id, err)
		}
		p := &Provider{ID: id, Name: up.Name}
		for key, m := range up.Models {
			m.ID = cmp.Or(m.ID, key)
			if slices.Contains(m.Modalities.Output, "text") && !slices.ContainsFunc(mute, func(w string) bool { return strings.Contains(m.ID, w) }) {
				p.Models = append(p.Models, m.model(id))
			}
		}
		slices.SortFunc(p.Models, func(a, b Model) int { return strings.Compare(a.ID, b.ID) })
		if len(p.Models) > 0 {
			out = append(out, p)
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("read published catalog: it has none of the requested vendors (%s)", strings.Join(wanted, ", "))
	}
	slices.SortFunc(out, func(a, b *Provider) int { return strings.Compare(a.ID, b.ID) })
	return out, nil
}

func (m upstreamModel) model(vendor string) Model {
	out := Model{
		ID: m.ID, Name: m.Name, Family: m.Family, Status: m.Status, ReleaseDate: m.ReleaseDate, Modalities: m.Modalities,
		Capabilities: Capabilities{
			Tools: Tools{Supported: m.ToolCall}, Reasoning: Reasoning{Supported: m.Reasoning}, StructuredOutput: m.StructuredOutput,
			Temperature: m.Temperature,
		},
		Limit: m.Limit, Cost: m.cost(),
	}
	for _, o := range m.ReasoningOptions {
		r := &out.Capabilities.Reasoning
		switch o.Type {
		case "toggle":
			r.Toggle = true
		case "effort":
			for _, v := range o.Values {
				if v != nil && *v != "" {
					r.Effort = append(r.Effort, *v)
				}
			}
			slices.SortStableFunc(r.Effort, func(a, b string) int { return cmp.Or(cmp.Compare(effortRank(a), effortRank(b)), strings.Compare(a, b)) })
		case "budget_tokens":
			r.Budget = &Budget{Min: o.Min, Max: o.Max}
		}
	}
	var field struct {
		Field string `json:"field"`
	}
	if len(m.Interleaved) > 0 && json.Unmarshal(m.Interleaved, &field) == nil && field.Field == "reasoning_content" {
		compat, err := json.Marshal(map[string]any{"reasoning_field": field.Field})
		if err != nil { // a single string
			panic("catalog: " + err.Error())
		}
		out.API = map[string]API{"chat-completions": {Compatibility: compat}}
	}
	out.amend(vendor)
	return out
}

// effortRank sorts efforts from weak to strong, with unknown ones last.
func effortRank(effort string) int {
	if i := protocol.EffortRank(effort); i >= 0 {
		return i
	}
	return math.MaxInt
}

func (m upstreamModel) cost() *Cost {
	if m.Cost == nil || m.Cost.Input == nil && m.Cost.Output == nil {
		return nil
	}
	c := m.Cost.Cost
	c.Tiers = nil
	for _, t := range m.Cost.Tiers {
		if t.Tier.Type == "context" && t.Tier.Size > 0 {
			c.Tiers = append(c.Tiers, Tier{Size: t.Tier.Size, Cost: t.Cost})
		}
	}
	if len(c.Tiers) == 0 && m.Cost.Over200k != nil {
		c.Tiers = []Tier{{Size: 200_000, Cost: *m.Cost.Over200k}}
	}
	slices.SortFunc(c.Tiers, func(a, b Tier) int { return cmp.Compare(a.Size, b.Size) })
	return &c
}

// amend adds what the published catalog lacks.
func (m *Model) amend(vendor string) {
	switch {
	case vendor == "openai" && m.Capabilities.Reasoning.Supported && (strings.HasPrefix(m.ID, "gpt-5") || strings.HasPrefix(m.ID, "gpt-6")):
		m.Capabilities.Tools.Grammar = []string{"lark", "regex"}
	case vendor == "anthropic" && systemUpdates(m.ID):
		m.Capabilities.SystemUpdates = true
	}
}

// systemUpdates reports whether a Claude model accepts system messages within the history: Opus from 4.8, others from 5.
func systemUpdates(id string) bool {
	rest, ok := strings.CutPrefix(id, "claude-")
	if !ok {
		return false
	}
	family, version, ok := strings.Cut(rest, "-")
	if !ok || strings.Trim(family, "abcdefghijklmnopqrstuvwxyz") != "" {
		return false
	}
	var major, minor int
	if n, _ := fmt.Sscanf(strings.ReplaceAll(version, ".", "-"), "%d-%d", &major, &minor); n == 0 { // n is sufficient
		return false
	}
	if minor > 1000 { // a date
		minor = 0
	}
	return major >= 5 || family == "opus" && major == 4 && minor >= 8
}

// Write returns a provider in the form that [Read] accepts, one model per line, so that changes of the snapshot are readable.
func (p *Provider) Write() ([]byte, error) {
	var b bytes.Buffer
	line := func(v any) error {
		e := json.NewEncoder(&b)
		e.SetEscapeHTML(false)
		return e.Encode(v)
	}
	b.WriteString(`{"id":`)
	if err := line(p.ID); err != nil {
		return nil, err
	}
	b.WriteString(`,"name":`)
	if err := line(p.Name); err != nil {
		return nil, err
	}
	b.WriteString(`,"models":[` + "\n")
	for i, m := range p.Models {
		if i > 0 {
			b.WriteString(",")
		}
		if err := line(m); err != nil {
			return nil, err
		}
	}
	b.WriteString("]}\n")
	return b.Bytes(), nil
}
