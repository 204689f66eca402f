package protocol

import "encoding/json"

// InitializeParams are the parameters of the first request of a connection.
type InitializeParams struct {
	ClientInfo   ClientInfo              `json:"clientInfo"`
	Capabilities *InitializeCapabilities `json:"capabilities,omitempty"`
}

// ClientInfo identifies a client.
type ClientInfo struct {
	Name    string  `json:"name"` // a legal value of an HTTP header
	Title   *string `json:"title,omitempty"`
	Version string  `json:"version"`
}

// InitializeCapabilities are what a client can do or wants.
type InitializeCapabilities struct {
	ExperimentalAPI bool `json:"experimentalApi,omitempty"`
	// OptOutNotificationMethods are the names of notifications that are not sent to this connection. Unknown names are ignored.
	OptOutNotificationMethods      []string                   `json:"optOutNotificationMethods,omitempty"`
	RequestAttestation             bool                       `json:"requestAttestation,omitempty"`
	MCPServerOpenAIFormElicitation bool                       `json:"mcpServerOpenaiFormElicitation,omitempty"`
	Extensions                     map[string]json.RawMessage `json:"extensions,omitempty"`
	RequiredHumanApproval          bool                       `json:"requiredHumanApproval,omitempty"`
	ExplicitGatewayOAuth           bool                       `json:"explicitGatewayOauth,omitempty"`
	// ServerRequestMethods are the names of the requests that this client can answer; absent: all. An addition of gantry.
	ServerRequestMethods []string `json:"serverRequestMethods,omitzero"`
}

// InitializeResponse is the result of initialize.
type InitializeResponse struct {
	UserAgent      string `json:"userAgent"` // NAME/VERSION …; clients read the version
	CodexHome      string `json:"codexHome"` // gantry's folder
	PlatformFamily string `json:"platformFamily"`
	PlatformOS     string `json:"platformOs"`
	// ProtocolVersion is [Version], and Methods are the names of the methods that the server has. Both are additions of gantry.
	ProtocolVersion string   `json:"protocolVersion,omitempty"`
	Methods         []string `json:"methods,omitempty"`
}

// ErrorData is the data of an error, an addition of gantry where codex has none.
type ErrorData struct {
	Kind string  `json:"kind,omitempty"` // for programs
	Next *string `json:"next,omitempty"` // what the user can do about it
	// Reason and RetryAfterMs belong to error -32001, where Reason is "overloaded".
	Reason       string  `json:"reason,omitempty"`
	RetryAfterMs *uint32 `json:"retryAfterMs,omitempty"`
	// InputErrorCode is "input_too_large", with the number of characters that are allowed and that were sent.
	InputErrorCode string  `json:"input_error_code,omitempty"`
	MaxChars       *uint64 `json:"max_chars,omitempty"`
	ActualChars    *uint64 `json:"actual_chars,omitempty"`
	// ConfigWriteErrorCode says why a configuration was not written.
	ConfigWriteErrorCode *ConfigWriteErrorCode `json:"config_write_error_code,omitempty"`
	// Message and CodexErrorInfo belong to a turn that cannot be steered, as in [TurnError].
	Message        string     `json:"message,omitempty"`
	CodexErrorInfo *ErrorInfo `json:"codexErrorInfo,omitempty"`
}

// ConfigWriteErrorCode says why a configuration was not written.
type ConfigWriteErrorCode string

// Reasons.
const (
	ConfigLayerReadonly       ConfigWriteErrorCode = "configLayerReadonly"
	ConfigRequirementReadonly ConfigWriteErrorCode = "configRequirementReadonly"
	ConfigVersionConflict     ConfigWriteErrorCode = "configVersionConflict"
	ConfigValidationError     ConfigWriteErrorCode = "configValidationError"
	ConfigPathNotFound        ConfigWriteErrorCode = "configPathNotFound"
	ConfigSchemaUnknownKey    ConfigWriteErrorCode = "configSchemaUnknownKey"
	UserLayerNotFound         ConfigWriteErrorCode = "userLayerNotFound"
)

func (ConfigWriteErrorCode) values() []string {
	return names(ConfigLayerReadonly, ConfigRequirementReadonly, ConfigVersionConflict, ConfigValidationError, ConfigPathNotFound,
		ConfigSchemaUnknownKey, UserLayerNotFound)
}

// SortDirection is the order of a list.
type SortDirection string

// Orders.
const (
	Ascending  SortDirection = "asc"
	Descending SortDirection = "desc"
)

func (SortDirection) values() []string { return names(Ascending, Descending) }

// Page selects a part of a list.
type Page struct {
	Cursor *string `json:"cursor,omitempty"` // of an earlier page; absent: the beginning
	Limit  *uint32 `json:"limit,omitempty"`  // the largest number of entries; 0 means 1
}
