package protocol

import "slices"

// Notifications that the server sends.
var (
	NotifyThreadStarted           = notification[ThreadStartedNotification]("thread/started", ToAll)
	NotifyThreadStatusChanged     = notification[ThreadStatusChangedNotification]("thread/status/changed", ToAll)
	NotifyThreadArchived          = notification[ThreadArchivedNotification]("thread/archived", ToAll)
	NotifyThreadUnarchived        = notification[ThreadUnarchivedNotification]("thread/unarchived", ToAll)
	NotifyThreadDeleted           = notification[ThreadDeletedNotification]("thread/deleted", ToAll)
	NotifyThreadClosed            = notification[ThreadClosedNotification]("thread/closed", ToAll)
	NotifyThreadReverted          = notification[ThreadRevertedNotification]("thread/reverted", ToAll)
	NotifyThreadNameUpdated       = notification[ThreadNameUpdatedNotification]("thread/name/updated", ToAll)
	NotifyThreadTokenUsageUpdated = notification[ThreadTokenUsageUpdatedNotification]("thread/tokenUsage/updated", ToSubscribers)
	NotifyThreadSettingsUpdated   = notification[ThreadSettingsUpdatedNotification]("thread/settings/updated", ToSubscribers, experimental)
	NotifyThreadQueueChanged      = notification[ThreadQueueChangedNotification]("thread/queue/changed", ToSubscribers, experimental)
	NotifyThreadGoalUpdated       = notification[ThreadGoalUpdatedNotification]("thread/goal/updated", ToSubscribers)
	NotifyThreadGoalCleared       = notification[ThreadGoalClearedNotification]("thread/goal/cleared", ToSubscribers)
	NotifyThreadReadStateChanged  = notification[ThreadReadStateChangedNotification]("thread/readState/changed", ToSubscribers, experimental)

	NotifyTurnStarted     = notification[TurnStartedNotification]("turn/started", ToSubscribers)
	NotifyTurnCompleted   = notification[TurnCompletedNotification]("turn/completed", ToSubscribers)
	NotifyTurnDiffUpdated = notification[TurnDiffUpdatedNotification]("turn/diff/updated", ToSubscribers)
	NotifyTurnPlanUpdated = notification[TurnPlanUpdatedNotification]("turn/plan/updated", ToSubscribers)

	NotifyItemStarted               = notification[ItemStartedNotification]("item/started", ToSubscribers)
	NotifyItemCompleted             = notification[ItemCompletedNotification]("item/completed", ToSubscribers)
	NotifyAgentMessageDelta         = notification[AgentMessageDeltaNotification]("item/agentMessage/delta", ToSubscribers)
	NotifyPlanDelta                 = notification[PlanDeltaNotification]("item/plan/delta", ToSubscribers, unsent)
	NotifyReasoningSummaryPartAdded = notification[ReasoningSummaryPartAddedNotification]("item/reasoning/summaryPartAdded", ToSubscribers)
	NotifyReasoningSummaryTextDelta = notification[ReasoningSummaryTextDeltaNotification]("item/reasoning/summaryTextDelta", ToSubscribers)
	NotifyReasoningTextDelta        = notification[ReasoningTextDeltaNotification]("item/reasoning/textDelta", ToSubscribers)
	NotifyCommandOutputDelta        = notification[CommandExecutionOutputDeltaNotification]("item/commandExecution/outputDelta", ToSubscribers)
	NotifyTerminalInteraction       = notification[TerminalInteractionNotification]("item/commandExecution/terminalInteraction", ToSubscribers)
	NotifyFileChangePatchUpdated    = notification[FileChangePatchUpdatedNotification]("item/fileChange/patchUpdated", ToSubscribers)
	NotifyApprovalReviewStarted     = notification[ItemGuardianApprovalReviewStartedNotification]("item/autoApprovalReview/started", ToSubscribers)
	NotifyApprovalReviewCompleted   = notification[ItemGuardianApprovalReviewCompletedNotification]("item/autoApprovalReview/completed", ToSubscribers)

	NotifyError                 = notification[ErrorNotification]("error", ToSubscribers)
	NotifyWarning               = notification[WarningNotification]("warning", ToSubscribers)
	NotifyGuardianWarning       = notification[GuardianWarningNotification]("guardianWarning", ToSubscribers)
	NotifyConfigWarning         = notification[ConfigWarningNotification]("configWarning", ToConnection)
	NotifyDeprecationNotice     = notification[DeprecationNoticeNotification]("deprecationNotice", ToConnection, unsent)
	NotifyMCPServerStatus       = notification[MCPServerStatusUpdatedNotification]("mcpServer/startupStatus/updated", ToSubscribers)
	NotifyServerRequestResolved = notification[ServerRequestResolvedNotification]("serverRequest/resolved", ToSubscribers)
	NotifyHookStarted           = notification[HookStartedNotification]("hook/started", ToSubscribers)
	NotifyHookCompleted         = notification[HookCompletedNotification]("hook/completed", ToSubscribers)

	NotifyCommandExecOutputDelta          = notification[CommandExecOutputDeltaNotification]("command/exec/outputDelta", ToConnection)
	NotifyProcessOutputDelta              = notification[ProcessOutputDeltaNotification]("process/outputDelta", ToConnection, experimental)
	NotifyProcessExited                   = notification[ProcessExitedNotification]("process/exited", ToConnection, experimental)
	NotifyFsChanged                       = notification[FsChangedNotification]("fs/changed", ToConnection)
	NotifyFuzzyFileSearchSessionUpdated   = notification[FuzzyFileSearchSessionUpdatedNotification]("fuzzyFileSearch/sessionUpdated", ToConnection, experimental)
	NotifyFuzzyFileSearchSessionCompleted = notification[FuzzyFileSearchSessionCompletedNotification]("fuzzyFileSearch/sessionCompleted", ToConnection, experimental)
	NotifyEnvironmentConnected            = notification[EnvironmentConnectionNotification]("thread/environment/connected", ToSubscribers, experimental, unsent)
	NotifyEnvironmentDisconnected         = notification[EnvironmentConnectionNotification]("thread/environment/disconnected", ToSubscribers, experimental, unsent)
	NotifyAuthRecoveryStarted             = notification[AuthRecoveryNotification]("modelProvider/authRecoveryStarted", ToSubscribers, unsent)
	NotifyAuthRecoveryCompleted           = notification[AuthRecoveryNotification]("modelProvider/authRecoveryCompleted", ToSubscribers, unsent)
	NotifyAccountUpdated                  = notification[AccountUpdatedNotification]("account/updated", ToAll)
	NotifyAccountLoginCompleted           = notification[AccountLoginCompletedNotification]("account/login/completed", ToConnection)
	NotifyGantryViewFrame                 = notification[GantryViewFrameNotification]("gantry/view/frame", ToConnection)
	NotifyGantryViewControlled            = notification[GantryViewControlledNotification]("gantry/view/controlled", ToSubscribers)
	NotifyGantryViewState                 = notification[GantryViewStateNotification]("gantry/view/state", ToConnection)
	NotifyGantryViewClosed                = notification[GantryViewClosedNotification]("gantry/view/closed", ToConnection)
)

