package backend

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gantry-agent/gantry/providers/catalog"
	"github.com/gantry-agent/gantry/providers/protocol"
	"github.com/gantry-agent/gantry/sdk/llm"
)

// fallbackWindow is assumed for a model without any description, so that there is always a limit; the same as codex's.
const fallbackWindow = 272_000

// known is what is known about a model from all sources.
type known struct {
	row      llm.ModelRow
	protocol protocol.Model
}

// look combines the sources: the user's block overrides what the service reported, which overrides the catalog, which overrides
// assumptions.
func (s *service) look(id string) known {
	m, match := s.catalog.Find(id)
	k := s.fromCatalog(id, m, match)
	if f, ok := s.probed.Load(id); ok {
		k.learn(f.(Facts))
	}
	if i := slices.IndexFunc(s.config.Models, func(c Model) bool { return c.ID == id }); i >= 0 {
		s.override(&k, s.config.Models[i])
	}
	return k
}

func (s *service) fromCatalog(id string, m catalog.Model, match catalog.Match) known {
	k := known{
		row: llm.ModelRow{
			ID: id, DisplayName: cmp.Or(m.Name, id), OutputModalities: []string{"text"}, TruncationMode: "tokens", TruncationLimit: 10_000,
			MetadataNamespace: s.vendor.Namespace, Prices: m.Cost.Prices(), HostedTools: s.hosted(m),
		},
		protocol: protocol.Model{ID: id},
	}
	if s.vendor.Compat != nil {
		k.protocol.Compat = s.vendor.Compat(id)
	}
	if api, ok := m.API[s.vendor.API]; ok {
		// The catalog may contain more than this version supports; take the supported part.
		if c, err := overlaid(k.protocol.Compat, api.Compatibility); err == nil {
			k.protocol.Compat = c
		}
	}
	if c, err := overlaid(k.protocol.Compat, s.config.Compatibility); err == nil { // validated when it was configured
		k.protocol.Compat = c
	}
	if match == catalog.MatchNone {
		k.row.ContextWindow, k.row.ContextWindowSource, k.row.Fallback = fallbackWindow, llm.WindowAssumed, true
		k.row.InputModalities = []string{"text", "image"}
		k.row.ToolKinds = []string{"function"}
		k.row.ParallelToolCalls = true
		k.row.TruncationMode = "bytes"
		k.protocol.Input = []string{"image"}
		k.settle()
		return k
	}
	c := m.Capabilities
	k.row.MaxOutputTokens = m.Limit.Output
	k.row.ContextWindow, k.row.ContextWindowSource, k.row.Fallback = fallbackWindow, llm.WindowAssumed, true
	if window := m.Limit.Window(); window > 0 {
		k.row.ContextWindow, k.row.ContextWindowSource, k.row.Fallback = window, llm.WindowCatalog, false
		if match == catalog.MatchExact { // for a similar name it is a guess, which must not limit the user
			k.row.MaxContextWindow = window
		}
	}
	k.row.InputModalities = slices.Clone(m.Modalities.Input)
	k.row.ReasoningEfforts, k.row.DefaultReasoningEffort = slices.Clone(c.Reasoning.Effort), c.Reasoning.Default
	if s.vendor.Effort != nil && c.Reasoning.Supported && c.Reasoning.Default == "" {
		k.row.DefaultReasoningEffort = s.vendor.Effort(m)
		if len(c.Reasoning.Effort) > 0 {
			k.row.DefaultReasoningEffort = protocol.NearestEffort(k.row.DefaultReasoningEffort, c.Reasoning.Effort)
		}
	}
	k.row.ToolTraits = slices.Clone(c.Tools.Traits)
	if c.Tools.Supported {
		k.row.ToolKinds, k.row.ParallelToolCalls = []string{"function"}, true
		if len(c.Tools.Grammar) > 0 && s.vendor.API == "responses" {
			k.row.ToolKinds = append(k.row.ToolKinds, "freeform")
		}
		if s.vendor.Searches != nil && s.vendor.Searches(m) {
			k.row.ToolKinds = append(k.row.ToolKinds, "search")
		}
	}
	k.protocol.Input = without(m.Modalities.Input, "text")
	k.protocol.MaxOutputTokens = m.Limit.Output
	k.protocol.Reasons, k.protocol.Efforts = c.Reasoning.Supported, k.row.ReasoningEfforts
	if b := c.Reasoning.Budget; b != nil {
		k.protocol.BudgetMin, k.protocol.BudgetMax = b.Min, b.Max
	}
	k.protocol.Verbosity = s.vendor.API == "responses" && strings.HasPrefix(m.ID, "gpt-") && c.Reasoning.Supported
	k.protocol.Compat.SystemUpdates = k.protocol.Compat.SystemUpdates || c.SystemUpdates
	k.protocol.NoSampling = c.Temperature != nil && !*c.Temperature
	k.protocol.AlwaysThinks = c.Reasoning.Always()
	k.settle()
	return k
}

