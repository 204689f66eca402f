package protocol

import (
	"encoding/json"
	"slices"
	"strings"
)

// ThreadItem is a visible part of a turn. Its body is one of the types of this file whose names end with Item.
type ThreadItem struct{ Body ItemBody }

// ItemBody is the body of an item.
type ItemBody interface {
	variant
	Header() ItemHeader
}

// ItemHeader is what all items have.
type ItemHeader struct {
	ID            string `json:"id"`
	StartedAtMs   *int64 `json:"startedAtMs"`   // Unix time in milliseconds; null: unknown
	CompletedAtMs *int64 `json:"completedAtMs"` // null: it has not completed, or unknown
}

// Header returns h.
func (h ItemHeader) Header() ItemHeader { return h }

func (i ThreadItem) MarshalJSON() ([]byte, error)  { return Marshal(i) }
func (i *ThreadItem) UnmarshalJSON(b []byte) error { return unmarshal(b, i) }
func (ThreadItem) variants() variants              { return itemBodies }

var itemBodies = variantsOf(
	UserMessageItem{}, AgentMessageItem{}, ReasoningItem{}, PlanItem{}, CommandExecutionItem{}, FileChangeItem{}, MCPToolCallItem{},
	DynamicToolCallItem{}, WebSearchItem{}, ImageViewItem{}, EnteredReviewModeItem{}, ExitedReviewModeItem{}, ContextCompactionItem{},
	HookPromptItem{}, FunctionCallOutputItem{}, CollabAgentToolCallItem{}, SubAgentActivityItem{}, SleepItem{},
)

// UserMessageItem is a user's input.
type UserMessageItem struct {
	ItemHeader
	ClientID *string     `json:"clientId"` // clientUserMessageId of the request
	Content  []UserInput `json:"content"`
}

func (UserMessageItem) kind() string { return "userMessage" }

// AgentMessageItem is a message of the model.
type AgentMessageItem struct {
	ItemHeader
	Text  string        `json:"text"`
	Phase *MessagePhase `json:"phase"`
}

func (AgentMessageItem) kind() string { return "agentMessage" }

// MessagePhase is the purpose of a message.
type MessagePhase string

// Phases of messages.
const (
	PhaseCommentary  MessagePhase = "commentary"
	PhasePartial     MessagePhase = "partial_answer"
	PhaseFinalAnswer MessagePhase = "final_answer"
)

func (MessagePhase) values() []string { return names(PhaseCommentary, PhasePartial, PhaseFinalAnswer) }

// ReasoningItem is the model's reasoning.
type ReasoningItem struct {
	ItemHeader
	Summary []string `json:"summary"` // parts of the summary
	Content []string `json:"content"` // parts of the raw reasoning
}

func (ReasoningItem) kind() string { return "reasoning" }

// PlanItem is a plan of the model.
type PlanItem struct {
	ItemHeader
	Text string `json:"text"`
}

func (PlanItem) kind() string { return "plan" }

// ItemStatus is the status of a command, a file change or a call.
type ItemStatus string

// Statuses of items. Calls of MCP servers and of dynamic tools are never declined.
const (
	ItemInProgress ItemStatus = "inProgress"
	ItemCompleted  ItemStatus = "completed"
	ItemFailed     ItemStatus = "failed"
	ItemDeclined   ItemStatus = "declined"
)

func (ItemStatus) values() []string {
	return names(ItemInProgress, ItemCompleted, ItemFailed, ItemDeclined)
}

// CommandExecutionItem is a command.
type CommandExecutionItem struct {
	ItemHeader
	Command          string          `json:"command"`
	Cwd              string          `json:"cwd"`
	ProcessID        *string         `json:"processId"` // session that continues the process
	Source           CommandSource   `json:"source"`
	Status           ItemStatus      `json:"status"`
	CommandActions   []CommandAction `json:"commandActions"`
	AggregatedOutput *string         `json:"aggregatedOutput"`
	ExitCode         *int32          `json:"exitCode"`
	DurationMs       *int64          `json:"durationMs"`
}