// Notifications returns the notifications that the server sends.
func Notifications() []*NotificationSpec {
	return []*NotificationSpec{
		NotifyThreadStarted.NotificationSpec, NotifyThreadStatusChanged.NotificationSpec, NotifyThreadArchived.NotificationSpec,
		NotifyThreadUnarchived.NotificationSpec, NotifyThreadDeleted.NotificationSpec, NotifyThreadClosed.NotificationSpec,
		NotifyThreadReverted.NotificationSpec, NotifyThreadNameUpdated.NotificationSpec, NotifyThreadTokenUsageUpdated.NotificationSpec,
		NotifyThreadSettingsUpdated.NotificationSpec, NotifyThreadQueueChanged.NotificationSpec,
		NotifyThreadGoalUpdated.NotificationSpec, NotifyThreadGoalCleared.NotificationSpec,
		NotifyThreadReadStateChanged.NotificationSpec, NotifyTurnStarted.NotificationSpec, NotifyTurnCompleted.NotificationSpec,
		NotifyTurnDiffUpdated.NotificationSpec, NotifyTurnPlanUpdated.NotificationSpec, NotifyItemStarted.NotificationSpec,
		NotifyItemCompleted.NotificationSpec, NotifyAgentMessageDelta.NotificationSpec, NotifyPlanDelta.NotificationSpec,
		NotifyReasoningSummaryPartAdded.NotificationSpec, NotifyReasoningSummaryTextDelta.NotificationSpec,
		NotifyReasoningTextDelta.NotificationSpec, NotifyCommandOutputDelta.NotificationSpec, NotifyTerminalInteraction.NotificationSpec,
		NotifyFileChangePatchUpdated.NotificationSpec, NotifyApprovalReviewStarted.NotificationSpec,
		NotifyApprovalReviewCompleted.NotificationSpec, NotifyError.NotificationSpec, NotifyWarning.NotificationSpec,
		NotifyGuardianWarning.NotificationSpec, NotifyConfigWarning.NotificationSpec, NotifyDeprecationNotice.NotificationSpec,
		NotifyMCPServerStatus.NotificationSpec, NotifyServerRequestResolved.NotificationSpec, NotifyHookStarted.NotificationSpec, NotifyHookCompleted.NotificationSpec,
		NotifyCommandExecOutputDelta.NotificationSpec, NotifyProcessOutputDelta.NotificationSpec, NotifyProcessExited.NotificationSpec,
		NotifyFsChanged.NotificationSpec, NotifyFuzzyFileSearchSessionUpdated.NotificationSpec,
		NotifyFuzzyFileSearchSessionCompleted.NotificationSpec, NotifyEnvironmentConnected.NotificationSpec,
		NotifyEnvironmentDisconnected.NotificationSpec, NotifyAuthRecoveryStarted.NotificationSpec,
		NotifyAuthRecoveryCompleted.NotificationSpec, NotifyAccountUpdated.NotificationSpec,
		NotifyAccountLoginCompleted.NotificationSpec, NotifyGantryViewFrame.NotificationSpec,
		NotifyGantryViewControlled.NotificationSpec, NotifyGantryViewState.NotificationSpec, NotifyGantryViewClosed.NotificationSpec,
	}
}

