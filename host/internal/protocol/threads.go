package protocol

import (
	"encoding/json"
	"reflect"
)

// ThreadOverrides are the settings that a request may give a thread. An absent field keeps the configuration's value, or that of the
// resumed or forked thread.
type ThreadOverrides struct {
	Model                 *string                    `json:"model,omitempty"`
	ModelProvider         *string                    `json:"modelProvider,omitempty"`
	ServiceTier           Nullable[string]           `json:"serviceTier,omitzero"`
	Cwd                   *string                    `json:"cwd,omitempty"`
	RuntimeWorkspaceRoots []string                   `json:"runtimeWorkspaceRoots,omitzero" experimental:"true"`
	ApprovalPolicy        *AskForApproval            `json:"approvalPolicy,omitempty"`
	ApprovalsReviewer     *ApprovalsReviewer         `json:"approvalsReviewer,omitempty"`
	Sandbox               *SandboxMode               `json:"sandbox,omitempty"`
	Permissions           *string                    `json:"permissions,omitempty" experimental:"true"` // id of a profile; excludes Sandbox
	Config                map[string]json.RawMessage `json:"config,omitempty"`                          // settings by key path
	BaseInstructions      *string                    `json:"baseInstructions,omitempty"`
	DeveloperInstructions *string                    `json:"developerInstructions,omitempty"`
}

// ThreadStartParams are the parameters of thread/start.
type ThreadStartParams struct {
	ThreadOverrides
	Personality                *Personality       `json:"personality,omitempty"`
	Ephemeral                  *bool              `json:"ephemeral,omitempty"` // it is not stored
	HistoryMode                *ThreadHistoryMode `json:"historyMode,omitempty" experimental:"true"`
	SessionStartSource         *ThreadStartSource `json:"sessionStartSource,omitempty"`
	ThreadSource               *string            `json:"threadSource,omitempty"`
	ServiceName                *string            `json:"serviceName,omitempty"`
	ProjectID                  *string            `json:"projectId,omitempty" experimental:"true"`
	Environments               []Environment      `json:"environments,omitzero" experimental:"true"`
	DynamicTools               []DynamicToolSpec  `json:"dynamicTools,omitempty" experimental:"true"`
	MultiAgentMode             *MultiAgentMode    `json:"multiAgentMode,omitempty" experimental:"true"`
	AllowProviderModelFallback bool               `json:"allowProviderModelFallback,omitempty" experimental:"true"`
	ExperimentalRawEvents      bool               `json:"experimentalRawEvents,omitempty" experimental:"true"`
}

// ThreadHistoryMode says how a history is stored.
type ThreadHistoryMode string

// Modes of history.
const (
	HistoryLegacy    ThreadHistoryMode = "legacy"
	HistoryPaginated ThreadHistoryMode = "paginated"
)

func (ThreadHistoryMode) values() []string { return names(HistoryLegacy, HistoryPaginated) }

// ThreadStartSource says why a thread is started.
type ThreadStartSource string

// Reasons for starting a thread.
const (
	StartStartup ThreadStartSource = "startup"
	StartClear   ThreadStartSource = "clear" // the user cleared another thread
)

func (ThreadStartSource) values() []string { return names(StartStartup, StartClear) }

// DynamicToolSpec is a tool that the client implements, or a namespace of such tools.
type DynamicToolSpec struct{ Body DynamicTool }

// DynamicTool is [DynamicFunction] or [DynamicNamespace].
type DynamicTool interface{ variant }

func (s DynamicToolSpec) MarshalJSON() ([]byte, error)  { return Marshal(s) }
func (s *DynamicToolSpec) UnmarshalJSON(b []byte) error { return unmarshal(b, s) }
func (DynamicToolSpec) variants() variants              { return dynamicTools }

var dynamicTools = variantsOf(DynamicFunction{}, DynamicNamespace{})

// DynamicFunction is a tool.
type DynamicFunction struct {
	Name         string          `json:"name"`
	Description  string          `json:"description"`
	InputSchema  json.RawMessage `json:"inputSchema"`
	DeferLoading bool            `json:"deferLoading,omitempty"` // the model has to search for it
}

func (DynamicFunction) kind() string { return "function" }

// DynamicNamespace is a group of tools.
type DynamicNamespace struct {
	Name        string                     `json:"name"`
	Description string                     `json:"description"`
	Tools       []DynamicToolNamespaceTool `json:"tools"`
}

func (DynamicNamespace) kind() string { return "namespace" }

// DynamicToolNamespaceTool is a tool in a namespace.
type DynamicToolNamespaceTool struct{ Body NamespaceTool }

// NamespaceTool is [DynamicFunction].
type NamespaceTool interface{ variant }

