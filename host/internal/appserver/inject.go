package appserver

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/hub"
	"github.com/gantry-agent/gantry/host/internal/picture"
	"github.com/gantry-agent/gantry/host/internal/protocol"
	"github.com/gantry-agent/gantry/host/internal/rpc"
	"github.com/gantry-agent/gantry/sdk/llm"
)

func (s threads) threadInject(ctx context.Context, c *call, p protocol.ThreadInjectItemsParams) (out protocol.ThreadInjectItemsResponse, err error) {
	if len(p.Items) == 0 {
		return out, rpc.Errorf(rpc.InvalidRequest, "items must not be empty")
	}
	ms, err := responseItems(p.Items)
	if err != nil {
		return out, err
	}
	t, err := s.running(ctx, p.ThreadID)
	if err != nil || len(ms) == 0 {
		return out, err
	}
	c.request.Release() // it may wait for the end of a turn
	return out, t.Inject(ctx, ms)
}

// responseItem is an item of OpenAI's Responses API, which codex stores as the history.
type responseItem struct {
	Type      string          `json:"type"`
	Role      string          `json:"role"`
	Content   json.RawMessage `json:"content"`
	Summary   json.RawMessage `json:"summary"`
	CallID    string          `json:"call_id"`
	Name      string          `json:"name"`
	Namespace string          `json:"namespace"`
	Arguments string          `json:"arguments"`
	Input     string          `json:"input"`
	Output    json.RawMessage `json:"output"`
}

// contentPart is a part of the content of a [responseItem].
type contentPart struct {
	Type     string `json:"type"`
	Text     string `json:"text"`
	Refusal  string `json:"refusal"`
	ImageURL string `json:"image_url"`
	Detail   string `json:"detail"`
}

// responseItems converts items to messages. The first invalid one is an error. Every call needs its output, because a history with an open
// call can't be sent to a model.
func responseItems(items []json.RawMessage) ([]llm.Message, error) {
	var out []llm.Message
	open := map[string]int{} // calls without an output, by the index of their item
	calls := map[string]*llm.ToolCall{}
	left := picture.MaxTotal
	for i, raw := range items {
		m, err := itemMessage(raw, &left)
		if err == nil && m != nil {
			if len(open) > 0 && (m.Role == llm.RoleUser || m.Role == llm.RoleSystem) {
				return nil, notAnItem(i, errors.New("it is between a call and the call's output"))
			}
			for _, p := range m.Parts {
				switch p := p.(type) {
				case *llm.ToolCall:
					if _, ok := open[p.ID]; ok {
						err = fmt.Errorf("call `%s` has no output yet", p.ID)
						break
					}
					open[p.ID], calls[p.ID] = i, p
				case *llm.ToolResult:
					if _, ok := open[p.ID]; !ok {
						err = fmt.Errorf("no call `%s` without an output precedes it", p.ID)
						break
					}
					delete(open, p.ID)
					p.Name, p.Namespace, p.Freeform = calls[p.ID].Name, calls[p.ID].Namespace, calls[p.ID].Freeform
				}
			}
		}
		if err != nil {
			return nil, notAnItem(i, err)
		}
		switch n := len(out); {
		case m == nil:
		case n > 0 && m.Role == llm.RoleAssistant && out[n-1].Role == llm.RoleAssistant: // one answer of the model
			out[n-1].Parts = append(out[n-1].Parts, m.Parts...)
		default:
			out = append(out, *m)
		}
	}
	first := -1
	for _, i := range open {
		if first < 0 || i < first {
			first = i
		}
	}
	if first >= 0 {
		return nil, notAnItem(first, errors.New("the call has no output"))
	}
	return out, nil
}

func notAnItem(i int, err error) error {
	return rpc.Errorf(rpc.InvalidRequest, "items[%d] is not a valid response item: %v", i, err)
}

