package hook

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/gantry-agent/gantry/host/internal/event"
)

// Printed is what a hook's process left.
type Printed struct {
	Code           int
	Stdout, Stderr string
	// Err says why the process did not run to its end: it could not be started, or it timed out.
	Err error
	// Cut: it wrote more than is read.
	Cut bool
}

// answer is the meaning of one run of a hook.
type answer struct {
	status  event.HookStatus
	reason  string // for every status but completed, and for ask
	allow   bool
	ask     bool // before a call: ask a person
	input   json.RawMessage
	context []string
	warning string // for people
}

// denyStatus is the exit status with which a hook says no; stderr has the reason.
const denyStatus = 2

type answerJSON struct {
	Continue      *bool         `json:"continue"`
	StopReason    *string       `json:"stopReason"`
	SystemMessage string        `json:"systemMessage"`
	Decision      *string       `json:"decision"`
	Reason        string        `json:"reason"`
	Specific      *specificJSON `json:"hookSpecificOutput"`
}

type specificJSON struct {
	Event                Event           `json:"hookEventName"`
	Permission           *string         `json:"permissionDecision"`
	PermissionReason     string          `json:"permissionDecisionReason"`
	UpdatedInput         json.RawMessage `json:"updatedInput"`
	AdditionalContext    string          `json:"additionalContext"`
	UpdatedMCPToolOutput json.RawMessage `json:"updatedMCPToolOutput"`
	Decision             *decisionJSON   `json:"decision"`
}

type decisionJSON struct {
	Behavior           string          `json:"behavior"`
	Message            string          `json:"message"`
	UpdatedInput       json.RawMessage `json:"updatedInput"`
	UpdatedPermissions json.RawMessage `json:"updatedPermissions"`
	Interrupt          *bool           `json:"interrupt"`
}

func failed(format string, args ...any) answer {
	return answer{status: event.HookFailed, reason: fmt.Sprintf(format, args...)}
}

func blocked(reason string) answer {
	if strings.TrimSpace(reason) == "" {
		reason = "the hook gave no reason"
	}
	return answer{status: event.HookBlocked, reason: strings.TrimSpace(reason)}
}

// read returns the meaning of a run of a hook for an event.
func read(ev Event, p Printed) answer {
	switch {
	case p.Err != nil:
		return failed("%s", p.Err)
	case p.Code == denyStatus && ev.acceptsDenyStatus():
		if strings.TrimSpace(p.Stderr) == "" {
			return failed("it ended with exit status 2 and printed nothing to stderr")
		}
		return blocked(p.Stderr)
	case p.Code != 0:
		return failed("it ended with exit status %d%s", p.Code, stderrSuffix(p.Stderr))
	case p.Cut:
		return failed("it printed more than %d MiB", maxStdout>>20)
	}
	text := strings.TrimSpace(p.Stdout)
	if text == "" {
		return answer{status: event.HookDone}
	}
	if text[0] != '{' && text[0] != '[' {
		switch ev {
		case UserPromptSubmit, SessionStart, SubagentStart:
			return answer{status: event.HookDone, context: []string{text}}
		case Stop, SubagentStop:
			return failed("its output is not JSON")
		}
		return answer{status: event.HookDone}
	}
	var j answerJSON
	if err := json.Unmarshal([]byte(text), &j); err != nil {
		return failed("it printed invalid JSON: %s", err)
	}
	a := j.read(ev)
	a.warning = j.SystemMessage
	return a
}

// acceptsDenyStatus reports whether exit status 2 has a meaning for the event.
func (e Event) acceptsDenyStatus() bool {
	switch e {
	case PreToolUse, PermissionRequest, PostToolUse, UserPromptSubmit, Stop, SubagentStop:
		return true
	}
	return false
}

// stderrSuffix returns the first line of stderr, to be appended to a message.
func stderrSuffix(stderr string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(stderr), "\n")
	if line == "" {
		return ""
	}
	if r := []rune(line); len(r) > 200 {
		line = string(r[:199]) + "…"
	}
	return ": " + line
}

func (j answerJSON) read(ev Event) answer {
	s := specificJSON{}
	if j.Specific != nil {
		s = *j.Specific
	}
	if s.Event != "" && s.Event != ev {
		return failed("it answered for the event %s", s.Event)
	}
	var a answer
	switch ev {
	case PreToolUse:
		a = j.readPreToolUse(s)
	case PermissionRequest:
		a = j.permission(s)
	case PostToolUse:
		a = j.readPostToolUse(s)
	case UserPromptSubmit, Stop, SubagentStop:
		a = j.readDecision()
	case SessionStart, SubagentStart, PreCompact, PostCompact:
		a = j.readStop()
	default: // the answer has no effect
		a = answer{status: event.HookDone}
	}
	if a.status != event.HookFailed && s.AdditionalContext != "" && ev.tellsModel() {
		a.context = append(a.context, s.AdditionalContext)
	}
	return a
}

