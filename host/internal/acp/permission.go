package acp

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	acp "github.com/coder/acp-go-sdk"
	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/hub"
	"github.com/gantry-agent/gantry/host/internal/rpc"
	"github.com/gantry-agent/gantry/sdk/contract"
)

// cancelRequest is the notification that withdraws a request. Its ID is the parameter requestId.
const cancelRequest = "$/cancel_request"

// choices returns what the editor offers as answers to a question, with the answers as IDs; nil: the question has no form in the protocol.
func choices(q event.QuestionAsked) []acp.PermissionOption {
	var out []acp.PermissionOption
	add := func(kind acp.PermissionOptionKind, answer, name string) {
		out = append(out, acp.PermissionOption{OptionId: acp.PermissionOptionId(answer), Kind: kind, Name: name})
	}
	switch q.About {
	case event.QuestionApproval:
		add(acp.PermissionOptionKindAllowOnce, hub.Approve, "Allow")
		if slices.Contains(q.Options, hub.ApproveSession) {
			add(acp.PermissionOptionKindAllowAlways, hub.ApproveSession, "Allow for this session")
		}
		if q.Rule != nil {
			add(acp.PermissionOptionKindAllowAlways, hub.ApproveAlways, "Always allow: "+cut(q.Rule.Line, maxName))
		}
		add(acp.PermissionOptionKindRejectOnce, hub.Deny, "Reject")
		if q.Rule != nil && q.Rule.Deny != "" {
			add(acp.PermissionOptionKindRejectAlways, hub.DenyAlways, "Always reject: "+cut(q.Rule.Deny, maxName))
		}
	case event.QuestionPermissions:
		add(acp.PermissionOptionKindAllowOnce, hub.ApproveTurn, "Allow for this turn")
		add(acp.PermissionOptionKindAllowAlways, hub.ApproveSession, "Allow for this session")
		add(acp.PermissionOptionKindRejectOnce, hub.Deny, "Reject")
	case event.QuestionChoice:
		for _, o := range q.Options {
			add(acp.PermissionOptionKindAllowOnce, o, o)
		}
	case event.QuestionURL:
		add(acp.PermissionOptionKindAllowOnce, hub.Approve, "Done")
		add(acp.PermissionOptionKindRejectOnce, hub.Deny, "Decline")
	}
	return out
}

// askedBy says who puts a plugin's question; empty: gantry does.
func askedBy(q event.QuestionAsked) string {
	if q.Plugin == "" {
		return ""
	}
	return "Asked by " + q.Asker()
}

// explain returns what a person should read about a question besides its title.
func explain(q event.QuestionAsked) string {
	lines := []string{q.Nesting(), askedBy(q), q.Message, q.Reason, q.Changes, q.URL}
	for _, e := range q.Wanted {
		switch e.Type {
		case "read":
			if r := effect[contract.ReadEffect](e); r != nil {
				lines = append(lines, "Read "+strings.Join(r.Paths, ", "))
			}
		case "write":
			if w := effect[contract.WriteEffect](e); w != nil {
				lines = append(lines, "Write "+strings.Join(w.Paths, ", "))
			}
		case "network":
			if n := effect[contract.NetworkEffect](e); n != nil {
				lines = append(lines, strings.TrimSpace("Use the network "+n.Host))
			}
		}
	}
	lines = slices.DeleteFunc(lines, func(l string) bool { return l == "" })
	return strings.Join(slices.Compact(lines), "\n\n")
}

// effect decodes an effect; nil: it can't be decoded.
func effect[E any](e event.Effect) *E {
	var out E
	if json.Unmarshal(e.Data, &out) != nil {
		return nil
	}
	return &out
}

// permission returns the request that puts a question to the editor.
func (s *session) permission(q event.QuestionAsked, options []acp.PermissionOption) acp.RequestPermissionRequest {
	call, known := s.view.calls[string(q.Call)]
	if !known { // a question without a call of its own still needs one in the protocol
		kind, status := acp.ToolKindOther, acp.ToolCallStatusPending
		call = acp.ToolCallUpdate{ToolCallId: acp.ToolCallId("question-" + q.ID), Kind: &kind, Status: &status}
	}
	if !known || q.About != event.QuestionApproval {
		call.Title = acp.Ptr(oneLine(q.Title))
	}
	if text := explain(q); text != "" {
		call.Content = append(slices.Clone(call.Content), acp.ToolContent(acp.TextBlock(text)))
	}
	return acp.RequestPermissionRequest{SessionId: s.id, ToolCall: call, Options: options}
}

// ask puts a question to the editor. It reports whether the connection still exists.
func (s *session) ask(q event.QuestionAsked) bool {
	options := choices(q)
	if len(options) == 0 {
		s.answer(q, hub.Deny)
		return s.update(thought(fmt.Sprintf("Warning: gantry has asked for input that editors can't give, and got none: %s\n", q.Title)))
	}
	s.mu.Lock()
	s.pending[q.ID] = q
	s.mu.Unlock()
	return s.agent.conn.Request(s.life, rpc.StringID(q.ID), acp.ClientMethodSessionRequestPermission, s.permission(q, options)) == nil
}

// answer answers a question. The first answer counts: the editor is told when another client was faster.
func (s *session) answer(q event.QuestionAsked, choice string) {
	a := hub.Answer{Choice: choice}
	if q.About == event.QuestionURL && choice == hub.Approve {
		a = hub.Answer{Data: json.RawMessage("{}")}
	}
	s.agent.begin(func() { // ends with the connection
		if err := s.thread.Answer(s.life, q.ID, a); err != nil && s.life.Err() == nil {
			s.agent.log.Debug("answer not used", "thread", s.id, "question", q.ID, "err", err)
		}
	})
}

// resolved withdraws a question that the editor has not answered.
func (s *session) resolved(id string) {
	s.asked = slices.DeleteFunc(s.asked, func(q event.QuestionAsked) bool { return q.ID == id })
	s.mu.Lock()
	_, asked := s.pending[id]
	delete(s.pending, id)
	s.mu.Unlock()
	if asked {
		s.agent.send(cancelRequest, map[string]any{"requestId": id})
	}
}

// answered takes the editor's response to a question.
func (a *agent) answered(id rpc.ID, result json.RawMessage, failed *rpc.Error) {
	var key string
	if text, err := json.Marshal(id); err != nil || json.Unmarshal(text, &key) != nil {
		return // none of ours
	}
	a.mu.Lock()
	var sessions []*session
	for _, s := range a.sessions {
		sessions = append(sessions, s)
	}
	a.mu.Unlock()
	for _, s := range sessions {
		s.mu.Lock()
		q, ok := s.pending[key]
		delete(s.pending, key)
		s.mu.Unlock()
		if ok {
			s.answer(q, chosen(q, result, failed))
			return
		}
	}
}

// chosen returns the answer of a response. One that makes no sense refuses.
func chosen(q event.QuestionAsked, result json.RawMessage, failed *rpc.Error) string {
	var r struct {
		Outcome struct{ Outcome, OptionID string } // the SDK takes an unknown outcome for a cancellation
	}
	if failed != nil || json.Unmarshal(result, &r) != nil {
		return hub.Deny
	}
	switch option := r.Outcome.OptionID; r.Outcome.Outcome {
	case "cancelled":
		if q.About == event.QuestionApproval || q.About == event.QuestionPermissions {
			return hub.Abort
		}
		if q.Plugin != "" {
			return hub.Dismiss
		}
	case "selected":
		if slices.ContainsFunc(choices(q), func(o acp.PermissionOption) bool { return string(o.OptionId) == option }) {
			return option
		}
	}
	return hub.Deny
}
