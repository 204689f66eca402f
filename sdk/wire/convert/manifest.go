package convert

import (
	"github.com/gantry-agent/gantry/sdk/contract"
	gantryv1 "github.com/gantry-agent/gantry/sdk/proto/gantry/v1"
)

// ManifestToProto translates a manifest.
func ManifestToProto(m *contract.Manifest) *gantryv1.Manifest {
	if m == nil {
		return nil
	}
	return &gantryv1.Manifest{
		Name:             text(m.Name),
		Version:          text(m.Version),
		Kind:             enum[contract.Kind, gantryv1.PluginKind](m.Kind, contract.KindProvider),
		ContractVersions: m.ContractVersions,
		Description:      text(m.Description),
		Config:           ConfigBlockToProto(m.Config),
		Capabilities:     texts(m.Capabilities),
		HostServices:     texts(m.HostServices),
		Limits:           LimitsToProto(m.Limits),
		Instructions:     text(m.Instructions),
		Skills:           each(m.Skills, skillToProto),
		Commands:         each(m.Commands, commandToProto),
		Handover:         m.Handover,
		Features:         texts(m.Features),
		Tools:            DescriptorsToProto(m.Tools),
	}
}

// ManifestFromProto translates a manifest.
func ManifestFromProto(p *gantryv1.Manifest) *contract.Manifest {
	if p == nil {
		return nil
	}
	return &contract.Manifest{
		Name:             p.GetName(),
		Version:          p.GetVersion(),
		Kind:             enum[gantryv1.PluginKind, contract.Kind](p.GetKind(), gantryv1.PluginKind_PLUGIN_KIND_PROVIDER),
		ContractVersions: p.GetContractVersions(),
		Description:      p.GetDescription(),
		Config:           ConfigBlockFromProto(p.GetConfig()),
		Capabilities:     p.GetCapabilities(),
		HostServices:     p.GetHostServices(),
		Limits:           LimitsFromProto(p.GetLimits()),
		Instructions:     p.GetInstructions(),
		Skills:           each(p.GetSkills(), skillFromProto),
		Commands:         each(p.GetCommands(), commandFromProto),
		Handover:         p.GetHandover(),
		Features:         p.GetFeatures(),
		Tools:            DescriptorsFromProto(p.GetTools()),
	}
}

func skillToProto(s contract.Skill) *gantryv1.Skill {
	return &gantryv1.Skill{Name: text(s.Name), Description: text(s.Description), Body: text(s.Body)}
}

func skillFromProto(p *gantryv1.Skill) contract.Skill {
	return contract.Skill{Name: p.GetName(), Description: p.GetDescription(), Body: p.GetBody()}
}

func commandToProto(c contract.CommandSpec) *gantryv1.CommandSpec {
	return &gantryv1.CommandSpec{
		Name: text(c.Name), Description: text(c.Description), InputSchemaJson: c.InputSchema, SideEffects: c.SideEffects,
	}
}

func commandFromProto(p *gantryv1.CommandSpec) contract.CommandSpec {
	return contract.CommandSpec{
		Name: p.GetName(), Description: p.GetDescription(), InputSchema: raw(p.GetInputSchemaJson()), SideEffects: p.GetSideEffects(),
	}
}

// LimitsToProto translates limits; a zero value is absent.
func LimitsToProto(l contract.Limits) *gantryv1.Limits {
	if l == (contract.Limits{}) {
		return nil
	}
	return &gantryv1.Limits{
		MaxMessageBytes:  l.MaxMessageBytes,
		MaxInlineBytes:   l.MaxInlineBytes,
		MaxOutputBytes:   l.MaxOutputBytes,
		StartMs:          l.StartMS,
		StopMs:           l.StopMS,
		CallMs:           l.CallMS,
		MaxParallelCalls: l.MaxParallelCalls,
	}
}

// LimitsFromProto translates limits.
func LimitsFromProto(p *gantryv1.Limits) contract.Limits {
	return contract.Limits{
		MaxMessageBytes:  p.GetMaxMessageBytes(),
		MaxInlineBytes:   p.GetMaxInlineBytes(),
		MaxOutputBytes:   p.GetMaxOutputBytes(),
		StartMS:          p.GetStartMs(),
		StopMS:           p.GetStopMs(),
		CallMS:           p.GetCallMs(),
		MaxParallelCalls: p.GetMaxParallelCalls(),
	}
}

// ConfigBlockToProto translates the schema of a block; an empty one is absent.
func ConfigBlockToProto(b contract.ConfigBlock) *gantryv1.ConfigBlock {
	if b.IsZero() {
		return nil
	}
	return &gantryv1.ConfigBlock{
		Description: text(b.Description),
		Attributes:  each(b.Attributes, attributeToProto),
		Blocks:      each(b.Blocks, nestedBlockToProto),
	}
}