func (s DynamicToolNamespaceTool) MarshalJSON() ([]byte, error)  { return Marshal(s) }
func (s *DynamicToolNamespaceTool) UnmarshalJSON(b []byte) error { return unmarshal(b, s) }
func (DynamicToolNamespaceTool) variants() variants              { return namespaceTools }

var namespaceTools = variantsOf(DynamicFunction{})

// ThreadStartResponse is the result of thread/start.
type ThreadStartResponse struct {
	Thread                  Thread                   `json:"thread"`
	Model                   string                   `json:"model"`
	ModelProvider           string                   `json:"modelProvider"`
	ServiceTier             *string                  `json:"serviceTier"`
	DisabledPluginIDs       []string                 `json:"disabledPluginIds"`
	Cwd                     string                   `json:"cwd"`
	RuntimeWorkspaceRoots   []string                 `json:"runtimeWorkspaceRoots" experimental:"true"`
	InstructionSources      []string                 `json:"instructionSources"` // files such as AGENTS.md
	ApprovalPolicy          AskForApproval           `json:"approvalPolicy"`
	ApprovalsReviewer       ApprovalsReviewer        `json:"approvalsReviewer"`
	Sandbox                 SandboxPolicy            `json:"sandbox"`
	ActivePermissionProfile *ActivePermissionProfile `json:"activePermissionProfile" experimental:"true"`
	ReasoningEffort         *string                  `json:"reasoningEffort"`
	MultiAgentMode          *MultiAgentMode          `json:"multiAgentMode,omitempty" experimental:"true"`
}

// ThreadResumeParams are the parameters of thread/resume.
type ThreadResumeParams struct {
	ThreadID string `json:"threadId"`
	ThreadOverrides
	Personality      *Personality                        `json:"personality,omitempty"`
	History          []json.RawMessage                   `json:"history,omitzero" experimental:"true"`
	Path             *string                             `json:"path,omitempty" experimental:"true"`
	ExcludeTurns     bool                                `json:"excludeTurns,omitempty"`
	InitialTurnsPage *ThreadResumeInitialTurnsPageParams `json:"initialTurnsPage,omitempty" experimental:"true"`
	// AfterSeq is the number of the last notification that the client has of this thread: those after it are sent again. An addition of
	// gantry.
	AfterSeq *uint64 `json:"afterSeq,omitempty"`
	// AfterPart is the member part of that notification: others with the same number follow it. 0: it has none.
	AfterPart int `json:"afterPart,omitempty"`
}

// ThreadResumeInitialTurnsPageParams select the turns in the response to thread/resume.
type ThreadResumeInitialTurnsPageParams struct {
	Limit         *uint32        `json:"limit,omitempty"`
	SortDirection *SortDirection `json:"sortDirection,omitempty"`
	ItemsView     *TurnItemsView `json:"itemsView,omitempty"`
}

// ThreadResumeResponse is the result of thread/resume.
type ThreadResumeResponse struct {
	ThreadStartResponse
	CollaborationMode    *CollaborationMode `json:"collaborationMode"`
	InitialTurnsPage     *TurnsPage         `json:"initialTurnsPage" experimental:"true"`
	TurnsBackwardsCursor *string            `json:"turnsBackwardsCursor"`
	ItemsBackwardsCursor *string            `json:"itemsBackwardsCursor"`
	// Seq is the number of the last event that the response contains. An addition of gantry.
	Seq *uint64 `json:"seq,omitempty"`
}

// TurnsPage is a page of turns.
type TurnsPage struct {
	Data            []Turn  `json:"data"`
	NextCursor      *string `json:"nextCursor"`
	BackwardsCursor *string `json:"backwardsCursor"`
}

// ThreadForkParams are the parameters of thread/fork. LastTurnID and BeforeTurnID exclude each other; without both, the whole history is
// copied.
type ThreadForkParams struct {
	ThreadID string `json:"threadId"`
	ThreadOverrides
	LastTurnID            *string `json:"lastTurnId,omitempty"`                       // the last turn of the copy
	BeforeTurnID          *string `json:"beforeTurnId,omitempty" experimental:"true"` // the first turn that is not copied
	Path                  *string `json:"path,omitempty" experimental:"true"`
	Ephemeral             bool    `json:"ephemeral,omitempty"`
	ExcludeTurns          bool    `json:"excludeTurns,omitempty"`
	ThreadSource          *string `json:"threadSource,omitempty"`
	AttachToSource        bool    `json:"attachToSource,omitempty" experimental:"true"`
	DeferGoalContinuation bool    `json:"deferGoalContinuation,omitempty" experimental:"true"`
}

