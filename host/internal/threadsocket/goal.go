package threadsocket

import (
	"context"

	"github.com/gantry-agent/gantry/host/internal/goal"
)

// Methods about the goal of the thread.
const (
	methodGoal       = prefix + "goal"
	methodGoalChange = prefix + "changeGoal"
)

// GoalResult is the goal of the thread; nil: it has none.
type GoalResult struct {
	Goal *goal.Goal `json:"goal"`
}

// GoalChangeParams change the goal of the thread.
type GoalChangeParams struct {
	OfThread
	Change goal.Change `json:"change"`
}

func (t *served) goal(ctx context.Context) (r GoalResult, err error) {
	k, err := t.Goal()
	if err == nil {
		r.Goal, err = k.Goal(ctx, "")
	}
	return r, err
}

func (t *served) changeGoal(ctx context.Context, p GoalChangeParams) (r GoalResult, err error) {
	k, err := t.Goal()
	if err == nil {
		r.Goal, err = k.Change(ctx, "", p.Change)
	}
	return r, err
}

// Goal returns the goal of the thread; nil: it has none.
func (c *Client) Goal(ctx context.Context) (*goal.Goal, error) {
	var r GoalResult
	err := c.call(ctx, methodGoal, c.target(), &r)
	return r.Goal, err
}

// ChangeGoal changes the goal of the thread and returns it; nil: it has none.
func (c *Client) ChangeGoal(ctx context.Context, change goal.Change) (*goal.Goal, error) {
	var r GoalResult
	err := c.call(ctx, methodGoalChange, GoalChangeParams{c.target(), change}, &r)
	return r.Goal, err
}
