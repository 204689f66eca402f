package protocol

import (
	"bytes"
	"encoding/json"
)

// Encode is [json.Marshal] without HTML escaping: bodies are not HTML, and a vendor's own data must be sent back unchanged.
func Encode(v any) (json.RawMessage, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}
