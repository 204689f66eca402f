package protocol

import "encoding/json"

// ModelListParams are the parameters of model/list.
type ModelListParams struct {
	Page
	ModelProvider *string `json:"modelProvider,omitempty"`
	IncludeHidden *bool   `json:"includeHidden,omitempty"`
}

// ModelListResponse is the result of model/list.
type ModelListResponse struct {
	Data       []Model `json:"data"`
	NextCursor *string `json:"nextCursor"`
}

// Model is a model that a thread can use.
type Model struct {
	ID                        string                  `json:"id"`
	Model                     string                  `json:"model"`
	DisplayName               string                  `json:"displayName"`
	Description               string                  `json:"description"`
	Hidden                    bool                    `json:"hidden"`
	IsDefault                 bool                    `json:"isDefault"`
	SupportedReasoningEfforts []ReasoningEffortOption `json:"supportedReasoningEfforts"`
	DefaultReasoningEffort    string                  `json:"defaultReasoningEffort"`
	InputModalities           []InputModality         `json:"inputModalities"`
	SupportsPersonality       bool                    `json:"supportsPersonality"`
	ServiceTiers              []ModelServiceTier      `json:"serviceTiers"`
	DefaultServiceTier        *string                 `json:"defaultServiceTier"`
	MultiAgentVersion         *MultiAgentVersion      `json:"multiAgentVersion"`
	Upgrade                   *string                 `json:"upgrade"` // a model that replaces it
	// Provider is the label of the provider's block. An addition of gantry.
	Provider *string `json:"provider,omitempty"`
}

// MultiAgentVersion is how a model works with other agents.
type MultiAgentVersion string

// Ways of working with other agents.
const (
	MultiAgentDisabled MultiAgentVersion = "disabled"
	MultiAgentV1       MultiAgentVersion = "v1"
	MultiAgentV2       MultiAgentVersion = "v2"
)

func (MultiAgentVersion) values() []string {
	return names(MultiAgentDisabled, MultiAgentV1, MultiAgentV2)
}

// ReasoningEffortOption is an effort that a model supports.
type ReasoningEffortOption struct {
	ReasoningEffort string `json:"reasoningEffort"`
	Description     string `json:"description"`
}

// InputModality is a kind of input that a model understands.
type InputModality string

// Kinds of input.
const (
	ModalityText  InputModality = "text"
	ModalityImage InputModality = "image"
	ModalityAudio InputModality = "audio"
)

func (InputModality) values() []string { return names(ModalityText, ModalityImage, ModalityAudio) }

// ModelServiceTier is a class of service that a model is offered in.
type ModelServiceTier struct {
	ID          string `json:"id"`
	Name        string `json:"name"`
	Description string `json:"description"`
}

// ModelProviderListParams are the parameters of modelProvider/list.
type ModelProviderListParams struct{}

// ModelProviderListResponse is the result of modelProvider/list.
type ModelProviderListResponse struct {
	Data              []ModelProviderSummary `json:"data"`
	DefaultProviderID string                 `json:"defaultProviderId"`
	CanChangeDefault  bool                   `json:"canChangeDefault"`
}

// ModelProviderSummary is a provider of models.
type ModelProviderSummary struct {
	ID       string           `json:"id"`
	Name     string           `json:"name"`
	CanEdit  bool             `json:"canEdit"`
	BaseURL  *string          `json:"baseUrl"`
	Settings ProviderSettings `json:"settings"`
}

// ProviderSettings are settings that depend on the kind of provider.
type ProviderSettings struct{ Body ProviderSettingsBody }

// ProviderSettingsBody is [CustomGatewayProvider].
type ProviderSettingsBody interface{ variant }

func (s ProviderSettings) MarshalJSON() ([]byte, error)  { return Marshal(s) }
func (s *ProviderSettings) UnmarshalJSON(b []byte) error { return unmarshal(b, s) }
func (ProviderSettings) variants() variants              { return providerSettings }

var providerSettings = variantsOf(CustomGatewayProvider{})

// CustomGatewayProvider is a provider that is none of codex's own, as all providers of gantry are.
type CustomGatewayProvider struct {
	Auth GatewayAuth `json:"auth"`
}

