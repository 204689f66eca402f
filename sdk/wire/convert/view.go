package convert

import (
	"errors"
	"fmt"

	"google.golang.org/protobuf/proto"

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

// MarshalViewRequest encodes a message to a view as a gantry.v1.ViewRequest.
func MarshalViewRequest(r contract.ViewRequest) ([]byte, error) {
	return proto.Marshal(ViewRequestToProto(r))
}

// UnmarshalViewRequest is the reverse of [MarshalViewRequest]. A kind of a later version is an error.
func UnmarshalViewRequest(b []byte) (contract.ViewRequest, error) {
	var m gantryv1.ViewRequest
	if err := proto.Unmarshal(b, &m); err != nil {
		return nil, fmt.Errorf("message to a view: %w", err)
	}
	r, ok := ViewRequestFromProto(&m)
	if !ok {
		return nil, errors.New("message to a view: its kind is unknown")
	}
	return r, nil
}

// MarshalViewEvent encodes a message of a view as a gantry.v1.ViewResponse.
func MarshalViewEvent(e contract.ViewEvent) ([]byte, error) {
	return proto.Marshal(ViewEventToProto(e))
}

// UnmarshalViewEvent is the reverse of [MarshalViewEvent]. A kind of a later version is an error.
func UnmarshalViewEvent(b []byte) (contract.ViewEvent, error) {
	var m gantryv1.ViewResponse
	if err := proto.Unmarshal(b, &m); err != nil {
		return nil, fmt.Errorf("message of a view: %w", err)
	}
	e, ok := ViewEventFromProto(&m)
	if !ok {
		return nil, errors.New("message of a view: its kind is unknown")
	}
	return e, nil
}
