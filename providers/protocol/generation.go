package protocol

import (
	"strings"

	"github.com/gantry-agent/gantry/sdk/llm"
)

// generation is the settings of the request without those that the model refuses: whoever takes no temperature takes none
// of the settings beside it either. How much is written, where it stops and the seed are no matter of sampling.
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
		r.Warning(r.Model.ID + " takes no settings of sampling; left out: " + strings.Join(out, ", "))
	}
	return llm.Generation{MaxTokens: g.MaxTokens, Seed: g.Seed, Stop: g.Stop}
}