// ThreadStartedNotification announces a thread.
type ThreadStartedNotification struct {
	Thread Thread `json:"thread"`
}

// ThreadStatusChangedNotification announces another status of a thread.
type ThreadStatusChangedNotification struct {
	ThreadID string       `json:"threadId"`
	Status   ThreadStatus `json:"status"`
}

// ThreadArchivedNotification announces that a thread was archived.
type ThreadArchivedNotification struct {
	ThreadID string `json:"threadId"`
}

// ThreadUnarchivedNotification announces that a thread is no longer archived.
type ThreadUnarchivedNotification struct {
	ThreadID string `json:"threadId"`
}

// ThreadDeletedNotification announces that a thread was deleted.
type ThreadDeletedNotification struct {
	ThreadID string `json:"threadId"`
}

// ThreadClosedNotification announces that a thread was unloaded.
type ThreadClosedNotification struct {
	ThreadID string `json:"threadId"`
}

// ThreadRevertedNotification announces that turns were dropped.
type ThreadRevertedNotification struct {
	ThreadID string `json:"threadId"`
}

// ThreadNameUpdatedNotification announces another name of a thread.
type ThreadNameUpdatedNotification struct {
	ThreadID   string  `json:"threadId"`
	ThreadName *string `json:"threadName"`
}

// ThreadTokenUsageUpdatedNotification announces the usage after a response of the model.
type ThreadTokenUsageUpdatedNotification struct {
	ThreadID   string           `json:"threadId"`
	TurnID     string           `json:"turnId"`
	TokenUsage ThreadTokenUsage `json:"tokenUsage"`
}

// ThreadSettingsUpdatedNotification announces changed settings.
type ThreadSettingsUpdatedNotification struct {
	ThreadID       string         `json:"threadId"`
	ThreadSettings ThreadSettings `json:"threadSettings"`
}

// ThreadQueueChangedNotification announces a changed queue.
type ThreadQueueChangedNotification struct {
	ThreadID string `json:"threadId"`
}

// ThreadGoalUpdatedNotification announces a changed goal. It also follows a response to thread/resume.
type ThreadGoalUpdatedNotification struct {
	ThreadID string     `json:"threadId"`
	TurnID   *string    `json:"turnId"` // null: outside a turn
	Goal     ThreadGoal `json:"goal"`
}

// ThreadGoalClearedNotification announces that a thread has no goal any more.
type ThreadGoalClearedNotification struct {
	ThreadID string `json:"threadId"`
}

