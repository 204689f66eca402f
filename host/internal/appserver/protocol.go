// Package appserver lets other programs of the same user reach the threads of a running host: JSON-RPC 2.0, one message
// a line, over a unix socket.
//
// It owns: the methods and their shapes, one connection's subscriptions, who may connect. It must not know: how a thread
// works, what a client shows.
//
// Start with [Serve] and [Dial]. Methods: thread/subscribe, thread/compact/start, thread/settings/update, thread/shellCommand,
// review/start, turn/start, turn/steer, turn/interrupt, thread/mail/post, question/answer, plugin/list, plugin/reload, process/ping, and those of threads.go:
// thread/fork, thread/revert and others. After thread/subscribe events arrive as notifications thread/event; thread/lagged is the last one of a
// client that was too slow and should subscribe again after the number it has seen.
package appserver

import (
	"encoding/json"
	"time"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/review"
	"github.com/gantry-agent/gantry/host/internal/thread"
)

// Methods and notifications.
const (
	methodSubscribe = "thread/subscribe"
	methodCompact   = "thread/compact/start"
	methodSettings  = "thread/settings/update"
	methodShell     = "thread/shellCommand"
	methodReview    = "review/start"
	methodStart     = "turn/start"
	methodSteer     = "turn/steer"
	methodInterrupt = "turn/interrupt"
	methodAnswer    = "question/answer"
	methodPlugins   = "plugin/list"
	methodReload    = "plugin/reload"
	methodPing      = "process/ping" // answered at once: the host is there
	noteEvent       = "thread/event"
	noteLagged      = "thread/lagged"
)

// SubscribeParams ask for the events of the thread: those stored after After, then new ones as they come.
type SubscribeParams struct {
	After uint64 `json:"after"`
	// Attend: this client answers questions as long as it is connected.
	Attend bool `json:"attend,omitempty"`
}

// SubscribeResult says whose events follow.
type SubscribeResult struct {
	Thread event.ThreadID `json:"thread"`
	Cwd    string         `json:"cwd"`
}

// StartParams hand over what a user said.
type StartParams struct {
	Text         string          `json:"text"`
	OutputSchema json.RawMessage `json:"outputSchema,omitempty"`
	Settings                     // the thread goes on with them, from this turn on
	// AdditionalContext tells the model what the client knows beside, an open file say. A key stands for the text until it is
	// sent again, an empty text takes it away. The model gets at most about 1,000 tokens of each.
	AdditionalContext map[string]AdditionalContext `json:"additionalContext,omitempty"`
}

// SteerParams hand over what a user said to the turn that they see: it joins that turn, or is refused.
type SteerParams struct {
	ExpectedTurn      event.TurnID                 `json:"expectedTurnId"`
	Text              string                       `json:"text"`
	AdditionalContext map[string]AdditionalContext `json:"additionalContext,omitempty"` // as with a task
}

// Settings change a thread for its turns to come. What is empty stays.
type Settings struct {
	Model  string `json:"model,omitempty"`
	Cwd    string `json:"cwd,omitempty"`    // absolute
	Effort string `json:"effort,omitempty"` // of the model's reasoning
	// Approval and Sandbox hold as long as this process runs the thread.
	Approval string `json:"approval,omitempty"`
	Sandbox  string `json:"sandbox,omitempty"`
}

func (s Settings) change() thread.Change {
	return thread.Change{Model: s.Model, Cwd: s.Cwd, Reasoning: s.Effort, Approval: s.Approval, Sandbox: s.Sandbox}
}

// ShellParams run a command of the user's: beside the turn that runs, or in a turn of its own.
type ShellParams struct {
	Command   string `json:"command"`
	TimeoutMS int64  `json:"timeoutMs,omitempty"` // default: an hour
}

// ShellResult says which item is the command's.
type ShellResult struct {
	Turn       event.TurnID `json:"turn"`
	Concurrent bool         `json:"beside"` // the turn was there before, and does not end with the command
	Call       event.CallID `json:"call"`   // of the command's item
}

// ReviewParams have the changes in the thread's folder reviewed. A turn that runs is stopped for it.
type ReviewParams struct {
	Target review.Target `json:"target"`
}

// AdditionalContext is one text of a client's.
type AdditionalContext struct {
	Value string `json:"value"`
}

// StartResult says what became of it.
type StartResult struct {
	Turn    event.TurnID `json:"turn"`
	Steered bool         `json:"steered"`
}

// AnswerParams answer a question.
type AnswerParams struct {
	ID     string          `json:"id"`
	Choice string          `json:"choice,omitempty"`
	Data   json.RawMessage `json:"data,omitempty"`
}

// ReloadParams replace a plugin's process while it runs. Path empty: the same file again.
type ReloadParams struct {
	Plugin string `json:"plugin"`
	Path   string `json:"path,omitempty"`
}

// PluginStatus is how a plugin of the running host is.
type PluginStatus struct {
	Label      string    `json:"label"`
	Kind       string    `json:"kind"`
	Source     string    `json:"source"`
	Mode       string    `json:"mode"`
	Version    string    `json:"version,omitempty"`
	Generation uint64    `json:"generation"`
	PID        int       `json:"pid,omitempty"`
	Started    time.Time `json:"started,omitzero"`
	Calls      int       `json:"calls"`
	Crashes    int       `json:"crashes"`
	PSSBytes   int64     `json:"pssBytes,omitempty"`
	Problem    string    `json:"problem,omitempty"`
}
