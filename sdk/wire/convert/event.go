package convert

import (
	"encoding/json"
	"math"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/gantry-agent/gantry/sdk/llm"
	gantryv1 "github.com/gantry-agent/gantry/sdk/proto/gantry/v1"
)

// EventToProto translates an event; nil and blocks of an unknown kind are nil. Metadata at the start of tool input does
// not travel: that of the call counts.
func EventToProto(e llm.Event) *gantryv1.LlmEvent {
	switch e := e.(type) {
	case llm.Attempt:
		return &gantryv1.LlmEvent{Event: &gantryv1.LlmEvent_Attempt{Attempt: &gantryv1.LlmAttempt{
			N: clamp32(e.N), DelayMs: e.DelayMS, Reason: text(e.Reason),
		}}}
	case llm.Alive:
		return &gantryv1.LlmEvent{Event: &gantryv1.LlmEvent_Alive{Alive: &gantryv1.LlmAlive{}}}
	case llm.StepStart:
		return &gantryv1.LlmEvent{Event: &gantryv1.LlmEvent_StepStart{StepStart: &gantryv1.LlmStepStart{
			ServedModel: text(e.ServedModel), ResponseId: text(e.ResponseID),
		}}}
	case llm.BlockStart:
		return blockStartToProto(e)
	case llm.BlockDelta:
		d := &gantryv1.LlmBlockDelta{Id: text(e.ID), Text: text(e.Text)}
		switch e.Kind {
		case llm.BlockText:
			return &gantryv1.LlmEvent{Event: &gantryv1.LlmEvent_TextDelta{TextDelta: d}}
		case llm.BlockReasoning:
			return &gantryv1.LlmEvent{Event: &gantryv1.LlmEvent_ReasoningDelta{ReasoningDelta: d}}
		case llm.BlockToolInput:
			return &gantryv1.LlmEvent{Event: &gantryv1.LlmEvent_ToolInputDelta{ToolInputDelta: d}}
		}
	case llm.BlockEnd:
		d := &gantryv1.LlmBlockEnd{Id: text(e.ID), ProviderMetadataJson: metadataToProto(e.Metadata), Remark: e.Remark}
		switch e.Kind {
		case llm.BlockText:
			return &gantryv1.LlmEvent{Event: &gantryv1.LlmEvent_TextEnd{TextEnd: d}}
		case llm.BlockReasoning:
			return &gantryv1.LlmEvent{Event: &gantryv1.LlmEvent_ReasoningEnd{ReasoningEnd: d}}
		case llm.BlockToolInput:
			return &gantryv1.LlmEvent{Event: &gantryv1.LlmEvent_ToolInputEnd{ToolInputEnd: d}}
		}
	case llm.ToolInputError:
		return &gantryv1.LlmEvent{Event: &gantryv1.LlmEvent_ToolInputError{ToolInputError: &gantryv1.LlmToolInputError{
			Id: text(e.ID), Name: text(e.Name), Namespace: text(e.Namespace), Raw: text(e.Raw), Message: text(e.Message),
			ProviderMetadataJson: metadataToProto(e.Metadata),
		}}}
	case llm.ToolCallDone:
		return &gantryv1.LlmEvent{Event: &gantryv1.LlmEvent_ToolCall{ToolCall: &gantryv1.LlmToolCallEvent{
			Call: toolCallToProto(&e.Call), ProviderMetadataJson: metadataToProto(e.Call.Metadata),
		}}}
	case llm.ToolResultDone:
		return &gantryv1.LlmEvent{Event: &gantryv1.LlmEvent_ToolResult{ToolResult: &gantryv1.LlmToolResultEvent{
			Result: toolResultToProto(&e.Result), ProviderMetadataJson: metadataToProto(e.Result.Metadata),
		}}}
	case llm.StepFinish:
		return &gantryv1.LlmEvent{Event: &gantryv1.LlmEvent_StepFinish{StepFinish: &gantryv1.LlmStepFinish{
			Reason: FinishReasonToProto(e.Reason), RawReason: text(e.RawReason), Usage: UsageToProto(e.Usage), Again: e.Again,
		}}}
	case llm.Finish:
		return &gantryv1.LlmEvent{Event: &gantryv1.LlmEvent_Finish{Finish: &gantryv1.LlmFinish{
			Reason: FinishReasonToProto(e.Reason), Usage: UsageToProto(e.Usage), ProviderMetadataJson: metadataToProto(e.Metadata),
		}}}
	case *llm.Error:
		if e == nil {
			return nil
		}
		return &gantryv1.LlmEvent{Event: &gantryv1.LlmEvent_Error{Error: ErrorToProto(e)}}
	}
	return nil
}

