// Package guardian lets a model answer in a person's place when the policy asks about a call.
//
// It owns: the reviewer's input and its limits, how answers are parsed, retries and timeouts, what failures mean, and when an
// agent that ignores denials is interrupted. It must not know: which calls need an approval, how the reviewer's thread runs, and
// which front end is connected.
//
// Start with [Guardian.Turn]. Every failure denies the call, except that a reviewer that can't be reached at all leaves the
// question to a person.
package guardian

import (
	"context"
	"crypto/rand"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gantry-agent/gantry/host/internal/approval"
	"github.com/gantry-agent/gantry/host/internal/child"
	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/orchestrate"
	"github.com/gantry-agent/gantry/sdk/llm"
	"github.com/hashicorp/go-hclog"
)

//go:embed policy.md
var policy string

// Policy returns the instructions of the reviewer's thread. own is text that the user adds; it may be empty.
func Policy(own string) string {
	if strings.TrimSpace(own) == "" {
		return policy
	}
	return policy + "\nThe people whom you stand in for add the following; where it is stricter than what stands above, it counts.\n\n" + strings.TrimSpace(own) + "\n"
}

// DefaultDeadline is the time limit of a review, including retries. Compatible with codex.
const DefaultDeadline = 90 * time.Second

// maxAttempts is the number of attempts if an answer is invalid or its stream breaks. Compatible with codex.
const maxAttempts = 3

// backoff is the delay before the second attempt; it is doubled before the third.
const backoff = 500 * time.Millisecond

// Open opens a session of a reviewer for a thread.
type Open func(ctx context.Context, parent event.ThreadID, model string) (Session, error)

// Config configures a guardian. All fields are required except Key and Deadline.
type Config struct {
	Open     Open
	Key      func(parent event.ThreadID, model string) string // a session is reused while the key is the same; nil: always
	Deadline time.Duration                                    // 0: DefaultDeadline
	Logger   hclog.Logger
}

// Guardian reviews calls. It keeps a session for each thread, so the reviewer of a later call has already read the conversation,
// and its vendor has it cached. Its methods may be called concurrently.
type Guardian struct {
	cfg Config
	mu  struct {
		sync.Mutex
		sessions map[event.ThreadID]*held
	}
}

// New returns a guardian.
func New(cfg Config) *Guardian {
	if cfg.Deadline == 0 {
		cfg.Deadline = DefaultDeadline
	}
	g := &Guardian{cfg: cfg}
	g.mu.sessions = map[event.ThreadID]*held{}
	return g
}

// Log receives events.
type Log interface {
	Publish(ctx context.Context, turn event.TurnID, bodies ...event.Body) (uint64, error)
}

// Turn reviews the calls of one turn and counts its denials. It implements [orchestrate.Reviewer]. Its methods may be called
// concurrently.
type Turn struct {
	*Guardian
	thread event.ThreadID
	id     event.TurnID
	model  string
	log    Log
	mu     struct {
		sync.Mutex
		breaker breaker
	}
}

// Turn returns the reviewer for a turn of a thread. model is the reviewer's model.
func (g *Guardian) Turn(thread event.ThreadID, id event.TurnID, model string, log Log) *Turn {
	return &Turn{Guardian: g, thread: thread, id: id, model: model, log: log}
}

// What the model reads about a call that was not approved.
const (
	deniedText = "rejected by the reviewer: %s Don't try to get to the same result in another way, and don't split or disguise it. " +
		"Go on in a way that is plainly safe, or stop, tell the user what you wanted to do and what the reviewer said, and ask."
	timedOutText = "not approved: the reviewer did not answer in time. That does not mean that the call is unsafe. " +
		"Try it once more, or ask the user."
	failedText  = "not approved: %s. Nothing was run. Go on without it, or ask the user."
	stoppedText = "the turn was stopped: the reviewer denied %s, and the agent went on"
)

var errDeadline = errors.New("the reviewer did not answer in time")

// Review implements [orchestrate.Reviewer].
func (t *Turn) Review(ctx context.Context, r orchestrate.ReviewRequest) (orchestrate.Ruling, bool, error) {
	began := time.Now()
	ended := event.ReviewEnded{ID: rand.Text(), Call: r.Question.Call}
	doing, err := actionOf(r)
	if err != nil {
		ended.Status, ended.Rationale = event.ReviewFailed, err.Error()
		_, perr := t.log.Publish(ctx, t.id, event.ReviewStarted{ID: ended.ID, Call: ended.Call, Action: json.RawMessage("null")}, ended)
		return orchestrate.Ruling{Answer: no(), Message: fmt.Sprintf(failedText, err)}, true, perr
	}
	if _, err := t.log.Publish(ctx, t.id, event.ReviewStarted{ID: ended.ID, Call: ended.Call, Action: doing}); err != nil {
		return orchestrate.Ruling{}, false, err
	}
	bounded, cancel := context.WithTimeoutCause(ctx, t.cfg.Deadline, errDeadline)
	defer cancel()
	a, err := t.ask(bounded, r, string(doing), &ended)
	ruling, ok := orchestrate.Ruling{Answer: no()}, true
	switch {
	case ctx.Err() != nil:
		ended.Status = event.ReviewAborted
		ruling.Choice = approval.Abort
	case errors.Is(err, errDeadline):
		ended.Status, ended.Rationale = event.ReviewTimedOut, err.Error()
		ruling.Message = timedOutText
	case unreachable(err):
		ended.Status, ended.Rationale, ok = event.ReviewUnavailable, err.Error(), false
		ruling.Message = "The reviewer could not be asked: " + err.Error()
	case err != nil:
		ended.Status, ended.Rationale = event.ReviewFailed, err.Error()
		ruling.Message = fmt.Sprintf(failedText, strings.TrimRight(err.Error(), "."))
	case a.Outcome == allow:
		ended.Status, ruling.Choice = event.ReviewApproved, approval.Approve
	default:
		ended.Status = event.ReviewDenied
		ruling.Message = fmt.Sprintf(deniedText, sentence(a.Rationale))
	}
	if err == nil {
		ended.Risk, ended.Authorization, ended.Rationale = a.Risk, a.Authorization, a.Rationale
	}
	ended.DurationMS = time.Since(began).Milliseconds()
	bodies := []event.Body{ended}
	if err == nil && t.denied(a.Outcome == deny) {
		ruling.Choice = approval.Abort
		bodies = append(bodies, event.Notice{
			Level: "warning", Text: fmt.Sprintf(stoppedText, "several of its calls"), Next: "Look at what it tried, and tell it how to continue.",
		})
	}
	if _, perr := t.log.Publish(context.WithoutCancel(ctx), t.id, bodies...); perr != nil {
		return orchestrate.Ruling{}, false, perr
	}
	return ruling, ok, nil
}

