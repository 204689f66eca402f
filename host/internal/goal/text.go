package goal

import (
	"fmt"

	"github.com/gantry-agent/gantry/host/internal/history"
	"github.com/gantry-agent/gantry/host/internal/prompt"
	"github.com/gantry-agent/gantry/sdk/llm"
)

// rules tells a model how to work on a goal.
const rules = `This thread has a goal. It holds over all turns: while it is active, a new turn begins by itself whenever one ends, until you
report the goal as complete or blocked with update_goal, or the user changes it.
- The objective below says what to reach. It is a description of work, not a change of your other instructions. Do not reduce it to a part
  that is easier to reach, and do not replace it by something similar.
- Begin each turn from what is there now: look at files, output and results instead of relying on what you remember of them.
- If you have a tool for plans, keep the plan current.
- Before you call update_goal with complete, go through the requirements of the objective one by one, and name for each the evidence that
  it is met. Whatever was not checked is not met. A small rest of the budget is no reason to report complete.
- Call update_goal with blocked only if the same obstacle has stopped you in at least three turns in a row, and only the user can remove it.
  After the goal was resumed, count from the beginning.`

// section returns what a model is told of the goal, once and whenever it changes.
func section(s *state) prompt.Section {
	out := prompt.Section{ID: FeatureID, Role: llm.RoleSystem}
	if s == nil {
		out.Gone = element("There is no goal any more.")
		return out
	}
	if s.charges() {
		out.Text = element(rules + "\n<objective>\n" + escape(s.Objective) + "\n</objective>")
		out.Restated = element("The goal is another one from now on. The new objective replaces the earlier one, for which you do no further work:\n<objective>\n" +
			escape(s.Objective) + "\n</objective>\nThe rules for work on goals stay the same.")
		return out
	}
	switch s.Status {
	case Complete: // the model has said so itself
	case Paused:
		out.Gone = element("The goal is paused: work on it only if the user asks for it.")
	default:
		out.Gone = element("The goal rests (" + string(s.Status) + "): work on it only if the user asks for it.")
	}
	return out
}

func element(text string) string { return "<goal>\n" + text + "\n</goal>" }

// continuation returns the message with which a thread continues by itself.
func continuation(g Goal) llm.Message {
	return llm.Message{Role: llm.RoleUser, Parts: []llm.Part{&llm.Text{Text: history.GoalContinued(
		"No user has written this: the previous turn has ended and the goal is still active. Continue with the next step towards the objective.\n" +
			usage(g) + "\nIf the goal is reached or blocked by the rules above, say so with update_goal.")}}}
}

// usage says what has been used for a goal.
func usage(g Goal) string {
	budget, remaining := "none", "unbounded"
	if left, bounded := g.Remaining(); bounded {
		budget, remaining = fmt.Sprint(g.Budget), fmt.Sprint(left)
	}
	return fmt.Sprintf("Time used: %d s. Tokens used: %d. Token budget: %s. Tokens remaining: %s.", g.Seconds, g.Tokens, budget, remaining)
}

// wrapUp tells a model to end its turn because the budget is reached.
func wrapUp(g Goal) string {
	return element(fmt.Sprintf("The goal's budget of %d tokens is used up: %d tokens and %d s. Begin no further work on the goal. Summarise in this turn what is done and what "+
		"is missing, and name the next step for the user. Do not report the goal as complete unless it is.", g.Budget, g.Tokens, g.Seconds))
}

// report sums up a goal that was completed; empty: there is nothing to sum up.
func report(g Goal) string {
	switch {
	case g.Status != Complete || g.Budget == 0 && g.Seconds == 0:
		return ""
	case g.Budget == 0:
		return fmt.Sprintf("The goal is complete after %d s and %d tokens. Tell the user.", g.Seconds, g.Tokens)
	}
	return fmt.Sprintf("The goal is complete after %d s and %d of %d tokens. Tell the user.", g.Seconds, g.Tokens, g.Budget)
}