// learn applies what the service reported.
func (k *known) learn(f Facts) {
	if f.Window > 0 {
		k.row.ContextWindow, k.row.MaxContextWindow, k.row.ContextWindowSource, k.row.Fallback = f.Window, f.Window, llm.WindowService, false
	}
	if f.Warning != "" {
		k.row.Notes = append(k.row.Notes, f.Warning)
	}
	if f.NoTools {
		k.row.ToolKinds = nil
	}
	if m := f.Model; m != nil {
		k.protocol.Family = m.Family
		k.protocol.Input, k.row.InputModalities = m.Input, append([]string{"text"}, m.Input...)
		k.protocol.Reasons, k.protocol.Efforts, k.row.ReasoningEfforts = m.Reasons, m.Efforts, m.Efforts
		k.protocol.AlwaysThinks = m.AlwaysThinks
	}
	k.settle()
}

// override applies the user's block for a model.
func (s *service) override(k *known, c Model) {
	k.window(c)
	if c.MaxOutputTokens > 0 {
		k.row.MaxOutputTokens, k.protocol.MaxOutputTokens = c.MaxOutputTokens, c.MaxOutputTokens
	}
	if c.Input != nil {
		k.row.InputModalities = c.Input
		k.protocol.Input = without(c.Input, "text")
	}
	if c.Efforts != nil {
		k.row.ReasoningEfforts, k.protocol.Efforts, k.protocol.Reasons = c.Efforts, c.Efforts, len(c.Efforts) > 0
		k.protocol.AlwaysThinks = k.protocol.AlwaysThinks && !slices.Contains(c.Efforts, "none")
		k.row.DefaultReasoningEffort = protocol.NearestEffort(k.row.DefaultReasoningEffort, c.Efforts)
	}
	k.row.DefaultReasoningEffort = cmp.Or(c.DefaultEffort, k.row.DefaultReasoningEffort)
	if c.Tools != nil {
		k.row.ToolKinds = nil
		if *c.Tools {
			k.row.ToolKinds = []string{"function"}
		}
	}
	if c.Freeform != nil {
		k.row.ToolKinds = slices.DeleteFunc(k.row.ToolKinds, func(kind string) bool { return kind == "freeform" })
		if *c.Freeform {
			k.row.ToolKinds = append(k.row.ToolKinds, "freeform")
		}
	}
	if c.ToolSearch != nil {
		k.row.ToolKinds = slices.DeleteFunc(k.row.ToolKinds, func(kind string) bool { return kind == "search" })
		if *c.ToolSearch && s.vendor.API == "responses" {
			k.row.ToolKinds = append(k.row.ToolKinds, "search")
		}
	}
	if c.ToolTraits != nil {
		k.row.ToolTraits = c.ToolTraits
	}
	if c.ParallelCalls != nil {
		k.row.ParallelToolCalls = *c.ParallelCalls
	}
	if p := c.Prices; p != nil {
		k.row.Prices = llm.Prices{Input: p.Input, Output: p.Output, CacheRead: p.CacheRead, CacheWrite: p.CacheWrite, Reasoning: p.Reasoning}
	}
	if compat, err := overlaid(k.protocol.Compat, c.Compatibility); err == nil { // validated when it was configured
		k.protocol.Compat = compat
	}
	k.settle()
}

