package protocol

import "encoding/json"

// TurnStartParams are the parameters of turn/start. Settings apply to this and to later turns, except where a field says otherwise.
type TurnStartParams struct {
	ThreadID string      `json:"threadId"`
	Input    []UserInput `json:"input"`
	// ClientUserMessageID is chosen by the client. A repeated request with the same id starts no second turn.
	ClientUserMessageID *string `json:"clientUserMessageId,omitempty"`

	Cwd                   *string            `json:"cwd,omitempty"`
	RuntimeWorkspaceRoots []string           `json:"runtimeWorkspaceRoots,omitzero" experimental:"true"`
	ApprovalPolicy        *AskForApproval    `json:"approvalPolicy,omitempty"`
	ApprovalsReviewer     *ApprovalsReviewer `json:"approvalsReviewer,omitempty"`
	SandboxPolicy         *SandboxPolicy     `json:"sandboxPolicy,omitempty"`
	Permissions           *string            `json:"permissions,omitempty" experimental:"true"` // id of a profile; excludes SandboxPolicy
	Model                 *string            `json:"model,omitempty"`
	ServiceTier           Nullable[string]   `json:"serviceTier,omitzero"`
	Effort                *string            `json:"effort,omitempty"`
	Summary               *ReasoningSummary  `json:"summary,omitempty"`
	Personality           *Personality       `json:"personality,omitempty"`
	CollaborationMode     *CollaborationMode `json:"collaborationMode,omitempty" experimental:"true"`
	MultiAgentMode        *MultiAgentMode    `json:"multiAgentMode,omitempty" experimental:"true"`
	DisabledPluginIDs     []string           `json:"disabledPluginIds,omitzero"`

	// The fields below apply to this turn only.

	OutputSchema                    json.RawMessage                   `json:"outputSchema,omitempty"` // of the final message
	Environments                    []Environment                     `json:"environments,omitzero" experimental:"true"`
	ServiceTierForTurn              *string                           `json:"serviceTierForTurn,omitempty"`
	AdditionalContext               map[string]AdditionalContextEntry `json:"additionalContext,omitempty" experimental:"true"`
	ToolOutput                      *TurnToolOutput                   `json:"toolOutput,omitempty"`
	ResponsesAPIClientMetadata      map[string]string                 `json:"responsesapiClientMetadata,omitempty" experimental:"true"`
	ResponsesAPIClientMetadataPatch map[string]string                 `json:"responsesapiClientMetadataPatch,omitempty" experimental:"true"`
	TurnTrigger                     *string                           `json:"turnTrigger,omitempty"`
	ParentTurnID                    *string                           `json:"parentTurnId,omitempty"`
	RootTurnID                      *string                           `json:"rootTurnId,omitempty"`
}

// AdditionalContextEntry is text that the model gets with the user's input.
type AdditionalContextEntry struct {
	Value string                `json:"value"`
	Kind  AdditionalContextKind `json:"kind"`
	Name  *string               `json:"name,omitempty"`
}

// AdditionalContextKind says how far the text is trusted.
type AdditionalContextKind string

// Kinds of context.
const (
	ContextUntrusted   AdditionalContextKind = "untrusted"
	ContextApplication AdditionalContextKind = "application"
)

func (AdditionalContextKind) values() []string { return names(ContextUntrusted, ContextApplication) }

// TurnToolOutput is the output of a tool that the client ran.
type TurnToolOutput struct {
	Name      string          `json:"name"`
	Namespace *string         `json:"namespace,omitempty"`
	Output    json.RawMessage `json:"output"`
	Retain    bool            `json:"retain,omitempty"`
}

// TurnStartResponse is the result of turn/start.
type TurnStartResponse struct {
	Turn Turn `json:"turn"`
}

// TurnSteerParams are the parameters of turn/steer.
type TurnSteerParams struct {
	ThreadID                        string                            `json:"threadId"`
	Input                           []UserInput                       `json:"input"`
	ExpectedTurnID                  string                            `json:"expectedTurnId"` // the running turn
	ClientUserMessageID             *string                           `json:"clientUserMessageId,omitempty"`
	AdditionalContext               map[string]AdditionalContextEntry `json:"additionalContext,omitempty" experimental:"true"`
	ResponsesAPIClientMetadata      map[string]string                 `json:"responsesapiClientMetadata,omitempty" experimental:"true"`
	ResponsesAPIClientMetadataPatch map[string]string                 `json:"responsesapiClientMetadataPatch,omitempty" experimental:"true"`
}

// TurnSteerResponse is the result of turn/steer.
type TurnSteerResponse struct {
	TurnID string `json:"turnId"`
}

// TurnInterruptParams are the parameters of turn/interrupt.
type TurnInterruptParams struct {
	ThreadID string `json:"threadId"`
	TurnID   string `json:"turnId"` // empty: whatever the thread does to start
}

// TurnInterruptResponse is the result of turn/interrupt, sent when the turn has stopped.
type TurnInterruptResponse struct{}

// TurnSettingsUpdateParams are the parameters of turn/settings/update, which changes the running turn.
type TurnSettingsUpdateParams struct {
	ThreadID          string             `json:"threadId"`
	TurnID            string             `json:"turnId"`
	Model             *string            `json:"model,omitempty"`
	Effort            *string            `json:"effort,omitempty"`
	Summary           *ReasoningSummary  `json:"summary,omitempty"`
	ServiceTier       Nullable[string]   `json:"serviceTier,omitzero"`
	ApprovalsReviewer *ApprovalsReviewer `json:"approvalsReviewer,omitempty"`
	Environments      []Environment      `json:"environments,omitzero"`
}

