package protocol

import (
	"encoding/json"

	"github.com/gantry-agent/gantry/sdk/llm"
)

// What a vendor wants back unchanged (signatures, encrypted reasoning, the like) is worth something to the model family
// that made it, and an error to any other. The whole rule is in this file: a format that keeps such data stamps it with
// [Request.Stamped], and [Normalised] drops an object whose stamp names another family. Objects without a stamp are
// valid for all models of the vendor. So an object holds either what is bound to the family or what is not.

// familyKey is the key of the stamp inside a namespace's object.
const familyKey = "model"

// Family is what the stamp says: the model's family, or its ID where no family is known.
func (r *Request) Family() string {
	if r.Model.Family != "" {
		return r.Model.Family
	}
	return r.Model.ID
}

// Stamped returns a copy of m that says which model family it belongs to. An empty m stays empty.
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

// own is what of a part's metadata may go to the vendor and model of r.
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

// foreign reports that a part comes from other vendors alone.
func (r *Request) foreign(md llm.Metadata) bool {
	_, ours := md[r.Namespace]
	return len(md) > 0 && !ours
}