func (CommandExecutionItem) kind() string { return "commandExecution" }

// CommandSource says who runs a command.
type CommandSource string

// Sources of commands.
const (
	CommandAgent                  CommandSource = "agent"
	CommandUserShell              CommandSource = "userShell"
	CommandUnifiedExecStartup     CommandSource = "unifiedExecStartup"
	CommandUnifiedExecInteraction CommandSource = "unifiedExecInteraction"
)

func (CommandSource) values() []string {
	return names(CommandAgent, CommandUserShell, CommandUnifiedExecStartup, CommandUnifiedExecInteraction)
}

// CommandAction describes a part of a command for display: one of the types of this file whose names end with Action.
type CommandAction struct{ Body CommandActionBody }

// CommandActionBody is the body of an action.
type CommandActionBody interface{ variant }

func (a CommandAction) MarshalJSON() ([]byte, error)  { return Marshal(a) }
func (a *CommandAction) UnmarshalJSON(b []byte) error { return unmarshal(b, a) }
func (CommandAction) variants() variants              { return commandActions }

var commandActions = variantsOf(ReadAction{}, ListFilesAction{}, SearchAction{}, UnknownAction{})

// ReadAction reads a file.
type ReadAction struct {
	Command string `json:"command"`
	Name    string `json:"name"`
	Path    string `json:"path"`
}

func (ReadAction) kind() string { return "read" }

// ListFilesAction lists a folder.
type ListFilesAction struct {
	Command string  `json:"command"`
	Path    *string `json:"path"`
}

func (ListFilesAction) kind() string { return "listFiles" }

// SearchAction searches files.
type SearchAction struct {
	Command string  `json:"command"`
	Query   *string `json:"query"`
	Path    *string `json:"path"`
}

func (SearchAction) kind() string { return "search" }

// UnknownAction is any other command.
type UnknownAction struct {
	Command string `json:"command"`
}

func (UnknownAction) kind() string { return "unknown" }

// FileChangeItem is a change of files.
type FileChangeItem struct {
	ItemHeader
	Changes []FileUpdateChange `json:"changes"`
	Status  ItemStatus         `json:"status"`
}

func (FileChangeItem) kind() string { return "fileChange" }

// FileUpdateChange is the change of one file.
type FileUpdateChange struct {
	Path string          `json:"path"`
	Kind PatchChangeKind `json:"kind"`
	Diff string          `json:"diff"`
}

// PatchChangeKind says how a file is changed.
type PatchChangeKind struct{ Body PatchChange }

// PatchChange is [AddPatch], [DeletePatch] or [UpdatePatch].
type PatchChange interface{ variant }

func (k PatchChangeKind) MarshalJSON() ([]byte, error)  { return Marshal(k) }
func (k *PatchChangeKind) UnmarshalJSON(b []byte) error { return unmarshal(b, k) }
func (PatchChangeKind) variants() variants              { return patchChanges }

var patchChanges = variantsOf(AddPatch{}, DeletePatch{}, UpdatePatch{})

// AddPatch creates a file.
type AddPatch struct{}

func (AddPatch) kind() string { return "add" }

// DeletePatch removes a file.
type DeletePatch struct{}

func (DeletePatch) kind() string { return "delete" }

// UpdatePatch changes a file.
type UpdatePatch struct {
	MovePath *string `json:"move_path"` // the new path; null: it was not moved
}

func (UpdatePatch) kind() string { return "update" }

// MCPToolCallItem is a call of a tool of an MCP server.
type MCPToolCallItem struct {
	ItemHeader
	Server     string          `json:"server"`
	Tool       string          `json:"tool"`
	Status     ItemStatus      `json:"status" values:"inProgress,completed,failed"`
	Arguments  json.RawMessage `json:"arguments"`
	Result     *MCPToolResult  `json:"result"`
	Error      *MCPToolError   `json:"error"`
	DurationMs *int64          `json:"durationMs"`
}

