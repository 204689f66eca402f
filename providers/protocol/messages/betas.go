package messages

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/gantry-agent/gantry/providers/protocol"
	"github.com/gantry-agent/gantry/providers/protocol/claude"
)

// Beta features that [Protocol.Betas] adds, in addition to those for thinking.
const (
	betaExtendedCacheTTL  = "extended-cache-ttl-2025-04-11"
	betaContextManagement = "context-management-2025-06-27"
	betaFastMode          = "fast-mode-2026-02-01"
	betaSkills            = "skills-2025-10-02"
)

// Betas returns the values of the header [BetaHeader] that the body of r needs, without duplicates, with those of the options
// first. If r has no valid body, there are none.
func (p Protocol) Betas(r *protocol.Request) []string {
	silent := *withNamespace(r)
	silent.Warn = nil // Body gives the warnings
	l, err := lower(&silent)
	if err != nil {
		return nil
	}
	b, err := l.settings()
	if err != nil {
		return nil
	}
	var out []string
	add := func(token string, needed bool) {
		if token != "" && needed && !slices.Contains(out, token) {
			out = append(out, token)
		}
	}
	for _, token := range l.opts.Betas {
		add(strings.TrimSpace(token), true)
	}
	effort := ""
	if b.OutputConfig != nil {
		effort = b.OutputConfig.Effort
	}
	// Vertex rejects the feature for interleaved thinking for some models.
	for _, token := range claude.Betas(&r.Model, b.Thinking, effort, len(b.Tools) > 0 && !p.Vertex) {
		add(token, true)
	}
	add(betaExtendedCacheTTL, l.opts.CacheTTL == "1h")
	add(betaContextManagement, b.ContextManagement != nil)
	add(betaFastMode, b.Speed == "fast")
	add(betaSkills, hasSkills(b.Container))
	for _, version := range l.hosted {
		add(hostedBetas[version], true)
	}
	return out
}

func hasSkills(container json.RawMessage) bool {
	var c struct {
		Skills json.RawMessage `json:"skills"`
	}
	return json.Unmarshal(container, &c) == nil && c.Skills != nil
}