// ThreadReadStateChangedNotification announces a changed read state.
type ThreadReadStateChangedNotification struct {
	ThreadID  string          `json:"threadId"`
	ReadState ThreadReadState `json:"readState"`
}

// TurnStartedNotification announces a turn.
type TurnStartedNotification struct {
	ThreadID string `json:"threadId"`
	Turn     Turn   `json:"turn"`
}

// TurnCompletedNotification announces the end of a turn: exactly one for each turn that started.
type TurnCompletedNotification struct {
	ThreadID string `json:"threadId"`
	Turn     Turn   `json:"turn"`
}

// TurnDiffUpdatedNotification announces the changes of files of the whole turn so far.
type TurnDiffUpdatedNotification struct {
	ThreadID string `json:"threadId"`
	TurnID   string `json:"turnId"`
	Diff     string `json:"diff"` // unified
}

// TurnPlanUpdatedNotification announces the plan of the model.
type TurnPlanUpdatedNotification struct {
	ThreadID    string         `json:"threadId"`
	TurnID      string         `json:"turnId"`
	Explanation *string        `json:"explanation"`
	Plan        []TurnPlanStep `json:"plan"`
}

// TurnPlanStep is a step of a plan.
type TurnPlanStep struct {
	Step   string             `json:"step"`
	Status TurnPlanStepStatus `json:"status"`
}

// TurnPlanStepStatus is the status of a step.
type TurnPlanStepStatus string

// Statuses of steps.
const (
	StepPending    TurnPlanStepStatus = "pending"
	StepInProgress TurnPlanStepStatus = "inProgress"
	StepCompleted  TurnPlanStepStatus = "completed"
)

func (TurnPlanStepStatus) values() []string {
	return names(StepPending, StepInProgress, StepCompleted)
}

// ItemStartedNotification announces an item.
type ItemStartedNotification struct {
	ThreadID    string     `json:"threadId"`
	TurnID      string     `json:"turnId"`
	Item        ThreadItem `json:"item"`
	StartedAtMs int64      `json:"startedAtMs"`
}

// ItemCompletedNotification announces the final form of an item.
type ItemCompletedNotification struct {
	ThreadID          string     `json:"threadId"`
	TurnID            string     `json:"turnId"`
	Item              ThreadItem `json:"item"`
	CompletedAtMs     int64      `json:"completedAtMs"`
	ContentTokenCount *uint64    `json:"contentTokenCount"`
}

// AgentMessageDeltaNotification is more text of a message.
type AgentMessageDeltaNotification struct {
	ThreadID string `json:"threadId"`
	TurnID   string `json:"turnId"`
	ItemID   string `json:"itemId"`
	Delta    string `json:"delta"`
}

// PlanDeltaNotification is more text of a plan.
type PlanDeltaNotification struct {
	ThreadID string `json:"threadId"`
	TurnID   string `json:"turnId"`
	ItemID   string `json:"itemId"`
	Delta    string `json:"delta"`
}

// ReasoningSummaryPartAddedNotification begins a part of a summary.
type ReasoningSummaryPartAddedNotification struct {
	ThreadID     string `json:"threadId"`
	TurnID       string `json:"turnId"`
	ItemID       string `json:"itemId"`
	SummaryIndex int64  `json:"summaryIndex"`
}

// ReasoningSummaryTextDeltaNotification is more text of a part of a summary.
type ReasoningSummaryTextDeltaNotification struct {
	ThreadID     string `json:"threadId"`
	TurnID       string `json:"turnId"`
	ItemID       string `json:"itemId"`
	SummaryIndex int64  `json:"summaryIndex"`
	Delta        string `json:"delta"`
}

// ReasoningTextDeltaNotification is more text of a part of the raw reasoning.
type ReasoningTextDeltaNotification struct {
	ThreadID     string `json:"threadId"`
	TurnID       string `json:"turnId"`
	ItemID       string `json:"itemId"`
	ContentIndex int64  `json:"contentIndex"`
	Delta        string `json:"delta"`
}

// CommandExecutionOutputDeltaNotification is more output of a command.
type CommandExecutionOutputDeltaNotification struct {
	ThreadID string `json:"threadId"`
	TurnID   string `json:"turnId"`
	ItemID   string `json:"itemId"`
	Delta    string `json:"delta"` // invalid UTF-8 is replaced
	// Offset is the number of bytes of output before Delta. An addition of gantry.
	Offset *uint64 `json:"offset,omitempty"`
}

