package event

// HookRun names one run of a hook.
type HookRun struct {
	ID      string `json:"id"`             // event, place in the order and source; in a thread it may come again
	Event   string `json:"event"`          // "PreToolUse", "Stop", ...
	Type    string `json:"type,omitempty"` // "command", "prompt" or "agent"
	Hook    string `json:"hook"`           // names the hook among all
	Source  string `json:"source,omitempty"`
	Scope   string `json:"scope"`          // whose it is: "managed", "user" or "project"
	Call    string `json:"call,omitempty"` // that it judges; "CALL:retry" before a second attempt
	Async   bool   `json:"async,omitempty"`
	Message string `json:"message,omitempty"` // for people, while it runs
}

// HookStarted: a hook runs.
type HookStarted struct {
	Run HookRun `json:"run"`
}

// HookStatus is what came of a hook's run.
type HookStatus string

// What comes of a hook's run.
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
	Thread     ThreadID    `json:"thread,omitempty"` // in which a model was asked
	DurationMS int64       `json:"durationMs"`
}

// HookEntry is something that a hook said. Kind: "warning", "context", "decision", "feedback", "stop" or "error".
type HookEntry struct {
	Kind string `json:"kind"`
	Text string `json:"text"`
}

func (HookStarted) Kind() string   { return "hook.started" }
func (HookCompleted) Kind() string { return "hook.completed" }

func (HookStarted) durable() bool   { return true }
func (HookCompleted) durable() bool { return true }
