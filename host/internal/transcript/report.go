package transcript

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/gantry-agent/gantry/config/hint"
	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/protocol"
)

// used reports the usage of tokens after an answer. Answers to plugins count, but only those to the turn itself are the last ones.
func (f *Fold) used(b event.UsageReported) {
	u := protocol.ThreadTokenUsage{Total: breakdown(b.Total)}
	if f.usage != nil {
		u.Last, u.ModelContextWindow = f.usage.Last, f.usage.ModelContextWindow
		if u.Total.TotalTokens < f.usage.Total.TotalTokens { // reports of concurrent answers may be in either order
			u.Total = f.usage.Total
		}
	}
	if b.Call == "" {
		setLast(&u, b)
	}
	f.usage = &u
	if b.Call == "" {
		f.inputs = nil // the answer is complete
	}
	if f.unsaid = b.Call == "" && f.turn != nil; !f.unsaid {
		f.sayUsage()
	}
}

// sayUsage reports the usage so far.
func (f *Fold) sayUsage() {
	f.unsaid = false
	if f.usage == nil { // the turns were reverted
		return
	}
	emit(f, protocol.NotifyThreadTokenUsageUpdated, protocol.ThreadTokenUsageUpdatedNotification{ThreadID: f.thread(), TurnID: f.turnID(), TokenUsage: *f.usage})
}

// ofCalls reports whether an event is part of the calls of an answer.
func ofCalls(b event.Body) bool {
	var it event.Item
	switch b := b.(type) {
	case event.ItemStarted:
		it = b.Item
	case event.ItemCompleted:
		it = b.Item
	case event.TurnStarted, event.TurnEnded, event.UsageReported, event.StreamRetried, event.HistoryCompacted, event.ReviewEnded:
		return false
	default:
		return true
	}
	switch it.Type {
	case event.ItemAgentMessage, event.ItemReasoning, event.ItemUserMessage, event.ItemMail, event.ItemCompaction, event.ItemEnteredReview, event.ItemExitedReview:
		return false
	}
	return true
}

// LastReport returns the report of the last answer to a turn itself; nil: there is none. Answers to plugins have reports as well.
func LastReport(events []event.Event) *event.UsageReported {
	for _, e := range slices.Backward(events) {
		if b, ok := e.Body.(event.UsageReported); ok && b.Call == "" {
			return &b
		}
	}
	return nil
}

// Usage returns the usage of a thread that has used total, with that of its last answer; nil: it is not known.
func Usage(total event.Tokens, last *event.UsageReported) protocol.ThreadTokenUsage {
	u := protocol.ThreadTokenUsage{Total: breakdown(total)}
	if last != nil {
		setLast(&u, *last)
	}
	return u
}

// setLast sets the usage of the last answer.
func setLast(u *protocol.ThreadTokenUsage, b event.UsageReported) {
	u.Last = lastUsage(b)
	if b.ContextWindow > 0 {
		u.ModelContextWindow = &b.ContextWindow
	}
}

// breakdown converts a number of tokens. Codex's counts contain cached input and reasoning.
func breakdown(t event.Tokens) protocol.TokenUsageBreakdown {
	return protocol.TokenUsageBreakdown{
		TotalTokens: t.Total, InputTokens: t.Input, CachedInputTokens: t.CacheRead, CacheWriteInputTokens: t.CacheWrite,
		OutputTokens: t.Output, ReasoningOutputTokens: t.Reasoning,
	}
}

func lastUsage(b event.UsageReported) protocol.TokenUsageBreakdown {
	v := func(p *int64) int64 {
		if p == nil {
			return 0
		}
		return *p
	}
	u := protocol.TokenUsageBreakdown{
		TotalTokens: v(b.Usage.Total), InputTokens: v(b.Usage.Input), CachedInputTokens: v(b.Usage.CacheRead),
		CacheWriteInputTokens: v(b.Usage.CacheWrite), OutputTokens: v(b.Usage.Output), ReasoningOutputTokens: v(b.Usage.Reasoning),
	}
	u.TotalTokens = cmp.Or(u.TotalTokens, u.InputTokens+u.OutputTokens)
	return u
}

// total sets the usage of a thread whose turns were reverted or copied.
func (f *Fold) total(t event.Tokens) {
	if t == (event.Tokens{}) {
		f.usage = nil
		return
	}
	f.usage = &protocol.ThreadTokenUsage{Total: breakdown(t)}
}

// retried reports that the model is asked again. Compatible with codex.
func (f *Fold) retried(b event.StreamRetried) {
	e := protocol.TurnError{Message: "Reconnecting...", CodexErrorInfo: httpError(protocol.ErrorStreamDisconnected, b.Status)}
	switch {
	case b.Offline:
		e.Message, e.CodexErrorInfo = "Waiting for the provider, which can't be reached", httpError(protocol.ErrorHTTPConnectionFailed, b.Status)
	case b.Busy:
		e.Message = "Waiting for the provider, which accepts no request at the moment"
	case b.Max > 0:
		e.Message = fmt.Sprintf("Reconnecting... %d/%d", b.Attempt, b.Max)
	}
	e.AdditionalDetails, e.Provider = optional(b.Cause), optional(f.provider)
	emit(f, protocol.NotifyError, protocol.ErrorNotification{ThreadID: f.thread(), TurnID: f.turnID(), Error: e, WillRetry: true})
}