// TerminalInteractionNotification is input that the model gave a running command.
type TerminalInteractionNotification struct {
	ThreadID  string `json:"threadId"`
	TurnID    string `json:"turnId"`
	ItemID    string `json:"itemId"`
	ProcessID string `json:"processId"`
	Stdin     string `json:"stdin"`
}

// FileChangePatchUpdatedNotification is the patch so far, while the model writes it.
type FileChangePatchUpdatedNotification struct {
	ThreadID string             `json:"threadId"`
	TurnID   string             `json:"turnId"`
	ItemID   string             `json:"itemId"`
	Changes  []FileUpdateChange `json:"changes"`
}

// ItemGuardianApprovalReviewStartedNotification announces that a model reviews an action.
type ItemGuardianApprovalReviewStartedNotification struct {
	ThreadID     string                       `json:"threadId"`
	TurnID       string                       `json:"turnId"`
	ReviewID     string                       `json:"reviewId"`
	TargetItemID *string                      `json:"targetItemId"`
	StartedAtMs  int64                        `json:"startedAtMs"`
	Review       GuardianApprovalReview       `json:"review"`
	Action       GuardianApprovalReviewAction `json:"action"`
}

// ItemGuardianApprovalReviewCompletedNotification announces the outcome of a review.
type ItemGuardianApprovalReviewCompletedNotification struct {
	ThreadID       string                       `json:"threadId"`
	TurnID         string                       `json:"turnId"`
	ReviewID       string                       `json:"reviewId"`
	TargetItemID   *string                      `json:"targetItemId"`
	StartedAtMs    int64                        `json:"startedAtMs"`
	CompletedAtMs  int64                        `json:"completedAtMs"`
	DecisionSource AutoReviewDecisionSource     `json:"decisionSource"`
	Review         GuardianApprovalReview       `json:"review"`
	Action         GuardianApprovalReviewAction `json:"action"`
}

// AutoReviewDecisionSource is who decided.
type AutoReviewDecisionSource string

// DecidedByAgent is a model, the only source there is.
const DecidedByAgent AutoReviewDecisionSource = "agent"

func (AutoReviewDecisionSource) values() []string { return names(DecidedByAgent) }

// GuardianApprovalReview is a model's review of an action.
type GuardianApprovalReview struct {
	Status            GuardianApprovalReviewStatus `json:"status"`
	RiskLevel         *GuardianRiskLevel           `json:"riskLevel"`
	UserAuthorization *GuardianUserAuthorization   `json:"userAuthorization"`
	Rationale         *string                      `json:"rationale"`
}

// GuardianApprovalReviewStatus is the status of a review.
type GuardianApprovalReviewStatus string

// Statuses of reviews.
const (
	ReviewInProgress GuardianApprovalReviewStatus = "inProgress"
	ReviewApproved   GuardianApprovalReviewStatus = "approved"
	ReviewDenied     GuardianApprovalReviewStatus = "denied"
	ReviewTimedOut   GuardianApprovalReviewStatus = "timedOut"
	ReviewAborted    GuardianApprovalReviewStatus = "aborted"
)

func (GuardianApprovalReviewStatus) values() []string {
	return names(ReviewInProgress, ReviewApproved, ReviewDenied, ReviewTimedOut, ReviewAborted)
}

// GuardianRiskLevel is how dangerous an action is.
type GuardianRiskLevel string

// Levels of risk.
const (
	RiskLow      GuardianRiskLevel = "low"
	RiskMedium   GuardianRiskLevel = "medium"
	RiskHigh     GuardianRiskLevel = "high"
	RiskCritical GuardianRiskLevel = "critical"
)

func (GuardianRiskLevel) values() []string { return names(RiskLow, RiskMedium, RiskHigh, RiskCritical) }

// GuardianUserAuthorization is how far the user has asked for an action.
type GuardianUserAuthorization string

// Degrees of authorization.
const (
	AuthorizationUnknown GuardianUserAuthorization = "unknown"
	AuthorizationLow     GuardianUserAuthorization = "low"
	AuthorizationMedium  GuardianUserAuthorization = "medium"
	AuthorizationHigh    GuardianUserAuthorization = "high"
)