func (CustomGatewayProvider) kind() string { return "customGateway" }

// GatewayAuth is how a provider authenticates its clients.
type GatewayAuth struct{ Body GatewayAuthBody }

// GatewayAuthBody is [GatewayNoAuth], [GatewayEnvKey] or [GatewayExternalAuth].
type GatewayAuthBody interface{ variant }

func (a GatewayAuth) MarshalJSON() ([]byte, error)  { return Marshal(a) }
func (a *GatewayAuth) UnmarshalJSON(b []byte) error { return unmarshal(b, a) }
func (GatewayAuth) variants() variants              { return gatewayAuths }

var gatewayAuths = variantsBy("mode", GatewayNoAuth{}, GatewayEnvKey{}, GatewayExternalAuth{})

// GatewayNoAuth is no key.
type GatewayNoAuth struct{}

func (GatewayNoAuth) kind() string { return "none" }

// GatewayEnvKey is a key in a variable of the environment.
type GatewayEnvKey struct {
	EnvKey string `json:"envKey"`
}

func (GatewayEnvKey) kind() string { return "environmentVariable" }

// GatewayExternalAuth is anything else, such as a stored key.
type GatewayExternalAuth struct {
	EnvKey *string `json:"envKey"`
}

func (GatewayExternalAuth) kind() string { return "externallyConfigured" }

// ModelProviderCapabilitiesReadParams are the parameters of modelProvider/capabilities/read.
type ModelProviderCapabilitiesReadParams struct{}

// ModelProviderCapabilitiesReadResponse is the result of modelProvider/capabilities/read.
type ModelProviderCapabilitiesReadResponse struct {
	ImageGeneration bool `json:"imageGeneration"`
	WebSearch       bool `json:"webSearch"`
}

// AuthRecoveryNotification announces that a provider's credentials are being renewed, or have been.
type AuthRecoveryNotification struct {
	ThreadID string `json:"threadId"`
	TurnID   string `json:"turnId"`
	Provider string `json:"provider"`
	Message  string `json:"message"`
}

// HooksListParams are the parameters of hooks/list.
type HooksListParams struct {
	Cwds     []string `json:"cwds,omitempty"` // default: the server's folder
	ThreadID *string  `json:"threadId,omitempty"`
}

// HooksListResponse is the result of hooks/list.
type HooksListResponse struct {
	Data []HooksListEntry `json:"data"`
}

// HooksListEntry are the hooks that run in a folder.
type HooksListEntry struct {
	Cwd      string          `json:"cwd"`
	Hooks    []HookMetadata  `json:"hooks"`
	Warnings []string        `json:"warnings"`
	Errors   []HookErrorInfo `json:"errors"`
}

// HookErrorInfo is a mistake in a configuration of hooks.
type HookErrorInfo struct {
	Path    string `json:"path"`
	Message string `json:"message"`
}

// HookMetadata describes a hook.
type HookMetadata struct {
	Key           string          `json:"key"`
	EventName     HookEventName   `json:"eventName"`
	Matcher       *string         `json:"matcher"`
	TimeoutSec    uint64          `json:"timeoutSec"`
	StatusMessage *string         `json:"statusMessage"`
	SourcePath    string          `json:"sourcePath"`
	Source        HookSource      `json:"source"`
	PluginID      *string         `json:"pluginId"`
	DisplayOrder  int64           `json:"displayOrder"`
	Enabled       bool            `json:"enabled"`
	IsManaged     bool            `json:"isManaged"`
	CurrentHash   string          `json:"currentHash"`
	TrustStatus   HookTrustStatus `json:"trustStatus"`
	Body          HookHandler
}

// HookHandler is [CommandHook], [MCPToolHook], [PromptHook] or [AgentHook].
type HookHandler interface{ variant }

func (m HookMetadata) MarshalJSON() ([]byte, error)  { return Marshal(m) }
func (m *HookMetadata) UnmarshalJSON(b []byte) error { return unmarshal(b, m) }
func (HookMetadata) variants() variants              { return hookHandlers }

var hookHandlers = variantsBy("handlerType", CommandHook{}, MCPToolHook{}, PromptHook{}, AgentHook{})

// CommandHook runs a command.
type CommandHook struct {
	Command string `json:"command"`
	Async   bool   `json:"async" optional:"true"` // nothing waits for it
}

