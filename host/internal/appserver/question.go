package appserver

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/gantry-agent/gantry/host/internal/appserver/dynamictool"
	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/hub"
	"github.com/gantry-agent/gantry/host/internal/protocol"
	"github.com/gantry-agent/gantry/host/internal/rpc"
	"github.com/gantry-agent/gantry/sdk/contract"
)

// question is a pending question of a thread, and the request that puts it to clients. Its ID is random.
type question struct {
	feed   *feed
	asked  event.QuestionAsked
	method string
	params any
	// answer converts a client's result. ok is false if the result means nothing.
	answer func(result json.RawMessage) (a hub.Answer, ok bool)
	// useless is the answer if the result means nothing, or the client has answered with an error.
	useless hub.Answer
	// claimed is the client that has answered a call of its tool, guarded by the feed's mutex; nil: none has.
	claimed *client
}

// toolCallID begins the IDs of requests for calls of clients' tools. A client that does not know such requests may say so after another one
// has answered, when nothing else is known about the request.
const toolCallID = "tool-call-"

// id returns the ID of the request.
func (q *question) id() string {
	if q.method == protocol.RequestToolCall.Name {
		return toolCallID + q.asked.ID
	}
	return q.asked.ID
}

// resolved returns the notification for those who have not answered.
func (q *question) resolved() protocol.ServerRequestResolvedNotification {
	return protocol.ServerRequestResolvedNotification{ThreadID: string(q.feed.thread.ID()), RequestID: q.id()}
}

// ask sends the question to a client, unless it can't answer such questions.
func (c *client) ask(ctx context.Context, q *question) error {
	if !c.answers(q.method) {
		return nil
	}
	raw, err := c.encode(q.params)
	if err != nil {
		return err
	}
	return c.conn.Request(ctx, rpc.StringID(q.id()), q.method, raw)
}

// answered takes a client's response to a question. Only subscribers of the thread may answer, and the first answer counts.
func (c *client) answered(id rpc.ID, result json.RawMessage, failed *rpc.Error) {
	if c.launched { // it has no subscription, either
		return
	}
	c.mu.Lock()
	subs := slices.Collect(maps.Values(c.subs))
	c.mu.Unlock()
	if failed != nil && failed.Code == rpc.MethodNotFound && strings.HasPrefix(textOfID(id), toolCallID) {
		c.refuseTools(subs)
		return
	}
	for _, s := range subs {
		q := s.feed.pending(id)
		if q == nil {
			continue
		}
		if q.method == protocol.RequestToolCall.Name {
			c.ran(q, result, failed)
			return
		}
		answer := q.useless
		if failed == nil {
			if a, ok := q.answer(result); ok {
				answer = a
			}
		}
		// The client need not wait: it is told that the question is resolved, whoever has answered it.
		c.server.begin(func() {
			if err := s.feed.thread.Answer(c.server.life, q.asked.ID, answer); err != nil {
				c.server.log.Debug("answer not used", "thread", s.feed.thread.ID(), "question", id, "err", err)
			}
		})
		return
	}
	c.server.log.Debug("an answer to no pending question", "id", id)
}

func textOfID(id rpc.ID) string {
	var text string
	raw, err := json.Marshal(id)
	if err != nil || json.Unmarshal(raw, &text) != nil {
		return ""
	}
	return text
}

// answers reports whether the client can answer requests of a method.
func (c *client) answers(method string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.answersLocked(method) && !(method == protocol.RequestToolCall.Name && c.toolless)
}

// answersLocked reports whether the client has declared that it can answer requests of a method. The caller holds mu.
func (c *client) answersLocked(method string) bool {
	return c.requests == nil || slices.Contains(c.requests, method)
}

func (c *client) refusesTools() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.toolless
}

// refuseTools records that the client does not know requests for calls of its tools. Other clients may.
func (c *client) refuseTools(subs []*subscription) {
	c.mu.Lock()
	c.toolless = true
	c.mu.Unlock()
	for _, s := range subs {
		c.server.begin(func() { s.feed.tools.Refuse(s) })
	}
}