// window lays what the user says of the model's window over what is known, which holds it: more than the model takes would
// only be refused, or cut off unseen.
func (k *known) window(c Model) {
	most := &k.row.MaxContextWindow
	if c.MaxContextWindow > 0 {
		*most = c.MaxContextWindow
	}
	if c.ContextWindow > 0 {
		k.row.ContextWindow, k.row.ContextWindowSource, k.row.Fallback = c.ContextWindow, llm.WindowConfig, false
	}
	if *most <= 0 || k.row.ContextWindow <= *most {
		return
	}
	k.row.ContextWindow = *most
	if c.ContextWindow > 0 {
		k.row.Notes = append(k.row.Notes, fmt.Sprintf("context_window of model %q in the provider's block is %d, which exceeds the model's maximum of %d: "+
			"using the maximum; if the model supports more, also set max_context_window", c.ID, c.ContextWindow, *most))
	}
}

// settle makes both sides of what is known agree.
func (k *known) settle() {
	k.protocol.Freeform = slices.Contains(k.row.ToolKinds, "freeform")
	k.protocol.Search = slices.Contains(k.row.ToolKinds, "search")
	if k.protocol.Compat.NativeNamespaces && len(k.row.ToolKinds) > 0 && !slices.Contains(k.row.ToolKinds, "namespace") {
		k.row.ToolKinds = append(k.row.ToolKinds, "namespace")
	}
	if k.protocol.Compat.NoImages {
		k.row.InputModalities = without(k.row.InputModalities, "image")
	}
}

func without(list []string, s string) []string {
	return slices.DeleteFunc(slices.Clone(list), func(l string) bool { return l == s })
}

// Models implements [provider.Provider]: what the service says it has, or else what the catalogue and the user know.
func (s *service) Models(ctx context.Context) ([]llm.ModelRow, error) {
	var ids []string
	if s.catalog != nil {
		for _, m := range s.catalog.Models {
			ids = append(ids, m.ID)
		}
	}
	if s.vendor.List != nil {
		listed, err := s.vendor.List(ctx)
		if err != nil {
			return nil, err
		}
		ids = listed
	}
	for _, c := range s.config.Models {
		if !slices.Contains(ids, c.ID) {
			ids = append(ids, c.ID)
		}
	}
	rows := make([]llm.ModelRow, 0, len(ids))
	for _, id := range ids {
		rows = append(rows, s.look(id).row)
	}
	return rows, nil
}

// Find implements [provider.Finder].
func (s *service) Find(ctx context.Context, id string) (llm.ModelRow, bool, error) {
	s.ask(ctx, id)
	row := s.look(id).row
	return row, !row.Fallback || row.ContextWindow > 0, nil
}

// ask queries the service once for what it reports about a model.
func (s *service) ask(ctx context.Context, id string) {
	if _, asked := s.probed.Load(id); asked || s.vendor.Probe == nil {
		return
	}
	facts, err := s.vendor.Probe(ctx, id)
	if err != nil {
		// If there is a problem, the request itself will report it.
		s.logger.Debug("the service returned no details about the model", "model", id, "err", err)
		return
	}
	s.probed.Store(id, facts)
}

// verifyTimeout limits the delay of a complete response.
const verifyTimeout = 2 * time.Second

// verify checks once, after the first response, what the service reported about a model.
func (s *service) verify(ctx context.Context, id string) {
	said, ok := s.probed.Load(id)
	if !ok || s.vendor.Verify == nil {
		return
	}
	if _, done := s.verified.LoadOrStore(id, true); done {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, verifyTimeout)
	defer cancel()
	facts, err := s.vendor.Verify(ctx, id, said.(Facts))
	if err != nil {
		s.logger.Debug("the service did not report how the model is loaded", "model", id, "err", err)
		return
	}
	s.probed.Store(id, facts)
}
