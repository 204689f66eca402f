package hook

import (
	"regexp"
	"slices"
	"strings"
	"time"
)

// Event is when a hook runs.
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
	Interrupt         Event = "Interrupt"
	Notification      Event = "Notification"
)

// Events are all events, in the order in which a thread meets them.
var Events = []Event{
	SessionStart, UserPromptSubmit, PreToolUse, PermissionRequest, PostToolUse, Notification, PreCompact, PostCompact, Stop, Interrupt,
	SessionEnd,
}

// elsewhere are events that other programs have and this one has not: hooks for them are left alone without a word of alarm.
var elsewhere = []Event{
	"SubagentStart", "SubagentStop", "PostToolUseFailure", "PreModelRequest", "PostModelRequest", "TeammateIdle", "TaskCompleted",
	"ConfigChange", "WorktreeCreate", "WorktreeRemove", "InstructionsLoaded", "Elicitation", "ElicitationResult", "PermissionDenied", "StopFailure",
}

// snake is the event in a key.
func (e Event) snake() string { return e.words('_') }

// label is the event in a run's identity.
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

// selective tells whether hooks of the event choose by name what they are for.
func (e Event) selective() bool {
	return !slices.Contains([]Event{UserPromptSubmit, Stop, SessionEnd, Interrupt}, e)
}

// guards tells whether the event's hooks decide before something happens.
func (e Event) guards() bool {
	return slices.Contains([]Event{PreToolUse, PermissionRequest, UserPromptSubmit}, e)
}

// Bounds of a hook's time.
const (
	DefaultTimeout = 10 * time.Minute
	minTimeout     = time.Second
	maxEndTimeout  = 3 * time.Second // of hooks at an end, for which people wait
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

// Scope says whose a hook is.
type Scope int

// The scopes.
const (
	ScopeUnknown Scope = iota
	Managed            // the machine's: it runs without anybody's consent
	User
	Project
)

var scopeNames = [...]string{"unknown", "managed", "user", "project"}

// String is the scope's name in events.
func (s Scope) String() string {
	if s < 0 || int(s) >= len(scopeNames) {
		return scopeNames[0]
	}
	return scopeNames[s]
}

// Definition is a hook.
type Definition struct {
	Key     string // names it among all: where it stands
	Event   Event
	Matcher string
	Command string
	// Prompt: a model judges by it, and no command runs. Looks: it may look at files. Model: its label; empty: the host chooses.
	Prompt  string
	Looks   bool
	Model   string
	Timeout time.Duration // 0: the event's default, or the model's
	Async   bool
	// Block: a run that fails means no. nil: so it is for managed hooks that guard calls.
	Block  *bool
	Status string
	// ContextTokens are what of its text stands in the conversation. nil: [DefaultContextTokens]; 0: all of it.
	ContextTokens *int64
	Source        string // the file that has it; empty: the command line
	Scope         Scope

	// Files are files and folders that its command runs beyond what can be read from the command, relative to where it runs. nil: its
	// owner has not said, and a command that can't be followed can't be agreed to.
	Files []string
	// Roots are the folders that sandboxed commands may write beside the one it runs in; absolute.
	Roots []string

	order int // among all
	match matcher
}

// DefaultContextTokens is how much of what a hook tells the model stands in the conversation; codex-compatible.
const DefaultContextTokens = 2500

// blocks tells what a run means that fails. The end of a turn is no harm that a failure should prevent.
func (d *Definition) blocks() bool {
	switch {
	case d.Event == Stop:
		return false
	case d.Block != nil:
		return *d.Block
	}
	return d.Scope == Managed && (d.Event == PreToolUse || d.Event == PermissionRequest)
}

// matcher chooses by name. The zero value takes all.
type matcher struct {
	names   []string
	pattern *regexp.Regexp
}

var plainMatcher = regexp.MustCompile(`^[A-Za-z0-9_|]+$`)

// newMatcher reads what a file says: nothing and "*" are everything, words with "|" between them are names, all else is a regular
// expression that is looked for anywhere in a name.
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
