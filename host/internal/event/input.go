package event

import "github.com/gantry-agent/gantry/sdk/llm"

// InputAccepted: somebody was told that the thread takes what he said. It is not in the history yet; the item of the same
// number says when it is. A host that dies in between loses nothing: it is in the history before the thread goes on.
type InputAccepted struct {
	Turn    TurnID      `json:"turn"` // that takes it
	Item    ItemID      `json:"item"` // that it becomes
	Message llm.Message `json:"message"`
}

func (InputAccepted) Kind() string  { return "input.accepted" }
func (InputAccepted) durable() bool { return true }
