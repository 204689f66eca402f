package event

import "github.com/gantry-agent/gantry/sdk/llm"

// InputAccepted says that the thread has accepted input and acknowledged it to the client. The input is not in the history yet; the
// item with the same ID is published when it is. If the host crashes in between, the input is added when the thread is resumed.
type InputAccepted struct {
	Turn    TurnID      `json:"turn"` // the turn that gets the input
	Item    ItemID      `json:"item"` // ID of the future item
	Message llm.Message `json:"message"`
	// ClientID is the client's identity of the message, by which a repeated request is recognized.
	ClientID string `json:"clientId,omitempty"`
	// Queued: the input was waiting in the thread's queue.
	Queued bool `json:"queued,omitempty"`
}

func (InputAccepted) Kind() string  { return "input.accepted" }
func (InputAccepted) durable() bool { return true }