// itemMessage converts an item; nil: it has nothing that a model of any provider can read.
func itemMessage(raw json.RawMessage, left *int) (*llm.Message, error) {
	var it responseItem
	if err := json.Unmarshal(raw, &it); err != nil {
		return nil, err
	}
	one := func(role llm.Role, p ...llm.Part) (*llm.Message, error) {
		return &llm.Message{Role: role, Parts: p}, nil
	}
	switch it.Type {
	case "":
		return nil, errors.New("missing field `type`")
	case "message":
		role, err := roleOf(it.Role)
		if err != nil {
			return nil, err
		}
		parts, err := contentParts("content", it.Content, left)
		if err != nil {
			return nil, err
		}
		return one(role, parts...)
	case "reasoning":
		// What only the vendor's model can read is left out.
		parts, err := contentParts("summary", it.Summary, left)
		if err != nil {
			return nil, err
		}
		if text := (llm.Message{Parts: parts}).Text(); text != "" {
			return one(llm.RoleAssistant, &llm.Reasoning{Text: text})
		}
		return nil, nil
	case "function_call", "custom_tool_call":
		call := &llm.ToolCall{ID: it.CallID, Name: it.Name, Namespace: it.Namespace, Input: it.Arguments}
		if it.Type == "custom_tool_call" {
			call.Input, call.Freeform = it.Input, true
		} else if !json.Valid([]byte(call.Input)) {
			return nil, errors.New("`arguments` is not JSON")
		}
		if call.ID == "" || call.Name == "" {
			return nil, errors.New("`call_id` and `name` must not be empty")
		}
		return one(llm.RoleAssistant, call)
	case "function_call_output", "custom_tool_call_output":
		if it.CallID == "" {
			return nil, errors.New("missing field `call_id`")
		}
		parts, err := contentParts("output", it.Output, left)
		if err != nil {
			return nil, err
		}
		return one(llm.RoleTool, &llm.ToolResult{ID: it.CallID, Content: parts})
	}
	return nil, fmt.Errorf("unknown variant `%s`, expected one of `message`, `reasoning`, `function_call`, `function_call_output`, "+
		"`custom_tool_call`, `custom_tool_call_output`", it.Type)
}

func roleOf(role string) (llm.Role, error) {
	switch role {
	case "user":
		return llm.RoleUser, nil
	case "assistant":
		return llm.RoleAssistant, nil
	case "system", "developer":
		return llm.RoleSystem, nil
	}
	return 0, fmt.Errorf("unknown role `%s`, expected one of `user`, `assistant`, `system`, `developer`", role)
}

// contentParts converts a text or a list of parts.
func contentParts(field string, raw json.RawMessage, left *int) ([]llm.Part, error) {
	if len(raw) == 0 || string(raw) == "null" {
		return nil, fmt.Errorf("missing field `%s`", field)
	}
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return []llm.Part{&llm.Text{Text: text}}, nil
	}
	var parts []contentPart
	if err := json.Unmarshal(raw, &parts); err != nil {
		return nil, fmt.Errorf("`%s`: %w", field, err)
	}
	out := []llm.Part{}
	for i, p := range parts {
		switch p.Type {
		case "input_text", "output_text", "summary_text", "reasoning_text", "text":
			out = append(out, &llm.Text{Text: p.Text})
		case "refusal":
			out = append(out, &llm.Text{Text: p.Refusal})
		case "input_image":
			img, err := dataImage(p.ImageURL, p.Detail, left)
			if err != nil {
				return nil, fmt.Errorf("`%s`[%d]: %w", field, i, err)
			}
			out = append(out, img)
		default:
			return nil, fmt.Errorf("`%s`[%d]: unknown type `%s`", field, i, p.Type)
		}
	}
	return out, nil
}

// dataImage decodes a data URL. left is the number of bytes that further images may have.
func dataImage(url, detail string, left *int) (llm.Part, error) {
	head, data, ok := strings.Cut(url, ",")
	if !ok || !strings.HasPrefix(head, "data:") || !strings.HasSuffix(head, ";base64") {
		return nil, errors.New("an image must be a data URL with base64: remote images are not fetched")
	}
	raw, err := base64.StdEncoding.DecodeString(data)
	if err != nil {
		return nil, fmt.Errorf("the data URL of an image is not base64: %w", err)
	}
	part, _, err := imagePart(raw, "", protocol.ImageDetail(detail), left)
	return part, err
}

