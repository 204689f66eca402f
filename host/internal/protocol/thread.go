package protocol

// Thread is a conversation.
type Thread struct {
	ID              string            `json:"id"`
	SessionID       string            `json:"sessionId"` // the thread at the root of the tree of threads
	ForkedFromID    *string           `json:"forkedFromId"`
	ParentThreadID  *string           `json:"parentThreadId"`
	Preview         string            `json:"preview"` // beginning of the first user message
	Name            *string           `json:"name"`
	Ephemeral       bool              `json:"ephemeral"`
	HistoryMode     ThreadHistoryMode `json:"historyMode"` // always paginated
	ModelProvider   string            `json:"modelProvider"`
	Model           *string           `json:"model"`
	ReasoningEffort *string           `json:"reasoningEffort"`
	CreatedAt       int64             `json:"createdAt"`
	UpdatedAt       int64             `json:"updatedAt"`
	RecencyAt       *int64            `json:"recencyAt"` // of the last turn
	Status          ThreadStatus      `json:"status"`
	Path            *string           `json:"path"` // always null: threads are in a database
	Cwd             string            `json:"cwd"`
	CLIVersion      string            `json:"cliVersion"`
	Originator      string            `json:"originator"` // clientInfo.name of the client that started it
	Source          SessionSource     `json:"source"`
	ThreadSource    *string           `json:"threadSource"`  // what the client said about why it started the thread
	AgentNickname   *string           `json:"agentNickname"` // of a child thread
	AgentRole       *string           `json:"agentRole"`
	ProjectID       *string           `json:"projectId"` // always null
	GitInfo         *GitInfo          `json:"gitInfo"`
	Turns           []Turn            `json:"turns"` // filled only by methods that say so
}

// GitInfo describes the repository in which a thread works.
type GitInfo struct {
	SHA       *string `json:"sha"`
	Branch    *string `json:"branch"`
	OriginURL *string `json:"originUrl"`
}

// ThreadStatus is what a thread does now.
type ThreadStatus struct{ Body ThreadStatusBody }

// ThreadStatusBody is [NotLoadedStatus], [IdleStatus], [SystemErrorStatus] or [ActiveStatus].
type ThreadStatusBody interface{ variant }

func (s ThreadStatus) MarshalJSON() ([]byte, error)  { return Marshal(s) }
func (s *ThreadStatus) UnmarshalJSON(b []byte) error { return unmarshal(b, s) }
func (ThreadStatus) variants() variants              { return threadStatuses }

var threadStatuses = variantsOf(NotLoadedStatus{}, IdleStatus{}, SystemErrorStatus{}, ActiveStatus{})

// NotLoadedStatus: no process runs the thread.
type NotLoadedStatus struct{}

func (NotLoadedStatus) kind() string { return "notLoaded" }

// IdleStatus: the thread waits for input.
type IdleStatus struct{}

func (IdleStatus) kind() string { return "idle" }

// SystemErrorStatus: the last turn failed.
type SystemErrorStatus struct{}

func (SystemErrorStatus) kind() string { return "systemError" }

// ActiveStatus: a turn is running.
type ActiveStatus struct {
	ActiveFlags []ActiveFlag `json:"activeFlags"`
}

func (ActiveStatus) kind() string { return "active" }

// ActiveFlag says what a running turn waits for.
type ActiveFlag string

// Flags of active threads.
const (
	WaitingOnApproval  ActiveFlag = "waitingOnApproval"
	WaitingOnUserInput ActiveFlag = "waitingOnUserInput"
)

func (ActiveFlag) values() []string { return names(WaitingOnApproval, WaitingOnUserInput) }

// SessionSource is what started a thread.
type SessionSource struct {
	Kind     SourceKind
	Custom   *string         `variant:"custom"`
	SubAgent *SubAgentSource `variant:"subAgent"`
}

func (s SessionSource) MarshalJSON() ([]byte, error)  { return Marshal(s) }
func (s *SessionSource) UnmarshalJSON(b []byte) error { return unmarshal(b, s) }
func (SessionSource) isChoice()                       {}

// SourceKind is the kind of a [SessionSource].
type SourceKind string

// Kinds of sources of threads.
const (
	SourceCLI       SourceKind = "cli"
	SourceVSCode    SourceKind = "vscode" // an editor; clients of the app server are recorded as this
	SourceExec      SourceKind = "exec"
	SourceAppServer SourceKind = "appServer"
	SourceUnknown   SourceKind = "unknown"
	SourceCustom    SourceKind = "custom"
	SourceSubAgent  SourceKind = "subAgent"
)

func (SourceKind) values() []string {
	return names(SourceCLI, SourceVSCode, SourceExec, SourceAppServer, SourceUnknown, SourceCustom, SourceSubAgent)
}

// SubAgentSource is why an agent started another one.
type SubAgentSource struct {
	Kind        SubAgentKind
	ThreadSpawn *ThreadSpawnSource `variant:"thread_spawn"`
	Other       *string            `variant:"other"`
}

func (s SubAgentSource) MarshalJSON() ([]byte, error)  { return Marshal(s) }
func (s *SubAgentSource) UnmarshalJSON(b []byte) error { return unmarshal(b, s) }
func (SubAgentSource) isChoice()                       {}

// SubAgentKind is the kind of a [SubAgentSource].
type SubAgentKind string

// Kinds of agents that agents start.
const (
	SubAgentReview              SubAgentKind = "review"
	SubAgentCompact             SubAgentKind = "compact"
	SubAgentMemoryConsolidation SubAgentKind = "memory_consolidation"
	SubAgentThreadSpawn         SubAgentKind = "thread_spawn"
	SubAgentOther               SubAgentKind = "other"
)

func (SubAgentKind) values() []string {
	return names(SubAgentReview, SubAgentCompact, SubAgentMemoryConsolidation, SubAgentThreadSpawn, SubAgentOther)
}

// ThreadSpawnSource is the parent of a child thread.
type ThreadSpawnSource struct {
	ParentThreadID string  `json:"parent_thread_id"`
	Depth          int32   `json:"depth"`
	AgentPath      *string `json:"agent_path"`
	AgentNickname  *string `json:"agent_nickname"`
	AgentRole      *string `json:"agent_role"`
}
