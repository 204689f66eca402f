package contract

import "encoding/json"

// Effect is something that a call does outside the conversation: [ExecEffect], [WriteEffect], [ReadEffect],
// [NetworkEffect], [BrowserEffect], [SessionInputEffect] or [OtherEffect].
type Effect interface{ isEffect() }

// ExecEffect runs a program in Cwd (absolute). ShellText is the command as the model wrote it, for shells.
type ExecEffect struct {
	Argv      []string `json:"argv"`
	Cwd       string   `json:"cwd,omitempty"`
	ShellText string   `json:"shellText,omitempty"`
	TTY       bool     `json:"tty,omitempty"`
}

// WriteEffect creates, changes or removes files; absolute paths.
type WriteEffect struct {
	Paths []string `json:"paths"`
}

// ReadEffect reads files outside the workspace; absolute paths.
type ReadEffect struct {
	Paths []string `json:"paths"`
}

// NetworkEffect reaches a host. Port 0: any. Method empty: any or not HTTP.
type NetworkEffect struct {
	Host   string `json:"host"`
	Port   uint32 `json:"port,omitempty"`
	Method string `json:"method,omitempty"`
}

// BrowserEffect acts on a web origin.
type BrowserEffect struct {
	Origin string `json:"origin"`
}

// SessionInputEffect types into a running session.
type SessionInputEffect struct {
	SessionID string `json:"sessionId"`
	Text      string `json:"text"`
}

// OtherEffect is anything else.
type OtherEffect struct {
	Label string `json:"label"`
}

func (ExecEffect) isEffect()         {}
func (WriteEffect) isEffect()        {}
func (ReadEffect) isEffect()         {}
func (NetworkEffect) isEffect()      {}
func (BrowserEffect) isEffect()      {}
func (SessionInputEffect) isEffect() {}
func (OtherEffect) isEffect()        {}

// Item is how a call appears to a user: [CommandItem], [FileChangeItem], [MCPCallItem], [WebSearchItem], [ImageItem],
// [BrowserItem] or [OtherItem].
type Item interface{ isItem() }

// CommandItem is a command that runs or ran. ExitCode is set once it has ended; a signal n is 128+n.
type CommandItem struct {
	Command   string
	Cwd       string
	ExitCode  *int32
	SessionID string
}

// FileChangeItem is a set of file changes.
type FileChangeItem struct{ Changes []FileChange }

// ChangeKind says what happens to a file.
type ChangeKind int

// The kinds of change.
const (
	ChangeUnknown ChangeKind = iota
	ChangeAdd
	ChangeUpdate
	ChangeDelete
)

var changeNames = [...]string{"unknown", "add", "update", "delete"}

// String returns the name used in JSON.
func (k ChangeKind) String() string {
	if k < 0 || int(k) >= len(changeNames) {
		return changeNames[0]
	}
	return changeNames[k]
}

// FileChange is one file's change. Diff is unified with one line of context.
type FileChange struct {
	Path      string // absolute; for a move the destination
	Kind      ChangeKind
	Diff      string
	MovedFrom string
	// SHA-256 of the content before and after, lower-case hex; empty: not known. In an assessment AfterSHA256 announces what is to
	// be written, by which the host tells after a crash whether it was. The host keeps the content itself.
	BeforeSHA256 string
	AfterSHA256  string
}

// MCPCallItem is a call of an MCP server's tool.
type MCPCallItem struct {
	Server, Tool string
	Arguments    json.RawMessage
}

// WebSearchItem is a web search.
type WebSearchItem struct{ Query string }

// ImageItem is an image that was looked at or made.
type ImageItem struct{ Path, ArtifactSHA256 string }

// BrowserItem is a step in a browser.
type BrowserItem struct{ Action, URL string }

// OtherItem is anything else.
type OtherItem struct{ Title string }

func (*CommandItem) isItem()    {}
func (*FileChangeItem) isItem() {}
func (*MCPCallItem) isItem()    {}
func (*WebSearchItem) isItem()  {}
func (*ImageItem) isItem()      {}
func (*BrowserItem) isItem()    {}
func (*OtherItem) isItem()      {}

// Audience says who a part of a result is for.
type Audience int

// The audiences; unknown counts as both.
const (
	AudienceUnknown Audience = iota
	AudienceModel
	AudienceUser
	AudienceBoth
)

// Fit says what the host may do to text that is too long for the model.
type Fit int

// The fits; unknown counts as truncatable under the host's default budget.
const (
	FitUnknown Fit = iota
	FitVerbatim
	FitBounded
	FitTruncatable
)

// Part is one piece of an answer: [*TextPart], [*MediaPart], [*ArtifactPart], [*JSONPart] or [*SealedPart].
type Part interface{ isPart() }

// TextPart is text.
type TextPart struct {
	Audience           Audience
	Text               string
	Fit                Fit
	MaxTokens          *int64 // most tokens this text may take; nil: the host's default
	TotalBytes         int64  // bytes the output had in all; 0: nothing was dropped
	OmittedBytes       int64  // bytes the plugin dropped from the middle
	AnnounceTruncation bool   // prefix truncated text with the original token count and line count
}

// MediaPart is an image or another binary. Data or Artifact is set.
type MediaPart struct {
	Audience  Audience
	MediaType string
	Data      []byte
	Artifact  string
	Detail    string
}

