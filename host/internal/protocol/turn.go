package protocol

import "encoding/json"

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

// TurnStatus is the status of a turn.
type TurnStatus string

// Statuses of turns.
const (
	TurnCompleted   TurnStatus = "completed"
	TurnInterrupted TurnStatus = "interrupted"
	TurnFailed      TurnStatus = "failed"
	TurnInProgress  TurnStatus = "inProgress"
)

// TurnError says why a turn failed.
type TurnError struct {
	Message           string     `json:"message"`
	CodexErrorInfo    *ErrorInfo `json:"codexErrorInfo"`
	AdditionalDetails *string    `json:"additionalDetails"`
	Provider          *string    `json:"provider,omitempty"` // label of the provider block; an addition of gantry
	Next              *string    `json:"next,omitempty"`     // what to do about it; an addition of gantry
}

// ErrorInfo classifies an error. It is a string, or an object with one member whose value has details: exactly one of the fields is set.
type ErrorInfo struct {
	Kind ErrorKind
	// HTTP is for the kinds that end with Connection..., Disconnected and TooManyFailedAttempts.
	HTTP *HTTPErrorDetails
	// NotSteerable is for [ErrorActiveTurnNotSteerable].
	NotSteerable *NotSteerableDetails
}

// HTTPErrorDetails is the status of a failed request.
type HTTPErrorDetails struct {
	HTTPStatusCode *uint16 `json:"httpStatusCode"`
}

// NotSteerableDetails names what the turn does.
type NotSteerableDetails struct {
	TurnKind string `json:"turnKind"` // "review" or "compact"
}

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

func (e ErrorInfo) MarshalJSON() ([]byte, error) {
	switch {
	case e.HTTP != nil:
		return json.Marshal(map[ErrorKind]*HTTPErrorDetails{e.Kind: e.HTTP})
	case e.NotSteerable != nil:
		return json.Marshal(map[ErrorKind]*NotSteerableDetails{e.Kind: e.NotSteerable})
	}
	return json.Marshal(e.Kind)
}

func (e *ErrorInfo) UnmarshalJSON(b []byte) error {
	if err := json.Unmarshal(b, &e.Kind); err == nil {
		return nil
	}
	var object map[ErrorKind]json.RawMessage
	if err := json.Unmarshal(b, &object); err != nil {
		return err
	}
	for kind, details := range object {
		e.Kind = kind
		if kind == ErrorActiveTurnNotSteerable {
			return json.Unmarshal(details, &e.NotSteerable)
		}
		return json.Unmarshal(details, &e.HTTP)
	}
	return nil
}

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