// tellsModel reports whether context from hooks of the event reaches the model.
func (e Event) tellsModel() bool {
	switch e {
	case PreToolUse, PostToolUse, UserPromptSubmit, SessionStart, SubagentStart:
		return true
	}
	return false
}

func (j answerJSON) readPreToolUse(s specificJSON) answer {
	is := func(p *string, value string) bool { return p != nil && *p == value }
	switch {
	case is(s.Permission, "deny"): // a denial wins over everything else in the answer
		return blocked(firstText(s.PermissionReason, j.Reason))
	case is(j.Decision, "block"):
		return blocked(firstText(j.Reason, s.PermissionReason))
	}
	if j.stops() {
		return answer{status: event.HookStopped, reason: firstText(value(j.StopReason), firstText(j.Reason, "the hook gave no reason"))}
	}
	switch {
	case is(s.Permission, "ask"):
		return answer{status: event.HookDone, ask: true, reason: strings.TrimSpace(firstText(s.PermissionReason, j.Reason)), input: s.UpdatedInput}
	case is(s.Permission, "allow") && given(s.UpdatedInput):
		return answer{status: event.HookDone, input: s.UpdatedInput}
	case is(s.Permission, "allow"), s.Permission == nil && is(j.Decision, "approve") && !given(s.UpdatedInput):
		return answer{status: event.HookDone, allow: true}
	case s.Permission != nil:
		return failed("permissionDecision %q is not supported", *s.Permission)
	case j.Decision != nil:
		return failed("the decision %q is not supported", *j.Decision)
	case given(s.UpdatedInput):
		return failed(`updatedInput needs permissionDecision "allow"`)
	}
	return answer{status: event.HookDone}
}

// stops reports whether the hook wants nothing further to happen.
func (j answerJSON) stops() bool { return j.Continue != nil && !*j.Continue }

func firstText(a, b string) string {
	if strings.TrimSpace(a) != "" {
		return a
	}
	return b
}

func (j answerJSON) permission(s specificJSON) answer {
	d := s.Decision
	if d != nil && d.Behavior == "deny" {
		return blocked(firstText(d.Message, j.Reason))
	}
	if j.stops() {
		return failed("continue: false is not supported in a PermissionRequest hook; deny it")
	}
	switch {
	case d == nil:
		return answer{status: event.HookDone}
	case given(d.UpdatedInput):
		return failed("updatedInput is not supported in a PermissionRequest hook; a PreToolUse hook may change it")
	case given(d.UpdatedPermissions):
		return failed("updatedPermissions is not supported")
	case d.Interrupt != nil && *d.Interrupt:
		return failed("interrupt is not supported")
	case d.Behavior == "allow":
		return answer{status: event.HookDone, allow: true}
	}
	return failed("the behavior %q is neither allow nor deny", d.Behavior)
}

func given(raw json.RawMessage) bool { return len(raw) > 0 && string(raw) != "null" }

func (j answerJSON) readPostToolUse(s specificJSON) answer {
	switch {
	case given(s.UpdatedMCPToolOutput):
		return failed("updatedMCPToolOutput is not supported; block with a reason, which the model reads instead")
	case j.Decision != nil && *j.Decision == "block":
		return blocked(j.Reason)
	case j.stops():
		a := blocked(firstText(value(j.StopReason), j.Reason))
		a.status = event.HookStopped
		return a
	case j.Decision != nil:
		return failed("the decision %q is not supported", *j.Decision)
	}
	return answer{status: event.HookDone}
}

func value(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// readDecision reads an answer that may block or stop. Stopping wins.
func (j answerJSON) readDecision() answer {
	switch {
	case j.stops():
		return j.readStop()
	case j.Decision != nil && *j.Decision == "block":
		return answer{status: event.HookBlocked, reason: strings.TrimSpace(j.Reason)}
	case j.Decision != nil:
		return failed("the decision %q is not supported", *j.Decision)
	}
	return answer{status: event.HookDone}
}

// readStop reads an answer that may only stop.
func (j answerJSON) readStop() answer {
	if j.Continue == nil || *j.Continue {
		return answer{status: event.HookDone}
	}
	return answer{status: event.HookStopped, reason: strings.TrimSpace(firstText(value(j.StopReason), j.Reason))}
}
