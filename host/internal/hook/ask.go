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

// Question is what a model is asked for a hook that is no program.
type Question struct {
	Thread event.ThreadID // for which it is asked
	Model  string         // label of a model; empty: the host chooses
	Looks  bool           // it may look at files before it answers
	Text   string
}

// Judge is what opens the conversation with a model that is asked for a hook.
//
//go:embed judge.md
var Judge string

// judged are the events of which a model may judge: those in which a no has a meaning.
var judged = []Event{PreToolUse, PermissionRequest, PostToolUse, UserPromptSubmit, Stop}

// Judgeable tells whether a model may be asked about an event.
func (e Event) Judgeable() bool { return slices.Contains(judged, e) }

// How long a model may take where the hook does not say; as in Claude Code.
const (
	askTimeout  = 30 * time.Second
	lookTimeout = time.Minute
)

// maxAsked bounds what happened as a model is told of it. More can't be judged.
const maxAsked = 256 << 10

// placeholder stands in a prompt for what happened.
const placeholder = "$ARGUMENTS"

// timeout is how long a run may take.
func (d *Definition) timeout() time.Duration {
	switch {
	case d.Prompt == "" || d.Timeout != 0:
		return d.Event.timeout(d.Timeout)
	case d.Looks:
		return lookTimeout
	}
	return askTimeout
}

// Kind is what the hook is, in events.
func (d *Definition) Kind() string {
	switch {
	case d.Prompt == "":
		return "command"
	case d.Looks:
		return "agent"
	}
	return "prompt"
}

// text is the question. What happened is set off by a mark that nobody could have written into it.
func (d *Definition) text(input []byte) string {
	mark := rand.Text()
	what := fmt.Sprintf("=== %s: what happens begins ===\n%s\n=== %[1]s: what happens ends ===", mark, strings.TrimSpace(string(input)))
	prompt := strings.ReplaceAll(d.Prompt, placeholder, what)
	if prompt == d.Prompt {
		prompt += "\n\n" + what
	}
	return "The mark of this question is " + mark + ".\n\n" + prompt
}

// ask has a model judge.
func (t *Turn) ask(ctx context.Context, d *Definition, input []byte) (a answer, where event.ThreadID) {
	if len(input) > maxAsked {
		return failed("the event is too large for a model: %d KiB", len(input)>>10), ""
	}
	if t.engine.cfg.Ask == nil {
		return failed("no model can be asked here"), ""
	}
	after := d.timeout()
	ctx, cancel := context.WithTimeoutCause(ctx, after, &timeoutError{after})
	defer cancel()
	text, where, err := t.engine.cfg.Ask(ctx, Question{Thread: t.id, Model: d.Model, Looks: d.Looks, Text: d.text(input)})
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	if err != nil {
		return failed("%s", err), where
	}
	return judgement(text), where
}

// judgement reads a model's answer. It can only object: what it has read may have been written to make it say more.
func judgement(text string) answer {
	from, to := strings.IndexByte(text, '{'), strings.LastIndexByte(text, '}')
	if from < 0 || to < from {
		return failed("the model did not answer with JSON")
	}
	var j struct {
		OK       *bool   `json:"ok"`
		Decision *string `json:"decision"` // as older prompts have it
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
