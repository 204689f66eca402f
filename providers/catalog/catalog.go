// Package catalog describes the models that vendors offer: context windows, modalities, abilities, prices.
//
// It owns the format of the catalog, the built-in snapshot, reading a newer one, finding a model by a similar name, and the price
// of a request. It does not know how a vendor is called, or what the user configured.
//
// The format follows version 2 of the catalog that models.dev publishes; the figures in the snapshot are from there (MIT licence).
// Unknown kinds of values are ignored.
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

// Provider is a vendor with its models.
type Provider struct {
	ID     string  `json:"id"`
	Name   string  `json:"name"`
	Models []Model `json:"models"` // sorted by ID
}

// Model is one model of a vendor.
type Model struct {
	ID              string       `json:"id"`
	Name            string       `json:"name,omitempty"`
	Family          string       `json:"family,omitempty"`
	Status          string       `json:"status,omitempty"` // "alpha", "beta", "deprecated"; empty: generally available
	ReleaseDate     string       `json:"release_date,omitempty"`
	DeprecationDate string       `json:"deprecation_date,omitempty"`
	Modalities      Modalities   `json:"modalities"`
	Capabilities    Capabilities `json:"capabilities"`
	Limit           Limit        `json:"limit"`
	Cost            *Cost        `json:"cost,omitempty"` // nil: unknown
	// API contains the model's peculiarities by protocol.
	API map[string]API `json:"api,omitempty"`
}

// Modalities are "text", "image", "audio", "video" and "pdf".
type Modalities struct {
	Input  []string `json:"input,omitempty"`
	Output []string `json:"output,omitempty"`
}

// Capabilities are the abilities of a model.
type Capabilities struct {
	Tools            Tools     `json:"tools,omitzero"`
	Reasoning        Reasoning `json:"reasoning,omitzero"`
	StructuredOutput bool      `json:"structured_output,omitempty"`
	Temperature      *bool     `json:"temperature,omitempty"`    // nil: unknown
	SystemUpdates    bool      `json:"system_updates,omitempty"` // accepts system messages within the history
}

// Tools describes how a model calls tools.
type Tools struct {
	Supported bool     `json:"supported,omitempty"`
	Grammar   []string `json:"grammar,omitempty"` // grammars of freeform tools: "lark", "regex"
	Traits    []string `json:"traits,omitempty"`  // kinds of tools that suit the model; empty: patches
}

// Reasoning describes the control of a model's reasoning.
type Reasoning struct {
	Supported bool     `json:"supported,omitempty"`
	Toggle    bool     `json:"toggle,omitempty"` // it can be switched off
	Effort    []string `json:"effort,omitempty"` // weakest first
	Budget    *Budget  `json:"budget,omitempty"` // in tokens
	Default   string   `json:"default,omitempty"`
}

// Always reports whether reasoning cannot be switched off: there is no switch, no effort "none", and no budget of zero.
func (r Reasoning) Always() bool {
	return r.Supported && !r.Toggle && !slices.Contains(r.Effort, "none") && (r.Budget == nil || r.Budget.Min > 0)
}

// Budget limits the tokens for reasoning; 0 means no limit.
type Budget struct {
	Min int64 `json:"min,omitempty"`
	Max int64 `json:"max,omitempty"`
}

// Limit is in tokens; 0 is unknown.
type Limit struct {
	Context int64 `json:"context,omitempty"` // input and output together
	Input   int64 `json:"input,omitempty"`   // if the vendor limits it separately
	Output  int64 `json:"output,omitempty"`
}

// Window returns the maximum size of a conversation: the limit for input, otherwise the whole context. 0: unknown.
func (l Limit) Window() int64 {
	if l.Input > 0 {
		return l.Input
	}
	return l.Context
}

// API contains a model's peculiarities with one protocol.
type API struct {
	BaseURL       string          `json:"base_url,omitempty"`
	Compatibility json.RawMessage `json:"compatibility,omitempty"`
}

//go:embed snapshot
var snapshot embed.FS

// Vendors returns the vendors in the snapshot.
func Vendors() []string {
	entries, err := fs.ReadDir(snapshot, "snapshot")
	if err != nil { // cannot fail: it is embedded
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

// Embedded returns a vendor from the snapshot. ok is false if it has none of this name.
func Embedded(vendor string) (_ *Provider, ok bool) {
	b, err := snapshot.ReadFile(path.Join("snapshot", vendor+".json"))
	if err != nil {
		return nil, false
	}
	p, err := Read(b)
	if err != nil { // cannot fail: it is embedded, and a test reads all of it
		panic(fmt.Sprintf("catalog: snapshot of %s: %v", vendor, err))
	}
	return p, true
}

// Read parses a vendor in the JSON form of [Provider].
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

// Matches, best first.
const (
	MatchNone   Match = iota
	MatchExact        // by its own name
	MatchPrefix       // the name begins with the model's: a dated or sized variant
)

// Find looks up a model by its name, by the longest model name that id begins with, or without a leading "namespace/". If the rest
// still contains a slash, nothing is found.
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
