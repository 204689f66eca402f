package convert

import (
	"math"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/gantry-agent/gantry/sdk/llm"
	gantryv1 "github.com/gantry-agent/gantry/sdk/proto/gantry/v1"
)

// EventToProto converts an event; nil and blocks of an unknown kind become nil. Metadata at the start of tool input is omitted, because
// only that of the call is used.
func EventToProto(e llm.Event) *gantryv1.LlmEvent {
	p := &gantryv1.LlmEvent{}
	switch e := e.(type) {
	case llm.Attempt:
		p.Event = &gantryv1.LlmEvent_Attempt{Attempt: attemptToProto(e)}
	case llm.Alive:
		p.Event = &gantryv1.LlmEvent_Alive{Alive: &gantryv1.LlmAlive{}}
	case llm.StepStart:
		p.Event = &gantryv1.LlmEvent_StepStart{StepStart: stepStartToProto(e)}
	case llm.BlockStart:
		switch e.Kind {
		case llm.BlockText:
			p.Event = &gantryv1.LlmEvent_TextStart{TextStart: blockStartToProto(e)}
		case llm.BlockReasoning:
			p.Event = &gantryv1.LlmEvent_ReasoningStart{ReasoningStart: blockStartToProto(e)}
		case llm.BlockToolInput:
			p.Event = &gantryv1.LlmEvent_ToolInputStart{ToolInputStart: toolInputStartToProto(e)}
		default:
			return nil
		}
	case llm.BlockDelta:
		switch d := blockDeltaToProto(e); e.Kind {
		case llm.BlockText:
			p.Event = &gantryv1.LlmEvent_TextDelta{TextDelta: d}
		case llm.BlockReasoning:
			p.Event = &gantryv1.LlmEvent_ReasoningDelta{ReasoningDelta: d}
		case llm.BlockToolInput:
			p.Event = &gantryv1.LlmEvent_ToolInputDelta{ToolInputDelta: d}
		default:
			return nil
		}
	case llm.BlockEnd:
		switch d := blockEndToProto(e); e.Kind {
		case llm.BlockText:
			p.Event = &gantryv1.LlmEvent_TextEnd{TextEnd: d}
		case llm.BlockReasoning:
			p.Event = &gantryv1.LlmEvent_ReasoningEnd{ReasoningEnd: d}
		case llm.BlockToolInput:
			p.Event = &gantryv1.LlmEvent_ToolInputEnd{ToolInputEnd: d}
		default:
			return nil
		}
	case llm.ToolInputError:
		p.Event = &gantryv1.LlmEvent_ToolInputError{ToolInputError: toolInputErrorToProto(e)}
	case llm.ToolCallDone:
		p.Event = &gantryv1.LlmEvent_ToolCall{ToolCall: &gantryv1.LlmToolCallEvent{
			Call: toolCallToProto(e.Call), ProviderMetadataJson: metadataToProto(e.Call.Metadata),
		}}
	case llm.ToolResultDone:
		p.Event = &gantryv1.LlmEvent_ToolResult{ToolResult: &gantryv1.LlmToolResultEvent{
			Result: toolResultToProto(e.Result), ProviderMetadataJson: metadataToProto(e.Result.Metadata),
		}}
	case llm.StepFinish:
		p.Event = &gantryv1.LlmEvent_StepFinish{StepFinish: stepFinishToProto(e)}
	case llm.Finish:
		p.Event = &gantryv1.LlmEvent_Finish{Finish: finishToProto(e)}
	case *llm.Error:
		if e == nil {
			return nil
		}
		p.Event = &gantryv1.LlmEvent_Error{Error: ErrorToProto(e)}
	default:
		return nil
	}
	return p
}