func (CommandHook) kind() string { return "command" }

// MCPToolHook calls a tool of an MCP server.
type MCPToolHook struct {
	Server string `json:"server"`
	Tool   string `json:"tool"`
}

func (MCPToolHook) kind() string { return "mcpTool" }

// PromptHook asks a model.
type PromptHook struct{}

func (PromptHook) kind() string { return "prompt" }

// AgentHook runs an agent.
type AgentHook struct{}

func (AgentHook) kind() string { return "agent" }

// HookTrustStatus says whether a hook may run.
type HookTrustStatus string

// Trust of hooks.
const (
	HookTrustManaged   HookTrustStatus = "managed" // by an administrator
	HookTrustUntrusted HookTrustStatus = "untrusted"
	HookTrustTrusted   HookTrustStatus = "trusted"
	HookTrustModified  HookTrustStatus = "modified" // since it was trusted
)

func (HookTrustStatus) values() []string {
	return names(HookTrustManaged, HookTrustUntrusted, HookTrustTrusted, HookTrustModified)
}

// SkillsListParams are the parameters of skills/list.
type SkillsListParams struct {
	Cwds        []string `json:"cwds,omitempty"`        // default: the server's folder
	ForceReload bool     `json:"forceReload,omitempty"` // read files again
}

// SkillsListResponse is the result of skills/list.
type SkillsListResponse struct {
	Data []SkillsListEntry `json:"data"`
}

// SkillsListEntry are the skills of a folder.
type SkillsListEntry struct {
	Cwd    string           `json:"cwd"`
	Skills []SkillMetadata  `json:"skills"`
	Errors []SkillErrorInfo `json:"errors"`
}

// SkillMetadata describes a skill.
type SkillMetadata struct {
	Name             string     `json:"name"`
	Description      string     `json:"description"`
	ShortDescription *string    `json:"shortDescription"`
	Path             string     `json:"path"`
	Scope            SkillScope `json:"scope"`
	Enabled          bool       `json:"enabled"`
	PluginID         *string    `json:"pluginId"`
}

// SkillScope is where a skill comes from.
type SkillScope string

// Scopes of skills.
const (
	SkillUser   SkillScope = "user"
	SkillRepo   SkillScope = "repo"
	SkillSystem SkillScope = "system"
	SkillAdmin  SkillScope = "admin"
)

func (SkillScope) values() []string { return names(SkillUser, SkillRepo, SkillSystem, SkillAdmin) }

// SkillErrorInfo is a skill that can't be used.
type SkillErrorInfo struct {
	Path    string `json:"path"`
	Message string `json:"message"`
}

// ConfigReadParams are the parameters of config/read.
type ConfigReadParams struct {
	IncludeLayers bool    `json:"includeLayers,omitempty"`
	Cwd           *string `json:"cwd,omitempty"`
}

// ConfigReadResponse is the result of config/read.
type ConfigReadResponse struct {
	Config  map[string]json.RawMessage     `json:"config"`                 // by name, in snake case
	Origins map[string]ConfigLayerMetadata `json:"origins"`                // by key path
	Layers  []ConfigLayer                  `json:"layers" nullable:"true"` // highest precedence first; null unless requested
}

// ConfigLayerMetadata identifies a layer.
type ConfigLayerMetadata struct {
	Name    ConfigLayerSource `json:"name"`
	Version string            `json:"version"` // sha256:…
}

// ConfigLayer is a file of the configuration, or another source.
type ConfigLayer struct {
	Name           ConfigLayerSource `json:"name"`
	Version        string            `json:"version"`
	Config         json.RawMessage   `json:"config"`
	DisabledReason *string           `json:"disabledReason"`
}

// ConfigLayerSource is where a layer comes from.
type ConfigLayerSource struct{ Body ConfigLayerSourceBody }

// ConfigLayerSourceBody is [PackagedDefaultsLayer], [SystemLayer], [UserLayer], [ProjectLayer] or [SessionFlagsLayer].
type ConfigLayerSourceBody interface{ variant }