// ran takes the client's answer to a call of its tool. It is the only one who is not told that the call has an answer.
func (c *client) ran(q *question, result json.RawMessage, failed *rpc.Error) {
	f := q.feed
	f.mu.Lock()
	first := q.claimed == nil
	if first {
		q.claimed = c
	}
	f.mu.Unlock()
	if !first {
		return
	}
	answer := event.ToolAnswer{}
	if failed == nil {
		answer = dynamictool.Answer(result)
	} else {
		answer.Refused = cmp.Or(failed.Message, "the client gives no reason")
	}
	data, err := json.Marshal(answer)
	if err != nil { // plain data
		panic("appserver: marshal an answer: " + err.Error())
	}
	c.server.begin(func() {
		err := f.thread.Answer(c.server.life, q.asked.ID, hub.Answer{Data: data})
		if err == nil {
			return
		}
		c.server.log.Debug("answer not used", "thread", f.thread.ID(), "question", q.id(), "err", err)
		if hub.ErrorOf(err).Code == hub.Answered { // a client of another process has been faster, or the call has ended
			c.send(protocol.NotifyServerRequestResolved.Name, q.resolved())
		}
	})
}

// questionOf converts a question of a thread; nil: it has no form in the protocol, and another front end must answer it.
func (f *feed) questionOf(e event.Event, a event.QuestionAsked) *question {
	q := &question{feed: f, asked: a, useless: hub.Answer{Choice: hub.Deny}}
	thread, turn := string(f.thread.ID()), string(e.Turn)
	at := e.Time.UnixMilli()
	switch a.About {
	case event.QuestionApproval:
		q.approval(thread, turn, at, f.fold.Open())
	case event.QuestionPermissions:
		q.method = protocol.RequestPermissionsApproval.Name
		q.params = protocol.PermissionsRequestApprovalParams{
			ThreadID: thread, TurnID: turn, ItemID: string(a.Call), StartedAtMs: at, Cwd: f.cwd(), Reason: orNull(reasonOf(a)),
			Permissions: profileOf(a.Wanted),
		}
		q.answer = permissionsAnswer
	case event.QuestionChoice:
		q.userInput(thread, turn)
	case event.QuestionForm, event.QuestionURL:
		q.elicitation(thread, turn)
	case event.QuestionClientTool:
		if a.Tool == nil {
			return nil
		}
		q.method, q.params = protocol.RequestToolCall.Name, dynamictool.Params(thread, turn, a.Call, *a.Tool)
	default:
		return nil
	}
	return q
}

// approval chooses the request for the approval of a call by the call's effects.
func (q *question) approval(thread, turn string, at int64, open []protocol.ThreadItem) {
	a := q.asked
	var command *contract.ExecEffect
	var network *contract.NetworkEffect
	writes := len(a.Effects) > 0
	for _, e := range a.Effects {
		switch e.Type {
		case "exec":
			command = effect[contract.ExecEffect](e)
		case "network":
			network = effect[contract.NetworkEffect](e)
		}
		writes = writes && e.Type == "write"
	}
	i := slices.IndexFunc(open, func(it protocol.ThreadItem) bool { return it.Body.Header().ID == string(a.Call) })
	var item protocol.ItemBody
	if i >= 0 {
		item = open[i].Body
	}
	running, _ := item.(protocol.CommandExecutionItem)
	_, changes := item.(protocol.FileChangeItem)
	switch {
	case command == nil && (changes || writes && running.ID == ""):
		q.method = protocol.RequestFileChangeApproval.Name
		q.params = protocol.FileChangeRequestApprovalParams{
			ThreadID: thread, TurnID: turn, ItemID: string(a.Call), StartedAtMs: at, Reason: orNull(reasonOf(a)),
		}
		q.answer, q.useless = decisionAnswer, hub.Answer{Choice: hub.Unusable}
	case command != nil || network != nil || running.ID != "":
		p := protocol.CommandExecutionRequestApprovalParams{
			Kind: protocol.ApproveCommand, ThreadID: thread, TurnID: turn, ItemID: string(a.Call), StartedAtMs: at, Reason: orNull(reasonOf(a)),
			CommandActions: []protocol.CommandAction{}, AvailableDecisions: decisionsOf(a),
		}
		if r := a.Rule; r != nil {
			p.ProposedRule = orNull(r.Line)
		}
		switch {
		case running.ID != "":
			p.Command, p.Cwd, p.CommandActions = orNull(running.Command), orNull(running.Cwd), running.CommandActions
		case command != nil:
			p.Command, p.Cwd = orNull(cmp.Or(protocol.CommandLine(command.Argv), command.ShellText)), orNull(command.Cwd)
		}
		if command == nil && network != nil {
			p.NetworkApprovalContext = &protocol.NetworkApprovalContext{Host: network.Host, Protocol: protocolOf(network)}
		}
		if r := a.Rule; r != nil && len(r.Prefix) > 0 {
			p.ProposedExecpolicyAmendment = r.Prefix
		} else if r != nil && r.Host != "" {
			p.ProposedNetworkPolicyAmendments = []protocol.NetworkPolicyAmendment{{Host: r.Host, Action: protocol.NetworkAllow}}
			if r.Deny != "" {
				p.ProposedNetworkPolicyAmendments = append(p.ProposedNetworkPolicyAmendments, protocol.NetworkPolicyAmendment{Host: r.Host, Action: protocol.NetworkDeny})
			}
		}
		q.method, q.params, q.answer = protocol.RequestCommandExecutionApproval.Name, p, decisionAnswer
		q.useless = hub.Answer{Choice: hub.Unusable}
	default:
		q.toolApproval(thread, turn, item)
	}
}