// TurnSettingsUpdateResponse is the result of turn/settings/update.
type TurnSettingsUpdateResponse struct {
	Status TurnSettingsUpdateStatus `json:"status"`
}

// TurnSettingsUpdateStatus says what turn/settings/update did.
type TurnSettingsUpdateStatus string

// Outcomes of turn/settings/update.
const (
	TurnSettingsApplied           TurnSettingsUpdateStatus = "applied"
	TurnSettingsTargetUnavailable TurnSettingsUpdateStatus = "targetUnavailable" // the turn does not run, or asks no model
)

func (TurnSettingsUpdateStatus) values() []string {
	return names(TurnSettingsApplied, TurnSettingsTargetUnavailable)
}

// ReviewStartParams are the parameters of review/start.
type ReviewStartParams struct {
	ThreadID string          `json:"threadId"`
	Target   ReviewTarget    `json:"target"`
	Delivery *ReviewDelivery `json:"delivery,omitempty"`
}

// ReviewDelivery says where a review runs.
type ReviewDelivery string

// ReviewInline is a review in the thread itself, the only one there is.
const ReviewInline ReviewDelivery = "inline"

func (ReviewDelivery) values() []string { return names(ReviewInline) }

// ReviewTarget is what to review.
type ReviewTarget struct{ Body ReviewTargetBody }

// ReviewTargetBody is [ReviewUncommitted], [ReviewBaseBranch], [ReviewCommit] or [ReviewCustom].
type ReviewTargetBody interface{ variant }

func (t ReviewTarget) MarshalJSON() ([]byte, error)  { return Marshal(t) }
func (t *ReviewTarget) UnmarshalJSON(b []byte) error { return unmarshal(b, t) }
func (ReviewTarget) variants() variants              { return reviewTargets }

var reviewTargets = variantsOf(ReviewUncommitted{}, ReviewBaseBranch{}, ReviewCommit{}, ReviewCustom{})

// ReviewUncommitted reviews changes that are not committed.
type ReviewUncommitted struct{}

func (ReviewUncommitted) kind() string { return "uncommittedChanges" }

// ReviewBaseBranch reviews the changes since a branch.
type ReviewBaseBranch struct {
	Branch string `json:"branch"`
}

func (ReviewBaseBranch) kind() string { return "baseBranch" }

// ReviewCommit reviews a commit.
type ReviewCommit struct {
	SHA   string  `json:"sha"`
	Title *string `json:"title,omitempty"`
}

func (ReviewCommit) kind() string { return "commit" }

// ReviewCustom reviews what the instructions say.
type ReviewCustom struct {
	Instructions string `json:"instructions"`
}

func (ReviewCustom) kind() string { return "custom" }

// ReviewStartResponse is the result of review/start.
type ReviewStartResponse struct {
	Turn           Turn   `json:"turn"`
	ReviewThreadID string `json:"reviewThreadId"`
}

// UserInput is a part of a user's input: [TextInput], [ImageInput], [LocalImageInput], [SkillInput] or [MentionInput].
type UserInput struct{ Body UserInputBody }

// UserInputBody is the body of a part.
type UserInputBody interface{ variant }

func (i UserInput) MarshalJSON() ([]byte, error)  { return Marshal(i) }
func (i *UserInput) UnmarshalJSON(b []byte) error { return unmarshal(b, i) }
func (UserInput) variants() variants              { return userInputs }

var userInputs = variantsOf(TextInput{}, ImageInput{}, LocalImageInput{}, SkillInput{}, MentionInput{})

// TextInput is text.
type TextInput struct {
	Text         string        `json:"text"`
	TextElements []TextElement `json:"text_elements,omitempty"`
}

func (TextInput) kind() string { return "text" }

// TextElement is a part of a text that clients display in another form, such as a mention.
type TextElement struct {
	ByteRange   ByteRange `json:"byteRange"`
	Placeholder *string   `json:"placeholder"`
}

// ByteRange is a half-open range of bytes.
type ByteRange struct {
	Start uint64 `json:"start"`
	End   uint64 `json:"end"`
}

// ImageInput is an image.
type ImageInput struct {
	URL    string       `json:"url"` // a data URL
	Detail *ImageDetail `json:"detail,omitempty"`
}

func (ImageInput) kind() string { return "image" }

// ImageDetail is the resolution at which the model sees an image.
type ImageDetail string

// Details of images.
const (
	DetailAuto     ImageDetail = "auto"
	DetailLow      ImageDetail = "low"
	DetailHigh     ImageDetail = "high"
	DetailOriginal ImageDetail = "original"
)

func (ImageDetail) values() []string { return names(DetailAuto, DetailLow, DetailHigh, DetailOriginal) }

// LocalImageInput is an image file on the server's machine.
type LocalImageInput struct {
	Path   string       `json:"path"`
	Detail *ImageDetail `json:"detail,omitempty"`
}

func (LocalImageInput) kind() string { return "localImage" }

// SkillInput refers to a skill.
type SkillInput struct {
	Name string `json:"name"`
	Path string `json:"path"`
}

func (SkillInput) kind() string { return "skill" }

// MentionInput refers to a file, an app or an agent.
type MentionInput struct {
	Name string `json:"name"`
	Path string `json:"path"`
}

func (MentionInput) kind() string { return "mention" }
