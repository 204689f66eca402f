package convertgen

import (
	"reflect"

	"github.com/gantry-agent/gantry/sdk/contract"
	"github.com/gantry-agent/gantry/sdk/llm"
	gantryv1 "github.com/gantry-agent/gantry/sdk/proto/gantry/v1"
)

// conversions returns the table of all conversions in sdk/wire/convert.
func conversions() []conversion {
	return []conversion{
		// manifest and configuration
		pair[*contract.Manifest, gantryv1.Manifest]("Manifest"),
		pair[contract.CommandSpec, gantryv1.CommandSpec]("command"),
		pair[contract.Limits, gantryv1.Limits]("Limits").orNil(),
		pair[contract.ConfigBlock, gantryv1.ConfigBlock]("configBlock").orNil(),
		pair[contract.ConfigAttribute, gantryv1.ConfigAttribute]("attribute"),
		pair[contract.ConfigNestedBlock, gantryv1.ConfigNestedBlock]("nestedBlock"),
		pair[contract.Diagnostic, gantryv1.Diagnostic]("Diagnostic"),
		hand[contract.Step, *gantryv1.PathStep]("step"),

		// tools
		pair[contract.Descriptor, gantryv1.ToolDescriptor]("Descriptor"),
		pair[*contract.Freeform, gantryv1.Freeform]("freeform"),
		pair[*contract.ToolSet, gantryv1.WatchResponse]("ToolSet"),
		pair[contract.Source, gantryv1.ToolSource]("source"),
		pair[contract.SourcePrompt, gantryv1.SourcePrompt]("sourcePrompt"),
		pair[contract.SourcePromptArgument, gantryv1.SourcePromptArgument]("sourcePromptArgument"),
		pair[contract.ConfigEdit, gantryv1.ConfigEdit]("ConfigEdit"),
		pair[*contract.NextCommand, gantryv1.NextCommand]("NextCommand"),
		union[contract.Effect, gantryv1.Effect]("Effect", "contract.OtherEffect{Label: contract.UnknownEffect}",
			contract.ExecEffect{}, contract.WriteEffect{}, contract.ReadEffect{}, contract.NetworkEffect{},
			contract.BrowserEffect{}, contract.SessionInputEffect{}, contract.ServiceEffect{}, contract.OtherEffect{}),
		pair[contract.ExecEffect, gantryv1.ExecEffect]("execEffect"),
		pair[contract.WriteEffect, gantryv1.WriteEffect]("writeEffect"),
		pair[contract.ReadEffect, gantryv1.ReadEffect]("readEffect"),
		pair[contract.NetworkEffect, gantryv1.NetworkEffect]("networkEffect"),
		pair[contract.BrowserEffect, gantryv1.BrowserEffect]("browserEffect"),
		pair[contract.SessionInputEffect, gantryv1.SessionInputEffect]("sessionInputEffect"),
		pair[contract.ServiceEffect, gantryv1.ServiceEffect]("serviceEffect"),
		pair[contract.OtherEffect, gantryv1.OtherEffect]("otherEffect"),

		// calls
		hand[contract.Input, *gantryv1.CallInput]("Input"),
		pair[contract.GrantFacts, gantryv1.GrantFacts]("GrantFacts"),
		pair[*contract.AssessRequest, gantryv1.AssessRequest]("AssessRequest"),
		pair[*contract.Assessment, gantryv1.AssessResponse]("Assessment"),
		pair[*contract.Escalation, gantryv1.Escalation]("escalation"),
		pair[*contract.CallStart, gantryv1.CallStart]("CallStart"),
		pair[contract.CallCaps, gantryv1.CallCaps]("callCaps"),
		pair[contract.Started, gantryv1.CallStarted]("started"),
		pair[contract.Output, gantryv1.OutputDelta]("output"),
		pair[contract.Progress, gantryv1.Progress]("progress"),
		pair[contract.ArtifactRef, gantryv1.ArtifactRef]("ArtifactRef"),
		pair[contract.Note, gantryv1.Note]("note"),
		pair[*contract.Result, gantryv1.CallResult]("Result"),
		hand[[]contract.Part, []*gantryv1.ResultPart]("Parts"),
		pair[contract.TextPart, gantryv1.TextPart]("textPart").leaving("Audience"),
		pair[contract.MediaPart, gantryv1.MediaPart]("mediaPart").leaving("Audience", "Source").
			with("Data", "", "raw(p.GetData())").with("Artifact", "", "p.GetArtifact()"),
		pair[contract.SealedPart, gantryv1.SealedPart]("sealedPart").leaving("Audience"),

		// items
		union[contract.Item, gantryv1.Item]("Item", "nil",
			&contract.CommandItem{}, &contract.FileChangeItem{}, &contract.MCPCallItem{}, &contract.WebSearchItem{},
			&contract.ImageItem{}, &contract.BrowserItem{}, &contract.OtherItem{}, &contract.CodeItem{}),
		pair[contract.CommandItem, gantryv1.CommandItem]("commandItem"),
		pair[contract.CodeItem, gantryv1.CodeItem]("codeItem"),
		pair[contract.FileChangeItem, gantryv1.FileChangeItem]("fileChangeItem"),
		pair[contract.FileChange, gantryv1.FileChange]("fileChange"),
		pair[contract.MCPCallItem, gantryv1.McpCallItem]("mcpCallItem"),
		pair[contract.WebSearchItem, gantryv1.WebSearchItem]("webSearchItem"),
		pair[contract.ImageItem, gantryv1.ImageItem]("imageItem"),
		pair[contract.BrowserItem, gantryv1.BrowserItem]("browserItem"),
		pair[contract.OtherItem, gantryv1.OtherItem]("otherItem"),

		// threads
		union[contract.ThreadEvent, gantryv1.ThreadResponse]("ThreadEvent", "",
			contract.ContextText{}, contract.SessionOpened{}, contract.SessionOutput{}, contract.SessionExited{}),
		pair[contract.ContextText, gantryv1.ContextText]("contextText"),
		pair[contract.SessionOpened, gantryv1.SessionOpened]("sessionOpened"),
		pair[contract.SessionOutput, gantryv1.SessionOutput]("sessionOutput"),
		pair[contract.SessionExited, gantryv1.SessionExited]("sessionExited"),

		// views
		union[contract.ViewRequest, gantryv1.ViewRequest]("ViewRequest", "",
			contract.ViewOpen{}, contract.ViewAck{}, contract.ViewResize{}, contract.ViewInput{}, contract.ViewControl{}, contract.ViewClose{}),
		pair[contract.ViewOpen, gantryv1.ViewOpen]("viewOpen").with("Kinds", "viewKindsToProto(x.Kinds)", "viewKindsFromProto(p.GetKinds())"),
		pair[contract.ViewSize, gantryv1.ViewSize]("viewSize").orNil(),
		pair[contract.ViewAck, gantryv1.ViewAck]("viewAck"),
		pair[contract.ViewResize, gantryv1.ViewResize]("viewResize"),
		pair[contract.ViewControl, gantryv1.ViewControl]("viewControl"),
		pair[contract.ViewClose, gantryv1.ViewClose]("viewClose"),
		hand[contract.ViewInput, *gantryv1.ViewInput]("viewInput"),
		union[contract.ViewAct, gantryv1.ViewInput]("ViewAct", "nil",
			contract.ViewBytes{}, contract.ViewPointer{}, contract.ViewWheel{}, contract.ViewKey{}, contract.ViewText{}, contract.ViewPaste{},
			contract.ViewFiles{}, contract.ViewNavigate{}, contract.ViewSwitch{}, contract.ViewAnswer{}),
		pair[contract.ViewBytes, gantryv1.ViewBytes]("viewBytes"),
		pair[contract.ViewPointer, gantryv1.ViewPointer]("viewPointer"),
		pair[contract.ViewWheel, gantryv1.ViewWheel]("viewWheel"),
		pair[contract.ViewKey, gantryv1.ViewKey]("viewKey"),
		pair[contract.ViewText, gantryv1.ViewText]("viewText"),
		pair[contract.ViewPaste, gantryv1.ViewPaste]("viewPaste"),
		pair[contract.ViewFiles, gantryv1.ViewFiles]("viewFiles"),
		pair[contract.ViewNavigate, gantryv1.ViewNavigate]("viewNavigate"),
		pair[contract.ViewSwitch, gantryv1.ViewSwitch]("viewSwitch"),
		pair[contract.ViewAnswer, gantryv1.ViewAnswer]("viewAnswer"),
		union[contract.ViewEvent, gantryv1.ViewResponse]("ViewEvent", "",
			contract.ViewOpened{}, contract.ViewFrame{}, contract.ViewState{}, contract.ViewClosed{}),
		pair[contract.ViewOpened, gantryv1.ViewOpened]("viewOpened"),
		pair[contract.ViewTarget, gantryv1.ViewTarget]("viewTarget"),
		pair[contract.ViewFrame, gantryv1.ViewFrame]("viewFrame"),
		pair[*contract.ViewOutput, gantryv1.ViewOutput]("viewOutput"),
		pair[*contract.ViewPicture, gantryv1.ViewPicture]("viewPicture"),
		pair[contract.ViewState, gantryv1.ViewState]("viewState"),
		pair[*contract.ViewDialog, gantryv1.ViewDialog]("viewDialog"),
		pair[contract.ViewClosed, gantryv1.ViewClosed]("viewClosed"),

		// requests to a model
		pair[*llm.Request, gantryv1.LlmRequest]("Request").with("Messages", "each(x.Messages, MessageToProto)", ""),
		hand[string, *gantryv1.SystemPart]("system"),
		pair[llm.ToolChoice, gantryv1.LlmToolChoice]("toolChoice").orNil(),
		pair[llm.Generation, gantryv1.Generation]("generation").orNil(),
		pair[llm.Tool, gantryv1.LlmTool]("LLMTool"),
		pair[*llm.Freeform, gantryv1.LlmFreeform]("llmFreeform"),
		pair[llm.Message, gantryv1.LlmMessage]("Message").with("Parts", "llmPartsToProto(x.Parts)", ""),
		pair[llm.Text, gantryv1.LlmText]("llmText").leaving("Metadata"),
		pair[llm.Media, gantryv1.LlmMedia]("llmMedia").leaving("Metadata", "Source").with("Data", "", "raw(p.GetData())").
			with("URL", "", "p.GetUrl()").with("Artifact", "", "p.GetArtifact()"),
		pair[llm.ToolCall, gantryv1.LlmToolCall]("toolCall").leaving("Metadata"),
		pair[llm.ToolResult, gantryv1.LlmToolResult]("toolResult").leaving("Metadata").
			with("Content", "llmPartsToProto(x.Content)", ""),
		pair[llm.Reasoning, gantryv1.LlmReasoning]("reasoning").leaving("Metadata"),
		pair[llm.Sealed, gantryv1.LlmSealed]("llmSealed").leaving("Metadata"),

		// answers of a model
		pair[llm.Attempt, gantryv1.LlmAttempt]("attempt"),
		pair[llm.StepStart, gantryv1.LlmStepStart]("stepStart"),
		pair[llm.BlockStart, gantryv1.LlmBlockStart]("blockStart").leaving("Kind", "Name", "Namespace", "Freeform", "ProviderExecuted"),
		pair[llm.BlockStart, gantryv1.LlmToolInputStart]("toolInputStart").leaving("Kind", "Metadata"),
		pair[llm.BlockDelta, gantryv1.LlmBlockDelta]("blockDelta").leaving("Kind"),
		pair[llm.BlockEnd, gantryv1.LlmBlockEnd]("blockEnd").leaving("Kind"),
		pair[llm.ToolInputError, gantryv1.LlmToolInputError]("toolInputError"),
		pair[llm.StepFinish, gantryv1.LlmStepFinish]("stepFinish"),
		pair[llm.Finish, gantryv1.LlmFinish]("finish"),
		hand[llm.FinishReason, gantryv1.LlmFinishReason]("FinishReason"),
		hand[llm.ErrorCode, gantryv1.LlmErrorCode]("errorCode"),
		pair[llm.Usage, gantryv1.LlmUsage]("Usage").orNil(),
		pair[*llm.Error, gantryv1.LlmError]("Error").with("RetryAfter", "ceilMS(x.RetryAfter)", "fromMS(p.GetRetryAfterMs())"),

		// rows of models
		pair[llm.ModelRow, gantryv1.ModelRow]("ModelRow"),
		pair[llm.HostedTool, gantryv1.HostedTool]("hostedTool"),
		pair[llm.Prices, gantryv1.Prices]("prices").orNil(),
		pair[llm.PriceTier, gantryv1.PriceTier]("priceTier"),
	}
}

func pair[G, P any](name string) conversion {
	return conversion{name: name, goType: reflect.TypeFor[G](), wire: reflect.TypeFor[*P](), custom: map[string]code{}}
}

func hand[G, P any](name string) conversion {
	return conversion{name: name, goType: reflect.TypeFor[G](), wire: reflect.TypeFor[P](), byHand: true}
}

func union[G, P any](name, unknown string, members ...G) conversion {
	c := pair[G, P](name)
	c.unknown = unknown
	for _, m := range members {
		c.members = append(c.members, reflect.TypeOf(m))
	}
	return c
}

func (c conversion) orNil() conversion {
	c.absent = true
	return c
}

// leaving excludes fields of either side, which hand-written code converts.
func (c conversion) leaving(fields ...string) conversion {
	for _, f := range fields {
		c.custom[f] = code{}
	}
	return c
}

func (c conversion) with(field, to, from string) conversion {
	c.custom[field] = code{to, from}
	return c
}