func (GuardianUserAuthorization) values() []string {
	return names(AuthorizationUnknown, AuthorizationLow, AuthorizationMedium, AuthorizationHigh)
}

// GuardianApprovalReviewAction is the action that a model reviews.
type GuardianApprovalReviewAction struct{ Body ReviewedAction }

// ReviewedAction is one of the types whose names begin with Reviewed.
type ReviewedAction interface{ variant }

func (a GuardianApprovalReviewAction) MarshalJSON() ([]byte, error)  { return Marshal(a) }
func (a *GuardianApprovalReviewAction) UnmarshalJSON(b []byte) error { return unmarshal(b, a) }
func (GuardianApprovalReviewAction) variants() variants              { return reviewedActions }

var reviewedActions = variantsOf(ReviewedCommand{}, ReviewedExecve{}, ReviewedWriteStdin{}, ReviewedPatch{}, ReviewedNetworkAccess{},
	ReviewedMCPToolCall{}, ReviewedPermissions{})

// ReviewedCommand is a command.
type ReviewedCommand struct {
	Source  GuardianCommandSource `json:"source"`
	Command string                `json:"command"`
	Cwd     string                `json:"cwd"`
}

func (ReviewedCommand) kind() string { return "command" }

// GuardianCommandSource is the tool that runs a command.
type GuardianCommandSource string

// Tools that run commands.
const (
	GuardianShell       GuardianCommandSource = "shell"
	GuardianUnifiedExec GuardianCommandSource = "unifiedExec"
)

func (GuardianCommandSource) values() []string { return names(GuardianShell, GuardianUnifiedExec) }

// ReviewedExecve is a program that a command starts.
type ReviewedExecve struct {
	Source  GuardianCommandSource `json:"source"`
	Program string                `json:"program"`
	Argv    []string              `json:"argv"`
	Cwd     string                `json:"cwd"`
}

func (ReviewedExecve) kind() string { return "execve" }

// ReviewedWriteStdin is input of a running command.
type ReviewedWriteStdin struct {
	ApprovalID string `json:"approvalId"`
	ProcessID  string `json:"processId"`
	Stdin      string `json:"stdin"`
	Cwd        string `json:"cwd"`
}

func (ReviewedWriteStdin) kind() string { return "writeStdin" }

// ReviewedPatch is a change of files.
type ReviewedPatch struct {
	Cwd   string   `json:"cwd"`
	Files []string `json:"files"`
}

func (ReviewedPatch) kind() string { return "applyPatch" }

// ReviewedNetworkAccess is a connection.
type ReviewedNetworkAccess struct {
	Target   string                  `json:"target"`
	Host     string                  `json:"host"`
	Protocol NetworkApprovalProtocol `json:"protocol"`
	Port     uint16                  `json:"port"`
}

func (ReviewedNetworkAccess) kind() string { return "networkAccess" }

// ReviewedMCPToolCall is a call of a tool of an MCP server.
type ReviewedMCPToolCall struct {
	Server        string  `json:"server"`
	ToolName      string  `json:"toolName"`
	ToolTitle     *string `json:"toolTitle"`
	ConnectorID   *string `json:"connectorId"`
	ConnectorName *string `json:"connectorName"`
}

func (ReviewedMCPToolCall) kind() string { return "mcpToolCall" }

// ReviewedPermissions is a request for permissions.
type ReviewedPermissions struct {
	Reason      *string           `json:"reason"`
	Permissions PermissionProfile `json:"permissions"`
}

func (ReviewedPermissions) kind() string { return "requestPermissions" }

// ErrorNotification announces an error of a turn.
type ErrorNotification struct {
	ThreadID  string    `json:"threadId"`
	TurnID    string    `json:"turnId"`
	Error     TurnError `json:"error"`
	WillRetry bool      `json:"willRetry"`
}

// MCPServerStatusUpdatedNotification reports the state of a source of tools, such as an MCP server.
type MCPServerStatusUpdatedNotification struct {
	ThreadID      *string                 `json:"threadId"`
	Name          string                  `json:"name"`
	Status        MCPServerStartupState   `json:"status"`
	Error         *string                 `json:"error"`
	FailureReason *MCPServerFailureReason `json:"failureReason"`
}