// ThreadForkResponse is the result of thread/fork.
type ThreadForkResponse struct {
	ThreadStartResponse
	TurnsBackwardsCursor *string `json:"turnsBackwardsCursor"`
	ItemsBackwardsCursor *string `json:"itemsBackwardsCursor"`
	// Seq is the number of the last event that the response contains. An addition of gantry.
	Seq *uint64 `json:"seq,omitempty"`
}

// ThreadListParams are the parameters of thread/list.
type ThreadListParams struct {
	Page
	SortKey            *ThreadSortKey       `json:"sortKey,omitempty"`       // default: created_at
	SortDirection      *SortDirection       `json:"sortDirection,omitempty"` // default: desc
	Archived           *bool                `json:"archived,omitempty"`
	Cwd                *ThreadListCwdFilter `json:"cwd,omitempty"`
	ModelProviders     []string             `json:"modelProviders,omitzero"` // empty or absent: all
	SourceKinds        []ThreadSourceKind   `json:"sourceKinds,omitzero"`    // empty or absent: interactive ones
	Originators        []string             `json:"originators,omitzero"`
	SearchTerm         *string              `json:"searchTerm,omitempty"` // in the name or the preview
	ParentThreadID     *string              `json:"parentThreadId,omitempty" experimental:"true"`
	AncestorThreadID   *string              `json:"ancestorThreadId,omitempty" experimental:"true"`
	AttachedToThreadID *string              `json:"attachedToThreadId,omitempty" experimental:"true"`
	IncludeAttached    bool                 `json:"includeAttachedThreads,omitempty" experimental:"true"`
	SectionID          *string              `json:"sectionId,omitempty"`
	ProjectID          *string              `json:"projectId,omitempty" experimental:"true"`
	ExcludedThreadIDs  []string             `json:"excludedThreadIds,omitzero"`
	UseStateDBOnly     bool                 `json:"useStateDbOnly,omitempty"`
	CurrentAccountOnly bool                 `json:"currentAccountOnly,omitempty"`
}

// ThreadSortKey is what threads are sorted by.
type ThreadSortKey string

// Keys.
const (
	SortByCreatedAt       ThreadSortKey = "created_at"
	SortByUpdatedAt       ThreadSortKey = "updated_at"
	SortByRecencyAt       ThreadSortKey = "recency_at"
	SortBySectionPosition ThreadSortKey = "section_position"
)

func (ThreadSortKey) values() []string {
	return names(SortByCreatedAt, SortByUpdatedAt, SortByRecencyAt, SortBySectionPosition)
}

// ThreadListCwdFilter is a folder, or a list of folders: threads in any of them.
type ThreadListCwdFilter []string

func (f ThreadListCwdFilter) MarshalJSON() ([]byte, error) {
	if len(f) == 1 {
		return json.Marshal(f[0])
	}
	return json.Marshal([]string(f))
}

func (f *ThreadListCwdFilter) UnmarshalJSON(b []byte) error {
	var one string
	if json.Unmarshal(b, &one) == nil {
		*f = ThreadListCwdFilter{one}
		return nil
	}
	return json.Unmarshal(b, (*[]string)(f))
}

func (ThreadListCwdFilter) forms() []reflect.Type {
	return []reflect.Type{reflect.TypeFor[string](), reflect.TypeFor[[]string]()}
}

// ThreadSourceKind is a kind of [SessionSource].
type ThreadSourceKind string

// Kinds of sources.
const (
	SourceKindCLI                 ThreadSourceKind = "cli"
	SourceKindVSCode              ThreadSourceKind = "vscode"
	SourceKindExec                ThreadSourceKind = "exec"
	SourceKindAppServer           ThreadSourceKind = "appServer"
	SourceKindSubAgent            ThreadSourceKind = "subAgent"
	SourceKindSubAgentReview      ThreadSourceKind = "subAgentReview"
	SourceKindSubAgentCompact     ThreadSourceKind = "subAgentCompact"
	SourceKindSubAgentThreadSpawn ThreadSourceKind = "subAgentThreadSpawn"
	SourceKindSubAgentOther       ThreadSourceKind = "subAgentOther"
	SourceKindUnknown             ThreadSourceKind = "unknown"
)

func (ThreadSourceKind) values() []string {
	return names(SourceKindCLI, SourceKindVSCode, SourceKindExec, SourceKindAppServer, SourceKindSubAgent, SourceKindSubAgentReview,
		SourceKindSubAgentCompact, SourceKindSubAgentThreadSpawn, SourceKindSubAgentOther, SourceKindUnknown)
}

// ThreadListResponse is the result of thread/list.
type ThreadListResponse struct {
	Data            []Thread                   `json:"data"`
	ReadStates      map[string]ThreadReadState `json:"readStates,omitempty" experimental:"true"` // by thread
	NextCursor      *string                    `json:"nextCursor"`
	BackwardsCursor *string                    `json:"backwardsCursor"`
}

