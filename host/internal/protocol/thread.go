package protocol

// Thread is a conversation.
type Thread struct {
	ID              string       `json:"id"`
	SessionID       string       `json:"sessionId"` // the thread at the root of the tree of threads
	ForkedFromID    *string      `json:"forkedFromId"`
	ParentThreadID  *string      `json:"parentThreadId"`
	Preview         string       `json:"preview"` // beginning of the first user message
	Name            *string      `json:"name"`
	Ephemeral       bool         `json:"ephemeral"`
	HistoryMode     string       `json:"historyMode"` // always "paginated"
	ModelProvider   string       `json:"modelProvider"`
	Model           *string      `json:"model"`
	ReasoningEffort *string      `json:"reasoningEffort"`
	CreatedAt       int64        `json:"createdAt"`
	UpdatedAt       int64        `json:"updatedAt"`
	RecencyAt       *int64       `json:"recencyAt"` // of the last turn
	Status          ThreadStatus `json:"status"`
	Path            *string      `json:"path"` // always null: threads are in a database
	Cwd             string       `json:"cwd"`
	CLIVersion      string       `json:"cliVersion"`
	Originator      string       `json:"originator"` // clientInfo.name of the client that started it
	Source          string       `json:"source"`
	GitInfo         *GitInfo     `json:"gitInfo"`
	Turns           []Turn       `json:"turns"` // filled only by methods that say so
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