// goals has the methods about the goals of threads.
type goals struct{ *Server }

// goalOf converts a goal for clients.
func goalOf(id event.ThreadID, g hub.Goal) protocol.ThreadGoal {
	out := protocol.ThreadGoal{
		ThreadID: string(id), Objective: g.Objective, Status: protocol.ThreadGoalStatus(g.Status), TokensUsed: g.Tokens, TimeUsedSeconds: g.Seconds,
		CreatedAt: g.Created, UpdatedAt: g.Updated,
	}
	if g.Budget > 0 {
		out.TokenBudget = &g.Budget
	}
	return out
}

// change changes the goal of a thread. The notification follows the response.
func (s goals) change(ctx context.Context, c *call, thread string, change hub.GoalChange) (event.ThreadID, *hub.Goal, error) {
	id, err := threadID(thread)
	if err != nil {
		return "", nil, err
	}
	c.afterwards(c.hold(id))
	g, err := s.cfg.Hub.ChangeGoal(ctx, id, change)
	return id, g, err
}

func (s goals) set(ctx context.Context, c *call, p protocol.ThreadGoalSetParams) (out protocol.ThreadGoalSetResponse, err error) {
	change := hub.GoalChange{Objective: p.Objective, Budget: p.TokenBudget}
	if p.Status != nil {
		change.SetStatus(string(*p.Status))
	}
	id, g, err := s.change(ctx, c, p.ThreadID, change)
	if err != nil {
		return out, err
	}
	out.Goal = goalOf(id, *g)
	return out, nil
}

func (s goals) get(ctx context.Context, _ *call, p protocol.ThreadGoalGetParams) (out protocol.ThreadGoalGetResponse, err error) {
	id, err := threadID(p.ThreadID)
	if err != nil {
		return out, err
	}
	g, err := s.cfg.Hub.Goal(ctx, id)
	if err == nil && g != nil {
		is := goalOf(id, *g)
		out.Goal = &is
	}
	return out, err
}

func (s goals) clear(ctx context.Context, c *call, p protocol.ThreadGoalClearParams) (out protocol.ThreadGoalClearResponse, err error) {
	_, _, err = s.change(ctx, c, p.ThreadID, hub.GoalChange{Clear: true})
	if err != nil && hub.ErrorOf(err).Code == hub.NotFound {
		return out, nil
	}
	out.Cleared = err == nil
	return out, err
}

// resumed sends the goal of a thread that was resumed; one without a goal has none to tell of.
func (s goals) resumed(ctx context.Context, c *call, t *hub.Thread) (send func()) {
	g, err := t.Goal(ctx)
	if err != nil || g == nil {
		return func() {}
	}
	told := protocol.ThreadGoalUpdatedNotification{ThreadID: string(t.ID()), Goal: goalOf(t.ID(), *g)}
	return func() { c.send(protocol.NotifyThreadGoalUpdated.Name, told) }
}

// goalAfter returns the notification about the goal after an event that may have changed it; nil: it has not.
func (f *feed) goalAfter(ctx context.Context, e event.Event) *outgoing {
	switch b := e.Body.(type) {
	case event.FeatureChanged:
		if b.Feature != event.GoalFeature {
			return nil
		}
	case event.TurnEnded:
		if f.goal == nil {
			return nil
		}
	default:
		return nil
	}
	g, err := f.thread.Goal(ctx)
	if err != nil {
		return nil // the thread has ended
	}
	was := f.goal
	f.goal = g
	switch {
	case g == nil && was == nil, g != nil && was != nil && *g == *was:
		return nil
	case g == nil:
		return &outgoing{method: protocol.NotifyThreadGoalCleared.Name, unnumbered: true, params: protocol.ThreadGoalClearedNotification{ThreadID: string(f.thread.ID())}}
	}
	told := protocol.ThreadGoalUpdatedNotification{ThreadID: string(f.thread.ID()), Goal: goalOf(f.thread.ID(), *g)}
	if e.Turn != "" {
		told.TurnID = (*string)(&e.Turn)
	}
	return &outgoing{method: protocol.NotifyThreadGoalUpdated.Name, unnumbered: true, params: told}
}