// ThreadReadState says how far the user has read a thread.
type ThreadReadState struct {
	FirstUnread *ThreadUnreadPosition `json:"firstUnread"` // null: all is read
	Revision    string                `json:"revision"`
}

// ThreadUnreadPosition is a place in a thread.
type ThreadUnreadPosition struct{ Body UnreadPosition }

// UnreadPosition is [UnreadThreadStart] or [UnreadTurn].
type UnreadPosition interface{ variant }

func (p ThreadUnreadPosition) MarshalJSON() ([]byte, error)  { return Marshal(p) }
func (p *ThreadUnreadPosition) UnmarshalJSON(b []byte) error { return unmarshal(b, p) }
func (ThreadUnreadPosition) variants() variants              { return unreadPositions }

var unreadPositions = variantsOf(UnreadThreadStart{}, UnreadTurn{})

// UnreadThreadStart is the beginning of the thread.
type UnreadThreadStart struct{}

func (UnreadThreadStart) kind() string { return "threadStart" }

// UnreadTurn is a turn.
type UnreadTurn struct {
	TurnID string `json:"turnId"`
}

func (UnreadTurn) kind() string { return "turn" }

// ThreadReadStateUpdateParams are the parameters of thread/readState/update.
type ThreadReadStateUpdateParams struct {
	ThreadID         string                   `json:"threadId"`
	Operation        ThreadReadStateOperation `json:"operation"`
	ExpectedRevision string                   `json:"expectedRevision"`
}

// ThreadReadStateOperation marks a thread as read or unread.
type ThreadReadStateOperation struct{ Body ReadStateOperation }

// ReadStateOperation is [MarkRead] or [MarkUnread].
type ReadStateOperation interface{ variant }

func (o ThreadReadStateOperation) MarshalJSON() ([]byte, error)  { return Marshal(o) }
func (o *ThreadReadStateOperation) UnmarshalJSON(b []byte) error { return unmarshal(b, o) }
func (ThreadReadStateOperation) variants() variants              { return readStateOperations }

var readStateOperations = variantsOf(MarkRead{}, MarkUnread{})

// MarkRead marks a thread as read.
type MarkRead struct{}

func (MarkRead) kind() string { return "read" }

// MarkUnread marks a thread as unread.
type MarkUnread struct{}

func (MarkUnread) kind() string { return "unread" }

// ThreadReadStateUpdateResponse is the result of thread/readState/update.
type ThreadReadStateUpdateResponse struct {
	ReadState ThreadReadState `json:"readState"`
}

// ThreadLoadedListParams are the parameters of thread/loaded/list.
type ThreadLoadedListParams struct{ Page }

// ThreadLoadedListResponse is the result of thread/loaded/list.
type ThreadLoadedListResponse struct {
	Data       []string `json:"data"` // ids, sorted
	NextCursor *string  `json:"nextCursor"`
}

// ThreadReadParams are the parameters of thread/read.
type ThreadReadParams struct {
	ThreadID     string `json:"threadId"`
	IncludeTurns bool   `json:"includeTurns,omitempty"`
}

// ThreadReadResponse is the result of thread/read.
type ThreadReadResponse struct {
	Thread    Thread           `json:"thread"`
	ReadState *ThreadReadState `json:"readState,omitempty" experimental:"true"`
}

// ThreadTurnsListParams are the parameters of thread/turns/list.
type ThreadTurnsListParams struct {
	ThreadID string `json:"threadId"`
	Page
	SortDirection *SortDirection `json:"sortDirection,omitempty"` // default: desc
	ItemsView     *TurnItemsView `json:"itemsView,omitempty"`     // default: summary
}

// ThreadTurnsListResponse is the result of thread/turns/list.
type ThreadTurnsListResponse TurnsPage

// ThreadItemsListParams are the parameters of thread/items/list.
type ThreadItemsListParams struct {
	ThreadID      string                    `json:"threadId"`
	TurnID        *string                   `json:"turnId,omitempty"`
	Cursor        *ThreadItemsListCursor    `json:"cursor,omitempty"`
	Limit         *uint32                   `json:"limit,omitempty"`
	SortDirection *SortDirection            `json:"sortDirection,omitempty"` // default: asc
	DeferOutput   *ThreadItemOutputDeferral `json:"deferOutput,omitempty"`
}

// ThreadItemsListCursor is the cursor of an earlier page, or an item at which the page begins.
type ThreadItemsListCursor struct {
	Cursor string
	Anchor *ThreadItemsListAnchor // if it is set, Cursor is empty
}

