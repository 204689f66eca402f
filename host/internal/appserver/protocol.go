// Package appserver lets other programs of the same user reach the threads of a running host: JSON-RPC 2.0, one message
// a line, over a unix socket.
//
// It owns: the methods and their shapes, one connection's subscriptions, who may connect. It must not know: how a thread
// works, what a client shows.
//
// Start with [Serve] and [Dial]. Methods: thread/subscribe, thread/compact/start, turn/start, turn/interrupt, question/answer,
// plugin/list, plugin/reload, process/ping, and those of threads.go: thread/fork, thread/revert and others. After thread/subscribe events arrive as notifications thread/event; thread/lagged is the last one of a
// client that was too slow and should subscribe again after the number it has seen.
package appserver

import (
	"encoding/json"
	"time"

	"github.com/gantry-agent/gantry/host/internal/event"
)

// Methods and notifications.
const (
	methodSubscribe = "thread/subscribe"
	methodCompact   = "thread/compact/start"
	methodStart     = "turn/start"
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
	Model        string          `json:"model,omitempty"` // the thread goes on with it; empty: with its own
	// AdditionalContext tells the model what the client knows beside, an open file say. A key stands for the text until it is
	// sent again, an empty text takes it away. The model gets at most about 1,000 tokens of each.
	AdditionalContext map[string]AdditionalContext `json:"additionalContext,omitempty"`
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