func (s ConfigLayerSource) MarshalJSON() ([]byte, error)  { return Marshal(s) }
func (s *ConfigLayerSource) UnmarshalJSON(b []byte) error { return unmarshal(b, s) }
func (ConfigLayerSource) variants() variants              { return configLayers }

var configLayers = variantsOf(PackagedDefaultsLayer{}, SystemLayer{}, UserLayer{}, ProjectLayer{}, SessionFlagsLayer{})

// PackagedDefaultsLayer is what gantry itself brings.
type PackagedDefaultsLayer struct {
	File string `json:"file"`
}

func (PackagedDefaultsLayer) kind() string { return "packagedDefaults" }

// SystemLayer is the administrator's file.
type SystemLayer struct {
	File string `json:"file"`
}

func (SystemLayer) kind() string { return "system" }

// UserLayer is the user's file.
type UserLayer struct {
	File    string  `json:"file"`
	Profile *string `json:"profile"`
}

func (UserLayer) kind() string { return "user" }

// ProjectLayer is a project's file.
type ProjectLayer struct {
	Folder string `json:"dotCodexFolder"` // that contains the file
}

func (ProjectLayer) kind() string { return "project" }

// SessionFlagsLayer is what the command line or a request says.
type SessionFlagsLayer struct{}

func (SessionFlagsLayer) kind() string { return "sessionFlags" }

// ConfigValueWriteParams are the parameters of config/value/write.
type ConfigValueWriteParams struct {
	ConfigEdit
	FilePath        *string `json:"filePath,omitempty"` // default: the user's file
	ExpectedVersion *string `json:"expectedVersion,omitempty"`
}

// ConfigBatchWriteParams are the parameters of config/batchWrite. Either all edits are made or none.
type ConfigBatchWriteParams struct {
	Edits            []ConfigEdit `json:"edits"`
	FilePath         *string      `json:"filePath,omitempty"` // default: the user's file
	ExpectedVersion  *string      `json:"expectedVersion,omitempty"`
	ReloadUserConfig bool         `json:"reloadUserConfig,omitempty"` // threads use it from their next turn on
}

// ConfigEdit changes a setting.
type ConfigEdit struct {
	KeyPath       string          `json:"keyPath"`
	Value         json.RawMessage `json:"value"` // null removes the setting
	MergeStrategy MergeStrategy   `json:"mergeStrategy"`
}

// MergeStrategy says what becomes of a value that exists.
type MergeStrategy string

// Strategies.
const (
	MergeReplace MergeStrategy = "replace"
	MergeUpsert  MergeStrategy = "upsert" // members that the edit lacks stay
)

func (MergeStrategy) values() []string { return names(MergeReplace, MergeUpsert) }

// ConfigWriteResponse is the result of config/value/write and of config/batchWrite.
type ConfigWriteResponse struct {
	Status             WriteStatus         `json:"status"`
	Version            string              `json:"version"`
	FilePath           string              `json:"filePath"`
	OverriddenMetadata *OverriddenMetadata `json:"overriddenMetadata"`
}

// WriteStatus says whether an edit has an effect.
type WriteStatus string

// Statuses of edits.
const (
	WriteOK           WriteStatus = "ok"
	WriteOKOverridden WriteStatus = "okOverridden" // another layer has precedence
)

func (WriteStatus) values() []string { return names(WriteOK, WriteOKOverridden) }

// OverriddenMetadata is the layer that has precedence over an edit.
type OverriddenMetadata struct {
	Message         string              `json:"message"`
	OverridingLayer ConfigLayerMetadata `json:"overridingLayer"`
	EffectiveValue  json.RawMessage     `json:"effectiveValue"`
}

// ConfigRequirementsReadResponse is the result of configRequirements/read.
type ConfigRequirementsReadResponse struct {
	Requirements *ConfigRequirements `json:"requirements"` // null: none
}

// ConfigRequirements are limits that an administrator sets. Null fields are not limited.
type ConfigRequirements struct {
	AllowedApprovalPolicies   []AskForApproval    `json:"allowedApprovalPolicies" nullable:"true"`
	AllowedApprovalsReviewers []ApprovalsReviewer `json:"allowedApprovalsReviewers" nullable:"true" experimental:"true"`
	AllowedSandboxModes       []SandboxMode       `json:"allowedSandboxModes" nullable:"true"`
	AllowedPermissionProfiles map[string]bool     `json:"allowedPermissionProfiles" nullable:"true"`
	DefaultPermissions        *string             `json:"defaultPermissions"`
	AllowManagedHooksOnly     *bool               `json:"allowManagedHooksOnly"`
	FeatureRequirements       map[string]bool     `json:"featureRequirements" nullable:"true"`
}