func (c ThreadItemsListCursor) MarshalJSON() ([]byte, error) {
	if c.Anchor != nil {
		return Marshal(c.Anchor)
	}
	return json.Marshal(c.Cursor)
}

func (c *ThreadItemsListCursor) UnmarshalJSON(b []byte) error {
	*c = ThreadItemsListCursor{}
	if json.Unmarshal(b, &c.Cursor) == nil {
		return nil
	}
	return json.Unmarshal(b, &c.Anchor)
}

func (ThreadItemsListCursor) forms() []reflect.Type {
	return []reflect.Type{reflect.TypeFor[string](), reflect.TypeFor[ThreadItemsListAnchor]()}
}

// ThreadItemsListAnchor is a place in a list of items.
type ThreadItemsListAnchor struct{ Body ItemsListAnchor }

// ItemsListAnchor is [ItemAnchor].
type ItemsListAnchor interface{ variant }

func (a ThreadItemsListAnchor) MarshalJSON() ([]byte, error)  { return Marshal(a) }
func (a *ThreadItemsListAnchor) UnmarshalJSON(b []byte) error { return unmarshal(b, a) }
func (ThreadItemsListAnchor) variants() variants              { return itemsListAnchors }

var itemsListAnchors = variantsOf(ItemAnchor{})

// ItemAnchor is an item.
type ItemAnchor struct {
	ItemID string `json:"itemId"`
}

func (ItemAnchor) kind() string { return "item" }

// ThreadItemOutputDeferral says whose output is left out of items.
type ThreadItemOutputDeferral struct {
	CommandExecution bool `json:"commandExecution,omitempty" experimental:"true"`
	MCPToolCall      bool `json:"mcpToolCall,omitempty" experimental:"true"`
}

// ThreadItemsListResponse is the result of thread/items/list.
type ThreadItemsListResponse struct {
	Data            []ThreadItemEntry `json:"data"`
	NextCursor      *string           `json:"nextCursor"`
	BackwardsCursor *string           `json:"backwardsCursor"`
}

// ThreadItemEntry is an item and its turn.
type ThreadItemEntry struct {
	TurnID         string     `json:"turnId"`
	Item           ThreadItem `json:"item"`
	OutputDeferred bool       `json:"outputDeferred,omitempty" experimental:"true"` // thread/items/read has the output
	StartedAtMs    *int64     `json:"startedAtMs"`
	CompletedAtMs  *int64     `json:"completedAtMs"`
}

// ThreadItemsReadParams are the parameters of thread/items/read.
type ThreadItemsReadParams struct {
	ThreadID string   `json:"threadId"`
	TurnID   string   `json:"turnId"`
	ItemIDs  []string `json:"itemIds"`
}

// ThreadItemsReadResponse is the result of thread/items/read.
type ThreadItemsReadResponse struct {
	Data []ThreadItemEntry `json:"data"`
}

// ThreadArchiveParams are the parameters of thread/archive.
type ThreadArchiveParams struct {
	ThreadID string `json:"threadId"`
}

// ThreadArchiveResponse is the result of thread/archive.
type ThreadArchiveResponse struct{}

// ThreadUnarchiveParams are the parameters of thread/unarchive.
type ThreadUnarchiveParams struct {
	ThreadID string `json:"threadId"`
}

// ThreadUnarchiveResponse is the result of thread/unarchive.
type ThreadUnarchiveResponse struct {
	Thread Thread `json:"thread"`
}

// ThreadDeleteParams are the parameters of thread/delete.
type ThreadDeleteParams struct {
	ThreadID string `json:"threadId"`
}

// ThreadDeleteResponse is the result of thread/delete.
type ThreadDeleteResponse struct{}

// ThreadRevertParams are the parameters of thread/revert, which drops a turn and all later ones.
type ThreadRevertParams struct {
	ThreadID     string `json:"threadId"`
	BeforeTurnID string `json:"beforeTurnId"`
}

// ThreadRevertResponse is the result of thread/revert.
type ThreadRevertResponse struct {
	Thread               Thread  `json:"thread"`
	TurnsBackwardsCursor *string `json:"turnsBackwardsCursor"`
	ItemsBackwardsCursor *string `json:"itemsBackwardsCursor"`
}

// ThreadCompactStartParams are the parameters of thread/compact/start.
type ThreadCompactStartParams struct {
	ThreadID string `json:"threadId"`
}

// ThreadCompactStartResponse is the result of thread/compact/start.
type ThreadCompactStartResponse struct{}

// ThreadSetNameParams are the parameters of thread/name/set.
type ThreadSetNameParams struct {
	ThreadID string `json:"threadId"`
	Name     string `json:"name"`
}

