package protocol

import (
	"strings"

	"github.com/gantry-agent/gantry/sdk/llm"
)

// generation returns the settings of the request that the model accepts: a model without a temperature accepts no sampling
// settings. The maximum output, stop sequences and seed are not sampling settings.
func (r *Request) generation() llm.Generation {
	g := r.Generation
	if !r.Model.NoSampling {
		return g
	}
	var out []string
	for _, s := range []struct {
		name string
		set  bool
	}{
		{"temperature", g.Temperature != nil},
		{"top_p", g.TopP != nil},
		{"top_k", g.TopK != nil},
		{"frequency_penalty", g.FrequencyPenalty != nil},
		{"presence_penalty", g.PresencePenalty != nil},
	} {
		if s.set {
			out = append(out, s.name)
		}
	}
	if len(out) > 0 {
		r.Warning(r.Model.ID + " accepts no sampling settings; omitted: " + strings.Join(out, ", "))
	}
	return llm.Generation{MaxTokens: g.MaxTokens, Seed: g.Seed, Stop: g.Stop}
}
