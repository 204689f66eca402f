package hook

import (
	"context"
	"crypto/rand"
	_ "embed"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gantry-agent/gantry/host/internal/event"
)

// Question is what a model is asked for a hook without a program.
type Question struct {
	Thread event.ThreadID // the thread that the hook runs for
	Model  string         // label of a model; empty: the host chooses
	Looks  bool           // the model may read files before it answers
	Text   string
}

// Judge is what opens the conversation with a model that is asked for a hook.
//
//go:embed judge.md
var Judge string

// promptEvents are the events that a model may judge: those that can be denied.
var promptEvents = []Event{PreToolUse, PermissionRequest, PostToolUse, UserPromptSubmit, Stop}

// Judgeable reports whether a model may judge the event.
func (e Event) Judgeable() bool { return slices.Contains(promptEvents, e) }

// Default timeouts of a model's answer; as in Claude Code.
const (
	askTimeout  = 30 * time.Second
	readTimeout = time.Minute
)

// maxJudged limits the size of an event that a model is told about, in bytes. A larger one fails the hook.
const maxJudged = 256 << 10

// placeholder is replaced by the event in a prompt.
const placeholder = "$ARGUMENTS"

// TimeLimit returns how long a run may take.
func (d *Definition) TimeLimit() time.Duration {
	switch {
	case d.Prompt == "" || d.Timeout != 0:
		return d.Event.timeout(d.Timeout)
	case d.Looks:
		return readTimeout
	}
	return askTimeout
}

// Kind returns the kind of the hook, as events name it.
func (d *Definition) Kind() string {
	switch {
	case d.Prompt == "":
		return "command"
	case d.Looks:
		return "agent"
	}
	return "prompt"
}

// text returns the question. The event is delimited by a random mark, so that its content can't contain the delimiter.
func (d *Definition) text(input []byte) string {
	mark := rand.Text()
	what := fmt.Sprintf("=== %s: what happens begins ===\n%s\n=== %[1]s: what happens ends ===", mark, strings.TrimSpace(string(input)))
	prompt := strings.ReplaceAll(d.Prompt, placeholder, what)
	if prompt == d.Prompt {
		prompt += "\n\n" + what
	}
	return "The mark of this question is " + mark + ".\n\n" + prompt
}

// ask asks a model.
func (t *Turn) ask(ctx context.Context, d *Definition, input []byte) (a answer, where event.ThreadID) {
	if len(input) > maxJudged {
		return failed("the event is too large for a model: %d KiB", len(input)>>10), ""
	}
	if t.engine.cfg.Ask == nil {
		return failed("no model can be asked here"), ""
	}
	after := d.TimeLimit()
	ctx, cancel := context.WithTimeoutCause(ctx, after, &timeoutError{after})
	defer cancel()
	text, where, err := t.engine.cfg.Ask(ctx, Question{Thread: t.id, Model: d.Model, Looks: d.Looks, Text: d.text(input)})
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	if err != nil {
		return failed("%s", err), where
	}
	return readJudgement(text), where
}

// readJudgement reads a model's answer. It can only object: what the model has read may contain instructions to approve.
func readJudgement(text string) answer {
	from, to := strings.IndexByte(text, '{'), strings.LastIndexByte(text, '}')
	if from < 0 || to < from {
		return failed("the model did not answer with JSON")
	}
	var j struct {
		OK       *bool   `json:"ok"`
		Decision *string `json:"decision"` // used by older prompts
		Reason   string  `json:"reason"`
	}
	if err := json.Unmarshal([]byte(text[from:to+1]), &j); err != nil {
		return failed("the model answered with invalid JSON: %s", err)
	}
	fine := j.OK
	if fine == nil && j.Decision != nil && slices.Contains([]string{"approve", "block"}, *j.Decision) {
		approved := *j.Decision == "approve"
		fine = &approved
	}
	switch {
	case fine == nil:
		return failed(`the model's answer has no "ok"`)
	case !*fine:
		return blocked(j.Reason)
	}
	return answer{status: event.HookDone}
}