// ThreadSetNameResponse is the result of thread/name/set.
type ThreadSetNameResponse struct{}

// ThreadMetadataUpdateParams are the parameters of thread/metadata/update. Null clears a field.
type ThreadMetadataUpdateParams struct {
	ThreadID  string                             `json:"threadId"`
	GitInfo   *ThreadMetadataGitInfoUpdateParams `json:"gitInfo,omitempty"`
	ProjectID Nullable[string]                   `json:"projectId,omitzero" experimental:"true"`
}

// ThreadMetadataGitInfoUpdateParams change a [GitInfo].
type ThreadMetadataGitInfoUpdateParams struct {
	SHA       Nullable[string] `json:"sha,omitzero"`
	Branch    Nullable[string] `json:"branch,omitzero"`
	OriginURL Nullable[string] `json:"originUrl,omitzero"`
}

// ThreadMetadataUpdateResponse is the result of thread/metadata/update.
type ThreadMetadataUpdateResponse struct {
	Thread Thread `json:"thread"`
}

// ThreadUnsubscribeParams are the parameters of thread/unsubscribe.
type ThreadUnsubscribeParams struct {
	ThreadID string `json:"threadId"`
}

// ThreadUnsubscribeResponse is the result of thread/unsubscribe.
type ThreadUnsubscribeResponse struct {
	Status ThreadUnsubscribeStatus `json:"status"`
}

// ThreadUnsubscribeStatus says what thread/unsubscribe did.
type ThreadUnsubscribeStatus string

// Outcomes of thread/unsubscribe.
const (
	Unsubscribed         ThreadUnsubscribeStatus = "unsubscribed"
	NotSubscribed        ThreadUnsubscribeStatus = "notSubscribed"
	UnsubscribeNotLoaded ThreadUnsubscribeStatus = "notLoaded"
)

func (ThreadUnsubscribeStatus) values() []string {
	return names(Unsubscribed, NotSubscribed, UnsubscribeNotLoaded)
}

// ThreadSettingsUpdateParams are the parameters of thread/settings/update. Absent fields stay as they are.
type ThreadSettingsUpdateParams struct {
	ThreadID          string             `json:"threadId"`
	Cwd               *string            `json:"cwd,omitempty"`
	ApprovalPolicy    *AskForApproval    `json:"approvalPolicy,omitempty"`
	ApprovalsReviewer *ApprovalsReviewer `json:"approvalsReviewer,omitempty"`
	SandboxPolicy     *SandboxPolicy     `json:"sandboxPolicy,omitempty"`
	Permissions       *string            `json:"permissions,omitempty"`
	Model             *string            `json:"model,omitempty"`
	ServiceTier       Nullable[string]   `json:"serviceTier,omitzero"`
	Effort            Nullable[string]   `json:"effort,omitzero"`
	Summary           *ReasoningSummary  `json:"summary,omitempty"`
	CollaborationMode *CollaborationMode `json:"collaborationMode,omitempty"`
	MultiAgentMode    *MultiAgentMode    `json:"multiAgentMode,omitempty"`
	Personality       *Personality       `json:"personality,omitempty"`
	DisabledPluginIDs []string           `json:"disabledPluginIds,omitzero"`
	Environments      []Environment      `json:"environments,omitzero"`
}

// ThreadSettingsUpdateResponse is the result of thread/settings/update.
type ThreadSettingsUpdateResponse struct{}

// ThreadInjectItemsParams are the parameters of thread/inject_items.
type ThreadInjectItemsParams struct {
	ThreadID string            `json:"threadId"`
	Items    []json.RawMessage `json:"items"`
}

// ThreadInjectItemsResponse is the result of thread/inject_items.
type ThreadInjectItemsResponse struct{}

// ThreadShellCommandParams are the parameters of thread/shellCommand, which runs a command of the user outside the sandbox.
type ThreadShellCommandParams struct {
	ThreadID  string `json:"threadId"`
	Command   string `json:"command"`
	TimeoutMs *int64 `json:"timeoutMs,omitempty"`
}

// ThreadShellCommandResponse is the result of thread/shellCommand.
type ThreadShellCommandResponse struct{}

// ThreadBackgroundTerminalsListParams are the parameters of thread/backgroundTerminals/list.
type ThreadBackgroundTerminalsListParams struct {
	ThreadID string `json:"threadId"`
	Page
}

// ThreadBackgroundTerminalsListResponse is the result of thread/backgroundTerminals/list.
type ThreadBackgroundTerminalsListResponse struct {
	Data       []ThreadBackgroundTerminal `json:"data"`
	NextCursor *string                    `json:"nextCursor"`
}