// MCPServerStartupState is the state of an MCP server.
type MCPServerStartupState string

// States of MCP servers.
const (
	MCPServerStarting  MCPServerStartupState = "starting"
	MCPServerReady     MCPServerStartupState = "ready"
	MCPServerFailed    MCPServerStartupState = "failed"
	MCPServerCancelled MCPServerStartupState = "cancelled"
)

func (MCPServerStartupState) values() []string {
	return names(MCPServerStarting, MCPServerReady, MCPServerFailed, MCPServerCancelled)
}

// MCPServerFailureReason says why an MCP server has failed.
type MCPServerFailureReason string

// MCPServerReauthenticationRequired says that the user has to log in.
const MCPServerReauthenticationRequired MCPServerFailureReason = "reauthenticationRequired"

func (MCPServerFailureReason) values() []string { return names(MCPServerReauthenticationRequired) }

// WarningNotification is a warning. Without a thread it goes to all connections.
type WarningNotification struct {
	ThreadID *string `json:"threadId"`
	Message  string  `json:"message"`
}

// GuardianWarningNotification is a warning of a model that reviews actions.
type GuardianWarningNotification struct {
	ThreadID string `json:"threadId"`
	Message  string `json:"message"`
}

// ConfigWarningNotification is a warning about the configuration.
type ConfigWarningNotification struct {
	Summary string     `json:"summary"`
	Details *string    `json:"details"`
	Path    *string    `json:"path,omitempty"`
	Range   *TextRange `json:"range,omitempty"`
}

// TextRange is a range in a file.
type TextRange struct {
	Start TextPosition `json:"start"`
	End   TextPosition `json:"end"`
}

// TextPosition is a place in a file, counted from 1.
type TextPosition struct {
	Line   uint64 `json:"line"`
	Column uint64 `json:"column"`
}

// DeprecationNoticeNotification says that something the client used will go away.
type DeprecationNoticeNotification struct {
	Summary string  `json:"summary"`
	Details *string `json:"details"`
}

// ServerRequestResolvedNotification announces that a request to clients has been answered or withdrawn.
type ServerRequestResolvedNotification struct {
	ThreadID  string `json:"threadId"`
	RequestID string `json:"requestId"` // ids of the server are strings
}

// HookStartedNotification announces a run of a hook.
type HookStartedNotification struct {
	ThreadID string         `json:"threadId"`
	TurnID   *string        `json:"turnId"`
	Run      HookRunSummary `json:"run"`
}

// HookCompletedNotification announces the end of a run of a hook.
type HookCompletedNotification struct {
	ThreadID string         `json:"threadId"`
	TurnID   *string        `json:"turnId"`
	Run      HookRunSummary `json:"run"`
}

// HookRunSummary is a run of a hook.
type HookRunSummary struct {
	ID            string            `json:"id"`
	EventName     HookEventName     `json:"eventName"`
	HandlerType   HookHandlerType   `json:"handlerType"`
	ExecutionMode HookExecutionMode `json:"executionMode"`
	Scope         HookScope         `json:"scope"`
	SourcePath    string            `json:"sourcePath"`
	Source        HookSource        `json:"source"`
	DisplayOrder  int64             `json:"displayOrder"`
	Status        HookRunStatus     `json:"status"`
	StatusMessage *string           `json:"statusMessage"`
	StartedAt     int64             `json:"startedAt"`
	CompletedAt   *int64            `json:"completedAt"`
	DurationMs    *int64            `json:"durationMs"`
	Entries       []HookOutputEntry `json:"entries"`
}

// HookEventName is what a hook runs at.
type HookEventName string

// Events of hooks.
const (
	HookPreModelRequest   HookEventName = "preModelRequest"
	HookPostModelRequest  HookEventName = "postModelRequest"
	HookPreToolUse        HookEventName = "preToolUse"
	HookPermissionRequest HookEventName = "permissionRequest"
	HookPostToolUse       HookEventName = "postToolUse"
	HookPreCompact        HookEventName = "preCompact"
	HookPostCompact       HookEventName = "postCompact"
	HookSessionStart      HookEventName = "sessionStart"
	HookSessionEnd        HookEventName = "sessionEnd"
	HookUserPromptSubmit  HookEventName = "userPromptSubmit"
	HookSubagentStart     HookEventName = "subagentStart"
	HookSubagentStop      HookEventName = "subagentStop"
	HookStop              HookEventName = "stop"
	HookInterrupt         HookEventName = "interrupt"
)

