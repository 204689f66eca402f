// Package goal keeps what a thread is to reach, and lets it continue by itself until that is reached.
//
// It owns: the goal and its statuses, what it has used, when a thread continues, and the tools by which models read and change the goal.
// It must not know: how a turn runs, how a thread is stored, who shows the goal.
//
// Start with [Goal], [Feature], which derives it from a thread's events, and [Keeper], which serves a thread that runs.
package goal

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/google/uuid"
)

// Status is the status of a goal; codex-compatible.
type Status string

// The statuses of goals. A thread works on a goal only while it is Active.
const (
	Active        Status = "active"
	Paused        Status = "paused"
	Blocked       Status = "blocked"
	UsageLimited  Status = "usageLimited"
	BudgetLimited Status = "budgetLimited"
	Complete      Status = "complete"
)

// known reports whether s is one of the statuses.
func (s Status) known() bool {
	switch s {
	case Active, Paused, Blocked, UsageLimited, BudgetLimited, Complete:
		return true
	}
	return false
}

// maxObjective limits an objective, in characters; codex-compatible.
const maxObjective = 4000

// Goal is what a thread is to reach.
type Goal struct {
	ID        string `json:"id"`
	Objective string `json:"objective"`
	Status    Status `json:"status"`
	// Reason says why the goal is blocked or limited; empty: nothing is known.
	Reason string `json:"reason,omitempty"`
	// Budget is the number of tokens that may be used for the goal; 0: unlimited.
	Budget  int64 `json:"budget,omitempty"`
	Tokens  int64 `json:"tokens"`  // used so far: input that was not cached, and output
	Seconds int64 `json:"seconds"` // time during which the goal was active, while its host ran
	Created int64 `json:"created"` // Unix time
	Updated int64 `json:"updated"` // Unix time
}

// Remaining returns how many tokens are left; false: the goal has no budget.
func (g Goal) Remaining() (int64, bool) { return max(g.Budget-g.Tokens, 0), g.Budget > 0 }

// state is the state of [Feature].
type state struct {
	Goal
	// Base is what the thread had used when usage was last charged.
	Base int64 `json:"base"`
	// Since is when time was last charged, in Unix milliseconds.
	Since int64 `json:"since"`
	// Wraps: the budget was reached in the running turn, whose usage is still charged.
	Wraps bool `json:"wraps,omitempty"`

	// Own: the running turn is one with which the thread has continued by itself. Calls: it has made a call.
	Own   bool `json:"own,omitempty"`
	Calls bool `json:"calls,omitempty"`
	// Idle is the number of such turns in a row that made no call, and Same the number of those that ended with the same text.
	Idle int    `json:"idle,omitempty"`
	Same int    `json:"same,omitempty"`
	Last string `json:"last,omitempty"` // digest of that text
	// Rested is when the last turn ended, in Unix milliseconds.
	Rested int64 `json:"rested,omitempty"`
}

// stateOf decodes a state; nil: there is no goal, or one that this build can't read.
func stateOf(raw json.RawMessage) *state {
	if raw == nil {
		return nil
	}
	var s state
	if json.Unmarshal(raw, &s) != nil || s.ID == "" {
		return nil
	}
	return &s
}

// Of returns the goal that a state of [Feature] has; nil: none.
func Of(raw json.RawMessage) *Goal {
	s := stateOf(raw)
	if s == nil {
		return nil
	}
	return &s.Goal
}

// charges reports whether usage is charged to the goal now.
func (s *state) charges() bool { return s.Status == Active || s.Status == BudgetLimited && s.Wraps }

// Change is what a user or a model asks for. Nil fields change nothing.
type Change struct {
	Objective *string `json:"objective,omitempty"`
	Status    *Status `json:"status,omitempty"`
	Budget    *int64  `json:"budget,omitempty"` // 0: unlimited, or the most that the configuration allows
	Clear     bool    `json:"clear,omitempty"`
	// New refuses to replace a goal that is not complete.
	New bool `json:"new,omitempty"`
}

// SetStatus sets the status, which is checked when the change is made.
func (c *Change) SetStatus(to string) { c.Status = (*Status)(&to) }