// ThreadBackgroundTerminal is a process that runs after the call that started it.
type ThreadBackgroundTerminal struct {
	ItemID     string   `json:"itemId"`
	ProcessID  string   `json:"processId"`
	Command    string   `json:"command"`
	Cwd        string   `json:"cwd"`
	OSPid      *uint32  `json:"osPid"`
	CPUPercent *float64 `json:"cpuPercent"` // since its start, with its descendants, as RSSKb; null: this system does not tell
	RSSKb      *uint64  `json:"rssKb"`      // resident memory in KiB
}

// ThreadBackgroundTerminalsTerminateParams are the parameters of thread/backgroundTerminals/terminate.
type ThreadBackgroundTerminalsTerminateParams struct {
	ThreadID  string `json:"threadId"`
	ProcessID string `json:"processId"`
}

// ThreadBackgroundTerminalsTerminateResponse is the result of thread/backgroundTerminals/terminate.
type ThreadBackgroundTerminalsTerminateResponse struct {
	Terminated bool `json:"terminated"`
}

// ThreadBackgroundTerminalsCleanParams are the parameters of thread/backgroundTerminals/clean, which ends all.
type ThreadBackgroundTerminalsCleanParams struct {
	ThreadID string `json:"threadId"`
}

// ThreadBackgroundTerminalsCleanResponse is the result of thread/backgroundTerminals/clean.
type ThreadBackgroundTerminalsCleanResponse struct{}

// ThreadSearchParams are the parameters of thread/search.
type ThreadSearchParams struct {
	SearchTerm string `json:"searchTerm"`
	Page
	SortKey            *ThreadSearchSortKey `json:"sortKey,omitempty"`
	SortDirection      *SortDirection       `json:"sortDirection,omitempty"`
	Archived           *bool                `json:"archived,omitempty"`
	SourceKinds        []ThreadSourceKind   `json:"sourceKinds,omitzero"`
	CurrentAccountOnly bool                 `json:"currentAccountOnly,omitempty"`
	IncludeAttached    bool                 `json:"includeAttachedThreads,omitempty"`
}

// ThreadSearchSortKey is what found threads are sorted by.
type ThreadSearchSortKey string

func (ThreadSearchSortKey) values() []string {
	return names(SortByCreatedAt, SortByUpdatedAt, SortByRecencyAt)
}

// ThreadSearchResponse is the result of thread/search.
type ThreadSearchResponse struct {
	Data            []ThreadSearchResult `json:"data"`
	NextCursor      *string              `json:"nextCursor"`
	BackwardsCursor *string              `json:"backwardsCursor"`
}

// ThreadSearchResult is a thread in which the term occurs.
type ThreadSearchResult struct {
	Thread  Thread `json:"thread"`
	Snippet string `json:"snippet"`
}

// ThreadSearchOccurrencesParams are the parameters of thread/searchOccurrences.
type ThreadSearchOccurrencesParams struct {
	ThreadID   string `json:"threadId"`
	SearchTerm string `json:"searchTerm"`
	Page
}

// ThreadSearchOccurrencesResponse is the result of thread/searchOccurrences.
type ThreadSearchOccurrencesResponse struct {
	Data       []ThreadSearchOccurrence `json:"data"`
	NextCursor *string                  `json:"nextCursor"`
}

// ThreadSearchOccurrence is a place where the term occurs.
type ThreadSearchOccurrence struct {
	TurnID            string                `json:"turnId"`
	ItemID            string                `json:"itemId"`
	Snippet           string                `json:"snippet"`
	SnippetMatchRange ThreadSearchTextRange `json:"snippetMatchRange"`
	TurnCursor        string                `json:"turnCursor"` // for thread/turns/list
}

// ThreadSearchTextRange is a half-open range of UTF-16 code units.
type ThreadSearchTextRange struct {
	Start uint32 `json:"start"`
	End   uint32 `json:"end"`
}

// QueuedSubmission is a user's input that waits for its turn.
type QueuedSubmission struct {
	ID                         string            `json:"id"`
	ClientUserMessageID        string            `json:"clientUserMessageId"`
	Input                      []UserInput       `json:"input"`
	ResponsesAPIClientMetadata map[string]string `json:"responsesapiClientMetadata,omitempty"`
}

// ThreadQueueAddParams are the parameters of thread/queue/add.
type ThreadQueueAddParams struct {
	ThreadID                   string            `json:"threadId"`
	Input                      []UserInput       `json:"input"`
	ClientUserMessageID        string            `json:"clientUserMessageId"`
	ResponsesAPIClientMetadata map[string]string `json:"responsesapiClientMetadata,omitempty"`
}

// ThreadQueueAddResponse is the result of thread/queue/add.
type ThreadQueueAddResponse struct {
	QueuedSubmission QueuedSubmission `json:"queuedSubmission"`
}