// effect decodes an effect; nil: it can't be decoded.
func effect[E any](e event.Effect) *E {
	var out E
	if json.Unmarshal(e.Data, &out) != nil {
		return nil
	}
	return &out
}

// reasonOf returns what a person reads about a question: the model's words or else the host's reason, after the tools that a nested call
// comes from, for which the protocol has no field.
func reasonOf(a event.QuestionAsked) string {
	reason, chain := cmp.Or(a.Message, a.Reason), a.Nesting()
	if chain == "" || reason == "" {
		return chain + reason
	}
	return chain + ": " + reason
}

func protocolOf(n *contract.NetworkEffect) protocol.NetworkApprovalProtocol {
	if n.Method != "" && n.Port == 80 {
		return protocol.NetworkHTTP
	}
	return protocol.NetworkHTTPS
}

// decisionsOf returns the decisions that clients should offer.
func decisionsOf(a event.QuestionAsked) []protocol.CommandExecutionApprovalDecision {
	out := []protocol.CommandExecutionApprovalDecision{{Kind: protocol.DecisionAccept}}
	if slices.Contains(a.Options, hub.ApproveSession) {
		out = append(out, protocol.CommandExecutionApprovalDecision{Kind: protocol.DecisionAcceptForSession})
	}
	if r := a.Rule; r != nil && len(r.Prefix) > 0 {
		out = append(out, protocol.CommandExecutionApprovalDecision{
			Kind: protocol.DecisionAcceptWithAmendment, ExecpolicyAmendment: &protocol.ExecpolicyAmendmentDecision{ExecpolicyAmendment: r.Prefix},
		})
	} else if r != nil && r.Host != "" {
		actions := []protocol.NetworkPolicyRuleAction{protocol.NetworkAllow}
		if r.Deny != "" {
			actions = append(actions, protocol.NetworkDeny)
		}
		for _, action := range actions {
			out = append(out, protocol.CommandExecutionApprovalDecision{
				Kind: protocol.DecisionApplyNetworkPolicy, NetworkPolicyAmendment: &protocol.NetworkPolicyAmendmentDecision{
					NetworkPolicyAmendment: protocol.NetworkPolicyAmendment{Host: r.Host, Action: action},
				},
			})
		}
	}
	return append(out, protocol.CommandExecutionApprovalDecision{Kind: protocol.DecisionDecline}, protocol.CommandExecutionApprovalDecision{Kind: protocol.DecisionCancel})
}