func (MCPToolCallItem) kind() string { return "mcpToolCall" }

// MCPToolResult is the result of a call, in the shape of MCP.
type MCPToolResult struct {
	Content           []json.RawMessage `json:"content"`
	StructuredContent json.RawMessage   `json:"structuredContent"`
	Meta              json.RawMessage   `json:"_meta"`
}

// MCPToolError says why a call could not be made.
type MCPToolError struct {
	Message string `json:"message"`
}

// DynamicToolCallItem is a call of any other tool: a tool of a plugin, of the host or of the client.
type DynamicToolCallItem struct {
	ItemHeader
	Namespace    *string           `json:"namespace"`
	Tool         string            `json:"tool"`
	Arguments    json.RawMessage   `json:"arguments"`
	Status       ItemStatus        `json:"status" values:"inProgress,completed,failed"`
	ContentItems []ToolContentItem `json:"contentItems" nullable:"true"` // null until it has ended
	Success      *bool             `json:"success"`
	DurationMs   *int64            `json:"durationMs"`
}

func (DynamicToolCallItem) kind() string { return "dynamicToolCall" }

// ToolContentItem is a part of a tool's result.
type ToolContentItem struct{ Body ToolContent }

// ToolContent is [InputTextContent] or [InputImageContent].
type ToolContent interface{ variant }

func (c ToolContentItem) MarshalJSON() ([]byte, error)  { return Marshal(c) }
func (c *ToolContentItem) UnmarshalJSON(b []byte) error { return unmarshal(b, c) }
func (ToolContentItem) variants() variants              { return toolContents }

var toolContents = variantsOf(InputTextContent{}, InputImageContent{})

// InputTextContent is text.
type InputTextContent struct {
	Text string `json:"text"`
}

func (InputTextContent) kind() string { return "inputText" }

// InputImageContent is an image as a data URL, or in an item as gantry-artifact: and the digest of stored content.
type InputImageContent struct {
	ImageURL string `json:"imageUrl"`
}

func (InputImageContent) kind() string { return "inputImage" }

// WebSearchItem is a search of the web by the provider.
type WebSearchItem struct {
	ItemHeader
	Query  string           `json:"query"`
	Action *WebSearchAction `json:"action"`
}

func (WebSearchItem) kind() string { return "webSearch" }

// WebSearchAction is a step of a search.
type WebSearchAction struct{ Body WebSearchActionBody }

// WebSearchActionBody is [SearchWeb], [OpenPage], [FindInPage] or [OtherWebSearch].
type WebSearchActionBody interface{ variant }

func (a WebSearchAction) MarshalJSON() ([]byte, error)  { return Marshal(a) }
func (a *WebSearchAction) UnmarshalJSON(b []byte) error { return unmarshal(b, a) }
func (WebSearchAction) variants() variants              { return webSearchActions }

var webSearchActions = variantsOf(SearchWeb{}, OpenPage{}, FindInPage{}, OtherWebSearch{})

// SearchWeb searches the web.
type SearchWeb struct {
	Query   *string  `json:"query"`
	Queries []string `json:"queries" nullable:"true"`
}

func (SearchWeb) kind() string { return "search" }

// OpenPage opens a page.
type OpenPage struct {
	URL *string `json:"url"`
}

func (OpenPage) kind() string { return "openPage" }

// FindInPage searches a page.
type FindInPage struct {
	URL     *string `json:"url"`
	Pattern *string `json:"pattern"`
}

func (FindInPage) kind() string { return "findInPage" }

// OtherWebSearch is any other step.
type OtherWebSearch struct{}

func (OtherWebSearch) kind() string { return "other" }

