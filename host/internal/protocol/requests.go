package protocol

import "encoding/json"

// Requests that the server sends to clients.
var (
	RequestCommandExecutionApproval = serverRequest[CommandExecutionRequestApprovalParams, CommandExecutionRequestApprovalResponse]("item/commandExecution/requestApproval")
	RequestFileChangeApproval       = serverRequest[FileChangeRequestApprovalParams, FileChangeRequestApprovalResponse]("item/fileChange/requestApproval")
	RequestPermissionsApproval      = serverRequest[PermissionsRequestApprovalParams, PermissionsRequestApprovalResponse]("item/permissions/requestApproval")
	RequestUserInput                = serverRequest[ToolRequestUserInputParams, ToolRequestUserInputResponse]("item/tool/requestUserInput")
	RequestElicitation              = serverRequest[MCPServerElicitationRequestParams, MCPServerElicitationRequestResponse]("mcpServer/elicitation/request")
	RequestToolCall                 = serverRequest[DynamicToolCallParams, DynamicToolCallResponse]("item/tool/call")
	RequestCurrentTime              = serverRequest[CurrentTimeReadParams, CurrentTimeReadResponse]("currentTime/read", experimental, unsent)
)

// ServerRequests returns the requests that the server sends to clients.
func ServerRequests() []*ServerRequestSpec {
	return []*ServerRequestSpec{
		RequestCommandExecutionApproval.ServerRequestSpec, RequestFileChangeApproval.ServerRequestSpec,
		RequestPermissionsApproval.ServerRequestSpec, RequestUserInput.ServerRequestSpec, RequestElicitation.ServerRequestSpec,
		RequestToolCall.ServerRequestSpec, RequestCurrentTime.ServerRequestSpec,
	}
}

// CommandExecutionRequestApprovalParams are the parameters of item/commandExecution/requestApproval.
type CommandExecutionRequestApprovalParams struct {
	Kind                            CommandExecutionApprovalKind       `json:"kind"`
	ThreadID                        string                             `json:"threadId"`
	TurnID                          string                             `json:"turnId"`
	ItemID                          string                             `json:"itemId"`
	ApprovalID                      *string                            `json:"approvalId,omitempty"` // if an item has several questions
	StartedAtMs                     int64                              `json:"startedAtMs"`
	EnvironmentID                   *string                            `json:"environmentId"`
	Reason                          *string                            `json:"reason"`
	Command                         *string                            `json:"command"`
	Cwd                             *string                            `json:"cwd"`
	CommandActions                  []CommandAction                    `json:"commandActions"`
	NetworkApprovalContext          *NetworkApprovalContext            `json:"networkApprovalContext,omitempty"`
	AdditionalPermissions           *PermissionProfile                 `json:"additionalPermissions,omitempty" experimental:"true"`
	ProposedExecpolicyAmendment     []string                           `json:"proposedExecpolicyAmendment,omitempty"` // prefix of a command
	ProposedNetworkPolicyAmendments []NetworkPolicyAmendment           `json:"proposedNetworkPolicyAmendments,omitempty"`
	AvailableDecisions              []CommandExecutionApprovalDecision `json:"availableDecisions,omitempty"`
	// ProposedRule is the line that an amendment adds to the user's rules. An addition of gantry.
	ProposedRule *string `json:"proposedRule,omitempty"`
}

// CommandExecutionApprovalKind is what is asked about.
type CommandExecutionApprovalKind string

// Kinds of approvals of commands.
const (
	ApproveCommand      CommandExecutionApprovalKind = "command"
	ApproveHumanCommand CommandExecutionApprovalKind = "humanCommand" // a command of the user
	ApproveWriteStdin   CommandExecutionApprovalKind = "writeStdin"   // input of a running command
)

func (CommandExecutionApprovalKind) values() []string {
	return names(ApproveCommand, ApproveHumanCommand, ApproveWriteStdin)
}

