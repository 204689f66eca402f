package event

import "github.com/google/uuid"

// SourceAgent is the source of a thread in which an agent works for the agent that spawned it.
const SourceAgent = "agent"

// Agent says which agent of a tree a thread is.
type Agent struct {
	Root     ThreadID `json:"root"` // the thread of the tree's root
	Path     string   `json:"path"`
	Nickname string   `json:"nickname,omitempty"`
	Role     string   `json:"role,omitempty"`
	Depth    int      `json:"depth"` // 1: the root spawned it
}

// Inherited says that a thread begins with the history of another one, as it was at an event. The history is not copied: a thread that
// is resumed reads it from the other one's log.
type Inherited struct {
	From     ThreadID `json:"from"`
	Through  uint64   `json:"through"`  // the last event of From that is read
	Messages int      `json:"messages"` // how many of the messages at that event were there when the thread began
	// Turns is how many of the last turns are inherited, without what was done in them; 0: everything is.
	Turns int `json:"turns,omitempty"`
}

// AnswerItem returns the ID of the mail with the answer of an agent's turn. It depends on the turn alone, so that an answer that is posted
// again after a crash is recognised.
func AnswerItem(turn TurnID) ItemID {
	return ItemID(uuid.NewSHA1(uuid.NameSpaceURL, []byte("gantry:answer:"+string(turn))).String())
}

// AgentActivityKind says what happened with an agent.
type AgentActivityKind string

// The kinds of activities; codex-compatible.
const (
	AgentStarted     AgentActivityKind = "started"
	AgentInteracted  AgentActivityKind = "interacted"
	AgentInterrupted AgentActivityKind = "interrupted"
	AgentCompleted   AgentActivityKind = "completed"
)

// AgentActivity is what happened with an agent that another one has spawned.
type AgentActivity struct {
	Kind     AgentActivityKind `json:"kind"`
	Thread   ThreadID          `json:"thread"`
	Path     string            `json:"path"`
	Nickname string            `json:"nickname,omitempty"`
	Role     string            `json:"role,omitempty"`
	Model    string            `json:"model,omitempty"`
	Effort   string            `json:"effort,omitempty"`
}
