package mcpserver

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/hub"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// elicits reports whether the client can put questions to its user.
func (c *call) elicits() bool {
	p := c.session.InitializeParams()
	return p != nil && p.Capabilities != nil && p.Capabilities.Elicitation != nil
}

// ask puts a question to the client. The first answer counts, also that of another client of the thread.
func (c *call) ask(ctx context.Context, q event.QuestionAsked) {
	if !c.elicits() {
		return // another client is at the thread
	}
	params := c.elicitation(q)
	ctx, cancel := context.WithCancel(ctx)
	c.asked[q.ID] = cancel
	c.asking.Go(func() { // ends with the question
		r, err := c.session.Elicit(ctx, params)
		if ctx.Err() != nil {
			return
		}
		a := hub.Answer{Choice: hub.Deny}
		if err != nil {
			c.note(fmt.Sprintf("%s: refused, because the MCP client has not answered the question: %v", q.Title, err))
		} else {
			a = answer(q, r)
		}
		if err := c.thread.Answer(ctx, q.ID, a); err != nil && ctx.Err() == nil {
			c.server.log.Debug("answer not used", "thread", c.thread.ID(), "question", q.ID, "err", err)
		}
	})
}

// choice is an answer that a person can choose.
type choice struct{ answer, name string }

// choices returns the answers to a question; nil: it has a form or a page.
func choices(q event.QuestionAsked) (out []choice) {
	switch q.About {
	case event.QuestionApproval:
		out = append(out, choice{hub.Approve, "Allow"})
		if slices.Contains(q.Options, hub.ApproveSession) {
			out = append(out, choice{hub.ApproveSession, "Allow for this session"})
		}
		if q.Rule != nil {
			out = append(out, choice{hub.ApproveAlways, "Always allow: " + plain(q.Rule.Line, maxLine)})
		}
		out = append(out, choice{hub.Deny, "Reject"})
		if q.Rule != nil && q.Rule.Deny != "" {
			out = append(out, choice{hub.DenyAlways, "Always reject: " + plain(q.Rule.Deny, maxLine)})
		}
	case event.QuestionPermissions:
		out = append(out, choice{hub.ApproveTurn, "Allow for this turn"}, choice{hub.ApproveSession, "Allow for this session"}, choice{hub.Deny, "Reject"})
	case event.QuestionChoice:
		for _, o := range q.Options {
			out = append(out, choice{o, plain(o, maxLine)})
		}
	}
	return out
}

// field is the field of the form in which a person chooses an answer.
const field = "decision"

// elicitation returns the request that puts a question.
func (c *call) elicitation(q event.QuestionAsked) *mcp.ElicitParams {
	p := &mcp.ElicitParams{Message: c.message(q), Meta: mcp.Meta{"threadId": string(c.thread.ID()), "callId": string(q.Call)}}
	switch q.About {
	case event.QuestionForm:
		p.Mode, p.RequestedSchema = "form", q.Schema
	case event.QuestionURL:
		p.Mode, p.URL, p.ElicitationID = "url", q.URL, q.ID
	default:
		var answers, names []string
		for _, o := range choices(q) {
			answers, names = append(answers, o.answer), append(names, o.name)
		}
		// The field is not required: a client that only knows yes and no accepts without it.
		p.Mode, p.RequestedSchema = "form", map[string]any{
			"type":       "object",
			"properties": map[string]any{field: map[string]any{"type": "string", "title": "Decision", "enum": answers, "enumNames": names}},
		}
	}
	return p
}

// message returns what a person reads before they decide.
func (c *call) message(q event.QuestionAsked) string {
	lines := []string{q.Title, q.Nesting()}
	if q.Plugin != "" {
		lines = append(lines, "Asked by "+q.Asker())
	}
	lines = append(lines, q.Message, q.Reason, q.Changes)
	if q.Plugin == "" {
		it := c.items[q.Call]
		if it.Command != "" && !strings.Contains(q.Title, it.Command) {
			lines = append(lines, it.Command)
		}
		if len(it.Arguments) > 0 && (it.Type == event.ItemTool || it.Type == event.ItemMCPCall) {
			lines = append(lines, "Arguments: "+plain(string(it.Arguments), maxLine))
		}
		if it.Cwd != "" {
			lines = append(lines, "In "+it.Cwd)
		}
		for _, f := range it.Changes {
			lines = append(lines, f.Kind+" "+f.Path+"\n"+f.Diff)
		}
		for _, e := range q.Wanted {
			lines = append(lines, "It wants more than the sandbox allows: "+e.Type+" "+string(e.Data))
		}
	}
	lines = slices.DeleteFunc(lines, func(l string) bool { return l == "" })
	return plain(strings.Join(slices.Compact(lines), "\n\n"), maxText)
}

// answer returns the answer to a question that a client's response means. One that makes no sense refuses.
func answer(q event.QuestionAsked, r *mcp.ElicitResult) hub.Answer {
	switch r.Action {
	case "accept":
	case "cancel":
		if q.About == event.QuestionApproval || q.About == event.QuestionPermissions {
			return hub.Answer{Choice: hub.Abort}
		}
		if q.Plugin != "" {
			return hub.Answer{Choice: hub.Dismiss}
		}
		return hub.Answer{Choice: hub.Deny}
	default:
		return hub.Answer{Choice: hub.Deny}
	}
	switch q.About {
	case event.QuestionForm:
		if raw, err := json.Marshal(r.Content); err == nil && r.Content != nil {
			return hub.Answer{Data: raw}
		}
		return hub.Answer{Choice: hub.Deny}
	case event.QuestionURL:
		return hub.Answer{Data: json.RawMessage("{}")}
	}
	offered := choices(q)
	if v, ok := r.Content[field]; ok {
		if i := slices.IndexFunc(offered, func(o choice) bool { return o.answer == v }); i >= 0 {
			return hub.Answer{Choice: offered[i].answer}
		}
		return hub.Answer{Choice: hub.Deny}
	}
	if q.About == event.QuestionChoice { // there is no answer that accepting alone could mean
		return hub.Answer{Choice: hub.Deny}
	}
	return hub.Answer{Choice: offered[0].answer}
}
