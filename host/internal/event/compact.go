package event

import (
	"encoding/json"

	"github.com/gantry-agent/gantry/sdk/llm"
)

// HistoryCompacted replaces the history of the model with Messages. This event and the later ones are sufficient to resume the
// thread.
type HistoryCompacted struct {
	Trigger string `json:"trigger"` // "manual" or "auto"
	Reason  string `json:"reason"`  // "user_requested", "context_limit" or "model_downshift"
	Phase   string `json:"phase"`   // "standalone_turn", "pre_turn" or "mid_turn"
	Item    ItemID `json:"item"`
	// Messages are the whole history. The last one is the summary of the conversation.
	Messages []llm.Message `json:"messages"`
	// Before and After are the numbers of tokens of the next request without and with the compaction.
	Before        int64 `json:"before"`
	After         int64 `json:"after"`
	ContextWindow int64 `json:"contextWindow,omitempty"` // usable part of the model's window
	// Thread is the state of the thread at this event.
	Thread Checkpoint `json:"thread"`
}

// Checkpoint is the state that is derived from a thread's events, except its history.
type Checkpoint struct {
	Started ThreadStarted `json:"started"`
	Model   Selection     `json:"model"`
	Name    string        `json:"name,omitempty"`
	Usage   Tokens        `json:"usage"`
	// Settings are the latest settings of the thread.
	Settings Settings `json:"settings,omitzero"`
	// Sessions are the open sessions, and Items their items.
	Sessions []SessionOpened `json:"sessions,omitempty"`
	Items    []Item          `json:"items,omitempty"`
	// Accepted is the accepted input that is not yet in the history.
	Accepted []InputAccepted `json:"accepted,omitempty"`
	// Mail is the unread mail.
	Mail []Mail `json:"mail,omitempty"`
	// Calls are the calls of code that runs on after its own call has returned. They have started and not ended.
	Calls []CallStarted `json:"calls,omitempty"`
	// Asked are the questions of such calls.
	Asked []QuestionAsked `json:"asked,omitempty"`
	// Features are the states of features, by id.
	Features map[string]json.RawMessage `json:"features,omitempty"`
}

func (HistoryCompacted) Kind() string  { return "history.compacted" }
func (HistoryCompacted) durable() bool { return true }
