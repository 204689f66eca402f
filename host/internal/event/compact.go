package event

import (
	"encoding/json"

	"github.com/gantry-agent/gantry/sdk/llm"
)

// HistoryCompacted puts Messages in the place of all that the model saw before. With the events behind it, it is all that
// going on with the thread takes: nothing before it is needed.
type HistoryCompacted struct {
	Trigger string `json:"trigger"` // "manual" or "auto"
	Reason  string `json:"reason"`  // "user_requested", "context_limit" or "model_downshift"
	Phase   string `json:"phase"`   // "standalone_turn", "pre_turn" or "mid_turn"
	Item    ItemID `json:"item"`
	// Messages are the whole history from here on. The last one is the account of what went before.
	Messages []llm.Message `json:"messages"`
	// Before and After are the tokens that the next request would have held, and will hold.
	Before        int64 `json:"before"`
	After         int64 `json:"after"`
	ContextWindow int64 `json:"contextWindow,omitempty"` // what can be used of the model's window
	// Thread is what the log says of the thread up to here.
	Thread Checkpoint `json:"thread"`
}

// Checkpoint is what a thread has to remember of its events beside its history.
type Checkpoint struct {
	Started ThreadStarted `json:"started"`
	Model   Selection     `json:"model"`
	Name    string        `json:"name,omitempty"`
	Usage   Tokens        `json:"usage"`
	// Settings of the thread, as they were last.
	Settings Settings `json:"settings,omitzero"`
	// Sessions are open, with the items that they keep open.
	Sessions []SessionOpened `json:"sessions,omitempty"`
	Items    []Item          `json:"items,omitempty"`
	// Accepted is not in the history yet.
	Accepted []InputAccepted `json:"accepted,omitempty"`
	// Mail waits to be read.
	Mail []Mail `json:"mail,omitempty"`
	// Features are the states of features, by id.
	Features map[string]json.RawMessage `json:"features,omitempty"`
}

func (HistoryCompacted) Kind() string  { return "history.compacted" }
func (HistoryCompacted) durable() bool { return true }
