package gemini

import (
	"fmt"

	"github.com/gantry-agent/gantry/providers/protocol"
)

// generationConfig returns the settings for generating the response.
func (l *lowering) generationConfig(opts Options) (c generationConfig, err error) {
	g := l.r.Generation
	c = generationConfig{
		MaxOutputTokens: g.MaxTokens, Temperature: g.Temperature, TopP: g.TopP, TopK: g.TopK,
		FrequencyPenalty: g.FrequencyPenalty, PresencePenalty: g.PresencePenalty, Seed: g.Seed, StopSequences: g.Stop,
		ResponseModalities: opts.ResponseModalities, MediaResolution: opts.MediaResolution,
	}
	l.outputSchema(&c)
	c.ThinkingConfig, err = l.thinking(opts.ThinkingConfig)
	return c, err
}

// outputSchema requests a JSON response.
func (l *lowering) outputSchema(c *generationConfig) {
	if len(l.r.OutputSchema) == 0 {
		return
	}
	if len(l.r.Tools) > 0 && !l.gen.mixes() {
		l.r.Warning(fmt.Sprintf("the model %s accepts no output schema together with functions; the schema was omitted", modelID(l.r)))
		return
	}
	c.ResponseMIMEType = "application/json"
	if l.r.Model.Compat.Sanitizer == "gemini" {
		c.ResponseSchema = protocol.Sanitised(l.r.OutputSchema, "gemini")
		return
	}
	c.ResponseJSONSchema = l.r.OutputSchema
}