// PermissionProfileListParams are the parameters of permissionProfile/list.
type PermissionProfileListParams struct {
	Page
	Cwd *string `json:"cwd,omitempty"`
}

// PermissionProfileListResponse is the result of permissionProfile/list.
type PermissionProfileListResponse struct {
	Data       []PermissionProfileSummary `json:"data"`
	NextCursor *string                    `json:"nextCursor"`
}

// PermissionProfileSummary is a permission profile.
type PermissionProfileSummary struct {
	ID          string  `json:"id"`
	Description *string `json:"description"`
	Allowed     bool    `json:"allowed"` // by the requirements
}

// CollaborationModeListParams are the parameters of collaborationMode/list.
type CollaborationModeListParams struct{}

// CollaborationModeListResponse is the result of collaborationMode/list.
type CollaborationModeListResponse struct {
	Data []CollaborationModeMask `json:"data"`
}

// CollaborationModeMask is a mode, with the settings that it changes.
type CollaborationModeMask struct {
	Name            string    `json:"name"`
	Mode            *ModeKind `json:"mode"`
	Model           *string   `json:"model"`
	ReasoningEffort *string   `json:"reasoning_effort"`
}

// ExperimentalFeatureListParams are the parameters of experimentalFeature/list.
type ExperimentalFeatureListParams struct {
	Page
	ThreadID *string `json:"threadId,omitempty"`
}

// ExperimentalFeatureListResponse is the result of experimentalFeature/list.
type ExperimentalFeatureListResponse struct {
	Data       []ExperimentalFeature `json:"data"`
	NextCursor *string               `json:"nextCursor"`
}

// ExperimentalFeature is a feature that can be switched on and off.
type ExperimentalFeature struct {
	Name           string                   `json:"name"`
	Stage          ExperimentalFeatureStage `json:"stage"`
	DisplayName    *string                  `json:"displayName"`
	Description    *string                  `json:"description"`
	Announcement   *string                  `json:"announcement"`
	Enabled        bool                     `json:"enabled"`
	DefaultEnabled bool                     `json:"defaultEnabled"`
}

// ExperimentalFeatureStage is how mature a feature is.
type ExperimentalFeatureStage string

// Stages of features.
const (
	StageBeta             ExperimentalFeatureStage = "beta"
	StageUnderDevelopment ExperimentalFeatureStage = "underDevelopment"
	StageStable           ExperimentalFeatureStage = "stable"
	StageDeprecated       ExperimentalFeatureStage = "deprecated"
	StageRemoved          ExperimentalFeatureStage = "removed"
)

func (ExperimentalFeatureStage) values() []string {
	return names(StageBeta, StageUnderDevelopment, StageStable, StageDeprecated, StageRemoved)
}

// ExperimentalFeatureEnablementSetParams are the parameters of experimentalFeature/enablement/set.
type ExperimentalFeatureEnablementSetParams struct {
	Enablement map[string]bool `json:"enablement"` // by name
}

// ExperimentalFeatureEnablementSetResponse is the result of experimentalFeature/enablement/set.
type ExperimentalFeatureEnablementSetResponse struct {
	Enablement map[string]bool `json:"enablement"`
}

// ServerDiagnosticsParams are the parameters of server/diagnostics.
type ServerDiagnosticsParams struct{}

// ServerDiagnosticsResponse is the result of server/diagnostics.
type ServerDiagnosticsResponse struct {
	Process ServerDiagnosticsProcess `json:"process"`
	Gauges  []ServerDiagnosticsGauge `json:"gauges"`
}

// ServerDiagnosticsProcess is the server's process.
type ServerDiagnosticsProcess struct {
	ID                     uint32  `json:"id"`
	ResidentMemoryBytes    *uint64 `json:"residentMemoryBytes"`
	PhysicalFootprintBytes *uint64 `json:"physicalFootprintBytes"`
}