func (HookEventName) values() []string {
	return names(HookPreModelRequest, HookPostModelRequest, HookPreToolUse, HookPermissionRequest, HookPostToolUse, HookPreCompact,
		HookPostCompact, HookSessionStart, HookSessionEnd, HookUserPromptSubmit, HookSubagentStart, HookSubagentStop, HookStop, HookInterrupt)
}

// Known reports whether the protocol has the event. Clients of codex refuse messages with others.
func (n HookEventName) Known() bool { return slices.Contains(n.values(), string(n)) }

// HookHandlerType is the kind of a hook.
type HookHandlerType string

// Kinds of hooks.
const (
	HookCommand HookHandlerType = "command"
	HookMCPTool HookHandlerType = "mcpTool"
	HookPrompt  HookHandlerType = "prompt"
	HookAgent   HookHandlerType = "agent"
)

func (HookHandlerType) values() []string {
	return names(HookCommand, HookMCPTool, HookPrompt, HookAgent)
}

// HookExecutionMode says whether anything waits for a hook.
type HookExecutionMode string

// Modes of execution.
const (
	HookSync  HookExecutionMode = "sync"
	HookAsync HookExecutionMode = "async"
)

func (HookExecutionMode) values() []string { return names(HookSync, HookAsync) }

// HookScope says what a run belongs to.
type HookScope string

// Scopes of runs.
const (
	HookOfThread HookScope = "thread"
	HookOfTurn   HookScope = "turn"
)

func (HookScope) values() []string { return names(HookOfThread, HookOfTurn) }

// HookSource is where a hook is configured.
type HookSource string

// Sources of hooks.
const (
	HookSourceSystem                  HookSource = "system"
	HookSourceUser                    HookSource = "user"
	HookSourceProject                 HookSource = "project"
	HookSourceMDM                     HookSource = "mdm"
	HookSourceSessionFlags            HookSource = "sessionFlags"
	HookSourcePlugin                  HookSource = "plugin"
	HookSourceCloudRequirements       HookSource = "cloudRequirements"
	HookSourceCloudManagedConfig      HookSource = "cloudManagedConfig"
	HookSourceLegacyManagedConfigFile HookSource = "legacyManagedConfigFile"
	HookSourceLegacyManagedConfigMDM  HookSource = "legacyManagedConfigMdm"
	HookSourceUnknown                 HookSource = "unknown"
)

func (HookSource) values() []string {
	return names(HookSourceSystem, HookSourceUser, HookSourceProject, HookSourceMDM, HookSourceSessionFlags, HookSourcePlugin,
		HookSourceCloudRequirements, HookSourceCloudManagedConfig, HookSourceLegacyManagedConfigFile, HookSourceLegacyManagedConfigMDM,
		HookSourceUnknown)
}

// HookRunStatus is the status of a run.
type HookRunStatus string

// Statuses of runs.
const (
	HookRunning   HookRunStatus = "running"
	HookCompleted HookRunStatus = "completed"
	HookFailed    HookRunStatus = "failed"
	HookBlocked   HookRunStatus = "blocked" // it refused what it ran for
	HookStopped   HookRunStatus = "stopped" // it ended the turn
)

func (HookRunStatus) values() []string {
	return names(HookRunning, HookCompleted, HookFailed, HookBlocked, HookStopped)
}

// HookOutputEntry is something that a hook said.
type HookOutputEntry struct {
	Kind HookOutputEntryKind `json:"kind"`
	Text string              `json:"text"`
}

// HookOutputEntryKind is the kind of a [HookOutputEntry].
type HookOutputEntryKind string

// Kinds of output.
const (
	HookEntryWarning  HookOutputEntryKind = "warning"
	HookEntryStop     HookOutputEntryKind = "stop"
	HookEntryFeedback HookOutputEntryKind = "feedback"
	HookEntryContext  HookOutputEntryKind = "context"
	HookEntryError    HookOutputEntryKind = "error"
)

func (HookOutputEntryKind) values() []string {
	return names(HookEntryWarning, HookEntryStop, HookEntryFeedback, HookEntryContext, HookEntryError)
}
