package messages

import (
	"encoding/json"
	"strings"

	"github.com/gantry-agent/gantry/providers/protocol"
	"github.com/gantry-agent/gantry/sdk/llm"
)

// fault returns the error in an error event. Its message is "type: message", because the vendor's documentation explains the
// types.
func fault(body []byte) *llm.Error {
	f, ok := protocol.ParseFailure(body)
	if !ok {
		f = protocol.Failure{Body: string(body)}
	}
	var own struct {
		RequestID string `json:"request_id"`
		Error     struct {
			Type string `json:"type"`
		} `json:"error"`
	}
	_ = json.Unmarshal(body, &own) // not JSON: no message
	f.RequestID = own.RequestID
	if t := own.Error.Type; t != "" {
		f.Message = strings.TrimSuffix(t+": "+f.Message, ": ")
	}
	return protocol.Classify(f)
}