// turnError returns the error of a failed turn.
func (f *Fold) turnError(p *event.Problem) *protocol.TurnError {
	if p == nil {
		p = &event.Problem{Message: "the turn failed"}
	}
	return &protocol.TurnError{Message: p.Message, CodexErrorInfo: errorInfo(p), Provider: optional(f.provider), Next: optional(p.Next)}
}

// errorInfo classifies a problem.
func errorInfo(p *event.Problem) *protocol.ErrorInfo {
	kinds := map[string]protocol.ErrorKind{
		"invalid-request": protocol.ErrorBadRequest, "context-overflow": protocol.ErrorContextWindowExceeded,
		"payload-too-large": protocol.ErrorContextWindowExceeded, "no-route": protocol.ErrorModelNotFound,
		"authentication": protocol.ErrorUnauthorized, "rate-limit": protocol.ErrorRateLimitExceeded,
		"quota-exceeded": protocol.ErrorUsageLimitExceeded, "provider-internal": protocol.ErrorInternalServer,
		"overloaded": protocol.ErrorServerOverloaded, "budget": protocol.ErrorSessionBudgetExceeded,
	}
	switch p.Code {
	case "transport":
		return httpError(protocol.ErrorHTTPConnectionFailed, p.Status)
	case "incomplete-stream":
		return httpError(protocol.ErrorStreamDisconnected, p.Status)
	}
	return &protocol.ErrorInfo{Kind: cmp.Or(kinds[p.Code], protocol.ErrorOther)}
}

func httpError(kind protocol.ErrorKind, status int) *protocol.ErrorInfo {
	info := &protocol.ErrorInfo{Kind: kind, HTTP: &protocol.HTTPErrorDetails{}}
	if status > 0 && status < 1000 {
		info.HTTP.HTTPStatusCode = new(uint16(status))
	}
	return info
}

