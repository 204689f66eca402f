package convert

import (
	"github.com/gantry-agent/gantry/sdk/contract"
	gantryv1 "github.com/gantry-agent/gantry/sdk/proto/gantry/v1"
)

// InputToProto translates what the model asked for.
func InputToProto(i contract.Input) *gantryv1.CallInput {
	if i.Freeform {
		return &gantryv1.CallInput{Input: &gantryv1.CallInput_Text{Text: text(i.Text)}}
	}
	return &gantryv1.CallInput{Input: &gantryv1.CallInput_ArgumentsJson{ArgumentsJson: i.Arguments}}
}

// InputFromProto translates what the model asked for.
func InputFromProto(p *gantryv1.CallInput) contract.Input {
	if t, ok := p.GetInput().(*gantryv1.CallInput_Text); ok {
		return contract.Input{Text: t.Text, Freeform: true}
	}
	return contract.Input{Arguments: raw(p.GetArgumentsJson())}
}

// GrantFactsToProto translates the facts of a grant.
func GrantFactsToProto(g contract.GrantFacts) *gantryv1.GrantFacts {
	return &gantryv1.GrantFacts{
		SandboxMode: text(g.SandboxMode), WritableRoots: texts(g.WritableRoots), Network: g.Network, Digest: text(g.Digest),
	}
}

// GrantFactsFromProto translates the facts of a grant.
func GrantFactsFromProto(p *gantryv1.GrantFacts) contract.GrantFacts {
	return contract.GrantFacts{
		SandboxMode: p.GetSandboxMode(), WritableRoots: p.GetWritableRoots(), Network: p.GetNetwork(), Digest: p.GetDigest(),
	}
}

// AssessRequestToProto translates the question what a call would do.
func AssessRequestToProto(r *contract.AssessRequest) *gantryv1.AssessRequest {
	if r == nil {
		return nil
	}
	return &gantryv1.AssessRequest{
		ThreadId:      text(r.ThreadID),
		TurnId:        text(r.TurnID),
		CallId:        text(r.CallID),
		Namespace:     text(r.Namespace),
		Tool:          text(r.Tool),
		Input:         InputToProto(r.Input),
		Cwd:           text(r.Cwd),
		CallToken:     text(r.CallToken),
		ToolsRevision: text(r.ToolsRevision),
	}
}

// AssessRequestFromProto translates the question what a call would do.
func AssessRequestFromProto(p *gantryv1.AssessRequest) *contract.AssessRequest {
	if p == nil {
		return nil
	}
	return &contract.AssessRequest{
		ThreadID:      p.GetThreadId(),
		TurnID:        p.GetTurnId(),
		CallID:        p.GetCallId(),
		Namespace:     p.GetNamespace(),
		Tool:          p.GetTool(),
		Input:         InputFromProto(p.GetInput()),
		Cwd:           p.GetCwd(),
		CallToken:     p.GetCallToken(),
		ToolsRevision: p.GetToolsRevision(),
	}
}

// AssessmentToProto translates the answer.
func AssessmentToProto(a *contract.Assessment) *gantryv1.AssessResponse {
	if a == nil {
		return nil
	}
	return &gantryv1.AssessResponse{
		Early:          ResultToProto(a.Early),
		Effects:        EffectsToProto(a.Effects),
		Escalation:     escalationToProto(a.Escalation),
		ReadOnly:       a.ReadOnly,
		Idempotent:     a.Idempotent,
		Summary:        text(a.Summary),
		Discriminators: texts(a.Discriminators),
		Item:           ItemToProto(a.Item),
		Digest:         text(a.Digest),
	}
}

// AssessmentFromProto translates the answer.
func AssessmentFromProto(p *gantryv1.AssessResponse) *contract.Assessment {
	if p == nil {
		return nil
	}
	return &contract.Assessment{
		Early:          ResultFromProto(p.GetEarly()),
		Effects:        EffectsFromProto(p.GetEffects()),
		Escalation:     escalationFromProto(p.GetEscalation()),
		ReadOnly:       p.GetReadOnly(),
		Idempotent:     p.GetIdempotent(),
		Summary:        p.GetSummary(),
		Discriminators: p.GetDiscriminators(),
		Item:           ItemFromProto(p.GetItem()),
		Digest:         p.GetDigest(),
	}
}

