package goal

import (
	"bytes"
	"context"
	"encoding/json"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/hosttool"
	"github.com/gantry-agent/gantry/host/internal/orchestrate"
	"github.com/gantry-agent/gantry/host/internal/registry"
	"github.com/gantry-agent/gantry/sdk/contract"
)

// Names of the tools; codex-compatible.
const (
	getTool    = "get_goal"
	createTool = "create_goal"
	updateTool = "update_goal"
)

// Table returns the tools with which models read and change the goals of their threads. find returns the keeper of a thread.
func Table(find func(event.ThreadID) (*Keeper, error)) hosttool.Table {
	return hosttool.New(
		toolOf(find, getTool, "Returns the goal of this thread with its status, and the tokens and the time used for it.", `{}`, ``, func(struct{}) *Change { return nil }),
		toolOf(find, createTool, "Sets a goal for this thread, towards which you then work over several turns without further input. Only if the user asks for a goal; "+
			"not for a task that one turn can do. Fails while the thread has a goal that is not complete.",
			`{"objective":{"description":"What is to be reached, in full: later turns have nothing else.","type":"string"},`+
				`"token_budget":{"description":"The most tokens that may be used; only if the user names a number.","minimum":1,"type":"integer"}}`, `"objective"`,
			func(in createArgs) *Change {
				return &Change{Objective: &in.Objective, Budget: in.TokenBudget, New: true}
			}),
		toolOf(find, updateTool, "Changes the status of the goal: complete if the objective is reached and you have checked that, blocked if the same obstacle, which only the user can "+
			"remove, has stopped you in three turns in a row, paused only if the user asks for it.",
			`{"status":{"enum":["complete","blocked","paused"],"type":"string"}}`, `"status"`,
			func(in updateArgs) *Change { return &Change{Status: &in.Status} }),
	)
}

type createArgs struct {
	Objective   string `json:"objective"`
	TokenBudget *int64 `json:"token_budget"`
}

type updateArgs struct {
	Status Status `json:"status"`
}

// toolOf makes a tool. change returns the change that the call makes; nil: it only reads. No person is asked: it only acts within gantry.
func toolOf[In any](find func(event.ThreadID) (*Keeper, error), name, description, properties, required string, change func(In) *Change) hosttool.Tool {
	run := func(ctx context.Context, c *orchestrate.HostCall, input contract.Input) (*contract.Result, error) {
		var in In
		if err := json.Unmarshal(input.Arguments, &in); err != nil {
			return nil, registry.ArgumentsError(err)
		}
		k, err := find(c.Thread)
		if err != nil {
			return nil, err
		}
		get := func() (*Goal, error) { return k.Goal(ctx, c.Turn) }
		if to := change(in); to != nil {
			get = func() (*Goal, error) { return k.Change(ctx, c.Turn, *to) }
		}
		g, err := get()
		if err != nil {
			return nil, err
		}
		text, err := encode(answerOf(c.Thread, g))
		if err != nil {
			return nil, err
		}
		return &contract.Result{Parts: []contract.Part{&contract.TextPart{Text: text, Fit: contract.FitBounded}}}, nil
	}
	return hosttool.Tool{
		Label: hosttool.LabelPrefix + "goal:" + name,
		Descriptor: contract.Descriptor{
			Name: name, Description: description, ReadOnly: true, Nesting: contract.NestingNever,
			InputSchema: json.RawMessage(`{"additionalProperties":false,"properties":` + properties + `,"required":[` + required + `],"type":"object"}`),
		},
		Offer: func(c hosttool.Conditions) hosttool.Offer {
			if c.Unattended || !c.Goals {
				return hosttool.Absent
			}
			return hosttool.Offered
		},
		HostTool: orchestrate.HostTool{Backend: hosttool.Func(run).Backend},
	}
}

// View is a goal as models and clients see it; codex-compatible.
type View struct {
	ThreadID        event.ThreadID `json:"threadId"`
	Objective       string         `json:"objective"`
	Status          Status         `json:"status"`
	TokenBudget     *int64         `json:"tokenBudget,omitempty"`
	TokensUsed      int64          `json:"tokensUsed"`
	TimeUsedSeconds int64          `json:"timeUsedSeconds"`
	CreatedAt       int64          `json:"createdAt"`
	UpdatedAt       int64          `json:"updatedAt"`
}

// ViewOf returns the view of a goal of a thread; nil: there is none.
func ViewOf(id event.ThreadID, g *Goal) *View {
	if g == nil {
		return nil
	}
	v := &View{
		ThreadID: id, Objective: g.Objective, Status: g.Status, TokensUsed: g.Tokens, TimeUsedSeconds: g.Seconds, CreatedAt: g.Created, UpdatedAt: g.Updated,
	}
	if g.Budget > 0 {
		v.TokenBudget = &g.Budget
	}
	return v
}

// answer is the result of each of the tools; codex-compatible.
type answer struct {
	Goal      *View   `json:"goal"`
	Remaining *int64  `json:"remainingTokens"`
	Report    *string `json:"completionBudgetReport"`
}

func answerOf(id event.ThreadID, g *Goal) answer {
	out := answer{Goal: ViewOf(id, g)}
	if g == nil {
		return out
	}
	if left, bounded := g.Remaining(); bounded {
		out.Remaining = &left
	}
	if text := report(*g); text != "" {
		out.Report = &text
	}
	return out
}

func encode(v any) (string, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return string(bytes.TrimSuffix(b.Bytes(), []byte("\n"))), err
}