// ImageViewItem is an image that the model looks at.
type ImageViewItem struct {
	ItemHeader
	Path string `json:"path"`
}

func (ImageViewItem) kind() string { return "imageView" }

// EnteredReviewModeItem begins a review.
type EnteredReviewModeItem struct {
	ItemHeader
	Review string `json:"review"` // what is reviewed
}

func (EnteredReviewModeItem) kind() string { return "enteredReviewMode" }

// ExitedReviewModeItem ends a review.
type ExitedReviewModeItem struct {
	ItemHeader
	Review string `json:"review"` // the findings
}

func (ExitedReviewModeItem) kind() string { return "exitedReviewMode" }

// ContextCompactionItem is a compaction of the conversation.
type ContextCompactionItem struct{ ItemHeader }

func (ContextCompactionItem) kind() string { return "contextCompaction" }

// HookPromptItem is text that hooks gave the model.
type HookPromptItem struct {
	ItemHeader
	Fragments []HookPromptFragment `json:"fragments"`
}

func (HookPromptItem) kind() string { return "hookPrompt" }

// HookPromptFragment is the text of one hook.
type HookPromptFragment struct {
	Text      string `json:"text"`
	HookRunID string `json:"hookRunId"`
}

// FunctionCallOutputItem is the output of a tool that a client ran.
type FunctionCallOutputItem struct {
	ItemHeader
	Name      string          `json:"name"`
	Namespace *string         `json:"namespace"`
	Output    json.RawMessage `json:"output"`
}

func (FunctionCallOutputItem) kind() string { return "functionCallOutput" }

// CollabAgentToolCallItem is a call by which an agent works with others.
type CollabAgentToolCallItem struct {
	ItemHeader
	Tool              CollabAgentTool             `json:"tool"`
	Status            CollabAgentToolCallStatus   `json:"status"`
	SenderThreadID    string                      `json:"senderThreadId"`
	ReceiverThreadIDs []string                    `json:"receiverThreadIds"`
	Prompt            *string                     `json:"prompt"`
	Model             *string                     `json:"model"`
	ReasoningEffort   *string                     `json:"reasoningEffort"`
	AgentsStates      map[string]CollabAgentState `json:"agentsStates"` // by thread
}

func (CollabAgentToolCallItem) kind() string { return "collabAgentToolCall" }

// CollabAgentTool is what an agent does with others.
type CollabAgentTool string

// Tools of agents.
const (
	AgentSpawn     CollabAgentTool = "spawnAgent"
	AgentSendInput CollabAgentTool = "sendInput"
	AgentResume    CollabAgentTool = "resumeAgent"
	AgentWait      CollabAgentTool = "wait"
	AgentClose     CollabAgentTool = "closeAgent"
	AgentSend      CollabAgentTool = "sendMessage"
	AgentFollowUp  CollabAgentTool = "followupTask"
	AgentInterrupt CollabAgentTool = "interruptAgent"
	AgentList      CollabAgentTool = "listAgents"
)

func (CollabAgentTool) values() []string {
	return names(AgentSpawn, AgentSendInput, AgentResume, AgentWait, AgentClose, AgentSend, AgentFollowUp, AgentInterrupt, AgentList)
}

// CollabAgentToolCallStatus is the status of such a call.
type CollabAgentToolCallStatus string

// Statuses of calls of agents.
const (
	CollabInProgress  CollabAgentToolCallStatus = "inProgress"
	CollabCompleted   CollabAgentToolCallStatus = "completed"
	CollabFailed      CollabAgentToolCallStatus = "failed"
	CollabInterrupted CollabAgentToolCallStatus = "interrupted"
)

func (CollabAgentToolCallStatus) values() []string {
	return names(CollabInProgress, CollabCompleted, CollabFailed, CollabInterrupted)
}

// CollabAgentState is what another agent does.
type CollabAgentState struct {
	Status  CollabAgentStatus `json:"status"`
	Message *string           `json:"message"`
}