// NetworkApprovalContext is the connection that is asked about.
type NetworkApprovalContext struct {
	Host     string                  `json:"host"`
	Protocol NetworkApprovalProtocol `json:"protocol"`
}

// NetworkApprovalProtocol is the protocol of a connection.
type NetworkApprovalProtocol string

// Protocols.
const (
	NetworkHTTP      NetworkApprovalProtocol = "http"
	NetworkHTTPS     NetworkApprovalProtocol = "https"
	NetworkSocks5TCP NetworkApprovalProtocol = "socks5Tcp"
	NetworkSocks5UDP NetworkApprovalProtocol = "socks5Udp"
)

func (NetworkApprovalProtocol) values() []string {
	return names(NetworkHTTP, NetworkHTTPS, NetworkSocks5TCP, NetworkSocks5UDP)
}

// NetworkPolicyAmendment is a rule about a host.
type NetworkPolicyAmendment struct {
	Host   string                  `json:"host"`
	Action NetworkPolicyRuleAction `json:"action"`
}

// NetworkPolicyRuleAction is what a rule does.
type NetworkPolicyRuleAction string

// Actions.
const (
	NetworkAllow NetworkPolicyRuleAction = "allow"
	NetworkDeny  NetworkPolicyRuleAction = "deny"
)

func (NetworkPolicyRuleAction) values() []string { return names(NetworkAllow, NetworkDeny) }

// CommandExecutionRequestApprovalResponse is the answer to item/commandExecution/requestApproval.
type CommandExecutionRequestApprovalResponse struct {
	Decision CommandExecutionApprovalDecision `json:"decision"`
}

// CommandExecutionApprovalDecision is a decision about a command.
type CommandExecutionApprovalDecision struct {
	Kind                   ApprovalDecision
	ExecpolicyAmendment    *ExecpolicyAmendmentDecision    `variant:"acceptWithExecpolicyAmendment"`
	NetworkPolicyAmendment *NetworkPolicyAmendmentDecision `variant:"applyNetworkPolicyAmendment"`
}

func (d CommandExecutionApprovalDecision) MarshalJSON() ([]byte, error)  { return Marshal(d) }
func (d *CommandExecutionApprovalDecision) UnmarshalJSON(b []byte) error { return unmarshal(b, d) }
func (CommandExecutionApprovalDecision) isChoice()                       {}

// ApprovalDecision is the kind of a decision.
type ApprovalDecision string

// Decisions.
const (
	DecisionAccept              ApprovalDecision = "accept"
	DecisionAcceptForSession    ApprovalDecision = "acceptForSession"              // and do not ask again in this thread
	DecisionAcceptWithAmendment ApprovalDecision = "acceptWithExecpolicyAmendment" // and add a rule
	DecisionApplyNetworkPolicy  ApprovalDecision = "applyNetworkPolicyAmendment"   // add a rule about the host, and obey it
	DecisionDecline             ApprovalDecision = "decline"                       // the turn continues
	DecisionCancel              ApprovalDecision = "cancel"                        // the turn is interrupted
)

func (ApprovalDecision) values() []string {
	return names(DecisionAccept, DecisionAcceptForSession, DecisionAcceptWithAmendment, DecisionApplyNetworkPolicy, DecisionDecline,
		DecisionCancel)
}

// ExecpolicyAmendmentDecision is the rule of an accepted command.
type ExecpolicyAmendmentDecision struct {
	ExecpolicyAmendment []string `json:"execpolicy_amendment"` // prefix of the command
}

// NetworkPolicyAmendmentDecision is the rule of a connection.
type NetworkPolicyAmendmentDecision struct {
	NetworkPolicyAmendment NetworkPolicyAmendment `json:"network_policy_amendment"`
}