// ErrNone says that a thread has no goal to change.
var ErrNone = errors.New("the thread has no goal")

// ErrOff says that a thread can't have a goal.
var ErrOff = &InvalidError{"this thread can't have a goal", "goals are for stored threads of a user, unless goals.enabled is false"}

// InvalidError says why a change is not possible.
type InvalidError struct{ Message, Next string }

// Error implements error.
func (e *InvalidError) Error() string { return e.Message }

// NextStep implements hint.Stepper.
func (e *InvalidError) NextStep() string { return e.Next }

// check returns the change in its stored form. most is the most tokens that a goal may use; 0: unlimited.
func (c Change) check(most int64) (Change, error) {
	if c.Objective != nil {
		text := strings.TrimSpace(*c.Objective)
		switch n := utf8.RuneCountInString(text); {
		case n == 0:
			return c, &InvalidError{"the objective is empty", "say what is to be reached"}
		case n > maxObjective:
			return c, &InvalidError{fmt.Sprintf("the objective has %d characters; the maximum is %d", n, maxObjective), "shorten it, or put it into a file and name the file"}
		}
		c.Objective = &text
	}
	if c.Status != nil && !c.Status.known() {
		return c, &InvalidError{fmt.Sprintf("invalid status %q", *c.Status), "use active, paused, blocked, usageLimited, budgetLimited or complete"}
	}
	if c.Budget != nil {
		b := *c.Budget
		switch {
		case b < 0:
			return c, &InvalidError{fmt.Sprintf("invalid budget %d: it must be positive", b), ""}
		case most > 0 && b > most:
			return c, &InvalidError{fmt.Sprintf("the budget of %d tokens exceeds the maximum of %d", b, most), "use a smaller one, or raise goals.max_tokens"}
		case b == 0:
			b = most
		}
		c.Budget = &b
	}
	return c, nil
}

// charge is usage that is charged to a goal. Base and Since become those of its state.
type charge struct {
	Tokens  int64 `json:"tokens,omitempty"`
	Seconds int64 `json:"seconds,omitempty"`
	Base    int64 `json:"base,omitempty"`
	Since   int64 `json:"since,omitempty"`
}

// Used returns what counts of a thread's usage: input that was not cached, and output.
func Used(total event.Tokens) int64 {
	return max(total.Input-total.CacheRead, 0) + max(total.Output, 0)
}

// due returns what is to be charged now. used is what the thread has used, and opened when its host began to run it: the time before that
// is not charged.
func (s *state) due(used int64, now, opened time.Time) charge {
	c := charge{Base: used, Since: now.UnixMilli()}
	if s == nil || !s.charges() {
		return c
	}
	c.Tokens = max(used-s.Base, 0)
	if since := max(s.Since, opened.UnixMilli()); s.Status == Active {
		c.Seconds = max((c.Since-since)/1000, 0)
		c.Since = since + c.Seconds*1000 // what is less than a second is charged later
	}
	return c
}

// kind is a kind of a recorded change.
type kind string

// The kinds of recorded changes.
const (
	created   kind = "created"
	updated   kind = "updated"
	accounted kind = "accounted"
	cleared   kind = "cleared"
)

// recorded is the data of an [event.FeatureChanged].
type recorded struct {
	Kind kind   `json:"kind"`
	Goal string `json:"goal"` // its ID: what was meant for an earlier goal changes nothing
	Change
	// Charge is made before the change; of a goal that was created: where its usage begins.
	Charge charge `json:"charge"`
}

// decide returns how a change is recorded. due is what is charged before it; most is the most tokens that a goal may use, 0: unlimited.
func decide(s *state, c Change, due charge, most int64) (recorded, error) {
	c, err := c.check(most)
	if err != nil {
		return recorded{}, err
	}
	over := s == nil || s.Status == Complete
	switch {
	case c.Clear && s == nil:
		return recorded{}, ErrNone
	case c.Clear:
		return recorded{Kind: cleared, Goal: s.ID, Charge: due}, nil
	case c.New && !over:
		return recorded{}, &InvalidError{"the thread has a goal that is not complete", "complete it with update_goal first, or let the user replace it"}
	case c.Objective == nil && s == nil:
		return recorded{}, ErrNone
	case c.Objective != nil && over:
		if c.Budget == nil && most > 0 {
			c.Budget = &most
		}
		return recorded{Kind: created, Goal: uuid.NewString(), Change: c, Charge: charge{Base: due.Base, Since: due.Since}}, nil
	}
	if c.Objective != nil && c.Status == nil { // a new objective is worked on
		active := Active
		c.Status = &active
	}
	return recorded{Kind: updated, Goal: s.ID, Change: c, Charge: due}, nil
}

