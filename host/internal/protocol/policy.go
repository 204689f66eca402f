package protocol

// AskForApproval says when the agent asks before it acts.
type AskForApproval struct {
	Kind     ApprovalPolicy
	Granular *GranularApproval `variant:"granular" experimental:"askForApproval.granular"`
}

func (a AskForApproval) MarshalJSON() ([]byte, error)  { return Marshal(a) }
func (a *AskForApproval) UnmarshalJSON(b []byte) error { return unmarshal(b, a) }
func (AskForApproval) isChoice()                       {}

// ApprovalPolicy is the kind of an [AskForApproval].
type ApprovalPolicy string

// Approval policies.
const (
	ApprovalUntrusted ApprovalPolicy = "untrusted"  // ask about all commands that are not known to be harmless
	ApprovalOnRequest ApprovalPolicy = "on-request" // ask when the agent asks for more than the sandbox allows
	ApprovalGranular  ApprovalPolicy = "granular"   // as on-request, for the kinds of questions in Granular
	ApprovalNever     ApprovalPolicy = "never"      // refuse instead of asking
)

func (ApprovalPolicy) values() []string {
	return names(ApprovalUntrusted, ApprovalOnRequest, ApprovalGranular, ApprovalNever)
}

// GranularApproval says which kinds of questions are asked. The others are refused.
type GranularApproval struct {
	SandboxApproval    bool `json:"sandbox_approval"`
	Rules              bool `json:"rules"`
	SkillApproval      bool `json:"skill_approval,omitempty"`
	RequestPermissions bool `json:"request_permissions,omitempty"`
	MCPElicitations    bool `json:"mcp_elicitations"`
}

// ApprovalsReviewer is who answers questions.
type ApprovalsReviewer string

// Reviewers.
const (
	ReviewerUser     ApprovalsReviewer = "user"
	ReviewerAuto     ApprovalsReviewer = "auto_review"       // a model
	ReviewerGuardian ApprovalsReviewer = "guardian_subagent" // the old name of auto_review
)

func (ApprovalsReviewer) values() []string {
	return names(ReviewerUser, ReviewerAuto, ReviewerGuardian)
}

// SandboxMode is the name of a sandbox.
type SandboxMode string

// Sandbox modes.
const (
	SandboxReadOnly       SandboxMode = "read-only"
	SandboxWorkspaceWrite SandboxMode = "workspace-write"
	SandboxFullAccess     SandboxMode = "danger-full-access"
)

func (SandboxMode) values() []string {
	return names(SandboxReadOnly, SandboxWorkspaceWrite, SandboxFullAccess)
}

// SandboxPolicy is a sandbox with its settings.
type SandboxPolicy struct{ Body SandboxPolicyBody }

// SandboxPolicyBody is [FullAccessPolicy], [ReadOnlyPolicy], [ExternalSandboxPolicy] or [WorkspaceWritePolicy].
type SandboxPolicyBody interface{ variant }

func (p SandboxPolicy) MarshalJSON() ([]byte, error)  { return Marshal(p) }
func (p *SandboxPolicy) UnmarshalJSON(b []byte) error { return unmarshal(b, p) }
func (SandboxPolicy) variants() variants              { return sandboxPolicies }

var sandboxPolicies = variantsOf(FullAccessPolicy{}, ReadOnlyPolicy{}, ExternalSandboxPolicy{}, WorkspaceWritePolicy{})

// FullAccessPolicy is no sandbox.
type FullAccessPolicy struct{}

func (FullAccessPolicy) kind() string { return "dangerFullAccess" }

// ReadOnlyPolicy lets commands read files.
type ReadOnlyPolicy struct {
	NetworkAccess bool `json:"networkAccess" optional:"true"`
}

func (ReadOnlyPolicy) kind() string { return "readOnly" }

// ExternalSandboxPolicy says that the host itself runs in a sandbox.
type ExternalSandboxPolicy struct {
	NetworkAccess *NetworkAccess `json:"networkAccess,omitempty"` // absent: restricted
}

func (ExternalSandboxPolicy) kind() string { return "externalSandbox" }

// NetworkAccess says whether a sandbox has a network.
type NetworkAccess string

// Values of network access.
const (
	NetworkRestricted NetworkAccess = "restricted"
	NetworkEnabled    NetworkAccess = "enabled"
)

func (NetworkAccess) values() []string { return names(NetworkRestricted, NetworkEnabled) }