// ConfigBlockFromProto translates the schema of a block.
func ConfigBlockFromProto(p *gantryv1.ConfigBlock) contract.ConfigBlock {
	return contract.ConfigBlock{
		Description: p.GetDescription(),
		Attributes:  each(p.GetAttributes(), attributeFromProto),
		Blocks:      each(p.GetBlocks(), nestedBlockFromProto),
	}
}

func attributeToProto(a contract.ConfigAttribute) *gantryv1.ConfigAttribute {
	return &gantryv1.ConfigAttribute{
		Name:        text(a.Name),
		TypeJson:    a.Type,
		Description: text(a.Description),
		Required:    a.Required,
		DefaultJson: a.Default,
		Sensitive:   a.Sensitive,
		Path:        a.Path,
		Allowed:     texts(a.Allowed),
		Deprecated:  text(a.Deprecated),
	}
}

func attributeFromProto(p *gantryv1.ConfigAttribute) contract.ConfigAttribute {
	return contract.ConfigAttribute{
		Name:        p.GetName(),
		Type:        raw(p.GetTypeJson()),
		Description: p.GetDescription(),
		Required:    p.GetRequired(),
		Default:     raw(p.GetDefaultJson()),
		Sensitive:   p.GetSensitive(),
		Path:        p.GetPath(),
		Allowed:     p.GetAllowed(),
		Deprecated:  p.GetDeprecated(),
	}
}

func nestedBlockToProto(b contract.ConfigNestedBlock) *gantryv1.ConfigNestedBlock {
	return &gantryv1.ConfigNestedBlock{
		Name: text(b.Name), Block: ConfigBlockToProto(b.Block), MinItems: b.MinItems, MaxItems: b.MaxItems, Labels: texts(b.Labels),
	}
}

func nestedBlockFromProto(p *gantryv1.ConfigNestedBlock) contract.ConfigNestedBlock {
	return contract.ConfigNestedBlock{
		Name: p.GetName(), Block: ConfigBlockFromProto(p.GetBlock()), MinItems: p.GetMinItems(), MaxItems: p.GetMaxItems(),
		Labels: p.GetLabels(),
	}
}

// DiagnosticToProto translates a diagnostic.
func DiagnosticToProto(d contract.Diagnostic) *gantryv1.Diagnostic {
	return &gantryv1.Diagnostic{
		Severity: enum[contract.Severity, gantryv1.Severity](d.Severity, contract.SeverityWarning),
		Summary:  text(d.Summary),
		Detail:   text(d.Detail),
		Path:     each(d.Path, stepToProto),
		Next:     text(d.Next),
	}
}

// DiagnosticFromProto translates a diagnostic.
func DiagnosticFromProto(p *gantryv1.Diagnostic) contract.Diagnostic {
	return contract.Diagnostic{
		Severity: enum[gantryv1.Severity, contract.Severity](p.GetSeverity(), gantryv1.Severity_SEVERITY_WARNING),
		Summary:  p.GetSummary(),
		Detail:   p.GetDetail(),
		Path:     each(p.GetPath(), stepFromProto),
		Next:     p.GetNext(),
	}
}

// DiagnosticsToProto translates diagnostics.
func DiagnosticsToProto(ds []contract.Diagnostic) []*gantryv1.Diagnostic {
	return each(ds, DiagnosticToProto)
}

// DiagnosticsFromProto translates diagnostics.
func DiagnosticsFromProto(ps []*gantryv1.Diagnostic) []contract.Diagnostic {
	return each(ps, DiagnosticFromProto)
}

func stepToProto(s contract.Step) *gantryv1.PathStep {
	switch s.Kind {
	case contract.StepName:
		return &gantryv1.PathStep{Step: &gantryv1.PathStep_Name{Name: text(s.Name)}}
	case contract.StepKey:
		return &gantryv1.PathStep{Step: &gantryv1.PathStep_Key{Key: text(s.Key)}}
	case contract.StepIndex:
		return &gantryv1.PathStep{Step: &gantryv1.PathStep_Index{Index: s.Index}}
	}
	return &gantryv1.PathStep{}
}

func stepFromProto(p *gantryv1.PathStep) contract.Step {
	switch s := p.GetStep().(type) {
	case *gantryv1.PathStep_Name:
		return contract.Name(s.Name)
	case *gantryv1.PathStep_Key:
		return contract.Key(s.Key)
	case *gantryv1.PathStep_Index:
		return contract.Index(s.Index)
	}
	return contract.Step{}
}
