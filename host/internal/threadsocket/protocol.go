// Package threadsocket lets other programs of the same user work with the threads of a running host: JSON-RPC 2.0 over a Unix socket,
// one message per line.
//
// It owns: the methods and their parameters, the subscription of a connection, and who may connect. It must not know: how a thread
// works, and what a client displays.
//
// Start with [Serve] and [Dial]. Methods: thread/subscribe, thread/compact/start, thread/settings/update, thread/settings/read,
// thread/shellCommand, review/start, turn/start, turn/steer, turn/interrupt, thread/mail/post, question/answer, plugin/list, plugin/reload,
// process/ping, and those in threads.go: thread/fork, thread/revert and others. After thread/subscribe, events arrive as
// notifications thread/event. The notification thread/lagged is the last one for a client that was too slow; it should subscribe
// again after the last number that it has seen.
package threadsocket

import (
	"encoding/json"
	"time"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/review"
	"github.com/gantry-agent/gantry/host/internal/thread"
	"github.com/gantry-agent/gantry/sdk/llm"
)

// Methods and notifications.
const (
	methodSubscribe = "thread/subscribe"
	methodCompact   = "thread/compact/start"
	methodSettings  = "thread/settings/update"
	methodCurrent   = "thread/settings/read"
	methodShell     = "thread/shellCommand"
	methodReview    = "review/start"
	methodStart     = "turn/start"
	methodSteer     = "turn/steer"
	methodInterrupt = "turn/interrupt"
	methodAnswer    = "question/answer"
	methodPlugins   = "plugin/list"
	methodReload    = "plugin/reload"
	methodPing      = "process/ping" // answered at once: the host is running
	noteEvent       = "thread/event"
	noteLagged      = "thread/lagged"
)

// SubscribeParams request the thread's events: the stored ones after number After, then new ones.
type SubscribeParams struct {
	After uint64 `json:"after"`
	// Attend means that the client answers questions while it is connected.
	Attend bool `json:"attend,omitempty"`
}

// SubscribeResult identifies the thread.
type SubscribeResult struct {
	Thread event.ThreadID `json:"thread"`
	Cwd    string         `json:"cwd"`
}

// StartParams are a user's input.
type StartParams struct {
	Text string `json:"text"`
	// Parts are the input instead of Text, for example with images.
	Parts        llm.Parts       `json:"parts,omitempty"`
	OutputSchema json.RawMessage `json:"outputSchema,omitempty"`
	Settings                     // apply from this turn on
	// AdditionalContext is what the client knows, for example an open file. A text stays until its key is sent again; an empty
	// text removes it. The model gets about 1,000 tokens of each at most.
	AdditionalContext map[string]AdditionalContext `json:"additionalContext,omitempty"`
	// ClientID is the client's identity of the message. The thread accepts input with the same one once.
	ClientID string `json:"clientUserMessageId,omitempty"`
}

// SteerParams are a user's input for the turn that they see. It is refused if that turn is not running.
type SteerParams struct {
	ExpectedTurn      event.TurnID                 `json:"expectedTurnId"`
	Text              string                       `json:"text"`
	Parts             llm.Parts                    `json:"parts,omitempty"`               // as in StartParams
	AdditionalContext map[string]AdditionalContext `json:"additionalContext,omitempty"`   // as in StartParams
	ClientID          string                       `json:"clientUserMessageId,omitempty"` // as in StartParams
}

// InterruptParams select the turn to interrupt.
type InterruptParams struct {
	Turn event.TurnID `json:"turnId,omitempty"` // the only turn to interrupt; empty: any
	Wait bool         `json:"wait,omitempty"`   // answer when the turn has ended; implied by Turn
}

// Settings change a thread's later turns. Empty fields change nothing.
type Settings struct {
	Model  string `json:"model,omitempty"`
	Cwd    string `json:"cwd,omitempty"`    // absolute
	Effort string `json:"effort,omitempty"` // reasoning effort of the model
	// Approval and Sandbox apply while this process runs the thread.
	Approval string `json:"approval,omitempty"`
	Sandbox  string `json:"sandbox,omitempty"`
}

func settingsOf(s event.Settings) Settings {
	return Settings{Model: s.Model, Cwd: s.Cwd, Effort: s.Reasoning, Approval: s.Approval, Sandbox: s.Sandbox}
}

func (s Settings) change() thread.Change {
	return thread.Change{Model: s.Model, Cwd: s.Cwd, Reasoning: s.Effort, Approval: s.Approval, Sandbox: s.Sandbox}
}

// ShellParams run a command of the user, concurrently with the running turn or in a turn of its own.
type ShellParams struct {
	Command   string `json:"command"`
	TimeoutMS int64  `json:"timeoutMs,omitempty"` // default: an hour
}

// ShellResult identifies the item of the command.
type ShellResult struct {
	Turn       event.TurnID `json:"turn"`
	Concurrent bool         `json:"beside"` // the command runs during a turn that was running before, and that does not end with the command
	Call       event.CallID `json:"call"`   // the call of the command's item
}

// ReviewParams start a review of the changes in the thread's folder. A running turn is stopped.
type ReviewParams struct {
	Target review.Target `json:"target"`
}

// AdditionalContext is a text of a client for the model.
type AdditionalContext struct {
	Value string `json:"value"`
}

// StartResult identifies the turn.
type StartResult struct {
	Turn    event.TurnID `json:"turn"`
	Steered bool         `json:"steered"`
	// Repeated: the input was accepted before, for Turn, and was not added again.
	Repeated bool `json:"repeated,omitempty"`
}

// AnswerParams answer a question.
type AnswerParams struct {
	ID     string          `json:"id"`
	Choice string          `json:"choice,omitempty"`
	Data   json.RawMessage `json:"data,omitempty"`
}

// ReloadParams replace a plugin's process while it is running. An empty Path means the same file.
type ReloadParams struct {
	Plugin string `json:"plugin"`
	Path   string `json:"path,omitempty"`
}

// PluginStatus is the status of a plugin in the running host.
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
