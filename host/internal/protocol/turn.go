package protocol

// Turn is one round of work: from the user's input until the model has finished.
type Turn struct {
	ID          string        `json:"id"`
	Items       []ThreadItem  `json:"items"` // as many as ItemsView says
	ItemsView   TurnItemsView `json:"itemsView"`
	Status      TurnStatus    `json:"status"`
	Error       *TurnError    `json:"error"` // only if Status is failed
	StartedAt   *int64        `json:"startedAt"`
	CompletedAt *int64        `json:"completedAt"`
	DurationMs  *int64        `json:"durationMs"`
}

// TurnItemsView says which items a turn contains.
type TurnItemsView string

// Views of a turn's items.
const (
	ItemsNotLoaded TurnItemsView = "notLoaded" // none
	ItemsSummary   TurnItemsView = "summary"   // the first user message and the last agent message
	ItemsFull      TurnItemsView = "full"
)

func (TurnItemsView) values() []string { return names(ItemsNotLoaded, ItemsSummary, ItemsFull) }

// TurnStatus is the status of a turn.
type TurnStatus string

// Statuses of turns.
const (
	TurnCompleted   TurnStatus = "completed"
	TurnInterrupted TurnStatus = "interrupted"
	TurnFailed      TurnStatus = "failed"
	TurnInProgress  TurnStatus = "inProgress"
)

func (TurnStatus) values() []string {
	return names(TurnCompleted, TurnInterrupted, TurnFailed, TurnInProgress)
}

// TurnError says why a turn failed.
type TurnError struct {
	Message           string     `json:"message"`
	CodexErrorInfo    *ErrorInfo `json:"codexErrorInfo"`
	AdditionalDetails *string    `json:"additionalDetails"`
	Provider          *string    `json:"provider,omitempty"` // label of the provider block; an addition of gantry
	Next              *string    `json:"next,omitempty"`     // what to do about it; an addition of gantry
}

// ErrorInfo classifies an error.
type ErrorInfo struct {
	Kind         ErrorKind
	HTTP         *HTTPErrorDetails    `variant:"httpConnectionFailed,responseStreamConnectionFailed,responseStreamDisconnected,responseTooManyFailedAttempts"`
	NotSteerable *NotSteerableDetails `variant:"activeTurnNotSteerable"`
}

// HTTPErrorDetails is the status of a failed request.
type HTTPErrorDetails struct {
	HTTPStatusCode *uint16 `json:"httpStatusCode"`
}

// NotSteerableDetails names what the turn does.
type NotSteerableDetails struct {
	TurnKind NonSteerableTurnKind `json:"turnKind"`
}

// NonSteerableTurnKind is what a turn does that takes no further input.
type NonSteerableTurnKind string

// Kinds of turns that take no further input.
const (
	NonSteerableReview  NonSteerableTurnKind = "review"
	NonSteerableCompact NonSteerableTurnKind = "compact"
)

func (NonSteerableTurnKind) values() []string { return names(NonSteerableReview, NonSteerableCompact) }

// ErrorKind is the kind of an error.
type ErrorKind string

// Kinds of errors.
const (
	ErrorContextWindowExceeded  ErrorKind = "contextWindowExceeded"
	ErrorSessionBudgetExceeded  ErrorKind = "sessionBudgetExceeded"
	ErrorUsageLimitExceeded     ErrorKind = "usageLimitExceeded"
	ErrorRateLimitExceeded      ErrorKind = "rateLimitExceeded"
	ErrorServerOverloaded       ErrorKind = "serverOverloaded"
	ErrorModelNotFound          ErrorKind = "modelNotFound"
	ErrorInferenceHookDenied    ErrorKind = "inferenceHookDenied"
	ErrorTooManyDenials         ErrorKind = "tooManyDenials"
	ErrorInternalServer         ErrorKind = "internalServerError"
	ErrorUnauthorized           ErrorKind = "unauthorized"
	ErrorBadRequest             ErrorKind = "badRequest"
	ErrorThreadRollbackFailed   ErrorKind = "threadRollbackFailed"
	ErrorSandbox                ErrorKind = "sandboxError"
	ErrorOther                  ErrorKind = "other"
	ErrorHTTPConnectionFailed   ErrorKind = "httpConnectionFailed"
	ErrorStreamConnectionFailed ErrorKind = "responseStreamConnectionFailed"
	ErrorStreamDisconnected     ErrorKind = "responseStreamDisconnected"
	ErrorTooManyFailedAttempts  ErrorKind = "responseTooManyFailedAttempts"
	ErrorActiveTurnNotSteerable ErrorKind = "activeTurnNotSteerable"
)

func (ErrorKind) values() []string {
	return names(ErrorContextWindowExceeded, ErrorSessionBudgetExceeded, ErrorUsageLimitExceeded, ErrorRateLimitExceeded, ErrorServerOverloaded, ErrorModelNotFound, ErrorInferenceHookDenied, ErrorTooManyDenials, ErrorInternalServer, ErrorUnauthorized, ErrorBadRequest, ErrorThreadRollbackFailed, ErrorSandbox, ErrorOther, ErrorHTTPConnectionFailed, ErrorStreamConnectionFailed, ErrorStreamDisconnected, ErrorTooManyFailedAttempts, ErrorActiveTurnNotSteerable)
}

func (e ErrorInfo) MarshalJSON() ([]byte, error)  { return Marshal(e) }
func (e *ErrorInfo) UnmarshalJSON(b []byte) error { return unmarshal(b, e) }
func (ErrorInfo) isChoice()                       {}

// ThreadTokenUsage is the usage of tokens.
type ThreadTokenUsage struct {
	Total              TokenUsageBreakdown `json:"total"` // of the thread
	Last               TokenUsageBreakdown `json:"last"`  // of the last response
	ModelContextWindow *int64              `json:"modelContextWindow"`
}

// TokenUsageBreakdown counts tokens.
type TokenUsageBreakdown struct {
	TotalTokens           int64 `json:"totalTokens"`
	InputTokens           int64 `json:"inputTokens"` // with cached ones
	CachedInputTokens     int64 `json:"cachedInputTokens"`
	CacheWriteInputTokens int64 `json:"cacheWriteInputTokens"`
	OutputTokens          int64 `json:"outputTokens"` // with reasoning
	ReasoningOutputTokens int64 `json:"reasoningOutputTokens"`
}
