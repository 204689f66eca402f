package convert

import (
	"github.com/gantry-agent/gantry/sdk/contract"
	gantryv1 "github.com/gantry-agent/gantry/sdk/proto/gantry/v1"
)

// viewInputToProto converts what a person does; no act is a message without one.
func viewInputToProto(x contract.ViewInput) *gantryv1.ViewInput {
	if p := ViewActToProto(x.Act); p != nil {
		return p
	}
	return &gantryv1.ViewInput{}
}

func viewInputFromProto(p *gantryv1.ViewInput) contract.ViewInput {
	return contract.ViewInput{Act: ViewActFromProto(p)}
}

func viewKindsToProto(kinds []contract.ViewKind) []gantryv1.ViewKind {
	var out []gantryv1.ViewKind
	for _, k := range kinds {
		out = append(out, enum[gantryv1.ViewKind](k, contract.ViewScreen))
	}
	return out
}

func viewKindsFromProto(kinds []gantryv1.ViewKind) []contract.ViewKind {
	var out []contract.ViewKind
	for _, k := range kinds {
		out = append(out, enum[contract.ViewKind](k, gantryv1.ViewKind_VIEW_KIND_SCREEN))
	}
	return out
}
