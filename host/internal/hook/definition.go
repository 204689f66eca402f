package hook

import (
	"regexp"
	"slices"
	"strings"
	"time"
)

// Event says when a hook runs.
type Event string

// The events.
const (
	PreToolUse        Event = "PreToolUse"
	PermissionRequest Event = "PermissionRequest"
	PostToolUse       Event = "PostToolUse"
	UserPromptSubmit  Event = "UserPromptSubmit"
	SessionStart      Event = "SessionStart"
	SessionEnd        Event = "SessionEnd"
	PreCompact        Event = "PreCompact"
	PostCompact       Event = "PostCompact"
	Stop              Event = "Stop"
	SubagentStart     Event = "SubagentStart"
	SubagentStop      Event = "SubagentStop"
	Interrupt         Event = "Interrupt"
	Notification      Event = "Notification"
)

// Events are all events, in the order in which they occur in a thread.
var Events = []Event{
	SessionStart, UserPromptSubmit, PreToolUse, PermissionRequest, PostToolUse, Notification, PreCompact, PostCompact, SubagentStart, SubagentStop,
	Stop, Interrupt, SessionEnd,
}

// foreignEvents are events of other programs that gantry does not have. Hooks for them are ignored without a warning.
var foreignEvents = []Event{
	"PostToolUseFailure", "PreModelRequest", "PostModelRequest", "TeammateIdle", "TaskCompleted",
	"ConfigChange", "WorktreeCreate", "WorktreeRemove", "InstructionsLoaded", "Elicitation", "ElicitationResult", "PermissionDenied", "StopFailure",
}

// snake returns the event as it is written in keys.
func (e Event) snake() string { return e.words('_') }

// label returns the event as it is written in the id of a run.
func (e Event) label() string { return e.words('-') }

func (e Event) words(between byte) string {
	var b strings.Builder
	for i := range len(e) {
		c := e[i]
		if c >= 'A' && c <= 'Z' {
			if i > 0 {
				b.WriteByte(between)
			}
			c += 'a' - 'A'
		}
		b.WriteByte(c)
	}
	return b.String()
}

// selective reports whether hooks of the event have a matcher.
func (e Event) selective() bool {
	return !slices.Contains([]Event{UserPromptSubmit, Stop, SessionEnd, Interrupt}, e)
}

// guards reports whether the event's hooks decide about something before it happens.
func (e Event) guards() bool {
	return slices.Contains([]Event{PreToolUse, PermissionRequest, UserPromptSubmit}, e)
}

// Limits of a hook's time.
const (
	DefaultTimeout = 10 * time.Minute
	minTimeout     = time.Second
	maxEndTimeout  = 3 * time.Second // hooks at the end of something that people wait for
)

func (e Event) timeout(asked time.Duration) time.Duration {
	if e != SessionEnd && e != Interrupt {
		if asked == 0 {
			return DefaultTimeout
		}
		return max(asked, minTimeout)
	}
	return min(max(asked, minTimeout), maxEndTimeout)
}

// Scope says who defined a hook.
type Scope int

// The scopes.
const (
	ScopeUnknown Scope = iota
	Managed            // by the machine's administrator: it runs without consent
	User
	Project
)

var scopeNames = [...]string{"unknown", "managed", "user", "project"}

// String returns the scope's name, as events have it.
func (s Scope) String() string {
	if s < 0 || int(s) >= len(scopeNames) {
		return scopeNames[0]
	}
	return scopeNames[s]
}

// Definition is a hook.
type Definition struct {
	Key     string // identifies the hook: the place of its definition
	Event   Event
	Matcher string
	Command string
	// Prompt is judged by a model; no command runs. Looks: the model may read files. Model is its label; empty: the host chooses.
	Prompt  string
	Looks   bool
	Model   string
	Timeout time.Duration // 0: the default of the event or the model
	Async   bool
	// Block: a run that fails means no. nil: it does for managed hooks before calls.
	Block  *bool
	Status string
	// ContextTokens limits the text that the hook adds to the conversation. nil: [DefaultContextTokens]; 0: unlimited.
	ContextTokens *int64
	Source        string // file with the definition; empty: the command line
	Scope         Scope

	// Files are files and folders that the command runs and that can't be found in the command itself, relative to its working
	// folder. nil: not declared; then consent to a command that can't be followed is impossible.
	Files []string
	// Roots are the folders that sandboxed commands may write beside the working folder; absolute.
	Roots []string

	order int // position in the configuration
	match matcher
}

// DefaultContextTokens is how many tokens of a hook's text are added to the conversation; codex-compatible.
const DefaultContextTokens = 2500

// blocks reports whether a failed run means no. At the end of a turn it never does: ending is harmless.
func (d *Definition) blocks() bool {
	switch {
	case d.Event == Stop:
		return false
	case d.Block != nil:
		return *d.Block
	}
	return d.Scope == Managed && (d.Event == PreToolUse || d.Event == PermissionRequest)
}

// matcher selects hooks by name. The zero value matches every name.
type matcher struct {
	names   []string
	pattern *regexp.Regexp
}

var plainMatcher = regexp.MustCompile(`^[A-Za-z0-9_|]+$`)

// newMatcher parses a matcher: "" and "*" match everything, words separated by "|" are names, and anything else is a regular
// expression that matches anywhere in a name.
func newMatcher(s string) (matcher, error) {
	switch {
	case s == "" || s == "*":
		return matcher{}, nil
	case plainMatcher.MatchString(s):
		return matcher{names: strings.Split(s, "|")}, nil
	}
	re, err := regexp.Compile(s)
	return matcher{pattern: re}, err
}

func (m matcher) matches(names []string) bool {
	if m.names == nil && m.pattern == nil {
		return true
	}
	return slices.ContainsFunc(names, func(n string) bool {
		if m.pattern != nil {
			return m.pattern.MatchString(n)
		}
		return slices.Contains(m.names, n)
	})
}
