// Package review lets a model review changes in a child thread.
//
// It owns: what can be reviewed, how the reviewer is instructed and asked, which of its events the user sees, the format of its
// findings, and how the conversation gets them. It must not know: how a thread runs or is stored, what reviewers may do, and which
// front end asked.
//
// Start with [Reviewer.Task].
package review

import (
	"context"
	_ "embed"
	"errors"
	"fmt"

	"github.com/gantry-agent/gantry/host/internal/child"
	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/thread"
	"github.com/gantry-agent/gantry/host/internal/turn"
	"github.com/gantry-agent/gantry/sdk/llm"
	"github.com/hashicorp/go-hclog"
)

//go:embed rubric.md
var rubric string

// Rubric returns the instructions of the reviewer's thread.
func Rubric() string { return rubric }

// Config configures a reviewer. All fields are required.
type Config struct {
	// Open opens a reviewer for parent. follow receives its events; see [child.Spec].
	Open func(ctx context.Context, parent *thread.Thread, follow func(context.Context, event.Body)) (*child.Child, error)
	// Git runs the user's git in a folder. An error means that it could not be run.
	Git Git
	// Denied reports whether commands in a folder must not read a path. Such files are not part of the question.
	Denied func(dir, path string) bool
	Logger hclog.Logger
}

// Git runs git. confined reports whether programs that git starts can neither write files nor reach a network.
type Git func(ctx context.Context, dir string, args ...string) (out Output, confined bool, err error)

// Output is the output of a program, and its exit status.
type Output struct {
	Stdout, Stderr string
	Code           int
}

// Reviewer reviews changes. Its methods may be called concurrently.
type Reviewer struct{ cfg Config }

// New returns a reviewer.
func New(cfg Config) *Reviewer { return &Reviewer{cfg} }

// Task returns a review of a target in a folder as a task of a thread. It examines the target now: a missing branch or a target
// without changes is an error before a model is asked.
func (r *Reviewer) Task(ctx context.Context, dir string, t Target) (*thread.Task, error) {
	s, err := r.subject(ctx, dir, t)
	if err != nil {
		return nil, err
	}
	j := job{Config: r.cfg, subject: s}
	return &thread.Task{Name: "review", Replaces: true, Work: j.work}, nil
}

// job is one review.
type job struct {
	Config
	subject subject
}

// work runs the review and reports the result to the user and the conversation, even if it failed.
func (j job) work(ctx context.Context, w thread.Worker) turn.Result {
	entered := event.Item{ID: event.NewItemID(), Type: event.ItemEnteredReview, Status: event.StatusInProgress, Text: j.subject.hint}
	if err := j.show(ctx, w, entered); err != nil {
		return ended(ctx, err)
	}
	found, err := j.review(ctx, w)
	// A review that was interrupted is reported as well.
	keep := context.WithoutCancel(ctx)
	exited := event.Item{ID: event.NewItemID(), Type: event.ItemExitedReview, Status: event.StatusInProgress, Text: j.subject.hint, Review: found}
	said, record := "", ""
	switch {
	case err == nil:
		said = Render(*found)
		record = "What the user had reviewed: " + j.subject.hint + ". The reviewer, who is not part of this conversation, found what stands below. " +
			"The user may ask you to act on some of it.\n\n" + said
	case ctx.Err() != nil:
		said = "The review was stopped before it had a result."
		record = "The user began a review (" + j.subject.hint + ") and stopped it. There is no result."
	default:
		said = "The review failed: " + err.Error()
		record = "The user began a review (" + j.subject.hint + "). It failed, so that there is no result."
	}
	told := llm.Message{Role: llm.RoleUser, Parts: []llm.Part{&llm.Text{Text: "<review_result>\n" + record + "\n</review_result>"}}}
	answer := llm.Message{Role: llm.RoleAssistant, Parts: []llm.Part{&llm.Text{Text: said}}}
	message := event.Item{ID: event.NewItemID(), Type: event.ItemAgentMessage, Status: event.StatusInProgress, Text: said}
	exited.Output = said
	if rerr := errors.Join(w.Record(keep, told), j.show(keep, w, exited), j.show(keep, w, message), w.Record(keep, answer)); rerr != nil {
		return ended(ctx, rerr)
	}
	if err != nil {
		return ended(ctx, err)
	}
	return turn.Result{Status: event.TurnCompleted, LastMessage: said}
}

// show publishes an item that is complete.
func (j job) show(ctx context.Context, w thread.Worker, it event.Item) error {
	done := it
	done.Status = event.StatusCompleted
	if it.Type == event.ItemExitedReview && it.Review == nil {
		done.Status = event.StatusAborted
	}
	return w.Publish(ctx, event.ItemStarted{Item: it}, event.ItemCompleted{Item: done})
}

func ended(ctx context.Context, err error) turn.Result {
	if cause := context.Cause(ctx); cause != nil {
		return turn.Result{Status: event.TurnInterrupted, Cause: cause}
	}
	if e, ok := errors.AsType[*child.TurnError](err); ok {
		return turn.Result{Status: event.TurnFailed, Problem: &e.Problem}
	}
	return turn.Result{Status: event.TurnFailed, Problem: turn.ProblemOf(err)}
}

// review asks the reviewer. An interrupt is passed on to the reviewer's turn, and review waits for its end.
func (j job) review(ctx context.Context, w thread.Worker) (*event.Review, error) {
	f := forwarder{to: w, log: j.Logger}
	reviewer, err := j.Open(ctx, w.Thread, f.event)
	if err != nil {
		return nil, fmt.Errorf("start the reviewer's thread: %w", err)
	}
	defer reviewer.Close()
	answer, err := reviewer.Ask(ctx, child.Question{Text: j.subject.prompt})
	switch {
	case err != nil:
		return nil, err
	case answer == "":
		return nil, errors.New("the reviewer returned no answer")
	}
	found := Parse(answer)
	return &found, nil
}
