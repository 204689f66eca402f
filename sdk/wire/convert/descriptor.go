package convert

import (
	"maps"

	"github.com/gantry-agent/gantry/sdk/contract"
	gantryv1 "github.com/gantry-agent/gantry/sdk/proto/gantry/v1"
)

// DescriptorToProto translates a tool's declaration.
func DescriptorToProto(d contract.Descriptor) *gantryv1.ToolDescriptor {
	p := &gantryv1.ToolDescriptor{
		Name:                text(d.Name),
		Namespace:           text(d.Namespace),
		Description:         text(d.Description),
		InputSchemaJson:     d.InputSchema,
		OutputSchemaJson:    d.OutputSchema,
		Exposure:            enum[contract.Exposure, gantryv1.Exposure](d.Exposure, contract.ExposureHidden),
		SearchText:          text(d.SearchText),
		Effects:             EffectsToProto(d.Effects),
		Assess:              d.Assess,
		ParallelSafe:        d.ParallelSafe,
		SerialGroup:         text(d.SerialGroup),
		ReadOnly:            d.ReadOnly,
		AbortReadsAsCommand: d.AbortReadsAsCommand,
		HookName:            text(d.HookName),
		HookAliases:         texts(d.HookAliases),
		ModelTraits:         texts(d.ModelTraits),
		Source:              text(d.Source),
		LenientArguments:    d.LenientArguments,
		EffectsByHost:       d.EffectsByHost,
	}
	if d.Freeform != nil {
		p.Freeform = &gantryv1.Freeform{
			Syntax: text(d.Freeform.Syntax), Definition: text(d.Freeform.Definition), Property: text(d.Freeform.Property),
		}
	}
	if len(d.HookFields) > 0 {
		p.HookFields = make(map[string]string, len(d.HookFields))
		for k, v := range d.HookFields {
			p.HookFields[text(k)] = text(v)
		}
	}
	return p
}

// DescriptorFromProto translates a tool's declaration.
func DescriptorFromProto(p *gantryv1.ToolDescriptor) contract.Descriptor {
	d := contract.Descriptor{
		Name:                p.GetName(),
		Namespace:           p.GetNamespace(),
		Description:         p.GetDescription(),
		InputSchema:         raw(p.GetInputSchemaJson()),
		OutputSchema:        raw(p.GetOutputSchemaJson()),
		Exposure:            enum[gantryv1.Exposure, contract.Exposure](p.GetExposure(), gantryv1.Exposure_EXPOSURE_HIDDEN),
		SearchText:          p.GetSearchText(),
		Effects:             EffectsFromProto(p.GetEffects()),
		Assess:              p.GetAssess(),
		ParallelSafe:        p.GetParallelSafe(),
		SerialGroup:         p.GetSerialGroup(),
		ReadOnly:            p.GetReadOnly(),
		AbortReadsAsCommand: p.GetAbortReadsAsCommand(),
		HookName:            p.GetHookName(),
		HookAliases:         p.GetHookAliases(),
		ModelTraits:         p.GetModelTraits(),
		Source:              p.GetSource(),
		LenientArguments:    p.GetLenientArguments(),
		EffectsByHost:       p.GetEffectsByHost(),
	}
	if f := p.GetFreeform(); f != nil {
		d.Freeform = &contract.Freeform{Syntax: f.GetSyntax(), Definition: f.GetDefinition(), Property: f.GetProperty()}
	}
	if len(p.GetHookFields()) > 0 {
		d.HookFields = maps.Clone(p.GetHookFields())
	}
	return d
}

// DescriptorsToProto translates declarations.
func DescriptorsToProto(ds []contract.Descriptor) []*gantryv1.ToolDescriptor {
	return each(ds, DescriptorToProto)
}

// DescriptorsFromProto translates declarations.
func DescriptorsFromProto(ps []*gantryv1.ToolDescriptor) []contract.Descriptor {
	return each(ps, DescriptorFromProto)
}

// ToolSetToProto translates what Watch sends.
func ToolSetToProto(s *contract.ToolSet) *gantryv1.WatchResponse {
	if s == nil {
		return nil
	}
	return &gantryv1.WatchResponse{
		Revision: text(s.Revision), Tools: DescriptorsToProto(s.Tools), Sources: each(s.Sources, sourceToProto),
	}
}

// ToolSetFromProto translates what Watch sends.
func ToolSetFromProto(p *gantryv1.WatchResponse) *contract.ToolSet {
	if p == nil {
		return nil
	}
	return &contract.ToolSet{
		Revision: p.GetRevision(), Tools: DescriptorsFromProto(p.GetTools()), Sources: each(p.GetSources(), sourceFromProto),
	}
}

func sourceToProto(s contract.Source) *gantryv1.ToolSource {
	return &gantryv1.ToolSource{
		Name:     text(s.Name),
		State:    enum[contract.SourceState, gantryv1.SourceState](s.State, contract.SourceFailed),
		Message:  text(s.Message),
		Required: s.Required,
	}
}

func sourceFromProto(p *gantryv1.ToolSource) contract.Source {
	return contract.Source{
		Name:     p.GetName(),
		State:    enum[gantryv1.SourceState, contract.SourceState](p.GetState(), gantryv1.SourceState_SOURCE_STATE_FAILED),
		Message:  p.GetMessage(),
		Required: p.GetRequired(),
	}
}