func blockStartToProto(e llm.BlockStart) *gantryv1.LlmEvent {
	switch e.Kind {
	case llm.BlockText:
		return &gantryv1.LlmEvent{Event: &gantryv1.LlmEvent_TextStart{TextStart: &gantryv1.LlmBlockStart{
			Id: text(e.ID), ProviderMetadataJson: metadataToProto(e.Metadata),
		}}}
	case llm.BlockReasoning:
		return &gantryv1.LlmEvent{Event: &gantryv1.LlmEvent_ReasoningStart{ReasoningStart: &gantryv1.LlmBlockStart{
			Id: text(e.ID), ProviderMetadataJson: metadataToProto(e.Metadata),
		}}}
	case llm.BlockToolInput:
		return &gantryv1.LlmEvent{Event: &gantryv1.LlmEvent_ToolInputStart{ToolInputStart: &gantryv1.LlmToolInputStart{
			Id: text(e.ID), Name: text(e.Name), Namespace: text(e.Namespace), Freeform: e.Freeform, ProviderExecuted: e.ProviderExecuted,
		}}}
	}
	return nil
}

// EventFromProto translates an event. It reports false for one of an unknown kind, which is to be ignored.
func EventFromProto(p *gantryv1.LlmEvent) (llm.Event, bool) {
	switch e := p.GetEvent().(type) {
	case *gantryv1.LlmEvent_Attempt:
		return llm.Attempt{N: int(e.Attempt.GetN()), DelayMS: e.Attempt.GetDelayMs(), Reason: e.Attempt.GetReason()}, true
	case *gantryv1.LlmEvent_Alive:
		return llm.Alive{}, true
	case *gantryv1.LlmEvent_StepStart:
		return llm.StepStart{ServedModel: e.StepStart.GetServedModel(), ResponseID: e.StepStart.GetResponseId()}, true
	case *gantryv1.LlmEvent_TextStart:
		return blockStartFromProto(llm.BlockText, e.TextStart), true
	case *gantryv1.LlmEvent_TextDelta:
		return blockDeltaFromProto(llm.BlockText, e.TextDelta), true
	case *gantryv1.LlmEvent_TextEnd:
		return blockEndFromProto(llm.BlockText, e.TextEnd), true
	case *gantryv1.LlmEvent_ReasoningStart:
		return blockStartFromProto(llm.BlockReasoning, e.ReasoningStart), true
	case *gantryv1.LlmEvent_ReasoningDelta:
		return blockDeltaFromProto(llm.BlockReasoning, e.ReasoningDelta), true
	case *gantryv1.LlmEvent_ReasoningEnd:
		return blockEndFromProto(llm.BlockReasoning, e.ReasoningEnd), true
	case *gantryv1.LlmEvent_ToolInputStart:
		s := e.ToolInputStart
		return llm.BlockStart{
			Kind: llm.BlockToolInput, ID: s.GetId(), Name: s.GetName(), Namespace: s.GetNamespace(), Freeform: s.GetFreeform(),
			ProviderExecuted: s.GetProviderExecuted(),
		}, true
	case *gantryv1.LlmEvent_ToolInputDelta:
		return blockDeltaFromProto(llm.BlockToolInput, e.ToolInputDelta), true
	case *gantryv1.LlmEvent_ToolInputEnd:
		return blockEndFromProto(llm.BlockToolInput, e.ToolInputEnd), true
	case *gantryv1.LlmEvent_ToolInputError:
		x := e.ToolInputError
		return llm.ToolInputError{
			ID: x.GetId(), Name: x.GetName(), Namespace: x.GetNamespace(), Raw: x.GetRaw(), Message: x.GetMessage(),
			Metadata: metadataFromProto(x.GetProviderMetadataJson()),
		}, true
	case *gantryv1.LlmEvent_ToolCall:
		call := toolCallFromProto(e.ToolCall.GetCall())
		call.Metadata = metadataFromProto(e.ToolCall.GetProviderMetadataJson())
		return llm.ToolCallDone{Call: call}, true
	case *gantryv1.LlmEvent_ToolResult:
		res, err := toolResultFromProto(e.ToolResult.GetResult())
		if err != nil {
			return nil, false // a result with a part of an unknown kind is an event of an unknown kind
		}
		res.Metadata = metadataFromProto(e.ToolResult.GetProviderMetadataJson())
		return llm.ToolResultDone{Result: res}, true
	case *gantryv1.LlmEvent_StepFinish:
		f := e.StepFinish
		return llm.StepFinish{
			Reason: FinishReasonFromProto(f.GetReason()), RawReason: f.GetRawReason(), Usage: UsageFromProto(f.GetUsage()),
			Again: f.GetAgain(),
		}, true
	case *gantryv1.LlmEvent_Finish:
		f := e.Finish
		return llm.Finish{
			Reason: FinishReasonFromProto(f.GetReason()), Usage: UsageFromProto(f.GetUsage()),
			Metadata: metadataFromProto(f.GetProviderMetadataJson()),
		}, true
	case *gantryv1.LlmEvent_Error:
		if e := ErrorFromProto(e.Error); e != nil {
			return e, true
		}
		return &llm.Error{}, true
	}
	return nil, false
}

