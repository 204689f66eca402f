package protocol

import (
	"bytes"
	"encoding/json"
)

// Encode is [json.Marshal] without the escapes that make "<" six bytes long: bodies are no HTML, and what a vendor gave us
// goes back as it came.
func Encode(v any) (json.RawMessage, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}