// ServerDiagnosticsGauge is a number of things that exist now, such as connections.
type ServerDiagnosticsGauge struct {
	Name  string `json:"name"`
	Value uint64 `json:"value"`
}

// MCPServerRefreshResponse is the result of config/mcpServer/reload.
type MCPServerRefreshResponse struct{}

// ListMCPServerStatusParams are the parameters of mcpServerStatus/list.
type ListMCPServerStatusParams struct {
	Page
	ThreadID   *string                `json:"threadId,omitempty"`   // a thread that runs; absent: the server's folder
	ServerName *string                `json:"serverName,omitempty"` // absent: all
	Detail     *MCPServerStatusDetail `json:"detail,omitempty"`     // absent: full
}

// MCPServerStatusDetail is what is wanted of MCP servers.
type MCPServerStatusDetail string

// Details of MCP servers. Resources are requested from the servers, which start for that.
const (
	MCPServerStatusFull             MCPServerStatusDetail = "full"
	MCPServerStatusToolsAndAuthOnly MCPServerStatusDetail = "toolsAndAuthOnly"
)

func (MCPServerStatusDetail) values() []string {
	return names(MCPServerStatusFull, MCPServerStatusToolsAndAuthOnly)
}

// ListMCPServerStatusResponse is the result of mcpServerStatus/list.
type ListMCPServerStatusResponse struct {
	Data       []MCPServerStatus `json:"data"`
	NextCursor *string           `json:"nextCursor"`
}

// MCPServerStatus is an MCP server, or another source of tools of a plugin.
type MCPServerStatus struct {
	Name               string                      `json:"name"`
	RuntimeStatus      MCPServerRuntimeStatus      `json:"runtimeStatus"`
	AuthStatus         MCPAuthStatus               `json:"authStatus"`
	ServerCapabilities map[string]struct{}         `json:"serverCapabilities" nullable:"true"` // null: not known yet
	Tools              map[string]MCPTool          `json:"tools"`                              // by the server's names
	ToolsError         *string                     `json:"toolsError"`                         // why tools are missing
	Resources          []MCPServerResource         `json:"resources"`
	ResourceTemplates  []MCPServerResourceTemplate `json:"resourceTemplates"`
}

// MCPServerRuntimeStatus is the state of an MCP server.
type MCPServerRuntimeStatus string

// Runtime states of MCP servers. One is connected if its tools are known, also if it is started only by the next call.
const (
	MCPServerRuntimeStarting     MCPServerRuntimeStatus = "starting"
	MCPServerConnected           MCPServerRuntimeStatus = "connected"
	MCPServerNeedsAuthentication MCPServerRuntimeStatus = "authenticationRequired"
	MCPServerRuntimeFailed       MCPServerRuntimeStatus = "failed"
)

func (MCPServerRuntimeStatus) values() []string {
	return names(MCPServerRuntimeStarting, MCPServerConnected, MCPServerNeedsAuthentication, MCPServerRuntimeFailed)
}

// MCPAuthStatus says whether the user is logged in to an MCP server.
type MCPAuthStatus string

// Login states of MCP servers. The host knows of a login only that it is missing: tokens are the plugin's.
const (
	MCPAuthUnknown     MCPAuthStatus = "unknown"
	MCPAuthNotLoggedIn MCPAuthStatus = "notLoggedIn"
)

func (MCPAuthStatus) values() []string { return names(MCPAuthUnknown, MCPAuthNotLoggedIn) }

// MCPTool is a tool of an MCP server.
type MCPTool struct {
	Name         string              `json:"name"`
	Description  *string             `json:"description,omitempty"`
	InputSchema  json.RawMessage     `json:"inputSchema"`
	OutputSchema json.RawMessage     `json:"outputSchema,omitempty"`
	Annotations  *MCPToolAnnotations `json:"annotations,omitempty"`
}

// MCPToolAnnotations are what a server says of a tool's effects.
type MCPToolAnnotations struct {
	ReadOnlyHint    *bool `json:"readOnlyHint,omitempty"`
	DestructiveHint *bool `json:"destructiveHint,omitempty"`
	IdempotentHint  *bool `json:"idempotentHint,omitempty"`
	OpenWorldHint   *bool `json:"openWorldHint,omitempty"`
}