// ArtifactPart refers to stored content.
type ArtifactPart struct {
	Audience Audience
	Artifact ArtifactRef
}

// JSONPart is structured content; the model sees compact JSON text.
type JSONPart struct {
	Audience Audience
	JSON     json.RawMessage
}

// SealedPart is content that nobody can read but the models of one vendor. They get it whole, all others get a line that says so.
type SealedPart struct {
	Audience  Audience
	Namespace string // of the vendor's metadata, "openai" for example: whose models can read it
	Data      string // as the vendor wants it back
}

func (*TextPart) isPart()     {}
func (*MediaPart) isPart()    {}
func (*ArtifactPart) isPart() {}
func (*JSONPart) isPart()     {}
func (*SealedPart) isPart()   {}

// ArtifactRef names content that is stored once under its SHA-256 (lower-case hex).
type ArtifactRef struct {
	SHA256    string
	SizeBytes int64
	MediaType string
	Name      string
}

// Result is the answer of a call.
type Result struct {
	Parts         []Part
	IsError       bool
	Item          Item // final item; nil: none
	SessionID     string
	SandboxDenied bool
	Structured    json.RawMessage
	Aborted       bool
}

// Text makes a result of one text part for model and user.
func Text(s string) *Result { return &Result{Parts: []Part{&TextPart{Text: s}}} }

// ErrorText makes a failed result of one text part.
func ErrorText(s string) *Result { return &Result{Parts: []Part{&TextPart{Text: s}}, IsError: true} }

// Input is what the model asked for: Arguments (JSON) or, when Freeform, Text.
type Input struct {
	Arguments json.RawMessage
	Text      string
	Freeform  bool
}

// Assessment says what a call would do.
type Assessment struct {
	Early          *Result // the call needs no running; nothing else counts
	Effects        []Effect
	Escalation     *Escalation
	ReadOnly       bool
	Idempotent     bool
	Summary        string
	Discriminators []string
	Item           Item
	Digest         string
}

// Escalation asks for more than the grant.
type Escalation struct {
	Unsandboxed   bool
	Additional    []Effect
	Justification string
	PrefixRule    []string
}

// GrantFacts is what a plugin may know of the grant that its call runs under.
type GrantFacts struct {
	SandboxMode   string // "full-access", "workspace-write", "read-only"
	WritableRoots []string
	Network       bool
	Digest        string
}

// AssessRequest asks what a call would do.
type AssessRequest struct {
	ThreadID, TurnID, CallID string
	Namespace, Tool          string
	Input                    Input
	Cwd                      string
	CallToken                string
	ToolsRevision            string
}

// CallStart begins a call.
type CallStart struct {
	ThreadID, TurnID, CallID string
	Namespace, Tool          string
	Input                    Input
	AssessDigest             string
	Grant                    GrantFacts
	Cwd                      string
	CallToken                string
	ToolsRevision            string
	Caps                     CallCaps
	Parents                  []string
	ModelTraits              []string
	Attempt                  uint32
}

// CallCaps are limits of one call.
type CallCaps struct {
	MaxOutputBytes int64
	MaxInlineBytes int64
	MaxModelTokens int64
	DeadlineMS     int64 // 0: none
}

// CallEvent is what a call sends: [Started], [Output], [Progress], [ArtifactRef], [ItemUpdate], [Note] or [*Result].
type CallEvent interface{ isCallEvent() }

// Started is the first event of a call.
type Started struct{ Item Item }

// Output is output as it appears, at an offset from the call's beginning.
type Output struct {
	Offset int64
	Data   []byte
}

// Progress is for people. Total 0: unknown.
type Progress struct {
	Message     string
	Done, Total float64
}

// ItemUpdate replaces the item.
type ItemUpdate struct{ Item Item }

// Note is something that a nested step has to say.
type Note struct{ Text string }

func (Started) isCallEvent()     {}
func (Output) isCallEvent()      {}
func (Progress) isCallEvent()    {}
func (ArtifactRef) isCallEvent() {}
func (ItemUpdate) isCallEvent()  {}
func (Note) isCallEvent()        {}
func (*Result) isCallEvent()     {}

// ThreadEvent is what Thread sends: [ContextText], [SessionOpened], [SessionOutput] or [SessionExited].
type ThreadEvent interface{ isThreadEvent() }

// ContextText is text for the model under a key; empty text removes it.
type ContextText struct{ Key, Text string }

// SessionOpened: something outlives its call.
type SessionOpened struct {
	SessionID, CallID, Title string
	Resumed                  bool // an earlier process of the plugin opened it
}

// SessionOutput is a session's output at an offset from its beginning.
type SessionOutput struct {
	SessionID string
	Offset    int64
	Data      []byte
}

// SessionEnd says how a session ended.
type SessionEnd int

// The ways a session ends.
const (
	SessionEndUnknown SessionEnd = iota
	SessionEndExited
	SessionEndDenied
	SessionEndLost
)

// SessionExited: the session is over.
type SessionExited struct {
	SessionID string
	End       SessionEnd
	ExitCode  int32
}

func (ContextText) isThreadEvent()   {}
func (SessionOpened) isThreadEvent() {}
func (SessionOutput) isThreadEvent() {}
func (SessionExited) isThreadEvent() {}
