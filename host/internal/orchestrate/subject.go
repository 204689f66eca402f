package orchestrate

import (
	"context"
	"slices"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/hook"
	"github.com/gantry-agent/gantry/host/internal/policy"
	"github.com/gantry-agent/gantry/host/internal/registry"
	"github.com/gantry-agent/gantry/sdk/contract"
	"github.com/gantry-agent/gantry/sdk/llm"
)

// subject is a call and what is known about it so far. The stages fill its fields in their order. It belongs to one goroutine.
type subject struct {
	pipeline *Pipeline
	call     Call
	asker    *Live // the call whose deadline is suspended while a person is asked; nil: none
	entry    *registry.Entry
	item     itemState

	input      contract.Input
	assessment contract.Assessment
	hooked     hook.Verdict // of the PreToolUse hooks
	late       bool         // the effects became known only while the call runs
	attempt    uint32       // from 1; 0 before the first grant
	executed   bool         // the plugin has been called
	context    []string     // messages for the model after the result
}

// outcome ends a call.
type outcome struct {
	kind   event.Outcome
	result *contract.Result // nil: text alone
	text   string           // reason of a failure, for the model
	tools  []llm.Tool       // found by a search
	abort  bool             // the user wants the turn to end
}

func failed(text string) *outcome { return &outcome{kind: event.OutcomeError, text: text} }

func denied(text string) *outcome { return &outcome{kind: event.OutcomeDenied, text: text} }

func aborted() *outcome { return &outcome{kind: event.OutcomeAborted} }

// publishFailed is the outcome of a call whose events can't be published.
func publishFailed(ctx context.Context, err error) *outcome {
	if ctx.Err() != nil {
		return aborted()
	}
	return failed("the event log does not accept events, so the call was not started: " + err.Error())
}

// builtIn reports whether the tool's plugin comes with gantry.
func (s *subject) builtIn() bool {
	return s.pipeline.deps.BuiltIn != nil && s.pipeline.deps.BuiltIn(s.entry.Plugin)
}

// sessionIDs lists the sessions that the call works on according to its plugin, whether it types into them or only reads.
func (s *subject) sessionIDs() []string {
	var out []string
	for _, e := range s.assessment.Effects {
		if in, ok := e.(contract.SessionInputEffect); ok {
			out = append(out, in.SessionID)
		}
	}
	var shown string
	switch it := s.assessment.Item.(type) {
	case *contract.CommandItem:
		shown = it.SessionID
	case *contract.CodeItem:
		shown = it.SessionID
	}
	if shown != "" && !slices.Contains(out, shown) {
		out = append(out, shown)
	}
	return out
}

// sessions lists the same sessions for the gate, where sessions of different plugins may have the same ID.
func (s *subject) sessions() []string {
	ids := s.sessionIDs()
	for i, id := range ids {
		ids[i] = s.entry.Plugin + " " + id
	}
	return ids
}

// sessionInput is text that a call types into a session in which a shell may run.
type sessionInput struct {
	session session
	text    string
}

// typedInto returns the session that the call types into, and the text; ok is false if it does not type, or not to a shell.
func (s *subject) typedInto() (in sessionInput, ok bool) {
	for _, e := range s.assessment.Effects {
		if in, is := e.(contract.SessionInputEffect); is && in.Language == "" {
			return sessionInput{session{s.entry.Plugin, s.call.Thread, in.SessionID}, in.Text}, true
		}
	}
	return sessionInput{}, false
}

// typed returns the incomplete line that earlier calls have typed into the session of this one.
func (s *subject) typed() policy.Typed {
	in, ok := s.typedInto()
	if !ok {
		return policy.Typed{}
	}
	return s.pipeline.tokens.typedIn(in.session)
}

// typesOutside reports whether the call types into a session that runs outside of the sandbox.
func (s *subject) typesOutside() bool {
	return slices.ContainsFunc(s.assessment.Effects, func(e contract.Effect) bool {
		in, ok := e.(contract.SessionInputEffect)
		return ok && s.pipeline.tokens.runsOutside(s.entry.Plugin, s.call.Thread, in.SessionID)
	})
}

// permitted returns the permissions that were granted before the call.
func (s *subject) permitted() policy.Permissions {
	if s.pipeline.deps.Permits == nil {
		return policy.Permissions{}
	}
	all, _ := s.pipeline.deps.Permits.Permitted(s.call.Turn)
	return all
}

// reviewed reports whether the call must be approved even though the policy lets it run.
func (s *subject) reviewed() bool {
	p := s.pipeline.deps.Permits
	return p != nil && len(s.assessment.Effects) > 0 && p.Reviewed(s.call.Turn)
}

// publish publishes events of the call in its turn.
func (s *subject) publish(ctx context.Context, bodies ...event.Body) (seq uint64, err error) {
	return s.pipeline.deps.Journal.Publish(ctx, s.call.Turn, bodies...)
}