// MCPServerResource is a resource of an MCP server.
type MCPServerResource struct {
	URI         string  `json:"uri"`
	Name        string  `json:"name"`
	Description *string `json:"description,omitempty"`
	MIMEType    *string `json:"mimeType,omitempty"`
}

// MCPServerResourceTemplate is a template of the addresses of resources.
type MCPServerResourceTemplate struct {
	URITemplate string  `json:"uriTemplate"`
	Name        string  `json:"name"`
	Description *string `json:"description,omitempty"`
	MIMEType    *string `json:"mimeType,omitempty"`
}

// EnvironmentAddParams are the parameters of environment/add, which makes another machine known.
type EnvironmentAddParams struct {
	EnvironmentID    string  `json:"environmentId"`
	ExecServerURL    string  `json:"execServerUrl"`
	AuthBearerToken  *string `json:"authBearerToken,omitempty"`
	ConnectTimeoutMs *uint64 `json:"connectTimeoutMs,omitempty"`
}

// EnvironmentAddResponse is the result of environment/add.
type EnvironmentAddResponse struct{}

// EnvironmentInfoParams are the parameters of environment/info.
type EnvironmentInfoParams struct {
	EnvironmentID string `json:"environmentId"`
}

// EnvironmentInfoResponse is the result of environment/info.
type EnvironmentInfoResponse struct {
	Shell EnvironmentShellInfo `json:"shell"`
	Cwd   *string              `json:"cwd"`
}

// EnvironmentShellInfo is the user's shell on a machine.
type EnvironmentShellInfo struct {
	Name string `json:"name"`
	Path string `json:"path"`
}

// EnvironmentStatusParams are the parameters of environment/status.
type EnvironmentStatusParams struct {
	EnvironmentID string `json:"environmentId"`
}

// EnvironmentStatusResponse is the result of environment/status.
type EnvironmentStatusResponse struct {
	Status EnvironmentStatusKind `json:"status"`
	Error  *string               `json:"error"`
}

// EnvironmentStatusKind is the status of a machine.
type EnvironmentStatusKind string

// Statuses of machines.
const (
	EnvironmentReady        EnvironmentStatusKind = "ready"
	EnvironmentPending      EnvironmentStatusKind = "pending"
	EnvironmentDisconnected EnvironmentStatusKind = "disconnected"
	EnvironmentUnknown      EnvironmentStatusKind = "unknown"
)

func (EnvironmentStatusKind) values() []string {
	return names(EnvironmentReady, EnvironmentPending, EnvironmentDisconnected, EnvironmentUnknown)
}

// EnvironmentConnectionNotification announces that a machine of a thread is connected, or no longer is.
type EnvironmentConnectionNotification struct {
	ThreadID      string `json:"threadId"`
	EnvironmentID string `json:"environmentId"`
}

// FeedbackSaveParams are the parameters of feedback/save, which writes a report to a zip file. Nothing leaves the machine.
type FeedbackSaveParams struct {
	SavePath       string            `json:"savePath"` // below the folder feedback of gantry's home, absolute or relative to that; no file may be there
	Classification string            `json:"classification"`
	Reason         *string           `json:"reason,omitempty"`
	ThreadID       *string           `json:"threadId,omitempty"`
	IncludeLogs    bool              `json:"includeLogs,omitempty"`   // the log of the thread
	ExtraLogFiles  []string          `json:"extraLogFiles,omitempty"` // that the client may read with fs/readFile; at most 32
	Tags           map[string]string `json:"tags,omitempty"`
}

// FeedbackSaveResponse is the result of feedback/save.
type FeedbackSaveResponse struct {
	ThreadID   string  `json:"threadId"` // empty: the report is about no thread
	SavedPath  string  `json:"savedPath"`
	PromptHash *string `json:"promptHash,omitempty"`
}

// GetAccountParams are the parameters of account/read.
type GetAccountParams struct {
	RefreshToken bool `json:"refreshToken,omitempty"`
}

// GetAccountResponse is the result of account/read. gantry has no account: it has keys of providers.
type GetAccountResponse struct {
	Account            *Account `json:"account"` // null: no key is configured
	RequiresOpenAIAuth bool     `json:"requiresOpenaiAuth"`
}