func escalationToProto(e *contract.Escalation) *gantryv1.Escalation {
	if e == nil {
		return nil
	}
	return &gantryv1.Escalation{
		Unsandboxed: e.Unsandboxed, Additional: EffectsToProto(e.Additional), Justification: text(e.Justification),
		PrefixRule: texts(e.PrefixRule),
	}
}

func escalationFromProto(p *gantryv1.Escalation) *contract.Escalation {
	if p == nil {
		return nil
	}
	return &contract.Escalation{
		Unsandboxed: p.GetUnsandboxed(), Additional: EffectsFromProto(p.GetAdditional()), Justification: p.GetJustification(),
		PrefixRule: p.GetPrefixRule(),
	}
}

// CallStartToProto translates the beginning of a call.
func CallStartToProto(s *contract.CallStart) *gantryv1.CallStart {
	if s == nil {
		return nil
	}
	return &gantryv1.CallStart{
		ThreadId:      text(s.ThreadID),
		TurnId:        text(s.TurnID),
		CallId:        text(s.CallID),
		Namespace:     text(s.Namespace),
		Tool:          text(s.Tool),
		Input:         InputToProto(s.Input),
		AssessDigest:  text(s.AssessDigest),
		Grant:         GrantFactsToProto(s.Grant),
		Cwd:           text(s.Cwd),
		CallToken:     text(s.CallToken),
		ToolsRevision: text(s.ToolsRevision),
		Caps: &gantryv1.CallCaps{
			MaxOutputBytes: s.Caps.MaxOutputBytes,
			MaxInlineBytes: s.Caps.MaxInlineBytes,
			MaxModelTokens: s.Caps.MaxModelTokens,
			DeadlineMs:     s.Caps.DeadlineMS,
		},
		Parents:     texts(s.Parents),
		ModelTraits: texts(s.ModelTraits),
		Attempt:     s.Attempt,
	}
}

// CallStartFromProto translates the beginning of a call.
func CallStartFromProto(p *gantryv1.CallStart) *contract.CallStart {
	if p == nil {
		return nil
	}
	return &contract.CallStart{
		ThreadID:      p.GetThreadId(),
		TurnID:        p.GetTurnId(),
		CallID:        p.GetCallId(),
		Namespace:     p.GetNamespace(),
		Tool:          p.GetTool(),
		Input:         InputFromProto(p.GetInput()),
		AssessDigest:  p.GetAssessDigest(),
		Grant:         GrantFactsFromProto(p.GetGrant()),
		Cwd:           p.GetCwd(),
		CallToken:     p.GetCallToken(),
		ToolsRevision: p.GetToolsRevision(),
		Caps: contract.CallCaps{
			MaxOutputBytes: p.GetCaps().GetMaxOutputBytes(),
			MaxInlineBytes: p.GetCaps().GetMaxInlineBytes(),
			MaxModelTokens: p.GetCaps().GetMaxModelTokens(),
			DeadlineMS:     p.GetCaps().GetDeadlineMs(),
		},
		Parents:     p.GetParents(),
		ModelTraits: p.GetModelTraits(),
		Attempt:     p.GetAttempt(),
	}
}

// CallEventToProto translates what a call sends; nil stays nil.
func CallEventToProto(e contract.CallEvent) *gantryv1.CallResponse {
	switch e := e.(type) {
	case contract.Started:
		return &gantryv1.CallResponse{Event: &gantryv1.CallResponse_Started{Started: &gantryv1.CallStarted{Item: ItemToProto(e.Item)}}}
	case contract.Output:
		return &gantryv1.CallResponse{Event: &gantryv1.CallResponse_Output{Output: &gantryv1.OutputDelta{Offset: e.Offset, Data: e.Data}}}
	case contract.Progress:
		return &gantryv1.CallResponse{Event: &gantryv1.CallResponse_Progress{Progress: &gantryv1.Progress{
			Message: text(e.Message), Done: e.Done, Total: e.Total,
		}}}
	case contract.ArtifactRef:
		return &gantryv1.CallResponse{Event: &gantryv1.CallResponse_Artifact{Artifact: ArtifactRefToProto(e)}}
	case contract.ItemUpdate:
		i := ItemToProto(e.Item)
		if i == nil {
			i = &gantryv1.Item{}
		}
		return &gantryv1.CallResponse{Event: &gantryv1.CallResponse_Item{Item: i}}
	case contract.Note:
		return &gantryv1.CallResponse{Event: &gantryv1.CallResponse_Note{Note: &gantryv1.Note{Text: text(e.Text)}}}
	case *contract.Result:
		if e == nil {
			return nil
		}
		return &gantryv1.CallResponse{Event: &gantryv1.CallResponse_Result{Result: ResultToProto(e)}}
	}
	return nil
}

