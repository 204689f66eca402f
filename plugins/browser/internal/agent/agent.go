// Package agent carries out a task in a browser step after step: what a model chooses, or what an earlier run has done.
//
// It owns: the loop, what the model is told, the plan, when to stop, and how a history is replayed. It must not know: how a page is read, how an
// action is carried out, or how a model is reached.
//
// Start with [Run] and [Replay].
package agent

import (
	"context"
	"strings"

	"github.com/gantry-agent/gantry/plugins/browser/internal/history"
	"github.com/gantry-agent/gantry/sdk/llm"
)

// Page is a page as it is seen at one moment.
type Page struct {
	URL, Title string
	Document   string // differs between documents
	Text       string // for the model
	Print      string // the same for pages that show the same; "": not known
	Elements   int    // that have numbers
	Tab        string
	Tabs       []history.Tab
	Picture    *llm.Media // nil: none
}

// Outcome is what an action has led to.
type Outcome struct {
	Text    string
	Failed  bool
	Picture *llm.Media // nil: none
	// Changed: what is in view is another page or tab, for which the actions that follow were not meant.
	Changed bool
}

// Browser is the browser that a task is carried out in. Errors end the task; what the model can do something about is part of the outcome.
type Browser interface {
	// Look reads the page.
	Look(ctx context.Context, picture bool) (Page, error)
	// Act carries out an action.
	Act(ctx context.Context, a history.Action) (Outcome, error)
	// Elements returns what elements are recognized by: those with the numbers, or all that have one.
	Elements(ctx context.Context, numbers ...int) ([]history.Candidate, error)
}

// Sample asks the model.
type Sample func(ctx context.Context, r *llm.Request) (string, llm.Usage, error)

// ending are the actions after which the rest of a step is not carried out: what follows was meant for another page.
var ending = []string{"search", "navigate", "go_back", "go_forward", "reload", "switch", "close", "evaluate"}

func clip(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "..."
}

// oneLine returns the beginning of a text, without line breaks.
func oneLine(s string, most int) string { return clip(strings.Join(strings.Fields(s), " "), most) }
