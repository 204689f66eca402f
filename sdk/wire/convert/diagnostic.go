package convert

import (
	"github.com/gantry-agent/gantry/sdk/contract"
	gantryv1 "github.com/gantry-agent/gantry/sdk/proto/gantry/v1"
)

// DiagnosticsToProto converts diagnostics.
func DiagnosticsToProto(ds []contract.Diagnostic) []*gantryv1.Diagnostic {
	return each(ds, DiagnosticToProto)
}

// DiagnosticsFromProto converts diagnostics.
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

// ConfigEditsToProto converts changes of settings.
func ConfigEditsToProto(edits []contract.ConfigEdit) []*gantryv1.ConfigEdit {
	return each(edits, ConfigEditToProto)
}

// ConfigEditsFromProto converts changes of settings.
func ConfigEditsFromProto(edits []*gantryv1.ConfigEdit) []contract.ConfigEdit {
	return each(edits, ConfigEditFromProto)
}