// FileChangeRequestApprovalParams are the parameters of item/fileChange/requestApproval. The item contains the change.
type FileChangeRequestApprovalParams struct {
	ThreadID    string  `json:"threadId"`
	TurnID      string  `json:"turnId"`
	ItemID      string  `json:"itemId"`
	StartedAtMs int64   `json:"startedAtMs"`
	Reason      *string `json:"reason"`
	GrantRoot   *string `json:"grantRoot"` // a folder that becomes writable if the user accepts
}

// FileChangeRequestApprovalResponse is the answer to item/fileChange/requestApproval.
type FileChangeRequestApprovalResponse struct {
	Decision FileChangeApprovalDecision `json:"decision"`
}

// FileChangeApprovalDecision is a decision about a change of files.
type FileChangeApprovalDecision string

// Decisions about changes of files, as in [ApprovalDecision].
const (
	FileChangeAccept           FileChangeApprovalDecision = "accept"
	FileChangeAcceptForSession FileChangeApprovalDecision = "acceptForSession"
	FileChangeDecline          FileChangeApprovalDecision = "decline"
	FileChangeCancel           FileChangeApprovalDecision = "cancel"
)

func (FileChangeApprovalDecision) values() []string {
	return names(FileChangeAccept, FileChangeAcceptForSession, FileChangeDecline, FileChangeCancel)
}

// PermissionsRequestApprovalParams are the parameters of item/permissions/requestApproval.
type PermissionsRequestApprovalParams struct {
	ThreadID      string            `json:"threadId"`
	TurnID        string            `json:"turnId"`
	ItemID        string            `json:"itemId"`
	EnvironmentID *string           `json:"environmentId"`
	StartedAtMs   int64             `json:"startedAtMs"`
	Cwd           string            `json:"cwd"`
	Reason        *string           `json:"reason"`
	Permissions   PermissionProfile `json:"permissions"`
}

// PermissionProfile is access to the network and to files.
type PermissionProfile struct {
	Network    *NetworkPermissions    `json:"network,omitempty"`
	FileSystem *FileSystemPermissions `json:"fileSystem,omitempty"`
}

// NetworkPermissions is access to the network.
type NetworkPermissions struct {
	Enabled *bool `json:"enabled,omitempty"`
}

// FileSystemPermissions is access to files.
type FileSystemPermissions struct {
	Read             []string                 `json:"read,omitempty"`
	Write            []string                 `json:"write,omitempty"`
	GlobScanMaxDepth *uint64                  `json:"globScanMaxDepth,omitempty"`
	Entries          []FileSystemSandboxEntry `json:"entries,omitempty"`
}

// FileSystemSandboxEntry is the access to a place.
type FileSystemSandboxEntry struct {
	Path   FileSystemPath       `json:"path"`
	Access FileSystemAccessMode `json:"access"`
}

// FileSystemAccessMode is a kind of access.
type FileSystemAccessMode string

// Kinds of access.
const (
	AccessRead  FileSystemAccessMode = "read"
	AccessWrite FileSystemAccessMode = "write"
	AccessDeny  FileSystemAccessMode = "deny"
)

func (FileSystemAccessMode) values() []string { return names(AccessRead, AccessWrite, AccessDeny) }

// FileSystemPath is a place in the file system.
type FileSystemPath struct{ Body FileSystemPathBody }

// FileSystemPathBody is [PathOfFile], [PathGlob] or [PathSpecial].
type FileSystemPathBody interface{ variant }

func (p FileSystemPath) MarshalJSON() ([]byte, error)  { return Marshal(p) }
func (p *FileSystemPath) UnmarshalJSON(b []byte) error { return unmarshal(b, p) }
func (FileSystemPath) variants() variants              { return fileSystemPaths }

var fileSystemPaths = variantsOf(PathOfFile{}, PathGlob{}, PathSpecial{})

// PathOfFile is a file or a folder.
type PathOfFile struct {
	Path string `json:"path"`
}

func (PathOfFile) kind() string { return "path" }

// PathGlob is what a pattern matches.
type PathGlob struct {
	Pattern string `json:"pattern"`
}