// begin returns the state of a goal that was created.
func begin(r recorded, at time.Time) *state {
	if r.Objective == nil {
		return nil
	}
	s := &state{Goal: Goal{ID: r.Goal, Objective: *r.Objective, Status: Active, Created: at.Unix(), Updated: at.Unix()}, Base: r.Charge.Base, Since: r.Charge.Since}
	if r.Status != nil {
		s.Status = *r.Status
	}
	if r.Budget != nil {
		s.Budget = *r.Budget
	}
	return s
}

// charge charges usage, and limits the goal when its budget is reached.
func (s *state) charge(c charge, at time.Time) {
	s.Tokens, s.Seconds, s.Base, s.Since, s.Updated = s.Tokens+c.Tokens, s.Seconds+c.Seconds, c.Base, c.Since, at.Unix()
	if s.Status == Active && s.Budget > 0 && s.Tokens >= s.Budget {
		s.limit()
		s.Wraps = true
	}
}

// limit ends the work on a goal whose budget is used up.
func (s *state) limit() { s.Status, s.Reason = BudgetLimited, "the budget is used up" }

// change makes a change that was asked for.
func (s *state) change(c Change) {
	if c.Objective != nil {
		s.Objective = *c.Objective
	}
	if c.Budget != nil {
		s.Budget = *c.Budget
	}
	if c.Status != nil {
		// A goal whose budget is used up stays so if it is to rest: otherwise it would seem to be able to continue.
		if rests := *c.Status == Paused || *c.Status == Blocked; !rests || s.Status != BudgetLimited {
			s.Status, s.Reason, s.Wraps = *c.Status, "", false
		}
	}
	if s.Status == Active {
		if s.Budget > 0 && s.Tokens >= s.Budget {
			s.limit()
		}
		s.Idle, s.Same, s.Last = 0, 0, ""
	}
}

// Stalls: after so many turns in a row without a call, or with the same answer, a goal is blocked.
const stalls = 5

// ended takes the end of a turn into account.
func (s *state) ended(e event.TurnEnded, at time.Time) {
	own, calls := s.Own, s.Calls
	s.Own, s.Calls, s.Wraps, s.Rested = false, false, false, at.UnixMilli()
	switch {
	case e.Status == event.TurnFailed && (s.Status == Active || s.Status == BudgetLimited) && outOfUsage(e.Error):
		s.rest(UsageLimited, e.Error.Message, at)
	case e.Status == event.TurnFailed && s.Status == Active:
		s.rest(Blocked, messageOf(e.Error), at)
	case e.Status == event.TurnCompleted && s.Status == Active && own:
		s.stall(calls, event.Digest(e.LastMessage), at)
	}
}

// stall counts turns without progress.
func (s *state) stall(calls bool, last string, at time.Time) {
	if s.Idle++; calls {
		s.Idle = 0
	}
	if s.Same++; last != s.Last {
		s.Same, s.Last = 1, last
	}
	switch {
	case s.Idle >= stalls:
		s.rest(Blocked, fmt.Sprintf("%d turns in a row made no call", s.Idle), at)
	case s.Same >= stalls:
		s.rest(Blocked, fmt.Sprintf("%d turns in a row ended with the same answer", s.Same), at)
	}
}

func (s *state) rest(as Status, why string, at time.Time) {
	s.Status, s.Reason, s.Updated = as, why, at.Unix()
}

// outOfUsage reports whether a turn has failed because its user may use no more of the model.
func outOfUsage(p *event.Problem) bool {
	return p != nil && (p.Code == "quota-exceeded" || p.Code == "budget")
}

func messageOf(p *event.Problem) string {
	if p == nil {
		return "the turn failed"
	}
	return p.Message
}