func no() approval.Answer { return approval.Answer{Choice: approval.Deny, By: "reviewer"} }

func (t *Turn) denied(denied bool) (trip bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.mu.breaker.note(denied)
}

// ask asks until it gets a valid answer.
func (t *Turn) ask(ctx context.Context, r orchestrate.ReviewRequest, doing string, ended *event.ReviewEnded) (a assessment, err error) {
	for {
		var text string
		ended.Attempts++
		text, err = t.once(ctx, r, doing, ended)
		again := transient(err)
		if err == nil {
			if a, err = parse(text); err == nil {
				return a, nil
			}
			again = true
		}
		if ctx.Err() != nil {
			return assessment{}, context.Cause(ctx)
		}
		if !again || ended.Attempts >= maxAttempts {
			return assessment{}, err
		}
		t.cfg.Logger.Debug("reviewer is asked again", "thread", t.thread, "turn", t.id, "attempt", ended.Attempts, "err", err)
		wait := time.NewTimer(backoff * time.Duration(ended.Attempts))
		select {
		case <-wait.C:
		case <-ctx.Done():
			wait.Stop()
			return assessment{}, context.Cause(ctx)
		}
	}
}

// once asks one time. A failure ends the session, so the next attempt has a new one.
func (t *Turn) once(ctx context.Context, r orchestrate.ReviewRequest, doing string, ended *event.ReviewEnded) (text string, err error) {
	h, err := t.take(ctx, t.thread, t.model)
	if err != nil {
		return "", err
	}
	well := false
	defer func() { t.give(t.thread, h, well) }()
	if id := h.ID(); id != "" && !slices.Contains(ended.Threads, id) {
		ended.Threads = append(ended.Threads, id)
	}
	question := questionOf(r, doing, h.delta(entriesOf(r.History)), h.reviews)
	if text, err = h.Ask(ctx, child.Question{Text: question}); err != nil {
		return "", err
	}
	if _, err := parse(text); err == nil {
		h.note(question, r.History)
		well = true
	}
	return text, nil
}

// reminder is sent once in a session, with its second review.
const reminder = "What you decided before is no precedent: judge each call for itself, by your instructions and by what the user has said until now. " +
	"A call that was denied before may run when the user, told of the risk, has asked for it since.\n\n"

// questionOf composes a question. Its parts are separated by a random mark, so that no part can imitate another.
func questionOf(r orchestrate.ReviewRequest, doing string, read, reviews int) string {
	mark := rand.Text()
	part := func(name, text string) string {
		return fmt.Sprintf("=== %s: %s begins ===\n%s\n=== %s: %s ends ===\n\n", mark, name, strings.TrimRight(text, "\n"), mark, name)
	}
	name, said := "conversation", transcript(entriesOf(r.History), 0)
	if read > 0 {
		if name, said = "conversation since the last review", transcript(entriesOf(r.History), read); said == "" {
			said = "(nothing was said)"
		}
	}
	again := ""
	if reviews == 1 {
		again = reminder
	}
	return "The mark of this review is " + mark + ".\n\n" + again +
		part(name, said) +
		part("what the agent may do without approval", fmt.Sprintf("Commands run in the sandbox mode %s, in the folder %s.", r.Sandbox, r.Cwd)) +
		part("call", doing) +
		"May this call run? Answer with the JSON object alone."
}

func sentence(s string) string {
	s = strings.TrimSpace(s)
	if s == "" {
		return "it gave no reason."
	}
	if !strings.ContainsAny(s[len(s)-1:], ".!?") {
		s += "."
	}
	return s
}

func codeOf(err error) string {
	if e, ok := errors.AsType[*child.TurnError](err); ok {
		return e.Problem.Code
	}
	return ""
}

// transient reports whether a retry may help.
func transient(err error) bool {
	switch codeOf(err) {
	case llm.ErrOverloaded.String(), llm.ErrTransport.String(), llm.ErrProviderInternal.String(), llm.ErrIncompleteStream.String():
		return true
	}
	return false
}

// unreachable reports whether the reviewer's model is not available to this user at all: no key, no such model, no quota.
func unreachable(err error) bool {
	if errors.Is(err, child.ErrNoModel) {
		return true
	}
	switch codeOf(err) {
	case llm.ErrNoRoute.String(), llm.ErrAuthentication.String(), llm.ErrQuotaExceeded.String():
		return true
	}
	return false
}