// ThreadQueueListParams are the parameters of thread/queue/list.
type ThreadQueueListParams struct {
	ThreadID string `json:"threadId"`
	Page
}

// ThreadQueueListResponse is the result of thread/queue/list.
type ThreadQueueListResponse struct {
	Data       []QueuedSubmission `json:"data"`
	NextCursor *string            `json:"nextCursor"`
}

// ThreadQueueUpdateParams are the parameters of thread/queue/update.
type ThreadQueueUpdateParams struct {
	ThreadID                   string            `json:"threadId"`
	QueuedSubmissionID         string            `json:"queuedSubmissionId"`
	Input                      []UserInput       `json:"input"`
	ResponsesAPIClientMetadata map[string]string `json:"responsesapiClientMetadata,omitempty"`
}

// ThreadQueueUpdateResponse is the result of thread/queue/update.
type ThreadQueueUpdateResponse struct {
	QueuedSubmission QueuedSubmission `json:"queuedSubmission"`
}

// ThreadQueueDeleteParams are the parameters of thread/queue/delete.
type ThreadQueueDeleteParams struct {
	ThreadID           string `json:"threadId"`
	QueuedSubmissionID string `json:"queuedSubmissionId"`
}

// ThreadQueueDeleteResponse is the result of thread/queue/delete.
type ThreadQueueDeleteResponse struct {
	Deleted bool `json:"deleted"` // false: it was not in the queue
}

// ThreadQueueReorderParams are the parameters of thread/queue/reorder.
type ThreadQueueReorderParams struct {
	ThreadID            string   `json:"threadId"`
	QueuedSubmissionIDs []string `json:"queuedSubmissionIds"` // all, in the new order
}

// ThreadQueueReorderResponse is the result of thread/queue/reorder.
type ThreadQueueReorderResponse struct{}

// ThreadQueueStartParams are the parameters of thread/queue/start.
type ThreadQueueStartParams struct {
	ThreadID           string  `json:"threadId"`
	QueuedSubmissionID *string `json:"queuedSubmissionId,omitempty"` // default: the first
}

// ThreadQueueStartResponse is the result of thread/queue/start.
type ThreadQueueStartResponse struct {
	Turn Turn `json:"turn"`
}

// ThreadGoal is what a thread is to reach.
type ThreadGoal struct {
	ThreadID        string           `json:"threadId"`
	Objective       string           `json:"objective"`
	Status          ThreadGoalStatus `json:"status"`
	TokenBudget     *int64           `json:"tokenBudget"`
	TokensUsed      int64            `json:"tokensUsed"`
	TimeUsedSeconds int64            `json:"timeUsedSeconds"`
	CreatedAt       int64            `json:"createdAt"`
	UpdatedAt       int64            `json:"updatedAt"`
}

// ThreadGoalStatus is the status of a goal.
type ThreadGoalStatus string

// Statuses of goals.
const (
	GoalActive        ThreadGoalStatus = "active"
	GoalPaused        ThreadGoalStatus = "paused"
	GoalBlocked       ThreadGoalStatus = "blocked"
	GoalUsageLimited  ThreadGoalStatus = "usageLimited"
	GoalBudgetLimited ThreadGoalStatus = "budgetLimited"
	GoalComplete      ThreadGoalStatus = "complete"
)

func (ThreadGoalStatus) values() []string {
	return names(GoalActive, GoalPaused, GoalBlocked, GoalUsageLimited, GoalBudgetLimited, GoalComplete)
}

// ThreadGoalSetParams are the parameters of thread/goal/set.
type ThreadGoalSetParams struct {
	ThreadID    string            `json:"threadId"`
	Objective   *string           `json:"objective,omitempty"`
	Status      *ThreadGoalStatus `json:"status,omitempty"`
	TokenBudget *int64            `json:"tokenBudget,omitempty"`
}

// ThreadGoalSetResponse is the result of thread/goal/set.
type ThreadGoalSetResponse struct {
	Goal ThreadGoal `json:"goal"`
}

// ThreadGoalGetParams are the parameters of thread/goal/get.
type ThreadGoalGetParams struct {
	ThreadID string `json:"threadId"`
}

// ThreadGoalGetResponse is the result of thread/goal/get.
type ThreadGoalGetResponse struct {
	Goal *ThreadGoal `json:"goal"` // null: there is none
}

// ThreadGoalClearParams are the parameters of thread/goal/clear.
type ThreadGoalClearParams struct {
	ThreadID string `json:"threadId"`
}

// ThreadGoalClearResponse is the result of thread/goal/clear.
type ThreadGoalClearResponse struct {
	Cleared bool `json:"cleared"` // false: there was none
}