func blockStartFromProto(k llm.BlockKind, p *gantryv1.LlmBlockStart) llm.BlockStart {
	return llm.BlockStart{Kind: k, ID: p.GetId(), Metadata: metadataFromProto(p.GetProviderMetadataJson())}
}

func blockDeltaFromProto(k llm.BlockKind, p *gantryv1.LlmBlockDelta) llm.BlockDelta {
	return llm.BlockDelta{Kind: k, ID: p.GetId(), Text: p.GetText()}
}

func blockEndFromProto(k llm.BlockKind, p *gantryv1.LlmBlockEnd) llm.BlockEnd {
	return llm.BlockEnd{Kind: k, ID: p.GetId(), Metadata: metadataFromProto(p.GetProviderMetadataJson()), Remark: p.GetRemark()}
}

// WarmEvents makes the tables by which protobuf reads and writes the events of an answer. It makes them with the first message
// else, for half a millisecond at either end, and that is the one with the first token. To be called while the model thinks;
// a further call takes microseconds.
func WarmEvents() {
	b, err := proto.Marshal(&gantryv1.StreamResponse{Events: EventsToProto([]llm.Event{
		llm.StepStart{ResponseID: "r"}, llm.BlockStart{Kind: llm.BlockText, ID: "t"}, llm.BlockDelta{Kind: llm.BlockText, ID: "t"},
	})})
	if err == nil {
		err = proto.Unmarshal(b, &gantryv1.StreamResponse{})
	}
	if err != nil { // of three constant events
		panic("convert: events: " + err.Error())
	}
}

// EventsToProto translates events and leaves nil ones out.
func EventsToProto(es []llm.Event) []*gantryv1.LlmEvent {
	return eachKnown(es, func(e llm.Event) (*gantryv1.LlmEvent, bool) {
		p := EventToProto(e)
		return p, p != nil
	})
}

// EventsFromProto translates events and leaves unknown ones out.
func EventsFromProto(ps []*gantryv1.LlmEvent) []llm.Event { return eachKnown(ps, EventFromProto) }

// FinishReasonToProto translates the reason why an answer ended.
func FinishReasonToProto(r llm.FinishReason) gantryv1.LlmFinishReason {
	if r <= llm.FinishUnknown || r > llm.FinishError {
		return gantryv1.LlmFinishReason_LLM_FINISH_REASON_UNKNOWN
	}
	return gantryv1.LlmFinishReason(r)
}

