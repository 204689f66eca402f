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
	// Bounds are those of its role and of the roles of all agents above it.
	Bounds Bounds    `json:"bounds,omitzero"`
	Budget Allowance `json:"budget,omitzero"` // of the agent and those below it
}

// Bounds limit what an agent may do, in addition to the settings of its thread. The zero value limits nothing.
type Bounds struct {
	Sandbox   string     `json:"sandbox,omitempty"` // the widest mode; empty: any
	NoNetwork bool       `json:"noNetwork,omitempty"`
	DenyRead  []string   `json:"denyRead,omitempty"`
	DenyWrite []string   `json:"denyWrite,omitempty"`
	Tools     [][]string `json:"tools,omitempty"` // lists of patterns: a tool has to match one of each
	Without   []string   `json:"without,omitempty"`
	Samplings int        `json:"samplings,omitempty"` // requests to the model in one turn; 0: any number
}

// Allowance is how much use of models is allowed. 0 means no limit.
type Allowance struct {
	Tokens int64   `json:"tokens,omitempty"`
	USD    float64 `json:"usd,omitempty"`
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
	Bounds   Bounds            `json:"bounds,omitzero"`
	Budget   Allowance         `json:"budget,omitzero"`
}
