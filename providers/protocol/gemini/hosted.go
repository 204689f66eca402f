package gemini

import (
	"encoding/json"
	"strings"

	"github.com/gantry-agent/gantry/providers/protocol"
	"github.com/gantry-agent/gantry/sdk/llm"
)

// codeExecution is the name of the hosted tool that runs code.
const codeExecution = "code_execution"

// hosted emits the call or result of a hosted tool, with the vendor's own form, which is sent back later.
func (d *decoder) hosted(dst []llm.Event, p *answerPart) ([]llm.Event, error) {
	meta := d.signed(protocol.Meta{"part": p.hosted}, p.ThoughtSignature)
	dst = d.close(dst)
	switch {
	case isSet(p.ExecutableCode):
		return d.hostedCall(dst, hostedID(p.ExecutableCode), codeExecution, p.ExecutableCode, meta), nil
	case isSet(p.ToolCall):
		var c struct {
			Type string          `json:"toolType"`
			Args json.RawMessage `json:"args"`
		}
		if err := json.Unmarshal(p.ToolCall, &c); err != nil || c.Type == "" {
			return dst, protocol.Garbled("a hosted call of the answer has no type")
		}
		return d.hostedCall(dst, hostedID(p.ToolCall), strings.ToLower(c.Type), c.Args, meta), nil
	case isSet(p.CodeExecutionResult):
		var r struct {
			Outcome string `json:"outcome"`
			Output  string `json:"output"`
		}
		if err := json.Unmarshal(p.CodeExecutionResult, &r); err != nil {
			return dst, protocol.Garbled("the result of a hosted call can't be read: " + err.Error())
		}
		failed := r.Outcome != "" && r.Outcome != "OUTCOME_OK"
		return d.hostedResult(dst, hostedID(p.CodeExecutionResult), r.Output, failed, meta), nil
	case isSet(p.ToolResponse):
		var r struct {
			Response json.RawMessage `json:"response"`
		}
		if err := json.Unmarshal(p.ToolResponse, &r); err != nil {
			return dst, protocol.Garbled("the result of a hosted call can't be read: " + err.Error())
		}
		return d.hostedResult(dst, hostedID(p.ToolResponse), string(r.Response), false, meta), nil
	}
	return dst, nil
}

func hostedID(raw json.RawMessage) string {
	var v struct {
		ID string `json:"id"`
	}
	_ = json.Unmarshal(raw, &v) // an ID of another type counts as missing
	return v.ID
}

func (d *decoder) hostedCall(dst []llm.Event, id, name string, args json.RawMessage, meta protocol.Meta) []llm.Event {
	call := llm.ToolCall{ID: d.unused(id), Name: name, ProviderExecuted: true}
	if isSet(args) {
		call.Input = string(args)
	}
	d.hostedID, d.hostedName = call.ID, name
	return d.calls.Whole(dst, call, meta)
}

// hostedResult emits the result for the call with this ID, or for the last call. A result without a call is dropped.
func (d *decoder) hostedResult(dst []llm.Event, id, text string, failed bool, meta protocol.Meta) []llm.Event {
	if id == "" || !d.calls.Used(id) {
		id = d.hostedID
	}
	if id == "" {
		return dst
	}
	return append(dst, llm.ToolResultDone{Result: llm.ToolResult{
		ID: id, Name: d.hostedName, Content: llm.Parts{&llm.Text{Text: text}}, IsError: failed, ProviderExecuted: true,
		Metadata: meta.Under(d.life.Namespace),
	}})
}