// decisionAnswer converts a decision about a command or a change of files.
func decisionAnswer(result json.RawMessage) (hub.Answer, bool) {
	var r protocol.CommandExecutionRequestApprovalResponse
	if json.Unmarshal(result, &r) != nil {
		return hub.Answer{}, false
	}
	switch r.Decision.Kind {
	case protocol.DecisionAccept:
		return hub.Answer{Choice: hub.Approve}, true
	case protocol.DecisionAcceptForSession:
		return hub.Answer{Choice: hub.ApproveSession}, true
	case protocol.DecisionAcceptWithAmendment:
		return hub.Answer{Choice: hub.ApproveAlways}, true
	case protocol.DecisionApplyNetworkPolicy:
		if n := r.Decision.NetworkPolicyAmendment; n != nil && n.NetworkPolicyAmendment.Action == protocol.NetworkDeny {
			return hub.Answer{Choice: hub.DenyAlways}, true
		}
		return hub.Answer{Choice: hub.ApproveAlways}, true
	case protocol.DecisionDecline:
		return hub.Answer{Choice: hub.Deny}, true
	case protocol.DecisionCancel:
		return hub.Answer{Choice: hub.Abort}, true
	}
	return hub.Answer{}, false
}

// profileOf converts requested permissions.
func profileOf(wanted []event.Effect) protocol.PermissionProfile {
	var p protocol.PermissionProfile
	files := protocol.FileSystemPermissions{}
	for _, e := range wanted {
		switch e.Type {
		case "read":
			if r := effect[contract.ReadEffect](e); r != nil {
				files.Read = append(files.Read, r.Paths...)
			}
		case "write":
			if w := effect[contract.WriteEffect](e); w != nil {
				files.Write = append(files.Write, w.Paths...)
			}
		case "network":
			enabled := true
			p.Network = &protocol.NetworkPermissions{Enabled: &enabled}
		}
	}
	if len(files.Read)+len(files.Write) > 0 {
		p.FileSystem = &files
	}
	return p
}

// permissionsAnswer converts granted permissions. The thread grants no more of them than it has asked for.
func permissionsAnswer(result json.RawMessage) (hub.Answer, bool) {
	var r protocol.PermissionsRequestApprovalResponse
	if json.Unmarshal(result, &r) != nil {
		return hub.Answer{}, false
	}
	type network struct {
		Enabled bool `json:"enabled"`
	}
	type files struct {
		Read  []string `json:"read"`
		Write []string `json:"write"`
	}
	var granted struct {
		Network *network `json:"network"`
		Files   *files   `json:"file_system"`
	}
	if n := r.Permissions.Network; n != nil && n.Enabled != nil && *n.Enabled {
		granted.Network = &network{true}
	}
	if fs := r.Permissions.FileSystem; fs != nil && len(fs.Read)+len(fs.Write) > 0 {
		granted.Files = &files{fs.Read, fs.Write}
	}
	if granted.Network == nil && granted.Files == nil {
		return hub.Answer{Choice: hub.Deny}, true
	}
	data, err := json.Marshal(map[string]any{"permissions": granted, "strict_auto_review": r.StrictAutoReview != nil && *r.StrictAutoReview})
	if err != nil {
		return hub.Answer{}, false
	}
	choice := hub.ApproveTurn
	if r.Scope != nil && *r.Scope == protocol.GrantSession {
		choice = hub.ApproveSession
	}
	return hub.Answer{Choice: choice, Data: data}, true
}

// userInput puts a choice to the user.
func (q *question) userInput(thread, turn string) {
	a := q.asked
	options := make([]protocol.ToolRequestUserInputOption, len(a.Options))
	for i, o := range a.Options {
		options[i].Label = o
	}
	const id = "choice"
	q.method = protocol.RequestUserInput.Name
	q.params = protocol.ToolRequestUserInputParams{
		ThreadID: thread, TurnID: turn, ItemID: string(a.Call), IsBlocking: true,
		Questions: []protocol.ToolRequestUserInputQuestion{{ID: id, Header: cmp.Or(a.Asker(), a.Title), Question: textOf(a), Options: options}},
	}
	q.answer = func(result json.RawMessage) (hub.Answer, bool) {
		var r protocol.ToolRequestUserInputResponse
		if json.Unmarshal(result, &r) != nil || len(r.Answers[id].Answers) == 0 {
			return hub.Answer{}, false
		}
		return hub.Answer{Choice: r.Answers[id].Answers[0]}, true
	}
}

