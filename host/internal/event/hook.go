package event

// HookRun identifies one run of a hook.
type HookRun struct {
	ID      string `json:"id"`             // event, position and source; not unique in a thread
	Event   string `json:"event"`          // "PreToolUse", "Stop", ...
	Type    string `json:"type,omitempty"` // "command", "prompt" or "agent"
	Hook    string `json:"hook"`           // unique name of the hook
	Source  string `json:"source,omitempty"`
	Scope   string `json:"scope"`          // owner of the hook: "managed", "user" or "project"
	Call    string `json:"call,omitempty"` // the call under decision; "CALL:retry" before a second attempt
	Async   bool   `json:"async,omitempty"`
	Message string `json:"message,omitempty"` // for people, while it runs
}

// HookStarted says that a hook has started.
type HookStarted struct {
	Run HookRun `json:"run"`
}

// HookStatus is the result of a hook's run.
type HookStatus string

// Results of a hook's run.
const (
	HookDone    HookStatus = "completed"
	HookFailed  HookStatus = "failed"
	HookBlocked HookStatus = "blocked"
	HookStopped HookStatus = "stopped"
)

// HookCompleted ends a hook's run.
type HookCompleted struct {
	Run        HookRun     `json:"run"`
	Status     HookStatus  `json:"status"`
	Entries    []HookEntry `json:"entries,omitempty"`
	Thread     ThreadID    `json:"thread,omitempty"` // thread in which the hook queried a model
	DurationMS int64       `json:"durationMs"`
}

// HookEntry is a part of a hook's output. Kind is "warning", "context", "decision", "feedback", "stop" or "error".
type HookEntry struct {
	Kind string `json:"kind"`
	Text string `json:"text"`
}

func (HookStarted) Kind() string   { return "hook.started" }
func (HookCompleted) Kind() string { return "hook.completed" }

func (HookStarted) durable() bool   { return true }
func (HookCompleted) durable() bool { return true }
