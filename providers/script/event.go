package script

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/gantry-agent/gantry/sdk/llm"
)

// eventJSON is the written form of every event; which fields count depends on the type.
type eventJSON struct {
	Type string `json:"type"`

	ID               string       `json:"id,omitempty"`
	Name             string       `json:"name,omitempty"`
	Namespace        string       `json:"namespace,omitempty"`
	Text             string       `json:"text,omitempty"`
	Freeform         bool         `json:"freeform,omitempty"`
	ProviderExecuted bool         `json:"providerExecuted,omitempty"`
	Metadata         llm.Metadata `json:"providerMetadata,omitempty"`
	Message          string       `json:"message,omitempty"`

	N       int    `json:"n,omitempty"`
	DelayMS int64  `json:"delayMs,omitempty"`
	Cause   string `json:"cause,omitempty"`

	ServedModel string `json:"servedModel,omitempty"`
	ResponseID  string `json:"responseId,omitempty"`

	Call   *llm.ToolCall   `json:"call,omitempty"`
	Result *llm.ToolResult `json:"result,omitempty"`

	Reason    llm.FinishReason `json:"reason,omitempty"`
	RawReason string           `json:"rawReason,omitempty"`
	Usage     *llm.Usage       `json:"usage,omitempty"`
	Again     bool             `json:"again,omitempty"`

	Error *llm.Error `json:"error,omitempty"`
}

// MarshalEvent returns an event as a JSON object with a "type", which is its [llm.EventName].
func MarshalEvent(e llm.Event) ([]byte, error) {
	j := eventJSON{}
	switch e := e.(type) {
	case llm.Attempt:
		j = eventJSON{N: e.N, DelayMS: e.DelayMS, Cause: e.Reason}
	case llm.StepStart:
		j = eventJSON{ServedModel: e.ServedModel, ResponseID: e.ResponseID}
	case llm.BlockStart:
		if e.Kind == llm.BlockUnknown {
			return nil, fmt.Errorf("start of a block of unknown kind")
		}
		j = eventJSON{ID: e.ID, Name: e.Name, Namespace: e.Namespace, Freeform: e.Freeform, ProviderExecuted: e.ProviderExecuted, Metadata: e.Metadata}
	case llm.BlockDelta:
		if e.Kind == llm.BlockUnknown {
			return nil, fmt.Errorf("delta of a block of unknown kind")
		}
		j = eventJSON{ID: e.ID, Text: e.Text}
	case llm.BlockEnd:
		if e.Kind == llm.BlockUnknown {
			return nil, fmt.Errorf("end of a block of unknown kind")
		}
		j = eventJSON{ID: e.ID, Metadata: e.Metadata}
	case llm.ToolInputError:
		j = eventJSON{ID: e.ID, Name: e.Name, Namespace: e.Namespace, Text: e.Raw, Message: e.Message, Metadata: e.Metadata}
	case llm.ToolCallDone:
		j = eventJSON{Call: &e.Call}
	case llm.ToolResultDone:
		j = eventJSON{Result: &e.Result}
	case llm.StepFinish:
		j = eventJSON{Reason: e.Reason, RawReason: e.RawReason, Usage: &e.Usage, Again: e.Again}
	case llm.Finish:
		j = eventJSON{Reason: e.Reason, Usage: &e.Usage, Metadata: e.Metadata}
	case *llm.Error:
		j = eventJSON{Error: e}
	default:
		return nil, fmt.Errorf("event of unknown type %T", e)
	}
	j.Type = llm.EventName(e)
	return json.Marshal(j)
}

// UnmarshalEvent reads what [MarshalEvent] writes.
func UnmarshalEvent(b []byte) (llm.Event, error) {
	var j eventJSON
	if err := strict(b, &j); err != nil {
		return nil, err
	}
	usage := llm.Usage{}
	if j.Usage != nil {
		usage = *j.Usage
	}
	switch j.Type {
	case "attempt":
		return llm.Attempt{N: j.N, DelayMS: j.DelayMS, Reason: j.Cause}, nil
	case "step-start":
		return llm.StepStart{ServedModel: j.ServedModel, ResponseID: j.ResponseID}, nil
	case "tool-input-error":
		return llm.ToolInputError{ID: j.ID, Name: j.Name, Namespace: j.Namespace, Raw: j.Text, Message: j.Message, Metadata: j.Metadata}, nil
	case "tool-call":
		if j.Call == nil {
			return nil, fmt.Errorf("event tool-call needs a call")
		}
		return llm.ToolCallDone{Call: *j.Call}, nil
	case "tool-result":
		if j.Result == nil {
			return nil, fmt.Errorf("event tool-result needs a result")
		}
		return llm.ToolResultDone{Result: *j.Result}, nil
	case "step-finish":
		return llm.StepFinish{Reason: j.Reason, RawReason: j.RawReason, Usage: usage, Again: j.Again}, nil
	case "finish":
		return llm.Finish{Reason: j.Reason, Usage: usage, Metadata: j.Metadata}, nil
	case "error":
		if j.Error == nil {
			return nil, fmt.Errorf("event error needs an error")
		}
		return j.Error, nil
	}
	for _, kind := range []llm.BlockKind{llm.BlockText, llm.BlockReasoning, llm.BlockToolInput} {
		switch name := kind.String(); j.Type {
		case name + "-start":
			return llm.BlockStart{Kind: kind, ID: j.ID, Name: j.Name, Namespace: j.Namespace, Freeform: j.Freeform, ProviderExecuted: j.ProviderExecuted, Metadata: j.Metadata}, nil
		case name + "-delta":
			return llm.BlockDelta{Kind: kind, ID: j.ID, Text: j.Text}, nil
		case name + "-end":
			return llm.BlockEnd{Kind: kind, ID: j.ID, Metadata: j.Metadata}, nil
		}
	}
	return nil, fmt.Errorf("unknown event type %q; known are %s", j.Type, strings.Join(eventTypes(), ", "))
}

func eventTypes() []string {
	names := []string{"attempt", "step-start", "tool-input-error", "tool-call", "tool-result", "step-finish", "finish", "error"}
	for _, k := range []string{"text", "reasoning", "tool-input"} {
		names = append(names, k+"-start", k+"-delta", k+"-end")
	}
	return names
}