func (PathGlob) kind() string { return "glob_pattern" }

// PathSpecial is a place that has a name.
type PathSpecial struct {
	Value FileSystemSpecialPath `json:"value"`
}

func (PathSpecial) kind() string { return "special" }

// FileSystemSpecialPath is a place that has a name.
type FileSystemSpecialPath struct{ Body SpecialPath }

// SpecialPath is one of the types whose names begin with Special.
type SpecialPath interface{ variant }

func (p FileSystemSpecialPath) MarshalJSON() ([]byte, error)  { return Marshal(p) }
func (p *FileSystemSpecialPath) UnmarshalJSON(b []byte) error { return unmarshal(b, p) }
func (FileSystemSpecialPath) variants() variants              { return specialPaths }

var specialPaths = variantsBy("kind", SpecialRoot{}, SpecialMinimal{}, SpecialProjectRoots{}, SpecialTmpdir{}, SpecialSlashTmp{}, SpecialUnknown{})

// SpecialRoot is the root folder.
type SpecialRoot struct{}

func (SpecialRoot) kind() string { return "root" }

// SpecialMinimal is what most programs need in order to run.
type SpecialMinimal struct{}

func (SpecialMinimal) kind() string { return "minimal" }

// SpecialProjectRoots is the workspace.
type SpecialProjectRoots struct {
	Subpath *string `json:"subpath,omitempty"`
}

func (SpecialProjectRoots) kind() string { return "project_roots" }

// SpecialTmpdir is the folder in $TMPDIR.
type SpecialTmpdir struct{}

func (SpecialTmpdir) kind() string { return "tmpdir" }

// SpecialSlashTmp is /tmp.
type SpecialSlashTmp struct{}

func (SpecialSlashTmp) kind() string { return "slash_tmp" }

// SpecialUnknown is a name that is not known.
type SpecialUnknown struct {
	Path    string  `json:"path"`
	Subpath *string `json:"subpath,omitempty"`
}

func (SpecialUnknown) kind() string { return "unknown" }

// PermissionsRequestApprovalResponse is the answer to item/permissions/requestApproval. What is granted is at most what was requested.
type PermissionsRequestApprovalResponse struct {
	Permissions      PermissionProfile     `json:"permissions"`
	Scope            *PermissionGrantScope `json:"scope,omitempty"`            // default: turn
	StrictAutoReview *bool                 `json:"strictAutoReview,omitempty"` // only with scope turn
}

// PermissionGrantScope says how long a grant lasts.
type PermissionGrantScope string

// Scopes of grants.
const (
	GrantTurn    PermissionGrantScope = "turn"
	GrantSession PermissionGrantScope = "session"
)

func (PermissionGrantScope) values() []string { return names(GrantTurn, GrantSession) }

// ToolRequestUserInputParams are the parameters of item/tool/requestUserInput.
type ToolRequestUserInputParams struct {
	ThreadID         string                         `json:"threadId"`
	TurnID           string                         `json:"turnId"`
	ItemID           string                         `json:"itemId"`
	Questions        []ToolRequestUserInputQuestion `json:"questions"`
	IsBlocking       bool                           `json:"isBlocking"`       // the turn waits for the answer
	AutoResolutionMs *uint64                        `json:"autoResolutionMs"` // the question is answered with nothing after this time
}

// ToolRequestUserInputQuestion is a question to the user.
type ToolRequestUserInputQuestion struct {
	ID       string                       `json:"id"`
	Header   string                       `json:"header"`
	Question string                       `json:"question"`
	IsOther  bool                         `json:"isOther" optional:"true"`  // the answer may be none of the options
	IsSecret bool                         `json:"isSecret" optional:"true"` // the answer is not displayed
	Options  []ToolRequestUserInputOption `json:"options" nullable:"true"`  // null: free text
}