// CallEventFromProto translates what a call sends. It reports false for an event of an unknown kind, which is to be
// ignored.
func CallEventFromProto(p *gantryv1.CallResponse) (contract.CallEvent, bool) {
	switch e := p.GetEvent().(type) {
	case *gantryv1.CallResponse_Started:
		return contract.Started{Item: ItemFromProto(e.Started.GetItem())}, true
	case *gantryv1.CallResponse_Output:
		return contract.Output{Offset: e.Output.GetOffset(), Data: raw(e.Output.GetData())}, true
	case *gantryv1.CallResponse_Progress:
		return contract.Progress{Message: e.Progress.GetMessage(), Done: e.Progress.GetDone(), Total: e.Progress.GetTotal()}, true
	case *gantryv1.CallResponse_Artifact:
		return ArtifactRefFromProto(e.Artifact), true
	case *gantryv1.CallResponse_Item:
		return contract.ItemUpdate{Item: ItemFromProto(e.Item)}, true
	case *gantryv1.CallResponse_Note:
		return contract.Note{Text: e.Note.GetText()}, true
	case *gantryv1.CallResponse_Result:
		if r := ResultFromProto(e.Result); r != nil {
			return r, true
		}
		return &contract.Result{}, true
	}
	return nil, false
}

// ThreadEventToProto translates what Thread sends; nil stays nil.
func ThreadEventToProto(e contract.ThreadEvent) *gantryv1.ThreadResponse {
	switch e := e.(type) {
	case contract.ContextText:
		return &gantryv1.ThreadResponse{Event: &gantryv1.ThreadResponse_Context{Context: &gantryv1.ContextText{
			Key: text(e.Key), Text: text(e.Text),
		}}}
	case contract.SessionOpened:
		return &gantryv1.ThreadResponse{Event: &gantryv1.ThreadResponse_SessionOpened{SessionOpened: &gantryv1.SessionOpened{
			SessionId: text(e.SessionID), CallId: text(e.CallID), Title: text(e.Title), Resumed: e.Resumed,
		}}}
	case contract.SessionOutput:
		return &gantryv1.ThreadResponse{Event: &gantryv1.ThreadResponse_SessionOutput{SessionOutput: &gantryv1.SessionOutput{
			SessionId: text(e.SessionID), Offset: e.Offset, Data: e.Data,
		}}}
	case contract.SessionExited:
		return &gantryv1.ThreadResponse{Event: &gantryv1.ThreadResponse_SessionExited{SessionExited: &gantryv1.SessionExited{
			SessionId: text(e.SessionID),
			End:       enum[contract.SessionEnd, gantryv1.SessionEnd](e.End, contract.SessionEndLost),
			ExitCode:  e.ExitCode,
		}}}
	}
	return nil
}

// ThreadEventFromProto translates what Thread sends. It reports false for an event of an unknown kind, which is to be
// ignored.
func ThreadEventFromProto(p *gantryv1.ThreadResponse) (contract.ThreadEvent, bool) {
	switch e := p.GetEvent().(type) {
	case *gantryv1.ThreadResponse_Context:
		return contract.ContextText{Key: e.Context.GetKey(), Text: e.Context.GetText()}, true
	case *gantryv1.ThreadResponse_SessionOpened:
		o := e.SessionOpened
		return contract.SessionOpened{SessionID: o.GetSessionId(), CallID: o.GetCallId(), Title: o.GetTitle(), Resumed: o.GetResumed()}, true
	case *gantryv1.ThreadResponse_SessionOutput:
		o := e.SessionOutput
		return contract.SessionOutput{SessionID: o.GetSessionId(), Offset: o.GetOffset(), Data: raw(o.GetData())}, true
	case *gantryv1.ThreadResponse_SessionExited:
		x := e.SessionExited
		return contract.SessionExited{
			SessionID: x.GetSessionId(),
			End:       enum[gantryv1.SessionEnd, contract.SessionEnd](x.GetEnd(), gantryv1.SessionEnd_SESSION_END_LOST),
			ExitCode:  x.GetExitCode(),
		}, true
	}
	return nil, false
}