// textOf returns the text of a question, which may have only a title.
func textOf(a event.QuestionAsked) string {
	switch {
	case a.Message == "":
		return a.Title
	case a.Plugin != "" && a.Title != "": // requests name who asks where others have the title
		return a.Title + "\n\n" + a.Message
	}
	return a.Message
}

// elicitation puts a form or a URL to the user.
func (q *question) elicitation(thread, turn string) {
	a := q.asked
	q.method = protocol.RequestElicitation.Name
	head := protocol.ElicitationHeader{ThreadID: thread, TurnID: orNull(turn), ServerName: a.Asker(), Message: textOf(a)}
	var body protocol.Elicitation = protocol.FormElicitation{ElicitationHeader: head, RequestedSchema: a.Schema}
	if a.About == event.QuestionURL {
		body = protocol.URLElicitation{ElicitationHeader: head, URL: a.URL, ElicitationID: a.ID}
	}
	q.params, q.answer = protocol.MCPServerElicitationRequestParams{Body: body}, elicitationAnswer
}

// toolApproval puts the approval of another call to the user, in the form in which codex asks about tools of MCP servers.
func (q *question) toolApproval(thread, turn string, item protocol.ItemBody) {
	a := q.asked
	remembered := slices.Contains(a.Options, hub.ApproveSession)
	about := map[string]any{"codex_approval_kind": "mcp_tool_call", "tool_description": reasonOf(a)}
	switch it := item.(type) { // the request does not name the item, so it has the arguments
	case protocol.MCPToolCallItem:
		about["tool_params"] = it.Arguments
	case protocol.DynamicToolCallItem:
		about["tool_params"] = it.Arguments
	}
	if remembered {
		about["persist"] = []string{"session"}
	}
	meta, err := json.Marshal(about)
	if err != nil { // strings, and what was JSON
		panic("appserver: marshal an approval: " + err.Error())
	}
	q.method = protocol.RequestElicitation.Name
	q.params = protocol.MCPServerElicitationRequestParams{Body: protocol.FormElicitation{
		ElicitationHeader: protocol.ElicitationHeader{ThreadID: thread, TurnID: orNull(turn), ServerName: "gantry", Message: a.Title, Meta: meta},
		RequestedSchema:   json.RawMessage(`{"type":"object","properties":{}}`),
	}}
	q.answer = func(result json.RawMessage) (hub.Answer, bool) {
		var r protocol.MCPServerElicitationRequestResponse
		if json.Unmarshal(result, &r) != nil {
			return hub.Answer{}, false
		}
		var persist struct {
			Persist string `json:"persist"`
		}
		_ = json.Unmarshal(r.Meta, &persist) // no wish
		switch {
		case r.Action == protocol.ElicitationCancel:
			return hub.Answer{Choice: hub.Abort}, true
		case r.Action != protocol.ElicitationAccept:
			return hub.Answer{Choice: hub.Deny}, true
		case persist.Persist != "" && remembered:
			return hub.Answer{Choice: hub.ApproveSession}, true
		}
		return hub.Answer{Choice: hub.Approve}, true
	}
}

// elicitationAnswer converts the content of a form.
func elicitationAnswer(result json.RawMessage) (hub.Answer, bool) {
	var r protocol.MCPServerElicitationRequestResponse
	if json.Unmarshal(result, &r) != nil {
		return hub.Answer{}, false
	}
	switch r.Action {
	case protocol.ElicitationAccept:
		return hub.Answer{Choice: hub.Approve, Data: r.Content}, true
	case protocol.ElicitationCancel:
		return hub.Answer{Choice: hub.Dismiss}, true
	}
	return hub.Answer{Choice: hub.Deny}, true
}

var (
	errClosing = errors.New("the server is closing")
	errEnded   = &rpc.Error{Code: rpc.InvalidRequest, Message: "the thread has ended", Data: map[string]any{"kind": hub.Closed, "next": "resume it with thread/resume"}}
)