// ToolRequestUserInputOption is an answer to choose.
type ToolRequestUserInputOption struct {
	Label       string `json:"label"`
	Description string `json:"description"`
}

// ToolRequestUserInputResponse is the answer to item/tool/requestUserInput.
type ToolRequestUserInputResponse struct {
	Answers map[string]ToolRequestUserInputAnswer `json:"answers"` // by question
}

// ToolRequestUserInputAnswer is the answer to a question.
type ToolRequestUserInputAnswer struct {
	Answers []string `json:"answers"`
}

// MCPServerElicitationRequestParams are the parameters of mcpServer/elicitation/request.
type MCPServerElicitationRequestParams struct{ Body Elicitation }

// Elicitation is [FormElicitation] or [URLElicitation].
type Elicitation interface {
	variant
	Elicitation() ElicitationHeader
}

func (p MCPServerElicitationRequestParams) MarshalJSON() ([]byte, error)  { return Marshal(p) }
func (p *MCPServerElicitationRequestParams) UnmarshalJSON(b []byte) error { return unmarshal(b, p) }
func (MCPServerElicitationRequestParams) variants() variants              { return elicitations }

var elicitations = variantsBy("mode", FormElicitation{}, URLElicitation{})

// ElicitationHeader is what all elicitations have.
type ElicitationHeader struct {
	ThreadID   string          `json:"threadId"`
	TurnID     *string         `json:"turnId"`
	ServerName string          `json:"serverName"`
	Message    string          `json:"message"`
	Meta       json.RawMessage `json:"_meta,omitempty"`
}

// Elicitation returns h.
func (h ElicitationHeader) Elicitation() ElicitationHeader { return h }

// FormElicitation asks for values.
type FormElicitation struct {
	ElicitationHeader
	RequestedSchema json.RawMessage `json:"requestedSchema"` // a JSON Schema of an object of primitive values
}

func (FormElicitation) kind() string { return "form" }

// URLElicitation asks the user to open a page.
type URLElicitation struct {
	ElicitationHeader
	URL           string `json:"url"`
	ElicitationID string `json:"elicitationId"`
}

func (URLElicitation) kind() string { return "url" }

// MCPServerElicitationRequestResponse is the answer to mcpServer/elicitation/request.
type MCPServerElicitationRequestResponse struct {
	Action  MCPServerElicitationAction `json:"action"`
	Content json.RawMessage            `json:"content,omitempty"` // the values, if the action is accept
	Meta    json.RawMessage            `json:"_meta,omitempty"`
}

// MCPServerElicitationAction is what the user did.
type MCPServerElicitationAction string

// Actions of users.
const (
	ElicitationAccept  MCPServerElicitationAction = "accept"
	ElicitationDecline MCPServerElicitationAction = "decline"
	ElicitationCancel  MCPServerElicitationAction = "cancel"
)

func (MCPServerElicitationAction) values() []string {
	return names(ElicitationAccept, ElicitationDecline, ElicitationCancel)
}

// DynamicToolCallParams are the parameters of item/tool/call: a call of a tool of the client.
type DynamicToolCallParams struct {
	ThreadID  string          `json:"threadId"`
	TurnID    string          `json:"turnId"`
	CallID    string          `json:"callId"`
	Namespace *string         `json:"namespace"`
	Tool      string          `json:"tool"`
	Arguments json.RawMessage `json:"arguments"`
}

// DynamicToolCallResponse is the answer to item/tool/call.
type DynamicToolCallResponse struct {
	ContentItems []ToolContentItem `json:"contentItems"`
	Success      bool              `json:"success"`
}

// CurrentTimeReadParams are the parameters of currentTime/read.
type CurrentTimeReadParams struct {
	ThreadID string `json:"threadId"`
}

// CurrentTimeReadResponse is the answer to currentTime/read.
type CurrentTimeReadResponse struct {
	CurrentTimeAt int64 `json:"currentTimeAt"` // Unix time in seconds
}
