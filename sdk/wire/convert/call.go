package convert

import (
	"github.com/gantry-agent/gantry/sdk/contract"
	gantryv1 "github.com/gantry-agent/gantry/sdk/proto/gantry/v1"
)

// EffectsToProto converts effects.
func EffectsToProto(es []contract.Effect) []*gantryv1.Effect { return each(es, EffectToProto) }

// EffectsFromProto converts effects. The result has as many elements as ps.
func EffectsFromProto(ps []*gantryv1.Effect) []contract.Effect { return each(ps, EffectFromProto) }

// DescriptorsFromProto converts the declarations of tools.
func DescriptorsFromProto(ps []*gantryv1.ToolDescriptor) []contract.Descriptor {
	return each(ps, DescriptorFromProto)
}

// InputToProto converts the input of a call.
func InputToProto(i contract.Input) *gantryv1.CallInput {
	if i.Freeform {
		return &gantryv1.CallInput{Input: &gantryv1.CallInput_Text{Text: text(i.Text)}}
	}
	return &gantryv1.CallInput{Input: &gantryv1.CallInput_ArgumentsJson{ArgumentsJson: i.Arguments}}
}

// InputFromProto converts the input of a call.
func InputFromProto(p *gantryv1.CallInput) contract.Input {
	if t, ok := p.GetInput().(*gantryv1.CallInput_Text); ok {
		return contract.Input{Text: t.Text, Freeform: true}
	}
	return contract.Input{Arguments: raw(p.GetArgumentsJson())}
}

// CallEventToProto converts an event of a call; nil stays nil.
func CallEventToProto(e contract.CallEvent) *gantryv1.CallResponse {
	switch e := e.(type) {
	case contract.Started:
		return &gantryv1.CallResponse{Event: &gantryv1.CallResponse_Started{Started: startedToProto(e)}}
	case contract.Output:
		return &gantryv1.CallResponse{Event: &gantryv1.CallResponse_Output{Output: outputToProto(e)}}
	case contract.Progress:
		return &gantryv1.CallResponse{Event: &gantryv1.CallResponse_Progress{Progress: progressToProto(e)}}
	case contract.ArtifactRef:
		return &gantryv1.CallResponse{Event: &gantryv1.CallResponse_Artifact{Artifact: ArtifactRefToProto(e)}}
	case contract.ItemUpdate:
		i := ItemToProto(e.Item)
		if i == nil {
			i = &gantryv1.Item{}
		}
		return &gantryv1.CallResponse{Event: &gantryv1.CallResponse_Item{Item: i}}
	case contract.Note:
		return &gantryv1.CallResponse{Event: &gantryv1.CallResponse_Note{Note: noteToProto(e)}}
	case *contract.Result:
		if e == nil {
			return nil
		}
		return &gantryv1.CallResponse{Event: &gantryv1.CallResponse_Result{Result: ResultToProto(e)}}
	}
	return nil
}

// CallEventFromProto converts an event of a call. It reports false for an event of an unknown kind, which should be
// ignored.
func CallEventFromProto(p *gantryv1.CallResponse) (contract.CallEvent, bool) {
	switch e := p.GetEvent().(type) {
	case *gantryv1.CallResponse_Started:
		return startedFromProto(e.Started), true
	case *gantryv1.CallResponse_Output:
		return outputFromProto(e.Output), true
	case *gantryv1.CallResponse_Progress:
		return progressFromProto(e.Progress), true
	case *gantryv1.CallResponse_Artifact:
		return ArtifactRefFromProto(e.Artifact), true
	case *gantryv1.CallResponse_Item:
		return contract.ItemUpdate{Item: ItemFromProto(e.Item)}, true
	case *gantryv1.CallResponse_Note:
		return noteFromProto(e.Note), true
	case *gantryv1.CallResponse_Result:
		if r := ResultFromProto(e.Result); r != nil {
			return r, true
		}
		return &contract.Result{}, true
	}
	return nil, false
}