// CollabAgentStatus is the status of an agent.
type CollabAgentStatus string

// Statuses of agents.
const (
	AgentPendingInit CollabAgentStatus = "pendingInit"
	AgentRunning     CollabAgentStatus = "running"
	AgentInterrupted CollabAgentStatus = "interrupted"
	AgentCompleted   CollabAgentStatus = "completed"
	AgentErrored     CollabAgentStatus = "errored"
	AgentShutdown    CollabAgentStatus = "shutdown"
	AgentNotFound    CollabAgentStatus = "notFound"
)

func (CollabAgentStatus) values() []string {
	return names(AgentPendingInit, AgentRunning, AgentInterrupted, AgentCompleted, AgentErrored, AgentShutdown, AgentNotFound)
}

// SubAgentActivityItem says what happened with another agent. It is completed at once.
type SubAgentActivityItem struct {
	ItemHeader
	Kind            SubAgentActivityKind `json:"kind"`
	AgentThreadID   string               `json:"agentThreadId"`
	AgentPath       string               `json:"agentPath"`
	Model           *string              `json:"model"`
	ReasoningEffort *string              `json:"reasoningEffort"`
}

func (SubAgentActivityItem) kind() string { return "subAgentActivity" }

// SubAgentActivityKind is what happened with an agent.
type SubAgentActivityKind string

// Activities of agents.
const (
	ActivityStarted     SubAgentActivityKind = "started"
	ActivityInteracted  SubAgentActivityKind = "interacted"
	ActivityInterrupted SubAgentActivityKind = "interrupted"
	ActivityCompleted   SubAgentActivityKind = "completed"
)

func (SubAgentActivityKind) values() []string {
	return names(ActivityStarted, ActivityInteracted, ActivityInterrupted, ActivityCompleted)
}

// SleepItem is a pause of the model.
type SleepItem struct {
	ItemHeader
	DurationMs uint64 `json:"durationMs"`
}

func (SleepItem) kind() string { return "sleep" }

// CommandLine joins the arguments of a command to the text that items of commands and approvals carry, as codex does: /bin/bash -lc
// 'make test'. A POSIX shell reads the same arguments from it.
func CommandLine(argv []string) string {
	words := make([]string, len(argv))
	for i, a := range argv {
		if words[i] = a; a == "" || strings.Trim(a, plain) != "" {
			words[i] = "'" + strings.ReplaceAll(a, "'", `'\''`) + "'"
		}
	}
	return strings.Join(words, " ")
}

// ShellLine is the [CommandLine] of a shell, which consists of the program and its option, that runs a script. Without a shell, it is the
// script.
func ShellLine(shell []string, script string) string {
	if len(shell) == 0 {
		return script
	}
	return CommandLine(append(slices.Clone(shell), script))
}

// plain are the characters that need no quotes.
const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+-./:@_"

// Script returns what people should read: the text that a [CommandLine] gives to a shell, or else the whole line.
func (c CommandExecutionItem) Script() string {
	var words []string
	for rest := c.Command; ; rest = rest[1:] {
		var word strings.Builder
	word:
		for rest != "" {
			end := len(rest) - len(strings.TrimLeft(rest, plain))
			switch {
			case end > 0:
				word.WriteString(rest[:end])
				rest = rest[end:]
			case strings.HasPrefix(rest, `\'`):
				word.WriteByte('\'')
				rest = rest[2:]
			case rest[0] == '\'':
				text, after, ok := strings.Cut(rest[1:], "'")
				if !ok {
					return c.Command
				}
				word.WriteString(text)
				rest = after
			default:
				break word
			}
		}
		words = append(words, word.String())
		if rest == "" || rest[0] != ' ' || len(words) == 3 {
			if rest != "" || len(words) != 3 || words[1] != "-c" && words[1] != "-lc" {
				return c.Command
			}
			return words[2]
		}
	}
}