func optional(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// notice reports warnings and errors. Mere information is for those who read the events.
func (f *Fold) notice(b event.Notice) {
	if b.Level == "info" {
		return
	}
	text := b.Text
	if b.Next != "" {
		text = hint.Line(strings.TrimRight(text, ".!"), b.Next)
	}
	emit(f, protocol.NotifyWarning, protocol.WarningNotification{ThreadID: new(f.thread()), Message: text})
}

// sourceState returns the state of a source of tools as clients get it.
func sourceState(thread string, b event.SourceChanged) protocol.MCPServerStatusUpdatedNotification {
	n := protocol.MCPServerStatusUpdatedNotification{ThreadID: &thread, Name: b.Source, Status: protocol.MCPServerStartupState(b.State)}
	switch b.State {
	case "ready", "starting":
	case "needs_login":
		n.FailureReason = new(protocol.MCPServerReauthenticationRequired)
		fallthrough
	default:
		n.Status, n.Error = protocol.MCPServerFailed, new(b.Message)
	}
	return n
}

// judging is a running review of a call.
type judging struct {
	started int64
	target  *string
	action  protocol.GuardianApprovalReviewAction
}

func (f *Fold) reviewStarted(b event.ReviewStarted) {
	j := judging{started: f.event.Time.UnixMilli(), action: f.reviewed(b)}
	if it := f.byCall(b.Call); it != nil {
		j.target = new(it.id())
	}
	if f.reviews == nil {
		f.reviews = map[string]judging{}
	}
	f.reviews[b.ID] = j
	emit(f, protocol.NotifyApprovalReviewStarted, protocol.ItemGuardianApprovalReviewStartedNotification{
		ThreadID: f.thread(), TurnID: f.turnID(), ReviewID: b.ID, TargetItemID: j.target, StartedAtMs: j.started, Action: j.action,
		Review: protocol.GuardianApprovalReview{Status: protocol.ReviewInProgress},
	})
}

func (f *Fold) reviewEnded(b event.ReviewEnded) {
	j, ok := f.reviews[b.ID]
	if !ok {
		return
	}
	delete(f.reviews, b.ID)
	r := protocol.GuardianApprovalReview{Status: protocol.ReviewAborted, Rationale: optional(b.Rationale)}
	switch b.Status {
	case event.ReviewApproved:
		r.Status = protocol.ReviewApproved
	case event.ReviewDenied, event.ReviewFailed:
		r.Status = protocol.ReviewDenied
	case event.ReviewTimedOut:
		r.Status = protocol.ReviewTimedOut
	}
	if b.Risk != "" {
		r.RiskLevel = new(protocol.GuardianRiskLevel(b.Risk))
	}
	if b.Authorization != "" {
		r.UserAuthorization = new(protocol.GuardianUserAuthorization(b.Authorization))
	}
	emit(f, protocol.NotifyApprovalReviewCompleted, protocol.ItemGuardianApprovalReviewCompletedNotification{
		ThreadID: f.thread(), TurnID: f.turnID(), ReviewID: b.ID, TargetItemID: j.target, StartedAtMs: j.started, CompletedAtMs: f.event.Time.UnixMilli(),
		DecisionSource: protocol.DecidedByAgent, Review: r, Action: j.action,
	})
	if r.Status == protocol.ReviewDenied || r.Status == protocol.ReviewTimedOut {
		text := "the automatic review denied the call"
		if r.Status == protocol.ReviewTimedOut {
			text = "the automatic review of the call timed out"
		}
		if b.Rationale != "" {
			text += ": " + b.Rationale
		}
		emit(f, protocol.NotifyGuardianWarning, protocol.GuardianWarningNotification{ThreadID: f.thread(), Message: text})
	}
}

// reviewed returns the action that is reviewed: what the call's first known effect does, or else the call itself.
func (f *Fold) reviewed(b event.ReviewStarted) protocol.GuardianApprovalReviewAction {
	var act struct {
		Tool, Cwd string
		Effects   []event.Effect
	}
	_ = json.Unmarshal(b.Action, &act) // a call that is too long has none
	for _, e := range act.Effects {
		var d struct {
			Argv, Paths          []string
			ShellText, Cwd, Host string
			SessionID, Text      string
			Port                 uint16
		}
		if json.Unmarshal(e.Data, &d) != nil {
			continue
		}
		cwd := cmp.Or(d.Cwd, act.Cwd)
		switch e.Type {
		case "exec":
			return protocol.GuardianApprovalReviewAction{Body: protocol.ReviewedCommand{
				Source: protocol.GuardianUnifiedExec, Command: cmp.Or(d.ShellText, strings.Join(d.Argv, " ")), Cwd: cwd,
			}}
		case "write":
			return protocol.GuardianApprovalReviewAction{Body: protocol.ReviewedPatch{Cwd: cwd, Files: d.Paths}}
		case "network":
			return protocol.GuardianApprovalReviewAction{Body: protocol.ReviewedNetworkAccess{
				Target: fmt.Sprintf("%s:%d", d.Host, d.Port), Host: d.Host, Protocol: protocol.NetworkHTTPS, Port: d.Port,
			}}
		case "session_input":
			return protocol.GuardianApprovalReviewAction{Body: protocol.ReviewedWriteStdin{
				ApprovalID: b.ID, ProcessID: d.SessionID, Stdin: d.Text, Cwd: cwd,
			}}
		}
	}
	call := protocol.ReviewedMCPToolCall{ToolName: act.Tool}
	if it := f.byCall(b.Call); it != nil {
		call.Server, call.ToolName = it.Server, it.Tool
	}
	return protocol.GuardianApprovalReviewAction{Body: call}
}

func (f *Fold) hookStarted(b event.HookStarted) {
	run := hookRun(b.Run)
	if !run.EventName.Known() {
		return
	}
	run.Status, run.StartedAt = protocol.HookRunning, f.event.Time.Unix()
	emit(f, protocol.NotifyHookStarted, protocol.HookStartedNotification{ThreadID: f.thread(), TurnID: optional(string(f.event.Turn)), Run: run})
}

func (f *Fold) hookCompleted(b event.HookCompleted) {
	run := hookRun(b.Run)
	if !run.EventName.Known() {
		return
	}
	run.Status = protocol.HookRunStatus(b.Status)
	run.StartedAt, run.CompletedAt = (f.event.Time.UnixMilli()-b.DurationMS)/1000, new(f.event.Time.Unix())
	run.DurationMs = &b.DurationMS
	for _, e := range b.Entries {
		kind := protocol.HookOutputEntryKind(e.Kind)
		if e.Kind == "decision" { // of a permission, which codex's hooks report as feedback
			kind = protocol.HookEntryFeedback
		}
		run.Entries = append(run.Entries, protocol.HookOutputEntry{Kind: kind, Text: e.Text})
	}
	emit(f, protocol.NotifyHookCompleted, protocol.HookCompletedNotification{ThreadID: f.thread(), TurnID: optional(string(f.event.Turn)), Run: run})
}

func hookRun(r event.HookRun) protocol.HookRunSummary {
	out := protocol.HookRunSummary{
		ID: r.ID, HandlerType: protocol.HookHandlerType(cmp.Or(r.Type, string(protocol.HookCommand))), ExecutionMode: protocol.HookSync,
		Scope: protocol.HookOfTurn, SourcePath: r.Source, Source: protocol.HookSourceUnknown, StatusMessage: optional(r.Message),
		Entries: []protocol.HookOutputEntry{},
	}
	if r.Event != "" {
		out.EventName = protocol.HookEventName(strings.ToLower(r.Event[:1]) + r.Event[1:])
	}
	if r.Async {
		out.ExecutionMode = protocol.HookAsync
	}
	if r.Event == "SessionStart" || r.Event == "SessionEnd" {
		out.Scope = protocol.HookOfThread
	}
	switch r.Scope {
	case "managed":
		out.Source = protocol.HookSourceSystem
	case "user":
		out.Source = protocol.HookSourceUser
	case "project":
		out.Source = protocol.HookSourceProject
	}
	return out
}