// EventFromProto converts an event. It reports false for an event of an unknown kind, which should be ignored.
func EventFromProto(p *gantryv1.LlmEvent) (llm.Event, bool) {
	switch e := p.GetEvent().(type) {
	case *gantryv1.LlmEvent_Attempt:
		return attemptFromProto(e.Attempt), true
	case *gantryv1.LlmEvent_Alive:
		return llm.Alive{}, true
	case *gantryv1.LlmEvent_StepStart:
		return stepStartFromProto(e.StepStart), true
	case *gantryv1.LlmEvent_TextStart:
		return start(llm.BlockText, blockStartFromProto(e.TextStart)), true
	case *gantryv1.LlmEvent_TextDelta:
		return delta(llm.BlockText, e.TextDelta), true
	case *gantryv1.LlmEvent_TextEnd:
		return end(llm.BlockText, e.TextEnd), true
	case *gantryv1.LlmEvent_ReasoningStart:
		return start(llm.BlockReasoning, blockStartFromProto(e.ReasoningStart)), true
	case *gantryv1.LlmEvent_ReasoningDelta:
		return delta(llm.BlockReasoning, e.ReasoningDelta), true
	case *gantryv1.LlmEvent_ReasoningEnd:
		return end(llm.BlockReasoning, e.ReasoningEnd), true
	case *gantryv1.LlmEvent_ToolInputStart:
		return start(llm.BlockToolInput, toolInputStartFromProto(e.ToolInputStart)), true
	case *gantryv1.LlmEvent_ToolInputDelta:
		return delta(llm.BlockToolInput, e.ToolInputDelta), true
	case *gantryv1.LlmEvent_ToolInputEnd:
		return end(llm.BlockToolInput, e.ToolInputEnd), true
	case *gantryv1.LlmEvent_ToolInputError:
		return toolInputErrorFromProto(e.ToolInputError), true
	case *gantryv1.LlmEvent_ToolCall:
		call := toolCallFromProto(e.ToolCall.GetCall())
		call.Metadata = metadataFromProto(e.ToolCall.GetProviderMetadataJson())
		return llm.ToolCallDone{Call: call}, true
	case *gantryv1.LlmEvent_ToolResult:
		res, err := toolResultFromProto(e.ToolResult.GetResult())
		if err != nil {
			return nil, false // handled like an event of an unknown kind
		}
		res.Metadata = metadataFromProto(e.ToolResult.GetProviderMetadataJson())
		return llm.ToolResultDone{Result: res}, true
	case *gantryv1.LlmEvent_StepFinish:
		return stepFinishFromProto(e.StepFinish), true
	case *gantryv1.LlmEvent_Finish:
		return finishFromProto(e.Finish), true
	case *gantryv1.LlmEvent_Error:
		if e := ErrorFromProto(e.Error); e != nil {
			return e, true
		}
		return &llm.Error{}, true
	}
	return nil, false
}

func start(k llm.BlockKind, b llm.BlockStart) llm.BlockStart {
	b.Kind = k
	return b
}

func delta(k llm.BlockKind, p *gantryv1.LlmBlockDelta) llm.BlockDelta {
	b := blockDeltaFromProto(p)
	b.Kind = k
	return b
}

func end(k llm.BlockKind, p *gantryv1.LlmBlockEnd) llm.BlockEnd {
	b := blockEndFromProto(p)
	b.Kind = k
	return b
}

// WarmEvents makes protobuf build its tables for the events of an answer. Otherwise it does so with the first message, the one with the
// first token, which takes half a millisecond on each side. Call it while the model is thinking. A second call takes microseconds.
func WarmEvents() {
	b, err := proto.Marshal(&gantryv1.StreamResponse{Events: EventsToProto([]llm.Event{
		llm.StepStart{ResponseID: "r"}, llm.BlockStart{Kind: llm.BlockText, ID: "t"}, llm.BlockDelta{Kind: llm.BlockText, ID: "t"},
	})})
	if err == nil {
		err = proto.Unmarshal(b, &gantryv1.StreamResponse{})
	}
	if err != nil { // impossible for constant events
		panic("convert: events: " + err.Error())
	}
}

// EventsToProto converts events, leaving out nil ones.
func EventsToProto(es []llm.Event) []*gantryv1.LlmEvent {
	return eachKnown(es, notNil(EventToProto))
}

// EventsFromProto converts events, leaving out unknown ones.
func EventsFromProto(ps []*gantryv1.LlmEvent) []llm.Event { return eachKnown(ps, EventFromProto) }

// FinishReasonToProto converts the reason why an answer ended.
func FinishReasonToProto(r llm.FinishReason) gantryv1.LlmFinishReason {
	if r <= llm.FinishUnknown || r > llm.FinishError {
		return gantryv1.LlmFinishReason_LLM_FINISH_REASON_UNKNOWN
	}
	return gantryv1.LlmFinishReason(r)
}

// FinishReasonFromProto converts the reason why an answer ended.
func FinishReasonFromProto(p gantryv1.LlmFinishReason) llm.FinishReason {
	return enum[llm.FinishReason](p, gantryv1.LlmFinishReason_LLM_FINISH_REASON_ERROR)
}

func errorCodeToProto(c llm.ErrorCode) gantryv1.LlmErrorCode {
	if c <= llm.ErrUnknown || c > llm.ErrOverloaded {
		return gantryv1.LlmErrorCode_LLM_ERROR_CODE_UNKNOWN
	}
	return gantryv1.LlmErrorCode(c)
}

func errorCodeFromProto(p gantryv1.LlmErrorCode) llm.ErrorCode {
	return enum[llm.ErrorCode](p, gantryv1.LlmErrorCode_LLM_ERROR_CODE_OVERLOADED)
}

// ceilMS rounds a duration up to milliseconds. A negative duration becomes 0.
func ceilMS(d time.Duration) int64 {
	ms := int64(max(d, 0) / time.Millisecond)
	if d > 0 && d%time.Millisecond != 0 {
		ms++
	}
	return ms
}

func clamp32(n int) int32 { return int32(min(max(n, math.MinInt32), math.MaxInt32)) }

func fromMS(ms int64) time.Duration {
	return time.Duration(min(max(ms, 0), math.MaxInt64/int64(time.Millisecond))) * time.Millisecond
}
