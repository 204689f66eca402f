package codemode

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
)

// Bytes is binary data. In JSON it has the tagged form in which it is exchanged with scripts, where it is a Uint8Array. Use it in
// the parameters and results of functions in place of []byte.
type Bytes []byte

// tagged is the form of bytes in JSON.
type tagged struct {
	Kind *string `json:"__codemode_binary_v1__"`
	Data string  `json:"data"`
}

// MarshalJSON implements [json.Marshaler].
func (b Bytes) MarshalJSON() ([]byte, error) {
	kind := "Uint8Array"
	return json.Marshal(tagged{Kind: &kind, Data: base64.StdEncoding.EncodeToString(b)})
}

// UnmarshalJSON implements [json.Unmarshaler]. It accepts typed arrays, other views and array buffers.
func (b *Bytes) UnmarshalJSON(text []byte) error {
	var t tagged
	if err := json.Unmarshal(text, &t); err != nil {
		return fmt.Errorf("bytes: %w", err)
	}
	if t.Kind == nil || *t.Kind != "Uint8Array" && *t.Kind != "ArrayBuffer" && *t.Kind != "ArrayBufferView" {
		return fmt.Errorf("bytes: not a Uint8Array, a view or an ArrayBuffer")
	}
	data, err := base64.StdEncoding.DecodeString(t.Data)
	if err != nil {
		return fmt.Errorf("bytes: %w", err)
	}
	*b = data
	return nil
}
