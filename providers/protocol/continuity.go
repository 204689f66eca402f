package protocol

import (
	"encoding/json"

	"github.com/gantry-agent/gantry/sdk/llm"
)

// Data that a vendor requires back unchanged, such as signatures and encrypted reasoning, is only valid for the model family that
// created it, and an error for any other. This file implements the whole rule: a format stamps such data with [Request.Stamped],
// and [Normalised] drops objects with the stamp of another family. Objects without a stamp are valid for all models of the vendor.
// So all data in an object is either specific to the family or not.

// familyKey is the key of the stamp in a namespace's object.
const familyKey = "model"

// Family returns the stamp: the model's family, or its ID if the family is unknown.
func (r *Request) Family() string {
	if r.Model.Family != "" {
		return r.Model.Family
	}
	return r.Model.ID
}

// Stamped returns a copy of m with a stamp. An empty m stays empty.
func (r *Request) Stamped(m Meta) Meta {
	family := r.Family()
	if len(m) == 0 || family == "" {
		return m
	}
	out := Meta{familyKey: family}
	for k, v := range m {
		out[k] = v
	}
	return out
}

// own returns the metadata of a part that may be sent to the vendor and model of r.
func (r *Request) own(md llm.Metadata) llm.Metadata {
	raw, ok := md[r.Namespace]
	if !ok {
		return nil
	}
	var stamp struct {
		Family *string `json:"model"`
	}
	if json.Unmarshal(raw, &stamp) != nil || stamp.Family != nil && *stamp.Family != r.Family() {
		return nil
	}
	if len(md) == 1 {
		return md
	}
	return llm.Metadata{r.Namespace: raw}
}

// foreign reports whether a part comes only from other vendors.
func (r *Request) foreign(md llm.Metadata) bool {
	_, ours := md[r.Namespace]
	return len(md) > 0 && !ours
}