// FinishReasonFromProto translates the reason why an answer ended.
func FinishReasonFromProto(p gantryv1.LlmFinishReason) llm.FinishReason {
	return enum[gantryv1.LlmFinishReason, llm.FinishReason](p, gantryv1.LlmFinishReason_LLM_FINISH_REASON_ERROR)
}

// UsageToProto translates usage; a zero value is absent.
func UsageToProto(u llm.Usage) *gantryv1.LlmUsage {
	if u.Input == nil && u.Output == nil && u.Total == nil && u.CacheRead == nil && u.CacheWrite == nil && u.Reasoning == nil &&
		len(u.Raw) == 0 && u.CostUSD == nil {
		return nil
	}
	return &gantryv1.LlmUsage{
		InputTokens: u.Input, OutputTokens: u.Output, TotalTokens: u.Total, CacheReadTokens: u.CacheRead,
		CacheWriteTokens: u.CacheWrite, ReasoningTokens: u.Reasoning, RawJson: u.Raw, CostUsd: u.CostUSD,
	}
}

// UsageFromProto translates usage.
func UsageFromProto(p *gantryv1.LlmUsage) llm.Usage {
	if p == nil {
		return llm.Usage{}
	}
	return llm.Usage{
		Input: p.InputTokens, Output: p.OutputTokens, Total: p.TotalTokens, CacheRead: p.CacheReadTokens,
		CacheWrite: p.CacheWriteTokens, Reasoning: p.ReasoningTokens, Raw: raw(p.RawJson), CostUSD: p.CostUsd,
	}
}

// ErrorToProto translates an error. The time to wait is rounded up to milliseconds.
func ErrorToProto(e *llm.Error) *gantryv1.LlmError {
	if e == nil {
		return nil
	}
	p := &gantryv1.LlmError{
		Code:         gantryv1.LlmErrorCode_LLM_ERROR_CODE_UNKNOWN,
		Message:      text(e.Message),
		Retryable:    e.Retryable,
		RetryAfterMs: ceilMS(e.RetryAfter),
		Status:       clamp32(e.Status),
		RequestId:    text(e.RequestID),
		Next:         text(e.Next),
		Offline:      e.Offline,
	}
	if e.Code > llm.ErrUnknown && e.Code <= llm.ErrOverloaded {
		p.Code = gantryv1.LlmErrorCode(e.Code)
	}
	return p
}

// ErrorFromProto translates an error.
func ErrorFromProto(p *gantryv1.LlmError) *llm.Error {
	if p == nil {
		return nil
	}
	ms := min(max(p.GetRetryAfterMs(), 0), math.MaxInt64/int64(time.Millisecond))
	return &llm.Error{
		Code:       enum[gantryv1.LlmErrorCode, llm.ErrorCode](p.GetCode(), gantryv1.LlmErrorCode_LLM_ERROR_CODE_OVERLOADED),
		Message:    p.GetMessage(),
		Retryable:  p.GetRetryable(),
		RetryAfter: time.Duration(ms) * time.Millisecond,
		Status:     int(p.GetStatus()),
		RequestID:  p.GetRequestId(),
		Next:       p.GetNext(),
		Offline:    p.GetOffline(),
	}
}

func ceilMS(d time.Duration) int64 {
	ms := int64(max(d, 0) / time.Millisecond)
	if d > 0 && d%time.Millisecond != 0 {
		ms++
	}
	return ms
}

func clamp32(n int) int32 { return int32(min(max(n, math.MinInt32), math.MaxInt32)) }

func metadataToProto[M ~map[string]json.RawMessage](m M) map[string][]byte {
	if len(m) == 0 {
		return nil
	}
	out := make(map[string][]byte, len(m))
	for k, v := range m {
		out[text(k)] = v
	}
	return out
}

func metadataFromProto(p map[string][]byte) map[string]json.RawMessage {
	if len(p) == 0 {
		return nil
	}
	out := make(map[string]json.RawMessage, len(p))
	for k, v := range p {
		out[k] = raw(v)
	}
	return out
}