// Account says how the default provider is used.
type Account struct{ Body AccountBody }

// AccountBody is [APIKeyAccount].
type AccountBody interface{ variant }

func (a Account) MarshalJSON() ([]byte, error)  { return Marshal(a) }
func (a *Account) UnmarshalJSON(b []byte) error { return unmarshal(b, a) }
func (Account) variants() variants              { return accounts }

var accounts = variantsOf(APIKeyAccount{})

// APIKeyAccount is an API key.
type APIKeyAccount struct{}

func (APIKeyAccount) kind() string { return "apiKey" }

// LoginAccountParams are the parameters of account/login/start.
type LoginAccountParams struct{ Body Login }

// Login is [APIKeyLogin] or [OAuthLogin].
type Login interface{ variant }

func (p LoginAccountParams) MarshalJSON() ([]byte, error)  { return Marshal(p) }
func (p *LoginAccountParams) UnmarshalJSON(b []byte) error { return unmarshal(b, p) }
func (LoginAccountParams) variants() variants              { return logins }

var logins = variantsOf(APIKeyLogin{}, OAuthLogin{})

// APIKeyLogin stores an API key.
type APIKeyLogin struct {
	APIKey string `json:"apiKey"`
	// Provider is the label of the provider's block; absent: the default provider. An addition of gantry.
	Provider *string `json:"provider,omitempty"`
}

func (APIKeyLogin) kind() string { return "apiKey" }

// OAuthLogin runs a provider's login. An addition of gantry.
type OAuthLogin struct {
	Provider *string `json:"provider,omitempty"` // label of the provider's block; absent: the default provider
}

func (OAuthLogin) kind() string { return "oauth" }

// LoginAccountResponse is the result of account/login/start.
type LoginAccountResponse struct{ Body LoginResult }

// LoginResult is [APIKeyLoginResult] or [OAuthLoginResult].
type LoginResult interface{ variant }

func (r LoginAccountResponse) MarshalJSON() ([]byte, error)  { return Marshal(r) }
func (r *LoginAccountResponse) UnmarshalJSON(b []byte) error { return unmarshal(b, r) }
func (LoginAccountResponse) variants() variants              { return loginResults }

var loginResults = variantsOf(APIKeyLoginResult{}, OAuthLoginResult{})

// APIKeyLoginResult: the key is stored.
type APIKeyLoginResult struct{}

func (APIKeyLoginResult) kind() string { return "apiKey" }

// OAuthLoginResult: the user has to open a page. account/login/completed follows.
type OAuthLoginResult struct {
	LoginID string `json:"loginId"`
	AuthURL string `json:"authUrl"`
}

func (OAuthLoginResult) kind() string { return "oauth" }

// CancelLoginAccountParams are the parameters of account/login/cancel.
type CancelLoginAccountParams struct {
	LoginID string `json:"loginId"`
}

// CancelLoginAccountResponse is the result of account/login/cancel.
type CancelLoginAccountResponse struct {
	Status CancelLoginAccountStatus `json:"status"`
}

// CancelLoginAccountStatus says what account/login/cancel did.
type CancelLoginAccountStatus string

// Outcomes of account/login/cancel.
const (
	LoginCanceled CancelLoginAccountStatus = "canceled"
	LoginNotFound CancelLoginAccountStatus = "notFound"
)

func (CancelLoginAccountStatus) values() []string { return names(LoginCanceled, LoginNotFound) }

// LogoutAccountResponse is the result of account/logout, which removes the stored key of the default provider.
type LogoutAccountResponse struct{}

// AccountLoginCompletedNotification announces how a login ended.
type AccountLoginCompletedNotification struct {
	LoginID *string `json:"loginId"`
	Success bool    `json:"success"`
	Error   *string `json:"error"`
}

// AccountUpdatedNotification announces that a key was stored or removed.
type AccountUpdatedNotification struct {
	AuthMode *AuthMode `json:"authMode"` // null: no key is configured
}

// AuthMode is a kind of credentials.
type AuthMode string

// AuthAPIKey is an API key.
const AuthAPIKey AuthMode = "apikey"

func (AuthMode) values() []string { return names(AuthAPIKey) }