// WorkspaceWritePolicy lets commands write in the thread's folder and in others.
type WorkspaceWritePolicy struct {
	WritableRoots       []string `json:"writableRoots" optional:"true"`
	NetworkAccess       bool     `json:"networkAccess" optional:"true"`
	ExcludeTmpdirEnvVar bool     `json:"excludeTmpdirEnvVar" optional:"true"` // $TMPDIR is not writable
	ExcludeSlashTmp     bool     `json:"excludeSlashTmp" optional:"true"`     // /tmp is not writable
}

func (WorkspaceWritePolicy) kind() string { return "workspaceWrite" }

// ActivePermissionProfile is the permission profile of a thread.
type ActivePermissionProfile struct {
	ID      string  `json:"id"`
	Extends *string `json:"extends"`
}

// CollaborationMode is a way of working, with the settings that belong to it.
type CollaborationMode struct {
	Mode     ModeKind                  `json:"mode"`
	Settings CollaborationModeSettings `json:"settings"`
}

// ModeKind is the name of a [CollaborationMode].
type ModeKind string

// Modes.
const (
	ModePlan    ModeKind = "plan"
	ModeDefault ModeKind = "default"
)

func (ModeKind) values() []string { return names(ModePlan, ModeDefault) }

// CollaborationModeSettings are the settings of a mode.
type CollaborationModeSettings struct {
	Model                 string  `json:"model"`
	ReasoningEffort       *string `json:"reasoning_effort"`
	DeveloperInstructions *string `json:"developer_instructions"`
}

// Personality is the tone of the model.
type Personality string

// Personalities.
const (
	PersonalityNone      Personality = "none"
	PersonalityFriendly  Personality = "friendly"
	PersonalityPragmatic Personality = "pragmatic"
)

func (Personality) values() []string {
	return names(PersonalityNone, PersonalityFriendly, PersonalityPragmatic)
}

// ReasoningSummary says how the model summarizes its reasoning.
type ReasoningSummary string

// Summaries.
const (
	SummaryAuto     ReasoningSummary = "auto"
	SummaryConcise  ReasoningSummary = "concise"
	SummaryDetailed ReasoningSummary = "detailed"
	SummaryNone     ReasoningSummary = "none"
)

func (ReasoningSummary) values() []string {
	return names(SummaryAuto, SummaryConcise, SummaryDetailed, SummaryNone)
}

// MultiAgentMode says when the agent starts child agents.
type MultiAgentMode struct {
	Kind   MultiAgentModeKind
	Custom *string `variant:"custom"` // instructions
}

func (m MultiAgentMode) MarshalJSON() ([]byte, error)  { return Marshal(m) }
func (m *MultiAgentMode) UnmarshalJSON(b []byte) error { return unmarshal(b, m) }
func (MultiAgentMode) isChoice()                       {}

// MultiAgentModeKind is the kind of a [MultiAgentMode].
type MultiAgentModeKind string

// Kinds of modes.
const (
	MultiAgentExplicitRequestOnly MultiAgentModeKind = "explicitRequestOnly"
	MultiAgentProactive           MultiAgentModeKind = "proactive"
	MultiAgentCustom              MultiAgentModeKind = "custom"
)

func (MultiAgentModeKind) values() []string {
	return names(MultiAgentExplicitRequestOnly, MultiAgentProactive, MultiAgentCustom)
}

// ThreadSettings are the settings of a thread.
type ThreadSettings struct {
	Cwd                     string                   `json:"cwd"`
	ApprovalPolicy          AskForApproval           `json:"approvalPolicy"`
	ApprovalsReviewer       ApprovalsReviewer        `json:"approvalsReviewer"`
	SandboxPolicy           SandboxPolicy            `json:"sandboxPolicy"`
	ActivePermissionProfile *ActivePermissionProfile `json:"activePermissionProfile"`
	Model                   string                   `json:"model"`
	ModelProvider           string                   `json:"modelProvider"`
	ServiceTier             *string                  `json:"serviceTier"`
	Effort                  *string                  `json:"effort"`
	Summary                 *ReasoningSummary        `json:"summary"`
	CollaborationMode       CollaborationMode        `json:"collaborationMode"`
	MultiAgentMode          *MultiAgentMode          `json:"multiAgentMode,omitempty" experimental:"true"`
	Personality             *Personality             `json:"personality"`
	DisabledPluginIDs       []string                 `json:"disabledPluginIds"`
}

// Environment is a machine and a folder on it in which a thread works.
type Environment struct {
	EnvironmentID         string   `json:"environmentId"`
	Cwd                   string   `json:"cwd"`
	RuntimeWorkspaceRoots []string `json:"runtimeWorkspaceRoots,omitempty"`
}
