// Package catalog knows the models that vendors offer: windows, modalities, abilities, prices.
//
// It owns: the catalogue's form, the snapshot that is built in, reading a newer one, finding a model by a name that may be
// only almost its own, and the price of a request. It must not know: how a vendor is asked, what the user configured.
//
// The form follows version 2 of the catalogue that models.dev publishes; figures of the snapshot come from there
// (MIT licence). Values of kinds that this version does not know are ignored.
//
// Start with [Embedded] and [Provider.Find].
package catalog

import (
	"embed"
	"encoding/json"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
)

// Provider is one vendor and what it offers.
type Provider struct {
	ID     string  `json:"id"`
	Name   string  `json:"name"`
	Models []Model `json:"models"` // sorted by id
}

// Model is one model of a vendor.
type Model struct {
	ID              string       `json:"id"`
	Name            string       `json:"name,omitempty"`
	Family          string       `json:"family,omitempty"`
	Status          string       `json:"status,omitempty"` // "alpha", "beta", "deprecated"; empty: in service
	ReleaseDate     string       `json:"release_date,omitempty"`
	DeprecationDate string       `json:"deprecation_date,omitempty"`
	Modalities      Modalities   `json:"modalities"`
	Capabilities    Capabilities `json:"capabilities"`
	Limit           Limit        `json:"limit"`
	Cost            *Cost        `json:"cost,omitempty"` // nil: unknown
	// API says per protocol what is special about the model there.
	API map[string]API `json:"api,omitempty"`
}

// Modalities are "text", "image", "audio", "video" and "pdf".
type Modalities struct {
	Input  []string `json:"input,omitempty"`
	Output []string `json:"output,omitempty"`
}

// Capabilities are what a model can do.
type Capabilities struct {
	Tools            Tools     `json:"tools,omitzero"`
	Reasoning        Reasoning `json:"reasoning,omitzero"`
	StructuredOutput bool      `json:"structured_output,omitempty"`
	Temperature      *bool     `json:"temperature,omitempty"`    // nil: unknown
	SystemUpdates    bool      `json:"system_updates,omitempty"` // takes system messages in mid-history
}

// Tools says how a model calls tools.
type Tools struct {
	Supported bool     `json:"supported,omitempty"`
	Grammar   []string `json:"grammar,omitempty"` // dialects of freeform tools: "lark", "regex"
	Traits    []string `json:"traits,omitempty"`  // kinds of tools that suit it; empty: patches
}

// Reasoning says how a model's thinking is steered.
type Reasoning struct {
	Supported bool     `json:"supported,omitempty"`
	Toggle    bool     `json:"toggle,omitempty"` // it can be switched off
	Effort    []string `json:"effort,omitempty"` // weakest first
	Budget    *Budget  `json:"budget,omitempty"` // in tokens
	Default   string   `json:"default,omitempty"`
}

// Always tells that the model thinks and can't be told not to: it has no switch, no effort for it, and no budget of nothing.
func (r Reasoning) Always() bool {
	return r.Supported && !r.Toggle && !slices.Contains(r.Effort, "none") && (r.Budget == nil || r.Budget.Min > 0)
}

// Budget bounds the tokens for thinking; 0 is no bound.
type Budget struct {
	Min int64 `json:"min,omitempty"`
	Max int64 `json:"max,omitempty"`
}

// Limit is in tokens; 0 is unknown.
type Limit struct {
	Context int64 `json:"context,omitempty"` // input and output together
	Input   int64 `json:"input,omitempty"`   // where the vendor bounds it by itself
	Output  int64 `json:"output,omitempty"`
}

// Window is how much of a conversation the model takes: its own bound for input, or else the whole context. 0: unknown.
func (l Limit) Window() int64 {
	if l.Input > 0 {
		return l.Input
	}
	return l.Context
}

// API is what is special about a model behind one protocol.
type API struct {
	BaseURL       string          `json:"base_url,omitempty"`
	Compatibility json.RawMessage `json:"compatibility,omitempty"`
}

//go:embed snapshot
var snapshot embed.FS

// Vendors lists the vendors of the snapshot.
func Vendors() []string {
	entries, err := fs.ReadDir(snapshot, "snapshot")
	if err != nil { // built in
		panic("catalog: " + err.Error())
	}
	var out []string
	for _, e := range entries {
		if name, ok := strings.CutSuffix(e.Name(), ".json"); ok {
			out = append(out, name)
		}
	}
	return out
}

// Embedded returns a vendor of the snapshot. ok is false for a vendor that it does not have.
func Embedded(vendor string) (_ *Provider, ok bool) {
	b, err := snapshot.ReadFile(path.Join("snapshot", vendor+".json"))
	if err != nil {
		return nil, false
	}
	p, err := Read(b)
	if err != nil { // built in, and a test reads all of it
		panic(fmt.Sprintf("catalog: snapshot of %s: %v", vendor, err))
	}
	return p, true
}

// Read reads one vendor in the form that [Provider] has in JSON.
func Read(b []byte) (*Provider, error) {
	var p Provider
	if err := json.Unmarshal(b, &p); err != nil {
		return nil, fmt.Errorf("read catalogue: %w", err)
	}
	p.Models = slices.DeleteFunc(p.Models, func(m Model) bool { return m.ID == "" })
	slices.SortFunc(p.Models, func(a, b Model) int { return strings.Compare(a.ID, b.ID) })
	return &p, nil
}

// Match says how a model was found.
type Match int

// The matches, best first.
const (
	MatchNone   Match = iota
	MatchExact        // the name is the model's own
	MatchPrefix       // the name begins with the model's: a dated or sized variant
)

// Find looks a model up: by its name, by the longest name that it begins with, and, once, without one leading
// "namespace/". A rest of the namespace that holds a slash itself is no name.
func (p *Provider) Find(id string) (Model, Match) {
	if p == nil {
		return Model{}, MatchNone
	}
	if m, how := p.find(id); how != MatchNone {
		return m, how
	}
	namespace, rest, ok := strings.Cut(id, "/")
	if !ok || namespace == "" || strings.Contains(rest, "/") || strings.Trim(namespace, wordBytes) != "" {
		return Model{}, MatchNone
	}
	return p.find(rest)
}

const wordBytes = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-"

func (p *Provider) find(id string) (Model, Match) {
	best := -1
	for i := range p.Models {
		m := &p.Models[i]
		if m.ID == id {
			return *m, MatchExact
		}
		if strings.HasPrefix(id, m.ID) && (best < 0 || len(m.ID) > len(p.Models[best].ID)) {
			best = i
		}
	}
	if best < 0 {
		return Model{}, MatchNone
	}
	return p.Models[best], MatchPrefix
}
