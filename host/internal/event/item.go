package event

import (
	"encoding/json"

	"github.com/gantry-agent/gantry/sdk/contract"
)

// ItemType is the type of an item.
type ItemType string

// Types of items.
const (
	ItemUserMessage   ItemType = "user_message"
	ItemAgentMessage  ItemType = "agent_message"
	ItemReasoning     ItemType = "reasoning"
	ItemCommand       ItemType = "command"
	ItemCode          ItemType = "code"
	ItemFileChange    ItemType = "file_change"
	ItemMCPCall       ItemType = "mcp_call"
	ItemWebSearch     ItemType = "web_search"
	ItemImage         ItemType = "image"
	ItemBrowser       ItemType = "browser"
	ItemTool          ItemType = "tool"
	ItemPlan          ItemType = "plan"           // a [Plan], in Arguments
	ItemCompaction    ItemType = "compaction"     // of the conversation
	ItemMail          ItemType = "agent_mail"     // of another agent
	ItemAgentActivity ItemType = "agent_activity" // of an agent that was spawned
	// These two items enclose the items of a reviewer.
	ItemEnteredReview ItemType = "entered_review_mode"
	ItemExitedReview  ItemType = "exited_review_mode"
)

// ItemStatus is the status of an item.
type ItemStatus string

// Statuses of items.
const (
	StatusInProgress ItemStatus = "in_progress"
	StatusCompleted  ItemStatus = "completed"
	StatusFailed     ItemStatus = "failed"
	StatusDeclined   ItemStatus = "declined"
	StatusAborted    ItemStatus = "aborted"
	// StatusSuperseded: the answer's stream broke after the item and the model was queried again, so that the item is not part of
	// the conversation.
	StatusSuperseded ItemStatus = "superseded"
)

// PluginUser is the Plugin of a command that the user ran. No plugin has this label.
const PluginUser = "(user)"

// PhaseCommentary is the phase of a message that is a remark during the work, as the provider reports it.
const PhaseCommentary = "commentary"

// Item is a visible part of a turn, such as a message or a command.
type Item struct {
	ID     ItemID     `json:"id"`
	Type   ItemType   `json:"type"`
	Status ItemStatus `json:"status,omitempty"`
	Call   CallID     `json:"call,omitempty"`
	Plugin string     `json:"plugin,omitempty"`
	Tool   string     `json:"tool,omitempty"` // namespace and name, joined by a dot where there is a namespace

	Text      string          `json:"text,omitempty"`     // of a message, of reasoning, or a title
	Raw       bool            `json:"raw,omitempty"`      // Text is the reasoning itself, not a summary of it
	Phase     string          `json:"phase,omitempty"`    // of an agent's message: [PhaseCommentary]; empty: any other
	Command   string          `json:"command,omitempty"`  // a command, or code
	Shell     []string        `json:"shell,omitempty"`    // the program and the option that Command is the script of: /bin/bash, -lc
	Language  string          `json:"language,omitempty"` // of code
	Cwd       string          `json:"cwd,omitempty"`
	Output    string          `json:"output,omitempty"` // output as displayed, limited in size
	ExitCode  *int32          `json:"exitCode,omitempty"`
	Session   string          `json:"session,omitempty"`
	Denied    *Denial         `json:"sandboxDenied,omitempty"` // what the sandbox denied
	Changes   []FileChange    `json:"changes,omitempty"`
	Server    string          `json:"server,omitempty"`
	Arguments json.RawMessage `json:"arguments,omitempty"`
	Result    json.RawMessage `json:"result,omitempty"`   // of a call of an MCP server's tool: its CallToolResult, limited in size
	Error     string          `json:"error,omitempty"`    // why there is no Result
	ReadOnly  bool            `json:"readOnly,omitempty"` // the MCP server says that the tool changes nothing
	Query     string          `json:"query,omitempty"`
	Path      string          `json:"path,omitempty"`
	URL       string          `json:"url,omitempty"`
	Tab       string          `json:"tab,omitempty"`       // of a browser
	Title     string          `json:"title,omitempty"`     // of the page in it
	Images    []string        `json:"images,omitempty"`    // artifacts or paths of a user message
	Artifacts []Artifact      `json:"artifacts,omitempty"` // stored content that a call created, or the content of an image
	Review    *Review         `json:"review,omitempty"`    // result of a review; Output is its text
	Author    string          `json:"author,omitempty"`    // of mail: the agent that wrote it
	Agent     *AgentActivity  `json:"agent,omitempty"`     // of an agent's activity
	ClientID  string          `json:"clientId,omitempty"`  // of a user message: the client's identity of it
}

// ArtifactURL precedes the digest of an artifact where clients expect a URL.
const ArtifactURL = "gantry-artifact:"

// Artifact is stored content, as the plugin that stored it describes it.
type Artifact struct {
	SHA256    string `json:"sha256"`
	Bytes     int64  `json:"bytes,omitempty"`
	MediaType string `json:"mediaType,omitempty"`
	Name      string `json:"name,omitempty"`
}

// FileChange is one file's change.
type FileChange struct {
	Path      string `json:"path"`
	Kind      string `json:"kind"` // "add", "update" or "delete"
	Diff      string `json:"diff,omitempty"`
	MovedFrom string `json:"movedFrom,omitempty"`
	Before    string `json:"before,omitempty"` // artifact digests
	After     string `json:"after,omitempty"`
}

// Effect is a [contract.Effect] with a type, for the log.
type Effect struct {
	Type string          `json:"type"` // "exec", "write", "read", "network", "browser", "session_input", "service", "other"
	Data json.RawMessage `json:"data"`
}

// EffectsOf converts effects for the log.
func EffectsOf(effects []contract.Effect) []Effect {
	out := make([]Effect, 0, len(effects))
	for _, e := range effects {
		var t string
		switch e.(type) {
		case contract.ExecEffect:
			t = "exec"
		case contract.WriteEffect:
			t = "write"
		case contract.ReadEffect:
			t = "read"
		case contract.NetworkEffect:
			t = "network"
		case contract.BrowserEffect:
			t = "browser"
		case contract.SessionInputEffect:
			t = "session_input"
		case contract.ServiceEffect:
			t = "service"
		default:
			t = "other"
		}
		data, err := json.Marshal(e)
		if err != nil { // plain structs of strings; only a programming error gets here
			panic("event: marshal effect: " + err.Error())
		}
		out = append(out, Effect{Type: t, Data: data})
	}
	return out
}

// Denial is what a sandbox denied to a command, as far as it is known.
type Denial struct {
	Reason  string `json:"reason"` // "read_only_file_system", "operation_not_permitted", "permission_denied", "failed_to_write_file", "unknown"
	Sandbox string `json:"sandbox"`
	Path    string `json:"path,omitempty"`   // absolute; empty: unknown
	Access  string `json:"access,omitempty"` // denied access to the path: "read" or "write"
	Why     string `json:"why,omitempty"`    // why it is read-only in a writable folder; empty: it is not in one
}
