// Package threadsocket lets other processes of the same user work with the threads of this one: JSON-RPC, one message per line, over a
// Unix socket that the process has for all its threads.
//
// It owns: the socket and the links that lead to it, the methods and their parameters, the subscriptions of a connection, and who may
// connect. It must not know: how a thread works, and what a client displays.
//
// Start with [Server] and [Dial]. Each request names its thread. After gantry/thread/subscribe, events arrive as notifications
// gantry/thread/event, as many as the client has said that it can take: see [Window]. The notification gantry/thread/unsubscribed ends a
// subscription: the thread has ended, or the client was too slow and should subscribe again after the last number that it has seen.
package threadsocket

import (
	"encoding/json"
	"math"
	"time"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/review"
	"github.com/gantry-agent/gantry/host/internal/thread"
	"github.com/gantry-agent/gantry/host/internal/turn"
	"github.com/gantry-agent/gantry/sdk/contract"
	"github.com/gantry-agent/gantry/sdk/llm"
)

// Methods of a process and of its threads.
const (
	prefix = "gantry/thread/"

	methodPing      = prefix + "ping" // answered at once: the process is running
	methodSubscribe = prefix + "subscribe"
	methodStart     = prefix + "start"
	methodSteer     = prefix + "steer"
	methodInterrupt = prefix + "interrupt"
	methodAnswer    = prefix + "answer"
	methodCompact   = prefix + "compact"
	methodConfigure = prefix + "configure"
	methodSettings  = prefix + "settings"
	methodShell     = prefix + "shell"
	methodReview    = prefix + "review"
	methodPlugins   = prefix + "plugins"
	methodReload    = prefix + "reloadPlugin"
	methodCommand   = prefix + "pluginCommand"

	noteEvent        = prefix + "event"
	noteUnsubscribed = prefix + "unsubscribed"
	noteReceived     = prefix + "received"    // of the client
	noteUnsubscribe  = prefix + "unsubscribe" // of the client
)

// OfThread names the thread of a request.
type OfThread struct {
	Thread event.ThreadID `json:"threadId"`
}

// Window is the number of events of a subscription that a client gets before it has reported to have received some. It has room for as
// many, so that the connection is always read, whatever one reader does.
const Window = 256

// Events that a subscription asks for.
const (
	OnlyStates = "states" // the beginnings and ends of turns, questions and their ends, and what happens to the thread as a whole
	OnlyNone   = "none"   // the end of the subscription alone
)

// FromNow is the number after which a subscription has the events since the thread was loaded, if it has run no turn since then, and
// otherwise only new ones.
const FromNow uint64 = math.MaxUint64

// SubscribeParams request the thread's events: the stored ones after number After, then new ones.
type SubscribeParams struct {
	OfThread
	// Subscription is chosen by the client, which uses each number once in a connection.
	Subscription uint64 `json:"subscription"`
	After        uint64 `json:"after"`
	Only         string `json:"only,omitempty"` // [OnlyStates] or [OnlyNone]; "": all events
	// Merge means that deltas of an item may be merged for a client that is slow, instead of ending the subscription.
	Merge bool `json:"merge,omitempty"`
	// Attend means that the client answers questions as long as it is subscribed.
	Attend bool `json:"attend,omitempty"`
	// Tools means that the client runs the tools of the thread's clients as long as it is subscribed.
	Tools bool `json:"tools,omitempty"`
}

// eventNote delivers an event of a subscription.
type eventNote struct {
	Subscription uint64      `json:"subscription"`
	Event        event.Event `json:"event"`
}

// receivedNote reports how many more events of a subscription a client has received.
type receivedNote struct {
	Subscription uint64 `json:"subscription"`
	Events       int    `json:"events"`
}

// endNote ends a subscription. Lagged means that the client was too slow.
type endNote struct {
	Subscription uint64 `json:"subscription"`
	Lagged       bool   `json:"lagged,omitempty"`
}

// SubscribeResult identifies the thread.
type SubscribeResult struct {
	Thread event.ThreadID `json:"thread"`
	Cwd    string         `json:"cwd"`
	// After is the number of the last stored event before the first one of the subscription.
	After uint64 `json:"after"`
}

// StartParams are a user's input.
type StartParams struct {
	OfThread
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
	// Continue: there is no input, and the model is asked with the history as it is.
	Continue bool `json:"continue,omitempty"`
}

// SteerParams are a user's input for the turn that they see. It is refused if that turn is not running.
type SteerParams struct {
	OfThread
	ExpectedTurn      event.TurnID                 `json:"expectedTurnId"`
	Text              string                       `json:"text"`
	Parts             llm.Parts                    `json:"parts,omitempty"`               // as in StartParams
	AdditionalContext map[string]AdditionalContext `json:"additionalContext,omitempty"`   // as in StartParams
	ClientID          string                       `json:"clientUserMessageId,omitempty"` // as in StartParams
	Continue          bool                         `json:"continue,omitempty"`            // the turn only gets the additional context
	// Adjust changes the turn, instead of input.
	Adjust turn.Adjustment `json:"adjust,omitzero"`
}

// InterruptParams select the turn to interrupt.
type InterruptParams struct {
	OfThread
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

// ConfigureParams change the settings of a thread.
type ConfigureParams struct {
	OfThread
	Settings
}

func settingsOf(s event.Settings) Settings {
	return Settings{Model: s.Model, Cwd: s.Cwd, Effort: s.Reasoning, Approval: s.Approval, Sandbox: s.Sandbox}
}

func (s Settings) change() thread.Change {
	return thread.Change{Model: s.Model, Cwd: s.Cwd, Reasoning: s.Effort, Approval: s.Approval, Sandbox: s.Sandbox}
}

// ShellParams run a command of the user, concurrently with the running turn or in a turn of its own.
type ShellParams struct {
	OfThread
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
	OfThread
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
	OfThread
	ID     string          `json:"id"`
	Choice string          `json:"choice,omitempty"`
	Data   json.RawMessage `json:"data,omitempty"`
}

// ReloadParams replace a plugin's process while it is running. An empty Path means the same file.
type ReloadParams struct {
	OfThread
	Plugin string `json:"plugin"`
	Path   string `json:"path,omitempty"`
}

// CommandParams run a command of a plugin.
type CommandParams struct {
	OfThread
	Plugin string          `json:"plugin"` // label
	Name   string          `json:"name"`
	Input  json.RawMessage `json:"input,omitempty"` // an object; default: an empty one
	// Confirmed means that the user agrees to the command's side effects.
	Confirmed bool `json:"confirmed,omitempty"`
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
	// Commands are those that its manifest declares.
	Commands []contract.CommandSpec `json:"commands,omitempty"`
}
